"""The beginning of the programs that tests run on ranks, and the run of such a program in the test's own process."""

import gc
import sys
from unittest.mock import patch

HEAD = """
import sys
import numpy as np
import minigrad as mg
from minigrad import distributed as dist, nn
rank, size = dist.rank(), dist.size()

def said(call):
    try:
        return f"no error: {call()!r}"
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
"""


def alone(code, arguments, get):
    """The variables of a program that runs here, in a world of one."""
    names = {}
    with patch.object(sys, "argv", ["code.py", *arguments]):
        exec(compile(code, "code.py", "exec"), names)
    found = {name: names[name] for name in get}
    names.clear()
    gc.collect()  # its modules follow no later backward pass
    return found
