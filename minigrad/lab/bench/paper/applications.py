"""The kernels of the paper's applications, with the sizes at which they are checked and timed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from minigrad.kernels.extents import Extent, ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.source_kernel import kernel
from minigrad.lab.bench.paper import inputs
from minigrad.source import CUDA

LAYER = 120 * 120  # cells of the lattice


@dataclass(frozen=True)
class Application:
    """A kernel of an application; make(rng, size) returns its arguments.

    size: that of the paper's ablation, or the first of its sweep where that does not fill a GPU; small: that of the
    check, of so many threads that `sim` does not search them for races. A block of several axes is one element.
    """

    file: str
    kernel: str
    make: Callable[[np.random.Generator, int], list[Any]]
    size: int
    small: int
    unit: str
    block: Extent = 128
    wrt: tuple[str, ...] | None = None
    dtype: str = "float64"
    tolerance: float = 1e-9  # of the largest element of a gradient

    def at(self, size: int) -> Kernel:
        """The kernel for a size, which the lattice has as macros."""
        defines = {"NZ": size // LAYER} if self.file == "lbm" else {}
        return kernel(CUDA / f"adjoint/paper/{self.file}.cu", self.kernel, defines)

    def grid(self, args: list[Any], size: int) -> int:
        """The number of blocks; the last argument, where it is a number, is that of the threads."""
        threads = args[-1] if isinstance(args[-1], int) else size
        return ceil_div(threads, self.block) if isinstance(self.block, int) else size


def xsbench(grid_type: int, rng: np.random.Generator, lookups: int) -> list[Any]:
    """The small problem: 68 nuclides of 11303 points; 34 places in a material."""
    return inputs.lookup(rng, lookups, 68, 11303, 34, grid_type)


def rsbench(doppler: int, rng: np.random.Generator, lookups: int) -> list[Any]:
    """The small problem: 68 nuclides of 100 windows."""
    return inputs.multipole(rng, lookups, 68, 100, 4, 34, doppler)


def lulesh(name: str, rng: np.random.Generator, elements: int) -> list[Any]:
    return inputs.hydrodynamics(rng, round(elements ** (1 / 3)), name)


HYDRODYNAMICS = (
    "stress_force", "hourglass_force", "node_motion", "kinematics", "viscosity_gradient", "viscosity", "material",
    "time_constraint",
)  # fmt: skip
APPLICATIONS: dict[str, Application] = {
    **{
        f"XSBench, {grid} grid": Application("xsbench", "lookup", partial(xsbench, n), 17_000_000, 5000, "lookups")
        for n, grid in enumerate(("nuclide", "unionized"))
    },
    **{
        f"RSBench, {poles}": Application("rsbench", "lookup", partial(rsbench, n), 102_000, 5000, "lookups")
        for n, poles in enumerate(("0 K", "broadened"))
    },
    "LBM": Application(
        "lbm", "stream_collide", inputs.lattice, 150 * LAYER, LAYER, "cells", 128, ("src",), "float32", 1e-4
    ),
    **{
        f"LULESH, {name}": Application("lulesh", name, partial(lulesh, name), 90**3, 17**3, "elements")
        for name in HYDRODYNAMICS
    },
    "DG": Application(
        "dg", "volume_term", inputs.elements, 20_000, 200, "elements", (5, 5), None, "float32", 1e-4
    ),
}  # fmt: skip
