"""The suite that `minigrad bench` measures, and the run over it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from minigrad.devices.dry_run import dry_run
from minigrad.errors import CompileError, KernelError, LaunchError, require_words
from minigrad.lab.bench import chain
from minigrad.lab.bench.measure import RIVALS, Experiment, set_up, timed
from minigrad.lab.bench.record import Record, copy_bandwidth, todays_record, versions
from minigrad.lab.bench.sweeps import launch_key
from minigrad.lab.bench.work import WAYS, Work, work_of
from minigrad.lab.check import ValueMismatch
from minigrad.lab.check.compare import variants
from minigrad.op import OPS, Op
from minigrad.ops.matmul.kernels import OF_BFLOAT16, TENSOR_CORES, has_room

CHAIN = "chain"  # of operations: op by op, fused and by the rivals
BIG = 2**26  # elements: a GPU's cache holds a quarter of them at most
USUAL = BIG // 2  # elements of each input of an op without sizes of its own
LABELS = np.arange(8192, dtype=np.int64) * 7 % 1000
WORDS = np.arange(8192, dtype=np.int64) ** 2 % 50257  # some of them often
HEADS = (8, 12, 1024, 64)  # of the size of GPT-2
FLAGS = np.tile([True, False, False], USUAL // 3 + 1)[:USUAL]
NOT_TIMED = (ValueMismatch, MemoryError, LaunchError, CompileError)  # errors of one work; the run goes on
More = Callable[[Record, Experiment], None]


@dataclass(frozen=True)
class Size:
    """The inputs and parameters on which an op is measured; `backward`: its gradient is measured there, too."""

    inputs: tuple[Any, ...]
    params: Mapping[str, Any]
    backward: bool = True
    dtype: str = "float32"
    variant: str | None = None
    channels_last: bool = False


def at(*inputs: Any, backward: bool = True, **params: Any) -> Size:
    return Size(inputs, params, backward)


def both_layouts(*inputs: Any, **params: Any) -> tuple[Size, Size]:
    """The same images by rows and with their channels last."""
    return at(*inputs, **params), Size(inputs, params, channels_last=True)


forward_at = partial(at, backward=False)
IMAGES, CHANNELS = (128, 64, 112, 112), ((64,),) * 4  # behind the first convolution of ResNet-18
BLOCK = (128, 64, 56, 56)  # in its first block
OWN: dict[str, tuple[Size, ...]] = {
    **{name: (at((BIG,)), forward_at((4 * BIG,))) for name in ("relu", "exp")},
    **{name: (at((BIG,), (BIG,)), forward_at((4 * BIG,), (4 * BIG,))) for name in ("add", "multiply")},
    "where": (at(FLAGS, (USUAL,), (USUAL,)),),
    "sum": (at((BIG,)), forward_at((4 * BIG,)), *(forward_at((16384, 4096), axis=axis) for axis in (0, 1))),
    "softmax": (at((8192, 1024)), at((16384, 16384))),
    "log_softmax": (at((8192, 1024)),),
    "cross_entropy": (at((8192, 1000), LABELS),),
    "layer_norm": (at((8192, 1024), (1024,), (1024,)),),
    "rms_norm": (at((8192, 1024), (1024,)),),
    "embedding": (at(WORDS, (50257, 768)),),
    "attention": (at(HEADS, HEADS, HEADS), at(HEADS, HEADS, HEADS, causal=True)),
    "attention_dropout": (at(*[(8, 12, 256, 64)] * 3, np.array([1, 0], np.uint64), causal=True),),
    "matmul_transposed": (forward_at((4096, 768), (50304, 768)),),
    "bias_gelu_tanh": (at((8192, 3072), (3072,)),),
    "norm_linear": (forward_at((1, 1, 768), (768,), (768,), (50257, 768), transposed=True),),
    "linear_add": (forward_at((1, 1, 3072), (3072, 768), (768,), (1, 1, 768)),),
    "cached_attention": (forward_at((1, 1, 2304), *[(1, 12, 1024, 64)] * 2, np.array([1023]), heads=12),),
    "self_attention": (at((8, 1024, 2304), heads=12, causal=True),),
    "transpose": (at((8192, 8192)), forward_at((16384, 16384)), forward_at((64, 512, 16, 128), axes=(0, 2, 1, 3))),
    "getitem": (at((8192, 8192), key=(slice(None, None, 2), slice(1, None))),),
    "concatenate": (at((4096, 8192), (4096, 8192), axis=1),),
    "dropout": (at((BIG,), np.array([1, 0], np.uint64)),),
    "pad": (at((128, 64, 56, 56), pad=(1, 1, 1, 1)),),
    "conv2d": (at((32, 64, 56, 56), (64, 64, 3, 3), padding=1),),
    "conv2d_relu": (at((32, 64, 56, 56), (64, 64, 3, 3), (64,), (32, 64, 56, 56), padding=1),),
    "batch_norm": both_layouts(IMAGES, *CHANNELS, training=True),
    "batch_norm_relu": (
        *both_layouts(IMAGES, *CHANNELS, training=True),
        *both_layouts(BLOCK, *CHANNELS, BLOCK, training=True),
    ),
    **{name: both_layouts(IMAGES, size=3, stride=2, padding=1) for name in ("max_pool2d", "avg_pool2d")},
    "matmul": (
        *(at((n, n), (n, n)) for n in (1024, 4096)),
        *(forward_at((n, n), (n, n)) for n in (2048, 8192)),
        forward_at((4095, 4097), (4097, 4099)),
        *(forward_at(*inputs) for inputs in (((8192, 8192), (8192,)), ((8192,), (8192, 8192)))),
        forward_at((2**24,), (2**24,)),  # with more terms NumPy's own sum is off by more than a benchmark allows
        *(
            Size(((n, n), (n, n)), {}, n == 4096, "bfloat16" if rung in OF_BFLOAT16 else "float32", rung)
            for rung in TENSOR_CORES
            for n in (1024, 4096, 8192)
        ),
    ),
    "reshape": (),
}


def suite(only: str | None = None) -> list[Work]:
    """Every op forward and backward, except works that launch no kernel; then the ops' other kernels, forward.

    `only` takes one op. Raises ValueError for an unknown name.
    """
    room = has_room(dry_run().arch)
    measured = [
        (op, s)
        for op in named(only)
        for s in sizes(op)
        if (room or s.variant not in TENSOR_CORES) and (s.dtype != "bfloat16" or find_spec("ml_dtypes"))
    ]
    works = [
        replace(work_of(op, s.inputs, way, s.variant, s.channels_last, **s.params), dtype=s.dtype)
        for op, s in measured
        for way in (WAYS if op.backward and s.backward else WAYS[:1])
    ]
    works = [work for work in works if work.dry().launches]
    known = {launch_key(work.dry()) for work in works}
    plain = [(op, s) for op, s in measured if s.backward and not s.variant]
    others = [work_of(op, s.inputs, variant=name, **s.params) for op, s in plain for name in variants(op)]
    return works + [work for work in others if launch_key(work.dry()) not in known]


def named(only: str | Op | None) -> list[Op]:
    """All ops, or the one of that name. Raises ValueError for an unknown name."""
    if isinstance(only, Op):
        return [only]
    if only not in (None, *OPS):
        raise ValueError(f"only={only!r} is not an op; the ops are {', '.join(OPS)}.")
    return [OPS[only]] if only else list(OPS.values())


def sizes(op: Op) -> Sequence[Size]:
    return OWN.get(op.name, (at(*[(USUAL,)] * len(op.inputs.names)),))


def run(
    only: str | None = None,
    against: Sequence[str] = (),
    track: Callable[[Sequence[Work]], Iterable[Work]] = iter,
    more: More | None = None,
    command: str = "mg.bench.run()",
) -> Record:
    """Measure the suite on this GPU, or one op of it, or the "chain", and return the record.

    track iterates over the works and may show progress, as `mg.show.progress`; more(record, experiment) may measure
    each work further and add to the record, as `mg.tune.sweep`. A work with a wrong result, or too large for this GPU,
    is not timed, and the record says why. Ctrl-C ends the run early and keeps the measurements. Raises DeviceError
    without a GPU.
    """
    against = require_words("mg.bench.run", "against", against, RIVALS)
    works = [] if only == CHAIN else suite(only)
    record = todays_record(command, copy=copy_bandwidth())
    with suppress(KeyboardInterrupt):
        try:
            chains = chain.measured(against) if only in (None, CHAIN) else []
            record.measurements |= {m.title: m for m in chains}
        except NOT_TIMED as wrong:
            record.refused |= dict.fromkeys(chain.titles(), str(wrong))
        for work in track(works):
            try:
                add(record, work, against, more)
            except NOT_TIMED as wrong:
                record.refuse(work.title, str(wrong))
            except KernelError as wrong:  # the GPU is lost to this process
                record.refuse(work.title, str(wrong))
                break
    record.versions = versions()  # again: PyTorch may have been imported since
    return record


def add(record: Record, work: Work, against: Sequence[str], more: More | None) -> None:
    """Measure a work, then call `more`; its arrays are freed before the next work is set up."""
    experiment = set_up(work)
    record.measurements[work.title] = timed(experiment, rivals(work, against))
    if more:
        more(record, experiment)


def rivals(work: Work, against: Sequence[str]) -> Sequence[str]:
    """All rivals for an op as it runs, PyTorch for tensor cores, none for the kernels that only teach."""
    if work.unit != "float32":
        return [name for name in against if name == "torch"]
    return () if work.variant else against
