"""World: the ranks of MPI that run this program, and the check that all of them make the same call."""

import atexit
import mmap
import os
import sys
import threading
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import zip_longest
from typing import Any
from zlib import crc32

from minigrad.devices import canonical, check, gpus, in_use, why_not
from minigrad.display import plural
from minigrad.distributed.job import INSTALL
from minigrad.errors import DeviceError, RankError, warn
from minigrad.replay import graph

STARTED = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"}  # environment: set for the ranks that mpiexec starts
NOTE = "MINIGRAD_CALL"  # environment: the file in which `launch` reads, after a fault, where this rank was
WAITS, PASSED = b"at", b"->"  # the first bytes of a note
END = "the end of its program"
SAME_CALLS = "Every rank must make the same calls in the same order, with the same shapes, dtypes and ops."


class World:
    """All ranks of a program: the number of this one, `rank`, that of all, `size`, and `local_rank` on its machine.

    comm: those of MPI, or None for a process that MPI has not started, a world of one. All ranks make it together: it
    has messages of its own, which never meet those that a program sends on the same communicator.
    """

    def __init__(self, comm: Any = None):
        self.rank, self.size, self.local_rank, self.local_size = 0, 1, 0, 1
        self._thread: int | None = None  # that of its calls; those of several would meet in any order
        self._ended = False  # a rank is at its end: it would never come to another call
        self._note = _note()
        self.agreed, self.first = 0, ""  # see `graph.Ranks`
        if comm is not None:
            from mpi4py import MPI

            self.comm: Any = comm.Dup()
            self.rank, self.size = int(comm.rank), int(comm.size)
            machine = comm.Split_type(MPI.COMM_TYPE_SHARED)
            self.local_rank, self.local_size = int(machine.rank), int(machine.size)
            machine.Free()

    def agree(self, call: str, *details: str, way_out: str = SAME_CALLS) -> None:
        """Wait until every rank has come here with a call, and go on if it is the same with the same details.

        Else raises ValueError on every rank, or RankError where one is at the end of its program, with the first
        difference and its ranks; RuntimeError in a second thread. Checksums travel first: 8 bytes a rank, unless there
        is something to say.
        """
        if self.size > 1:
            mine = _checksum((call, *details))
            self.first = self.first if self.agreed else call
            self.agreed = crc32(mine, self.agreed)
            if self._gathered(call, mine) != mine * self.size:
                raise self._difference(self.comm.allgather((call, *details)), way_out)

    def of_first(self, value: Any) -> Any:
        """The value of rank 0, on every rank, after they have agreed."""
        return self.comm.bcast(value) if self.size > 1 else value

    def numbers(self, call: str, calls: int, number: int) -> tuple[int, ...]:
        """The numbers of all ranks, which come here with the same call and checksum of calls; see `graph.Ranks`."""
        tag = _checksum((call, str(calls)))[:4]
        mine = tag + number.to_bytes(4, "little")
        if (each := self._gathered(call, mine)) == mine * self.size:
            return (number,) * self.size
        parts = [each[at : at + 8] for at in range(0, len(each), 8)]
        if any(part[:4] != tag for part in parts):
            raise self._difference(self.comm.allgather((call, f"calls with the checksum {calls:08x}")), SAME_CALLS)
        return tuple(int.from_bytes(part[4:], "little") for part in parts)

    def _gathered(self, call: str, mine: bytes) -> bytearray:
        """The 8 bytes of every rank."""
        thread = threading.get_ident()
        self._thread = self._thread or thread
        if self._thread != thread and call != END:
            raise RuntimeError(f"{call}: another thread of this rank has called the others; call them from one thread.")
        if self._ended:
            raise RankError(f"{call}: a rank has come to the end of its program, and answers no more.")
        each, note = bytearray(8 * self.size), self._note
        note[:] = _waits(call, len(note))
        self.comm.Allgather(mine, each)
        note[: len(PASSED)] = PASSED
        return each

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


def _note() -> Any:
    """The memory of the note's file, which outlives a rank that is killed; without a file, memory of this process."""
    if not (path := os.environ.get(NOTE)):
        return bytearray(len(WAITS))
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), 0)


@lru_cache
def _waits(call: str, size: int) -> bytes:
    """The note of a rank that waits at a call."""
    return (WAITS + call.encode())[:size].ljust(size)


@lru_cache
def _checksum(words: tuple[str, ...]) -> bytes:
    return blake2b("\n".join(words).encode(), digest_size=8).digest()


@cache
def init() -> World:
    """The world of this process, MPI's COMM_WORLD. Every rank calls it, or anything else of this package, once.

    A process that MPI has not started is a world of one, and needs no mpi4py. Where each rank of a machine can have a
    GPU of its own, its device `cuda` is from now on that of its local rank, unless CUDA_DEVICE names one or a GPU is in
    use. Raises DeviceError where MPI has started the process, and mpi4py is missing.
    """
    if "mpi4py.MPI" not in sys.modules and not STARTED & os.environ.keys():
        return World()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: it is there without a library of MPI
        raise DeviceError(f"MPI has started this process, and mpi4py cannot be imported: {INSTALL}") from error
    world = World(MPI.COMM_WORLD)
    free = "CUDA_DEVICE" not in os.environ and not any(device.is_gpu for device in in_use())
    if free and world.local_size <= gpus():
        os.environ["CUDA_DEVICE"] = str(world.local_rank)
    graph.RANKS.append(world)
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
    """The device of this rank: the GPU `cuda:<local rank>`, or `without`, "numpy" or "sim", on all ranks of a machine
    that has fewer GPUs than ranks; where it has some, a warning says so."""
    name, ranks = f"cuda:{local_rank()}", init().local_size
    if 0 < gpus() < ranks and local_rank() == 0:
        warn(
            f"{ranks} ranks on a machine with {plural(gpus(), 'GPU')}, and NCCL needs one for each: all compute on "
            f"{without!r}. Start as many ranks as there are GPUs to use these.",
            RuntimeWarning,
        )
    return check(without) if ranks > gpus() or why_not(name) else canonical(name)
