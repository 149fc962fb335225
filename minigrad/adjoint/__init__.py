"""The adjoint of a kernel: CUDA C++ in, its reverse-mode derivative as readable CUDA C++ out.

The modules in the order of the work. Parse: `tokens`, `outside`, `scope`, `expressions`, `declarations`, `parser`,
`macros`, `module` read a file into a `tree`. Analyse: `wrt`, `activity`, `structure`, `counting`, `stores`,
`injective`, `cover` find out about it. Reverse: `keeping`, `rules`, `assign`, `sweep`, `rounds`, each a class that the
next one extends, make the forward and the backward sweep. Tidy: `prune`, `tidy`, `hoist` and `order` make them lean;
`turn` and `split`, `accumulate` and `phases` say who adds what, so that no two threads meet. Print: `derive` and
`derive_kernel` do these in turn, `assemble` writes the file, `given` and `launching` run it. `ladder` has kernels to
try it on.
"""

import sys
from types import ModuleType
from typing import Any

from minigrad.adjoint.adjoint import Adjoint, adjoint
from minigrad.adjoint.decisions import Decisions
from minigrad.adjoint.differentiable import Differentiable, differentiable
from minigrad.adjoint.ladder import LADDER, ladder
from minigrad.adjoint.tokens import Refused

__all__ = ["LADDER", "Adjoint", "Decisions", "Differentiable", "Refused", "adjoint", "differentiable", "ladder"]


class _Callable(ModuleType):
    """Once this package is imported, the name `mg.adjoint` is the package; calling it does the same."""

    def __call__(self, *args: Any, **named: Any) -> Adjoint:
        return adjoint(*args, **named)


sys.modules[__name__].__class__ = _Callable
