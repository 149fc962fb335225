"""Fusion: a chain of elementwise operations, and the sum that closes it, as one kernel forward and one backward.

The modules in the order of the work: `values` and `trace` call the function once and note what it does, `write` makes
CUDA C++ of that, `fused` an op of it, with `reference`, the ops themselves one by one, as its truth.
"""

from collections.abc import Callable, Sequence

from minigrad.errors import a
from minigrad.fusion.fused import Fused
from minigrad.op import Case

__all__ = ["Fused", "fuse"]


def fuse(fn: Callable, cases: Sequence[Case] = ()) -> Fused:
    """`loss = mg.fuse(lambda x: ((x * x + 1).log() * x.exp()).sum())`, then `loss(x)`: an op with two kernels.

    fn is called once, with values that have no numbers, to note its operations; those that are elementwise, Python
    numbers among their inputs, become one kernel that keeps what lies between in registers; NumPy's functions stand for
    the operations of their names, np.exp(x) for x.exp(). `sum` or `mean` over all axes or the last ones may come last.
    The backward kernel works the values out again and applies the rules in reverse; the gradient of an input that is
    broadcast is summed afterwards.

    The result takes tensors of any shapes that broadcast, float32 or float64, on every device; `numpy` runs the ops one
    by one. It is an op as any other: it shows its kernels, joins the tape and graphs, and can be checked, by
    `mg.check.op`, on `cases` if given. Raises TypeError or ValueError for what cannot be fused, and names it.
    """
    for case in a("mg.fuse: cases", cases, Sequence, "a list of minigrad.op.Case"):
        a("mg.fuse: cases", case, Case, "a list of minigrad.op.Case")
    return Fused(a("mg.fuse", fn, Callable, "a function of tensors"), cases)
