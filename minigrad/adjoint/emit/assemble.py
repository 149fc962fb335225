"""The adjoint as a `.cu` file: the head of the kernel's own file, functions with their adjoints, the adjoint kernel."""

import re
from dataclasses import dataclass, replace

from minigrad.adjoint.decide.split import Launch
from minigrad.adjoint.decide.store_or_recompute import STORED
from minigrad.adjoint.derive import Derived, FunctionAdjoint
from minigrad.adjoint.language.ast import CallStmt, Declare, Expr, Function, Name, Parameter, Stmt
from minigrad.adjoint.language.dataflow import names_used, written
from minigrad.adjoint.language.expressions import parse_expression
from minigrad.adjoint.language.file import KernelFile
from minigrad.adjoint.language.printer import function, parameter
from minigrad.adjoint.language.rewrite import ONE, flatten
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
    params: tuple[Parameter, ...]
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


def assemble(file: KernelFile, derived: Derived) -> Assembled:
    """Put the file together."""
    functions = function_adjoints(file, derived)
    entries, kernels = [], []
    for launch in derived.launches:
        body = [*tape_columns(derived), *launch.body]
        name = "_".join(filter(None, [file.kernel.name, "adjoint", launch.of]))
        entries.append(Entry(name, tuple(parameters(file.kernel, derived, launch, body)), launch.extents))
        kernels.append(function(f'extern "C" __global__ void {name}', map(parameter, entries[-1].params), body))
    text = "\n".join([*functions, *kernels])
    tables = [t.text for t in file.tables if re.search(rf"\b{t.name}\b", text)]
    pieces = [
        *sums(text),
        "\n".join(file.tokens.head),
        "\n".join(tables),
        *functions,
    ]  # sums know no macro of it
    note = f"// The adjoint of {file.kernel.name}: gradients of its outputs in, gradients of its inputs added up."
    kernels[0] = f"{note}\n{kernels[0]}"
    return Assembled("\n\n".join([*filter(None, pieces), *kernels]) + "\n", tuple(entries), tuple(functions))


def sums(text: str) -> list[str]:
    """The functions by which a warp or a block adds up, of those that a text calls, and that these call."""
    known = (CUDA / "adjoint" / "sums.cuh").read_text().rstrip().split("\n\n")
    names = [re.findall(r"__device__ \w+ (\w+)", function)[0] for function in known]
    text += "warp_add(" if "block_add(" in text else ""
    return [function for name, function in zip(names, known, strict=True) if f"{name}(" in text]


def parameters(kernel: Function, derived: Derived, launch: Launch, body: list[Stmt]) -> list[Parameter]:
    """What the body needs of the kernel's own parameters, the gradients, and tapes in global memory."""
    used, changed = names_used(body), written(body)
    made = [p for p in kernel.params if p.name in used]
    made += [Parameter(name, "int", False, False) for name in launch.blocks if name in used]
    for name, gradient in derived.gradients.items():
        of = kernel.param(name)
        assert of is not None
        if gradient in used:
            made.append(Parameter(gradient, of.type, True, gradient not in changed))
    made += [Parameter(stride, "int", False, False) for stride in derived.strides.values() if stride in used]
    known = {t.name for t in derived.tapes} | used
    made += [p for p in tape_params(derived) if p.name in known]
    return [replace(p, restrict=p.pointer) for p in made]  # no two share memory, as the launch makes sure


def tape_params(derived: Derived) -> list[Parameter]:
    """The tapes in global memory; and of those whose length only the running kernel knows how long they are."""
    made = [Parameter(t.name, STORED.get(t.type, t.type), True, False) for t in derived.tapes if t.size is None]
    return [*made, Parameter("tape_slots", "int", False, False), Parameter("tape_needed", "int", True, False)]


def tape_columns(derived: Derived) -> list[Stmt]:
    """Which slot of a tape in global memory is this thread's."""
    if all(t.size is not None for t in derived.tapes):
        return []
    flat = all(derived.conditions.get(f"{d}.{a}") == ONE for d in ("blockDim", "gridDim") for a in "yz")
    texts = {"tape_thread": THREAD if flat else THREAD_3D, "tape_threads": THREADS if flat else THREADS_3D}
    return [Declare(name, "size_t", value=parse_expression(text)) for name, text in texts.items()]


def function_adjoints(file: KernelFile, derived: Derived) -> list[str]:
    """The device functions, as they are, each with its adjoint where that is called.

    A tape of one in global memory becomes one of the kernel, which hands it over: it is read before the call ends.
    """
    called = {s.function for s in flatten(derived.body) if isinstance(s, CallStmt)}
    found: dict[str, tuple[FunctionAdjoint, Derived]] = {}
    for f in reversed(file.functions.values()):  # callers first, so that what they call is known
        if f"{f.name}_adjoint" in called:
            made = FunctionAdjoint(file, f)
            found[f.name] = made, made.derive()
            called |= {s.function for s in flatten(found[f.name][1].body) if isinstance(s, CallStmt)}
            check_fresh(file, f, names_used(found[f.name][1].body), derived.body)
    texts: list[str] = []
    handed: dict[str, list[Parameter]] = {}
    for f in file.functions.values():
        if f.name in found:
            made, own = found[f.name]
            hand_over(own.body, handed)
            derived.tapes += [t for t in own.tapes if t.size is None]
            used = names_used(own.body)
            memory = [Parameter(name, "size_t", False, False) for name in ("tape_thread", "tape_threads")]
            handed[f"{f.name}_adjoint"] = more = [p for p in (*tape_params(derived), *memory) if p.name in used]
            texts.append(f"{f.text}\n\n{function_text(made, own, more)}")
        else:
            texts.append(f.text)
    hand_over(derived.body, handed)
    return texts


def hand_over(body: list[Stmt], handed: dict[str, list[Parameter]]) -> None:
    """Hand the memory of tapes to the functions that need it."""
    for s in {id(s): s for s in flatten(body) if isinstance(s, CallStmt)}.values():
        s.arguments += tuple(Name(p.name, p.type) for p in handed.get(s.function, ()))


def check_fresh(file: KernelFile, f: Function, read: set[str], body: list[Stmt]) -> None:
    """Raise Refused where the adjoint of a function reads an array that has been overwritten since its call."""
    for s in flatten(body):
        if isinstance(s, CallStmt) and s.function == f"{f.name}_adjoint" and (stale := read & set(s.stale)):
            array = min(s.stale[min(stale)])
            why = f"{array} is overwritten after {f.name} has read it, and the adjoint of {f.name} reads it again; "
            raise file.error(s.place, f"{why}hand over its elements as numbers, or write the body of {f.name} here.")


def function_text(made: FunctionAdjoint, found: Derived, memory: list[Parameter]) -> str:
    """`__device__ void f_adjoint(x, d_y, d_x)`, and behind these the memory of its tapes."""
    sinks = [p for p in made.of.params if p.name in found.gradients]
    own = [parameter(p) for p in made.of.params]
    gradients = [f"{p.type}{'*' if p.pointer else '&'} {found.gradients[p.name]}" for p in sinks]
    params = [*own, f"{made.result.type} {made.seed}", *gradients, *map(parameter, memory)]
    return function(f"__device__ void {made.of.name}_adjoint", params, found.body)
