"""OpenMP: recurrent networks on the processor, from the loops of the formula to threads. Its C++ is in cuda/recurrent.

A compiler without OpenMP builds the same files for one thread.
"""

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minigrad.devices.host_compiler import BuildError, cores
from minigrad.errors import require_int, require_word
from minigrad.nn.recurrent import Recurrent
from minigrad.ops.recurrence import CELLS, DIRECTIONS
from minigrad.recurrent.runner import REAL, Arrays, Runner
from minigrad.simulator.compiler import COMMON, load
from minigrad.simulator.translate import translate
from minigrad.source import Source

FILES = tuple(f"recurrent/{file}" for file in ("openmp.cpp", "packed.h", "vectors.h"))  # in cuda/
FLAGS = (*COMMON, "-O3", "-w", "-ffp-contract=fast", "-fno-math-errno")
THREADED = "-fopenmp"
RUNGS = ("formula", "packed", "units", "batch", "both", "wavefront")
ALONE = RUNGS[:2]  # rungs of one thread
AFFINITIES, SCHEDULES = ("none", "close", "spread"), ("static", "dynamic")
MOST = 256  # threads: the system may refuse more, which would end the process
LINE = 64  # bytes, of a cache
TILE = 8  # sequences at least of a group of threads: those that a whole tile of packed.h multiplies at once
LAG = 12  # inputs, two tiles of them, that a layer of a wavefront multiplies at once: as many steps at batch 1


class NativeLayer(ctypes.Structure):
    """One layer in one direction: `Layer` of packed.h."""

    numbers = ("cell", "reverse", "steps", "batch", "inputs", "hidden")
    arrays = ("x", "h", "weights_ih", "weights_hh", "bias_ih", "bias_hh", "lengths", "from_x", "y", "c", "end_h")
    _fields_ = tuple([(n, ctypes.c_int64) for n in numbers] + [(n, ctypes.c_void_p) for n in arrays])


class Team(ctypes.Structure):
    """The threads, and how they share the work: `Team` of openmp.cpp."""

    numbers = ("threads", "groups", "dynamic")
    _fields_ = (*((name, ctypes.c_int64) for name in numbers), ("cpus", ctypes.c_void_p))


class Prepared(NamedTuple):
    """A layer, y and the last state that it writes, and all arrays to which it has pointers."""

    layer: NativeLayer
    y: np.ndarray
    end: Arrays
    arrays: tuple[Any, ...]


class OpenMP(Runner):
    """A trained network on the processor's cores, by one rung of a ladder.

    - formula: the loops of the formula, one thread.
    - packed: weights packed for the registers, the product with all inputs taken out, one thread.
    - units: threads own hidden units, and meet at a barrier after each step.
    - batch: threads own sequences, and never meet.
    - both: groups of threads own sequences, and the threads of a group units. Where `groups` is not given, a
      group has two threads at least, and a whole tile of sequences.
    - wavefront: all layers at once, each some steps behind the one below; of both directions, the two of a layer.

    threads: as many as processors where not given; `formula` and `packed` have one. affinity binds them while they
    compute: "close" to one processor after the other, "spread" as far apart as these are numbered. schedule: "static",
    the same share at each step, or "dynamic", the next piece for whoever is free. `OpenMP["units"]` shows a rung's
    C++; `OpenMP.parts()` has all of it by title. After a run, do not fork this process: the child would wait for ever
    at its first parallel region.
    """

    files = FILES

    def __init__(
        self, module: Recurrent, rung: str = "units", threads: int | None = None, affinity: str = "none",
        schedule: str = "static", groups: int | None = None,
    ):  # fmt: skip
        super().__init__(module)
        self.rung = require_word("OpenMP", "rung", rung, RUNGS)
        self.affinity = require_word("OpenMP", "affinity", affinity, AFFINITIES)
        self.schedule = require_word("OpenMP", "schedule", schedule, SCHEDULES)
        self.library, threaded = library(str(self.dtype))
        wanted = len(cores()) if threads is None else at_most(MOST, "threads", threads)
        self.threads = wanted if threaded and self.rung not in ALONE else 1
        if groups is not None and self.threads % require_int("OpenMP", "groups", groups, 1):
            raise ValueError(f"OpenMP: groups={groups} must divide threads={self.threads}.")
        self.groups = groups
        self._cpus = bound(self.affinity, self.threads)
        width = ctypes.c_int.in_dll(self.library, "width").value if self.rung != "formula" else 1
        for at, (w_ih, w_hh, *biases) in self.weights.items():
            full = [np.zeros(len(w_ih), self.dtype) if bias is None else bias for bias in biases]
            self.weights[at] = [panels(w, module.gates, width) for w in (w_ih, w_hh, *(b[:, None] for b in full))]

    def __repr__(self) -> str:
        shared = f", affinity={self.affinity!r}, schedule={self.schedule!r}" if self.rung not in ALONE else ""
        groups = f", groups={self.groups}" if self.groups and self.rung == "both" else ""
        return f"OpenMP({self.module!r}, {self.rung!r}, threads={self.threads}{groups}{shared})"

    def run(self, x: Any, states: Sequence[Arrays], lengths: np.ndarray | None) -> tuple[Any, list[Arrays]]:
        """y and the last states; in a wavefront, of layers that go together."""
        if self.rung != "wavefront":
            return super().run(x, states, lengths)
        ways, ends = len(self.module.directions), list[Arrays]()
        together = [self.places] if ways == 1 else [self.places[i : i + ways] for i in range(0, len(self.places), ways)]
        for places in together:
            made: list[Prepared] = []
            for at in places:
                below = made[-1].y if made and ways == 1 else x
                made.append(self._prepared(below, at, states[len(ends) + len(made)], lengths))
            layers = (NativeLayer * len(made))(*(each.layer for each in made))
            lag = max(1, LAG // max(1, x.shape[1])) if ways == 1 else 0
            self.library.wavefront(layers, len(made), lag, ctypes.byref(self._team(x.shape[1])))
            ends += [each.end for each in made]
            x = made[-1].y if ways == 1 else self.concatenate([each.y for each in made])
        return x, ends

    def scan(self, x: np.ndarray, at: str, state: Arrays, lengths: np.ndarray | None) -> Arrays:
        """y (T, B, hidden) and the last state."""
        made = self._prepared(x, at, state, lengths)
        team = () if self.rung in ALONE else (ctypes.byref(self._team(x.shape[1])),)
        rung = "units" if self.rung == "wavefront" else self.rung  # of one layer they are the same
        getattr(self.library, rung)(ctypes.byref(made.layer), *team)
        return made.y, *made.end

    def _team(self, batch: int) -> Team:
        """The threads for so many sequences."""
        cpus = None if self._cpus is None else self._cpus.ctypes.data
        return Team(self.threads, self.groups or groups_of(self.threads, batch), self.schedule == "dynamic", cpus)

    def _prepared(self, x: np.ndarray, at: str, state: Arrays, lengths: np.ndarray | None) -> Prepared:
        """A layer in a direction for this x: pointers to the arrays themselves, where their rows have no gaps."""
        steps, batch, inputs = x.shape
        w_ih, w_hh, b_ih, b_hh = self.weights[at]
        x, h = map(np.ascontiguousarray, (x, state[0]))
        hidden = self.module.hidden_size
        shapes = (steps, batch, hidden), (batch, hidden), (steps * batch, b_ih.size)
        y, c, from_x = (aligned(shape, self.dtype) for shape in shapes)
        c[...] = state[-1]
        if lengths is not None:
            y[...] = 0
        end_h = h.copy()  # the end of a sequence of no steps
        limits = None if lengths is None else np.ascontiguousarray(lengths, np.int64)
        arrays = (x, h, w_ih, w_hh, b_ih, b_hh, limits, from_x, y, c, end_h)
        cell, reverse = list(CELLS).index(self.module.kind), at.endswith(DIRECTIONS[1])
        addresses = (None if array is None else array.ctypes.data for array in arrays)
        layer = NativeLayer(cell, reverse, steps, batch, inputs, hidden, *addresses)
        return Prepared(layer, y, (end_h, c)[: self.module.parts], arrays)


# --- the C++, compiled ---


@cache
def library(dtype: str, file: str = FILES[0], threaded: bool = True) -> tuple[Any, bool]:
    """A file compiled for a dtype, and True if it has threads: where the compiler has no OpenMP, it has none.

    Raises DeviceError where there is no compiler.
    """
    text = f"#define real {REAL[dtype]}\n{translate(Source.read(file), host=True).text}\n"
    flags, link = ((*FLAGS, THREADED), (THREADED,)) if threaded else (FLAGS, ())
    try:
        return load(file.rpartition("/")[2].partition(".")[0], text, flags, link)[0], threaded
    except (BuildError, OSError):  # no omp.h, or no runtime to load
        if not threaded:
            raise
        return library(dtype, file, False)


# --- weights ---


def panels(weights: np.ndarray, gates: int, width: int) -> np.ndarray:
    """(gates * hidden, size) as panels (blocks, gates, size, width), filled up with zeros; of width 1 as they are."""
    if width == 1:
        return np.ascontiguousarray(weights)
    hidden, size = len(weights) // gates, weights.shape[1]
    blocks = -(-hidden // width)
    full = np.zeros((gates, blocks * width, size), weights.dtype)
    full[:, :hidden] = weights.reshape(gates, hidden, size)
    packed = aligned((blocks, gates, size, width), weights.dtype)
    packed[...] = full.reshape(gates, blocks, width, size).transpose(1, 0, 3, 2)
    return packed


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array that begins with a line of the cache: no vector lies in two, and no two blocks of units share one."""
    nbytes = prod(shape) * dtype.itemsize
    buffer = np.empty(nbytes + LINE, np.uint8)
    start = -buffer.ctypes.data % LINE
    return buffer[start : start + nbytes].view(dtype).reshape(shape)


# --- arguments ---


def at_most(most: int, name: str, value: int) -> int:
    if (found := require_int("OpenMP", name, value, 1)) > most:
        raise ValueError(f"OpenMP: {name}={found} must be at most {most}.")
    return found


def groups_of(threads: int, batch: int) -> int:
    """The most groups, of equally many threads and of two at least, that have a tile of sequences each.

    A thread fetches h of its group's sequences alone, from the threads of the group.
    """
    most = min(threads // 2, batch // TILE)
    return max((n for n in range(2, most + 1) if threads % n == 0), default=1)


def bound(affinity: str, threads: int) -> np.ndarray | None:
    """The processor of each thread; None: the system chooses. Raises ValueError where threads cannot be bound."""
    if affinity == "none":
        return None
    if not hasattr(os, "sched_setaffinity"):
        raise ValueError(f"OpenMP: affinity={affinity!r}: this system binds no threads; leave it 'none'.")
    here, at = cores(), np.arange(threads)
    at = at if affinity == "close" else at * max(len(here) // threads, 1)
    return np.array(here, np.int64)[at % len(here)]
