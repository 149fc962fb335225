"""Caches: a bounded dict, a function that runs once whatever the threads, and files on disk."""

import os
import tempfile
import threading
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar

from platformdirs import user_cache_dir

MOST = 4096  # entries of one cache: more means sizes that differ every time


class Cache(dict):
    """A dict that starts anew when it is full."""

    def keep(self, key: Any, value: Any) -> Any:
        """Store the value and return it."""
        if len(self) >= MOST:
            self.clear()
        self[key] = value
        return value


Made = TypeVar("Made")


def once(make: Callable[..., Made]) -> Callable[..., Made]:
    """functools.cache with a lock; without it two threads that come first would both make one."""
    kept, lock = cache(make), threading.RLock()

    @wraps(make)
    def get(*args: Any) -> Made:
        with lock:
            return kept(*args)

    return get


def folder() -> Path:
    """Where it is kept: MINIGRAD_CACHE, or the user's cache."""
    return Path(os.environ.get("MINIGRAD_CACHE") or user_cache_dir("minigrad"))


def keep(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, whoever else writes the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
        part.write(content)
    os.replace(part.name, path)
