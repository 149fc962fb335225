"""Memo: what was worked out before, by its question; forgotten, all of it everywhere, when kernels are tuned anew."""

from typing import Any

from minigrad.alive import Alive

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
