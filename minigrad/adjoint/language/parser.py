"""Declarations: parameters, variables, arrays."""

from collections.abc import Callable

from minigrad.adjoint.language.ast import (
    JUMPS,
    Add,
    Assign,
    Barrier,
    Declare,
    Expr,
    For,
    Function,
    If,
    Index,
    Jump,
    Name,
    Number,
    Param,
    Place,
    Stmt,
    Target,
    floating,
)
from minigrad.adjoint.language.expressions import ASSIGNMENTS, KNOWN, Expressions
from minigrad.adjoint.language.lexer import Token
from minigrad.adjoint.language.lexer import call as way_out
from minigrad.adjoint.language.rewrite import change


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


class Parser(Declarations):
    """Reads statements and functions."""

    def function(self, place: Place, name: str, returns: str) -> Function | None:
        """Parameters and body of a function whose name has been read; None of one that is only declared here."""
        start, self.returns, self.reading = self.at, returns, name
        self.scopes.append({})
        self.expect("(")
        params = []
        for _ in self.listed(")"):
            params.append(self.parameter())
            self.scopes[-1][params[-1].name] = params[-1]
        self.scopes.append({})
        body = [] if self.next.text == ";" else self.block()
        del self.scopes[-2:]
        if self.accept(";"):
            return None
        return Function(name, returns, tuple(params), body, place, self.words(start), self.declared)

    def block(self) -> list[Stmt]:
        """Statements in braces, or a single one."""
        self.scopes.append({})
        made: list[Stmt] = []
        if self.accept("{"):
            while not self.accept("}"):
                made += self.statement()
        else:
            made += self.statement()
        self.scopes.pop()
        return made

    def statement(self) -> list[Stmt]:
        """One statement; a declaration of several variables makes several."""
        token = self.next
        if token.text == "{" or self.accept(";"):
            return self.block() if token.text == "{" else []
        readers: dict[str, Callable[[], Stmt]] = {"if": self.branch, "for": self.loop, "while": self.loop_while}
        readers |= dict.fromkeys(JUMPS, self.jump)
        if token.text in readers:
            return [readers[token.text]()]
        if token.kind == "pragma":
            return [self.pragma()]
        if token.kind == "end":
            raise self.refuse(token.place, f"the file ends within {self.reading}; a }} is missing.")
        if refused := self.stray(token):
            raise refused
        if self.peek() == ":":
            raise self.refuse(token.place, "labels are outside the differentiable subset; leave a loop with break.")
        if token.text in ("const", "constexpr", "__shared__", "extern", "static", "volatile") or self.type_here():
            return self.declaration()
        if token.kind == self.tokens[self.at + 1].kind == "name":
            raise self.untyped(token)
        return [self.simple(";")]

    def pragma(self) -> For:
        """A loop with its `#pragma unroll`."""
        token = self.take()
        if "unroll" not in token.text or self.next.text != "for":
            raise self.refuse(token.place, "of pragmas only #pragma unroll before a for is within the subset.")
        (loop := self.loop()).pragma = token.text
        return loop

    def branch(self) -> If:
        """if, with or without else."""
        start, token = self.at, self.take()
        condition = self.condition()
        text = self.words(start)
        then = self.block()
        return If(condition, then, self.block() if self.accept("else") else [], token.place, text)

    def condition(self) -> Expr:
        """What stands in parentheses behind if or while."""
        self.bar("if constexpr is outside the subset; write if.", "constexpr")
        self.expect("(")
        if self.type_here() and self.peek() != "(":
            raise self.refuse(self.next.place, f"declare the variable {self.peek()} in a statement ahead of this one.")
        return self.close(self.expression())

    def loop(self) -> For:
        """for with one variable."""
        start, token = self.at, self.take()
        self.scopes.append({})
        self.expect("(")
        first: Stmt | None = None
        if not self.accept(";"):
            if self.type_here() and self.peek(2) == ":":
                raise self.refuse(token.place, "a for over all elements is outside the subset; count with an int.")
            made = self.declaration() if self.type_here() else [self.simple(";")]
            if len(made) != 1:
                raise self.refuse(token.place, "a for with several variables; declare the others before the loop.")
            first = made[0]
            kind = first.type if isinstance(first, Declare) else first.target.type if isinstance(first, Assign) else ""
            if floating(kind):
                raise self.refuse(
                    token.place, f"the variable of this for is a {kind}; count with an int, or use while."
                )
        condition = Number("true", "bool") if self.next.text == ";" else self.expression()
        self.expect(";")
        step = None if self.next.text == ")" else self.simple("")
        self.expect(")")
        text = self.words(start)
        body = self.block()
        self.scopes.pop()
        return For(first, condition, step, body, "", token.place, text)  # type: ignore[arg-type]

    def loop_while(self) -> For:
        """while."""
        start, token = self.at, self.take()
        condition = self.condition()
        text = self.words(start)
        return For(None, condition, None, self.block(), "", token.place, text)

    def jump(self) -> Jump:
        """break, continue, return."""
        start, token = self.at, self.take()
        value = None if self.next.text == ";" else self.expression()
        if token.text == "return" and (value is None) != (self.returns == "void"):
            what = f"a {self.returns}" if value is None else "no value"
            raise self.refuse(token.place, f"{self.reading} returns {what}; so must this return.")
        self.expect(";")
        return Jump(token.text, value, token.place, self.words(start))

    def simple(self, end: str) -> Assign | Add | Barrier:
        """An assignment, a step, an atomicAdd or a barrier, up to `end`."""
        start, token = self.at, self.next
        made: Assign | Add | Barrier
        if token.text == "__syncthreads":
            self.take()
            self.expect("(")
            self.expect(")")
            made = Barrier(token.place)
        elif token.text == "atomicAdd":
            made = self.atomic()
        else:
            made = self.assignment()
        if end:
            self.expect(end)
        made.text = self.words(start)
        return made

    def atomic(self) -> Add:
        """`atomicAdd(&y[i], e)`, its result not used."""
        token = self.take()
        target = self.pointed(token)
        self.expect(",")
        value = self.close(self.expression())
        self.writable(target)
        return Add(target, value, token.place)

    def assignment(self) -> Assign:
        """`x = e`, `x += e`, `++i`, `i--`."""
        place = self.next.place
        step = self.take() if self.next.text in ("++", "--") else None
        self.bar("write what is assigned as a variable or as an element: y[i] = ...;", "*", "(")
        name = self.identifier("a statement")
        if self.next.text == "(":
            why = f"the call of {name.text} as a statement is outside the subset; {way_out(name.text)}."
            raise self.refuse(name.place, why)
        target = self.element(name)
        op = step or self.take()
        if op.text not in (*ASSIGNMENTS, "++", "--"):
            raise self.refuse(op.place, f"expected an assignment, found {op.text or 'the end'!r}.")
        self.writable(target)
        if op.text in ("++", "--"):
            return Assign(target, f"{op.text[0]}=", Number("1", "int"), place)
        return Assign(target, op.text, self.right_side(target, op), place)
