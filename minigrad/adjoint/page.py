"""An adjoint in a notebook: the kernel and its functions beside their adjoints, and the decision table."""

from typing import TYPE_CHECKING

from minigrad.show.code import highlight
from minigrad.source import Source

if TYPE_CHECKING:
    from minigrad.adjoint.adjoint import Adjoint

HALF = "flex:1 1 28em;min-width:0"


def page(made: "Adjoint") -> str:
    """HTML that needs no script."""
    source, primal = made.kernels[0].source, made.primal.source
    functions = [(f.place.line, f.text) for f in made.module.functions.values()]
    sides = [(primal.name, [*functions, primal.kernel_text(made.primal.name)]), (source.name, [_own(made, source)])]
    columns = "".join(
        f'<div style="{HALF}">{"".join(highlight(text, line, file, wrap=True) for line, text in pieces)}</div>'
        for file, pieces in sides
    )
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px">{columns}</div>{made.decisions._repr_html_()}'


def _own(made: "Adjoint", source: Source) -> tuple[int, str]:
    """The first line and the text of what an adjoint's file has of its own: functions with their adjoints, kernels."""
    text = source.kernel_text(made.kernels[0].name)[1]
    start = source.text.index(made.assembled.functions[0] if made.assembled.functions else text)
    return source.text.count("\n", 0, start) + 1, source.text[start:].rstrip()
