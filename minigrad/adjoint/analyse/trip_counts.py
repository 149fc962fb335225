"""Trip counts of loops, from their headers: by formula, as upper bounds, and with values on the host."""

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minigrad.adjoint.analyse.polynomials import EXTENTS, polynomial, variable
from minigrad.adjoint.frontend.file import KernelFile
from minigrad.adjoint.language import ast, dataflow, rewrite
from minigrad.adjoint.language.ast import UNSIGNED, Expr, Stmt, children, common_type, is_float, walk
from minigrad.adjoint.language.control_flow import leaves
from minigrad.adjoint.language.dataflow import assigned_once, inline, names_behind, own_writes, target_name, written
from minigrad.adjoint.language.rewrite import ONE, ZERO, comparison, conjuncts, fits, minus, negative, over, plus, times

LOCAL_BYTES = 1024  # of a tape in a thread's local memory, at most
HALVINGS = 32  # of a 32-bit integer, at most
COUNTING = ("int", "unsigned", "long long", "unsigned long long", "size_t")
COORDINATES = {*EXTENTS, *EXTENTS.values()}


def is_unsigned(e: Expr) -> bool:
    """True where C++ computes an expression in unsigned arithmetic, in which -1 is a large number."""
    if isinstance(e, ast.Cast | ast.Index) or e.type != "int":
        return e.type in UNSIGNED
    return e.names <= COORDINATES if isinstance(e, ast.Name) else any(map(is_unsigned, children(e)))


@dataclass(frozen=True)
class Count:
    """The header `for (int var = start; var < bound; var += step)`, which the body of the loop does not change."""

    var: str
    start: Expr
    bound: Expr  # exclusive
    step: Expr  # may be negative
    down: bool
    exact: bool = True  # no break: the header alone determines the trip count
    within: bool = False  # not the header but each round tests the condition, so that there is one round more

    @property
    def simple(self) -> bool:
        """0, 1, 2, ...: the variable is the number of the iteration."""
        return rewrite.is_number(self.start, 0) and rewrite.is_number(self.step, 1)

    @property
    def trips(self) -> Expr:
        """The trip count; 0 or less of a loop that does not run."""
        span = minus(self.start, self.bound) if self.down else minus(self.bound, self.start)
        return span if rewrite.is_number(self.size, 1) else over(minus(plus(span, self.size), ONE), self.size)

    @property
    def size(self) -> Expr:
        """The absolute value of the step."""
        return negative(self.step) if self.down else self.step

    @property
    def some(self) -> Expr:
        """The condition for a first iteration, with the loop variable's type, int."""
        start = ast.Cast("int", self.start) if is_unsigned(self.start) else self.start
        if is_unsigned(self.bound) and (rewrite.int_value(start) or 0) < 0:
            start = ast.Cast("unsigned", start)  # as C++ does, but unasked it warns
        return comparison(">" if self.down else "<", start, self.bound)

    def runs(self, values: Mapping[str, int]) -> bool:
        """True if the loop is known to make an iteration."""
        return self.exact and (evaluate(self.trips, values) or 0) > 0

    def value(self, k: Expr) -> Expr:
        """The variable in iteration k."""
        return plus(self.start, times(k, self.step))

    def iteration(self, var: Expr) -> Expr:
        """The iteration in which the variable has this value."""
        return over(minus(self.start, var) if self.down else minus(var, self.start), self.size)


def count(s: ast.For) -> Count | None:
    """The count of a loop; None unless its variable takes equal steps over a range."""
    if not isinstance(s.start, ast.Declare) or s.start.type != "int" or s.step is None:
        return None
    condition, step, var = s.condition, s.step, s.start.name
    if s.start.value is None or not isinstance(condition, ast.Binary) or target_name(step.target) != var:
        return None
    op, exact = condition.op, not leaves(s.body)
    if op == "!=" and exact and rewrite.is_number(step.value, 1):  # any other bound is passed by, or never met
        op = "<" if step.op == "+=" else ">"
    if condition.left != ast.Name(var, "int") or op not in ("<", "<=", ">", ">="):
        return None
    changed, names = written(s.body), condition.right.names | step.value.names | s.start.value.names
    if names & (changed | {var}) or var in changed or "size_t" in (condition.right.type, step.value.type):
        return None
    down, bound = op in (">", ">="), condition.right
    if is_float(bound.type) or step.op != ("-=" if down else "+=") or isinstance(step.value, ast.Unary):
        return None  # there are 2 iterations below 1.5; a loop that steps away from its bound does not end
    if op in ("<=", ">="):
        bound = minus(bound, ONE) if down else plus(bound, ONE)
    return Count(var, s.start.value, bound, negative(step.value) if down else step.value, down, exact)


def capacity(file: KernelFile, s: ast.For, found: Count | None, around: Sequence[ast.For] = ()) -> Expr | None:
    """The largest trip count that is known at compile time: from constants, or of a variable halved or doubled.

    around: the loops around this one, the outermost first.
    """
    if found and found.trips.type == "int" and evaluate(found.trips, file.values) is not None:
        return found.trips
    turns = _geometric(s, file.values, around)
    return None if turns is None else rewrite.int_literal(turns if around else HALVINGS)  # a tape of one loop is short


def factor(s: ast.For) -> tuple[str, int] | None:
    """`/` or `*` and the number by which a loop divides or multiplies its variable; None of any other loop."""
    if s.step is None or target_name(s.step.target) in written(s.body):
        return None
    by = rewrite.int_value(s.step.value) or 0
    by = by if s.step.op in ("/=", "*=") else 1 << min(max(by, 0), HALVINGS) if s.step.op in (">>=", "<<=") else 0
    return ("/" if s.step.op in ("/=", ">>=") else "*", by) if by >= 2 else None


def _geometric(s: ast.For, values: Mapping[str, int], around: Sequence[ast.For]) -> int | None:
    """At most as many times is a variable halved while it is above 0, or doubled from 1 or more up to a bound."""
    if s.step is None or (way := factor(s)) is None:
        return None
    var, kind, (op, by) = target_name(s.step.target), s.step.target.type, way
    start = s.start.value if s.start and var in written([s.start]) else None
    tests = [e for e in conjuncts(s.condition) if isinstance(e, ast.Binary) and e.left == s.step.target]
    if op == "/" and kind in ("int", "unsigned"):
        ends = [
            n + (e.op == ">") for e in tests if e.op in (">", ">=") and (n := evaluate(e.right, values)) is not None
        ]
        most = _greatest(start, values, around) if start else None
        return _powers(by, max(ends), most) if max(ends, default=0) > 0 else None
    wraps = kind == "unsigned" and by & (by - 1) == 0  # to 0
    first = evaluate(start, values) if start and op == "*" and (kind == "int" or wraps) else None
    if first is None or first < 1:
        return None
    bounds = [(_greatest(e.right, values, around), e.op == "<") for e in tests if e.op in ("<", "<=")]
    return min((_powers(by, first, n if n is None else n - less) for n, less in bounds), default=None)


def _powers(by: int, least: int, most: int | None) -> int:
    """The number of those of least, least * by, least * by * by, ... up to `most`: of 32 bits if that is unknown."""
    if most is None or most < least:
        return HALVINGS
    return next(n for n in range(1, HALVINGS + 1) if n == HALVINGS or least * by**n > most)


def _greatest(e: Expr, values: Mapping[str, int], around: Sequence[ast.For]) -> int | None:
    """An upper bound of an expression of constants and of the variables of loops around."""
    if is_unsigned(e) or (known := evaluate(e, values)) is not None:
        return None if is_unsigned(e) else known
    match e:
        case ast.Name():
            loop = next((s for s in reversed(around) if s.variable == e.name), None)
            if loop is None or e.name in written(loop.body):
                return None
            tests = [t for t in conjuncts(loop.condition) if isinstance(t, ast.Binary) and t.left == e]
            ends = [n - (t.op == "<") for t in tests
                    if t.op in ("<", "<=") and (n := _greatest(t.right, values, ())) is not None]  # fmt: skip
            return min(ends, default=None)
        case ast.Binary(op="/" | ">>", right=ast.Number(int_value=by)) if by:
            most = _greatest(e.left, values, around)
            return None if most is None or most < 0 else apply_operator(e.op, most, by)
    return None


def shifted(s: ast.For, k: Expr) -> Expr | None:
    """The variable of `for (int i = start; i > 0; i /= 2)` in iteration k: start >> k. None for any other loop."""
    if not isinstance(s.start, ast.Declare) or s.start.value is None or s.step is None:
        return None
    name, by = s.start.name, (s.step.op, rewrite.int_value(s.step.value))
    positive = s.condition == comparison(">", ast.Name(name, "int"), ZERO)
    if by not in (("/=", 2), (">>=", 1)) or not positive or s.start.type != "int":
        return None
    if target_name(s.step.target) != name or (s.start.value.names | {name}) & written(s.body):
        return None
    return ast.Binary(">>", s.start.value, k, "int")


def evaluate(e: Expr, values: Mapping[str, int]) -> int | None:
    """The value of an integer expression; None where a name in it is unknown, or an unsigned number would wrap."""
    match e:
        case ast.Number():
            return e.int_value
        case ast.Name():
            return values.get(e.name)
        case ast.Cast() if e.type in rewrite.RANGES and not is_float(e.operand.type):
            inner = evaluate(e.operand, values)
            return None if inner is None or not fits(inner, e.type) else inner
        case ast.Unary():
            inner = evaluate(e.operand, values)
            return None if inner is None or e.op != "-" else _of(e.type, -inner)
        case ast.Binary() | ast.Call(function="min" | "max", arguments=(_, _)):
            op, (a, b) = (e.op if isinstance(e, ast.Binary) else e.function), children(e)
            both, kind = (evaluate(a, values), evaluate(b, values)), common_type(a.type, b.type)
            if op not in ("+", "-", "*"):
                both = _of(kind, both[0]), _of(kind, both[1])
            return None if None in both else _of(e.type, apply_operator(op, *both))
        case ast.Ternary():
            chosen = evaluate(e.condition, values)
            return None if chosen is None else evaluate(e.yes if chosen else e.no, values)
    return None


def _of(kind: str, value: int | None) -> int | None:
    """The value; None of one that an unsigned number does not have."""
    return None if value is None or (kind in UNSIGNED and not fits(value, kind)) else value


def apply_operator(op: str, a: Any, b: Any) -> Any:
    """a op b as in C++, of integers or arrays of them; None unless all of them have a value."""
    if (op in ("/", "%") and not np.all(b != 0)) or (op in ("<<", ">>") and not np.all((b >= 0) & (b < 64))):
        return None
    return OPERATIONS[op](a, b) if op in OPERATIONS else None


def _quotient(a: Any, b: Any) -> Any:
    """a / b rounded towards 0."""
    return abs(a) // abs(b) * (2 * ((a < 0) == (b < 0)) - 1)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _quotient, "%": lambda a, b: a - b * _quotient(a, b),
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "&&": lambda a, b: (a != 0) & (b != 0), "||": lambda a, b: (a != 0) | (b != 0), "<<": operator.lshift,
    ">>": operator.rshift, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "min": lambda a, b: a - (a - b) * (a > b), "max": lambda a, b: a + (b - a) * (b > a),
}  # fmt: skip


# the first and the last value of each coordinate
THREADS: dict[str, tuple[Expr, Expr]] = {i: (ZERO, minus(ast.Name(n, "int"), ONE)) for i, n in EXTENTS.items()}


def trips_of(header: Count, values: Mapping[str, int], fixed: Mapping[str, Expr]) -> Expr:
    """The trip count, 0 for a loop without iterations: where the formula may be wrong, the condition is tested.

    It may where only the running kernel knows the step, which may be 0 or lead away from the bound; and where C++
    computes in unsigned arithmetic, as with blockDim.x.
    """
    if header.within:
        return plus(ast.Ternary(header.some, rewrite.typed(header.trips, "int"), ZERO, "int"), ONE)
    positive = evaluate(header.size, values)
    signed = not any(map(is_unsigned, (header.start, header.bound, header.step)))
    begins = header.simple and (header.bound.type == "unsigned" or header.bound.names & {*EXTENTS.values()})
    if (signed and positive is not None and positive > 0) or begins or _distributed(header, fixed):
        return header.trips
    return ast.Ternary(header.some, rewrite.typed(header.trips, "int"), ZERO, "int")


def _distributed(header: Count, fixed: Mapping[str, Expr]) -> bool:
    """True if a range with a bound that cannot be negative (n, not n - 2) is distributed over threads or blocks."""
    start, step, bound = (polynomial(inline(e, fixed)) for e in (header.start, header.step, header.bound))
    if bound is None or any(factor < 0 for factor in bound.values()):
        return False
    shares = [(variable(i), variable(n)) for i, n in EXTENTS.items()]
    for a in "xyz":
        width = variable(f"blockDim.{a}")
        first = variable(f"blockIdx.{a}") * width + variable(f"threadIdx.{a}")
        shares.append((first, width * variable(f"gridDim.{a}")))
    return (start, step) in shares


def bounding(s: ast.For, function: Sequence[Stmt] = ()) -> Count | None:
    """A count with at least as many iterations: that of the loop itself, or of one with another counter.

    It may be unsigned, long, or one that each round changes in the body. function: the statements that may begin it.
    """
    tests, steps = [(e, "") for e in conjuncts(s.condition)], [s.step] if s.step else list[ast.Assign]()
    copies, often = dict[str, Expr](), Counter(n for t in rewrite.flatten([s]) for n in own_writes(t))
    for t in s.body if function else ():
        match t:
            case ast.Declare(value=ast.Name() as copied):
                if often[t.name] == 1 and all(copied != one.target for one in steps):
                    copies[t.name] = copied
            case ast.Assign(target=ast.Name()):
                steps.append(t)
            case ast.If(then=[ast.Jump(kind="break")], orelse=[]):
                for e in conjuncts(rewrite.logical_not(t.condition)):
                    tests.append((old := inline(e, copies), "within" if old == e else "ahead"))
        if leaves([t], ("continue",)):
            break
    found = (_bounded(s, e, where, steps, function) for e, where in tests)
    return count(s) or next(filter(None, found), None)


def _bounded(s: ast.For, e: Expr, where: str, steps: list[ast.Assign], function: Sequence[Stmt]) -> Count | None:
    """The count of a loop that goes on while this holds. where: a round tests it, if not the header."""
    if not isinstance(e, ast.Binary) or not isinstance(e.left, ast.Name) or (kind := e.left.type) not in COUNTING:
        return None
    name, inside = e.left.name, rewrite.flatten([s])
    writes = [t for t in inside if name in own_writes(t) and t is not s.start]
    step = next((t for t in steps if len(writes) == 1 and t is writes[0]), None)
    if step is None or is_float(e.right.type) or e.right.names & {*written(s.body), name}:
        return None
    less = any(isinstance(x, ast.Unary) or (isinstance(x, ast.Binary) and x.op == "-") for x in walk(step.value))
    above = step.value.names <= {*EXTENTS.values()} and not less and not is_float(step.value.type)
    up, by = step.op == "+=", rewrite.int_value(step.value) or int(above)
    down = step.op == "-=" and rewrite.is_number(step.value, 1)  # 5 - 3 - 3 is a large unsigned number
    behind = down and where == "within" and kind in UNSIGNED  # 0, at a large number
    if by < 1 or behind or not (up or down) or e.op not in (("<", "<=") if up else (">",)):
        return None
    if (start := _first(s, name, up, {t.place for t in inside}, function)) is None:
        return None
    bound = _long(e.right, common_type(kind, e.right.type))
    bound = plus(bound, ONE) if e.op == "<=" else bound
    return Count(name, _long(start, kind), bound, step.value if up else negative(step.value), down, False, bool(where))


def _first(s: ast.For, name: str, up: bool, inside: set[ast.Place], function: Sequence[Stmt]) -> Expr | None:
    """The value of a variable ahead of a loop, or one on the other side of it than the bound."""
    if s.start and name in own_writes(s.start):
        return s.start.value
    others = [t for t in rewrite.flatten(function) if name in own_writes(t) and t.place not in inside]
    sets = [t for t in others if isinstance(t, ast.Declare) or (isinstance(t, ast.Assign) and t.op == "=")]
    given = [(t, e) for t in sets if (e := t.value) is not None]
    if len(sets) < len(others) or len(given) == 1:
        return given[0][1] if len(sets) == len(others) and _same_loops(s, *given[0], function) else None
    known = [n for _, e in given if (n := rewrite.int_value(e)) is not None]
    return rewrite.int_literal(min(known) if up else max(known)) if known and len(known) == len(given) else None


def _same_loops(s: ast.For, first: Stmt, e: Expr, function: Sequence[Stmt]) -> bool:
    """True where the loops that count a name in the value e of a statement are around both that and the loop s."""
    names = names_behind([e], assigned_once(function))
    loops = (x for x in rewrite.flatten(function) if isinstance(x, ast.For) and x.start and names & own_writes(x.start))
    inside = ({t.place for t in rewrite.flatten(x.body)} for x in loops)
    return all((s.place in places) == (first.place in places) for places in inside)


def _long(e: Expr, kind: str) -> Expr:
    """A number as one of this type, and in a type in which its differences are no large numbers."""
    if kind not in UNSIGNED or isinstance(e, ast.Number):
        return e
    return ast.Cast("long long", e if is_unsigned(e) else ast.Cast(kind, e))


def nests(body: list[Stmt], around: tuple[Count, ...] = ()) -> dict[ast.Place, tuple[Count, ...]]:
    """The countable headers around each loop, the outermost first."""
    found: dict[ast.Place, tuple[Count, ...]] = {}
    for s in body:
        header = bounding(s) if isinstance(s, ast.For) else None
        if isinstance(s, ast.For):
            found[s.place] = around
        for inner in rewrite.bodies(s):
            found |= nests(inner, (*around, header) if header else around)
    return found


def widest(header: Count, around: tuple[Count, ...], fixed: Mapping[str, Expr], budget: dataflow.Budget) -> Count:
    """A header with at least as many iterations: outer variables and thread coordinates take extreme values."""
    ends = dict(THREADS)
    for outer in around:
        bound = _long(outer.bound, outer.bound.type)
        first, last = outer.start, plus(bound, ONE if outer.down else rewrite.int_literal(-1))
        if not (_may_wrap(outer.start, ends) or _may_wrap(outer.bound, ends)):
            ends[outer.var] = (last, first) if outer.down else (first, last)

    def one(e: Expr, a: Expr, b: Expr, greater: bool) -> Expr:
        paid = budget.take(sum(1 for x in (a, b) for _ in walk(x)))  # each stands there twice
        return ast.Ternary(comparison(">" if greater else "<", a, b), a, b, e.type) if paid else e

    def extreme(e: Expr, high: bool) -> Expr:
        """The lowest or highest value of an expression, as far as it is a sum of such variables."""
        match e := inline(e, fixed, budget):
            case ast.Call(function="min" | "max" as op, arguments=(a, b)):
                return one(e, extreme(a, high), extreme(b, high), op == "max")
            case ast.Ternary(yes=a, no=b):
                return one(e, extreme(a, high), extreme(b, high), high)
            case ast.Cast(type="long long"):
                return replace(e, operand=extreme(e.operand, high))
            case ast.Binary(op="%", right=m) if high and m.names.isdisjoint(ends):  # m may be below 0, as -7 % -3 is -1
                above = is_unsigned(m) or (rewrite.int_value(m) or 0) > 0
                return minus(m if above else ast.Call("max", (m, negative(m)), m.type), ONE)
            case ast.Binary(op="/" | ">>", right=ast.Number()):
                return replace(e, left=extreme(e.left, high))
        if _may_wrap(e, ends):
            return e if high or not is_unsigned(e) else ZERO
        for name, both in reversed(ends.items()):
            p = polynomial(e) if name in e.names and budget.take(10 * len(e.names)) else None
            factor = None if p is None else p.coefficient(name)
            if factor is not None and set(factor) <= {()}:
                e = inline(e, {name: inline(both[(factor.get((), 0) > 0) == high], fixed, budget)}, budget)
        return e

    return replace(header, start=extreme(header.start, header.down), bound=extreme(header.bound, not header.down))


def _may_wrap(e: Expr, varying: Mapping[str, Any]) -> bool:
    """True if unsigned arithmetic with these names may make a large number of a negative value."""
    inside = [x for x in walk(e) if is_unsigned(x) and not isinstance(x, ast.Name) and not x.names.isdisjoint(varying)]
    sums = [x for x in inside if isinstance(x, ast.Binary) and x.op in ("+", "*")]
    return len(sums) < len(inside) or not all(
        is_unsigned(y) or isinstance(y, ast.Number) for x in sums for y in children(x)
    )
