"""The time of a recurrent network on ranks of MPI, for each split, and the part of it that is spent in messages.

A message's time contains the wait for the ranks that come later. What a rank runs alone, sequences or layers, OpenMP's
runner computes with one thread.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np

from minigrad.create import tensor
from minigrad.devices.random import manual_seed
from minigrad.display import Table, Tabular, plural, table
from minigrad.distributed import launch
from minigrad.errors import require_int
from minigrad.lab.bench.record import Times
from minigrad.lab.bench.timer import Timing
from minigrad.lab.check import ValueMismatch
from minigrad.nn import LSTM
from minigrad.recurrent.mpi import MPI, SPLITS
from minigrad.recurrent.openmp import OpenMP
from minigrad.recurrent.runner import NumPy

LIMIT = 1800  # seconds for a number of ranks
TOLERANCE = 1e-5
MESSAGES = ("Allgather", "Allgatherv", "Barrier", "Bcast", "Recv", "Send", "allgather")
CODE = "from minigrad.lab.bench.recurrent.ranks import on_rank\ntimes = on_rank()"


@dataclass(frozen=True)
class RecurrentWork:
    """An LSTM as large within as its inputs, and how it is split. Layers are as many as ranks can share."""

    split: str
    hidden: int
    batch: int
    steps: int
    layers: int = 1

    @property
    def title(self) -> str:
        """LSTM H512 B32 T64, hidden"""
        layers = f" {self.layers} layers" if self.layers > 1 else ""
        return f"LSTM{layers} H{self.hidden} B{self.batch} T{self.steps}, {self.split}"


@dataclass(frozen=True, repr=False)
class RankTimes(Tabular):
    """Times by title: "2 ranks" is the time of a call, "2 ranks, messages" the part of it in messages."""

    times: dict[str, Times]

    def table(self) -> Table:
        rows = []
        for title, times in self.times.items():
            steps, alone = int(title.partition(",")[0].rpartition("T")[2]), next(iter(times.values())).fastest
            for label, timing in times.items():
                if "," not in label:
                    each = [t.fastest / steps * 1e6 for t in (timing, times[f"{label}, messages"])]
                    rows.append((title, label, *(f"{us:.1f}" for us in each), f"{alone / timing.fastest:.2f}"))
        return table(rows, ("work", "ranks", "us a step", "of it messages", "speed-up"), "An LSTM on ranks of MPI")


def rank_times(
    ranks: Sequence[int] = (1, 2, 4), hidden: Sequence[int] = (512, 1024), batch: Sequence[int] = (1, 32),
    splits: Sequence[str] = SPLITS, steps: int = 64, repeats: int = 10,
) -> RankTimes:  # fmt: skip
    """Time each split of each size on so many ranks, of one thread each.

    Raises RankError and DeviceError as `launch` does.
    """
    for name, number in (("steps", steps), ("repeats", repeats)):
        require_int("rank_times", name, number, 1)
    sizes = product(hidden, batch, splits)
    works = [RecurrentWork(split, h, b, steps, max(ranks) if split == "layers" else 1) for h, b, split in sizes]
    words = [json.dumps([asdict(work) for work in works]), str(repeats)]
    times: dict[str, Times] = {work.title: {} for work in works}
    for n in ranks:
        found = launch(n, CODE, words, get="times", timeout=LIMIT, threads=1)["times"][0]
        for title, (calls, messages) in found.items():
            label = plural(n, "rank")
            times[title] |= {label: Timing.of(calls, True), f"{label}, messages": Timing.of(messages, True)}
    return RankTimes(times)


# --- on a rank ---


def on_rank() -> dict[str, tuple[list[float], list[float]]]:
    """The seconds of each call, those of the slowest rank, and in messages, the mean of the ranks, by title."""
    works, repeats = sys.argv[1:]
    comm = timed_comm()
    return {work.title: seconds(work, int(repeats), comm) for work in (RecurrentWork(**w) for w in json.loads(works))}


def seconds(work: RecurrentWork, repeats: int, comm: Any) -> tuple[list[float], list[float]]:
    """Each rank's time of each call, after its result was compared with NumPy's."""
    manual_seed(0)
    module = LSTM(work.hidden, work.hidden, work.layers, device="numpy")
    runner = MPI(module, comm, work.split, inner=partial(OpenMP, rung="packed"))
    shape = (work.steps, work.batch, work.hidden)
    x = tensor(np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32), device="numpy")
    if not (off := np.abs(runner(x)[0].numpy() - NumPy(module)(x)[0].numpy()).max()) <= TOLERANCE:
        raise ValueMismatch(f"{work.title} is off by {off:.2g}; it is not timed.")
    found = []
    for _ in range(repeats):
        comm.Barrier()
        comm.seconds, start = 0.0, perf_counter()
        runner(x)
        found.append((perf_counter() - start, comm.seconds))
    each = np.array(comm.allgather(found))  # (ranks, repeats, 2)
    return each[:, :, 0].max(0).tolist(), each[:, :, 1].mean(0).tolist()


def timed_comm() -> Any:
    """COMM_WORLD with a clock, `seconds`, of the calls that send or wait."""
    from mpi4py.MPI import COMM_WORLD, Intracomm

    def timed(name: str) -> Callable[..., Any]:
        send = getattr(Intracomm, name)

        def call(comm: Any, *arguments: Any, **options: Any) -> Any:
            start = perf_counter()
            done = send(comm, *arguments, **options)
            comm.seconds += perf_counter() - start
            return done

        return call

    kind: Any = type("TimedComm", (Intracomm,), {name: timed(name) for name in MESSAGES} | {"seconds": 0.0})
    return kind(COMM_WORLD)
