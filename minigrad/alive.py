"""Alive: a set that keeps nothing alive, for what is made and gone through on several threads."""

import threading
from typing import Generic, TypeVar
from weakref import WeakSet

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
