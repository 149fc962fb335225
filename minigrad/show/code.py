"""CUDA C++ in colour, with the line numbers of its file."""

import re
from collections.abc import Mapping
from html import escape

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
