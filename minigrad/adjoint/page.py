"""An adjoint in a notebook: the kernel and its functions beside their adjoints, and the decision table."""

import re
from typing import TYPE_CHECKING

from minigrad.show.code import column
from minigrad.source import Source

if TYPE_CHECKING:
    from minigrad.adjoint.adjoint import Adjoint

SHARES = ("flex:9 1 25em;min-width:0", "flex:10 1 28em;min-width:0")  # of the width
TINTS = ("#d6e6fa", "#fbe3c8", "#d8efd9", "#ecdcf3", "#f8efb2")  # behind a line and what reverses it, in turn
REVERSED = re.compile(r"// adjoint of line (\d+)")


def page(made: "Adjoint") -> str:
    """HTML that needs no script. A line of the kernel and the comments above what reverses it have one colour."""
    source, primal = made.kernels[0].source, made.primal.source
    functions = [(f.place.line, f.text) for f in made.module.functions.values()]
    first, own = _own(made, source)
    reverses = {n: int(found[1]) for n, line in enumerate(own.split("\n"), first) if (found := REVERSED.search(line))}
    colours = {line: TINTS[k % len(TINTS)] for k, line in enumerate(sorted(set(reverses.values())))}
    left = [*functions, primal.kernel_text(made.primal.name)]
    sides = [(primal.name, left, colours), (source.name, [(first, own)], {n: colours[r] for n, r in reverses.items()})]
    columns = "".join(
        f'<div style="{share}">{"".join(column(text, line, file, tints) for line, text in pieces)}</div>'
        for share, (file, pieces, tints) in zip(SHARES, sides, strict=True)
    )
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px">{columns}</div>{made.decisions._repr_html_()}'


def _own(made: "Adjoint", source: Source) -> tuple[int, str]:
    """The first line and the text of what an adjoint's file has of its own: functions with their adjoints, kernels."""
    text = source.kernel_text(made.kernels[0].name)[1]
    start = source.text.index(made.assembled.functions[0] if made.assembled.functions else text)
    return source.text.count("\n", 0, start) + 1, source.text[start:].rstrip()
