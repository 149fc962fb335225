"""The adjoint of a kernel: CUDA C++ in, its reverse-mode derivative as readable CUDA C++ out.

The steps in their order, each in the folder of its name:

  frontend       parse the file into a typed syntax tree: its items, types, declarations, expressions, calls and
                 statements; pointers, structs, and functions that are no formulas become numbers, arrays, statements
  language       the tree; tokens (lexer, preprocessor); jumps turned into branches (control_flow); the tree rewritten,
                 what it reads and writes (dataflow), printed
  analyse        which variables carry derivatives, how often loops run, which thread owns an element, which barriers
                 separate which accesses
  decide         store or recompute a value, checkpoint a tape, gather instead of scatter, launch once or several times,
                 add plainly, over the warp, over the block or by atomics
  differentiate  write the forward and the backward sweep in full
  simplify       remove dead code, hoist out of loops, tidy
  emit           assemble the `.cu` file; the table of decisions

derive runs these steps, and the optimizations as a list, PASSES in passes: without them the adjoint is the plain one.
adjoint has the class for users, run launches it, examine looks at the kernel first, op records it on the tape; `ladder`
has kernels to try it on.
"""

import sys
from types import ModuleType
from typing import Any

from minigrad.adjoint.adjoint import Adjoint, adjoint
from minigrad.adjoint.emit.decisions import Decisions
from minigrad.adjoint.language.lexer import NotDifferentiable
from minigrad.adjoint.op import Differentiable, differentiable
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source

__all__ = [
    "LADDER", "Adjoint", "Decisions", "Differentiable", "NotDifferentiable", "adjoint", "differentiable", "ladder",
]  # fmt: skip

# The kernels of `cuda/adjoint`, by file.
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
    """A kernel of `cuda/adjoint`, from axpy up to a discontinuous Galerkin term: `ladder("matmul_tiled", TILE=8)`.

    Raises ValueError with the list of names for any other.
    """
    if name not in LADDER:
        raise ValueError(f"the ladder has no kernel {name!r}; it has {', '.join(LADDER)}.")
    return Kernel(Source.read(f"adjoint/{LADDER[name]}.cu"), name, defines=defines)


class CallablePackage(ModuleType):
    """`mg.adjoint(kernel)` works where `mg.adjoint` is this package, as Python binds it at the first import."""

    __call__ = staticmethod(adjoint)


sys.modules[__name__].__class__ = CallablePackage
