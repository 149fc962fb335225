"""A compiled file: CUDA C++ through the rewriter, the host's compiler and the disk cache, loaded."""

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from minigrad.devices.host_compiler import BuildError
from minigrad.errors import CompileError
from minigrad.simulator.compiler import KERNEL, load
from minigrad.simulator.messages import ENTRY, compile_message, undefined
from minigrad.simulator.runtime import runtime
from minigrad.simulator.translate import Change, translate
from minigrad.source import Source


@dataclass
class Module:
    """A compiled file."""

    source: Source
    path: Path
    parts: dict[str, str]  # the texts that it was made of, by the names that messages use
    library: Any
    stamps: dict[Path, int]  # the included files, by their dates
    changes: dict[tuple[str, int], list[Change]]  # of a line of a part
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
    once: bool = False  # each index is evaluated once


PLAIN = Recipe(KERNEL)


class Modules:
    """What has been compiled by one recipe, kept in memory and on disk."""

    def __init__(self, recipe: Callable[[], Recipe] = lambda: PLAIN):
        self._recipe = recipe
        self._known: dict[tuple, Module] = {}

    def get(self, source: Source, defines: Mapping[str, str]) -> Module:
        """Compile for this CPU and load, where that is not done. Raises CompileError."""
        key = (source, *sorted(defines.items()))
        module = self._known.get(key)
        if module is None or module.stamps != _stamps(module.stamps):
            module = self._known[key] = _build_once(source, defines, self._recipe())
        return module


def _build_once(source: Source, defines: Mapping[str, str], recipe: Recipe) -> Module:
    """With indices that are evaluated once, if the recipe says so and the compiler takes them in all places."""
    try:
        return _build(source, defines, recipe)
    except CompileError:
        if not recipe.once:
            raise
        return _build(source, defines, recipe._replace(once=False))  # what is wrong is told in the words of the text


def _build(source: Source, defines: Mapping[str, str], recipe: Recipe) -> Module:
    runtime()  # the kernels' calls are bound to it when they are loaded
    translation = translate(source, recipe.once)
    macros = "".join(f"#define {name} {value}\n" for name, value in defines.items())
    text = f'#include "dialect.h"\n{macros}{translation.text}\n'
    try:
        library, path = load(Path(source.name).stem, text, recipe.flags, recipe.link)
    except BuildError as error:
        raise compile_message(str(error), translation.parts, source.name) from None
    except OSError as error:
        raise undefined(source.name, str(error)) from error
    return Module(source, path, translation.parts, library, _stamps(translation.files), translation.changes)


def _stamps(files: Iterable[Path]) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns if path.is_file() else 0 for path in files}
