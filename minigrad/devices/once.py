"""Made once, also when several threads ask at the same time: a slider's callback runs beside a cell."""

import threading
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar

Made = TypeVar("Made")


def once(make: Callable[..., Made]) -> Callable[..., Made]:
    """functools.cache with a lock; without it two threads that come first would both make one."""
    kept, lock = cache(make), threading.RLock()

    @wraps(make)
    def get(*args: Any) -> Made:
        with lock:
            return kept(*args)

    return get
