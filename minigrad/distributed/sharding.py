"""shard: the rows of a set of data that a rank trains on in an epoch."""

import numpy as np

from minigrad.distributed import world
from minigrad.errors import require_bool, require_int


def shard(
    n: int, seed: int | None = 0, epoch: int = 0, rank: int | None = None, size: int | None = None,
    drop_last: bool = False,
) -> np.ndarray:  # fmt: skip
    """The indices of this rank among those of n rows, in an order of their own each epoch; without a seed in order.

    All ranks permute alike, and rank r of size takes order[r::size]: the k-th batches of b rows of all ranks are
    together the k-th batch of b * size rows of one rank. Where size does not divide n, the first rows of the order come
    again at its end, or with drop_last the rest is left out, so that all ranks have equally many. `mg.data.Loader` with
    rank and ranks makes the same parts of its batches, and has every row once.
    """
    size = world.size() if size is None else require_int("shard", "size", size, 1)
    rank = world.rank() if rank is None else require_int("shard", "rank", rank)
    if rank >= size:
        raise ValueError(f"shard: rank={rank} must be below size={size}.")
    order = np.arange(require_int("shard", "n", n))
    if seed is not None:
        seeds = require_int("shard", "seed", seed), require_int("shard", "epoch", epoch)
        order = np.random.default_rng(seeds).permutation(n)
    each = n // size if require_bool("shard", "drop_last", drop_last) else -(-n // size)
    return np.resize(order, each * size)[rank::size]
