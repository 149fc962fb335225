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

# try_all(each, make): every collective of one rank's array against NumPy on those of all ranks; make: the argument.
AGAINST_NUMPY = """
def values(x):
    return x.numpy() if isinstance(x, mg.Tensor) else np.asarray(x)

def same(found, wanted, x):
    assert type(found) is type(x) and found.dtype == x.dtype
    assert getattr(found, "device", "") == getattr(x, "device", "")
    np.testing.assert_array_equal(values(found), wanted, strict=True)

def try_all(each, make):
    x, kind, before = make(each[rank]), each[0].dtype.kind, each[rank].copy()
    each = np.array(each)
    ops = {"max": each.max(0), "min": each.min(0)}
    ops |= {"sum": each.sum(0, each.dtype)} if kind != "b" else {}
    ops |= {"mean": each.sum(0) / each.dtype.type(size)} if kind == "f" else {}
    for op, wanted in ops.items():
        same(dist.all_reduce(x, op), np.asarray(wanted, each.dtype), x)
        if x.ndim and len(x) % size == 0:
            rows = len(x) // size
            same(dist.reduce_scatter(x, op), np.asarray(wanted, each.dtype)[rank * rows : (rank + 1) * rows], x)
    same(dist.all_gather(x), each, x)
    for root in range(size):
        same(dist.broadcast(x, root), each[root], x)
    np.testing.assert_array_equal(values(x), before)

def drawn(shape, dtype):  # whole numbers: sums are exact
    rngs = [np.random.default_rng(r) for r in range(size)]
    return [np.asarray(rng.integers(0, 60, shape)).astype(dtype) for rng in rngs]
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
