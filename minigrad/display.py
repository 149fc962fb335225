"""Sentences for a notebook's page: broken between words, where a browser would break a long line within one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import fill
from typing import Any

WIDTH = 106  # characters, which fit beside the number of a cell


class Text(str):
    """Text that a cell displays as it is, without quotes."""

    __repr__ = str.__str__


def folded(text: str) -> str:
    """The text in lines that fit; lines that are indented quote a source, and stay as they are."""
    lines = text.splitlines()
    return "\n".join(
        line if line.startswith(" ") else fill(line, WIDTH, break_long_words=False, break_on_hyphens=False)
        for line in lines
    )


def _kernels(op: Any) -> dict[str, Any]:
    """The kernels by name, each once."""
    return {name: k for name, k in op.kernels.items() if name != "forward" or _own(op)}


def _rows(op: Any) -> list[tuple[str, str, str, str]]:
    """A row for each kernel of the op's first file, where a reader begins."""
    kernels = _kernels(op)
    first = next((k.source.name for k in kernels.values()), "")
    return [(name, where(k), k.name, block(k)) for name, k in kernels.items() if k.source.name == first]


def _further(op: Any) -> dict[str, str]:
    """The names of all other kernels, by file."""
    shown, files = {row[0] for row in _rows(op)}, dict[str, list[str]]()
    for name, kernel in _kernels(op).items():
        if name not in shown:
            files.setdefault(kernel.source.name, []).append(name)
    return {file: ", ".join(names) for file, names in files.items()}


def _own(op: Any) -> bool:
    """True where "forward" is a kernel of its own and not another name for a variant."""
    return not any(k.name == op.kernels["forward"].name for n, k in op.kernels.items() if n != "forward")


def where(kernel: Any) -> str:
    """file:line of a kernel."""
    return f"{kernel.source.name}:{kernel.signature.line}"


def block(kernel: Any) -> str:
    """The threads of a block, with the tunables that decide them: 16 x 16 (TILE=16)."""
    extent = " x ".join(_threads(span, kernel.values) for span in kernel.block)
    tuned = ", ".join(f"{key}={value}" for key, value in kernel.values.items())
    return f"{extent} ({tuned})" if tuned else extent


def _threads(span: Any, values: Mapping[str, int]) -> str:
    """A number; in words where the sizes of a launch decide it."""
    try:
        return str(span.value(values))
    except KeyError:
        return span.words()


def formulas(op: Any) -> tuple[str, str]:
    """The first lines of the docstrings: the formula and the gradient."""
    first = [(f.__doc__ or "").strip().partition("\n")[0] if f else "none" for f in (op.forward, op.backward)]
    return first[0], first[1]


def text(op: Any) -> str:
    """The card as text."""
    formula, gradient = formulas(op)
    rows = _rows(op)
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    lines = [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), f"block {row[3]}"]) for row in rows
    ]
    further = [
        fill(f"{file}: {names}", WIDTH - 2, subsequent_indent="    ", break_long_words=False)
        for file, names in _further(op).items()
    ]
    return "\n  ".join([f"{op.name}: {formula}", f"gradient  {gradient}", *lines, *"\n".join(further).splitlines()])


def html(op: Any) -> str:
    """The card as a small table; the same facts as the text."""
    formula, gradient = (escape(words) for words in formulas(op))
    cells = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in _rows(op)
    )
    cells += "".join(
        f"<tr><td style='text-align:left' colspan='4'>{escape(file)}: {escape(names)}</td></tr>"
        for file, names in _further(op).items()
    )
    head = "".join(f"<th style='text-align:left'>{word}</th>" for word in ("kernel", "file", "name", "block"))
    return (
        f"<div><b>{op.name}</b>: <code>{formula}</code><br>gradient: <code>{gradient}</code>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table></div>"
    )


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


KEYWORDS = (
    "auto bool break case char const constexpr continue default do double else enum extern false float for if inline "
    "int long namespace nullptr operator real return short signed size_t sizeof static static_assert struct switch "
    "template true typedef typename union unsigned using void volatile while"
)
CUDA = r"__\w+__|(?:threadIdx|blockIdx|blockDim|gridDim|warpSize)\b|__(?:sync|shfl|ballot|any|all)\w*|atomic[A-Z]\w*"
TOKENS = re.compile(
    r"(?P<mark>//[ \t]*\[[^\]\n]+\][^\n]*)"
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"|(?P<string>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+')"
    r"|(?P<directive>^[ \t]*\#[ \t]*\w+)"
    rf"|(?P<cuda>\b(?:{CUDA}))"
    rf"|(?P<keyword>\b(?:{KEYWORDS.replace(' ', '|')})\b)"
    r"|(?P<number>\b(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?)[fFuUlL]*)",
    re.S | re.M,
)
STYLES = {
    "mark": "color:#8a4b00;font-weight:bold",
    "comment": "color:#4d6a4d;font-style:italic",
    "string": "color:#8f2d56",
    "directive": "color:#6b4fa0",
    "cuda": "color:#b03a00;font-weight:bold",
    "keyword": "color:#00558c;font-weight:bold",
    "number": "color:#8f2d56",
}
# Colours of its own for paper and ink: it reads the same on a white and on a dark page.
PAPER = "background:#f7f7f5;color:#1a1a1a;border:1px solid #d8d8d4;border-radius:4px;overflow-x:auto;"
BODY = "margin:0;font-family:monospace;font-size:13px;line-height:1.35;padding:6px 8px;color:inherit;background:none"
HEAD = "padding:4px 8px;border-bottom:1px solid #d8d8d4;font-family:monospace;font-size:13px;color:#444"
WRAP = ";white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
GUTTER = "color:#767676;user-select:none"


def highlight(text: str, first_line: int = 1, file: str = "") -> str:
    """HTML of CUDA C++ with line numbers from `first_line` on. The same text gives the same HTML, on every machine."""
    return _page("\n".join(_numbered(text, first_line)), file, first_line)


def column(text: str, first_line: int, file: str, tints: Mapping[int, str]) -> str:
    """As highlight, for a narrow column: a long line is cut between words and goes on below, further in than it began.

    tints: colours behind lines, by number.
    """
    lines, last = [], first_line + text.count("\n")
    for number, (plain, line) in enumerate(zip(text.split("\n"), _numbered(text, first_line), strict=True), first_line):
        further = 0.6 * (len(str(last)) + 2 + len(plain) - len(plain.lstrip()) + 4)  # JupyterLab takes em, and not ch
        style = f"display:block;padding-left:{further:g}em;text-indent:-{further:g}em"
        style += f";background:{tints[number]}" if number in tints else ""
        lines.append(f'<span style="{style}">{line}\n</span>')
    return _page("".join(lines), file, first_line, WRAP)


def _numbered(text: str, first_line: int) -> list[str]:
    lines = _colour(text).split("\n")
    width = len(str(first_line + len(lines) - 1))
    return [f'<span style="{GUTTER}">{number:>{width}}  </span>{line}' for number, line in enumerate(lines, first_line)]


def _page(body: str, file: str, first_line: int, style: str = "") -> str:
    head = f'<div style="{HEAD}">{escape(file)}:{first_line}</div>' if file else ""
    return f'<div style="{PAPER}">{head}<pre style="{BODY}{style}">{body}</pre></div>'


def _colour(text: str) -> str:
    """Each token in a span; a comment over several lines in one span a line, so that lines can be cut apart."""
    pieces, end = [], 0
    for match in TOKENS.finditer(text):
        pieces.append(escape(text[end : match.start()]))
        style = STYLES[str(match.lastgroup)]
        lines = escape(match.group()).split("\n")
        pieces.append("\n".join(f'<span style="{style}">{line}</span>' for line in lines))
        end = match.end()
    return "".join([*pieces, escape(text[end:])])
