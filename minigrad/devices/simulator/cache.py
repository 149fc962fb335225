"""Compiled objects, kept on disk under a name that holds everything they were made of."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from platformdirs import user_cache_dir

from minigrad.devices.simulator.compiler import COMMON, KERNEL, LINK, NATIVE, OPTIONAL, RUNTIME, Compiler, cpu
from minigrad.errors import DeviceError


def folder() -> Path:
    """Where objects are kept: MINIGRAD_CACHE, or the user's cache. Raises DeviceError where it cannot be written."""
    path = Path(os.environ.get("MINIGRAD_CACHE") or user_cache_dir("minigrad"))
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeviceError(
            f"device 'sim' cannot write {path} ({error}); name another folder in MINIGRAD_CACHE."
        ) from error
    return path


@cache
def _ours() -> bytes:
    """The text of the dialect and the runtime, for the key."""
    return b"".join(path.read_bytes() for path in sorted(NATIVE.rglob("*")) if path.is_file())


def kept(stem: str, text: str, compiler: Compiler, build: Callable[[Path], Path]) -> Path:
    """The object made of this text; `build` makes it in an empty folder where it is not there yet.

    Several processes may do the same at once: each builds in a folder of its own, and one rename puts it in place.
    """
    key = hashlib.sha256(_ours())
    key.update(repr([text, COMMON, KERNEL, LINK, OPTIONAL, RUNTIME, compiler.identity, cpu()]).encode())
    path = folder() / f"{stem}-{key.hexdigest()[:32]}.so"
    if not path.is_file():
        try:
            scratch = tempfile.TemporaryDirectory(dir=path.parent, prefix="building-")
        except OSError as error:
            raise DeviceError(
                f"device 'sim' cannot write {path.parent} ({error}); name another folder in MINIGRAD_CACHE."
            ) from error
        with scratch as name:
            os.replace(build(Path(name)), path)
    return path
