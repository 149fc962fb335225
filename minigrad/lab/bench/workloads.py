"""The set of works that `minigrad bench` measures, and the run over it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from minigrad.devices.dry_run import dry_run
from minigrad.errors import CompileError, KernelError, LaunchError, words
from minigrad.lab.bench import chain
from minigrad.lab.bench.measure import RIVALS, Stage, staged, timed
from minigrad.lab.bench.record import Record, blank, copy_bandwidth, versions
from minigrad.lab.bench.sweeps import alike
from minigrad.lab.bench.work import WAYS, Work, work_of
from minigrad.lab.check import ValueMismatch
from minigrad.lab.check.compare import variants
from minigrad.op import OPS, Op
from minigrad.ops.matmul.kernels import TENSOR_CORES, has_room

CHAIN = "chain"  # of operations: op by op, fused and by the rivals
MUCH = 2**26  # elements: a GPU's cache holds a quarter of them at most
OTHERS = MUCH // 2  # where nobody asks for more
LABELS = np.arange(8192, dtype=np.int64) * 7 % 1000
FLAGS = np.asarray(np.arange(OTHERS) % 3 == 0)
NOT_TIMED = (ValueMismatch, MemoryError, LaunchError, CompileError)  # of one work; the others go on
More = Callable[[Record, Stage], None]


@dataclass(frozen=True)
class Size:
    """What an op is measured on: its inputs and parameters, and whether its gradient is measured there, too."""

    inputs: tuple[Any, ...]
    params: Mapping[str, Any]
    backward: bool = True
    dtype: str = "float32"
    variant: str | None = None


def at(*inputs: Any, **params: Any) -> Size:
    """Measured forward and backward."""
    return Size(inputs, params)


def forward_at(*inputs: Any, **params: Any) -> Size:
    """Measured forward only."""
    return Size(inputs, params, backward=False)


# Where OTHERS elements for each input is not the thing to ask.
OWN: dict[str, tuple[Size, ...]] = {
    **{name: (at((MUCH,)), forward_at((4 * MUCH,))) for name in ("relu", "exp")},
    **{name: (at((MUCH,), (MUCH,)), forward_at((4 * MUCH,), (4 * MUCH,))) for name in ("add", "multiply")},
    "where": (at(FLAGS, (OTHERS,), (OTHERS,)),),
    "sum": (at((MUCH,)), forward_at((4 * MUCH,)), forward_at((16384, 4096), axis=0), forward_at((16384, 4096), axis=1)),
    "softmax": (at((8192, 1024)), at((16384, 16384))),
    "log_softmax": (at((8192, 1024)),),
    "cross_entropy": (at((8192, 1000), LABELS),),
    "transpose": (at((8192, 8192)), forward_at((16384, 16384)), forward_at((64, 512, 16, 128), axes=(0, 2, 1, 3))),
    "getitem": (at((8192, 8192), key=(slice(None, None, 2), slice(1, None))),),
    "concatenate": (at((4096, 8192), (4096, 8192), axis=1),),
    "matmul": (
        *(at((n, n), (n, n)) for n in (1024, 4096)),
        *(forward_at((n, n), (n, n)) for n in (2048, 8192)),
        forward_at((4095, 4097), (4097, 4099)),
        *(forward_at(*inputs) for inputs in (((8192, 8192), (8192,)), ((8192,), (8192, 8192)))),
        forward_at((2**24,), (2**24,)),  # NumPy's own sum of more terms is off by more than a benchmark allows
        *(
            Size(((n, n), (n, n)), {}, n == 4096, "float32" if "tf32" in rung else "bfloat16", rung)
            for rung in TENSOR_CORES
            for n in (1024, 4096, 8192)
        ),
    ),
    "reshape": (),
}


def suite(only: str | None = None) -> list[Work]:
    """Every op forward and, where it launches a kernel, backward; then what its other kernels do of that.

    `only` takes one op. Raises ValueError where there is none of that name.
    """
    chosen = named(only)
    room = has_room(dry_run().arch)
    works = [
        replace(work_of(op, s.inputs, way, s.variant, **s.params), dtype=s.dtype)
        for op in chosen
        for s in sizes(op)
        if room or s.variant not in TENSOR_CORES
        for way in ways(op, s)
        if s.dtype != "bfloat16" or find_spec("ml_dtypes")
    ]
    works = [work for work in works if work.dry().launches]
    known = {alike(work.dry()) for work in works}
    others = [
        work_of(op, s.inputs, variant=name, **s.params)
        for op in chosen
        for s in sizes(op)
        for name in variants(op)
        if s.backward and not s.variant
    ]
    return works + [work for work in others if alike(work.dry()) not in known]


def named(only: str | Op | None) -> list[Op]:
    """All ops, or the one of that name. Raises ValueError where there is none."""
    if isinstance(only, Op):
        return [only]
    if only not in (None, *OPS):
        raise ValueError(f"only={only!r} is no op; there is {', '.join(OPS)}.")
    return [OPS[only]] if only else list(OPS.values())


def sizes(op: Op) -> Sequence[Size]:
    """What an op is measured on."""
    return OWN.get(op.name, (at(*[(OTHERS,)] * len(op.inputs.names)),))


def ways(op: Op, size: Size) -> Sequence[str]:
    """Forward, and backward where there is a gradient to measure."""
    return WAYS if op.backward and size.backward else WAYS[:1]


def run(
    only: str | None = None,
    against: Sequence[str] = (),
    track: Callable[[Sequence[Work]], Iterable[Work]] = iter,
    more: More | None = None,
    command: str = "mg.bench.run()",
) -> Record:
    """Measure the whole set on this GPU, or one op of it, or the "chain", and return the record.

    track goes through the works and may show how far it is, as `mg.show.progress`; more(record, stage), if given, may
    add to the record what it measures of each work, as `mg.tune.sweep` does. A work whose result is wrong, or that this
    GPU has no room for, is refused, and the record says so. Ctrl-C ends the run early, and keeps what has been
    measured. Raises DeviceError without a GPU.
    """
    against = words("mg.bench.run", "against", against, RIVALS)
    works = [] if only == CHAIN else suite(only)
    record = blank(command)
    record.copy = copy_bandwidth()
    with suppress(KeyboardInterrupt):
        try:
            chains = chain.measured(against) if only in (None, CHAIN) else []
            record.measurements |= {m.title: m for m in chains}
        except NOT_TIMED as wrong:
            record.refused |= dict.fromkeys(map(chain.title, chain.WAYS), str(wrong))
        for work in track(works):
            try:
                add(record, work, against, more)
            except NOT_TIMED as wrong:
                record.refuse(work.title, str(wrong))
            except KernelError as wrong:  # the GPU runs nothing more in this process
                record.refuse(work.title, str(wrong))
                break
    record.versions = versions()  # now that PyTorch is loaded, if it was asked for
    return record


def add(record: Record, work: Work, against: Sequence[str], more: More | None) -> None:
    """Measure a work, and what `more` measures of it; its arrays are gone before the next one is set up."""
    stage = staged(work)
    record.measurements[work.title] = timed(stage, rivals(work, against))
    if more:
        more(record, stage)


def rivals(work: Work, against: Sequence[str]) -> Sequence[str]:
    """Whom a work is compared with: all for an op as it runs, PyTorch for tensor cores, nobody for kernels to read."""
    if work.unit != "float32":
        return [name for name in against if name == "torch"]
    return () if work.variant else against
