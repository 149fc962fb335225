"""One op checked, then timed; beside NumPy and PyTorch on the same inputs, if asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from time import perf_counter
from typing import Any

from minigrad.bench.stage import Stage
from minigrad.bench.timing import Timing, timer
from minigrad.bench.work import Work, work_of
from minigrad.devices import check, get
from minigrad.op import Op
from minigrad.require import words

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
    from minigrad.bench.pytorch import PyTorch

    return PyTorch(get("cuda"))


def wall(work: Callable[[], Any], enough: float = 0.2) -> Timing:
    """The time on the host's clock: three runs, or fewer once they have taken long enough."""
    seconds: list[float] = []
    while len(seconds) < 3 and sum(seconds) < enough:
        start = perf_counter()
        work()
        seconds.append(perf_counter() - start)
    return Timing.of(seconds)
