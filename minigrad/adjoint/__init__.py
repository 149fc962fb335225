"""The adjoint of a kernel: CUDA C++ in, its reverse-mode derivative as readable CUDA C++ out.

What follows on what, each line with the modules that do it and what they give:

  read         tokens, outside; scope < expressions < declarations < parser < module; macros; jumps: a `tree` of
               statements and `expr`essions with `types`, or a refusal with line and column
  choose       reach, activity: the parameters to differentiate by, the variables that carry derivatives
  look         structure: jumps made branches, no barrier that threads could miss; stores, fills, space: what is stored
               once, read again, filled anew by each round of a loop; counting, most: how often a loop runs
  sweep        keeping < rules < assign < sweep < rounds: forward and backward sweep, statement by statement, in full;
               derivatives has the formulas, tapes the memory for what is kept, and its cost
  settle       prune: without what nobody reads; tidy: loops in their own order where that is free
  turn, split  sums that threads (turn, exchange) or blocks (split) would meet at given to one owner; several launches
  add          for each launch, hoist: sums led out of loops; accumulate, sites: plain, warp or block sum, atomic,
               by what radix < injective, cover, polynomial know of indices and phases of barriers; hoist: shared sums
  thin out     checkpoints: tapes of every eighth round, if that is cheaper; shadows: zeros in shared memory
  tidy         tidy, prune, phases: gradients begin where they are first added to, no copy, no barrier for nothing;
               hoist: a test once and not in every round, outputs' gradients read before loops
  print        printer, assemble: the `.cu` file; decisions, page: the table and the notebook's view
  run          adjoint: what a user holds; given, launching: arguments and memory; differentiable: on the tape

A < B: the class of B extends that of A. derive and derive_kernel call sweep to tidy in this order. visit goes through
statements, effects says what they read and write, build puts expressions together; ladder has kernels to try it on.
"""

import sys
from types import ModuleType
from typing import Any

from minigrad.adjoint.adjoint import Adjoint, adjoint
from minigrad.adjoint.emit.decisions import Decisions
from minigrad.adjoint.examples import LADDER, ladder
from minigrad.adjoint.language.lexer import NotDifferentiable
from minigrad.adjoint.op import Differentiable, differentiable

__all__ = [
    "LADDER",
    "Adjoint",
    "Decisions",
    "Differentiable",
    "NotDifferentiable",
    "adjoint",
    "differentiable",
    "ladder",
]


class _Callable(ModuleType):
    """Once this package is imported, the name `mg.adjoint` is the package; calling it does the same."""

    def __call__(self, *args: Any, **named: Any) -> Adjoint:
        return adjoint(*args, **named)


sys.modules[__name__].__class__ = _Callable
