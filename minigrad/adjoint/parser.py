"""A kernel read into a tree by recursive descent. What is outside the subset is refused at its line and column."""

from collections.abc import Callable

from minigrad.adjoint.declarations import Declarations
from minigrad.adjoint.expr import Expr, Number, Place
from minigrad.adjoint.expressions import ASSIGNMENTS
from minigrad.adjoint.outside import call as way_out
from minigrad.adjoint.tree import JUMPS, Add, Assign, Barrier, Declare, For, Function, If, Jump, Stmt
from minigrad.adjoint.types import floating


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
