"""The adjoint as a `.cu` file: the head of the kernel's own file, functions with their adjoints, the adjoint kernel."""

import re
from dataclasses import dataclass, replace

from minigrad.adjoint.decide.derived import AdjointLaunch, Derived
from minigrad.adjoint.decide.store_or_recompute import STORED
from minigrad.adjoint.language.ast import Declare, Do, Expr, Function, Name, Param, Stmt
from minigrad.adjoint.language.effects import mentioned, written
from minigrad.adjoint.language.expressions import Expressions
from minigrad.adjoint.language.file import Module
from minigrad.adjoint.language.lexer import tokenize
from minigrad.adjoint.language.printer import function, parameter
from minigrad.adjoint.language.rewrite import ONE, each
from minigrad.source import CUDA

THREAD = "(size_t)blockIdx.x * blockDim.x + threadIdx.x"
THREADS = "(size_t)gridDim.x * blockDim.x"
THREAD_3D = (
    "(((size_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * blockDim.x * blockDim.y * blockDim.z"
    " + (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x"
)
THREADS_3D = "(size_t)gridDim.x * gridDim.y * gridDim.z * blockDim.x * blockDim.y * blockDim.z"


@dataclass(frozen=True)
class Entry:
    """One kernel of the file, what it takes, in order, and the extents of its grid that are its own."""

    name: str
    params: tuple[Param, ...]
    extents: dict[str, Expr]


@dataclass(frozen=True)
class Assembled:
    """The text of the adjoint's file, and its kernels in the order of their launches."""

    text: str
    entries: tuple[Entry, ...]
    functions: tuple[str, ...]  # the texts of device functions, each with its adjoint

    @property
    def written(self) -> set[str]:
        """The parameters that a kernel writes."""
        return {p.name for entry in self.entries for p in entry.params if not p.const}

    @property
    def counted(self) -> bool:
        """Whether only the running kernel knows how long its tapes must be."""
        return any(p.name == "tape_slots" for entry in self.entries for p in entry.params)


def assemble(module: Module, derived: Derived) -> Assembled:
    """Put the file together."""
    functions = function_adjoints(module, derived)
    entries, kernels = [], []
    for launch in derived.launches:
        body = [*tape_columns(derived), *launch.body]
        name = "_".join(filter(None, [module.kernel.name, "adjoint", launch.of]))
        entries.append(Entry(name, tuple(parameters(module.kernel, derived, launch, body)), launch.extents))
        kernels.append(function(f'extern "C" __global__ void {name}', map(parameter, entries[-1].params), body))
    text = "\n".join([*functions, *kernels])
    tables = [t.text for t in module.tables if re.search(rf"\b{t.name}\b", text)]
    pieces = [
        *sums(text),
        "\n".join(module.tokens.head),
        "\n".join(tables),
        *functions,
    ]  # sums know no macro of it
    note = f"// The adjoint of {module.kernel.name}: gradients of its outputs in, gradients of its inputs added up."
    kernels[0] = f"{note}\n{kernels[0]}"
    return Assembled("\n\n".join([*filter(None, pieces), *kernels]) + "\n", tuple(entries), tuple(functions))


def sums(text: str) -> list[str]:
    """The functions by which a warp or a block adds up, of those that a text calls, and that these call."""
    known = (CUDA / "adjoint" / "sums.cuh").read_text().rstrip().split("\n\n")
    names = [re.findall(r"__device__ \w+ (\w+)", function)[0] for function in known]
    text += "warp_add(" if "block_add(" in text else ""
    return [function for name, function in zip(names, known, strict=True) if f"{name}(" in text]


def parameters(kernel: Function, derived: Derived, launch: AdjointLaunch, body: list[Stmt]) -> list[Param]:
    """What the body needs of the kernel's own parameters, the gradients, and tapes in global memory."""
    used, changed = mentioned(body), written(body)
    made = [p for p in kernel.params if p.name in used]
    made += [Param(name, "int", False, False) for name in launch.blocks if name in used]
    for name, gradient in derived.gradients.items():
        of = kernel.param(name)
        assert of is not None
        if gradient in used:
            made.append(Param(gradient, of.type, True, gradient not in changed))
    made += [Param(stride, "int", False, False) for stride in derived.strides.values() if stride in used]
    known = {t.name for t in derived.tapes} | used
    made += [p for p in tape_params(derived) if p.name in known]
    return [replace(p, restrict=p.pointer) for p in made]  # no two share memory, as the launch makes sure


def tape_params(derived: Derived) -> list[Param]:
    """The tapes in global memory; and of those whose length only the running kernel knows how long they are."""
    made = [Param(t.name, STORED.get(t.type, t.type), True, False) for t in derived.tapes if t.size is None]
    return [*made, Param("tape_slots", "int", False, False), Param("tape_needed", "int", True, False)]


def tape_columns(derived: Derived) -> list[Stmt]:
    """Which slot of a tape in global memory is this thread's."""
    if all(t.size is not None for t in derived.tapes):
        return []
    flat = all(derived.conditions.get(f"{d}.{a}") == ONE for d in ("blockDim", "gridDim") for a in "yz")
    texts = {"tape_thread": THREAD if flat else THREAD_3D, "tape_threads": THREADS if flat else THREADS_3D}
    values = {name: Expressions(tokenize(text, "tape")).expression() for name, text in texts.items()}
    return [Declare(name, "size_t", value=value) for name, value in values.items()]


def function_adjoints(module: Module, derived: Derived) -> list[str]:
    """The device functions, as they are, each with its adjoint where that is called.

    A tape of one in global memory becomes one of the kernel, which hands it over: it is read before the call ends.
    """
    texts: list[str] = []
    handed: dict[str, list[Param]] = {}
    for f in module.functions.values():
        if own := derived.functions.get(f.name):
            hand_over(own.body, handed)
            derived.tapes += [t for t in own.tapes if t.size is None]
            used = mentioned(own.body)
            memory = [Param(name, "size_t", False, False) for name in ("tape_thread", "tape_threads")]
            handed[f"{f.name}_adjoint"] = more = [p for p in (*tape_params(derived), *memory) if p.name in used]
            texts.append(f"{f.text}\n\n{function_text(own, more)}")
        else:
            texts.append(f.text)
    hand_over(derived.body, handed)
    return texts


def hand_over(body: list[Stmt], handed: dict[str, list[Param]]) -> None:
    """Hand the memory of tapes to the functions that need it."""
    for s in {id(s): s for s in each(body) if isinstance(s, Do)}.values():
        s.arguments += tuple(Name(p.name, p.type) for p in handed.get(s.function, ()))


def function_text(made: Derived, memory: list[Param]) -> str:
    """`__device__ void f_adjoint(x, d_y, d_x)`, and behind these the memory of its tapes."""
    of, result = made.facts.function, made.result
    assert result is not None
    sinks = [p for p in of.params if p.name in made.gradients]
    own = [parameter(p) for p in of.params]
    gradients = [f"{p.type}{'*' if p.pointer else '&'} {made.gradients[p.name]}" for p in sinks]
    params = [*own, f"{result.type} {made.seed}", *gradients, *map(parameter, memory)]
    return function(f"__device__ void {of.name}_adjoint", params, made.body)
