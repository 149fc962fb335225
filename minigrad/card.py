"""The card that an op shows in a notebook cell: formula, gradient, and each kernel with file:line and block."""

from collections.abc import Mapping
from html import escape
from textwrap import fill
from typing import TYPE_CHECKING

from minigrad.prose import WIDTH

if TYPE_CHECKING:
    from minigrad.kernel import Kernel
    from minigrad.launch import Span
    from minigrad.op import Op


def _kernels(op: "Op") -> dict[str, "Kernel"]:
    """The kernels by name, each once."""
    return {name: k for name, k in op.kernels.items() if name != "forward" or _own(op)}


def _rows(op: "Op") -> list[tuple[str, str, str, str]]:
    """A row for each kernel of the op's first file, where a reader begins."""
    kernels = _kernels(op)
    first = next((k.source.name for k in kernels.values()), "")
    return [(name, where(k), k.name, block(k)) for name, k in kernels.items() if k.source.name == first]


def _further(op: "Op") -> dict[str, str]:
    """The names of all other kernels, by file."""
    shown, files = {row[0] for row in _rows(op)}, dict[str, list[str]]()
    for name, kernel in _kernels(op).items():
        if name not in shown:
            files.setdefault(kernel.source.name, []).append(name)
    return {file: ", ".join(names) for file, names in files.items()}


def _own(op: "Op") -> bool:
    """Whether "forward" is a kernel of its own and not another name for a variant."""
    return not any(k.name == op.kernels["forward"].name for n, k in op.kernels.items() if n != "forward")


def where(kernel: "Kernel") -> str:
    """file:line of a kernel."""
    return f"{kernel.source.name}:{kernel.signature.line}"


def block(kernel: "Kernel") -> str:
    """The threads of a block, with the tunables that decide them: 16 x 16 (TILE=16)."""
    extent = " x ".join(_threads(span, kernel.values) for span in kernel.block)
    tuned = ", ".join(f"{key}={value}" for key, value in kernel.values.items())
    return f"{extent} ({tuned})" if tuned else extent


def _threads(span: "Span", values: Mapping[str, int]) -> str:
    """A number; in words where the sizes of a launch decide it."""
    try:
        return str(span.value(values))
    except KeyError:
        return span.words()


def formulas(op: "Op") -> tuple[str, str]:
    """The first lines of the docstrings: the formula and the gradient."""
    first = [(f.__doc__ or "").strip().partition("\n")[0] if f else "none" for f in (op.forward, op.backward)]
    return first[0], first[1]


def text(op: "Op") -> str:
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


def html(op: "Op") -> str:
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
