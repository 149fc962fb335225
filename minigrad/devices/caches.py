"""Caches: a bounded dict, a function that runs once even if several threads call it, and files on disk."""

import os
import threading
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from minigrad.errors import DeviceError

if TYPE_CHECKING:
    import tempfile

MOST = 4096  # entries of one cache: more means sizes that differ every time


class Cache(dict):
    """A dict that is emptied when it is full."""

    def keep(self, key: Any, value: Any) -> Any:
        """Store the value and return it."""
        if len(self) >= MOST:
            self.clear()
        self[key] = value
        return value


Made = TypeVar("Made")


def once(make: Callable[..., Made]) -> Callable[..., Made]:
    """functools.cache with a lock; without one, two threads could run the function at the same time."""
    kept, lock = cache(make), threading.RLock()

    @wraps(make)
    def get(*args: Any) -> Made:
        with lock:
            return kept(*args)

    return get


def folder() -> Path:
    """The folder of the disk cache: MINIGRAD_CACHE, or the user's cache."""
    from platformdirs import user_cache_dir  # here, like the imports below: `import minigrad` needs none

    return Path(os.environ.get("MINIGRAD_CACHE") or user_cache_dir("minigrad"))


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, even if others write it at the same time. Raises OSError."""
    with _scratch(path.parent) as scratch:
        Path(scratch, path.name).write_bytes(content)
        os.replace(Path(scratch, path.name), path)


def keep(path: Path, content: bytes) -> None:
    """Write a file of the cache, as `write` does. Raises DeviceError."""
    try:
        write(path, content)
    except OSError as error:
        raise _not_writable(path.parent, error) from error


def compiled(stem: str, suffix: str, key: Any, build: Callable[[Path], Path], again: bool = False) -> Path:
    """The compiled file for a key, whose repr contains all that determines the file.

    If it is missing, or with `again`, build(an empty folder) makes it. Several processes may do the same at once:
    each builds in its own folder, and one rename puts the file in place. Raises DeviceError where that cannot be done.
    """
    import hashlib

    path = folder() / f"{stem}-{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}{suffix}"
    if again or not path.is_file():
        try:
            scratch = _scratch(path.parent)
        except OSError as error:
            raise _not_writable(path.parent, error) from error
        with scratch as name:
            os.replace(build(Path(name)), path)
    return path


def _scratch(parent: Path) -> "tempfile.TemporaryDirectory[str]":
    """An empty folder that lasts as long as a `with` block. Raises OSError."""
    import tempfile

    parent.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(dir=parent, prefix="building-")


def _not_writable(parent: Path, error: OSError) -> DeviceError:
    return DeviceError(f"cannot write {parent} ({error}); name another folder in MINIGRAD_CACHE.")
