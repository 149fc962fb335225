"""The adjoint of a kernel: CUDA C++ in, its reverse-mode derivative as readable CUDA C++ out.

The modules in the order of the work: `tokens`, `scope`, `expressions`, `parser`, `module` read a file into a `tree`;
`activity`, `divergence`, `counting`, `covering`, `reuse` find out about it; `rules`, `keeping`, `sweep`, `rounds` make
the forward and the backward sweep; `prune`, `tidy`, `accumulate` make them lean; `assemble` writes the file.
"""

import sys
from types import ModuleType
from typing import Any

from minigrad.adjoint.adjoint import Adjoint, adjoint
from minigrad.adjoint.decisions import Decisions
from minigrad.adjoint.differentiable import Differentiable, differentiable
from minigrad.adjoint.tokens import Refused

__all__ = ["Adjoint", "Decisions", "Differentiable", "Refused", "adjoint", "differentiable"]


class _Callable(ModuleType):
    """Once this package is imported, the name `mg.adjoint` is the package; calling it does the same."""

    def __call__(self, *args: Any, **named: Any) -> Adjoint:
        return adjoint(*args, **named)


sys.modules[__name__].__class__ = _Callable
