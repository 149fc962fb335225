"""Time of a step of a recurrent network on the processor: each rung of the OpenMP ladder, PyTorch, and the limit.

The limit is that of a program that does nothing but the work: the product with the inputs and that with the state, each
at the peak of its multiplications; the second one no faster than all weights can be read once, from where an array of
that size lies. Both are what the threads reach when all of them do it at once: two of them may share a core, and all
share caches, memory and the clock.

PyTorch runs in a process of its own: the threads of two OpenMP libraries in one process would wait for their work by
spinning, on the same cores. Numbers of threads do not take turns, as OpenMP starts new threads where the number grows.
"""

import ctypes
import os
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import cache, partial
from multiprocessing import get_context
from time import perf_counter
from typing import NamedTuple

import numpy as np

from minigrad.create import tensor
from minigrad.devices.host_compiler import cores
from minigrad.devices.random import manual_seed, random_state, set_random_state
from minigrad.display import Table, Tabular, plural, table
from minigrad.errors import require, require_int, require_words
from minigrad.lab.bench.record import Times
from minigrad.lab.bench.timer import Call, Timing, clocked, in_turns
from minigrad.lab.check import ValueMismatch
from minigrad.nn import GRU, LSTM, RNN
from minigrad.nn.recurrent import Recurrent
from minigrad.recurrent import NumPy, OpenMP
from minigrad.recurrent.openmp import AFFINITIES, ALONE, RUNGS, SCHEDULES, aligned, library

CELLS: dict[str, Callable[..., Recurrent]] = {
    "tanh": RNN, "relu": partial(RNN, nonlinearity="relu"), "lstm": LSTM, "gru": GRU,
}  # fmt: skip
HIDDEN, BATCHES, RIVALS = (256, 512, 1024), (1, 32), ("torch",)
BOUND = tuple(f"units {how}" for how in (*AFFINITIES[1:], *SCHEDULES[1:]))  # "units close": affinity or schedule
MEASURED = ("packed", "units", "batch", "both")  # formula takes a second a step; wavefront is units in one layer
STEPS, PRODUCTS = 64, 2**28  # of a call, at most: a short call finds all processors free more often than a long one
LIMIT, BARRIER, PROCESSOR = "limit", "barrier", "bench/processor.cpp"  # beside the rungs; the limit's C++
LONG = 2**25  # bytes read in a call by each thread: a start of all threads is short beside it
CORES, MULTIPLY, READ = "cores at once", "multiplies", (1, 16)  # of what is measured, and MiB that each thread reads


@dataclass(frozen=True, repr=False)
class RecurrentTimes(Tabular):
    """Seconds a step: by network, as "lstm 512, batch 32, float32", and by rung or library and threads.

    load: the processes that wanted a processor, on the average of the last minute.
    """

    device: str
    date: str
    load: float
    times: dict[str, Times]

    def table(self) -> Table:
        rows = [row for title, times in self.times.items() for row in self._rows(title, times)]
        caption = f"A step, the fastest of some runs, on {self.device}, {self.date}, load {self.load:.1f}"
        return table(rows, ("network", "by", "us", "x torch", "of limit"), caption)

    def _rows(self, title: str, times: Times) -> list[tuple[str, ...]]:
        def over(name: str, label: str) -> str:
            other = times.get(f"{name}, {label.partition(', ')[2]}")
            return f"{other.fastest / times[label].fastest:.2f}" if other else ""

        shown = [label for label in times if not label.startswith((LIMIT, BARRIER))]
        return [
            (title, label, f"{times[label].fastest * 1e6:.1f}", over("torch", label), over(LIMIT, label))
            for label in shown
        ]


class Layered(NamedTuple):
    """Layers with as many inputs as units, for some sequences of so many steps."""

    cell: str
    hidden: int
    batch: int
    layers: int
    steps: int

    @property
    def title(self) -> str:
        """lstm 512, 4 layers, batch 1, float32"""
        layers = f", {self.layers} layers" if self.layers > 1 else ""
        return f"{self.cell} {self.hidden}{layers}, batch {self.batch}, float32"

    def made(self) -> tuple[Recurrent, np.ndarray]:
        """The network and x, the same in every process."""
        x = np.random.default_rng(0).standard_normal((self.steps, self.batch, self.hidden), np.float32)
        return network(CELLS[self.cell], self.hidden, self.layers), x


def recurrent_times(
    against: Sequence[str] = (), cells: Sequence[str] = ("tanh", "lstm", "gru"), hidden: Sequence[int] = HIDDEN,
    batches: Sequence[int] = BATCHES, threads: Sequence[int] | None = None, rungs: Sequence[str] = MEASURED,
    repeats: int = 15, steps: int | None = None, layers: int = 1,
) -> RecurrentTimes:  # fmt: skip
    """Time a step of networks whose inputs are as many as their units, and PyTorch's if it is in `against`.

    threads: 1 and as many as there are processors, where not given; steps: of the sequence, where not given 64, or
    fewer of a large step; rungs: also with an affinity or a schedule, as "units close". Results are compared with
    NumPy's before. Raises ValueError, TypeError, ImportError without PyTorch, DeviceError without a compiler.
    """
    who = "recurrent_times"
    against, cells = require_words(who, "against", against, RIVALS), require_words(who, "cells", cells, list(CELLS))
    rungs = require_words(who, "rungs", rungs, (*RUNGS, *BOUND))
    numbers = {"repeats": repeats, "layers": layers} | ({} if steps is None else {"steps": steps})
    for name, number in numbers.items():
        require_int(who, name, number, 1)
    for name, sizes in {"hidden": hidden, "batches": batches}.items():
        for size in require(f"{who}: {name}", sizes, Sequence, "a list of sizes"):
            require_int(who, name, size, 1)
    counts = [require_int(who, "threads", n, 1) for n in threads or sorted({1, len(cores())})]
    works = [
        Layered(cell, size, batch, layers, steps or min(STEPS, max(1, PRODUCTS // (batch * size**2))))
        for cell in cells for size in hidden for batch in batches
    ]  # fmt: skip
    times = {work.title: _times(work, counts, rungs, against, repeats) for work in works}
    place = f"{plural(os.cpu_count() or 1, 'processor')} ({platform.machine()})"
    return RecurrentTimes(place, date.today().isoformat(), os.getloadavg()[0], times)


def core_times(threads: Sequence[int]) -> Times:
    """Seconds in which each of so many threads at once does a million multiplications and additions, or reads.

    It forgets the limits, which are measured again then and later.
    """
    for known in (multiplications, bandwidth, barrier):
        known.cache_clear()
    found: Times = {}
    for n in threads:
        words = plural(n, "thread")
        found[f"{MULTIPLY}, {words}"] = Timing.of([1e6 / multiplications(n)], host=True)
        for mebibytes in READ:
            nbytes = mebibytes * 2**20
            found[f"reads {mebibytes} MiB, {words}"] = Timing.of([nbytes / bandwidth(nbytes, n)], host=True)
    return found


def _times(
    work: Layered, threads: Sequence[int], rungs: Sequence[str], against: Sequence[str], repeats: int
) -> Times:  # fmt: skip
    """The times of one network."""
    module, x = work.made()
    truth, given, found = _y(NumPy(module), x), tensor(x, device="numpy"), dict[str, Timing]()
    if "torch" in against:
        y, found = elsewhere().submit(torch_times, work, threads, repeats).result()
        must_agree("torch", y, truth)
    for n in threads:
        works: dict[str, Call] = {}
        for rung in rungs:
            if n == 1 or rung not in ALONE:
                works[f"{rung}, {plural(n, 'thread')}"] = partial(made(module, rung, n), given)
        for name, call in works.items():
            must_agree(name, call()[0].numpy(), truth)
        found |= a_step(works, repeats, work.steps)
    for n in threads:
        floors = {LIMIT: limit(module, work.batch, n), BARRIER: barrier(n)}
        found |= {f"{name}, {plural(n, 'thread')}": Timing.of([seconds]) for name, seconds in floors.items()}
    return found


def made(module: Recurrent, rung: str, threads: int) -> OpenMP:
    """The runner of a rung, as "units", or with an affinity or a schedule as "units close"."""
    name, _, how = rung.partition(" ")
    affinity, schedule = (how if how in words else words[0] for words in (AFFINITIES, SCHEDULES))
    return OpenMP(module, name, threads, affinity, schedule)


def a_step(works: dict[str, Call], repeats: int, steps: int) -> Times:
    """The times of a step of works that take turns."""
    taken = in_turns(works, dict.fromkeys(works, 1), repeats, before=lambda: None)
    return {
        label: Timing(t.seconds / steps, t.fastest / steps, t.slowest / steps, t.repeats, True)
        for label, t in taken.items()
    }


@cache
def elsewhere() -> ProcessPoolExecutor:
    """A process for PyTorch alone."""
    return ProcessPoolExecutor(1, get_context("spawn"))


def torch_times(work: Layered, threads: Sequence[int], repeats: int) -> tuple[np.ndarray, Times]:
    """y by PyTorch, and its times of a step. It runs in that process."""
    from minigrad.lab.bench.rivals.pytorch_recurrent import inference

    found: Times = {}
    for n in threads:
        call = inference(*work.made(), n)
        y = np.asarray(call())
        found |= a_step({f"torch, {plural(n, 'thread')}": call}, repeats, work.steps)
    return y, found


def _y(runner: NumPy | OpenMP, x: np.ndarray) -> np.ndarray:
    return runner(tensor(x, device="numpy"))[0].numpy()


def network(cell: Callable[..., Recurrent], hidden: int, layers: int = 1) -> Recurrent:
    """Layers with as many inputs as units, and the same weights each time."""
    saved = random_state()  # the user's, which continues afterwards as if nothing had been drawn
    manual_seed(0)
    try:
        return cell(hidden, hidden, layers, device="numpy")
    finally:
        set_random_state(saved)


def must_agree(label: str, y: np.ndarray, truth: np.ndarray, atol: float = 1e-5) -> None:
    """Raise ValueMismatch where y differs from the true one."""
    if not (off := np.abs(y - truth).max()) <= atol:
        raise ValueMismatch(f"{label}: y is off by {off:.2g}; not timed.")


# --- the limit ---


def limit(module: Recurrent, batch: int, threads: int) -> float:
    """Seconds a step that no program can undercut by this many threads.

    All layers have the sizes of the first.
    """
    weights = [w.array for w in module.weights("_l0")[:2]]
    inputs, state = (2 * batch * w.size / threads / multiplications(threads) for w in weights)
    share = max(weights[1].nbytes // threads, 1024)
    return module.num_layers * (inputs + max(state, share / bandwidth(share, threads)))


@cache
def barrier(threads: int) -> float:
    """Seconds of a barrier of these threads, and of nothing else: what a step of one unit takes longer than alone."""
    steps, module = 1000, network(RNN, 1)
    x = np.zeros((steps, 1, 1), np.float32)
    together, alone = (fastest(partial(_y, OpenMP(module, "units", n), x)) for n in (threads, 1))
    return max(0.0, together - alone) / steps


@cache
def multiplications(threads: int) -> float:
    """Multiplications and additions a second in float32, of each of so many threads at once."""
    n, native = LONG // 2**8, library("float32", PROCESSOR)[0]
    each = ctypes.c_int.in_dll(native, "operations").value
    return n * each / fastest(partial(native.multiply_add_together, *map(ctypes.c_int64, (n, threads))))


@cache
def bandwidth(nbytes: int, threads: int) -> float:
    """Bytes a second that each of so many threads reads at once, again and again from an array of its own."""
    count, n = nbytes // 1024 * 256, max(1, LONG // nbytes)
    array, native = aligned((threads, count), np.dtype(np.float32)), library("float32", PROCESSOR)[0]
    array[:] = 0
    numbers = (array.ctypes.data, count, n, threads)
    return n * array[0].nbytes / fastest(partial(native.read_together, *map(ctypes.c_int64, numbers)))


def fastest(call: Call, seconds: float = 0.3) -> float:
    """Seconds of the fastest of the calls that fit into a time."""
    clocked(call)
    end = perf_counter() + seconds
    return min(iter(lambda: clocked(call) if perf_counter() < end else None, None))
