"""Compiled files: CUDA C++ translated, built by the host compiler or taken from the disk cache, and loaded."""

import ctypes
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from minigrad.devices.host_compiler import BuildError
from minigrad.devices.leave_out import RejectedText, build_without
from minigrad.devices.unit import headers
from minigrad.errors import CompileError, warn
from minigrad.scan import items
from minigrad.simulator.compiler import KERNEL, load
from minigrad.simulator.diagnostics import ENTRY, compile_error, faults, undefined_function
from minigrad.simulator.runtime import runtime
from minigrad.simulator.translate import Change, Translation, translate
from minigrad.source import Source


@dataclass(eq=False)
class CompiledFile:
    """A loaded file with a kernel, or with all of its kernels."""

    source: Source
    path: Path
    parts: dict[str, str]  # the source texts, by their names in messages
    library: Any
    stamps: dict[Path, int]  # modification times of the included files
    changes: dict[tuple[str, int], list[Change]]  # by part and line
    entries: dict[str, int] = field(default_factory=dict)

    def entry(self, kernel: str) -> int:
        """The address of the function that runs a block's threads. Raises CompileError where a condition hides it."""
        if kernel not in self.entries:
            if not (function := getattr(self.library, ENTRY + kernel, None)):
                raise CompileError(
                    f"{self.source.name}: {kernel} stands under an #if that does not hold here. Define the macro that "
                    "it asks for: mg.kernel(..., defines={'NAME': 1})."
                )
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
    note_updates: bool = False


PLAIN = Recipe(tuple(KERNEL))
ARCH, NEWEST = "__CUDA_ARCH__", "900"  # the H100 and the H200; the dialect's own is the least that has all of it
_KNOWN: dict[tuple, CompiledFile] = {}


def compile_file(source: Source, defines: Mapping[str, str], kernel: str = "", recipe: Recipe = PLAIN) -> CompiledFile:
    """Compile for this CPU and load, or take from the caches in memory and on disk. Raises CompileError.

    kernel: the one that is compiled; "" for all of the file, which takes several times as long.
    A file is built again where an included file has changed; as it is where the compiler rejects what is put into it.
    """
    key = (source, kernel, recipe, *sorted(defines.items()))
    file = _KNOWN.get(key)
    if file is None or file.stamps != _stamps(file.stamps):
        try:
            file = _build(source, defines, kernel, recipe)
        except CompileError:
            if not (recipe.evaluate_once or recipe.note_updates):
                raise
            plain = recipe._replace(evaluate_once=False, note_updates=False)
            file = _build(source, defines, kernel, plain)  # its errors quote the reader's text
        _KNOWN[key] = file
    return file


def _build(source: Source, defines: Mapping[str, str], kernel: str, recipe: Recipe) -> CompiledFile:
    """Build for the newest architecture of which the file asks for nothing that only a GPU runs."""
    asks = source.kernel and any(ARCH in each.text for each in (*source.chain, *headers(source)))
    with suppress(CompileError):  # the errors of the other build are told
        if asks:
            return _built(source, {ARCH: NEWEST, **defines}, kernel, recipe)
    return _built(source, defines, kernel, recipe)


def _built(source: Source, defines: Mapping[str, str], kernel: str, recipe: Recipe) -> CompiledFile:
    """Build the file; of one with a kernel that is wanted, items that do not compile are left out where it needs none.

    Where the kernel does not compile without them, the errors are its own, and those of the items that it names.
    """
    runtime()  # loading a kernel binds its calls to the runtime
    macros = "".join(f"#define {name} {value}\n" for name, value in defines.items())

    def built(text: Source) -> tuple[Translation, Any, Path]:
        translation = translate(text, recipe.evaluate_once, recipe.note_updates, kernel=kernel)
        try:
            stem = Path(source.name).stem
            return translation, *load(stem, f"{macros}{translation.text}\n", recipe.flags, recipe.link)
        except BuildError as error:
            log, found = str(error), faults(str(error), translation.parts, source.name)
        except OSError as error:  # such as a function that is left out
            log, found = str(error), [undefined_function(source.name, str(error))]
        missing = translation.missing
        raise RejectedText(
            found, translation.parts, lambda shown: compile_error(log, shown, missing, source.host_names)
        )

    (translation, library, path), source, reasons = build_without(source, built)
    of, gone = source.kernels.get(kernel), [i for i in items(source.code) if (source.name, i.start) in source.left_out]
    if of and any(item.start < of.stop <= item.stop for item in gone):  # `NAME(a)` without a semicolon ahead of it
        every = [each for found in reasons.values() for each in found]
        raise compile_error("", every, translation.missing, source.host_names)
    left = [f"there is no file {name}" for name in dict.fromkeys(translation.missing)]
    left += [f"{name} does not compile here" for name in reasons]
    if left and source.kernel:
        warn(f"{source.name}: left out: {', '.join(left)}.")
    return CompiledFile(source, path, translation.parts, library, _stamps(translation.files), translation.changes)


def _stamps(files: Iterable[Path]) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns if path.is_file() else 0 for path in files}
