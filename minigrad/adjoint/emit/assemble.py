"""The adjoint as a `.cu` file: the head of the kernel's own file, functions with their adjoints, adjoint kernels."""

import re
from dataclasses import dataclass, replace

from minigrad.adjoint.decide import AdjointLaunch, Derived
from minigrad.adjoint.decide.store_or_recompute import STORED
from minigrad.adjoint.frontend.expressions import parse_expression
from minigrad.adjoint.frontend.file import KernelFile
from minigrad.adjoint.language.ast import (
    CallStmt,
    Declare,
    Expr,
    Function,
    Name,
    Parameter,
    Stmt,
    gradient_type,
    own_name,
    unused_name,
)
from minigrad.adjoint.language.dataflow import names_used, written
from minigrad.adjoint.language.printer import function, parameter
from minigrad.adjoint.language.rewrite import ONE, flatten
from minigrad.scan import bare, blank, items, matching, split
from minigrad.source import CUDA

THREAD = "(size_t)blockIdx.x * blockDim.x + threadIdx.x"
THREADS = "(size_t)gridDim.x * blockDim.x"
THREAD_3D = (
    "(((size_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * blockDim.x * blockDim.y * blockDim.z"
    " + (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x"
)
EXTENT = 256  # of a shared array whose extent the launch gives, where nobody gives it
THREADS_3D = "(size_t)gridDim.x * gridDim.y * gridDim.z * blockDim.x * blockDim.y * blockDim.z"
HOST_HEADER = re.compile(
    r"#\s*include\s*[<\"](?:c?(?:stdio|stdlib|string|time|assert)(?:\.h)?|(?:io|f|s|string)stream|iomanip|chrono|vector"
    r"|map|set|memory|algorithm|random|sys/time\.h|unistd\.h)[>\"]"
)


ACCESS = re.compile(r"\s*\b(public|private|protected)\s*[:;](?!:)")
LIMITS = {"cfloat": "(FLT|DBL)_(MAX|MIN|EPSILON)", "climits": "U?INT_(MAX|MIN)"}  # constants of headers


@dataclass(frozen=True)
class Entry:
    """A kernel of the adjoint's file: its parameters, and the extents of its grid that differ from the primal's."""

    name: str
    params: tuple[Parameter, ...]
    extents: dict[str, Expr]


@dataclass(frozen=True)
class AdjointFile:
    """The text of the adjoint, and its kernels in the order of their launches."""

    text: str
    entries: tuple[Entry, ...]
    functions: tuple[str, ...]  # device functions, each with its adjoint


def assemble(file: KernelFile, derived: Derived) -> AdjointFile:
    """The adjoint of the kernel of a file."""
    named = function_adjoints(file, derived)
    entries, kernels = list[Entry](), list[str]()
    for launch in derived.launches:
        body = [*tape_columns(derived), *launch.body]
        name = "_".join(filter(None, [file.kernel.name, "adjoint", launch.of]))
        name = unused_name(name, {e.name for e in entries})  # one gradient may be added up by two launches
        entries.append(Entry(name, tuple(parameters(file.kernel, derived, launch, body)), launch.extents))
        kernels.append(function(f'extern "C" __global__ void {name}', map(parameter, entries[-1].params), body))
    note = f"// The adjoint of {file.kernel.name}: gradients of its outputs in, gradients of its inputs added up."
    return with_head(file, named, entries, [f"{note}\n{kernels[0]}", *kernels[1:]])


def reading(file: KernelFile) -> AdjointFile:
    """The kernel of a file, with its functions, as the parser has read it."""
    named = [(f.name, as_read(f)) for f in file.functions.values() if f.text in file.text]
    kernel, used = file.kernel, names_used(file.kernel.body)
    entry = Entry(f"{kernel.name}_read", tuple(merged(kernel, [p for p in kernel.params if p.name in used], {})), {})
    text = function(f'extern "C" __global__ void {entry.name}', map(parameter, entry.params), kernel.body)
    return with_head(file, named, [entry], [text])


def with_head(file: KernelFile, named: list[tuple[str, str]], entries: list[Entry], kernels: list[str]) -> AdjointFile:
    """The kernels behind what they need of the head of the file, and behind those of the named functions they call."""
    words = words_of(*kernels)
    functions = _reached(named, words)
    text = "\n".join([*functions, *kernels])
    named = [(t.name, t.text) for t in file.tables]
    tables = [as_numbers(file, t) for t in _reached(named, set(re.findall(r"\w+", text)) if named else set())]
    words |= words_of(*functions, *tables)
    order = {data(own): file.tokens.text.index(own) for own in file.definitions.values()}
    named = [(name, data(own)) for name, own in file.definitions.items()]
    types = [as_numbers(file, own) for own in sorted(_reached(named, words), key=order.__getitem__)]
    extents = [f"#ifndef {m}\n#define {m} {EXTENT}\n#endif" for m in file.dynamic.values() if m in text]
    tables = [t for t in [*types, *tables] if t]
    if name := min(file.tokens.redefined & set(re.findall(r"\w+", "\n".join(tables))), default=""):
        why = f"{name} has several meanings in this file, and constants or types are made of it; give each a name."
        raise file.error(file.kernel.place, why)
    lines = needed_lines(file.tokens.head, words | words_of(*extents, *types))
    limits = [f"#include <{header}>" for header, own in LIMITS.items() if any(re.fullmatch(own, w) for w in words)]
    lines = [*(line for line in limits if line not in lines), *lines]
    if any(re.match(r'#\s*include\s*"', line) for line in lines):  # the kernel's own namespaces may go on there
        paths = ["::".join(file.space[: n + 1]) for n in range(len(file.space))]
        lines += [f"namespace {path} {{}} using namespace {path};" for path in paths]
    head = [*sum_functions(text), "\n".join([*lines, *extents]), "\n".join(tables)]  # our macros come first
    parts = [*head, *functions, *kernels]
    return AdjointFile("\n\n".join(filter(None, parts)) + "\n", tuple(entries), tuple(functions))


def data(text: str) -> str:
    """The definition of a struct without its functions and without what its values name, with all of it public.

    Where it has a constructor or the like, or hides members, C++ may place what extends it in its last bytes: then it
    gets an empty constructor.
    """
    code = blank(text)
    head = re.match(r"(?:template\s*<[^{]*>\s*)?(?:typedef\s+)?(struct|class)\b([^{;]*)\{", code)
    if not head:
        return text
    access = "private" if head[1] == "class" else "public"
    named = re.findall(r"\w+", re.sub(r"<.*|:(?!:).*|\bfinal\b", "", bare(head[2]), flags=re.S))
    name, stop, made, opened = named[-1] if named else "", matching(code, head.end() - 1, "{}"), list[str](), False
    found = items(ACCESS.sub(lambda label: label[0].replace(":", ";"), code[head.end() : stop]))
    for item in found:
        part, own = (each[head.end() + item.start : head.end() + item.stop] for each in (text, code))
        plain = re.sub(r"\boperator\s*[^\w\s(]+", "operator", bare(own))
        if label := ACCESS.match(own):
            access = label[1]
        elif "(" in plain.partition("=")[0] and not re.match(r"static_assert|using|typedef", plain):
            like = re.match(rf"[^(]*(?:\b{name}\s*\(|~)", plain) or re.search(
                rf"\boperator\s*=\s*\([^)]*\b{name}\b", own
            )
            opened |= bool(like) and "default" not in plain
        else:
            opened |= access != "public"
            if re.search(r"[={][^;]*[A-Za-z_]", own) and not re.match(r"static|using|typedef|enum|struct|union", own):
                part = (
                    ", ".join(re.sub(r"\s*(?:=.*|\{.*\})$", "{}", each, flags=re.S) for each in split(own[:-1])) + ";"
                )
            made.append(part)
    if not opened and "".join(made) == "".join(text[head.end() + i.start : head.end() + i.stop] for i in found):
        return text
    made = [f"__device__ {name}() {{}}"] * opened + made
    kept = re.sub(r"\bclass(?=[^<>]*$)", "struct", re.sub(r"\b(?:private|protected)\b", "public", text[: head.end()]))
    return "".join([kept, *(f"\n    {each}" for each in made), "\n", text[stop:]])


def as_numbers(file: KernelFile, text: str) -> str:
    """A definition outside of namespaces, in which enums are whole numbers, as their values are in the adjoint."""
    for name, enum in file.enums.items():
        if text == file.definitions.get(name):
            values = ", ".join(f"{own} = {value}" for own, value in enum.values.items())
            return f"{'' if enum.scoped else f'enum {{ {values} }}; '}typedef {enum.type} {name};"
        text = re.sub(rf"\b(?:\w+::)*{name}::(\w+)", lambda found: enum.values.get(found[1], found[0]), text)  # noqa: B023
    return re.sub(rf"\b(?:{'|'.join(file.namespaces)})::", "", text) if file.namespaces else text


def needed_lines(head: list[str], words: set[str]) -> list[str]:
    """The directives without the host's headers and without macros that neither the text's words nor these lines have.

    A macro ahead of a file that is included may be used there.
    """
    head = [line for line in head if "std" in words or not HOST_HEADER.match(line)]
    last = max((n for n, line in enumerate(head) if re.match(r'#\s*include\s*"', line)), default=-1)
    blocks: list[tuple[str, str]] = []  # the macro that each defines, and its lines
    for n, line in enumerate(head):
        defined = re.match(r"#\s*define\s+(\w+)", line) if n > last else None
        blocks.append((defined[1] if defined else "", line))
        if line == "#endif" and len(blocks) > 2 and (name := blocks[-2][0]) and blocks[-3][1] == f"#ifndef {name}":
            blocks[-3:] = [(name, "\n".join(own for _, own in blocks[-3:]))]
    used = _reached(blocks, words | words_of(*(own for name, own in blocks if not name)))
    return [own for name, own in blocks if not name or own in used]


def words_of(*texts: str) -> set[str]:
    return {word for text in texts for word in re.findall(r"\w+", blank(text))}


def _reached(named: list[tuple[str, str]], words: set[str]) -> list[str]:
    """The texts whose names are among some words, or occur in one of those, each once."""
    words, found = set(words), set[str]()
    while more := {own for name, own in named if name in words and own not in found}:
        found |= more
        words |= words_of(*more)
    return [own for own in dict.fromkeys(own for _, own in named) if own in found]


def sum_functions(text: str) -> list[str]:
    """The functions that sum over a warp or a block, of those that a text calls, and that these call."""
    known = (CUDA / "adjoint" / "sums.cuh").read_text().rstrip().split("\n\n")
    names = [re.findall(r"__device__ \w+ (\w+)", function)[0] for function in known]
    text += "warp_add(" if "block_add(" in text else ""
    text += "lane_of_thread(" if "shuffle_" in text else ""
    return [function for name, function in zip(names, known, strict=True) if f"{name}(" in text]


def parameters(kernel: Function, derived: Derived, launch: AdjointLaunch, body: list[Stmt]) -> list[Parameter]:
    """The kernel's own parameters, gradients and tapes in global memory, as far as the body uses them."""
    used, changed = names_used(body), written(body)
    types = {p.name: gradient_type(p.type) for p in kernel.params}
    gradients, known = derived.gradients.items(), used | {t.name for t in derived.tapes}
    params = merged(kernel, [
        *(p for p in kernel.params if p.name in used),
        *(Parameter(name, "int", False, False) for name in launch.blocks if name in used),
        *(Parameter(d, types[name], True, d not in changed) for name, d in gradients if d in used),
        *(Parameter(stride, "int", False, False) for stride in derived.strides.values() if stride in used),
        *(p for p in tape_params(derived) if p.name in known),
    ], derived.gradients)  # fmt: skip
    return [replace(p, restrict=p.pointer) for p in params]  # the launch rejects arrays that share memory


def merged(kernel: Function, params: list[Parameter], gradients: dict[str, str]) -> list[Parameter]:
    """The parameters with one for all members of a struct; the gradient of an array of structs is one."""
    parts = {own_name(p.name) for p in kernel.params if own_name(p.name) != p.name}
    structs = {p.name: p.type for p in kernel.own if p.name in parts}
    of = {own_name(d): own_name(name) for name, d in gradients.items()}
    made: dict[str, Parameter] = {}
    for p in params:
        name = own_name(p.name)
        if name == p.name:
            made[name] = p
            continue
        kind = structs[name] if name in structs else gradient_type(structs[of[name]])
        const = p.const and (name not in made or made[name].const)
        pointer = p.name[len(name)] == "["
        made[name] = replace(p, name=name, type=kind, pointer=pointer, const=const and pointer)
    return list(made.values())


def tape_params(derived: Derived) -> list[Parameter]:
    """The tapes in global memory, and the parameters by which the running kernel reports their length."""
    tapes = [Parameter(t.name, STORED.get(t.type, t.type), True, False) for t in derived.tapes if t.size is None]
    return [*tapes, Parameter("tape_slots", "int", False, False), Parameter("tape_needed", "int", True, False)]


def tape_columns(derived: Derived) -> list[Stmt]:
    """The declarations of this thread's number and the number of threads, by which it finds its slots of a tape."""
    if all(t.size is not None for t in derived.tapes):
        return []
    flat = all(derived.facts.conditions.get(f"{d}.{a}") == ONE for d in ("blockDim", "gridDim") for a in "yz")
    texts = {"tape_thread": THREAD if flat else THREAD_3D, "tape_threads": THREADS if flat else THREADS_3D}
    return [Declare(name, "size_t", value=parse_expression(text)) for name, text in texts.items()]


def function_adjoints(file: KernelFile, derived: Derived) -> list[tuple[str, str]]:
    """The device functions and their adjoints, by name.

    Tapes of a function in global memory become tapes of the kernel, which passes them on; `derived` is extended.
    """
    texts: list[tuple[str, str]] = []
    extra: dict[str, list[Parameter]] = {}
    defined = set(re.findall(r"(\w+)\s*\([^(){};]*\)\s*\{", file.text)) - {"if", "for", "while", "switch"}
    for f in file.functions.values():
        missing = set(re.findall(r"(\w+)\s*\(", f.text)) & defined - {n for n, _ in texts} - {f.name}
        texts += [(f.name, as_read(f) if missing else f.text)] * (f.text in file.text)
        if own := derived.functions.get(f.name):
            pass_tapes(own.body, extra)
            derived.tapes += [t for t in own.tapes if t.size is None]
            used = names_used(own.body)
            memory = [Parameter(name, "size_t", False, False) for name in ("tape_thread", "tape_threads")]
            extra[f"{f.name}_adjoint"] = more = [p for p in (*tape_params(derived), *memory) if p.name in used]
            texts.append((f"{f.name}_adjoint", function_text(own, more)))
    pass_tapes(derived.body, extra)
    return texts


def as_read(f: Function) -> str:
    """A device function as the parser has read it, without branches that are never taken."""
    return function(f"__device__ {f.returns} {f.name}", map(parameter, f.params), f.body)


def pass_tapes(body: list[Stmt], extra: dict[str, list[Parameter]]) -> None:
    """Add the extra arguments of functions to their calls."""
    for s in {id(s): s for s in flatten(body) if isinstance(s, CallStmt)}.values():
        s.arguments += tuple(Name(p.name, p.type) for p in extra.get(s.function, ()))


def function_text(made: Derived, memory: list[Parameter]) -> str:
    """`__device__ void f_adjoint(x, d_y, d_x)`, followed by the memory of its tapes."""
    of, result = made.facts.function, made.result
    assert result is not None
    sinks = [p for p in of.params if p.name in made.gradients]
    gradients = [f"{gradient_type(p.type)}{'*' if p.pointer else '&'} {made.gradients[p.name]}" for p in sinks]
    params = [
        *map(parameter, of.params),
        f"{gradient_type(result.type)} {made.seed}",
        *gradients,
        *map(parameter, memory),
    ]
    return function(f"__device__ void {of.name}_adjoint", params, made.body)
