"""A table as HTML and as text, the same facts in both."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

CELL = "padding:2px 14px 2px 0;text-align:{side}"


@dataclass(frozen=True)
class Table:
    """Rows of cells under headers."""

    rows: tuple[tuple[str, ...], ...]
    headers: tuple[str, ...]

    def _sides(self) -> list[str]:
        """Numbers stand right, words left."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.headers)
        return ["right" if column and all(map(_is_number, column)) else "left" for column in columns]

    def __repr__(self) -> str:
        lines = [self.headers, *self.rows] if any(self.headers) else [*self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        sides = [str.rjust if side == "right" else str.ljust for side in self._sides()]
        return "\n".join(
            "  ".join(side(cell, width) for side, cell, width in zip(sides, line, widths, strict=True)).rstrip()
            for line in lines
        )

    def _repr_html_(self) -> str:
        def row(tag: str, cells: Sequence[str]) -> str:
            pairs = zip(cells, self._sides(), strict=True)
            return "".join(f'<{tag} style="{CELL.format(side=s)}">{escape(cell)}</{tag}>' for cell, s in pairs)

        head = f"<thead><tr>{row('th', self.headers)}</tr></thead>" if any(self.headers) else ""
        body = "".join(f"<tr>{row('td', cells)}</tr>" for cells in self.rows)
        return f"<table>{head}<tbody>{body}</tbody></table>"


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", ""))
    except ValueError:
        return cell in ("", "-")
    return True


def table(rows: Sequence[Sequence[Any]], headers: Sequence[str] = ()) -> Table:
    """Rows of anything under headers; every row needs as many cells. Raises ValueError where one has not."""
    cells = tuple(tuple(map(_short, row)) for row in rows)
    width = len(headers) or len(cells[0] if cells else ())
    for number, row in enumerate(cells):
        if len(row) != width:
            raise ValueError(f"table: row {number} has {len(row)} cells; there are {width} columns. Fill it with ''.")
    return Table(cells, tuple(headers) or ("",) * width)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
