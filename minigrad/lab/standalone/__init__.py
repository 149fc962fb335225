"""kernel.standalone: a kernel as a CUDA C++ program of its own, with the host code that a launch needs."""

import ctypes
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigrad.devices import check, get, through
from minigrad.devices.array import Array
from minigrad.devices.device import Arguments, Device, Dim3
from minigrad.errors import LaunchError, require
from minigrad.kernels.kernel import Kernel
from minigrad.lab.standalone.device_code import Piece, device_code
from minigrad.lab.standalone.host_code import SeenLaunch, host_code
from minigrad.microscope import on_sim
from minigrad.microscope.op_kernel import OpKernel
from minigrad.source import Listing, Param, Source
from minigrad.tensor import Tensor


def write(path: str | Path, kernel: Kernel, args: Sequence[Any], named: Mapping[str, Any]) -> Listing:
    """Write the program to a `.cu` file, and return its text to look at. `nvcc file.cu -o file` compiles it.

    args and named: those of a launch, with grid=, block= and shared=; or the inputs, parameters and tunables of the op
    of this kernel, as for `mg.inspect`. Arrays of up to 32 elements are written out; a formula fills longer ones.
    Raises what a launch raises, and LaunchError for arguments that such a program cannot make.
    """
    file = Path(require("standalone", path, str | Path, "the path of the file to write"))
    if file.suffix != ".cu":
        raise ValueError(f"standalone: {file.name!r:.60} must end in .cu, by which nvcc knows CUDA C++.")
    file.write_text(program(kernel, args, named, file.stem))
    return Listing(file.name, 1, file.read_text())


def program(kernel: Kernel, args: Sequence[Any], named: Mapping[str, Any], name: str) -> str:
    """The text of the program."""
    build, call = observed(kernel, args, named)
    types = {"real": call.real, "wide": call.real}  # arrays of bfloat16, where they differ, have no program
    device, system, macros = device_code(build.source, kernel.name, {**build.macros, **types})
    host = host_code(call, Piece(device).uses)
    headers = dict.fromkeys(["<cstdio>", "<cstdlib>", *["<cmath>"] * ("INFINITY" in host or "NAN" in host), *system])
    constants = [f"#define {key} {value}" for key, value in macros.items() if key not in types]
    constants += [f"using {key} = {value};" for key, value in macros.items() if key in types]
    head = [f"// {kernel.name} as a program of its own. Compile it and run it where there is an NVIDIA GPU:"]
    head += [f"//     nvcc {name}.cu -o {name} && ./{name}"]
    parts = ["\n".join(head), "\n".join(f"#include {header}" for header in headers)]
    if constants:
        parts += ["\n".join(["// Constants for the compiler; minigrad gives them on its command line.", *constants])]
    parts += ["// ---- Device code: the GPU runs it, once for each thread. ----", device]
    parts += ["// ---- Host code: the CPU runs it. ----", host]
    return "\n\n".join(parts)


class Build(NamedTuple):
    """The text of a kernel before it is compiled, and the macros that go with it."""

    source: Source
    macros: Mapping[str, str]


class Observer:
    """A launcher that notes the first launch of one kernel. others: the device that runs all launches, or None."""

    name = "standalone"

    def __init__(self, kernel: Kernel, others: Device | None = None):
        self.kernel, self.others = kernel, others
        self.launched: list[str] = []
        self.seen: tuple[Build, SeenLaunch] | None = None

    def build(self, source: Source, defines: Mapping[str, str], kernel: str) -> Build:
        """Nothing is compiled until a launch runs."""
        return Build(source, defines)

    def synchronize(self) -> None:
        """Return at once, as the simulator does."""

    def launch(self, module: Build, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Note the launch, with the contents of its arrays before it, and run it."""
        self.launched.append(name)
        if name == self.kernel.name and self.seen is None:
            params = self.kernel.signature.params
            values = values_of(name, params, arguments)
            extents = grid, block, shared
            self.seen = (
                module,
                SeenLaunch(name, params, values, *extents, module.macros.get("real", "float"), arguments.cooperative),
            )
        if self.others:
            self.others.launch(self.others.build(*module, name), name, grid, block, shared, arguments)


def observed(kernel: Kernel, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Build, SeenLaunch]:
    """The build and the call of the kernel's launch: an explicit one, which does not run, or the first of its op."""
    if not {"grid", "block", "shared"} & named.keys() and (found := OpKernel.find(kernel)):
        observer = Observer(kernel, get(check("sim")))
        found.run(observer, args, {key: value for key, value in named.items() if key != "dy"}, named.get("dy"))
        if observer.seen is None:
            raise found.not_launched(observer.launched)
    else:
        observer = Observer(kernel)
        with through(observer):
            kernel(*uploaded(kernel.name, args), **named)
    assert observer.seen  # an explicit launch has no way around the observer
    return observer.seen


def uploaded(kernel: str, args: Sequence[Any]) -> list[Any]:
    """The arguments with NumPy arrays, and tensors of any device, as arrays on `sim`; the same one for the same one.

    Raises LaunchError for NumPy arrays that share memory.
    """
    hosts = {id(arg): arg for arg in args if isinstance(arg, np.ndarray)}
    if any(np.shares_memory(a, b) for a, b in combinations(hosts.values(), 2)):
        raise LaunchError(f"{kernel}: two of the NumPy arrays share memory; give one array for both, or x.copy().")
    moved = {id(arg): arg.detach().to("sim") for arg in args if isinstance(arg, Tensor)}
    return on_sim([moved.get(id(arg), arg) for arg in args])


def values_of(kernel: str, params: Sequence[Param], arguments: Arguments) -> list[Any]:
    """The value of each parameter: a copy of an array or, for an earlier one again, its name; a struct, a number."""
    found: list[Any] = []
    arrays = dict(arguments.arrays)
    first: dict[int, tuple[Param, Array]] = {}  # by buffer, the parameter that has it first
    for param, (field, *_) in zip(params, arguments.packed._fields_, strict=True):
        value = getattr(arguments.packed, field)
        if param.type == "TensorMap":
            raise LaunchError(f"{kernel}: {param.name} is a tensor map, which takes the CUDA driver to make.")
        if param.pointer and value is not None:
            array, buffer = arrays[param.name], id(arrays[param.name].buffer)
            other, its = first.setdefault(buffer, (param, array))
            if its.spec is not array.spec or its.address != array.address or other.type != param.type:
                raise LaunchError(f"{kernel}: {other.name} and {param.name} share memory; give two arrays.")
            value = array.numpy() if other is param else other.name
        found.append(type(value).from_buffer_copy(value) if isinstance(value, ctypes.Structure) else value)
    return found
