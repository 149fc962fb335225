"""Fusion: a chain of elementwise operations, and the sum that closes it, as one kernel forward and one backward.

`trace` calls the function once and records its operations, `write` generates CUDA C++ from them, and `fused` makes an
op that launches it, with the ops themselves, one by one, as its reference.
"""

from collections.abc import Callable, Sequence

from minigrad.errors import require
from minigrad.fusion.fused import Fused
from minigrad.op import Case

__all__ = ["Fused", "fuse"]


def fuse(fn: Callable, cases: Sequence[Case] = ()) -> Fused:
    """`loss = mg.fuse(lambda x: ((x * x + 1).log() * x.exp()).sum())`, then `loss(x)`: an op with two kernels.

    fn is called once, with symbolic values, to record its operations. The elementwise ones, with Python numbers among
    their inputs, become one kernel that keeps intermediate values in registers; NumPy's functions stand for the
    operations of their names, np.exp(x) for x.exp(). `sum` or `mean` over all axes or the last ones may come last. The
    backward kernel recomputes the values and applies the rules in reverse; another launch sums the gradient of an input
    that is broadcast.

    The result takes tensors of any shapes that broadcast, float32 or float64, on every device; `numpy` runs the ops one
    by one. It is an op like any other: it shows its kernels, works with the tape and graphs, and `mg.check.op` checks
    it, on `cases` if given. Raises TypeError or ValueError that names the operation that cannot be fused.
    """
    for case in require("mg.fuse: cases", cases, Sequence, "a list of minigrad.op.Case"):
        require("mg.fuse: cases", case, Case, "a list of minigrad.op.Case")
    return Fused(require("mg.fuse", fn, Callable, "a function of tensors"), cases)
