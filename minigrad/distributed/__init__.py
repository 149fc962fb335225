"""Many processes by MPI: a job of ranks, started from Python, a notebook or the shell; and training on all of them.

Messages between ranks that have a GPU each go by NCCL, all others by MPI.

`launch(4, "from mpi4py import MPI; print(MPI.COMM_WORLD.rank)")`, the cell magic `%%mpi 4`, or
`python -m minigrad.distributed -n 4 script.py`. In the script, `rank()` and `size()`, collectives such as
`all_reduce(x)`, of which `sum_over_ranks` and `mean_over_ranks` are on the tape; `DataParallel(model)`,
`SyncBatchNorm2d`, `ZeroRedundancyOptimizer`; `save` and `load` of checkpoints.
"""

from minigrad.distributed.checkpoint import load, save
from minigrad.distributed.collectives import all_gather, all_reduce, barrier, broadcast, reduce_scatter
from minigrad.distributed.data_parallel import DataParallel
from minigrad.distributed.differentiable import mean_over_ranks, sum_over_ranks
from minigrad.distributed.job import JobResult, launch
from minigrad.distributed.sharding import shard
from minigrad.distributed.sync_batch_norm import SyncBatchNorm2d
from minigrad.distributed.world import World, device, init, local_rank, rank, size
from minigrad.distributed.zero_redundancy import ZeroRedundancyOptimizer

__all__ = [
    "DataParallel", "JobResult", "SyncBatchNorm2d", "World", "ZeroRedundancyOptimizer", "all_gather", "all_reduce",
    "barrier", "broadcast", "device", "init", "launch", "load", "local_rank", "mean_over_ranks", "rank",
    "reduce_scatter", "save", "shard", "size", "sum_over_ranks",
]  # fmt: skip
