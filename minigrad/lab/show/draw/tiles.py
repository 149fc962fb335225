"""Matrices split into tiles, drawn and marked tile by tile."""

from dataclasses import dataclass

from matplotlib.axes import Axes

from minigrad.lab.show.draw.colours import GREY
from minigrad.lab.show.draw.grid import Axis, Slot, slots
from minigrad.lab.show.draw.picture import box, write

TILES = 6  # the most tiles drawn along an axis
LARGE = 14  # of labels and numbers, in points: a slider shrinks its picture to fit beside the numbers
THREADS = 24  # the most threads along an axis that are drawn as squares
Place = tuple[int | None, int | None]


@dataclass(frozen=True)
class TiledMatrix:
    """A matrix in tiles at a place in the picture."""

    name: str
    rows: Axis
    columns: Axis
    left: float = 0
    top: float = 0
    keep: tuple[int, int] = (0, 0)  # the block (row, column) that must be drawn

    @property
    def down(self) -> list[Slot]:
        return slots(self.rows.blocks, TILES, self.keep[0])

    @property
    def across(self) -> list[Slot]:
        return slots(self.columns.blocks, TILES, self.keep[1])

    @property
    def right(self) -> float:
        return self.left + (self.across[-1].at + 1 if self.across else 0)

    @property
    def bottom(self) -> float:
        return self.top + (self.down[-1].at + 1 if self.down else 0)

    def label(self) -> str:
        """Its name, its shape in the names of the sizes, and in numbers."""
        return f"{self.name}\n{self.rows.size} x {self.columns.size}\n{self.rows.extent} x {self.columns.extent}"

    def busy(self, row: Slot, column: Slot) -> tuple[float, float]:
        """The part of a drawn tile that has elements: its height and its width."""
        high, wide = (
            slot.width if slot.block is None else axis.busy(slot.block) / axis.per_block
            for slot, axis in ((row, self.rows), (column, self.columns))
        )
        return high, wide


def draw(axes: Axes, matrix: TiledMatrix, fill: str, threads: bool = False) -> None:
    """Every tile with its elements; with `threads`, the part of a tile that has no element is drawn too, hatched."""
    for row in matrix.down:
        for column in matrix.across:
            x, y, (high, wide) = matrix.left + column.at, matrix.top + row.at, matrix.busy(row, column)
            if row.block is None or column.block is None:
                dots = "⋱" if row.block == column.block else "⋮" if row.block is None else "…"
                write(axes, x + wide / 2, y + high / 2, dots, color=GREY)
                continue
            if threads:
                box(axes, x, y, 1, 1, "white", idle=True)
            tile(axes, matrix, row, column, fill)
            if threads:
                box(axes, x, y, 1, 1, "none", linewidth=1.4)


def tile(axes: Axes, matrix: TiledMatrix, row: Slot, column: Slot, fill: str) -> None:
    """The elements of one tile, each in its square where there is room."""
    x, y, (high, wide) = matrix.left + column.at, matrix.top + row.at, matrix.busy(row, column)
    box(axes, x, y, wide, high, fill, linewidth=0.9, edgecolor=GREY)
    rows, columns = matrix.rows, matrix.columns
    if max(rows.threads, columns.threads) <= THREADS:
        for i in range(1, round(high * rows.per_block)):
            axes.plot([x, x + wide], [y + i / rows.per_block] * 2, color=GREY, lw=0.4)
        for j in range(1, round(wide * columns.per_block)):
            axes.plot([x + j / columns.per_block] * 2, [y, y + high], color=GREY, lw=0.4)


def mark(axes: Axes, matrix: TiledMatrix, at: Place, fill: str, edge: str, threads: bool = False) -> None:
    """Colour and outline a tile, or with None for a side the whole strip: its elements, or all its threads."""
    down = [slot for slot in matrix.down if at[0] is None or slot.block == at[0]]
    across = [slot for slot in matrix.across if at[1] is None or slot.block == at[1]]
    for row in down:
        for column in across:
            if row.block is not None and column.block is not None:
                tile(axes, matrix, row, column, fill)
    high, wide = (1, 1) if threads else matrix.busy(down[-1], across[-1])
    x, y = matrix.left + across[0].at, matrix.top + down[0].at
    width, height = across[-1].at + wide - across[0].at, down[-1].at + high - down[0].at
    box(axes, x, y, width, height, "none", edgecolor=edge, lw=2.6)


def block_numbers(axes: Axes, matrix: TiledMatrix) -> None:
    """The block numbers along the upper and the left edge."""
    style = {"fontsize": LARGE}
    for slot in matrix.across:
        if slot.block is not None:
            write(axes, matrix.left + slot.at + 0.5, matrix.top - 0.22, str(slot.block), **style)
    for slot in matrix.down:
        if slot.block is not None:
            write(axes, matrix.left - 0.1, matrix.top + slot.at + 0.5, str(slot.block), ha="right", **style)
