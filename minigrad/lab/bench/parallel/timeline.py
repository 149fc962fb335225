"""The time line of a training step on each rank: what it computes, and which messages travel meanwhile."""

import ctypes
from collections.abc import Callable, Sequence
from itertools import pairwise
from time import perf_counter
from typing import Any

from minigrad import tape
from minigrad.devices import get
from minigrad.devices.cuda.libcuda import checked
from minigrad.distributed import DataParallel, init
from minigrad.distributed.host import backend_of
from minigrad.lab.bench.parallel.messages import DEVICE
from minigrad.lab.bench.parallel.training import ParallelStep
from minigrad.lab.bench.record import RankSpan

PARTS = ("forward", "backward", "wait", "update")
STEPS = 4  # that are watched, each after the one before; the last is kept


class Clock:
    """The host's clock, on which a message of MPI begins and ends, too."""

    def mark(self, aside: bool = False) -> Any:
        """This moment. aside: of the messages that overlap with the computation, which MPI has not."""
        return perf_counter()

    def seconds(self, start: Any, stop: Any) -> float:
        """From one moment to the next."""
        return stop - start

    def finish(self) -> None:
        """Wait for all that has been queued: here nothing."""

    def clear(self) -> None:
        """Forget all moments."""


class GPUClock(Clock):
    """Events on a GPU's own stream, and on the one of its messages: the moments at which the GPU comes to them."""

    def __init__(self, gpu: Any, side: Any):
        self._gpu, self._context, self._side, self._events = gpu, gpu.context, side, list[ctypes.c_void_p]()

    def mark(self, aside: bool = False) -> Any:
        event, context = ctypes.c_void_p(), self._context
        stream = self._side.handle if aside else ctypes.c_void_p(context.stream.handle)
        with context.guarded():
            checked(context.library, "cuEventCreate", ctypes.byref(event), 0)
            checked(context.library, "cuEventRecord", event, stream)
        self._events.append(event)
        return event

    def seconds(self, start: Any, stop: Any) -> float:
        found = ctypes.c_float()
        with self._context.guarded():
            checked(self._context.library, "cuEventElapsedTime", ctypes.byref(found), start, stop)
        return found.value * 1e-3

    def finish(self) -> None:
        self._gpu.finish()

    def clear(self) -> None:
        with self._context.guarded():
            while self._events:
                checked(self._context.library, "cuEventDestroy_v2", self._events.pop())


class RankWatch:
    """The spans of what this rank does within `with watch:`, a training step of a `DataParallel` with one backward.

    Its clock starts where all ranks have come together. In the lane "compute" are forward, backward, wait and update:
    the wait is from the last gradient to the last message. In the lane "messages" is every all-reduce of gradients, by
    its bytes. On a GPU both are of events in its streams, so the step must not be one of `mg.graph`.
    """

    spans: tuple[RankSpan, ...] = ()

    def __init__(self, device: str):
        backend: Any = backend_of(device)
        self._backend, self._clock = backend, GPUClock(get(device), backend.side) if backend.overlaps else Clock()

    def __enter__(self) -> "RankWatch":
        self._marks, self._messages = list[Any](), list[tuple[int, Any, Any]]()
        vars(self._backend)["all_reduce"] = self._all_reduce  # in front of the method, until the end
        tape.FOLLOWERS.append(self._follow)
        self._clock.finish()
        init().agree("RankWatch")
        self._marks.append(self._clock.mark())
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        del vars(self._backend)["all_reduce"]
        tape.FOLLOWERS.remove(self._follow)
        if kind is None:
            self._marks.append(self._clock.mark())
            self._clock.finish()
            self.spans = (*self._computed(), *self._sent())
        self._clock.clear()

    def _follow(self) -> Callable[[Any], None]:
        """A backward pass begins; the last mark but one is where its last gradient is there, the last its end."""
        before = [*self._marks, self._clock.mark()]

        def call(leaf: Any) -> None:
            after = [self._clock.mark()]
            self._marks = [*before, *after] if leaf is not None else [*self._marks, *after]

        return call

    def _all_reduce(self, arrays: Sequence[Any], op: str, overlap: bool = False) -> list[Any]:
        ready = self._clock.mark()
        made = type(self._backend).all_reduce(self._backend, arrays, op, overlap)
        if op == "mean":
            end = self._clock.mark(overlap and init().size > 1)
            self._messages.append((sum(x.nbytes for x in arrays), ready, end))
        return made

    def _computed(self) -> list[RankSpan]:
        at = [self._clock.seconds(self._marks[0], mark) for mark in self._marks]
        return [RankSpan("compute", name, *two) for name, two in zip(PARTS, pairwise(at), strict=True)]

    def _sent(self) -> list[RankSpan]:
        """A message begins when its gradients are there, and the one before it has arrived."""
        found: list[RankSpan] = []
        for nbytes, *two in self._messages:
            ready, end = (self._clock.seconds(self._marks[0], mark) for mark in two)
            begin = max([ready, *(span.stop for span in found[-1:])])
            found.append(RankSpan("messages", _size(nbytes), begin, end))
        return found


def _size(nbytes: int) -> str:
    """25.2 MB"""
    return f"{nbytes / 1e6:.3g} MB" if nbytes >= 1e5 else f"{nbytes / 1e3:.3g} kB"


def step_spans(step: ParallelStep) -> list[RankSpan]:
    """The spans of this rank in one step of a model, eager, with its gradients averaged."""
    work, watch = step.ours(DataParallel, False), RankWatch(DEVICE)
    for _ in range(STEPS):
        with watch:
            work()
    return [*watch.spans]
