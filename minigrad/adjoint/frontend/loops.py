"""Loops as loops of one variable: those of several variables, with && in the condition, with C89 counters."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import SMALL, Expr, Place, Stmt, is_float, unused_name
from minigrad.adjoint.language.control_flow import TRUE, leaves
from minigrad.adjoint.language.dataflow import names_in, own_reads, own_writes, written
from minigrad.adjoint.language.rewrite import (
    ONE,
    ZERO,
    comparison,
    conjuncts,
    constant,
    flatten,
    is_number,
    logical_not,
    own_expressions,
    substitute,
)
from minigrad.adjoint.language.values import ArrayView, Elements, Pointer, Struct


def for_loop(parser: Any, pragma: str = "") -> list[Stmt]:
    """for, with its `#pragma unroll`: the statements ahead of it, and a loop of at most one variable."""
    tokens, start, token = parser.tokens, parser.tokens.at, parser.tokens.take()
    with parser.symbols.scope():
        tokens.expect("(")
        if _is_over_elements(parser):
            return [_over_elements(parser, pragma, token.place, start)]
        ahead = _several(parser)  # what is declared ahead of the loop joins the statements around it
        parser.symbols.bare += ahead
        starts = _starts(parser, token.place)
        parser.symbols.bare -= ahead
        condition: Expr = TRUE
        needed: list[Stmt] = []
        if tokens.next.text != ";":
            condition, needed = parser.isolated(lambda: parser.truth(parser.full(), token.place), choice=True)
        tokens.expect(";")
        steps = [] if tokens.next.text == ")" else _steps(parser)
        tokens.expect(")")
        text = tokens.line_since(start)
        return loop(starts, condition, needed, steps, parser.block(True), pragma, token.place, text)


def _several(parser: Any) -> bool:
    """True for a start of several variables, or of one that is no whole number."""
    tokens, depth, n = parser.tokens, 0, parser.tokens.at
    kind = parser.peek_type() if parser.tokens.next.text != ";" else None
    while tokens.tokens[n].text != ";" and tokens.tokens[n].kind != "end":
        text = tokens.tokens[n].text
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if (text == "," and not depth) or text == "*":
            return True
        n += 1
    return kind is not None and (not isinstance(kind, str) or is_float(kind))


def _is_over_elements(parser: Any) -> bool:
    """True for `for (double v : q)`."""
    texts = [t.text for t in parser.tokens.tokens[parser.tokens.at : parser.tokens.at + 12]]
    stop = next((n for n, text in enumerate(texts) if text in (":", ";", "(", "=")), 0)
    return bool(stop) and texts[stop] == ":"


def _over_elements(parser: Any, pragma: str, place: Place, start: int) -> ast.For:
    """A loop over the elements of an array of known extent, by their number."""
    tokens = parser.tokens
    while tokens.next.text in ("const", "constexpr"):
        tokens.take()
    kind: Any = None if tokens.accept("auto") else parser.expect_type()
    reference = tokens.accept("&") or tokens.accept("&&")
    name = tokens.identifier("a variable's name")
    tokens.expect(":")
    array = parser.frozen(parser.full(), place, name.text)  # bound once, before the first turn
    if isinstance(array, Struct) and {"begin", "end"} <= array.type.methods.keys():
        array = _between(parser, array, name)
    if not isinstance(array, Elements) or not array.left:
        raise parser.error(place, "a for over all elements takes an array of known extent; count with an int.")
    tokens.expect(")")
    text = tokens.line_since(start)
    own = unused_name(f"{name.text}_number", parser.symbols, numbers=parser.symbols.numbers)
    number, counter = ast.Name(own, "int"), ast.Declare(own, "int", value=ZERO, place=place)
    parser.symbols.declared[own] = counter
    element, scope = array.at(number, place), parser.symbols.scopes[-1]
    outer, parser.symbols.pending = parser.symbols.pending, []
    if isinstance(element, Elements):
        scope[name.text] = element
    elif reference and (itself := parser.referred(element, kind, place)) is not None:
        scope[name.text] = itself
    else:
        parser.new(name, kind, element)
    ahead, parser.symbols.pending = parser.symbols.pending, outer
    condition = ast.Binary("<", number, array.left[0], "bool")
    body = [*ahead, *parser.block(True)]
    return ast.For(counter, condition, ast.Assign(number, "+=", ONE), body, pragma, place, text)


def _between(parser: Any, of: Struct, name: Any) -> Elements | None:
    """The elements from where `begin()` points up to where `end()` does; None where these are no pointers."""
    found = [parser.method(of, method, [], name) for method in ("begin", "end")]
    if not all(isinstance(each, Elements | Pointer) for each in found):
        return None
    first, last = (parser.pointer(each, name.place) for each in found)
    count = ast.Cast("int", parser.pointers(name._replace(text="-"), last, first))
    extent = parser.simple(count, f"{name.text}_count", name.place)
    return ArrayView(name.text, first.type, 1, dims=(extent,), of=lambda n, place: parser.element(first, n, place))


def _starts(parser: Any, place: Place) -> list[Stmt]:
    tokens = parser.tokens
    outer, parser.symbols.pending = parser.symbols.pending, []
    if tokens.next.text != ";":
        if parser.begins_declaration():
            parser.symbols.in_header = True
            parser.declaration()
            parser.symbols.in_header = False
        else:
            parser.expressions()
    tokens.expect(";")
    found, parser.symbols.pending = parser.symbols.pending, outer
    return found


def _steps(parser: Any) -> list[Stmt]:
    parser.discarded = True
    found = parser.isolated(parser.expressions, choice=True)[1]
    parser.discarded = False
    return found


def loop(
    starts: list[Stmt], condition: Expr, needed: list[Stmt], steps: list[Stmt], body: list[Stmt], pragma: str,
    place: Place, text: str,
) -> list[Stmt]:  # fmt: skip
    """The loop over the variable that the condition bounds; all others are set ahead and stepped in the body."""
    main = next((s for s in reversed(starts) if _counts(s, condition, steps, starts)), None)
    if main is None and not starts:
        main_step = steps[0] if len(steps) == 1 and isinstance(steps[0], ast.Assign) else None
        main_step = main_step if main_step and isinstance(main_step.target, ast.Name) else None
        name = main_step.target.name if main_step else ""  # type: ignore[union-attr]
    else:
        name = _variable(main) if main else ""
        main_step = next((s for s in steps if isinstance(s, ast.Assign) and own_writes(s) == {name}), None)
    others = [s for s in starts if s is not main]
    if main is None and not (len(steps) == 1 and main_step):
        main_step = None
    rest = [s for s in steps if s is not main_step]
    if main_step is not None and rest:
        later = rest[next(n for n, s in enumerate(steps) if s is main_step) :]
        if main_step.value.names & written(later):
            main_step, rest = None, steps
        else:  # the step of the loop comes last
            stepped = ast.Binary(main_step.op.rstrip("="), main_step.target, main_step.value, main_step.target.type)
            for s in later:
                substitute(s, name, main_step.value if main_step.op == "=" else stepped)
    if rest:
        body = with_steps(body, rest)
    condition = to_zero(condition, needed, steps, body)
    if needed:
        body, condition = [*needed, leave(condition, place), *body], TRUE
    elif main is not None and len(parts := conjuncts(condition)) > 1:
        bound = next((e for e in parts if _bounds(e, name)), None)
        if bound is not None:
            after = [e for e in parts if e is not bound]
            body, condition = [*(leave(e, place) for e in after), *body], bound
    made = as_int(ast.For(main, condition, main_step, body, pragma, place, text))  # type: ignore[arg-type]
    for s in others:
        s.place, s.text = s.place or place, s.text or text
    return [*others, made]


def to_zero(condition: Expr, *parts: list[Stmt]) -> Expr:
    """`n > 0` for the condition n of a loop that ends where steps of 1 have led n down to 0, as `while (n--)`.

    parts: the statements of the loop. From an int below 0 they lead nowhere; a short would wrap around.
    """
    inside = [t for part in parts for t in flatten(part)]
    own = {t.name: t.value for t in inside if isinstance(t, ast.Declare)}
    n = own.get(condition.name, condition) if isinstance(condition, ast.Name) else None
    changes = [t for t in inside if isinstance(n, ast.Name) and n.name in own_writes(t)]
    left = any(isinstance(t, ast.Jump) and t.kind != "continue" for t in inside)
    if n is None or n.type in SMALL or len(changes) != 1 or is_float(condition.type) or left:
        return condition
    step = changes[0]
    down = isinstance(step, ast.Assign) and step.op == "-=" and is_number(step.value, 1)
    return comparison(">", condition, ZERO) if down else condition


def as_int(s: ast.For) -> ast.For:
    """A loop over constants, `for (unsigned i = 0; i < 8; ++i)`, with an int counter, read in the loop as unsigned."""
    start, step, condition = s.start, s.step, s.condition
    if not isinstance(start, ast.Declare) or is_float(start.type) or step is None:
        return s
    if not isinstance(condition, ast.Binary) or condition.op not in ("<", "<="):
        return s
    if start.type == "int" and condition.right.type == "int":
        return s
    if condition.left != ast.Name(start.name, start.type) or start.name in written(s.body):
        return s
    first, last, by = (constant(e) for e in (start.value, condition.right, step.value))
    if step.op != "+=" or first is None or last is None or not by or not 0 <= first <= last + by < 2**31:
        return s
    own, kind = ast.Name(start.name, "int"), start.type
    for t in s.body if kind != "int" else []:
        substitute(t, start.name, ast.Cast(kind, own))
    start.type, start.value = "int", ast.Number(str(first), "int")
    s.condition = ast.Binary(condition.op, own, ast.Number(str(last), "int"), "bool")
    s.step = replace(step, target=own, value=ast.Number(str(by), "int"))
    return s


def leave(condition: Expr, place: Place) -> ast.If:
    return ast.If(logical_not(condition), [ast.Jump("break", place=place)], [], place, "break")


def _variable(s: Stmt) -> str:
    return s.name if isinstance(s, ast.Declare) else next(iter(own_writes(s)), "")


def _counts(s: Stmt, condition: Expr, steps: list[Stmt], starts: list[Stmt]) -> bool:
    """True for the start of an integer variable that one step changes, the condition bounds, no other start reads."""
    if isinstance(s, ast.Declare):
        scalar = not s.dims and s.value is not None and not is_float(s.type)
    else:
        scalar = (
            isinstance(s, ast.Assign) and isinstance(s.target, ast.Name) and s.op == "=" and not is_float(s.target.type)
        )
    name = _variable(s)
    own = [t for t in steps if name in own_writes(t)]
    read = any(name in own_reads(t) for t in starts if t is not s)
    alone = len(starts) == 1 and len(steps) <= 1
    bounded = alone or any(_bounds(e, name) for e in conjuncts(condition))
    return scalar and (len(own) == 1 or (alone and not own)) and not read and bounded


def _bounds(e: Expr, name: str) -> bool:
    if not isinstance(e, ast.Binary) or e.op not in ("<", "<=", ">", ">=", "!="):
        return False
    return name in e.names and not any(isinstance(x, ast.Index) and name in x.names for x in ast.walk(e))


def with_steps(body: list[Stmt], steps: list[Stmt]) -> list[Stmt]:
    """A body followed by steps, also where it continues early."""

    def early(body: list[Stmt]) -> list[Stmt]:
        made: list[Stmt] = []
        for s in body:
            if isinstance(s, ast.Jump) and s.kind == "continue":
                made += [replace(t) for t in steps]
            elif isinstance(s, ast.If) and leaves([s], ("continue",)):
                s = replace(s, then=early(s.then), orelse=early(s.orelse))
            made.append(s)
        return made

    ended = body and isinstance(body[-1], ast.Jump)
    return [*early(body), *([] if ended else steps)]


def own_counters(function: ast.Function) -> None:
    """`int j; for (j = 0; ...)`: a variable that only such loops use is declared in their headers."""
    statements = flatten(function.body)
    own = {id(s) for s in statements if isinstance(s, ast.Declare) and not s.dims and not s.shared and s.value is None}
    started = {n for s in statements if isinstance(s, ast.For) and isinstance(s.start, ast.Assign)
               for n in own_writes(s.start)}  # fmt: skip
    for d in [d for name, d in function.declared.items() if name in started and id(d) in own and not is_float(d.type)]:
        if _only_loops(function.body, d.name):
            _declare(function, d)


def _only_loops(body: Iterable[Stmt], name: str) -> bool:
    """True where each use of a variable stands in a loop that sets it first, by a value that does not read it."""
    for s in body:
        if isinstance(s, ast.Declare) and s.name == name:
            continue
        sets = isinstance(s, ast.For) and isinstance(s.start, ast.Assign) and own_writes(s.start) == {name}
        if sets and isinstance(s, ast.For) and s.start is not None:
            stepped = s.step is not None and own_writes(s.step) == {name}
            if name in s.start.value.names or name in written(s.body) or not stepped:  # type: ignore[union-attr]
                return False
            continue
        if name in own_writes(s) or name in names_in(own_expressions(s)) or name in own_reads(s):
            return False
        if isinstance(s, ast.For):
            header = [part for part in (s.start, s.step) if part]
            if any(name in own_reads(part) | own_writes(part) for part in header) or not _only_loops(s.body, name):
                return False
        if isinstance(s, ast.If) and not (_only_loops(s.then, name) and _only_loops(s.orelse, name)):
            return False
    return True


def _declare(function: ast.Function, d: ast.Declare) -> None:
    for s in flatten(function.body):
        if isinstance(s, ast.For) and isinstance(s.start, ast.Assign) and own_writes(s.start) == {d.name}:
            s.start = ast.Declare(d.name, d.type, value=s.start.value, place=s.start.place, text=s.start.text)
            function.declared[d.name] = s.start
    _drop(function.body, d)


def _drop(body: list[Stmt], d: ast.Declare) -> None:
    body[:] = [s for s in body if s is not d]
    for s in body:
        if isinstance(s, ast.For):
            _drop(s.body, d)
        elif isinstance(s, ast.If):
            _drop(s.then, d)
            _drop(s.orelse, d)


def shared_ahead(body: list[Stmt]) -> list[Stmt]:
    """A body with shared arrays declared ahead of the loops and branches in it: they live as long as the block."""
    made: list[Stmt] = []
    for s in body:
        inner = [d for d in flatten([s])[1:] if isinstance(d, ast.Declare) and d.shared]
        for d in inner:
            _drop([s], d)
        made += [*inner, s]
    return made


def unique_places(body: Iterable[Stmt]) -> None:
    """Make the places of statements differ, where macros or functions have written one text several times."""
    seen: dict[Place, int] = {}
    for s in flatten(body):
        n = seen.get(s.place, 0)
        seen[s.place] = n + 1
        if n:
            s.place = s.place._replace(copy=s.place.copy + n)
