"""Draw: arrays of random numbers, made on the device where they are needed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import cycle
from math import prod
from time import perf_counter
from typing import Any

import numpy as np

from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.devices.dtypes import dtype_of
from minigrad.errors import words
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import ceil_div
from minigrad.lab.bench.timer import Timing, timer
from minigrad.lab.bench.work import Work, work_of
from minigrad.lab.check import ValueMismatch
from minigrad.op import Op
from minigrad.source import CUDA, Source

DRAW_TEXT = """
#include "common.cuh"

// A hash of a number: all of its bits change when one of them does.
__device__ unsigned mixed(unsigned h) {
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

// x[i] = a number from low to high.
extern "C" __global__ void spread(real* x, real low, real high, int seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = low + (high - low) * ((mixed(i + 77777u * seed) >> 8) * real(0x1p-24));
}

// x[i] = a whole number from low up to high, which is left out.
extern "C" __global__ void spread_whole(int* x, int low, int high, int seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = low + (int)(mixed(i + 77777u * seed) % (unsigned)(high - low));
}
"""
SOURCE = Source(DRAW_TEXT, "spread.cu", CUDA)
SPREAD, SPREAD_WHOLE = Kernel(SOURCE, "spread"), Kernel(SOURCE, "spread_whole")


class Draw:
    """Numbers drawn on a device: uploading as many would take longer than measuring."""

    def __init__(self, device: Any, dtype: str = "float32"):
        self.device, self.dtype, self._seed = device, np.dtype(dtype), 0

    def _drawn(self, kernel: Kernel, dtype: np.dtype, count: int, low: float, high: float) -> Array:
        x = Array.empty(self.device, (count,), dtype)
        self._seed += 1
        kernel(x, low, high, self._seed, count, grid=ceil_div(count, 256), block=256)
        return x

    def real(self, count: int, low: float = -1.0, high: float = 1.0) -> Array:
        """Numbers spread evenly from low to high."""
        return self._drawn(SPREAD, self.dtype, count, low, high)

    def whole(self, count: int, low: int, high: int) -> Array:
        """Whole numbers from low up to high, which is left out."""
        return self._drawn(SPREAD_WHOLE, np.dtype(np.int32), count, low, high)

    def given(self, host: np.ndarray) -> Array:
        """An array of the host, as floats of this dtype or as whole numbers."""
        return Array.upload(self.device, host.astype(self.dtype if host.dtype.kind == "f" else np.int32))


TEXT = """
// thread -> every so many elements. The largest distance, as the bits of a float of at least 0, which are ordered as
// whole numbers are; what is no number is infinitely far.
extern "C" __global__ void furthest(const float* got, const float* wanted, int* bits, long long n) {
    float most = 0;
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        float off = fabsf(got[i] - wanted[i]);
        most = off <= most ? most : off == off ? off : 1.0f / 0.0f;
    }
    atomicMax(bits, __float_as_int(most));
}
"""
furthest = Kernel(Source(TEXT, "furthest.cu", CUDA), "furthest")


class Reference:
    """NumPy's result, on the host and, once it is compared with, on the device too."""

    def __init__(self, device: Any, host: np.ndarray):
        self.device, self.host = device, host
        self.size = max(1e-30, float(np.abs(host.astype(np.float32, copy=False)).max(initial=0)))
        self._array: Array | None = None

    def error(self, got: Array) -> float:
        """The largest distance of an element, as a share of the largest element; infinite for NaN or another shape."""
        if got.shape != self.host.shape or got.dtype != self.host.dtype:
            return np.inf
        if got.dtype != np.float32:
            if np.array_equal(host := got.numpy(), self.host):
                return 0.0
            off = np.abs(host.astype(np.float64) - self.host.astype(np.float64))
            return float(off.max(initial=0)) / self.size if np.isfinite(off).all() else np.inf
        self._array = self._array or Array.upload(self.device, self.host)
        bits = Array.zeros(self.device, (1,), np.dtype(np.int32))
        furthest(got, self._array, bits, got.size, grid=1024, block=256)
        return float(bits.numpy().view(np.float32)[0]) / self.size


RANDOM = 2**26  # numbers that are drawn; a larger array repeats them
ALIGN = 64  # elements: windows begin where 16-byte loads may
WINDOWS = 50  # sets of inputs to rotate through
TOLERANCE = {"float32": 1e-4, "tf32": 2e-3, "bfloat16": 1e-2}  # of the largest element: 24, 11 and 8 bits


class Pool:
    """Random numbers on the device and on the host; inputs are windows of them, so that sets are many and cheap."""

    def __init__(self, device: Any, elements: int, positive: bool, dtype: np.dtype):
        self.numbers = numbers(min(1 << elements.bit_length(), RANDOM), positive).astype(dtype, copy=False)
        self.array = Array.empty(device, (elements,), dtype)
        for start in range(0, elements, len(self.numbers)):
            device.upload(self.array.address + dtype.itemsize * start, self.numbers[: elements - start])

    def window(self, start: int, shape: tuple[int, ...]) -> Array:
        """An array within the pool."""
        whole = self.array
        return Array(whole.device, shape, whole.dtype, whole.buffer, whole.address + whole.dtype.itemsize * start)

    def host(self, start: int, shape: tuple[int, ...]) -> np.ndarray:
        """The same numbers on the host."""
        first, count = start % len(self.numbers), prod(shape)
        stop = first + count
        tiled = self.numbers if stop <= len(self.numbers) else np.resize(self.numbers, stop)
        return tiled[first:stop].reshape(shape)


@cache
def numbers(count: int, positive: bool) -> np.ndarray:
    """Standard normal numbers, or as a case makes them positive. Never zeros: they hide faults, and can run faster."""
    drawn = np.random.default_rng(0).standard_normal(count, np.float32)
    return np.abs(drawn) + np.float32(0.5) if positive else drawn


class Stage:
    """One work on one device, ready to be checked and called."""

    def __init__(self, work: Work, device: Any, cache: int = 0):
        self.work, self.device = work, device
        self.dry = work.dry()
        shapes = work.shapes()
        kind = dtype_of(work.dtype)
        dy = [(self.dry.output, kind)] if work.way == "backward" else []
        self._places, self._set = _places([*shapes, *dy])
        self.windows = min(WINDOWS, max(1, -(-2 * cache // max(1, kind.itemsize * self._set))))
        self.pool = Pool(device, self.windows * self._set, work.case.positive, kind)
        self._given = [x if isinstance(x, np.ndarray) and x.dtype.kind != "f" else None for x in work.case.inputs]
        self._own = [None if x is None else Array.upload(device, x) for x in self._given]
        self.inputs = [self._arrays(i) for i in range(self.windows)]

    def _arrays(self, window: int) -> list[Array]:
        """A set of inputs, and the upstream gradient behind them where the work goes backward."""
        places = [(window * self._set + start, shape) for start, shape in self._places]
        own = [*self._own, *[None] * (len(places) - len(self._own))]
        return [own_ or self.pool.window(*place) for own_, place in zip(own, places, strict=True)]

    def hosts(self) -> list[np.ndarray]:
        """The first set of inputs as NumPy arrays."""
        given = [*self._given, *[None] * (len(self._places) - len(self._given))]
        return [self.pool.host(*place) if x is None else x for x, place in zip(given, self._places, strict=True)]

    def reference_call(self) -> Callable[[], list[np.ndarray]]:
        """NumPy's version, on the first set of inputs."""
        return results(self.work, self.work.op, self.hosts())

    @cached_property
    def wanted(self) -> list[Reference]:
        """What NumPy says for the first set of inputs."""
        return [Reference(self.device, y) for y in self.reference_call()()]

    def calls(self, op: Op | None = None) -> Callable[[], Sequence[Any]]:
        """A function that runs the op on the next set of inputs each time."""
        chosen = op or self.work.chosen
        each = cycle([results(self.work, chosen, arrays) for arrays in self.inputs])
        return lambda: next(each)()

    def check(self, got: Sequence[Array], who: str) -> None:
        """Raise ValueMismatch where a result for the first set is wrong: that is not timed. NaN is wrong."""
        for array, reference in zip(got, self.wanted, strict=True):
            allowed = TOLERANCE[self.work.unit]
            if not (error := reference.error(array)) <= allowed:
                raise ValueMismatch(
                    f"{self.work.title} by {who} is off by {error:.2g} of the largest element; a benchmark allows "
                    f"{allowed:g}. It is not timed: run mg.check.op(mg.{self.work.op.name}, device='cuda')."
                )


def results(work: Work, op: Op, arrays: Sequence[Any]) -> Callable[[], list[Any]]:
    """The call that makes the results: the output, or the gradients; what comes before a backward pass is done here."""
    inputs = list(arrays[: len(work.case.inputs)])
    if work.way == "forward":
        params = op.prepare(*inputs, **work.case.params) if op.prepare else work.case.params
        return lambda: [op.run(inputs, params)]
    _, pull = op.pullback(inputs, work.case.params)
    dy = arrays[-1]
    return lambda: [grad for grad in pull(dy) if grad is not None]


def _places(shapes: Sequence[tuple[tuple[int, ...], np.dtype]]) -> tuple[list[tuple[int, tuple[int, ...]]], int]:
    """Where each array of a set begins, in elements, and the length of a set."""
    places, at = [], 0
    for shape, _ in shapes:
        places.append((at, shape))
        at += -(-prod(shape) // ALIGN) * ALIGN
    return places, at


RIVALS = ("torch", "numpy")


@dataclass(frozen=True)
class Measurement:
    """What a work took, and what it moved and computed. `rivals` took this on the same inputs in the same process."""

    title: str
    kernels: tuple[str, ...]
    timing: Timing
    flops: int
    nbytes: int
    unit: str = "float32"  # what does the arithmetic: float32, tf32 or bfloat16
    rivals: Mapping[str, Timing] = field(default_factory=dict)

    @property
    def bytes_per_second(self) -> float:
        """The fewest bytes that the work must move, over its time."""
        return self.nbytes / self.timing.seconds

    @property
    def flops_per_second(self) -> float:
        """FLOPs over time; 0 where they are not counted."""
        return self.flops / self.timing.seconds

    @property
    def intensity(self) -> float:
        """FLOPs for each byte that must be moved."""
        return self.flops / self.nbytes

    def against(self, rival: str) -> float | None:
        """How many times faster than the rival; below 1: slower."""
        return self.rivals[rival].seconds / self.timing.seconds if rival in self.rivals else None

    def __repr__(self) -> str:
        parts = [f"{self.title}: {self.timing!r}, {self.bytes_per_second / 1e9:.0f} GB/s"]
        parts += [f"{self.flops_per_second / 1e12:.2f} TFLOP/s"] if self.flops else []
        parts += [f"{self.against(name):.2f} x {name}" for name in self.rivals]
        return ", ".join(parts)


def measure(
    op: Op | str,
    *shapes: Any,
    way: str = "forward",
    variant: str | None = None,
    against: Sequence[str] = (),
    **params: Any,
) -> Measurement:
    """Check, then time an op on random float32 numbers: `measure(mg.relu, (2**26,), against=["torch"])`.

    shapes stand for the inputs, as shapes or arrays; those of bfloat16 stand for random numbers of it. params are
    the op's own, as axis=0. Before each run the cache is flushed, and each call gets other inputs. Raises ValueMismatch
    for a wrong result, ValueError where there is nothing to time, DeviceError where there is no GPU: no time of `sim`
    says anything about one.
    """
    rivals = words("mg.bench.measure", "against", against, RIVALS)
    work = work_of(op, shapes, way, variant, **params)
    if not work.dry().launches:
        raise ValueError(f"{work.title} launches no kernel, so there is nothing to time.")
    return timed(staged(work), rivals)


def staged(work: Work) -> Stage:
    """A work set up on this machine's GPU. Raises DeviceError where there is none."""
    gpu: Any = get(check("cuda"))
    return Stage(work, gpu, gpu.chip.l2)


def timed(stage: Stage, against: Sequence[str] = (), repeats: int = 20) -> Measurement:
    """The measurement of a work that is set up."""
    contestants = verified(stage, against)
    numpy = contestants.pop("numpy", None)
    runs = timer().interleaved(list(contestants.values()), repeats, 2e-4)
    times = {name: Timing.of(r.seconds, not r.queued) for name, r in zip(contestants, runs, strict=True)}
    if numpy:
        times["numpy"] = wall(numpy)
    kernels = tuple(dict.fromkeys(launch.kernel for launch in stage.dry.launches))
    work, dry, mine = stage.work, stage.dry, times.pop("minigrad")
    return Measurement(work.title, kernels, mine, dry.flops, dry.nbytes, work.unit, times)


def verified(stage: Stage, against: Sequence[str] = ()) -> dict[str, Callable[[], Any]]:
    """The calls to time by name, each of whose results agrees with NumPy's. Raises ValueMismatch."""
    calls: dict[str, Callable[[], Any]] = {"minigrad": stage.calls()}
    stage.check(stage.calls()(), "minigrad")
    if "torch" in against:
        calls["torch"] = pytorch().calls(stage)
        stage.check(pytorch().arrays(pytorch().calls(stage)()), "torch")
    if "numpy" in against:
        calls["numpy"] = stage.reference_call()
    return calls


@cache
def pytorch() -> Any:
    """PyTorch, on the stream of the device `cuda`. Raises ImportError where it is not installed."""
    from minigrad.lab.bench.rivals.pytorch import PyTorch

    return PyTorch(get("cuda"))


def wall(work: Callable[[], Any], enough: float = 0.2) -> Timing:
    """The time on the host's clock: three runs, or fewer once they have taken long enough."""
    seconds: list[float] = []
    while len(seconds) < 3 and sum(seconds) < enough:
        start = perf_counter()
        work()
        seconds.append(perf_counter() - start)
    return Timing.of(seconds)
