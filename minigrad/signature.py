"""What a kernel takes: its parameters, read from their declarations."""

import re
from dataclasses import dataclass
from typing import NamedTuple


class Param(NamedTuple):
    """One parameter of a kernel, e.g. `const real* x` or `int n`."""

    name: str
    type: str
    pointer: bool
    const: bool

    def __str__(self) -> str:
        return f"{'const ' if self.const else ''}{self.type}{'*' if self.pointer else ''} {self.name}"


@dataclass(frozen=True)
class Signature:
    """A kernel's name, its parameters and where it stands in its file."""

    name: str
    params: tuple[Param, ...]
    line: int
    start: int  # of its text in the file, comment lines above it included
    stop: int
    c_name: bool  # declared extern "C": the compiled function has the name that is written


def split(params: str) -> list[str]:
    """A parameter list cut at its commas; `void` and nothing are no parameters."""
    return [] if params.strip() in ("", "void") else [" ".join(p.split()) for p in params.split(",")]


def parameter(text: str) -> Param:
    """`const real* __restrict__ x` -> Param("x", "real", pointer=True, const=True)."""
    plain = re.sub(r"__restrict__|\brestrict\b|__grid_constant__", " ", text).partition("=")[0]
    if rows := re.search(r"\(\s*\*\s*(?:const\b\s*)?(\w+)\s*\)", plain):  # float (*x)[8]
        kind = " ".join(word for word in plain[: rows.start()].split() if word not in ("const", "volatile"))
        return Param(rows[1], kind + plain[rows.end() :].strip(), True, "const" in plain[: rows.start()].split())
    words = plain.replace("*", " * ").replace("&", " & ").split()
    name = words.pop()
    pointer, const = "*" in words, "const" in words[: words.index("*")] if "*" in words else "const" in words
    kind = " ".join(word for word in words if word not in ("const", "*", "volatile"))
    return Param(name, kind, pointer, const)
