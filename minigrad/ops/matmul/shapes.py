"""The shapes of a product and of its two gradients, which are products again."""

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from minigrad.devices.device import MAX_GRID
from minigrad.kernels.view import Shape, View, broadcast

ONE = View.of((), ())  # a batch of one matrix
# The three products, and the end of the names of their kernels.
ENDS = {"forward": "", "backward_a": "_backward_a", "backward_b": "_backward_b"}


@dataclass(frozen=True)
class Products:
    """`count` products (m, k) @ (k, n), the shapes of da, db and c, and a view of the batch for each."""

    m: int
    n: int
    k: int
    da: Shape
    db: Shape
    c: Shape
    count: int = 1
    a_at: View = ONE
    b_at: View = ONE
    c_at: View = ONE

    def extents(self, way: str) -> tuple[int, int, int]:
        """Rows and columns of a result, and the terms of its sums, for a `way` of ENDS."""
        m, n, k = self.m, self.n, self.k
        return {"forward": (m, n, k), "backward_a": (m, k, n), "backward_b": (k, n, m)}[way]

    def views(self, way: str) -> tuple[View, View]:
        """The views of the two factors: a @ b, dy @ b^T or a^T @ dy."""
        a, b, c = self.a_at, self.b_at, self.c_at
        return {"forward": (a, b), "backward_a": (c, b), "backward_b": (a, c)}[way]


@lru_cache(maxsize=1024)
def products(a: Shape, b: Shape) -> Products:
    """The products for these shapes. A batch of a that shares one matrix b is a single product with all the rows."""
    m, n, k = (1, *a)[-2], b[-1] if len(b) > 1 else 1, a[-1]
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    da, db, c = (*batch, *a[-2:]), (*batch, *b[-2:]), (*batch, *a[-2:-1], *b[-1:] * (len(b) > 1))
    if prod(b[:-2]) == 1:
        return Products(prod(a[:-1]), n, k, a, b, c)
    if prod(batch) > MAX_GRID[2]:
        raise ValueError(f"matmul: {prod(batch)} matrices in a batch; a launch takes {MAX_GRID[2]}. Split the batch.")
    views = (broadcast(shape, batch) for shape in (a[:-2], b[:-2], batch))
    return Products(m, n, k, da, db, c, prod(batch), *views)
