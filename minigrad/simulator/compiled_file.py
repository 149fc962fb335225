"""Compiled files: CUDA C++ translated, built by the host compiler or taken from the disk cache, and loaded."""

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from minigrad.devices.host_compiler import BuildError
from minigrad.errors import CompileError
from minigrad.simulator.compiler import KERNEL, load
from minigrad.simulator.diagnostics import ENTRY, compile_error, undefined_function
from minigrad.simulator.runtime import runtime
from minigrad.simulator.translate import Change, translate
from minigrad.source import Source


@dataclass
class CompiledFile:
    """A loaded file with kernels."""

    source: Source
    path: Path
    parts: dict[str, str]  # the texts that it was made of, by the names that messages use
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


class Recipe(NamedTuple):
    """The options of a build."""

    flags: Sequence[str]
    link: Sequence[str] = ()
    evaluate_once: bool = False  # each index is evaluated once; see translate


PLAIN = Recipe(KERNEL)


class FileCompiler:
    """Compiles files by one recipe, and keeps them in memory and on disk."""

    def __init__(self, recipe: Callable[[], Recipe] = lambda: PLAIN):
        self._recipe = recipe
        self._known: dict[tuple, CompiledFile] = {}

    def get(self, source: Source, defines: Mapping[str, str]) -> CompiledFile:
        """The compiled file, built anew if an included file has changed. Raises CompileError."""
        key = (source, *sorted(defines.items()))
        file = self._known.get(key)
        if file is None or file.stamps != _stamps(file.stamps):
            file = self._known[key] = _compile(source, defines, self._recipe())
        return file


def _compile(source: Source, defines: Mapping[str, str], recipe: Recipe) -> CompiledFile:
    """Build by the recipe; without `evaluate_once` where the compiler rejects that."""
    try:
        return _build(source, defines, recipe)
    except CompileError:
        if not recipe.evaluate_once:
            raise
        return _build(source, defines, recipe._replace(evaluate_once=False))  # its errors quote the reader's text


def _build(source: Source, defines: Mapping[str, str], recipe: Recipe) -> CompiledFile:
    runtime()  # loading a kernel binds its calls to the runtime
    translation = translate(source, recipe.evaluate_once)
    macros = "".join(f"#define {name} {value}\n" for name, value in defines.items())
    text = f'#include "dialect.h"\n{macros}{translation.text}\n'
    try:
        library, path = load(Path(source.name).stem, text, recipe.flags, recipe.link)
    except BuildError as error:
        raise compile_error(str(error), translation.parts, source.name) from None
    except OSError as error:
        raise undefined_function(source.name, str(error)) from error
    return CompiledFile(source, path, translation.parts, library, _stamps(translation.files), translation.changes)


def _stamps(files: Iterable[Path]) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns if path.is_file() else 0 for path in files}
