"""The beginning of the programs that tests run on ranks."""

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
