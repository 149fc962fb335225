"""An adjoint in a notebook: the kernel and its adjoint side by side, and the decision table."""

from typing import TYPE_CHECKING

from minigrad.show.code import highlight

if TYPE_CHECKING:
    from minigrad.adjoint.adjoint import Adjoint

HALF = "flex:1 1 28em;min-width:0"


def page(made: "Adjoint") -> str:
    """HTML that needs no script."""
    first, text = made.primal.source.kernel_text(made.primal.name)
    source = made.kernels[0].source
    texts = [source.kernel_text(kernel.name) for kernel in made.kernels]
    line, own = texts[0][0], "\n\n".join(text for _, text in texts)
    sides = (text, first, made.primal.source.name), (own, line, source.name)
    columns = "".join(f'<div style="{HALF}">{highlight(*side, wrap=True)}</div>' for side in sides)
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px">{columns}</div>{made.decisions._repr_html_()}'
