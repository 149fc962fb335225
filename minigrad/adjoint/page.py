"""An adjoint in a notebook: the kernel and its adjoint side by side, and the decision table."""

from typing import TYPE_CHECKING

from minigrad.show.code import highlight

if TYPE_CHECKING:
    from minigrad.adjoint.adjoint import Adjoint

HALF = "flex:1 1 28em;min-width:0"


def page(made: "Adjoint") -> str:
    """HTML that needs no script."""
    first, text = made.primal.source.kernel_text(made.primal.name)
    line, own = made.kernel.source.kernel_text(made.kernel.name)
    sides = highlight(text, first, made.primal.source.name), highlight(own, line, made.kernel.source.name)
    columns = "".join(f'<div style="{HALF}">{side}</div>' for side in sides)
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px">{columns}</div>{made.decisions._repr_html_()}'
