"""Text, tables, highlighted code and the card of an op: what a cell shows, in plain text and in HTML."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import fill
from typing import Any

WIDTH = 106  # characters, which fit beside the number of a cell
LINE = 17  # pixels, of a line of plain text within HTML


class Text(str):
    """Text that a cell displays as it is, without quotes."""

    __repr__ = str.__str__


def folded(text: str) -> str:
    """The text wrapped between words, which a page would break; indented lines, of source code, stay as they are."""
    return "\n".join(
        line if line.startswith(" ") else fill(line, WIDTH, break_long_words=False, break_on_hyphens=False)
        for line in text.splitlines()
    )


class Folded:
    """Pictures, tables and texts under one line, which opens at a click; as plain text all of it is open."""

    def __init__(self, line: str, parts: Sequence[Any]):
        self.line, self.parts = line, tuple(parts)

    def __repr__(self) -> str:
        return "\n".join([f"{self.line}:", *map(repr, self.parts)])

    def _repr_html_(self) -> str:
        made = (getattr(part, "_repr_html_", lambda part=part: plain(repr(part)))() for part in self.parts)
        return f'<details><summary style="cursor:pointer">{escape(self.line)}</summary>{"".join(made)}</details>'


def plural(number: int, noun: str, nouns: str = "") -> str:
    """1 block, 2 blocks."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def plain(text: str) -> str:
    """HTML of a text in columns."""
    style = f"margin:0;font-family:monospace;font-size:13px;line-height:{LINE}px;overflow-x:auto"
    return f'<pre style="{style}">{escape(text)}</pre>'


CELL = "padding:2px 14px 2px 0;text-align:{side}"


@dataclass(frozen=True)
class Table:
    """Rows of cells under headers, and a caption above them."""

    rows: tuple[tuple[str, ...], ...]
    headers: tuple[str, ...]
    caption: str = ""

    def _sides(self) -> list[str]:
        """Columns of numbers are aligned to the right, others to the left."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.headers)
        return ["right" if column and all(map(_is_number, column)) else "left" for column in columns]

    def __repr__(self) -> str:
        lines = [self.headers, *self.rows] if any(self.headers) else self.rows
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        pad = [">" if side == "right" else "<" for side in self._sides()]
        padded = (
            "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(line, pad, widths, strict=True)).rstrip()
            for line in lines
        )
        return "\n".join([*filter(None, [self.caption]), *padded])

    def _repr_html_(self) -> str:
        styles = [CELL.format(side=side) for side in self._sides()]

        def row(tag: str, cells: Sequence[str]) -> str:
            return "".join(f'<{tag} style="{s}">{escape(c)}</{tag}>' for c, s in zip(cells, styles, strict=True))

        head = f"<thead><tr>{row('th', self.headers)}</tr></thead>" if any(self.headers) else ""
        body = "".join(f"<tr>{row('td', cells)}</tr>" for cells in self.rows)
        caption = f"<p>{escape(self.caption)}</p>" if self.caption else ""
        return f"{caption}<table>{head}<tbody>{body}</tbody></table>"


class Tabular:
    """A result that a cell displays as its table."""

    def table(self) -> Table:
        raise NotImplementedError

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", ""))
    except ValueError:
        return cell in ("", "-")
    return True


def table(rows: Sequence[Sequence[Any]], headers: Sequence[str] = (), caption: str = "") -> Table:
    """Rows of anything under headers. Raises ValueError for a row with too few or too many cells."""
    cells = tuple(tuple(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row) for row in rows)
    width = len(headers) or len(cells[0] if cells else ())
    for number, row in enumerate(cells):
        if len(row) != width:
            raise ValueError(f"table: row {number} has {len(row)} cells; there are {width} columns. Fill it with ''.")
    return Table(cells, tuple(headers) or ("",) * width, caption)


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
# Colours for background and text: code reads the same on a light and on a dark page.
PAPER = "background:#f7f7f5;color:#1a1a1a;border:1px solid #d8d8d4;border-radius:4px;overflow-x:auto;"
BODY = "margin:0;font-family:monospace;font-size:13px;line-height:1.35;padding:6px 8px;color:inherit;background:none"
HEAD = "padding:4px 8px;border-bottom:1px solid #d8d8d4;font-family:monospace;font-size:13px;color:#444"
WRAP = ";font-size:12px;white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
GUTTER = "color:#767676;user-select:none"


def highlight(text: str, first_line: int = 1, file: str = "") -> str:
    """HTML of CUDA C++ with line numbers from `first_line` on. The same text gives the same HTML, on every machine."""
    return _page("\n".join(_numbered(text, first_line)), file, first_line)


def column(text: str, first_line: int, file: str, tints: Mapping[int, str]) -> str:
    """Like highlight, for a narrow column: long lines wrap between words, with an indented continuation.

    tints: colours behind lines, by number.
    """
    lines, last = [], first_line + text.count("\n")
    for number, (plain, line) in enumerate(zip(text.split("\n"), _numbered(text, first_line), strict=True), first_line):
        indent = 0.6 * (len(str(last)) + 2 + len(plain) - len(plain.lstrip()) + 4)  # JupyterLab takes em, and not ch
        style = f"display:block;padding-left:{indent:g}em;text-indent:-{indent:g}em"
        style += f";background:{tints[number]}" if number in tints else ""
        lines.append(f'<span style="{style}">{line}\n</span>')
    return _page("".join(lines), file, first_line, WRAP)


def _numbered(text: str, first_line: int) -> list[str]:
    """Numbered lines with a span for each token; a comment over several lines has one span for each line."""
    pieces, end = [], 0
    for match in TOKENS.finditer(text):
        pieces.append(escape(text[end : match.start()]))
        start = f'<span style="{STYLES[str(match.lastgroup)]}">'
        pieces.append("\n".join(f"{start}{line}</span>" for line in escape(match.group()).split("\n")))
        end = match.end()
    lines = "".join([*pieces, escape(text[end:])]).split("\n")
    width = len(str(first_line + len(lines) - 1))
    return [f'<span style="{GUTTER}">{number:>{width}}  </span>{line}' for number, line in enumerate(lines, first_line)]


def _page(body: str, file: str, first_line: int, style: str = "") -> str:
    head = f'<div style="{HEAD}">{escape(file)}:{first_line}</div>' if file else ""
    return f'<div style="{PAPER}">{head}<pre style="{BODY}{style}">{body}</pre></div>'


def card_text(op: Any) -> str:
    """The card of an op: its formula and gradient, its first file's kernels in rows, the others by file."""
    formula, gradient = _formulas(op)
    rows, further = _kernels(op)
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)][:3]
    lines = ["  ".join([*map(str.ljust, row[:3], widths), f"block {row[3]}"]) for row in rows]
    for file, names in further.items():
        text = fill(f"{file}: {names}", WIDTH - 2, subsequent_indent="    ", break_long_words=False)
        lines += text.splitlines()
    return "\n  ".join([f"{op.name}: {formula}", f"gradient  {gradient}", *lines])


def card_html(op: Any) -> str:
    """The card as a small table; the same facts as the text."""
    formula, gradient = map(escape, _formulas(op))
    rows, further = _kernels(op)
    left = "style='text-align:left'"
    lines = ["".join(f"<td {left}>{escape(cell)}</td>" for cell in row) for row in rows]
    lines += [f"<td {left} colspan='4'>{escape(file)}: {escape(names)}</td>" for file, names in further.items()]
    head = "".join(f"<th {left}>{word}</th>" for word in ("kernel", "file", "name", "block"))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f"<div><b>{op.name}</b>: <code>{formula}</code><br>gradient: <code>{gradient}</code>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _formulas(op: Any) -> list[str]:
    """The formula and its gradient: the first lines of two docstrings."""
    return [(f.__doc__ or "").strip().partition("\n")[0] if f else "none" for f in (op.forward, op.backward)]


def _kernels(op: Any) -> tuple[list[tuple[str, str, str, str]], dict[str, str]]:
    """A row for each kernel of the op's first file, where a reader begins; the names of all others, by file."""
    kernels, rows, further = own_kernels(op), [], dict[str, list[str]]()
    first = next((kernel.source.name for kernel in kernels.values()), "")
    for name, kernel in kernels.items():
        if (file := kernel.source.name) == first:
            rows.append((name, f"{file}:{kernel.signature.line}", kernel.name, block(kernel)))
        else:
            further.setdefault(file, []).append(name)
    return rows, {file: ", ".join(names) for file, names in further.items()}


def own_kernels(op: Any) -> dict[str, Any]:
    """The kernels by name, each once: "forward" may be another name for a variant."""
    others = [kernel.name for name, kernel in op.kernels.items() if name != "forward"]
    return {name: kernel for name, kernel in op.kernels.items() if name != "forward" or kernel.name not in others}


def block(kernel: Any) -> str:
    """The threads of a block, with the tunables that decide them: 16 x 16 (TILE=16)."""
    extent = " x ".join(_threads(span, kernel.values) for span in kernel.block)
    tuned = ", ".join(f"{key}={value}" for key, value in kernel.values.items())
    return f"{extent} ({tuned})" if tuned else extent


def _threads(span: Any, values: Mapping[str, int]) -> str:
    """An extent of the block: a number, or words if the sizes of a launch decide it."""
    try:
        return str(span.value(values))
    except KeyError:
        return span.words()


MARK = re.compile(r"^[ \t]*//[ \t]*\[([^\]]+)\]", re.M)


class Listing:
    """Numbered lines of a file, highlighted in a notebook."""

    def __init__(self, file: str, first: int, text: str):
        self.file, self.first, self.text = file, first, text

    def __repr__(self) -> str:
        lines = self.text.splitlines()
        numbered = (f"{number:4d}  {line}" for number, line in enumerate(lines, self.first))
        return "\n".join([f"{self.file}:{self.first}", *numbered])

    def _repr_html_(self) -> str:
        return highlight(self.text, self.first, self.file)


def regions(file: str, first: int, text: str) -> dict[str, Listing]:
    """The lines below each mark `// [title]`, up to the next mark or the last brace."""
    marks = list(MARK.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [text.rfind("}")] * bool(marks)
    return {
        mark.group(1): Listing(file, first + text.count("\n", 0, mark.start()), text[mark.start() : end].rstrip())
        for mark, end in zip(marks, ends, strict=True)
    }


def first_line(text: str, start: int) -> int:
    """The offset of the first of the comment and template lines above the line that begins at `start`."""
    while start > 0:
        previous = text.rfind("\n", 0, start - 1) + 1
        line = text[previous : start - 1].strip()
        head = line.startswith(("template", 'extern "C"')) and line[-1:] not in ("}", ";")  # not of another item
        if not (head or line.startswith("//")) or MARK.match(text[previous:start]):
            break
        start = previous
    return start
