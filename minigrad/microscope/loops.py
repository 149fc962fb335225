"""Loops in the text of a kernel."""

import re

_LOOP = re.compile(r"\b(?:for|while|do)\b")


def encloses(code: str, first: int, last: int) -> bool:
    """Whether a loop has both lines in it, of which its head may be one. The code has no comments."""

    def line(at: int) -> int:
        return code.count("\n", 0, at) + 1

    return any(line(loop.start()) <= first and last <= line(_end(code, loop.end())) for loop in _LOOP.finditer(code))


def _end(code: str, start: int) -> int:
    """Where the statement ends that a loop's word begins: with its brace, or without one with the semicolon."""
    depth = 0
    for at, sign in enumerate(code[start:], start):
        depth += (sign in "({[") - (sign in ")}]")
        if depth <= 0 and sign in ";}":
            return at
    return len(code)
