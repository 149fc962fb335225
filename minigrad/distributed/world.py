"""World: the ranks of MPI that run this program, and the check that all of them make the same call."""

import atexit
import os
import sys
import threading
from functools import cache
from hashlib import blake2b
from itertools import zip_longest
from typing import Any

import numpy as np

from minigrad.devices import canonical, check, why_not
from minigrad.distributed.job import INSTALL
from minigrad.errors import DeviceError, RankError

STARTED = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"}  # environment: set for the ranks that mpiexec starts
END = "the end of its program"
SAME_CALLS = "Every rank must make the same calls in the same order, with the same shapes, dtypes and ops."


class World:
    """All ranks of a program: the number of this one, `rank`, that of all, `size`, and `local_rank` on its machine.

    comm: those of MPI, or None for a process that MPI has not started, a world of one. All ranks make it together: it
    has messages of its own, which never meet those that a program sends on the same communicator.
    """

    def __init__(self, comm: Any = None):
        self.rank, self.size, self.local_rank = 0, 1, 0
        self._thread: int | None = None  # that of its calls; those of several would meet in any order
        self._ended = False  # a rank is at its end: it would never come to another call
        if comm is not None:
            from mpi4py import MPI

            self.comm: Any = comm.Dup()
            self.rank, self.size = int(comm.rank), int(comm.size)
            machine = comm.Split_type(MPI.COMM_TYPE_SHARED)
            self.local_rank = int(machine.rank)
            machine.Free()

    def agree(self, call: str, *details: str, way_out: str = SAME_CALLS) -> None:
        """Wait until every rank has come here with a call, and go on if it is the same with the same details.

        Else raises ValueError on every rank, or RankError where one is at the end of its program, with the first
        difference and its ranks; RuntimeError in a second thread. Checksums travel first: 8 bytes a rank, unless there
        is something to say.
        """
        if self.size == 1:
            return
        self._thread = self._thread or threading.get_ident()
        if self._thread != threading.get_ident() and call != END:
            raise RuntimeError(f"{call}: another thread of this rank has called the others; call them from one thread.")
        if self._ended:
            raise RankError(f"{call}: a rank has come to the end of its program, and answers no more.")
        mine = np.frombuffer(blake2b("\n".join((call, *details)).encode(), digest_size=8).digest(), np.uint64)
        each = np.empty(self.size, np.uint64)
        self.comm.Allgather(mine, each)
        if (each != each[0]).any():
            raise self._difference(self.comm.allgather((call, *details)), way_out)

    def _difference(self, said: list[tuple[str, ...]], way_out: str) -> Exception:
        """The error for ranks that differ: first in the call, then in one detail after the other."""
        rows = enumerate(zip_longest(*said, fillvalue="nothing more"))
        at, row = next((at, row) for at, row in rows if len({*row}) > 1)
        ranks: dict[str, list[int]] = {}
        for rank, text in enumerate(row):
            ranks.setdefault(text, []).append(rank)
        one, several = ("has", "have") if at else ("is at", "are at")
        places = [
            f"ranks {', '.join(map(str, who))} {several} {text}" if who[1:] else f"rank {who[0]} {one} {text}"
            for text, who in ranks.items()
        ]
        sentence = f"{said[0][0] if at else 'distributed'}: {'; '.join(places)}. {way_out}"
        self._ended = END in row
        return RankError(sentence, ranks[END][0]) if self._ended else ValueError(sentence)

    def end(self) -> None:
        """Meet the other ranks a last time, so that those that still wait for this one are answered."""
        from mpi4py import MPI

        if not (self._ended or MPI.Is_finalized()):
            try:
                self.agree(END)
            except RankError as error:  # at the end of the process nothing could catch it
                print(error, file=sys.stderr)


@cache
def init() -> World:
    """The world of this process, MPI's COMM_WORLD. Every rank calls it, or anything else of this package, once.

    A process that MPI has not started is a world of one, and needs no mpi4py. Raises DeviceError where MPI has started
    it, and mpi4py is missing.
    """
    if "mpi4py.MPI" not in sys.modules and not STARTED & os.environ.keys():
        return World()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: it is there without a library of MPI
        raise DeviceError(f"MPI has started this process, and mpi4py cannot be imported: {INSTALL}") from error
    world = World(MPI.COMM_WORLD)
    atexit.register(world.end)
    return world


def rank() -> int:
    """The number of this process among all, from 0."""
    return init().rank


def size() -> int:
    """The number of ranks."""
    return init().size


def local_rank() -> int:
    """The number of this process among those of its machine, from 0."""
    return init().local_rank


def device(without: str = "numpy") -> str:
    """The device of this rank: the GPU `cuda:<local rank>`, or `without`, "numpy" or "sim", where there is none."""
    name = f"cuda:{local_rank()}"
    return check(without) if why_not(name) else canonical(name)
