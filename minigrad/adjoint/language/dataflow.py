"""Data flow: the names that statements read and write, and the names through which derivatives flow."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import (
    DERIVATIVES,
    TESTS,
    Expr,
    Place,
    Stmt,
    Target,
    base_name,
    children,
    is_float,
    walk,
)
from minigrad.adjoint.language.lexer import TokenStream
from minigrad.adjoint.language.rewrite import bottom_up, flatten, own_expressions, replace_parts

NONE = frozenset[str]()

# --- one statement ---


def target_name(target: Target) -> str:
    """The variable or array that is written."""
    return target.name if type(target) is ast.Name else target.array  # type: ignore[union-attr]


def is_sum(s: Stmt) -> TypeGuard[ast.Assign]:
    return isinstance(s, ast.Assign) and s.op in ("+=", "-=")


def own_updates(s: Stmt) -> set[str]:
    """The target of a compound assignment, which reads it."""
    return {target_name(s.target)} if isinstance(s, ast.Assign) and s.op != "=" else set()


def own_reads(s: Stmt) -> frozenset[str]:
    """The names that a statement itself reads, its bodies aside; those of a reversed loop's trip count included."""
    if type(s) is ast.Assign:  # most statements are assignments and declarations
        found = s.value.names
        if type(s.target) is ast.Index:
            found = found.union(*[e.names for e in s.target.indices])
        return found if s.op == "=" else found | {target_name(s.target)}
    if type(s) is ast.Declare and s.values is None:
        return NONE if s.value is None else s.value.names
    found = NONE.union(*[e.names for e in own_expressions(s)])
    if type(s) is ast.For and s.reversal and s.reversal.trips:
        found |= s.reversal.trips.names
    return found


def own_writes(s: Stmt) -> set[str]:
    """The names that a statement itself writes or declares."""
    if type(s) is ast.Assign or type(s) is ast.AtomicAdd:
        return {target_name(s.target)}
    if type(s) is ast.Declare:
        return {s.name}
    return set(s.writes) if type(s) is ast.CallStmt else set()


def accesses(s: Stmt) -> list[tuple[str, Target]]:
    """Each element, variable and passed array of a statement, with "read", "write" or "add"."""
    found = [("read", x) for e in own_expressions(s) for x in walk(e) if isinstance(x, ast.Name | ast.Index)]
    match s:
        case ast.Assign() | ast.AtomicAdd():
            found.append(("add" if isinstance(s, ast.AtomicAdd) else "write", s.target))
        case ast.CallStmt():
            found += [("write", a) for a in s.arguments if isinstance(a, ast.Name) and a.name in s.writes]
    return found


# --- all statements of a body ---


def has_barrier(body: Iterable[Stmt], warp: bool = False) -> bool:
    """True with barriers. warp: of warps alone."""
    return any(isinstance(s, ast.Barrier) and (s.warp or not warp) for s in flatten(body))


def has_shuffle(body: Iterable[Stmt]) -> bool:
    """True where threads of a warp exchange values or, in the adjoint of that, gradients."""
    values = (s.value for s in flatten(body) if isinstance(s, ast.Declare | ast.Assign) and s.value is not None)
    calls = (e.function for value in values for e in ast.walk(value) if isinstance(e, ast.Call))
    return any(name.startswith(("__shfl", "shuffle_")) for name in calls)


def read(body: Iterable[Stmt]) -> set[str]:
    return set().union(*map(own_reads, flatten(body)))


def written(body: Iterable[Stmt]) -> set[str]:
    """The names that statements write or declare."""
    found = set[str]()
    for s in flatten(body):
        if type(s) is ast.Declare:  # as most statements are declarations and assignments
            found.add(s.name)
        elif type(s) is ast.Assign:
            found.add(target_name(s.target))
        else:
            found |= own_writes(s)
    return found


def declared(body: Iterable[Stmt]) -> set[str]:
    return {s.name for s in flatten(body) if isinstance(s, ast.Declare)}


def names_used(body: Iterable[Stmt]) -> set[str]:
    """The names that statements read or write."""
    found = set[str]()
    for s in flatten(body):
        found |= own_reads(s)
        if type(s) is ast.Assign:
            found.add(target_name(s.target))
        elif type(s) is not ast.Declare:
            found |= own_writes(s)
    return found


def used_outside_sums(body: Iterable[Stmt], is_sum: Callable[[Stmt], bool] = is_sum) -> set[str]:
    """The names that statements read, or write other than by adding to them."""
    body = flatten(body)
    writes = {n for s in body if not is_sum(s) for n in own_writes(s)}
    return writes.union(*(own_reads(s) - own_updates(s) for s in body))


def elements_read(body: Iterable[Stmt]) -> list[ast.Index]:
    return [x for s in flatten(body) for e in own_expressions(s) for x in walk(e) if isinstance(x, ast.Index)]


def assigned_once(body: Iterable[Stmt]) -> dict[str, Expr]:
    """The variables that no statement writes after their declaration, with their values.

    Without those whose value names a variable that may change: after `int j = k; ++k` j is not k. The variable of a
    loop is one thing while what its body declares lives.
    """
    body = flatten(body)
    writes = Counter(n for s in body for n in own_writes(s))
    headers = [part for s in body if isinstance(s, ast.For) for part in (s.start, s.step) if part]
    counted = Counter(n for part in headers for n in own_writes(part))
    changing = {n for n, count in writes.items() if count > max(counted[n], 1)}
    values = {s.name: s.value for s in body if isinstance(s, ast.Declare) and s.value is not None}
    return {name: value for name, value in values.items() if writes[name] == 1 and not value.names & changing}


def merge_copies(body: list[Stmt], temporary: Callable[[str], bool]) -> None:
    """Give the value of a temporary to the one statement that copies it: `t = e; v = t` becomes `v = e`."""
    everything = flatten(body)
    reads = Counter(x.name for s in everything for e in own_expressions(s) for x in walk(e) if isinstance(x, ast.Name))
    reads.update(n for s in everything for n in own_updates(s))
    once = {n for n, count in reads.items() if count == 1 and temporary(n)}
    once -= {n for n, count in Counter(n for s in everything for n in own_writes(s)).items() if count > 1}
    bottom_up(body, partial(_merged, once=once))


def _merged(body: list[Stmt], once: set[str]) -> list[Stmt]:
    """The statements of a body with copies merged."""
    waiting: dict[str, tuple[ast.Declare, Expr]] = {}  # temporaries whose values have not changed since
    users: dict[str, list[str]] = {}  # by name: those in whose values it is
    merged = set[int]()  # ids of those that are gone
    for s in body:
        copied = s.value if isinstance(s, ast.Declare | ast.Assign) else None
        if isinstance(s, ast.Declare | ast.Assign) and isinstance(copied, ast.Name) and copied.name in waiting:
            temporary, value = waiting[copied.name]
            if temporary.type == (s.type if isinstance(s, ast.Declare) else s.target.type):
                s.value = value
                merged.add(id(temporary))
        if waiting:
            for name in [*waiting] if has_barrier([s]) else (n for w in written([s]) for n in users.pop(w, ())):
                waiting.pop(name, None)
        if isinstance(s, ast.Declare) and s.name in once and s.value is not None and not has_shuffle([s]):
            waiting[s.name] = s, s.value
            for name in s.value.names:
                users.setdefault(name, []).append(s.name)
    return [s for s in body if id(s) not in merged]


# --- expressions ---


def names_in(expressions: Iterable[Expr]) -> set[str]:
    return set().union(*(e.names for e in expressions))


def always_read(e: Expr) -> Iterator[ast.Index]:
    """The elements that an expression reads in any case: of `a[0] && b[0]` the first."""
    if isinstance(e, ast.Index):
        yield e
    short = isinstance(e, ast.Ternary) or (isinstance(e, ast.Binary) and e.op in ("&&", "||"))
    for part in children(e)[:1] if short else children(e):
        yield from always_read(part)


def own_arrays(e: Expr) -> set[str]:
    """The arrays that an expression itself reads: the one it indexes, or those it passes to a function."""
    if isinstance(e, ast.Call):
        return {a.name for a in e.arguments if isinstance(a, ast.Name)}  # and variables, which are never lost
    return {e.array} if isinstance(e, ast.Index) else set()


@dataclass
class Budget:
    """The time that searches and optional passes of a derivation may still take, in about microseconds."""

    left: int = 1_000_000
    kept: int = 600_000  # for the passes: searches end there

    def take(self, cost: int) -> bool:
        """Pay for a step of a search. False where nothing is left."""
        self.left -= cost if self.left > self.kept else 0
        return self.left > self.kept

    def take_pass(self, cost: int) -> bool:
        """Pay for a pass. False where nothing is left."""
        self.left, self.kept = self.left - cost, self.kept - cost
        return self.kept > 0


MOST_TOKENS, MOST_PARTS = 24_000, 7_000  # of a kernel, so that its derivation takes a second at most
LOOP, FUNCTION = 8, 10  # parts that take as long as a loop, or the adjoint of a function, without what is in it
TOO_LONG = (
    "up to here the kernel, with the functions that it calls written out, has more than {:,} {}; write a loop in "
    "place of repeated lines and calls, or divide it into kernels that are launched one after the other."
)


def lengthen(tokens: TokenStream, body: int, call: Place | None = None) -> None:
    """Count the tokens of the kernel, or of a function in place of its call. Raises NotDifferentiable at too many."""
    tokens.length += tokens.matching(body) - body
    if tokens.length > MOST_TOKENS:
        place = call or tokens.tokens[body + MOST_TOKENS].place
        raise tokens.error(place, TOO_LONG.format(MOST_TOKENS, "tokens"))


def check_length(tokens: TokenStream, kernel: ast.Function, functions: Iterable[ast.Function]) -> None:
    """Count the statements, names, numbers and operators of a kernel. Raises NotDifferentiable at too many."""
    count = 0
    for f in (*functions, kernel):
        count, place = count + FUNCTION * (f is not kernel), f.place
        for s in flatten(f.body):
            place = s.place if s.place.line else place
            count += 1 + LOOP * isinstance(s, ast.For) + sum(1 for e in own_expressions(s) for _ in walk(e))
            if count > MOST_PARTS:
                raise tokens.error(place, TOO_LONG.format(MOST_PARTS, "statements, names, numbers and operators"))


def inline(e: Expr, values: Mapping[str, Expr], budget: Budget | None = None) -> Expr:
    """The expression with variables replaced by their values, and the variables in these too, as far as that is paid.

    It grows with each: by `int b = a + t[a], c = b + t[b];` c is a four times.
    """
    allowed = budget or Budget()

    def value(x: Expr) -> Expr | None:
        known = isinstance(x, ast.Name) and x.name in values and allowed.take(10)
        return replace_parts(values[x.name], value) if known else None  # type: ignore[union-attr]

    return e if values.keys().isdisjoint(e.names) else replace_parts(e, value)


def names_behind(expressions: Iterable[Expr], values: Mapping[str, Expr]) -> set[str]:
    """The names in expressions, and those in the values of these."""
    found, left = set[str](), list(names_in(expressions))
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += values[name].names if name in values else ()
    return found


def thread_axis(values: Mapping[str, Expr], e: Expr) -> str | None:
    """x, y or z for threadIdx.x, .y or .z, or for a variable with that value; None for other expressions."""
    if isinstance(e, ast.Name) and e.name.startswith("threadIdx."):
        return e.name[-1]
    return thread_axis(values, values[e.name]) if isinstance(e, ast.Name) and e.name in values else None


# --- the flow of derivatives ---


def derivative_sources(e: Expr) -> set[str]:
    """The variables and arrays by which the derivative of an expression may differ from 0."""
    if not is_float(e.type):
        return set()
    match e:
        case ast.Name():
            return {e.name}
        case ast.Index():
            return {e.array}
        case ast.Call():
            name = base_name(e.function)
            constant = name in TESTS or DERIVATIVES.get(name) == ""
            parts = () if constant else tuple(a for n, a in enumerate(e.arguments) if n not in e.inactive)
        case _:
            parts = (e.yes, e.no) if isinstance(e, ast.Ternary) else children(e)
    return set().union(*map(derivative_sources, parts))


def flow_edges(function: ast.Function) -> Iterator[tuple[set[str], str]]:
    """For each assignment, the names from which a derivative flows and the name to which it flows."""
    for s in flatten(function.body):
        if isinstance(s, ast.Assign | ast.AtomicAdd) and is_float(s.target.type):
            yield derivative_sources(s.value), target_name(s.target)
        elif isinstance(s, ast.Declare) and is_float(s.type):
            values = [s.value] if s.value is not None else s.values or ()
            yield set().union(*map(derivative_sources, values)), s.name


def reachable(function: ast.Function, start: Iterable[str], backward: bool = False) -> set[str]:
    """The names to which derivatives flow from these, or from which they flow to these."""
    found = set(start)
    ways: dict[str, set[str]] = {}
    for sources, target in flow_edges(function):
        for source in sources:
            origin, end = (target, source) if backward else (source, target)
            ways.setdefault(origin, set()).add(end)
    left = list(found)
    while left:
        new = ways.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def outputs(function: ast.Function) -> list[str]:
    """The floating-point arrays that a kernel writes, in the order of its parameters."""
    changed = {target_name(s.target) for s in flatten(function.body) if isinstance(s, ast.Assign | ast.AtomicAdd)}
    return [p.name for p in function.params if p.pointer and p.name in changed and is_float(p.type)]


def active(kernel: ast.Function, wrt: Iterable[str]) -> set[str]:
    """The variables of a kernel that carry derivatives from `wrt` to an output."""
    ends = outputs(kernel)
    return (reachable(kernel, wrt) & reachable(kernel, ends, backward=True)) | set(ends)


def called(kernel: ast.Function, functions: Mapping[str, ast.Function]) -> dict[str, ast.Function]:
    """The device functions that the kernel reaches, callees first: a function is defined ahead of its callers."""
    calls = {name: _calls(f, functions) for name, f in functions.items()}
    reached, left = set[str](), _calls(kernel, functions)
    while left - reached:
        reached |= left
        left = set().union(*(calls[name] for name in reached))
    return {name: function for name, function in functions.items() if name in reached}


def _calls(f: ast.Function, functions: Mapping[str, ast.Function]) -> set[str]:
    expressions = (e for s in flatten(f.body) for e in own_expressions(s))
    return {x.function for e in expressions for x in walk(e) if isinstance(x, ast.Call) and x.function in functions}


def inactive_parameters(function: ast.Function) -> frozenset[int]:
    """The parameters of a device function, by number, by which the derivative of its value is 0.

    All those of a function called detach, which stops gradients as PyTorch's detach does.
    """
    if function.name == "detach":
        return frozenset(range(len(function.params)))
    returned = [s.value for s in flatten(function.body) if isinstance(s, ast.Jump) and s.value is not None]
    live = reachable(function, set().union(*map(derivative_sources, returned)), backward=True)
    return frozenset(n for n, p in enumerate(function.params) if not is_float(p.type) or p.name not in live)
