"""Compiled objects, kept on disk under a name that holds everything they were made of."""

import ctypes
import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from minigrad.devices import disk
from minigrad.devices.simulator.compiler import COMMON, KERNEL, LINK, NATIVE, OPTIONAL, RUNTIME, Compiler, cpu
from minigrad.errors import DeviceError


def folder() -> Path:
    """Where objects are kept. Raises DeviceError where it cannot be written."""
    path = disk.folder()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeviceError(f"device 'sim' cannot write {path} ({error}); name another in MINIGRAD_CACHE.") from error
    return path


@cache
def _ours() -> bytes:
    """The text of the dialect and the runtime, for the key."""
    return b"".join(path.read_bytes() for path in sorted(NATIVE.rglob("*")) if path.is_file())


def load(stem: str, text: str, compiler: Compiler, build: Callable[[Path], Path], mode: int) -> tuple[Any, Path]:
    """The object made of this text, loaded, and its file; `build` makes it in an empty folder if it is not there.

    Several processes may do the same at once: each builds in a folder of its own, and one rename puts it in place.
    """
    key = hashlib.sha256(_ours())
    key.update(repr([text, COMMON, KERNEL, LINK, OPTIONAL, RUNTIME, compiler.identity, cpu()]).encode())
    path = folder() / f"{stem}-{key.hexdigest()[:32]}.so"
    if path.is_file():
        try:
            return ctypes.CDLL(str(path), mode), path
        except OSError:
            pass  # made on a system with other libraries, or cut short: make it anew
    with _scratch(path.parent) as scratch:
        os.replace(build(Path(scratch)), path)
    return ctypes.CDLL(str(path), mode), path


def _scratch(parent: Path) -> tempfile.TemporaryDirectory:
    try:
        return tempfile.TemporaryDirectory(dir=parent, prefix="building-")
    except OSError as error:
        raise DeviceError(f"device 'sim' cannot write {parent} ({error}); name another in MINIGRAD_CACHE.") from error
