"""Sentences for a notebook's page: broken between words, where a browser would break a long line within one."""

from textwrap import fill

WIDTH = 106  # characters, which fit beside the number of a cell


def folded(text: str) -> str:
    """The text in lines that fit; lines that are indented quote a source, and stay as they are."""
    lines = text.splitlines()
    return "\n".join(
        line if line.startswith(" ") else fill(line, WIDTH, break_long_words=False, break_on_hyphens=False)
        for line in lines
    )
