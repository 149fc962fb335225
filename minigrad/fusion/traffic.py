"""Traffic: what the kernels of a fused function read and write, beside those of its operations one by one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from minigrad.array import Array
from minigrad.convert import FLOATS, check_dtype
from minigrad.create import extents
from minigrad.devices.dry import DryRun, Launched
from minigrad.fusion import reference
from minigrad.show.tables import Table, table

if TYPE_CHECKING:
    from minigrad.fusion.fused import Fused

MB = 1e6


class Moved(NamedTuple):
    """What one launch moves, in bytes: each array that it is given counts once."""

    kernel: str
    read: int
    written: int


@dataclass(frozen=True)
class Traffic:
    """The launches of a forward and a backward pass, op by op and fused."""

    op_by_op: tuple[Moved, ...]
    fused: tuple[Moved, ...]

    @staticmethod
    def of(op: "Fused", *shapes: Any, dtype: str = "float32") -> "Traffic":
        """Worked out by a dry run, for inputs of these shapes."""
        kind = check_dtype(dtype, FLOATS)
        if len(shapes) != len(op.trace.inputs):
            raise TypeError(
                f"{op.name}.traffic takes a shape for each of {len(op.trace.inputs)} inputs; got {len(shapes)}."
            )

        def launches(pullback: Callable[[Sequence[Array]], tuple]) -> tuple[Moved, ...]:
            device = DryRun()
            y, pull = pullback([Array.empty(device, extents((shape,)), kind) for shape in shapes])
            if op.backward:
                pull(Array.empty(device, y.shape, y.dtype))
            return tuple(map(_moved, device.launches))

        return Traffic(launches(lambda xs: reference.pullback(op.trace, xs)), launches(lambda xs: op.pullback(xs, {})))

    @property
    def times(self) -> float:
        """How many times as many bytes move op by op; 1 where none move."""
        return nbytes(self.op_by_op) / nbytes(self.fused) if nbytes(self.fused) else 1.0

    def table(self) -> Table:
        """One row for each launch, and the sums, in megabytes."""
        rows = []
        for way, launches in (("op by op", self.op_by_op), ("fused", self.fused)):
            rows += [(way, m.kernel, _mb(m.read), _mb(m.written)) for m in launches]
            total = f"all {len(launches)} launches"
            rows += [(way, total, _mb(sum(m.read for m in launches)), _mb(sum(m.written for m in launches)))]
        return table(rows, ("", "kernel", "MB read", "MB written"))

    def __repr__(self) -> str:
        return f"{self.table()!r}\n{self._words()}"

    def _repr_html_(self) -> str:
        return f"{self.table()._repr_html_()}<p>{self._words()}</p>"

    def _words(self) -> str:
        one, other = (f"{nbytes(launches) / MB:.0f}" for launches in (self.op_by_op, self.fused))
        return f"{one} MB op by op, {other} MB fused: {self.times:.1f} times less."


def nbytes(launches: Sequence[Moved]) -> int:
    """All bytes that they move."""
    return sum(m.read + m.written for m in launches)


def _moved(launch: Launched) -> Moved:
    """What a launch is given to read and to write."""
    const = {param.name: param.const for param in launch.source.signature(launch.kernel).params}

    def size(read: bool) -> int:
        return sum({x.address: x.nbytes for name, x in launch.arrays if const[name] == read}.values())

    return Moved(launch.kernel, size(True), size(False))


def _mb(count: int) -> str:
    return f"{count / MB:.1f}"
