"""Alive: a set that keeps nothing alive, for what is made and gone through on several threads."""

import os
import tempfile
import threading
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from platformdirs import user_cache_dir

T = TypeVar("T")


class Alive(Generic[T]):
    """What was added and is still there."""

    def __init__(self) -> None:
        self._lock, self._known = threading.RLock(), WeakSet[T]()  # a WeakSet alone may not grow under an iteration

    def add(self, thing: T) -> None:
        """Know it as long as it lives."""
        with self._lock:
            self._known.add(thing)

    def all(self) -> list[T]:
        """All of them, as of now."""
        with self._lock:
            return list(self._known)


MOST = 4096  # answers in one memo: who asks more has sizes that differ every time


class Memo(dict):
    """A dict that `forget` empties."""

    __slots__ = ("__weakref__",)
    __hash__ = object.__hash__  # type: ignore[assignment]  # for the set below, where each is itself alone
    __eq__ = object.__eq__

    def __init__(self) -> None:
        super().__init__()
        _MEMOS.add(self)

    def keep(self, question: Any, answer: Any) -> Any:
        """Remember the answer, and give it."""
        if len(self) >= MOST:
            self.clear()
        self[question] = answer
        return answer


_MEMOS: Alive[Memo] = Alive()


def forget() -> None:
    """Empty every memo."""
    for memo in _MEMOS.all():
        memo.clear()


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
