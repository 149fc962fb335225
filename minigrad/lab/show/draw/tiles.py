"""Matrices cut into tiles, and how to draw them."""

from dataclasses import dataclass

from matplotlib.axes import Axes as Canvas

from minigrad.lab.show.draw.grid import Axis, Slot, slots
from minigrad.lab.show.draw.picture import GREY, box, words

TILES = 6  # as many tiles are drawn along an axis
Place = tuple[int | None, int | None]
THREADS = 24  # up to as many threads along an axis, each one gets its square


@dataclass(frozen=True)
class Sheet:
    """A matrix in tiles at a place in the picture."""

    name: str
    rows: Axis
    columns: Axis
    left: float = 0
    top: float = 0
    keep: tuple[int, int] = (0, 0)  # the block (row, column) that must be seen

    @property
    def down(self) -> list[Slot]:
        """The tiles from top to bottom."""
        return slots(self.rows, TILES, self.keep[0])

    @property
    def across(self) -> list[Slot]:
        """The tiles from left to right."""
        return slots(self.columns, TILES, self.keep[1])

    @property
    def right(self) -> float:
        """Where it ends."""
        return self.left + (self.across[-1].at + 1 if self.across else 0)

    @property
    def bottom(self) -> float:
        """Where it ends."""
        return self.top + (self.down[-1].at + 1 if self.down else 0)

    @property
    def edge(self) -> float:
        """Where its elements end, left of threads without one."""
        return self.right - 1 + self.busy(self.down[-1], self.across[-1])[1]

    def label(self) -> str:
        """Its name, its shape in letters and in numbers."""
        return f"{self.name}\n{self.rows.size} x {self.columns.size}\n{self.rows.extent} x {self.columns.extent}"

    def busy(self, row: Slot, column: Slot) -> tuple[float, float]:
        """Which part of a drawn tile has elements: its height and its width."""
        parts = [
            slot.width if slot.block is None else axis.busy(slot.block) / axis.piece
            for slot, axis in ((row, self.rows), (column, self.columns))
        ]
        return parts[0], parts[1]


def draw(axes: Canvas, sheet: Sheet, fill: str, threads: bool = False) -> None:
    """Every tile with its elements; with `threads`, the part of a tile that has no element is drawn too, hatched."""
    for row in sheet.down:
        for column in sheet.across:
            x, y, (high, wide) = sheet.left + column.at, sheet.top + row.at, sheet.busy(row, column)
            if row.block is None or column.block is None:
                dots = "⋱" if row.block == column.block else "⋮" if row.block is None else "…"
                words(axes, x + wide / 2, y + high / 2, dots, color=GREY)
                continue
            if threads:
                box(axes, x, y, 1, 1, "white", idle=True)
            tile(axes, sheet, row, column, fill)
            if threads:
                box(axes, x, y, 1, 1, "none", linewidth=1.4)


def tile(axes: Canvas, sheet: Sheet, row: Slot, column: Slot, fill: str) -> None:
    """The elements of one tile, each in its square where there is room."""
    x, y, (high, wide) = sheet.left + column.at, sheet.top + row.at, sheet.busy(row, column)
    box(axes, x, y, wide, high, fill, linewidth=0.9, edgecolor=GREY)
    if max(sheet.rows.threads, sheet.columns.threads) <= THREADS:
        for i in range(1, round(high * sheet.rows.piece)):
            axes.plot([x, x + wide], [y + i / sheet.rows.piece] * 2, color=GREY, lw=0.4)
        for j in range(1, round(wide * sheet.columns.piece)):
            axes.plot([x + j / sheet.columns.piece] * 2, [y, y + high], color=GREY, lw=0.4)


def mark(axes: Canvas, sheet: Sheet, at: Place, fill: str, edge: str, threads: bool = False) -> None:
    """Colour one tile, or with None for a side the whole strip, and outline it: its elements, or all its threads."""
    down = [slot for slot in sheet.down if at[0] is None or slot.block == at[0]]
    across = [slot for slot in sheet.across if at[1] is None or slot.block == at[1]]
    for row in down:
        for column in across:
            if row.block is not None and column.block is not None:
                tile(axes, sheet, row, column, fill)
    high, wide = (1, 1) if threads else sheet.busy(down[-1], across[-1])
    x, y = sheet.left + across[0].at, sheet.top + down[0].at
    box(
        axes, x, y, across[-1].at + wide - across[0].at, down[-1].at + high - down[0].at, "none", edgecolor=edge, lw=2.6
    )


def numbers(axes: Canvas, sheet: Sheet) -> None:
    """The block numbers along the upper and the left edge."""
    for slot in sheet.across:
        if slot.block is not None:
            words(axes, sheet.left + slot.at + 0.5, sheet.top - 0.22, str(slot.block), fontsize=10, color=GREY)
    for slot in sheet.down:
        if slot.block is not None:
            words(
                axes, sheet.left - 0.1, sheet.top + slot.at + 0.5, str(slot.block), ha="right", fontsize=10, color=GREY
            )
