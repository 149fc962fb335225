"""The adjoint of a device function: the gradient of its value in, those of its parameters added to."""

from minigrad.adjoint import activity
from minigrad.adjoint.accumulate import Accumulate
from minigrad.adjoint.build import ZERO
from minigrad.adjoint.derive import Derivation, Derived
from minigrad.adjoint.effects import mentioned
from minigrad.adjoint.injective import Facts
from minigrad.adjoint.module import Module
from minigrad.adjoint.structure import ends, structured
from minigrad.adjoint.tree import (
    Declare,
    Function,
    Name,
    Stmt,
)
from minigrad.adjoint.types import floating


class FunctionAdjoint(Derivation):
    """Derives the adjoint of a device function: its gradient in, gradients of its parameters added to."""

    def __init__(self, module: Module, function: Function):
        result = Name(
            next(n for n in ("y", "result", "returned") if n not in _names(module, function)), function.returns
        )
        if not ends(function.body):
            why = f"{function.name} does not return a {function.returns} on every way; end it with a return."
            raise module.refuse(function.place, why)
        flow = structured(module, function.body, ("return",), result)
        made = Declare(result.name, result.type)
        of = Function(function.name, "void", function.params, [made, *flow], function.place, function.text)
        of.declared = {**function.declared, result.name: made}
        floats = [p.name for p in function.params if floating(p.type)]
        active = activity.reached(of, floats) & activity.reached(of, [result.name], backward=True)
        super().__init__(module, of, active | {result.name})
        self.result, self.gradients = result, {}
        self.results = {self.gradient(p.name) for p in function.params if p.name in active}
        self.seed = self.gradient(result.name)

    def derive(self) -> Derived:
        """The adjoint of the function."""
        body = self.settled(self.both(self.of.body[1:]))
        inner: list[Stmt] = [Declare(self.result.name, self.result.type, value=ZERO)]
        body = self.pruned([*(inner if self.result.name in mentioned(body) else []), *body])
        arrays = {self.gradients[p.name]: False for p in self.of.params if p.pointer and p.name in self.active}
        choices = Accumulate(arrays, set(), (), {}).decide(body, Facts({}, set(), set(), set(), {}), self.phases(body))
        made = self.derived(self.tidied(body, set()), choices)
        if outside := [t for t in made.tapes if t.size is None]:
            raise self.module.refuse(
                outside[0].place, f"this loop in a device function would need a tape for {outside[0].value}, and how "
                "long only the running kernel knows; move it into the kernel."
            )  # fmt: skip
        return made


def _names(module: Module, function: Function) -> set[str]:
    return {*function.declared, *(p.name for p in function.params), *module.functions, *module.tokens.macros}
