"""Every rung, tile and split for one convolution of ResNet-18, next to those that `conv2d` chooses itself."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import product

from minigrad.errors import CompileError, LaunchError
from minigrad.lab.bench.record import Times
from minigrad.lab.bench.resnet.layers import Layer, Stage, dry, in_turn, layers
from minigrad.lab.bench.resnet.modes import MODES, Mode
from minigrad.lab.bench.sweeps import label, launch_key
from minigrad.lab.bench.timer import Call, timer
from minigrad.op import OPS, Op

CHOSEN = "conv2d's choice"
ROLES = {"forward": "", "gradient of x": "_backward_x", "gradient of w": "_backward_w"}
RUNGS = {
    "bf16": ("mma_bf16", "wgmma_bf16"), "tf32": ("mma_tf32", "wgmma_tf32"), "3xtf32": ("mma_3xtf32", "wgmma_3xtf32"),
    "float32": ("register_tile", "halo_tile"),
}  # fmt: skip
PHOTOGRAPH = 3  # channels; no training needs its gradient
REPEATS = 7


def works() -> list[tuple[Layer, str, Mode]]:
    """Each convolution in each mode and way that a training step has."""
    convolutions = [layer for layer in layers() if layer.links[0].op == "conv2d"]
    return [
        (layer, way, MODES[mode])
        for layer in convolutions for mode in RUNGS for way in ROLES
        if way != "gradient of x" or layer.image[1] > PHOTOGRAPH
    ]  # fmt: skip


def settings(way: str, mode: Mode) -> Iterator[tuple[str, Op]]:
    """conv2d by each rung with each value of its tunables: wgmma_tf32 DOWN=1 PIXELS=128 SPLIT=2."""
    op, role = OPS["conv2d"], ROLES[way]
    for rung in RUNGS[mode.name]:
        own = f"{rung}{role}"
        if own not in op.kernels:
            continue
        keys = (own, rung) if role == "_backward_x" else (own,)  # with stride 1 the forward kernel may give dx, too
        for key in keys:
            tunables = op.kernels[key].tunables
            for values in product(*tunables.values()):
                setting = dict(zip(tunables, values, strict=True))
                kernels = {**op.kernels, key: op.kernels[key].using(**setting)}
                kernels[role.removeprefix("_") or "forward"] = kernels[own]
                yield f"{key} {label(setting)}", op.with_kernels(kernels, {})


def swept(stage: Stage, way: str, mode: Mode) -> Times:
    """Check each legal setting with launches of its own, then time all of them in turns. Raises ValueMismatch."""
    calls: dict[str, Call] = {}
    for name, op in legal(stage.layer, way, mode):
        with suppress(CompileError):  # a tile that does not fit
            call = in_turn(stage.calls(way, mode, op))
            stage.check(call(), way, mode, name)
            calls[name] = call
    return timer().interleaved(calls, REPEATS)


def legal(layer: Layer, way: str, mode: Mode) -> Iterator[tuple[str, Op]]:
    """conv2d's choice, and each setting of a kernel that this layer can launch, if it launches anything else."""
    known = set()
    for name, op in [(CHOSEN, OPS["conv2d"]), *settings(way, mode)]:
        with suppress(LaunchError):  # no setting for this layer
            device = dry(layer, way, mode, op)
            own = name == CHOSEN or any(run.kernel == f"conv2d_{name.split()[0]}" for run in device.launches)
            if own and (key := launch_key(device)) not in known:
                known.add(key)
                yield name, op


def lost(times: Times) -> float:
    """The time of conv2d's own choice as a part of the fastest setting's, minus 1."""
    return times[CHOSEN].seconds / min(timing.seconds for timing in times.values()) - 1
