"""Going through statements: what stands inside one, its expressions, and copies with something else in their place."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from minigrad.adjoint.build import change, opposite
from minigrad.adjoint.expr import Binary, Expr, Index, Name
from minigrad.adjoint.tree import Add, Assign, Declare, Do, For, If, Jump, Stmt


def nested(s: Stmt) -> tuple[list[Stmt], ...]:
    """The bodies inside a statement."""
    match s:
        case If():
            return s.then, s.orelse
        case For():
            return (s.body,)
    return ()


def heads(s: Stmt) -> tuple[Stmt, ...]:
    """A statement and, of a for, its start and its step."""
    return (s, *(part for part in (s.start, s.step) if part)) if isinstance(s, For) else (s,)


def sides(s: Stmt) -> tuple[tuple[Expr, list[Stmt]], ...]:
    """The two sides of a branch, each with the condition under which it is run."""
    return ((s.condition, s.then), (opposite(s.condition), s.orelse)) if isinstance(s, If) else ()


def conjuncts(e: Expr) -> tuple[Expr, ...]:
    """The conditions that hold where this one does: the parts that `&&` joins."""
    return (*conjuncts(e.left), *conjuncts(e.right)) if isinstance(e, Binary) and e.op == "&&" else (e,)


def each(body: Iterable[Stmt]) -> list[Stmt]:
    """All statements, those inside others too, in the order of the text; a for's start and step stand around it."""
    found: list[Stmt] = []
    for s in body:
        found.append(s)
        if isinstance(s, For):
            found += [*([s.start] if s.start else []), *each(s.body), *([s.step] if s.step else [])]
        elif isinstance(s, If):
            found += each(s.then) + each(s.orelse)
    return found


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement evaluates itself, the indices of its target included."""
    match s:
        case Declare():
            return tuple(e for e in (s.value, *(s.values or ())) if e is not None)
        case Assign() | Add():
            return (s.value, *(s.target.indices if isinstance(s.target, Index) else ()))
        case If() | For():
            return (s.condition,)
        case Jump():
            return (s.value,) if s.value is not None else ()
        case Do():
            return s.arguments
    return ()


def rewrite(s: Stmt, new: Callable[[Expr], Expr]) -> None:
    """Put others in place of the expressions that a statement evaluates itself."""
    match s:
        case Declare():
            s.value, s.values = s.value and new(s.value), s.values and tuple(map(new, s.values))
        case Assign() | Add():
            if isinstance(s.target, Index):
                s.target = replace(s.target, indices=tuple(map(new, s.target.indices)))
            s.value = new(s.value)
        case If() | For():
            s.condition = new(s.condition)
        case Do():
            s.arguments = tuple(map(new, s.arguments))


def renamed(s: Stmt, name: str, value: Expr) -> Stmt:
    """The statement with a value in place of a name, in it and in all inside it."""
    for t in each([s]):
        rewrite(t, partial(change, new=lambda e: value if isinstance(e, Name) and e.name == name else None))
    return s


def inside(s: Stmt, new: Callable[[list[Stmt]], list[Stmt]]) -> Stmt:
    """A copy of a statement, with others in place of the bodies inside it."""
    match s:
        case If():
            return replace(s, then=new(s.then), orelse=new(s.orelse))
        case For():
            return replace(s, body=new(s.body))
    return replace(s)


def everywhere(body: list[Stmt], change: Callable[[list[Stmt]], list[Stmt]]) -> list[Stmt]:
    """The change made in each body, the innermost first."""
    for s in body:
        match s:
            case If():
                s.then, s.orelse = everywhere(s.then, change), everywhere(s.orelse, change)
            case For():
                s.body = everywhere(s.body, change)
    return change(body)


def loops(body: list[Stmt], change: Callable[[For], list[Stmt]]) -> list[Stmt]:
    """Each loop replaced by what `change` makes of it, the innermost first."""
    return everywhere(body, lambda body: [t for s in body for t in (change(s) if isinstance(s, For) else [s])])


def without(body: list[Stmt], drop: set[int]) -> list[Stmt]:
    """Statements in copies of their own, some left out."""

    def again(s: Stmt) -> Stmt:
        made = inside(s, lambda body: without(body, drop))
        if isinstance(made, For):
            made.start, made.step = made.start and replace(made.start), made.step and replace(made.step)
        return made

    return [again(s) for s in body if id(s) not in drop]
