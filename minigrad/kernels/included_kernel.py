"""A kernel in a file that the named one includes, as in `main.cu` with `#include "kernel.cu"`."""

import re
from dataclasses import replace
from pathlib import Path

from minigrad.scan import INCLUDE, asked, matching
from minigrad.source import Source

_OPENS_C = re.compile(r'\bextern\s*" "\s*{')
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|endif)", re.M)


def defining(source: Source, kernel: str, around: frozenset[Path] = frozenset()) -> Source:
    """The source of the file that defines the kernel, behind what comes ahead of its #include; or the source itself.

    around: the files that include this one.
    """
    if kernel in source.kernels:
        return source
    for found in INCLUDE.finditer(source.text):
        path = source.find(asked(found), source.folder)
        if not path or path in around or not source.code[slice(*found.span())].strip():
            continue
        ahead = source.text[: found.start()]
        for block in _OPENS_C.finditer(source.code, 0, found.start()):
            if matching(source.code, block.end() - 1, "{}") > found.end():  # a block of C names that the #include is in
                ahead = f"{ahead[: block.start()]}{' ' * len(block[0])}{ahead[block.end() :]}"
        opened = sum(1 if word == "if" else -1 for word in _CONDITION.findall(ahead))
        before = replace(source, text=ahead + "#endif\n" * opened)
        text = path.read_text("utf-8-sig", "replace")
        inner = defining(Source(text, path.name, path.parent, before, macros=source.macros), kernel, around | {path})
        if kernel in inner.kernels:
            return inner
    return source
