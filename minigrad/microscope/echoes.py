"""Echoes: the value of an assignment, which GCC reads back where nothing is optimised. A GPU does not, nor Clang."""

from minigrad.microscope.sites import Site


def reads_back(site: Site, stored: int) -> bool:
    """Whether a read after a write is that of the value of an assignment, as in x[i] = y[i] = 1 that of y[i] for x[i].

    stored is the column of the last write to the same array, ahead of the read in the code of its line.

    An assignment writes last. What is read after it and stands within it, from the element on its left to the end of
    its right side, is its own value. The column of a write is that of the sign, or of ++x[i] the bracket; in a macro
    all have one column, that of its name.
    """
    text, column = site.place.text, site.column
    if column < stored:
        return all(sign.isalnum() or sign in " _.->)]*" for sign in text[column : stored - 1])
    return column <= _end(text, stored) and (column > stored or text[column - 1] == "]")


def _end(text: str, start: int) -> int:
    """Where the expression ends that begins here: at a comma, a semicolon, or a bracket that was opened before."""
    depth = 0
    for at, sign in enumerate(text[start:], start):
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0 or (depth == 0 and sign in ",;:"):
            return at
    return len(text)
