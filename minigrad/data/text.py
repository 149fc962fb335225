"""Text as numbers, a text to learn from, and digits to be sorted: what a transformer reads."""

from importlib.resources import files
from typing import Any

import numpy as np

from minigrad.devices.dtypes import to_host
from minigrad.errors import require, require_int


class CharTokenizer:
    """A number for each character that occurs in `text`, in the order of their code points: 0, 1, ...

    len(tokenizer) is how many there are, the `words` of `nn.gpt`.
    """

    def __init__(self, text: str):
        self.characters = "".join(sorted(set(require("CharTokenizer", text, str, "a text"))))
        self._numbers = {character: number for number, character in enumerate(self.characters)}

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> np.ndarray:
        """The numbers of the characters, int64. Raises ValueError for one that has none."""
        for place, character in enumerate(require("encode", text, str, "a text")):
            if character not in self._numbers:
                raise ValueError(
                    f"encode: {character!r} at place {place} is none of the {len(self)} characters that this tokenizer "
                    "was made from. Add it to their text, or take ByteTokenizer, which knows every text."
                )
        return np.array([self._numbers[character] for character in text], np.int64)

    def decode(self, numbers: Any) -> str:
        """The text of a row of numbers. Raises ValueError for a number that no character has."""
        return "".join(self.characters[number] for number in _row(numbers, len(self)))

    def __repr__(self) -> str:
        return f"CharTokenizer of {len(self)} characters"


class ByteTokenizer:
    """A number from 0 to 255 for each byte of a text in UTF-8: no text is unknown, and é is two numbers."""

    def __len__(self) -> int:
        return 256

    def encode(self, text: str) -> np.ndarray:
        """The bytes, int64."""
        return np.frombuffer(require("encode", text, str, "a text").encode(), np.uint8).astype(np.int64)

    def decode(self, numbers: Any) -> str:
        """The text of a row of bytes; bytes that are no character, as where one is cut in two, become \\ufffd."""
        return bytes(_row(numbers, 256)).decode(errors="replace")

    def __repr__(self) -> str:
        return "ByteTokenizer of 256 bytes"


def _row(numbers: Any, count: int) -> list[int]:
    """The numbers as a list, each of them from 0 to below `count`."""
    row = to_host(numbers, who="decode: numbers")
    if row.ndim != 1 or (row.dtype.kind not in "iu" and row.size):
        raise ValueError(f"decode: numbers are {row.dtype} of shape {row.shape}; give one row of whole numbers.")
    for place, number in enumerate(listed := row.astype(np.int64).tolist()):
        if not 0 <= number < count:
            raise ValueError(f"decode: {number} at place {place}; numbers are 0 to {count - 1}.")
    return listed


def alice() -> str:
    """A text of 11,000 characters: the first chapter of Alice's Adventures in Wonderland.

    Source: Lewis Carroll, 1865; in the public domain.
    """
    return files("minigrad.data").joinpath("alice.txt").read_text(encoding="ascii")


def sorting(count: int, length: int = 8, seed: int = 0) -> np.ndarray:
    """Rows (count, 2 length) of random digits and, behind them, the same digits in order, int64.

    A decoder reads rows[:, :-1], and its answers are the last `length` of rows[:, 1:].
    """
    count, length = require_int("sorting", "count", count), require_int("sorting", "length", length, 1)
    digits = np.random.default_rng(require_int("sorting", "seed", seed)).integers(10, size=(count, length))
    return np.concatenate([digits, np.sort(digits)], axis=1)
