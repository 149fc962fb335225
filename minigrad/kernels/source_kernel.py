"""mg.kernel: a kernel from a reader's own CUDA C++, given as text or as the path of a file."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.devices import for_launch
from minigrad.devices.device import Dim3
from minigrad.devices.unit import headers
from minigrad.errors import require, require_bool, warn
from minigrad.kernels import arguments, structs
from minigrad.kernels.chosen_kernel import chosen, defining, parse
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.types import BFLOATS, ELEMENTS, SCALARS, plain
from minigrad.kernels.variables import converted, unset
from minigrad.scan import INCLUDE, asked, is_open
from minigrad.source import CUDA, Signature, Source

# By texts and loaded modules, which kernels of one text share: the value that each variable has, and its first one.
_SET: dict[str, dict[int, dict[str, tuple[Any, Any]]]] = {}
# Headers that a compiler finds itself.
_OF_SYSTEM = re.compile(r"(?:cu|nv|cooperative_groups|thrust/|mma\.h|sm_|device_|vector_|math_|std\w+\.h|\w*intrin\.h)")


class SourceKernel(Kernel):
    """A kernel of a reader's own file, whose __constant__ and __device__ variables have values to be set."""

    def __init__(self, *args: Any, **named: Any):
        super().__init__(*args, **named)
        self.constants: dict[str, np.ndarray] = {}

    @cached_property
    def signature(self) -> Signature:
        """Parameters without a name are called unnamed, unnamed_2, ..."""
        found = self.source.signature(self.name)
        taken = {param.name for param in found.params} - {"unnamed"}
        names = (n for n in chain(["unnamed"], (f"unnamed_{k}" for k in count(2))) if n not in taken)
        params = (p._replace(name=next(names)) if p.name == "unnamed" else p for p in found.params)
        return replace(found, params=tuple(params))

    def __call__(self, *args: Any, **launch: Any) -> None:
        refuse_names(self, [word for word in launch if word not in ("grid", "block", "shared")])
        super().__call__(*args, **launch)

    def constant(self, name: str, value: Any) -> None:
        """Set a __constant__ or __device__ variable for the launches that follow: an array of its size, or a number.

        A struct is given by its members, or as a record of its dtype. The variable is this kernel's own: another
        kernel of the file has another copy, also of what a kernel writes into one.
        Raises ValueError, and TypeError where a struct's dtype does not fit.
        """
        require(f"mg.kernel {self.name}: constant", name, str, "a variable's name")
        self.constants[name] = converted(self.source, name, value)

    @property
    def unset_constants(self) -> list[str]:
        """The __constant__ variables that it may use, which neither the text nor `constant` sets: they are 0."""
        return [name for name in unset(self.source, self.name) if name not in self.constants]

    def check_types(self) -> None:
        """Raise TypeError for a parameter whose type a header may define that is not here."""
        if self._modules:
            return
        known = {*ELEMENTS, *SCALARS, *BFLOATS, "real", "wide", "void"}
        kinds = ((p, re.sub(r"[\s*]*(\[[^][]*\])*$", "", p.type)) for p in self.signature.params)
        left = (p for p, kind in kinds if plain(kind) not in known and kind not in arguments.STRUCTS)
        param = next((p for p in left if not p.members), None)
        if param is not None and (missing := missing_files(self.source)):  # it reads every header: once
            raise TypeError(
                f"{self.name}: {param} has a type that is not known here, and there is no file {', '.join(missing)}. "
                f"Put it beside {self.source.name}, or write what the kernel needs of it into the text."
            )

    def run(self, args: Sequence[Any], grid: Dim3, block: Dim3, shared: int, values: Mapping[str, int]) -> None:
        """Set the variables where they are not yet, then run."""
        self.check_types()
        if not self._modules and (left := self.unset_constants):
            warn("\n".join(f"nobody sets {name}, so it is 0; give .constant({name!r}, ...)." for name in left))
        if self.constants or self.source.text in _SET:
            bound = arguments.bind(self.name, self.signature.params, args)
            device: Any = for_launch(bound.device)
            module = device.build(self.source, self.macros(values, bound.real), self.name)
            stored = _SET.setdefault(self.source.text, {}).setdefault(id(module), {})
            for name in {**stored, **self.constants}:
                now, first = stored.get(name, (None, None))
                if (value := self.constants.get(name, first)) is not now:
                    before = device.store(module, name, value)
                    stored[name] = value, before if first is None else first
        super().run(args, grid, block, shared, values)


def refuse_names(kernel: Kernel, named: Collection[str]) -> None:
    """Raise TypeError where a call gives arguments by these names: a kernel takes them in their order."""
    if named:
        order, given = ", ".join(param.name for param in kernel.signature.params), "=, ".join(named)
        why = f"takes its arguments in their order, ({order}), and none by its name: {given}=."
        raise TypeError(f"{kernel.name} {why}")


def kernel(
    source_or_path: str | Path,
    name: str | None = None,
    defines: Mapping[str, Any] | None = None,
    cooperative: bool = False,
) -> SourceKernel:
    """Your own CUDA C++: `k = kernel(text, "scale"); k(x, y, 3.0, n, grid=4, block=256)`.

    Of a text with one kernel the name may be left out. A template is named with its arguments,
    `kernel("sgemm.cu", "sgemm<64, 8>")`, and one of several kernels of a name with its namespace or the types of its
    parameters, "a::scale" or "scale(float*, int)".
    Host code and headers that are not here are left out; on sim also what does not compile there, such as PTX, where
    the kernel needs none of it.
    source_or_path is the text itself or the path of a `.cu` file. Arguments are tensors and Python scalars; a pointer
    that is not const is an output and is written in place. It runs on the device of its tensors, `sim` or `cuda`.
    A struct with pointers is given as its members, {"x": tensor, "n": 3}, an array of such structs as a list of these;
    numbers that the kernel writes into that array are not read back.
    cooperative: its blocks may wait for each other, as at the barrier of `cuda/grid_barrier.cuh`, so all run at once.
    A launch with shared= of more than 48 KB asks the GPU for that, as the host does by cudaFuncSetAttribute.
    """
    require("mg.kernel", name, str | None, "the name of a kernel as its second argument")
    if name is None:
        name = _only(source_of("mg.kernel", source_or_path))
    require(f"mg.kernel {name}: defines", defines, Mapping | None, "macros by name, e.g. {'TILE': 16}")
    for macro, value in (defines or {}).items():
        if not (isinstance(macro, str) and macro.isidentifier()) or value is None or "\n" in str(value):
            raise ValueError(f"mg.kernel {name}: defines={{{macro!r}: {value!r}}} is no macro; write {{'TILE': 16}}.")
    require_bool(f"mg.kernel {name}", "cooperative", cooperative)
    said = parse(name)
    plain, name = said.kernel, said.kernel + said.arguments
    macros = tuple((key, str(int(v) if isinstance(v, bool) else v)) for key, v in (defines or {}).items())
    source = replace(source_of(f"mg.kernel {name}", source_or_path, plain), macros=macros)
    _check_macros(source)
    source, template = chosen(defining(source, plain), said)
    source = asserted(wanted(source, plain, template), plain)
    _check_parameters(source, plain)
    made = SourceKernel(source, plain, defines=defines, cooperative=cooperative)
    made.waits = True
    if left := source.host_names:
        warn(f"{source.name}: code for the host is left out: {', '.join(left)}.")
    return made


def _check_macros(source: Source) -> None:
    """Raise ValueError for a macro that is given and that the text itself defines, under no #if."""
    for name, value in source.macros:
        found = re.search(rf"^[ \t]*#[ \t]*(?:undef|define)[ \t]+{name}\b(?!\()[ \t]*(.*)$", source.code, re.M)
        before = source.code[: found.start()] if found else ""
        other = found and "define" in found[0] and (found[1].strip("() \t") or "1") != (value or "1")
        if found and other and not is_open(before):
            line, own = before.count("\n") + 1, f"{name} as {found[1].strip()}" if found[1] else name
            raise ValueError(
                f"line {line} of {source.name} defines {own}, so {value or 1} would change nothing; "
                f"put #ifndef {name} ahead of it and #endif behind it."
            )


def _check_parameters(source: Source, kernel: str) -> None:
    """Raise ValueError for a type that a macro with arguments writes: its meaning is not read."""
    words = (word for param in source.signature(kernel).params for word in re.findall(r"(\w+)\s*\(", param.type))
    for word in words:
        if re.search(rf"^[ \t]*#[ \t]*define[ \t]+{word}\(", "\n".join(source.texts), re.M):
            why = f"{word} in the parameters of {kernel} is a macro with arguments, which is not read there"
            raise ValueError(f"{source.name}: {why}; write out what it stands for.")


def _only(source: Source) -> str:
    """The name of the text's only kernel. Raises ValueError."""
    if len(names := list(source.kernels)) == 1:
        return names[0]
    who = "the text" if source.folder == CUDA else source.name
    if names:
        raise ValueError(f"{who} has {len(names)} kernels: {', '.join(names)}. Choose one, as by name='{names[0]}'.")
    other = "__device__" in source.code
    way = " Its __device__ functions run in a kernel: name the file with the kernel, which includes this one." * other
    raise ValueError(f"{who} has no kernel. A kernel is `__global__ void name(...) {{ ... }}`.{way}")


def missing_files(source: Source) -> list[str]:
    """The files of projects that a text and its headers include and that are not here."""
    texts = [*source.chain, *headers(source)]
    found = [
        (one, each) for one in texts for each in INCLUDE.finditer(one.text) if "#" in one.code[slice(*each.span())]
    ]
    names = dict.fromkeys(filter(None, (asked(each) for _, each in found)))
    here = [path.as_posix() for path in source.included]
    ends = {name: f"/{re.sub(r'^(?:[.]+/)+', '', name)}" for name in names if not _OF_SYSTEM.match(name)}
    return [name for name, end in ends.items() if not any(path.endswith(end) for path in here)]


def wanted(source: Source, kernel: str, template: str = "") -> Source:
    """The same text for one of its kernels. The scans of the text are kept, but for those that know a template."""
    made = replace(source, kernel=kernel, template=template)
    kept = {"code", "_compiled", "_kernel", "_texts", "_all", "_expanded", "_around"}
    kept |= set() if template else {"kernels", "aliases"}
    made.__dict__.update((name, known) for name, known in source.__dict__.items() if name in kept)
    return made


def asserted(source: Source, kernel: str) -> Source:
    """The same text, which compiles only where structs are laid out as they are read here. Raises ValueError."""
    found = structs.assertions(kernel, source.signature(kernel).params)
    made = replace(source, assertions=found) if found else source
    made.__dict__.update({name: known for name, known in source.__dict__.items() if name not in made.__dict__})
    return made


def source_of(who: str, source_or_path: str | Path, name: str = "kernel") -> Source:
    """The Source of CUDA C++ text, named after its kernel, or of the file at that path."""
    text = str(require(who, source_or_path, str | Path, "CUDA C++ or the path of a .cu file"))
    if any(sign in text for sign in ("__global__", "\n", "{")) and not os.path.isfile(text):
        return Source(text.removeprefix("\ufeff"), f"{name}.cu", CUDA)
    path = Path(text)
    if not os.path.isfile(path):  # Path.is_file raises where the text is too long for a name
        shown = text if len(text) < 100 else f"{text[:100]}..."
        raise FileNotFoundError(f"no file {shown!r}; give the path of a .cu file or CUDA C++ with a __global__ kernel.")
    text = path.read_text("utf-8-sig", "replace")
    if "\0" in text:
        raise ValueError(f"{path.name} is no text in UTF-8, as a compiler reads it; save it in that encoding.")
    return Source(text, path.name, path.parent)
