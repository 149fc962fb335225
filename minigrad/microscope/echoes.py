"""Echoes: reads that nobody wrote, which GCC makes where nothing is optimised. A GPU does not, nor does Clang."""

from minigrad.microscope.sites import Site


def is_echo(site: Site, again: bool, stored: int) -> bool:
    """Whether a read is one. again: one at its column has touched the same. stored: the column of the last write to the
    same array, ahead of it in the code of its line; 0 where there is none.
    """
    return (again and _checks_index(site)) or (stored > 0 and _reads_back(site, stored))


def _checks_index(site: Site) -> bool:
    """Whether the column lies in a subscript that has one of its own, as in &s[x[i]].

    Where an index is itself read from memory, the check of its bounds reads it once more: of two instructions there
    that touch the same in the same threads, one is an echo.
    """
    opened = depth = 0
    for sign in site.place.text[: max(site.column - 1, 0)]:
        depth += (sign == "[") - (sign == "]")
        opened = depth and opened + (sign == "[")
    return opened > 1


def _reads_back(site: Site, stored: int) -> bool:
    """Whether a read after a write is that of the value of an assignment, as in x[i] = y[i] = 1 that of y[i] for x[i].

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
