"""Embedding: a table with a row for each word, or other thing that has a number."""

from typing import Any

from minigrad import create
from minigrad.errors import require_int
from minigrad.nn.module import Module
from minigrad.operators import OPS
from minigrad.tensor import Tensor


class Embedding(Module):
    """y = weight[indices], with weight (rows, width), which starts standard normal, as in PyTorch."""

    def __init__(self, rows: int, width: int, device: str | None = None, dtype: Any = "float32"):
        require_int("Embedding", "rows", rows, 1)
        require_int("Embedding", "width", width, 1)
        self.weight = create.randn(rows, width, requires_grad=True, device=device, dtype=dtype)

    def forward(self, indices: Tensor) -> Tensor:
        """embedding(indices, weight)."""
        return OPS["embedding"](indices, self.weight)

    def __repr__(self) -> str:
        return f"Embedding({self.weight.shape[0]}, {self.weight.shape[1]})"
