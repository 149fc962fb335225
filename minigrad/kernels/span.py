"""Span: an axis of a grid or block as arithmetic on the sizes of the work."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod


def ceil_div(a: int, b: int) -> int:
    """ceil(a / b)."""
    return -(-a // b)


@dataclass(frozen=True)
class Span:
    """An axis of a grid or block: a size, or ceil(size / piece), each a name, a number, or a product of these.

    "n/4*BLOCK" are pieces of 4 * BLOCK.
    """

    size: str
    piece: str = ""

    def value(self, numbers: Mapping[str, int]) -> int:
        """The extent for these sizes and tunables."""
        return ceil_div(_number(self.size, numbers), self.step(numbers))

    def step(self, numbers: Mapping[str, int]) -> int:
        """The size of a piece."""
        return _number(self.piece or "1", numbers)

    def words(self) -> str:
        """In words: ceil(n / BLOCK)."""
        piece = self.piece.replace("*", " * ")
        return f"ceil({self.size} / {f'({piece})' if ' ' in piece else piece})" if self.piece else self.size

    def filled(self, numbers: Mapping[str, int]) -> str:
        """In numbers: ceil(1000 / 256)."""
        size = _number(self.size, numbers)
        return f"ceil({size} / {self.step(numbers)})" if self.piece else str(size)


def _number(word: str, numbers: Mapping[str, int]) -> int:
    return prod(int(factor) if factor.isdigit() else numbers[factor] for factor in word.split("*"))


def parse_sizes(words: str) -> dict[str, int | None]:
    """Parse "m n k batch=1": each name with its default, or None for a required size."""
    pairs = (word.partition("=") for word in words.split())
    return {name: int(default) if default else None for name, _, default in pairs}
