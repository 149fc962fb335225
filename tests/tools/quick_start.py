"""A plugin of `make test` and `make soak`, which pytest imports ahead of nbval, as it is named by -p.

nbval imports jsonschema, and this a grammar of addresses, for two seconds in each process. No notebook has any.
"""

import sys

sys.modules["rfc3987_syntax"] = None  # jsonschema gets along without it
