"""Activity: the parameters to differentiate by default, and the values that decide on control flow and indices."""

from collections.abc import Iterable, Sequence
from typing import Any

from minigrad.adjoint.frontend.file import KernelFile
from minigrad.adjoint.language import ast, dataflow
from minigrad.adjoint.language.ast import JUMPS, Expr, Stmt, is_float, own_name, walk
from minigrad.adjoint.language.control_flow import leaves, structured
from minigrad.adjoint.language.rewrite import bodies, flatten, own_expressions, with_header
from minigrad.errors import short


def chosen(file: KernelFile, wrt: Any) -> tuple[str, ...]:
    """The parameters that `wrt` names, each of which must be floating-point; `default` where it names none."""
    kernel = file.kernel
    if not dataflow.outputs(kernel):
        raise file.error(kernel.place, f"{kernel.name} writes to no floating-point array, so it has no gradient.")
    floats = list(dict.fromkeys(own_name(p.name) for p in kernel.params if is_float(p.type) and not by_value(p)))
    names = default(file) if wrt is None else [wrt] if isinstance(wrt, str) else wrt
    if not isinstance(names, Sequence):
        raise TypeError(f"wrt takes the names of parameters, such as ['{floats[0]}']; got {short(wrt)}.")
    members = [p.name for p in kernel.params if is_float(p.type) and by_value(p)]
    none = "is a member of a struct that is passed by value, which has no gradient; make it a parameter"
    for n, name in enumerate(names):
        if name in members:
            raise ValueError(f"wrt: {name} {none}.")
        if name not in floats:
            why = f"has no floating-point parameter {name!r}; it has {', '.join(floats)}."
            raise ValueError(f"wrt: {kernel.name} {why}")
        if name in names[:n]:
            raise ValueError(f"wrt names {name!r} twice; each parameter has one gradient.")
    if not names:
        why = "no parameter of it reaches an output other than by comparisons, rounding and whole numbers"
        why = why if wrt is None else "wrt is empty"
        why += f" ({members[0]} {none})" if members and wrt is None else ""
        raise ValueError(f"{kernel.name}: {why}, so there is no gradient; it has {', '.join(floats)}.")
    return tuple(names)


def default(file: KernelFile) -> list[str]:
    """All floating-point parameters whose initial values can reach an output.

    An output that the kernel does not read passes on the elements that it does not store. These count where the data
    decide which elements they are, not where a test of indices such as `i < n` does.
    """
    kernel = file.kernel
    read = set().union(*(sources for sources, _ in dataflow.flow_edges(kernel)))
    stores = [s for s in flatten(kernel.body) if isinstance(s, ast.Assign | ast.AtomicAdd)]
    changed = {dataflow.target_name(s.target) for s in stores if isinstance(s, ast.AtomicAdd) or s.op != "="}
    ends = dataflow.outputs(kernel)
    data = dependents(kernel.body, (p.name for p in kernel.params if p.pointer or is_float(p.type)))
    left = set(ends) - _stored(structured(kernel.body, ("return",)), data)
    useful = dataflow.reachable(kernel, ends, backward=True) & (read | changed | left)
    found = [p for p in kernel.params if p.name in useful and is_float(p.type) and not by_value(p)]
    return list(dict.fromkeys(own_name(p.name) for p in found))


def by_value(p: ast.Parameter) -> bool:
    """True for a number in a struct that is passed by value: it has no gradient."""
    return "." in p.name.partition("[")[0]


def numbers(kernel: ast.Function, wrt: Iterable[str]) -> list[str]:
    """The numbers in parameters: of an array of structs those of all members."""
    names = set(wrt)
    return [p.name for p in kernel.params if own_name(p.name) in names and is_float(p.type)]


def _stored(body: list[Stmt], data: set[str]) -> set[str]:
    """The arrays into whose elements statements store independently of the data."""
    found: set[str] = set()
    for s in body:
        free = not dataflow.names_in(own_expressions(s)) & data
        match s:
            case ast.Assign(target=ast.Index(), op="=") if not dataflow.names_in(s.target.indices) & data:  # type: ignore[union-attr]
                found.add(dataflow.target_name(s.target))
            case ast.If():
                then, orelse = (_stored(side, data) for side in bodies(s))
                found |= then | orelse if free else then & orelse
                if not free and leaves([s], JUMPS):
                    return found
            case ast.For() if free:
                found |= _stored(s.body, data)
    return found


def dependents(body: list[Stmt], start: Iterable[str]) -> set[str]:
    """The names whose values depend on these: through an assignment, or a condition that controls one."""
    found, size = set(start), -1
    while size != (size := len(found)):
        _spread(body, found, None)
    return found


def _spread(body: list[Stmt], found: set[str], own: set[str] | None) -> None:
    """Add names assigned such values, or assigned under a condition on such values unless they are among `own`."""
    for s in body:
        decided = isinstance(s, ast.If | ast.For) and bool(dataflow.names_in(own_expressions(s)) & found)
        within = dataflow.declared([s]) if decided else own
        for one in with_header(s):
            if dataflow.own_reads(one) & found:
                found |= dataflow.own_writes(one)
            elif within is not None:
                found |= dataflow.own_writes(one) - within
        for inner in bodies(s):
            _spread(inner, found, within)


def floats_decide(kernel: ast.Function) -> bool:
    """True if floating-point data decide which elements of written arrays a kernel touches, and when.

    Where they do not, either all launches with the same integer arguments have races or none has.
    """
    data = dependents(kernel.body, (p.name for p in kernel.params if is_float(p.type)))
    watched = kernel.memory & dataflow.written(kernel.body)
    return any(_decides(s, data, watched) or _within(s, data, watched) for s in flatten(kernel.body))


def _decides(s: Stmt, data: set[str], watched: set[str]) -> bool:
    """True if a condition on data controls statements that touch a watched array, jump or wait at a barrier."""
    if not isinstance(s, ast.If | ast.For) or not dataflow.names_in(own_expressions(s)) & data:
        return False
    inside = [s] if isinstance(s, ast.For) else [*s.then, *s.orelse]
    waits = any(isinstance(t, ast.Jump | ast.Barrier) for t in flatten(inside))
    return waits or not watched.isdisjoint(dataflow.names_used(inside))


def _within(s: Stmt, data: set[str], watched: set[str]) -> bool:
    """True if data are part of an index of a watched array, or decide within an expression whether to read one."""
    target = (s.target,) if isinstance(s, ast.Assign | ast.AtomicAdd) else ()
    return any(_chosen(e, data, watched) for whole in (*target, *own_expressions(s)) for e in walk(whole))


def _chosen(e: Expr, data: set[str], watched: set[str]) -> bool:
    match e:
        case ast.Index():
            return e.array in watched and bool(dataflow.names_in(e.indices) & data)
        case ast.Call():
            return any(isinstance(a, ast.Name) and a.name in watched for a in e.arguments)  # the function may do either
        case ast.Ternary():
            return bool(e.condition.names & data and (e.yes.names | e.no.names) & watched)
        case ast.Binary(op="&&" | "||"):
            return bool(e.left.names & data and e.right.names & watched)
    return False


def check_clocks(file: KernelFile, active: set[str]) -> None:
    """Reject a value that has a derivative and depends on a clock, which the adjoint reads at another time."""
    body = file.kernel.body
    if not dataflow.read(body) & {*ast.CLOCKS}:
        return
    for s in flatten(body):
        if (clocks := dataflow.names_in(own_expressions(s)) & {*ast.CLOCKS}) and (
            timed := dependents(body, clocks) & active
        ):
            why = f"{min(timed)} depends on {min(clocks)}, and its adjoint runs at another time; leave the clock out."
            raise file.error(s.place, why)
    timed = dependents(body, ast.CLOCKS)
    for s in flatten(body):
        inside = [t for t in flatten([s]) if isinstance(t, ast.If) and t.condition.names & timed]
        kinds = {jump.kind for jump in flatten(inside) if isinstance(jump, ast.Jump)}
        if "return" in kinds or (kinds and isinstance(s, ast.For) and dataflow.written([s]) & active):
            raise file.error(s.place, "a jump depends on a clock, and the adjoint runs at another time; leave it out.")


def repeatable(body: list[Stmt], states: set[str], arrays: set[str]) -> bool:
    """True if an iteration can run from any values of `states`: it reads only elements that it has read before.

    So each element is read unconditionally, at an index that depends on no state; no array is passed to a function, and
    no integer is divided by a value that depends on a state.
    """
    unsure = dependents(body, states)
    found = {*dataflow.elements_read(body)}
    if found - _always_read(body) or {n for x in found for i in x.indices for n in i.names} & unsure:
        return False
    every = [x for s in flatten(body) for e in own_expressions(s) for x in walk(e)]
    if {n for x in every if isinstance(x, ast.Call) for n in dataflow.own_arrays(x)} & arrays:
        return False
    divisors = [x.right for x in every if isinstance(x, ast.Binary) and x.op in "/%" and not is_float(x.type)]
    return not any(d.names & unsure for d in divisors)


def _always_read(body: list[Stmt]) -> set[ast.Index]:
    """The elements that every iteration reads: those ahead of the first branch with a jump."""
    found: set[ast.Index] = set()
    for s in body:
        found |= {x for e in own_expressions(s) for x in dataflow.always_read(e)}
        if any(isinstance(t, ast.Jump) for t in flatten([s])):
            break
    return found
