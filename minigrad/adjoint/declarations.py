"""Declarations: parameters, variables, arrays."""

from minigrad.adjoint.build import change
from minigrad.adjoint.expr import Expr, Index, Name, Place, Target
from minigrad.adjoint.expressions import ASSIGNMENTS, Expressions
from minigrad.adjoint.scope import KNOWN
from minigrad.adjoint.tokens import Token
from minigrad.adjoint.tree import Declare, Param, Stmt
from minigrad.adjoint.types import floating


class Declarations(Expressions):
    """Reads declarations, and looks at what is assigned."""

    returns = "void"  # what the function that is read returns

    def parameter(self) -> Param:
        """`const real* __restrict__ x` or `int n`."""
        place, const = self.next.place, self.accept("const")
        kind = self.take_type()
        if kind is None:
            other = f"a parameter of type {self.next.text!r} is outside the differentiable subset; {KNOWN}."
            raise self.stray(self.next) or self.refuse(place, other)
        const = self.accept("const") or const
        pointer, restrict = self.accept("*"), False
        while pointer and self.next.text in ("const", "__restrict__"):
            restrict |= self.take().text == "__restrict__"
        way = "pass an array and an index, and return the value."
        self.bar(f"references and pointers to pointers are outside the subset; {way}", "*", "&", "**", "&&")
        name = self.identifier("the parameter's name")
        self.bar(f"write the array parameter as a pointer: {kind}* {name.text}.", "[")
        self.bar(f"{name.text} has a default value; leave it out and pass it every time.", "=")
        return Param(name.text, kind, pointer, const, name.place, restrict)

    def declaration(self) -> list[Stmt]:
        """`const int i = ..., j = ...;` or `__shared__ real tile[TILE][TILE];`."""
        place = self.next.place
        words = set()
        while self.next.text in ("const", "__shared__", "extern", "static", "volatile", "constexpr"):
            words.add(self.take().text)
        if outside := words & {"extern", "static", "volatile"}:
            way = "give the array its extents" if "extern" in outside else f"leave {min(outside)} out"
            raise self.refuse(place, f"{min(outside)} variables are outside the differentiable subset; {way}.")
        kind = self.expect_type()
        words |= {"const"} if self.accept("const") else set()
        made: list[Stmt] = []
        while not made or self.accept(","):
            made.append(self.variable_of(kind, words, place))
        self.expect(";")
        return made

    def variable_of(self, kind: str, words: set[str], place: Place) -> Declare:
        """One variable of a declaration, entered into the scope."""
        self.bar("local pointers and references are outside the subset; use an index.", "*", "&")
        start = self.at
        name, dims = self.identifier("a variable's name"), []
        while self.accept("["):
            dims.append(self.extent(name))
            self.expect("]")
        if "__shared__" in words and not dims:
            raise self.refuse(
                name.place, f"{name.text} is one value shared by the block, which is outside the subset; "
                f"make it an array of one element: __shared__ {kind} {name.text}[1];"
            )  # fmt: skip
        const = "const" in words or "constexpr" in words
        made = Declare(name.text, kind, tuple(dims), shared="__shared__" in words, const=const, place=name.place)
        self.bar(f"write {kind} {name.text} = ...; with an equals sign.", "{", "(")
        if self.accept("="):
            made.value, made.values = (None, self.initial()) if dims else (self.expression(), None)
        given = self.tokens[start + 1 : self.at]
        if any(t.text == name.text and given[n - 1].text != "." for n, t in enumerate(given)):
            raise self.refuse(name.place, f"{name.text} is read in its own first value, before it has one.")
        made.text = f"{kind} {self.words(start)};"
        self.declare(made)
        return made

    def extent(self, name: Token) -> Expr:
        """The extent of an array along an axis, with constants of the kernel's own put in."""
        place = self.next.place
        self.bar(f"write the extent of {name.text}.", "]")

        def constant(e: Expr) -> Expr | None:
            found = self.lookup(e.name) if isinstance(e, Name) else None
            return change(found.value, constant) if isinstance(found, Declare) and found.const and found.value else None

        e = change(self.expression(), constant)
        if any(n not in self.macros for n in e.names):
            raise self.refuse(place, f"the extent of {name.text} must be a constant: a number, a macro or a const int.")
        return e

    def initial(self) -> tuple[Expr, ...]:
        """The values in braces of an array."""
        self.expect("{")
        values = []
        for _ in self.listed("}"):
            self.bar("write all values of the array in one pair of braces.", "{")
            values.append(self.expression())
        return tuple(values)

    def right_side(self, target: Target, op: Token) -> Expr:
        """What is assigned. Raises Refused for a float that would be cut to an integer unasked."""
        value = self.expression()
        self.bar("assign one variable in a statement.", *ASSIGNMENTS)
        if floating(value.type) and not floating(target.type):
            raise self.refuse(op.place, f"a {value.type} becomes {target.type} here; write the cast: (int)(...).")
        return value

    def writable(self, target: Target) -> None:
        """Raise Refused where the target is const or no variable."""
        name = target.name if isinstance(target, Name) else target.array
        found = next((s for scope in self.scopes for s in scope.values() if s.name == name), None)
        if found is None:
            raise self.refuse(target.place, f"{name} cannot be assigned.")
        if isinstance(found, Param) and found.pointer and self.returns != "void":
            raise self.refuse(target.place, f"a __device__ function stores into {name}; return the value instead.")
        if found.const:
            raise self.refuse(target.place, f"{name} is const and is written here.")
        if isinstance(found, Param) and not found.pointer and not isinstance(target, Index):
            raise self.refuse(target.place, f"the parameter {name} is changed here; copy it into a variable first.")
