"""Many processes by MPI: a job of ranks, started from Python, a notebook or the shell.

`launch(4, "from mpi4py import MPI; print(MPI.COMM_WORLD.rank)")`, the cell magic `%%mpi 4`, or
`python -m minigrad.distributed -n 4 script.py`.
"""

from minigrad.distributed.job import JobResult, launch

__all__ = ["JobResult", "launch"]
