"""Jumps and switches turned into branches, jumps at their ends; branches whose condition is known resolved."""

from collections import Counter
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import JUMPS, NOWHERE, UNSIGNED, Expr, Place, Stmt, is_float, unused_name
from minigrad.adjoint.language.dataflow import assigned_once, names_used
from minigrad.adjoint.language.rewrite import (
    ZERO,
    as_float,
    constant,
    fits,
    flatten,
    int_value,
    logical_not,
    map_bodies,
    map_expressions,
    replace_each,
    replace_parts,
    with_header,
)

TRUE = ast.Number("true", "bool")
FLAGS = {"break": "stopped", "continue": "skipped", "return": "returned"}

MOST_NESTED = 100  # branches of a switch


def structured(
    body: list[Stmt],
    kinds: tuple[str, ...],
    marks: Callable[[ast.Jump], list[Stmt]] = lambda jump: [],
    proceeds: Expr | None = None,
) -> list[Stmt]:
    """The same statements without the jumps of these kinds, each replaced by its `marks`.

    The statements after a branch with a jump move into the side that does not jump. Where neither side ends with its
    jump they need `proceeds`, a condition that holds unless a jump has been marked.
    """
    made: list[Stmt] = []
    for n, s in enumerate(body):
        if isinstance(s, ast.Jump) and s.kind in kinds:
            return [*made, *marks(s)]
        if isinstance(s, ast.If) and leaves([s], kinds):
            then, orelse, rest = s.then, s.orelse, body[n + 1 :]
            if ends(then, kinds):
                orelse, rest = [*orelse, *rest], []
            elif ends(orelse, kinds):
                then, rest = [*then, *rest], []
            then, orelse = (structured(side, kinds, marks, proceeds) for side in (then, orelse))
            made += branch(s.condition, then, orelse, s.place, s.text)
            if rest:
                assert proceeds is not None, "normalize_jumps left a branch of which neither side ends with its jump"
                made.append(ast.If(proceeds, structured(rest, kinds, marks, proceeds), [], s.place))
            return made
        made.append(s)
    return made


def branch(condition: Expr, then: list[Stmt], orelse: list[Stmt], place: Place = NOWHERE, text: str = "") -> list[Stmt]:
    """A branch, with its condition negated where the first side is empty; nothing where both are."""
    if then:
        return [ast.If(condition, then, orelse, place, text)]
    return [ast.If(logical_not(condition), orelse, [], place)] if orelse else []


def leaves(body: list[Stmt], kinds: tuple[str, ...] = ("break",)) -> bool:
    """True where a jump of these kinds leaves the statements; break and continue of inner loops do not."""
    if kinds == ("return",):
        return any(isinstance(s, ast.Jump) and s.kind == "return" for s in flatten(body))
    return any(
        (isinstance(s, ast.Jump) and s.kind in kinds) or (isinstance(s, ast.If) and leaves([*s.then, *s.orelse], kinds))
        for s in body
    )


def ends(body: list[Stmt], kinds: tuple[str, ...] = ("return",)) -> bool:
    """True where all paths through the statements end with a jump of these kinds."""
    match body:
        case [*_, ast.If() as last]:
            return ends(last.then, kinds) and ends(last.orelse, kinds)
        case [*_, ast.Jump(kind=kind)]:
            return kind in kinds
    return False


Flagged = Callable[[ast.If | ast.For], list[Stmt]]


def normalize_jumps(function: ast.Function, words: Set[str]) -> None:
    """Change the body of a function into a form that `structured` can take. words: the names of its file."""

    numbers: dict[str, int] = {}

    def declared(base: str, kind: str, value: Expr) -> ast.Declare:
        name = unused_name(base, words, function.declared, numbers=numbers)
        variable = ast.Declare(name, kind, value=value)
        function.declared[variable.name] = variable
        return variable

    def leave_loop(s: Stmt) -> list[Stmt]:
        """A loop with a return inside sets a flag instead and breaks; the return follows it."""
        return flagged(s) if isinstance(s, ast.For) and leaves([s], ("return",)) else [s]

    flagged: Flagged = partial(_flagged, returns=function.returns, declared=declared)
    function.body = _close_branches(replace_each(function.body, leave_loop), flagged, False)


def _close_branches(body: list[Stmt], flagged: Flagged, followed: bool) -> list[Stmt]:
    """The statements, with flags for jumps inside branches of which neither side ends with a jump, if others follow."""
    made: list[Stmt] = []
    for n, s in enumerate(body):
        if ends(made, JUMPS):
            break  # no thread gets here
        if isinstance(s, ast.For):
            s = replace(s, body=_close_branches(s.body, flagged, False))
        if not isinstance(s, ast.If):
            made.append(s)
            continue
        more = followed or n + 1 < len(body)
        deep = more and leaves([s], JUMPS) and not (ends(s.then, JUMPS) or ends(s.orelse, JUMPS))
        for one in flagged(s) if deep else [s]:
            if isinstance(one, ast.If):
                sides = (one.then, one.orelse)
                then, orelse = (_close_branches(side, flagged, more and not ends(side, JUMPS)) for side in sides)
                one = replace(one, then=then, orelse=orelse)
            made.append(one)
    return made


def _flagged(s: ast.If | ast.For, returns: str, declared: Callable[[str, str, Expr], ast.Declare]) -> list[Stmt]:
    """A statement that sets flags instead of its jumps, followed by the jumps. returns: the function's type."""
    kinds = [kind for kind in FLAGS if isinstance(s, ast.If) and leaves([s], (kind,))] or ["return"]
    flags = {kind: declared(FLAGS[kind], "bool", ast.Number("false", "bool")) for kind in kinds}
    has_value = any(isinstance(t, ast.Jump) and t.value is not None for t in flatten([s]))
    value = declared("value", returns, ZERO) if has_value else None

    def marks(jump: ast.Jump) -> list[Stmt]:
        made: list[Stmt] = [ast.Assign(_name(flags[jump.kind]), "=", ast.Number("true", "bool"))]
        if value and jump.value is not None:
            made = [ast.Assign(_name(value), "=", jump.value, jump.place, jump.text), *made]
        return made if isinstance(s, ast.If) else [*made, ast.Jump("break", place=jump.place)]

    if isinstance(s, ast.If):
        unset = (logical_not(_name(d)) for d in flags.values())
        replaced = structured([s], tuple(kinds), marks, reduce(lambda a, b: ast.Binary("&&", a, b, "bool"), unset))
    else:
        replaced = replace_each([s], lambda t: marks(t) if isinstance(t, ast.Jump) and t.kind == "return" else [t])
    jumps = [
        ast.If(_name(d), [ast.Jump(kind, _name(value) if value and kind == "return" else None)], [], s.place)
        for kind, d in flags.items()
    ]
    return [*([value] if value else []), *flags.values(), *replaced, *jumps]


def _name(d: ast.Declare) -> ast.Name:
    return ast.Name(d.name, d.type)


# --- switch ---


@dataclass
class SwitchCase:
    """Some statements of a switch, and the labels ahead of them, as tests; `default` among them."""

    tests: list[Expr]
    default: bool = False
    body: list[Stmt] = field(default_factory=list)


def groups_of(cases: list[SwitchCase]) -> list[list[SwitchCase]]:
    """The cases that go on into one another, the last first, as branches are made of them; first that of `default`."""
    groups: list[list[SwitchCase]] = [[]]
    for case in cases:
        groups[-1].append(case)
        if ends(case.body, JUMPS):
            groups.append([])
    return sorted(filter(None, reversed(groups)), key=lambda group: all(not case.default for case in group))


def variables_of_several(cases: list[SwitchCase]) -> list[Stmt]:
    """The declarations of variables without a value that other cases use, too, taken out of theirs."""
    found: list[Stmt] = []
    names = [names_used(case.body) for case in cases]
    uses = Counter(name for here in names for name in here)
    for case, here in zip(cases, names, strict=True):
        free = [s for s in case.body if isinstance(s, ast.Declare) and s.value is None]
        found += (own := [s for s in free if uses[s.name] > (s.name in here)])
        case.body = [s for s in case.body if s not in own]
    return found


def joined(group: list[SwitchCase], place: Place) -> list[Stmt]:
    """The statements of a group; those of a case run if the value is that of its label, or of one before it."""
    made: list[Stmt] = []
    for n, case in enumerate(group, 1):
        before, after = ([test for each in part for test in each.tests] for part in (group[:n], group[n:]))
        if n == len(group):
            made += case.body
        elif case.body:
            enters = logical_not(either(after)) if any(each.default for each in group[:n]) else either(before)
            made.append(ast.If(enters, case.body, [], place, "switch"))
    return made


def chain(branches: list[tuple[list[Expr], list[Stmt]]], otherwise: list[Stmt], place: Place) -> list[Stmt]:
    """The branches of a switch, the last first, each in the else of the one ahead; of many, half in one branch."""
    if len(branches) <= MOST_NESTED:
        return reduce(lambda made, own: [ast.If(either(own[0]), own[1], made, place, "switch")], branches, otherwise)
    half = len(branches) // 2
    first, rest = branches[half:], branches[:half]
    tests = [test for own, _ in first for test in own]
    return [ast.If(either(tests), chain(first, [], place), chain(rest, otherwise, place), place, "switch")]


def either(tests: list[Expr]) -> Expr:
    return reduce(lambda a, b: ast.Binary("||", a, b, "bool"), tests)


def without_breaks(body: list[Stmt], declared: dict[str, ast.Declare], words: Set[str]) -> list[Stmt] | None:
    """The statements of a group, left by break as a function is by return; None where it has other jumps, too."""
    if body and isinstance(body[-1], ast.Jump) and body[-1].kind == "break":
        body = body[:-1]
    if not leaves(body, ("break",)):
        return body
    if leaves(body, ("continue",)) or leaves(body, ("return",)):
        return None
    made = ast.Function("", "void", (), _returning(body), body[0].place, "", declared)
    normalize_jumps(made, words)
    return structured(made.body, ("return",))


def _returning(body: list[Stmt]) -> list[Stmt]:
    """Each break of a switch as a return; those of loops stay."""
    made: list[Stmt] = []
    for s in body:
        if isinstance(s, ast.Jump) and s.kind == "break":
            s = replace(s, kind="return")
        elif isinstance(s, ast.If):
            s = replace(s, then=_returning(s.then), orelse=_returning(s.orelse))
        made.append(s)
    return made


# --- conditions that are known ---


def live(body: list[Stmt], fixed: Mapping[str, Expr]) -> list[Stmt]:
    """The statements that run, where conditions are known, or are by variables with these values."""
    made: list[Stmt] = []
    for s in body:
        for one in with_header(s):
            map_expressions(one, partial(settled, fixed=fixed))
        s = map_bodies(s, partial(live, fixed=fixed)) if isinstance(s, ast.If | ast.For) else s
        side = [s]
        if isinstance(s, ast.If) and (holds := known(s.condition)) is not None:
            side = s.then if holds else s.orelse
            declares = any(isinstance(t, ast.Declare) for t in side)
            made += [ast.If(TRUE, side, [], s.place, s.text)] if declares else side
        else:
            made.append(s)
        if ends(side, JUMPS):
            break
    return made


def settled(e: Expr, fixed: Mapping[str, Expr]) -> Expr:
    """An expression without the sides of choices that are never taken."""

    def new(x: Expr) -> Expr | None:
        match x:
            case ast.Name():
                return fixed.get(x.name)
            case ast.Ternary():
                condition = replace_parts(x.condition, new)
                if (holds := known(condition)) is not None:
                    side = replace_parts(x.yes if holds else x.no, new)
                    if is_float(x.type):
                        return as_float(side, x.type)
                    return side if side.type == x.type else ast.Cast(x.type, side)
            case ast.Binary(op="&&" | "||"):
                left, right = replace_parts(x.left, new), replace_parts(x.right, new)
                for one, other in ((left, right), (right, left)):
                    if (holds := known(one)) is not None:
                        return other if holds == (x.op == "&&") else ast.Number(str(holds).lower(), "bool")
        return None

    return replace_parts(e, new)


def settle(body: list[Stmt]) -> list[Stmt]:
    """The statements that run where the kernel asks whether it has an array, or keeps the answer in a variable."""
    fixed: dict[str, Expr] | None = None
    values: dict[str, Expr] = {}
    own = {name for name, e in assigned_once(body).items() if isinstance(e, ast.Number) and e.type != "bool"}
    while values != fixed:
        fixed, body = values, live(body, values)
        once = {name: e for name, e in assigned_once(body).items() if name not in own}
        values = {name: e for name, e in once.items() if e.type in ("bool", "int") and known(e) is not None}
    return body


def known(e: Expr) -> bool | None:
    """The value of a constant condition."""
    match e:
        case ast.Number(text="true"):
            return True
        case ast.Number(text="false"):
            return False
        case ast.Name(name="true" | "false"):
            return e.name == "true"
        case ast.Unary(op="!"):
            inner = known(e.operand)
            return None if inner is None else not inner
        case ast.Binary(op="&&" | "||"):
            left, right = known(e.left), known(e.right)
            if None in (left, right):
                return None
            return (left and right) if e.op == "&&" else (left or right)
        case ast.Binary(op="==" | "!=" | "<" | "<=" | ">" | ">="):
            a, b = _number(e.left), _number(e.right)
            if a is None or b is None or (min(a, b) < 0 and {e.left.type, e.right.type}.intersection(UNSIGNED)):
                return None
            return {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[e.op]
    value = _number(e)
    return None if value is None else bool(value)


def _number(e: Expr) -> int | None:
    match e:
        case ast.Binary(op="+" | "-" | "*" | "/" | "%"):
            a, b = _number(e.left), _number(e.right)
            if a is None or b is None or (e.op in "/%" and (a < 0 or b <= 0)):
                return None
            made = {"+": a + b, "-": a - b, "*": a * b, "/": a // b if b else 0, "%": a % b if b else 0}[e.op]
            return made if fits(made, e.type) else None
    return constant(e) if (value := int_value(e)) is None else value
