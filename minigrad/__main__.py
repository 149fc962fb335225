"""`python -m minigrad` runs the command line."""

import sys

from minigrad.lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
