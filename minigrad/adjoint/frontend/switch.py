"""switch as a chain of branches."""

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import JUMPS, Expr, Place, Stmt
from minigrad.adjoint.language.control_flow import ends, leaves, normalize_jumps, structured
from minigrad.adjoint.language.dataflow import names_used
from minigrad.adjoint.language.rewrite import logical_not


@dataclass
class Case:
    """The labels ahead of some statements, as tests; `default` among them."""

    tests: list[Expr]
    default: bool
    body: list[Stmt] = field(default_factory=list)


def switch(parser: Any) -> list[Stmt]:
    """Cases that go on into the next form a group: one branch for all of them, in which each asks for its labels."""
    tokens, token = parser.tokens, parser.tokens.take()
    condition, needed = parser.condition()
    outer, parser.symbols.pending = parser.symbols.pending, needed
    value = parser.simple(condition, "selected", token.place)
    parser.symbols.pending = outer
    tokens.expect("{")
    groups: list[list[Case]] = [[]]
    with parser.symbols.scope():
        while not tokens.accept("}"):
            groups[-1].append(case := labels(parser, value))
            parser.symbols.bare += 1
            while tokens.next.text not in ("case", "default", "}"):
                case.body += parser.statement()
            parser.symbols.bare -= 1
            if ends(case.body, JUMPS):
                groups.append([])
    needed += variables_of_several([case for group in groups for case in group])
    made: list[Stmt] = []
    groups.sort(key=lambda group: all(not case.default for case in group))  # default is the last else
    for group in filter(None, groups):
        body = left_early(parser, joined(group, token.place))
        tests = [test for case in group for test in case.tests]
        chosen = any(case.default for case in group)
        made = body if chosen else [ast.If(either(tests), body, made, token.place, "switch")]
    return [*needed, *made]


def labels(parser: Any, value: Expr) -> Case:
    """`case 0: case 1:` or `default:` at the cursor."""
    tokens, made = parser.tokens, Case([], False)
    if tokens.next.text not in ("case", "default"):
        raise parser.error(tokens.next.place, "a statement of a switch follows its case.")
    while tokens.next.text in ("case", "default"):
        if tokens.take().text == "default":
            made.default = True
        else:
            label = parser.expression(ast.PRECEDENCE["||"])
            made.tests.append(ast.Binary("==", value, label, "bool"))
        tokens.expect(":")
    return made


def variables_of_several(cases: list[Case]) -> list[Stmt]:
    """The declarations of variables without a value that other cases use, too, taken out of theirs."""
    found: list[Stmt] = []
    for case in cases:
        used = set[str]().union(*(names_used(other.body) for other in cases if other is not case))
        found += (own := [s for s in case.body if isinstance(s, ast.Declare) and s.value is None and s.name in used])
        case.body = [s for s in case.body if s not in own]
    return found


def joined(group: list[Case], place: Place) -> list[Stmt]:
    """The statements of a group; those of a case run if the value is that of its label, or of one before it."""
    made: list[Stmt] = []
    for n, case in enumerate(group, 1):
        before, after = ([test for each in part for test in each.tests] for part in (group[:n], group[n:]))
        enters = not_any(after) if any(each.default for each in group[:n]) else either(before)
        last = not after and not any(each.default for each in group[n:])
        made += case.body if last or not case.body else [ast.If(enters, case.body, [], place, "switch")]
    return made


def left_early(parser: Any, body: list[Stmt]) -> list[Stmt]:
    """The statements of a group without its breaks, by which it is left as a function is by return."""
    if body and isinstance(body[-1], ast.Jump) and body[-1].kind == "break":
        body = body[:-1]
    if not leaves(body, ("break",)):
        return body
    if leaves(body, ("continue",)) or leaves(body, ("return",)):
        why = "a break beside a continue or return in one case is outside the subset; write if and else."
        raise parser.error(body[0].place, why)
    made = ast.Function("", "void", (), _returning(body), body[0].place, "", parser.symbols.declared)
    normalize_jumps(made, parser.tokens.words)
    return structured(made.body, ("return",))


def _returning(body: list[Stmt]) -> list[Stmt]:
    """Each break of the switch as a return; those of loops stay."""
    made: list[Stmt] = []
    for s in body:
        if isinstance(s, ast.Jump) and s.kind == "break":
            s = replace(s, kind="return")
        elif isinstance(s, ast.If):
            s = replace(s, then=_returning(s.then), orelse=_returning(s.orelse))
        made.append(s)
    return made


def either(tests: list[Expr]) -> Expr:
    return reduce(lambda a, b: ast.Binary("||", a, b, "bool"), tests)


def not_any(tests: list[Expr]) -> Expr:
    return logical_not(either(tests)) if tests else ast.Number("true", "bool")
