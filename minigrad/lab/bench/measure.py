"""Measuring one work: random inputs on the GPU, NumPy's result to compare with, then the time next to rivals.

Inputs rotate through a set larger than the GPU's cache, and a result that differs from NumPy's is not timed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate, cycle
from math import prod
from typing import Any

import numpy as np

from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.devices.dtypes import dtype_of
from minigrad.devices.layouts import in_layout
from minigrad.errors import require_words
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.lab.bench.timer import Timing, clocked, timer
from minigrad.lab.bench.work import Work, work_of
from minigrad.lab.check import ValueMismatch
from minigrad.op import Op

SPREAD, SPREAD_WHOLE = (Kernel("bench/random.cu", name) for name in ("spread", "spread_whole"))
FURTHEST = Kernel("bench/furthest.cu", "furthest")


class Draw:
    """Random arrays, drawn on the device: uploading them would take longer than measuring."""

    def __init__(self, device: Any, dtype: str = "float32"):
        self.device, self.dtype, self._seed = device, np.dtype(dtype), 0

    def _drawn(self, kernel: Kernel, dtype: np.dtype, count: int, low: float, high: float) -> Array:
        x = Array.empty(self.device, (count,), dtype)
        self._seed += 1
        kernel(x, low, high, self._seed, count, grid=ceil_div(count, 256), block=256)
        return x

    def real(self, count: int, low: float = -1.0, high: float = 1.0) -> Array:
        """Floats, uniform from low to high."""
        return self._drawn(SPREAD, self.dtype, count, low, high)

    def whole(self, count: int, low: int, high: int) -> Array:
        """int32, uniform: low <= x < high."""
        return self._drawn(SPREAD_WHOLE, np.dtype(np.int32), count, low, high)

    def upload(self, host: np.ndarray) -> Array:
        """Upload an array as floats of this dtype, or as int32."""
        return Array.upload(self.device, host.astype(self.dtype if host.dtype.kind == "f" else np.int32))


# --- comparing with NumPy ---


class Reference:
    """NumPy's result, on the host and, from the first comparison on, on the device."""

    def __init__(self, device: Any, host: np.ndarray):
        self.device, self.host = device, host
        self.size = max(1e-30, float(np.abs(host.astype(np.float32, copy=False)).max(initial=0)))
        self._array: Array | None = None

    def error(self, got: Array) -> float:
        """max |got - host| / max |host|; infinite for NaN, and for another shape or dtype."""
        if got.shape != self.host.shape or got.dtype != self.host.dtype:
            return np.inf
        if got.dtype != np.float32:
            if np.array_equal(host := got.numpy(), self.host):
                return 0.0
            off = np.abs(host.astype(np.float64) - self.host.astype(np.float64))
            return float(off.max(initial=0)) / self.size if np.isfinite(off).all() else np.inf
        self._array, got = self._array or Array.upload(self.device, self.host), in_layout(got, False)
        bits = Array.zeros(self.device, (1,), np.dtype(np.int32))
        FURTHEST(got, self._array, bits, got.size, grid=1024, block=256)
        return float(bits.numpy().view(np.float32)[0]) / self.size


# --- a work with its inputs ---

RANDOM = 2**26  # numbers that are drawn; a larger array repeats them
ALIGN = 64  # elements: an input begins where 16-byte loads may
WINDOWS = 50  # sets of inputs to rotate through, at most
# Of the largest element: 24, 24, 11 and 8 bits.
TOLERANCE = {"float32": 1e-4, "3xtf32": 1e-4, "tf32": 2e-3, "bfloat16": 1e-2}


class RandomNumbers:
    """Random numbers on the device and on the host. Inputs are windows into them: many sets, little memory."""

    def __init__(self, device: Any, elements: int, positive: bool, dtype: np.dtype):
        self.numbers = numbers(min(1 << elements.bit_length(), RANDOM), positive).astype(dtype, copy=False)
        self.array = Array.empty(device, (elements,), dtype)
        for start in range(0, elements, len(self.numbers)):
            device.upload(self.array.address + dtype.itemsize * start, self.numbers[: elements - start])

    def window(self, start: int, shape: tuple[int, ...], last: bool = False) -> Array:
        """The numbers from `start` on as an array on the device, without a copy; last: the channels of images are."""
        whole = self.array
        return Array(whole.device, shape, whole.dtype, whole.buffer, whole.address + whole.dtype.itemsize * start, last)

    def host(self, start: int, shape: tuple[int, ...], last: bool = False) -> np.ndarray:
        if last and len(shape) == 4:
            images, channels, *extents = shape
            return np.moveaxis(self.host(start, (images, *extents, channels)), -1, 1)
        first, count = start % len(self.numbers), prod(shape)
        stop = first + count
        tiled = self.numbers if stop <= len(self.numbers) else np.resize(self.numbers, stop)
        return tiled[first:stop].reshape(shape)


@cache
def numbers(count: int, positive: bool) -> np.ndarray:
    """Standard normal numbers; positive: |x| + 0.5. Never zeros: they hide faults, and can run faster."""
    drawn = np.random.default_rng(0).standard_normal(count, np.float32)
    return np.abs(drawn) + np.float32(0.5) if positive else drawn


class Experiment:
    """One work on one device: its inputs, NumPy's results, and the calls to time."""

    def __init__(self, work: Work, device: Any, cache: int = 0):
        self.work, self.device = work, device
        self.dry = work.dry()
        kind = dtype_of(work.dtype)
        shapes = [shape for shape, _ in work.shapes()] + ([self.dry.output] if work.way == "backward" else [])
        sizes = [ceil_div(prod(shape), ALIGN) * ALIGN for shape in shapes]
        self._places, length = list(zip(accumulate(sizes, initial=0), shapes, strict=False)), sum(sizes)
        self.windows = min(WINDOWS, max(1, ceil_div(2 * cache, max(1, kind.itemsize * length))))
        self.random = RandomNumbers(device, self.windows * length, work.case.positive, kind)
        fixed = [x if isinstance(x, np.ndarray) and x.dtype.kind != "f" else None for x in work.case.inputs]
        self._fixed = [*fixed, *[None] * (len(shapes) - len(fixed))]  # labels and flags, which all sets share
        own = [None if x is None else Array.upload(device, x) for x in self._fixed]
        self.inputs = [
            [
                x or self.random.window(i * length + at, shape, work.case.channels_last)
                for x, (at, shape) in zip(own, self._places, strict=True)
            ]
            for i in range(self.windows)
        ]  # sets of inputs, each followed by the upstream gradient of a backward work

    def reference_call(self) -> Callable[[], list[np.ndarray]]:
        """The NumPy reference, on the first set of inputs."""
        pairs = zip(self._fixed, self._places, strict=True)
        last = self.work.case.channels_last
        hosts = [self.random.host(*place, last) if x is None else x for x, place in pairs]
        return results(self.work, self.work.op, hosts)

    @cached_property
    def wanted(self) -> list[Reference]:
        return [Reference(self.device, y) for y in self.reference_call()()]

    def calls(self, op: Op | None = None) -> Callable[[], Sequence[Any]]:
        """A function that runs the op on the next set of inputs at each call."""
        chosen = op or self.work.chosen
        each = cycle([results(self.work, chosen, arrays) for arrays in self.inputs])
        return lambda: next(each)()

    def check(self, got: Sequence[Array], who: str) -> None:
        """Raise ValueMismatch for a wrong result, or NaN, of the first set of inputs: it is not timed."""
        allowed = TOLERANCE[self.work.unit]
        for array, reference in zip(got, self.wanted, strict=True):
            if not (error := reference.error(array)) <= allowed:
                raise ValueMismatch(
                    f"{self.work.title} by {who} is off by {error:.2g} of the largest element; a benchmark allows "
                    f"{allowed:g}. It is not timed: run mg.check.op(mg.{self.work.op.name}, device='cuda')."
                )


def results(work: Work, op: Op, arrays: Sequence[Any]) -> Callable[[], list[Any]]:
    """The call to time, which returns the output, or the gradients; their forward pass runs here, once."""
    inputs = list(arrays[: len(work.case.inputs)])
    if work.way == "forward":
        params = op.prepare(*inputs, **work.case.params) if op.prepare else work.case.params
        return lambda: [op.run(inputs, params)]
    _, pull = op.pullback(inputs, work.case.params)
    dy = arrays[-1]
    return lambda: [grad for grad in pull(dy) if grad is not None]


# --- measuring ---

RIVALS = ("torch", "numpy")


@dataclass(frozen=True)
class Measurement:
    """The time of a work, its FLOPs and bytes, and the times of rivals on the same inputs in the same process."""

    title: str
    kernels: tuple[str, ...]
    timing: Timing
    flops: int
    nbytes: int
    unit: str = "float32"  # of the arithmetic: float32, 3xtf32, tf32 or bfloat16
    rivals: Mapping[str, Timing] = field(default_factory=dict)

    @property
    def bytes_per_second(self) -> float:
        """The least bytes that the work must move, over its time."""
        return self.nbytes / self.timing.seconds

    @property
    def flops_per_second(self) -> float:
        """0 if FLOPs are not counted."""
        return self.flops / self.timing.seconds

    @property
    def intensity(self) -> float:
        """FLOPs per byte that must be moved."""
        return self.flops / self.nbytes

    def against(self, rival: str) -> float | None:
        """The rival's time over this time; below 1: slower than the rival."""
        return self.rivals[rival].seconds / self.timing.seconds if rival in self.rivals else None

    @staticmethod
    def from_json(title: str, entry: Mapping[str, Any]) -> "Measurement":
        rivals = {name: Timing.from_json(numbers) for name, numbers in entry["rivals"].items()}
        kernels, timing = tuple(entry["kernels"]), Timing.from_json(entry["us"])
        return Measurement(title, kernels, timing, entry["flops"], entry["bytes"], entry["unit"], rivals)

    def to_json(self) -> dict[str, Any]:
        return {
            "kernels": self.kernels, "us": self.timing, "flops": self.flops, "bytes": self.nbytes, "unit": self.unit,
            "rivals": self.rivals,
        }  # fmt: skip

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

    shapes: the inputs, as shapes or arrays; arrays of bfloat16 ask for random numbers of that dtype. params: those of
    the op, as axis=0. The cache is flushed before each run, and each call gets other inputs. Raises ValueMismatch for a
    wrong result, ValueError if there is nothing to time, DeviceError without a GPU: times of `sim` say nothing about
    one.
    """
    rivals = require_words("mg.bench.measure", "against", against, RIVALS)
    work = work_of(op, shapes, way, variant, **params)
    if not work.dry().launches:
        raise ValueError(f"{work.title} launches no kernel, so there is nothing to time.")
    return timed(set_up(work), rivals)


def set_up(work: Work) -> Experiment:
    """The experiment on this machine's GPU. Raises DeviceError without one."""
    gpu: Any = get(check("cuda"))
    return Experiment(work, gpu, gpu.chip.l2)


def timed(experiment: Experiment, against: Sequence[str] = (), repeats: int = 20) -> Measurement:
    """Check, then time, in turns with the rivals; NumPy on the host's clock."""
    contestants = verified(experiment, against)
    numpy = contestants.pop("numpy", None)
    times = timer().interleaved(contestants, repeats)
    if numpy:
        times["numpy"] = wall(numpy)
    kernels = tuple(dict.fromkeys(launch.kernel for launch in experiment.dry.launches))
    work, dry, mine = experiment.work, experiment.dry, times.pop("minigrad")
    return Measurement(work.title, kernels, mine, dry.flops, dry.nbytes, work.unit, times)


def verified(experiment: Experiment, against: Sequence[str] = ()) -> dict[str, Callable[[], Any]]:
    """The calls to time by name. Raises ValueMismatch where a result differs from NumPy's."""
    calls: dict[str, Callable[[], Any]] = {"minigrad": experiment.calls()}
    experiment.check(experiment.calls()(), "minigrad")
    if "torch" in against:
        calls["torch"] = pytorch().calls(experiment)
        if experiment.work.op.name not in ("dropout", "attention_dropout"):  # whose random numbers are PyTorch's own
            experiment.check(pytorch().arrays(pytorch().calls(experiment)()), "torch")
    if "numpy" in against:
        calls["numpy"] = experiment.reference_call()
    return calls


@cache
def pytorch() -> Any:
    """PyTorch, on the stream of the device `cuda`. Raises ImportError if it is not installed."""
    from minigrad.lab.bench.rivals.pytorch import PyTorch

    return PyTorch(get("cuda"))


def wall(work: Callable[[], Any], enough: float = 0.2) -> Timing:
    """The time on the host's clock: three runs, or fewer as soon as they took `enough` seconds."""
    seconds: list[float] = []
    while len(seconds) < 3 and sum(seconds) < enough:
        seconds.append(clocked(work))
    return Timing.of(seconds)
