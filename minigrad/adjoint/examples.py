"""The ladder: the kernels of `cuda/adjoint`, from axpy up to a discontinuous Galerkin term."""

from typing import Any

from minigrad.kernels.kernel import Kernel
from minigrad.source import Source

FILES = {
    "axpy": ("axpy", "axpy_strided"),
    "elementwise": ("elementwise", "gelu"),
    "gather": ("gather", "scatter"),
    "loops": (
        "sum_of_squares", "product", "horner", "triangular", "eighth_power", "newton", "largest", "after_the_loop",
    ),
    "overwrites": ("overwrite", "multiply_in_place", "swap_squared", "read_again"),
    "stencil": ("laplacian", "laplacian_tiled"),
    "reduction": ("block_sum", "block_max"),
    "softmax": ("softmax",),
    "matmul": ("matmul_tiled",),
    "nbody": ("nbody",),
    "lbm": ("lbm_d2q9",),
    "lbm3": ("lbm_d3q19",),
    "xsbench": ("cross_sections",),
    "rsbench": ("multipole",),
    "eos": ("equation_of_state",),
    "dg": ("dg_volume",),
}  # fmt: skip
LADDER = {name: file for file, names in FILES.items() for name in names}


def ladder(name: str, **defines: Any) -> Kernel:
    """A kernel of the ladder by its name: `mg.adjoint.ladder("matmul_tiled", TILE=8)`.

    Raises ValueError with the list of names where there is none of that name.
    """
    if name not in LADDER:
        raise ValueError(f"the ladder has no kernel {name!r}; it has {', '.join(LADDER)}.")
    return Kernel(Source.read(f"adjoint/{LADDER[name]}.cu"), name, defines=defines)
