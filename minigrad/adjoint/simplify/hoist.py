"""Loop optimizations: sums, branches and loads of output gradients leave a loop; warps share a loop's sums."""

from collections.abc import Callable, Container, Mapping
from dataclasses import replace

from minigrad.adjoint.analyse.trip_counts import count, evaluate
from minigrad.adjoint.language import ast, dataflow
from minigrad.adjoint.language.ast import Expr, Place, Stmt, Target, children, walk
from minigrad.adjoint.language.dataflow import accesses, declared, is_sum, names_in, names_used, target_name, written
from minigrad.adjoint.language.rewrite import ZERO, bodies, comparison, count_up, flatten, guarded_bodies


def hoist_sums(
    s: ast.For, arrays: Mapping[str, bool], fresh: Callable[[str], str], values: Mapping[str, int]
) -> list[Stmt]:
    """`for (...) { d_x[i] += e; }` becomes a sum in a variable and, after the loop, one `d_x[i] += sum;`.

    arrays: gradients, True for shared ones. values: of macros, for the trip count.
    """
    changed, read = written([s]), dataflow.used_outside_sums([s])
    sums: dict[Target, list[ast.Assign]] = {}
    for t in flatten([s]):
        if is_sum(t) and target_name(t.target) in arrays:
            sums.setdefault(t.target, []).append(t)
    before: list[Stmt] = []
    after: list[Stmt] = []
    header = count(s)
    runs = header is not None and header.runs(values)
    for target, parts in sums.items():
        name = target_name(target)
        if names_in(children(target)) & changed or name in read or (arrays[name] and dataflow.has_barrier([s])):
            continue
        total = ast.Name(fresh(f"{name}_sum"), target.type)
        before.append(ast.Declare(total.name, total.type, value=ZERO, place=s.place))
        add = ast.Assign(target, "+=", total, parts[0].place, owned=parts[0].owned)
        paths: list[list[Expr] | None] = [_path(s.body, part, changed) for part in parts] if runs else [None]
        after.append(_guarded(add, paths, s.place))
        for part in parts:
            part.target, part.owned = total, False
    return [*before, s, *after]


def _path(body: list[Stmt], s: Stmt, changed: set[str]) -> list[Expr] | None:
    """The conditions around a statement; None where one of them changes, or the statement is in an inner loop."""
    for t in body:
        if t is s:
            return []
        for condition, side in guarded_bodies(t):
            if (path := _path(side, s, changed)) is not None:
                return None if condition.names & changed else [condition, *path]
    return None


def _guarded(add: ast.Assign, paths: list[list[Expr] | None], place: Place) -> Stmt:
    """A sum after a loop, under the condition of its parts in the loop: the element may not exist where none ran."""
    if [] in paths:
        return add
    if paths[0] is None or any(path != paths[0] for path in paths):
        return ast.If(comparison("!=", add.value, ZERO), [add], [], place)
    guarded: Stmt = add
    for condition in reversed(paths[0]):
        guarded = ast.If(condition, [guarded], [], add.place)
    return guarded


def share_over_warp(s: ast.For, uniform: set[str], fresh: Callable[[str], str]) -> list[Stmt]:
    """`for (j ...) { warp_add(&d_s[j], d); }` becomes one sum of d over the warp, whose threads split the iterations.

    uniform: names that are equal in all threads of a block.
    """
    comments, header = [t for t in s.body if isinstance(t, ast.Comment)], count(s)
    match [t for t in s.body if not isinstance(t, ast.Comment)]:
        case [ast.AtomicAdd(by="warp_add", target=ast.Index()) as add] if header and header.simple and header.exact:
            names = names_in((header.bound, *children(add.target))) - {header.var}
        case _:
            return [s]
    if add.value.names & written([s]) or not names <= uniform:
        return [s]
    turn, turns = ast.Name(fresh("turn"), "int"), ast.Name(fresh("turns"), "int")
    total, value = ast.Name(fresh("d_warp"), add.target.type), add.value
    if any(isinstance(x, ast.Index) for x in walk(value)) and not header.runs({}):
        value = ast.Ternary(header.some, value, ZERO, total.type)  # without an iteration nothing may be read
    summed = ast.Call("warp_total", (value, turn, turns), total.type)
    one = ast.AtomicAdd(add.target, total, add.place, add.text)
    loop = count_up(ast.Name(header.var, "int"), header.bound, [one], turn, turns, s.place)
    loop.condition = s.condition
    declared: list[Stmt] = [ast.Declare(turn.name, "int"), ast.Declare(turns.name, "int")]
    return [*declared, *comments, ast.Declare(total.name, total.type, value=summed, place=add.place), loop]


def unswitch(body: list[Stmt]) -> list[Stmt]:
    """`for (...) { if (c) { a } } if (c) { b }` becomes `if (c) { for (...) { a } b }`."""
    made: list[Stmt] = []
    for s in map(_hoist_branch, body):
        last = made[-1] if made else None
        if isinstance(last, ast.If) and isinstance(s, ast.If) and _can_merge(last, s):
            made[-1] = ast.If(last.condition, [*last.then, *s.then], [*last.orelse, *s.orelse], last.place)
        else:
            made.append(s)
    return made


def _hoist_branch(s: Stmt) -> Stmt:
    """The branch that is a loop's whole body, with the loop inside it; other statements as they are."""
    match s:
        case ast.For(body=[ast.If(orelse=[]) as inner]) if count(s) is not None and _can_move(inner):
            if not (inner.condition.names & written([s]) or dataflow.has_barrier([s])):
                return ast.If(inner.condition, [replace(s, body=inner.then)], [], inner.place)
    return s


def _can_merge(a: ast.If, b: ast.If) -> bool:
    """True where two branches test the same, the first does not change it, and no declaration of it hides a name."""
    first, own = [*a.then, *a.orelse], declared([*b.then, *b.orelse])
    separate = not declared(first) & (names_used([b]) | own) and not a.condition.names & written(first)
    return a.condition == b.condition and _can_move(a) and separate


def _can_move(s: ast.If) -> bool:
    """True where a condition can be tested anywhere: it reads variables alone, and has no division."""
    parts = walk(s.condition)
    return not any(isinstance(x, ast.Index | ast.Call) or (isinstance(x, ast.Binary) and x.op in "/%") for x in parts)


def hoist_loads(body: list[Stmt], constant: Container[str]) -> list[Stmt]:
    """Move `real d = d_y[i];` ahead of loops it does not depend on, so that a thread waits for memory only once.

    In `sum over j of s[j]; d = d_y[i]` the compiler leaves the load of d_y[i] after the loop, where no work is left to
    hide its latency. constant: arrays that no thread writes, which can be read as soon as the index is known.
    """
    if not any(isinstance(s, ast.For) for s in body):
        return body
    made, front = [list[Stmt]()], list[list[Stmt]]()  # the statements up to each loop and after the last; those moved
    since: dict[str, int] = {}  # the first loop ahead of which a name has the value that it has now
    for n, s in enumerate(body):
        loop = len(front)
        if isinstance(s, ast.Declare) and isinstance(s.value, ast.Index) and s.value.array in constant:
            loop = max((since.get(name, 0) for name in s.value.names), default=0)
        if loop < len(front):
            last = n + 1 == len(body) or body[n + 1].place != s.place
            comment = made[-1][-1]
            if last and isinstance(comment, ast.Comment) and comment.place == s.place:
                del made[-1][-1]
            front[loop] += [ast.Comment(f"adjoint of {s.place.words}, ahead of the loop", s.place), s]
        else:
            if isinstance(s, ast.For):
                made.append([])
                front.append([])
            made[-1].append(s)
            loop = len(front)
        since |= dict.fromkeys(written([s]), loop)
    return [s for here, moved in zip(made, [*front, []], strict=True) for s in (*here, *moved)]


MOST_UNROLLED = 150  # statements: about 16 KB of instructions of arithmetic in double precision
UNROLLED_TRIPS = 32  # compilers unroll a longer loop by a few iterations only


def keep_rolled(body: list[Stmt], values: Mapping[str, int]) -> None:
    """Ask the compiler not to unroll a loop to more code than the caches of instructions hold well.

    Where a loop counts an index into an array of the thread, only unrolling keeps that array in registers.
    """
    everything = flatten(body)
    local = {s.name for s in everything if isinstance(s, ast.Declare) and s.dims and not s.shared}
    trips = {id(s): _trips(s, values) for s in everything if isinstance(s, ast.For)}
    unrolled: dict[int, int] = {}  # the statements of each loop
    _count(body, trips, unrolled)
    for s in everything:
        if not isinstance(s, ast.For) or s.pragma or not 1 < trips[id(s)] <= UNROLLED_TRIPS:
            continue
        if unrolled[id(s)] < MOST_UNROLLED:
            continue
        changed, uses = written([s]), [x for t in flatten(s.body) for _, x in accesses(t)]
        if not any(isinstance(x, ast.Index) and x.array in local and names_in(x.indices) & changed for x in uses):
            s.pragma = "#pragma unroll 1"


def _trips(s: ast.For, values: Mapping[str, int]) -> int:
    """The trip count of a loop that the compiler knows; else 1."""
    header = count(s)
    return (evaluate(header.trips, values) or 1) if header and header.exact else 1


def _count(body: list[Stmt], trips: Mapping[int, int], unrolled: dict[int, int]) -> int:
    """The statements of a body with its loops unrolled; those of each loop, too, by its id."""
    found = 0
    for s in body:
        inside = sum(_count(inner, trips, unrolled) for inner in bodies(s)) * trips.get(id(s), 1)
        unrolled[id(s)] = inside
        found += inside + (not isinstance(s, ast.Comment | ast.For))
    return found
