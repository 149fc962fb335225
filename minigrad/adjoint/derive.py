"""The driver: from the tree of a kernel to that of its adjoint.

parse (`language`) comes before and emit (`emit`) after; between them a kernel, and each device function that it calls,
is analysed, its storage decided, differentiated and simplified.
"""

from collections.abc import Sequence

from minigrad.adjoint.analyse.kernel import KernelFacts, Names, analyse
from minigrad.adjoint.decide.derived import AdjointLaunch, Derived
from minigrad.adjoint.decide.store_or_recompute import Plan, decide
from minigrad.adjoint.differentiate.rules import Gradients
from minigrad.adjoint.differentiate.sweep import Sweep
from minigrad.adjoint.language import dataflow
from minigrad.adjoint.language.ast import (
    Assign,
    Comment,
    Declare,
    Do,
    Function,
    Index,
    Jump,
    Name,
    Stmt,
    floating,
)
from minigrad.adjoint.language.control_flow import ends, structured
from minigrad.adjoint.language.effects import mentioned
from minigrad.adjoint.language.file import Module
from minigrad.adjoint.language.rewrite import ZERO, each
from minigrad.adjoint.passes import PASSES, Draft, Pass, finish, run


def derive(module: Module, wrt: Sequence[str], passes: Sequence[Pass] = PASSES) -> Derived:
    """The adjoint of the kernel of a parsed file, with those of the device functions that it calls.

    passes: PASSES, or those of them that are to be used. Raises Refused where a value it needs cannot be saved.
    """
    facts = analyse(module, wrt)
    if all(p.name != "seeds once" for p in passes):
        facts.final, facts.first = set(), set()
    plan = decide(facts, facts.flow)
    draft = differentiate(facts, plan, passes)
    simplify(draft, passes)
    derive_functions(module, draft.derived, passes)
    return draft.derived


def differentiate(facts: KernelFacts, plan: Plan, passes: Sequence[Pass]) -> Draft:
    """Both sweeps of a kernel, with the gradients that they add up in memory."""
    gradients, params = Gradients(facts.names), facts.function.params
    active = {p.name: gradients[p.name] for p in params if p.name in facts.active}
    scalars = [p for p in params if p.name in facts.active and not p.pointer]
    totals = {p.name: active[p.name] for p in scalars}
    gradients |= {name: facts.names.fresh(f"{total}_own") for name, total in totals.items()}
    sweep = Sweep(facts, plan, gradients)
    own: list[Stmt] = [Declare(gradients[p.name], p.type, value=ZERO) for p in scalars]
    add: list[Stmt] = []
    for p in scalars:
        add.append(Comment(f"the parameter {p.name} is shared by all threads"))
        add.append(Assign(Index(totals[p.name], (ZERO,), p.type), "+=", Name(gradients[p.name], p.type)))
    body = [*own, *sweep.both(facts.flow), *add]
    derived = Derived(facts, active, sweep.saved.registers, plan.fills)
    results = {*active.values(), "tape_needed"}
    draft = Draft(derived, body, sweep.saved, results, gradients, {p.name for p in passes}, totals)
    draft.sinks = {gradients[d.name]: True for d in draft.shared} | dict.fromkeys(totals.values(), False)
    draft.sinks |= {d: False for name, d in active.items() if name not in totals}
    outputs = set(dataflow.outputs(facts.function))
    draft.strides = {d: facts.names.fresh(f"{d}_stride") for name, d in active.items() if name not in outputs}
    return draft


def simplify(draft: Draft, passes: Sequence[Pass]) -> None:
    """The passes, each where it is required or switched on."""
    launch, kernel = AdjointLaunch(draft.sweeps), draft.facts.function is draft.facts.module.kernel
    if run(draft, launch, [p for p in PASSES if p.required or (p in passes and (kernel or p.functions))]):
        finish(draft, launch)


def derive_functions(module: Module, derived: Derived, passes: Sequence[Pass]) -> None:
    """The adjoints of the device functions that an adjoint calls, callers first: they tell which others are called."""
    called = {s.function for s in each(derived.body) if isinstance(s, Do)}
    for f in reversed(module.functions.values()):
        if f"{f.name}_adjoint" in called:
            made = derive_function(module, f, passes)
            derived.functions[f.name] = made
            derived.never |= {t.name: "it is a function's" for t in made.tapes}
            called |= {s.function for s in each(made.body) if isinstance(s, Do)}
            check_fresh(module, f, mentioned(made.body), derived.body)


def derive_function(module: Module, function: Function, passes: Sequence[Pass]) -> Derived:
    """The adjoint of a device function: takes the gradient of its value, adds to those of its parameters."""
    taken = {*function.declared, *(p.name for p in function.params), *module.functions, *module.tokens.macros}
    result = Name(next(n for n in ("y", "result", "returned") if n not in taken), function.returns)
    if not ends(function.body):
        why = f"{function.name} does not return a {function.returns} on every way; end it with a return."
        raise module.refuse(function.place, why)
    flow = structured(function.body, ("return",), lambda jump: _assigned(result, jump))
    made = Declare(result.name, result.type)
    of = Function(function.name, "void", function.params, [made, *flow], function.place, function.text)
    of.declared = {**function.declared, result.name: made}
    floats = [p.name for p in function.params if floating(p.type)]
    active = dataflow.reached(of, floats) & dataflow.reached(of, [result.name], backward=True)
    facts = KernelFacts(module, of, active | {result.name}, flow, Names({*of.declared, *module.tokens.words}))
    plan, gradients = decide(facts, flow), Gradients(facts.names)
    own = {p.name: gradients[p.name] for p in function.params if p.name in active}
    sweep, seed = Sweep(facts, plan, gradients), gradients[result.name]
    body = [Declare(result.name, result.type, value=ZERO), *sweep.both(flow)]
    derived = Derived(facts, own, sweep.saved.registers, [], result=result, seed=seed)
    draft = Draft(derived, body, sweep.saved, {"tape_needed", *own.values()}, gradients, {p.name for p in passes})
    draft.sinks = {own[p.name]: False for p in function.params if p.pointer and p.name in active}
    simplify(draft, passes)
    return derived


def _assigned(result: Name, jump: Jump) -> list[Stmt]:
    """`result = v` for `return v`."""
    return [Assign(result, "=", jump.value, jump.place, jump.text)] if jump.value is not None else []


def check_fresh(module: Module, f: Function, read: set[str], body: list[Stmt]) -> None:
    """Raise Refused where the adjoint of a function reads an array that has been overwritten since its call."""
    for s in each(body):
        if isinstance(s, Do) and s.function == f"{f.name}_adjoint" and (stale := read & set(s.stale)):
            array = min(s.stale[min(stale)])
            why = f"{array} is overwritten after {f.name} has read it, and the adjoint of {f.name} reads it again; "
            raise module.refuse(s.place, f"{why}hand over its elements as numbers, or write the body of {f.name} here.")
