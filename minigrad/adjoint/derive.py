"""The driver: it analyses a parsed kernel, plans its storage, differentiates, simplifies and emits it."""

from collections.abc import Sequence
from dataclasses import replace

from minigrad.adjoint.analyse import KernelFacts, Names, analyse
from minigrad.adjoint.decide import AdjointLaunch, Derived
from minigrad.adjoint.decide.store_or_recompute import StoragePlan, decide
from minigrad.adjoint.differentiate.rules import Gradients
from minigrad.adjoint.differentiate.sweep import Sweep
from minigrad.adjoint.emit.assemble import AdjointFile, assemble
from minigrad.adjoint.frontend.file import KernelFile
from minigrad.adjoint.language import ast, dataflow
from minigrad.adjoint.language.ast import Stmt, gradient_type, is_float
from minigrad.adjoint.language.control_flow import ends, structured
from minigrad.adjoint.language.dataflow import names_used
from minigrad.adjoint.language.rewrite import ZERO, flatten
from minigrad.adjoint.passes import PASSES, Draft, Pass, finish, run


def derive(file: KernelFile, wrt: Sequence[str], passes: Sequence[Pass] = PASSES) -> tuple[Derived, AdjointFile]:
    """The adjoint of the kernel of a parsed file as a tree, and as the text of its own file.

    passes: the passes to use, PASSES or some of them. Raises NotDifferentiable for a value that cannot be saved.
    """
    dataflow.check_length(file.tokens, file.kernel, file.functions.values())
    facts = analyse(file, wrt)
    if all(p.name != "seeds once" for p in passes):
        facts.final, facts.first = set(), set()
    plan = decide(facts, facts.flow)
    draft = differentiate(facts, plan, passes)
    simplify(draft, passes)
    derive_functions(file, draft.derived, passes)
    return draft.derived, assemble(file, draft.derived)


def differentiate(facts: KernelFacts, plan: StoragePlan, passes: Sequence[Pass]) -> Draft:
    """Both sweeps of a kernel, with the gradients that they add up in memory."""
    gradients, params = Gradients(facts.names), facts.function.params
    active = {p.name: gradients[p.name] for p in params if p.name in facts.active}
    scalars = [p for p in params if p.name in facts.active and not p.pointer]
    totals = {p.name: active[p.name] for p in scalars}
    gradients |= {name: facts.names.fresh(f"{total}_own") for name, total in totals.items()}
    sweep = Sweep(facts, plan, gradients)
    own: list[Stmt] = [ast.Declare(gradients[p.name], gradient_type(p.type), value=ZERO) for p in scalars]
    add: list[Stmt] = []
    for p in scalars:
        kind = gradient_type(p.type)
        total, own_sum = ast.Index(totals[p.name], (ZERO,), kind), ast.Name(gradients[p.name], kind)
        add += [ast.Comment(f"the parameter {p.name} is shared by all threads"), ast.Assign(total, "+=", own_sum)]
    body = [*own, *sweep.both(facts.flow), *add]
    derived = Derived(facts, active, sweep.saved.registers, plan.fills)
    results = {*active.values(), "tape_needed"}
    draft = Draft(derived, body, sweep.saved, results, gradients, {p.name for p in passes}, totals)
    draft.sinks = {gradients[d.name]: True for d in draft.shared} | dict.fromkeys(totals.values(), False)
    draft.sinks |= {d: False for name, d in active.items() if name not in totals}
    outputs = set(dataflow.outputs(facts.function))
    draft.strides = {d: facts.names.fresh(f"{d}_stride") for name, d in active.items()
                     if name not in outputs and "[" not in name}  # fmt: skip
    return draft


def simplify(draft: Draft, passes: Sequence[Pass]) -> None:
    """The passes, each where it is required or switched on."""
    launch, kernel = AdjointLaunch(draft.sweeps), draft.facts.function is draft.facts.file.kernel
    together = dataflow.has_shuffle(draft.facts.function.body) or dataflow.has_barrier(draft.facts.function.body, True)
    if together or draft.facts.returned:  # no pass may change which threads run a statement together
        passes = [p for p in passes if p.name not in ("gather", "split", "checkpoint", "unswitch")]
    if run(draft, launch, [p for p in PASSES if p.required or (p in passes and (kernel or p.functions))]):
        finish(draft, launch)


def derive_functions(file: KernelFile, derived: Derived, passes: Sequence[Pass]) -> None:
    """The adjoints of the device functions that an adjoint calls, callers first, as these call others."""
    called = {s.function for s in flatten(derived.body) if isinstance(s, ast.CallStmt)}
    for f in reversed(file.functions.values()):
        if f"{f.name}_adjoint" in called:
            made = derive_function(file, f, passes)
            derived.functions[f.name] = made
            derived.never |= {t.name: "the loop is inside a function" for t in made.tapes}
            called |= {s.function for s in flatten(made.body) if isinstance(s, ast.CallStmt)}
            check_unchanged(file, f, names_used(made.body), derived.body)


def derive_function(file: KernelFile, function: ast.Function, passes: Sequence[Pass]) -> Derived:
    """The adjoint of a device function: takes the gradient of its value, adds to those of its parameters."""
    taken = {*function.declared, *(p.name for p in function.params), *file.functions, *file.tokens.macros}
    result = ast.Name(next(n for n in ("y", "result", "returned") if n not in taken), function.returns)
    if not ends(function.body):
        why = f"{function.name} does not return a {function.returns} on every path; end it with a return."
        raise file.error(function.place, why)

    def assigned(jump: ast.Jump) -> list[Stmt]:
        return [] if jump.value is None else [ast.Assign(result, "=", jump.value, jump.place, jump.text)]

    flow = structured(function.body, ("return",), assigned)
    made = ast.Declare(result.name, result.type)
    of = replace(function, returns="void", body=[made, *flow], declared={**function.declared, result.name: made})
    floats = [p.name for p in function.params if is_float(p.type)]
    active = dataflow.reachable(of, floats) & dataflow.reachable(of, [result.name], backward=True)
    facts = KernelFacts(file, of, active | {result.name}, flow, Names({*of.declared, *file.tokens.words}))
    plan, gradients = decide(facts, flow), Gradients(facts.names)
    own = {p.name: gradients[p.name] for p in function.params if p.name in active}
    sweep, seed = Sweep(facts, plan, gradients), gradients[result.name]
    body = [ast.Declare(result.name, result.type, value=ZERO), *sweep.both(flow)]
    derived = Derived(facts, own, sweep.saved.registers, [], result=result, seed=seed)
    draft = Draft(derived, body, sweep.saved, {"tape_needed", *own.values()}, gradients, {p.name for p in passes})
    draft.sinks = {own[p.name]: False for p in function.params if p.pointer and p.name in active}
    simplify(draft, passes)
    return derived


def check_unchanged(file: KernelFile, f: ast.Function, read: set[str], body: list[Stmt]) -> None:
    """Reject a function whose adjoint reads an array that has been overwritten since the function was called."""
    for s in flatten(body):
        if isinstance(s, ast.CallStmt) and s.function == f"{f.name}_adjoint" and (stale := read & set(s.stale)):
            array = min(s.stale[min(stale)])
            why = f"{array} is overwritten after {f.name} has read it, and the adjoint of {f.name} reads it again; "
            raise file.error(s.place, f"{why}pass its elements as numbers, or write the body of {f.name} here.")
