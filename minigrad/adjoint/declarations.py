"""Declarations: parameters, variables, arrays."""

from minigrad.adjoint.expressions import Expressions
from minigrad.adjoint.tree import Declare, Expr, Param, Place, Stmt


class Declarations(Expressions):
    """Reads declarations."""

    def parameter(self) -> Param:
        """`const real* __restrict__ x` or `int n`."""
        place, const = self.next.place, self.accept("const")
        kind = self.take_type()
        if kind is None:
            raise self.refuse(place, f"a parameter of type {self.next.text!r} is outside the differentiable subset.")
        const = self.accept("const") or const
        pointer = self.accept("*")
        restrict = self.accept("__restrict__")
        if self.next.text in ("*", "&", "**", "&&"):
            raise self.refuse(self.next.place, "references and pointers to pointers are outside the subset.")
        name = self.identifier("the parameter's name")
        if self.next.text == "[":
            raise self.refuse(self.next.place, f"write the array parameter as a pointer: {kind}* {name.text}.")
        return Param(name.text, kind, pointer, const, name.place, restrict)

    def declaration(self) -> list[Stmt]:
        """`const int i = ..., j = ...;` or `__shared__ real tile[TILE][TILE];`."""
        place = self.next.place
        words = set()
        while self.next.text in ("const", "__shared__", "extern", "static", "volatile", "constexpr"):
            words.add(self.take().text)
        if outside := words & {"extern", "static", "volatile"}:
            raise self.refuse(place, f"{min(outside)} variables are outside the differentiable subset.")
        kind = self.take_type()
        if kind is None:
            raise self.refuse(self.next.place, f"expected a type, found {self.next.text!r}.")
        made: list[Stmt] = []
        while not made or self.accept(","):
            made.append(self.variable_of(kind, words, place))
        self.expect(";")
        return made

    def variable_of(self, kind: str, words: set[str], place: Place) -> Declare:
        """One variable of a declaration, entered into the scope."""
        if self.next.text in ("*", "&"):
            raise self.refuse(self.next.place, "local pointers and references are outside the subset; use an index.")
        start = self.at
        name, dims = self.identifier("a variable's name"), []
        while self.accept("["):
            dims.append(self.expression())
            self.expect("]")
        const = "const" in words or "constexpr" in words
        made = Declare(name.text, kind, tuple(dims), shared="__shared__" in words, const=const, place=name.place)
        if self.accept("="):
            if dims:
                made.values = self.initial()
            else:
                made.value = self.expression()
        made.text = f"{kind} {self.words(start)};"
        self.declare(made)
        return made

    def initial(self) -> tuple[Expr, ...]:
        """The values in braces of an array."""
        self.expect("{")
        values = []
        while not self.accept("}"):
            values.append(self.expression())
            if self.next.text != "}":
                self.expect(",")
        return tuple(values)
