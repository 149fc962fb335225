"""Single layers of ResNet-18 at batch 128, one way at a time, next to PyTorch's on the same arrays."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from itertools import cycle
from math import prod
from typing import Any

import numpy as np

from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.devices.dry_run import DryRun, dry_run
from minigrad.devices.dtypes import dtype_of
from minigrad.devices.layouts import in_layout
from minigrad.kernels.extents import ceil_div
from minigrad.lab.bench.measure import ALIGN, Measurement, RandomNumbers, Reference, pytorch
from minigrad.lab.bench.resnet.modes import LAYERS, MODES, Mode
from minigrad.lab.bench.resnet.whole_steps import DEVICE, TRUTH, rival
from minigrad.lab.bench.timer import Call, timer
from minigrad.lab.bench.work import DryWork, work_of
from minigrad.lab.check import ValueMismatch
from minigrad.op import OPS, Op

BATCH, WINDOWS, REPEATS = 128, 8, 9
Needs = tuple[tuple[bool, ...], ...]  # by op of a layer and by its input: True where a gradient is wanted
FORWARD: Needs = ()


@dataclass(frozen=True)
class Link:
    """An op of a layer; further: its inputs after the first, as shapes or as arrays."""

    op: str
    further: tuple[Any, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Layer:
    """Ops in a row on images. ways: what is measured, forward or gradients; modes: in which arithmetics."""

    name: str
    image: tuple[int, ...]
    links: tuple[Link, ...]
    ways: Mapping[str, Needs]
    modes: tuple[str, ...] = ("float32",)

    def title(self, way: str, mode: Mode) -> str:
        """conv 3x3 64->64 of 56x56, gradient of w, tf32"""
        return f"{self.name}, {way}, {mode.name}"

    def cost(self, way: str) -> DryWork:
        """FLOPs, and the least bytes in float32, of its first op: each gradient of conv2d costs as much as forward."""
        first, way = self.links[0], "backward" if way == "backward" else "forward"
        return work_of(first.op, (self.image, *first.further), way, **first.params).dry()


def convolution(channels: int, kernels: int, size: int, stride: int, side: int) -> Layer:
    """A convolution of images side x side, with half of the window as padding."""
    step = f" s{stride}" if stride > 1 else ""
    params = {"stride": stride, "padding": size // 2}
    return Layer(
        f"conv {size}x{size}{step} {channels}->{kernels} of {side}x{side}",
        (BATCH, channels, side, side),
        (Link("conv2d", ((kernels, channels, size, size),), params),),
        {"forward": FORWARD, "gradient of x": ((True, False),), "gradient of w": ((False, True),)},
        LAYERS,
    )


def norm_relu(channels: int, side: int) -> Layer:
    """Batch norm in training and relu; every other channel is positive, so that rounding switches none on or off."""
    weight, bias = np.linspace(0.05, 0.15, channels), np.resize([1.0, -1.0], channels)
    further = tuple(x.astype(np.float32) for x in (np.zeros(channels), np.ones(channels), weight, bias))
    link = Link("batch_norm_relu", further, {"training": True})
    ways: dict[str, Needs] = {"forward": FORWARD, "backward": ((True, False, False, True, True),)}
    return Layer(f"batch norm + relu of {channels} x {side}x{side}", (BATCH, channels, side, side), (link,), ways)


def conv_norm_relu(folded: bool) -> Layer:
    """A convolution of the first stage with its batch norm and relu in evaluation, as trained or folded into one op."""
    channels, windows, padded = np.ones(64, np.float32), (64, 64, 3, 3), {"padding": 1}
    one = (Link("conv2d_relu", (windows, channels), padded),)
    two = Link("conv2d", (windows,), padded), Link("batch_norm_relu", (channels,) * 4)
    name, links = ("folded", one) if folded else ("as trained", two)
    return Layer(name, (BATCH, 64, 56, 56), links, {"forward": FORWARD})


def pool(channels: int, side: int) -> Layer:
    """The pooling behind the first convolution."""
    link = Link("max_pool2d", (), {"size": 3, "stride": 2, "padding": 1})
    ways = {"forward": FORWARD, "backward": ((True,),)}
    return Layer(f"max pool 3 s2 of {channels} x {side}x{side}", (BATCH, channels, side, side), (link,), ways)


CONVOLUTIONS = (  # channels, kernels, size, stride, side
    (3, 64, 7, 2, 224), (64, 64, 3, 1, 56), (64, 128, 3, 2, 56), (128, 128, 3, 1, 28), (64, 128, 1, 2, 56),
    (128, 256, 3, 2, 28), (256, 256, 3, 1, 14), (256, 512, 3, 2, 14), (512, 512, 3, 1, 7),
)  # fmt: skip


def layers() -> list[Layer]:
    """Every shape of convolution of the network, its first batch norm with relu, and its pooling."""
    return [*(convolution(*numbers) for numbers in CONVOLUTIONS), norm_relu(64, 112), pool(64, 112)]


# --- a layer on its inputs ---


@dataclass(frozen=True)
class Inputs:
    """The images, the further inputs of each op, and the gradient of the output."""

    x: Array
    further: Sequence[Sequence[Array]]
    dy: Array

    def call(self, links: Sequence[Link], needs: Needs, mode: Mode, instead: Op | None = None) -> Call:
        """A function that runs the ops forward, or where gradients are wanted backward, and returns their results.

        instead: another setting of the op of a single link.
        """
        ops = [instead or OPS[link.op] for link in links]
        params = [
            {**link.params, **({"precision": mode.precision} if op.rounds else {})}
            for op, link in zip(ops, links, strict=True)
        ]
        return self._backward(ops, params, needs) if needs else self._forward(ops, params)

    def _forward(self, ops: Sequence[Op], params: Sequence[dict]) -> Call:
        y, run = self.x, []
        for op, more, given in zip(ops, self.further, params, strict=True):
            complete = op.prepare(y, *more, **given) if op.prepare else given
            run.append((op, more, complete))
            y = op.run([y, *more], complete)

        def forward() -> list[Array]:
            y = self.x
            for op, more, complete in run:
                y = op.run([y, *more], complete)
            return [y]

        return forward

    def _backward(self, ops: Sequence[Op], params: Sequence[dict], needs: Needs) -> Call:
        y, pulls = self.x, []
        for op, more, given, need in zip(ops, self.further, params, needs, strict=True):
            y, pull = op.pullback([y, *more], given, need)
            pulls.append(pull)

        def backward() -> list[Array]:
            grads = [self.dy]
            for pull in reversed(pulls):
                grads = pull(grads[0])
            return [grad for grad in grads if grad is not None]

        return backward


class Stage:
    """A layer with sets of inputs on the GPU in one dtype, together larger than its cache, and the true results."""

    def __init__(self, layer: Layer, dtype: str, device: Any, cache: int = 0):
        self.layer, self.device, self.kind = layer, device, dtype_of(dtype)
        drawn = [x for link in layer.links for x in link.further if isinstance(x, tuple)]
        shapes = [layer.image, *drawn, layer.cost("forward").output]
        self._sizes = {shape: ceil_div(prod(shape), ALIGN) * ALIGN for shape in shapes}
        length = sum(self._sizes[shape] for shape in shapes)
        windows = min(WINDOWS, max(1, ceil_div(2 * cache, length * self.kind.itemsize)))
        self._random, self._output = RandomNumbers(device, windows * length, False, self.kind), shapes[-1]
        self.sets = [self._inputs(start, wide=False) for start in range(0, windows * length, length)]
        self._truths: dict[tuple, list[Reference]] = {}

    def _inputs(self, start: int, wide: bool) -> Inputs:
        """The set of inputs from a place in the random numbers on; wide: in float32 and with the channels first."""
        place = [start]

        def drawn(shape: tuple[int, ...]) -> Array:
            at, count = place[0], prod(shape)
            place[0] += self._sizes[shape]
            flat = Array.upload(self.device, self._random.host(at, (count,)).astype(np.float32)) if wide else None
            flat = flat or self._random.window(at, (count,))
            x = Array(self.device, shape, flat.dtype, flat.buffer, flat.address, True)
            return in_layout(x, False) if wide else x

        def made(x: Any) -> Array:
            return drawn(x) if isinstance(x, tuple) else Array.upload(self.device, x)

        x = drawn(self.layer.image)
        return Inputs(x, [[made(x) for x in link.further] for link in self.layer.links], drawn(self._output))

    def truth(self, way: str) -> list[np.ndarray]:
        """The results in float32, by the kernels without tensor cores and in the layout of the first rungs."""
        call = self._inputs(0, wide=True).call(self.layer.links, self.layer.ways[way], TRUTH)
        return [y.numpy() for y in call()]

    def references(self, way: str, kinds: Sequence[np.dtype]) -> list[Reference]:
        """The true results in the dtypes of those that are compared with them."""
        if (key := (way, *kinds)) not in self._truths:
            truths = zip(self.truth(way), kinds, strict=True)
            self._truths[key] = [Reference(self.device, y.astype(kind, copy=False)) for y, kind in truths]
        return self._truths[key]

    def check(self, got: Sequence[Array], way: str, mode: Mode, who: str) -> None:
        """Raise ValueMismatch where a result is further from the true one than the mode allows."""
        for y, reference in zip(got, self.references(way, [y.dtype for y in got]), strict=True):
            if not (error := reference.error(in_layout(y, False))) <= mode.layer:
                raise ValueMismatch(
                    f"{self.layer.title(way, mode)} by {who} is off by {error:.2g} of the largest element; a benchmark "
                    f"allows {mode.layer:g}. It is not timed."
                )

    def calls(self, way: str, mode: Mode, instead: Op | None = None) -> list[Call]:
        """The layer on each set of inputs."""
        return [inputs.call(self.layer.links, self.layer.ways[way], mode, instead) for inputs in self.sets]

    def measured(self, way: str, mode: Mode, against: Sequence[str]) -> Measurement:
        """Check, then time it in turns with PyTorch. Raises ValueMismatch."""
        links, needs, own = self.layer.links, self.layer.ways[way], self.calls(way, mode)
        self.check(own[0](), way, mode, "minigrad")
        calls = {"minigrad": in_turn(own)}
        for layout in mode.layouts if "torch" in against else ():
            name, stream = "torch" if layout == "NHWC" else f"torch, {layout}", pytorch().stream
            first = rival().layer(links, needs, self.sets[:1], mode, stream, layout)
            self.check(pytorch().arrays(rival().contiguous(first, stream)), way, mode, name)
            calls[name] = rival().layer(links, needs, self.sets, mode, stream, layout)
        times, cost, title = timer().interleaved(calls, REPEATS), self.layer.cost(way), self.layer.title(way, mode)
        mine, nbytes = times.pop("minigrad"), cost.nbytes * self.kind.itemsize // 4
        return Measurement(title, launched(self.layer, way, mode), mine, cost.flops, nbytes, mode.unit, times)


def in_turn(calls: Iterable[Call]) -> Call:
    """A function that makes the next of the calls each time."""
    each = cycle(calls)
    return lambda: next(each)()


def launched(layer: Layer, way: str, mode: Mode, instead: Op | None = None) -> tuple[str, ...]:
    """The names of the kernels, from a dry run."""
    return tuple(dict.fromkeys(launch.kernel for launch in dry(layer, way, mode, instead).launches))


def dry(layer: Layer, way: str, mode: Mode, instead: Op | None = None) -> DryRun:
    """A device that has recorded the launches of a layer."""
    device, kind = dry_run(), dtype_of(mode.dtype)

    def empty(x: Any) -> Array:
        shape = x if isinstance(x, tuple) else x.shape
        return Array.empty(device, shape, kind, len(shape) == 4)

    further = [[empty(x) for x in link.further] for link in layer.links]
    output = layer.cost("forward").output
    call = Inputs(empty(layer.image), further, empty(output)).call(layer.links, layer.ways[way], mode, instead)
    device.launches.clear()
    call()
    return device


@lru_cache(maxsize=1)
def stage(layer: Layer, dtype: str) -> Stage:
    """The inputs of a layer on this machine's GPU; they stay there until another layer is measured."""
    gpu: Any = get(DEVICE)
    return Stage(layer, dtype, gpu, gpu.chip.l2)


def works() -> list[tuple[Layer, str, Mode]]:
    """Each layer in each mode and way; those that share inputs follow one another."""
    modes = {name: mode for name, mode in MODES.items() if mode.dtype != "bfloat16" or find_spec("ml_dtypes")}
    return [
        (layer, way, modes[name]) for layer in layers() for name in layer.modes if name in modes for way in layer.ways
    ]
