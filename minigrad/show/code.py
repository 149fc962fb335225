"""CUDA C++ in colour, with the line numbers of its file."""

import re
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
WRAP = ";white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"  # a long line goes on below, word by word
GUTTER = "color:#767676;user-select:none"


def highlight(text: str, first_line: int = 1, file: str = "", wrap: bool = False) -> str:
    """HTML of CUDA C++ with line numbers from `first_line` on. The same text gives the same HTML, on every machine.

    wrap: for a narrow column, where long lines are cut between words.
    """
    lines = _colour(text).split("\n")
    width = len(str(first_line + len(lines) - 1))
    body = "\n".join(
        f'<span style="{GUTTER}">{number:>{width}}  </span>{line}' for number, line in enumerate(lines, first_line)
    )
    head = f'<div style="{HEAD}">{escape(file)}:{first_line}</div>' if file else ""
    return f'<div style="{PAPER}">{head}<pre style="{BODY}{WRAP if wrap else ""}">{body}</pre></div>'


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
