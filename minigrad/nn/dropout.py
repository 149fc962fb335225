"""Dropout: a layer that leaves numbers out at random, so that no unit can rely on another."""

from typing import Any

from minigrad.errors import require_number
from minigrad.nn.module import Module
from minigrad.operators import OPS
from minigrad.tensor import Tensor


class Dropout(Module):
    """In training each number is 0 with probability p, and else x / (1 - p); in evaluation y = x.

    The masks follow from the seed that `mg.manual_seed` sets, the same on every device: numbers are counted by rows,
    and images with their channels last are copied to rows first. Source: Srivastava, Hinton, Krizhevsky, Sutskever and
    Salakhutdinov, "Dropout", JMLR 2014.
    """

    def __init__(self, p: float = 0.5, **like: Any):
        super().__init__(**like)
        self.p = require_number("Dropout", "p", p, most=1)

    def forward(self, x: Tensor) -> Tensor:
        """dropout(x, p, training); x itself where nothing is dropped."""
        return x if self.p == 0 else OPS["dropout"](x, p=self.p, training=self.training)

    def __repr__(self) -> str:
        return f"Dropout({self.p:g})"
