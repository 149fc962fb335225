"""The host code of one launch: memory, copies, the launch itself, and a look at the results."""

import ctypes
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any

import numpy as np

from minigrad.devices.device import MAX_SHARED, Dim3
from minigrad.display import plural
from minigrad.errors import LaunchError
from minigrad.kernels.types import C_NAMES
from minigrad.source import Param

LITERAL = 32  # elements of an array that is written out; a formula fills a longer one
MOST = 1 << 30  # bytes of all arrays; more would need another memory model of the compiler
SUFFIX = {"float": "f", "unsigned": "u", "unsigned int": "u", "unsigned long long": "ull"}

CHECK = """\
// Every function of CUDA returns an error code. CHECK stops the program where one reports an error.
// Without it the program would continue with wrong numbers.
#define CHECK(call)                                                                        \\
    do {                                                                                   \\
        cudaError_t error = (call);                                                        \\
        if (error != cudaSuccess) {                                                        \\
            fprintf(stderr, "%s:%d: %s\\n", __FILE__, __LINE__, cudaGetErrorString(error)); \\
            exit(1);                                                                       \\
        }                                                                                  \\
    } while (0)

// Prints the first elements of an array, and the sum of all of them.
template <class T>
void PRINT(const char* name, const T* x, int size) {
    double sum = 0;
    for (int i = 0; i < size; ++i) sum += double(x[i]);
    printf("%s:", name);
    for (int i = 0; i < size && i < 8; ++i) printf(" %.9g", double(x[i]));
    printf("%s\\n%s: %d elements, their sum is %.9g\\n", size > 8 ? " ..." : "", name, size, sum);
}
"""

# The names that the host code uses, which a variable of main may not take.
RESERVED = {
    "CHECK", "INFINITY", "NAN", "config", "cooperative", "cudaDeviceSynchronize", "cudaError_t", "cudaFree",
    "cudaGetErrorString", "cudaGetLastError", "cudaLaunchAttribute", "cudaLaunchAttributeCooperative",
    "cudaLaunchConfig_t", "cudaLaunchKernelEx", "cudaMalloc", "cudaMemcpy", "cudaMemcpyDeviceToHost",
    "cudaMemcpyHostToDevice", "cudaSuccess", "dim3", "error", "exit", "fprintf", "i", "main", "printf", "stderr",
}  # fmt: skip


@dataclass(frozen=True)
class Given:
    """One array of a launch. pointer: the type to which the parameter points; type: that of an element."""

    name: str
    host: str  # its name in main
    pointer: str
    type: str
    before: np.ndarray  # its contents before the launch
    written: bool


@dataclass(frozen=True)
class SeenLaunch:
    """A launch: the value of each parameter is an array, the name of an earlier one, a number, a struct, or None."""

    kernel: str
    params: Sequence[Param]
    values: Sequence[Any]
    grid: Dim3
    block: Dim3
    shared: int
    real: str  # its C type
    cooperative: bool = False

    def c_type(self, param: Param) -> str:
        """The type of a parameter, or to which it points."""
        return self.real if param.type in ("real", "wide") else param.type


def host_code(call: SeenLaunch, taken: set[str]) -> str:
    """The text from CHECK to the end of main. taken: the names of the device code."""
    if call.kernel in RESERVED:
        raise LaunchError(f"{call.kernel} has a meaning of its own in the program: give the kernel another name.")
    names = HostNames.free_of(call, taken)
    steps = steps_of(call, names, arrays_of(call, names))
    kept = [(why, lines) for why, lines in steps.items() if lines]
    start = int(not next(iter(steps.values())))  # they are number 0, so that memory is always step 1
    body = [[f"// {i}. {why}", *lines] for i, (why, lines) in enumerate(kept, start)]
    text = "\n\n".join("\n".join(f"    {line}" for line in lines) for lines in body)
    return f"{CHECK.replace('PRINT', names.print)}\nint main() {{\n{text}\n    return 0;\n}}\n"


@dataclass(frozen=True)
class HostNames:
    """The names in the host code: of each parameter on the host and of its array on the GPU, and of the rest."""

    host: Mapping[str, str]
    place: Mapping[str, str]
    print: str
    grid: str
    block: str

    @staticmethod
    def free_of(call: SeenLaunch, taken: set[str]) -> "HostNames":
        """Names that are not taken; a parameter keeps its own where the host code does not need it."""
        names = FreeNames(taken | {param.name for param in call.params} | RESERVED)
        host = {p.name: names.free(p.name) if p.name in RESERVED | {call.kernel} else p.name for p in call.params}
        others = names.free("print"), names.free("grid"), names.free("block")
        arrays = [p.name for p, value in zip(call.params, call.values, strict=True) if is_array(value)]
        return HostNames(host, {name: names.free(f"d_{name}") for name in arrays}, *others)


def arrays_of(call: SeenLaunch, names: HostNames) -> list[Given]:
    """The arrays of a launch. Raises LaunchError where C++ has no name for a type, or where they are too large."""
    pairs = list(zip(call.params, call.values, strict=True))
    written = {v if isinstance(v, str) else p.name for p, v in pairs if p.pointer and not p.const and v is not None}
    arrays = [
        Given(p.name, names.host[p.name], call.c_type(p), element(call, p, v), v, p.name in written)
        for p, v in pairs
        if is_array(v)
    ]
    if sum(x.before.nbytes for x in arrays) > MOST:
        raise LaunchError(f"{call.kernel}: the arrays have over {MOST >> 30} GiB; give smaller ones.")
    return arrays


def steps_of(call: SeenLaunch, names: HostNames, arrays: Sequence[Given]) -> dict[str, list[str]]:
    """The lines of main, by the comment above them."""
    host, place = names.host, names.place
    pairs = list(zip(call.params, call.values, strict=True))
    given = ", ".join(argument(p, v, place, host) for p, v in pairs)
    blocks, threads = plural(prod(call.grid), "block"), plural(prod(call.block), "thread")
    more = f"CHECK(cudaFuncSetAttribute({call.kernel}, cudaFuncAttributeMaxDynamicSharedMemorySize, {call.shared}));"
    return {
        "The arguments, in the host's memory. static keeps an array off the stack, which is small.": [
            *(line for x in arrays for line in array_lines(x)),
            *(f"{call.c_type(p)} {host[p.name]} = {scalar(call, p, v)};" for p, v in pairs if not p.pointer),
        ],
        "The GPU has a memory of its own. Reserve a place there for each array; d_ stands for device.": [
            *(f"{x.pointer}* {place[x.name]};" for x in arrays),
            *(f"CHECK(cudaMalloc(&{place[x.name]}, sizeof({x.host})));" for x in arrays),
        ],
        "Copy the arrays to the GPU: to, from, bytes, direction.": [
            copy(place[x.name], x.host, x.host, "HostToDevice") for x in arrays
        ],
        f"Launch {blocks} of {threads}. The kernel gets pointers into the GPU's memory.": [
            f"dim3 {names.grid}({extent(call.grid)}), {names.block}({extent(call.block)});",
            *([f"{more}  // more than every GPU has"] if call.shared > MAX_SHARED else []),
            *(together(call, names, given) if call.cooperative else alone(call, names, given)),
            "CHECK(cudaDeviceSynchronize());  // it does not wait for the kernel: wait here, and ask how it ended",
        ],
        "Copy the results back to the host, and look at them.": [
            line for x in arrays if x.written for line in results(x, names)
        ],
        "Give the GPU's memory back.": [f"CHECK(cudaFree({name}));" for name in place.values()],
    }


def alone(call: SeenLaunch, names: HostNames, given: str) -> list[str]:
    """A launch whose blocks do not wait for each other."""
    extents = [names.grid, names.block, *([str(call.shared)] if call.shared else [])]
    return [
        f"{call.kernel}<<<{', '.join(extents)}>>>({given});",
        "CHECK(cudaGetLastError());       // a launch returns no error code: ask whether it was accepted",
    ]


def together(call: SeenLaunch, names: HostNames, given: str) -> list[str]:
    """A cooperative launch, which <<<>>> cannot express."""
    return [
        "cudaLaunchAttribute cooperative = {};  // the blocks wait for each other: all run at once, or CHECK says so",
        "cooperative.id = cudaLaunchAttributeCooperative;",
        "cooperative.val.cooperative = 1;",
        "cudaLaunchConfig_t config = {};",
        f"config.gridDim = {names.grid}, config.blockDim = {names.block}, config.dynamicSmemBytes = {call.shared};",
        "config.attrs = &cooperative, config.numAttrs = 1;",
        f"CHECK(cudaLaunchKernelEx(&config, {call.kernel}, {given}));",
    ]


def results(x: Given, names: HostNames) -> list[str]:
    back = copy(x.host, names.place[x.name], x.host, "DeviceToHost")
    return [back, f'{names.print}("{x.name}", {x.host}, {x.before.size});']


class FreeNames:
    """The names in use; a new one gets an underscore where it is among them."""

    def __init__(self, taken: set[str]):
        self.taken = taken

    def free(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def copy(to: str, source: str, array: str, direction: str) -> str:
    return f"CHECK(cudaMemcpy({to}, {source}, sizeof({array}), cudaMemcpy{direction}));"


def array_lines(given: Given) -> list[str]:
    """The declaration of an array on the host, and what fills it."""
    x, name, shape = given.before.ravel(), given.host, given.before.shape
    declared = f"static {given.type} {name}[{max(x.size, 1)}]"
    note = f"  // {' x '.join(map(str, shape))}" if len(shape) > 1 else ""
    if given.written and x.dtype.kind == "f" and np.isnan(x).all():
        x = np.zeros_like(x)  # memory that nothing has written yet
    if not x.any():
        return [f"{declared};{note}{',' if note else '  //'} 0 everywhere"]
    if x.size <= LITERAL:
        return wrapped(f"{declared} = {{", [number(value, given.type) for value in x], f"}};{note}")
    formula, exact = fill(x, given.type)
    note += "" if exact else f"{',' if note else '  //'} other numbers than in Python"
    return [f"{declared};{note}", f"for (int i = 0; i < {x.size}; ++i) {name}[i] = {formula};"]


def fill(x: np.ndarray, kind: str) -> tuple[str, bool]:
    """A formula in i for the elements of a long array, in their range; and True if it gives just these numbers."""
    i, low, high = np.arange(x.size), np.fmin.reduce(x), np.fmax.reduce(x)  # without nan
    half = "2.0" if kind == "double" else "2.0f"
    if x.dtype.kind == "b":
        known = {"i % 2 == 0": i % 2 == 0}
    elif x.dtype.kind != "f":
        span = min(int(high) - int(low), 1 << 30) + 1  # i is an int
        known = {"i": i, f"{number(low, kind)} + i % {span}": low + (i % span).astype(x.dtype)}
    else:
        known = {"i": i, "i + 1": i + 1, f"(i % 11 - 5) / {half}": (i % 11 - 5) / 2, f"i % 11 / {half}": i % 11 / 2}
        known |= {f"(1 + i % 11) / {half}": (1 + i % 11) / 2}
    known = {number(low, kind): np.full(x.size, low)} | known
    for formula, values in known.items():
        if (values == x).all():
            return formula, True
    signs = (f"(i % 11 - 5) / {half}", f"i % 11 / {half}", f"(1 + i % 11) / {half}")
    return (signs[int(low >= 0) + int(low > 0)] if x.dtype.kind == "f" else list(known)[-1]), False


def wrapped(start: str, words: Sequence[str], end: str) -> list[str]:
    """The words between commas, in lines of at most 100 characters."""
    lines = [start]
    for i, word in enumerate(words):
        word += ", " if i + 1 < len(words) else end
        if len(lines[-1]) + len(word.rstrip()) > 100:
            lines[-1] = lines[-1].rstrip()
            lines.append("    ")
        lines[-1] += word
    return lines


def number(value: Any, kind: str) -> str:
    """A number as a constant of a C type."""
    if kind == "bool":
        return "true" if value else "false"
    if kind not in ("float", "double"):
        if value == np.iinfo(np.int64).min:
            return f"(-{np.iinfo(np.int64).max} - 1)"  # there is no such constant: the minus comes after the number
        return f"{int(value)}{SUFFIX.get(kind, '')}"
    value = np.float32(value) if kind == "float" else np.float64(value)
    if isfinite(value):
        return f"{value!s}{SUFFIX.get(kind, '')}"
    return "NAN" if np.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"


def scalar(call: SeenLaunch, param: Param, value: Any) -> str:
    """The value of a parameter that is no pointer."""
    return struct(value) if isinstance(value, ctypes.Structure) else number(value, call.c_type(param))


def struct(value: Any) -> str:
    """A struct of whole numbers, or an array in one, in braces; C++ fills what is left out at the end with 0."""
    if isinstance(value, ctypes.Structure):
        return f"{{{', '.join(struct(getattr(value, name)) for name, *_ in value._fields_)}}}"
    if isinstance(value, int):
        return str(value)
    last = max((i for i, each in enumerate(value) if each), default=0)
    return f"{{{', '.join(map(str, value[: last + 1]))}}}"


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def element(call: SeenLaunch, param: Param, array: np.ndarray) -> str:
    """The C type of an element. Raises LaunchError where C++ has none by that name."""
    if array.dtype not in C_NAMES:
        known = ", ".join(C_NAMES.values())
        raise LaunchError(f"{call.kernel}: {param.name} holds {array.dtype}; a program of its own takes {known}.")
    return C_NAMES[array.dtype]


def argument(param: Param, value: Any, place: Mapping[str, str], host: Mapping[str, str]) -> str:
    """An argument of the launch: a pointer into the GPU's memory, or a variable by its name in main."""
    if not param.pointer:
        return host[param.name]
    return "nullptr" if value is None else place[value if isinstance(value, str) else param.name]


def extent(sizes: Dim3) -> str:
    """The sizes without the ones at their end."""
    return re.sub(r"(, 1)+$", "", ", ".join(map(str, sizes)))
