"""The adjoint made readable: gradients declared where they begin, copies left out, sums joined."""

from collections.abc import Callable, Container
from functools import partial

from minigrad.adjoint.build import change, is_number, minus, negative, plus
from minigrad.adjoint.effects import each, expressions, mentioned, name_of, reads_in, rewrite, written
from minigrad.adjoint.expr import Expr, Name
from minigrad.adjoint.tree import Assign, Comment, Declare, For, If, Stmt


def everywhere(body: list[Stmt], change: Callable[[list[Stmt]], list[Stmt]]) -> list[Stmt]:
    """The change made in each body, the innermost first."""
    for s in body:
        match s:
            case If():
                s.then, s.orelse = everywhere(s.then, change), everywhere(s.orelse, change)
            case For():
                s.body = everywhere(s.body, change)
    return change(body)


class Sink:
    """`real d_x = 0; ... d_x += e;` becomes `... real d_x = e;`, and `d = 0; d += e;` becomes `d = e;`."""

    def __call__(self, body: list[Stmt]) -> list[Stmt]:
        """Sink what can be."""
        made, self.names = list(body), {id(t): mentioned([t]) for t in body}
        for s in body:
            zero = isinstance(s, Declare | Assign) and s.value is not None and is_number(s.value, 0)
            if zero and s in made and not (isinstance(s, Assign) and s.op != "="):
                self._sink(made, s)  # type: ignore[arg-type]
        return made

    def _sink(self, body: list[Stmt], s: Declare | Assign) -> None:
        name, at = (s.name if isinstance(s, Declare) else name_of(s.target)), body.index(s)
        user = next((n for n in range(at + 1, len(body)) if name in self.names[id(body[n])]), None)
        if user is None:
            return
        first = body[user]
        if isinstance(first, Assign) and _adds_to(first, s):
            value = negative(first.value) if first.op == "-=" else first.value
            begin: Stmt = (
                Assign(s.target, "=", value, first.place)
                if isinstance(s, Assign)
                else Declare(name, s.type, value=value, place=first.place)
            )
            self.names[id(begin)] = self.names[id(first)]
            body[user] = begin
            body.remove(s)
        elif isinstance(s, Declare) and user > at + 1:
            body.remove(s)
            comments = isinstance(body[user - 2], Comment) and body[user - 2].place == first.place
            body.insert(user - 1 - comments, s)


def uncopied(body: list[Stmt], copies: Container[str]) -> list[Stmt]:
    """`real p_6 = p;` left out where p itself is not changed behind it."""
    for s in body:
        if isinstance(s, Declare) and s.name in copies and isinstance(s.value, Name):
            at = body.index(s)
            if s.value.name not in written(body[at + 1 :]):
                body = [*body[:at], *(renamed(t, s.name, s.value) for t in body[at + 1 :])]
    return body


def renamed(s: Stmt, name: str, value: Expr) -> Stmt:
    """The statement with a value in place of a name, in it and in all inside it."""
    for t in each([s]):
        rewrite(t, partial(change, new=lambda e: value if isinstance(e, Name) and e.name == name else None))
    return s


def merged(body: list[Stmt]) -> list[Stmt]:
    """`d_x[i] += a; d_x[i] += b;` becomes `d_x[i] += a + b;`: one atomic instead of two.

    What one statement of the kernel adds to one element is joined at the last of the places.
    """
    made: list[Stmt] = []
    for s in body:
        first = next((t for t in reversed(made) if isinstance(s, Assign) and _joins(t, s)), None)
        if isinstance(s, Assign) and isinstance(first, Assign) and _may_wait(first, made):
            value = first.value if first.op == "+=" else negative(first.value)
            value = plus(value, s.value) if s.op == "+=" else minus(value, s.value)
            made.remove(first)
            s = Assign(s.target, "+=", value, s.place, owned=s.owned)
        made.append(s)
    return made


def _joins(a: Stmt, b: Assign) -> bool:
    sums = isinstance(a, Assign) and {a.op, b.op} <= {"+=", "-="} and a.target == b.target and a.place == b.place
    return sums and name_of(b.target) not in reads_in((*expressions(a), *expressions(b)))


def _may_wait(s: Assign, body: list[Stmt]) -> bool:
    """Whether the last statements neither read what this one adds to nor change what it reads."""
    behind = body[body.index(s) + 1 :]
    return name_of(s.target) not in mentioned(behind) and not reads_in(expressions(s)) & written(behind)


def _adds_to(s: Assign, zero: Declare | Assign) -> bool:
    """Whether a statement adds to just what was set to 0, and does not read it otherwise."""
    same = s.target == (Name(zero.name, zero.type) if isinstance(zero, Declare) else zero.target)
    return same and s.op in ("=", "+=", "-=") and not any(name_of(s.target) in e.names for e in expressions(s))
