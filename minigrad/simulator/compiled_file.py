"""Compiled files: CUDA C++ translated, built by the host compiler or taken from the disk cache, and loaded."""

import ctypes
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from minigrad.devices.host_compiler import BuildError
from minigrad.errors import CompileError
from minigrad.scan import item_name, items
from minigrad.simulator.compiler import KERNEL, load
from minigrad.simulator.diagnostics import ENTRY, Fault, compile_error, faults, undefined_function
from minigrad.simulator.runtime import runtime
from minigrad.simulator.translate import Change, Translation, translate
from minigrad.source import Source


@dataclass(eq=False)
class CompiledFile:
    """A loaded file with kernels."""

    source: Source
    path: Path
    parts: dict[str, str]  # the source texts, by their names in messages
    library: Any
    stamps: dict[Path, int]  # modification times of the included files
    changes: dict[tuple[str, int], list[Change]]  # by part and line
    entries: dict[str, int] = field(default_factory=dict)

    def entry(self, kernel: str) -> int:
        """The address of the function that runs a block's threads."""
        if kernel not in self.entries:
            function = getattr(self.library, ENTRY + kernel)
            self.entries[kernel] = ctypes.cast(function, ctypes.c_void_p).value or 0
        return self.entries[kernel]

    def variable(self, name: str) -> tuple[int, int]:
        """The address and the bytes of a __constant__ or __device__ variable. Raises ValueError."""
        try:
            at = ctypes.c_void_p.in_dll(self.library, f"minigrad_at_{name}")
        except ValueError:
            raise ValueError(f"{self.source.name} has no __constant__ or __device__ variable {name}.") from None
        return at.value or 0, ctypes.c_size_t.in_dll(self.library, f"minigrad_bytes_{name}").value


class Recipe(NamedTuple):
    """The options of a build."""

    flags: tuple[str, ...]
    link: tuple[str, ...] = ()
    evaluate_once: bool = False  # each index is evaluated once; see translate


PLAIN = Recipe(tuple(KERNEL))
_KNOWN: dict[tuple, CompiledFile] = {}


def compile_file(source: Source, defines: Mapping[str, str], recipe: Recipe = PLAIN) -> CompiledFile:
    """Compile for this CPU and load, or take from the caches in memory and on disk. Raises CompileError.

    A file is built again where an included file has changed; without `evaluate_once` where the compiler rejects that.
    """
    key = (source, recipe, *sorted(defines.items()))
    file = _KNOWN.get(key)
    if file is None or file.stamps != _stamps(file.stamps):
        try:
            file = _build(source, defines, recipe)
        except CompileError:
            if not recipe.evaluate_once:
                raise
            file = _build(source, defines, recipe._replace(evaluate_once=False))  # its errors quote the reader's text
        _KNOWN[key] = file
    return file


def _build(source: Source, defines: Mapping[str, str], recipe: Recipe) -> CompiledFile:
    """Build the file; of one with a kernel that is wanted, items that do not compile are left out where it needs none.

    Where the kernel does not compile without them, the errors are its own, and those of the items that it names.
    """
    runtime()  # loading a kernel binds its calls to the runtime
    macros = "".join(f"#define {name} {value}\n" for name, value in defines.items())
    reasons: dict[str, list[Fault]] = {}  # by the names of the items that are left out
    while True:
        translation = translate(source, recipe.evaluate_once)
        try:
            library, path = load(Path(source.name).stem, f"{macros}{translation.text}\n", recipe.flags, recipe.link)
            break
        except BuildError as error:
            source = _smaller(source, str(error), translation, reasons)
        except OSError as error:
            raise undefined_function(source.name, str(error)) from error
    if left := [f"there is no file {name}" for name in dict.fromkeys(translation.missing)] + [
        f"{name} does not compile here" for name in reasons
    ]:
        warnings.warn(f"{source.name}: left out: {', '.join(left)}.", stacklevel=2)
    return CompiledFile(source, path, translation.parts, library, _stamps(translation.files), translation.changes)


def _smaller(source: Source, log: str, translation: Translation, reasons: dict[str, list[Fault]]) -> Source:
    """The source without the items at fault. Raises CompileError where the kernel itself is."""
    found = faults(log, translation.parts, source.name)
    at = [_item(source, translation.parts, fault) for fault in found]
    for item, fault in zip(at, found, strict=True):
        if item:
            reasons.setdefault(item[2], []).append(fault)
    own = [fault for item, fault in zip(at, found, strict=True) if not item]
    if own or not found or not source.kernel:
        named = [word for fault in own for word in re.findall(r"\w+", fault.message.partition("\n")[0])]
        shown = [each for word in named for each in reasons.get(word, [])] + own
        raise compile_error(log, shown if source.kernel else found, translation.missing) from None
    return replace(source, left_out=source.left_out | {(file, start) for file, start, _ in filter(None, at)})


def _item(source: Source, parts: Mapping[str, str], fault: Fault) -> tuple[str, int, str] | None:
    """The item in which an error is: its file, its offset and its name; None where there is none, or it is wanted."""
    for file, line in (place for place in fault.places if place[0] in parts):
        text = source if file == source.name else replace(source, text=parts[file], name=file, template="", before=None)
        for item in items(text.code):
            first, last = (text.code.count("\n", 0, at) + 1 for at in (item.start, item.stop))
            if first <= line <= last and (file, item.start) not in source.left_out:
                name = item_name(text.code[item.start : item.body])
                return None if name == source.kernel else (file, item.start, name)
    return None


def _stamps(files: Iterable[Path]) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns if path.is_file() else 0 for path in files}
