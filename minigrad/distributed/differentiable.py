"""Sums and means over all ranks that are recorded on the tape: a loss, or statistics, of the batches of all ranks.

The loss of n ranks is the sum of theirs. A sum over the ranks is a part of each of these losses, so its gradient is
again a sum over the ranks, of the gradients that have arrived there: backward is a collective, too, and all ranks call
it with the same graph.
"""

from typing import Any

from minigrad import tape
from minigrad.distributed.collectives import all_reduce, sum_of_counts
from minigrad.errors import require
from minigrad.tensor import Tensor


def sum_over_ranks(x: Tensor, who: str = "sum_over_ranks") -> Tensor:
    """The sum of x over the ranks, as `all_reduce` gives it, on the tape: dx = the sum of dy over the ranks.

    who: the name of the call in the sentence for ranks that differ.
    """
    y = all_reduce(require(who, x, Tensor, "a tensor"), who=who)
    if x.requires_grad and tape.grad_enabled():
        y.record("sum_over_ranks", (x,), lambda dy: (_summed(dy, who),), ())
    return y


def mean_over_ranks(x: Tensor) -> Tensor:
    """The mean of all elements of the x of all ranks, on the tape, of any number of elements on each.

    As a loss, mean_over_ranks(cross_entropy(logits, labels, reduction="none")), it is that of one process with all the
    rows, on every rank, and so are the gradients that `DataParallel` averages. A rank without rows, (0, ...), counts 0.
    """
    total = sum_over_ranks(require("mean_over_ranks", x, Tensor, "a tensor").sum(), "mean_over_ranks")
    return total / sum_of_counts(x.size, "the count of mean_over_ranks")


def _summed(dy: Any, who: str) -> Any:
    return all_reduce(Tensor(dy), who=f"the gradient of {who}").array
