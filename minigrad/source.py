"""CUDA C++ as text: the kernels in a file, their signatures, macros, includes, and marked regions."""

import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from minigrad.display import highlight
from minigrad.errors import CompileError


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
    """A kernel's name, its parameters and its location in its file."""

    name: str
    params: tuple[Param, ...]
    line: int
    start: int  # the offset of its text in the file, with the comment lines above it
    stop: int
    c_name: bool  # declared extern "C": the compiled function keeps its name


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


_MARK = re.compile(r"^[ \t]*//[ \t]*\[([^\]]+)\]", re.M)


class Listing:
    """Numbered lines of a file, highlighted in a notebook."""

    def __init__(self, file: str, first: int, text: str):
        self.file, self.first, self.text = file, first, text

    def __repr__(self) -> str:
        lines = self.text.splitlines()
        numbered = (f"{number:4d}  {line}" for number, line in enumerate(lines, self.first))
        return "\n".join([f"{self.file}:{self.first}", *numbered])

    def _repr_html_(self) -> str:
        return highlight(self.text, self.first, self.file)


def regions(file: str, first: int, text: str) -> dict[str, Listing]:
    """The lines below each mark `// [title]`, up to the next mark or the last brace."""
    marks = list(_MARK.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [text.rfind("}")] * bool(marks)
    return {
        mark.group(1): Listing(file, first + text.count("\n", 0, mark.start()), text[mark.start() : end].rstrip())
        for mark, end in zip(marks, ends, strict=True)
    }


PACKAGE = Path(__file__).parent
CUDA = next(folder for folder in (PACKAGE / "cuda", PACKAGE.parent / "cuda", PACKAGE) if folder.is_dir())

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"\n]+)"', re.M)
_TOKENS = re.compile(r"//(?:\\\n|[^\n])*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.S)
_BOUNDS = r"(?:__(?:launch_bounds|cluster_dims)__\s*\([^)]*\)\s*)*"
_KERNEL = re.compile(rf"__global__\s+{_BOUNDS}void\s+{_BOUNDS}(\w+)\s*\(")
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b([^\n]*)", re.M)
_EXTERN_C = re.compile(r'\bextern\s*" "\s*{?')  # extern "C" after `blank`
_SURROGATE = re.compile("[\ud800-\udfff]")
_TUNABLE = re.compile(r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)[^\n]*\n[ \t]*#[ \t]*define[ \t]+\1[ \t]+(\d+)[ \t]*$", re.M)


def blank(text: str) -> str:
    """The text with spaces in place of comments and the contents of strings: same length, same lines."""

    def spaces(found: re.Match) -> str:
        token = found.group()
        filler = re.sub(r"[^\n]", " ", token)
        return token[0] + filler[1:-1] + token[-1] if token[0] in "\"'" else filler

    return _TOKENS.sub(spaces, text)


@dataclass(frozen=True)
class Source:
    """CUDA C++ text, its name in messages, and the folder of its includes.

    `before` is compiled ahead of it: the rest of the file from which a kernel was taken out.
    """

    text: str
    name: str
    folder: Path = CUDA
    before: "Source | None" = None

    @staticmethod
    @cache
    def read(file: str) -> "Source":
        """The file of that name in the folder `cuda/`."""
        return Source((CUDA / file).read_text(), f"cuda/{file}")

    @cached_property
    def kernels(self) -> dict[str, Signature]:
        """The kernels that the text defines, by name, in order."""
        code = _without_if_0(blank(self.text))
        found = {}
        for match in _KERNEL.finditer(code):
            close = _matching(code, match.end() - 1, "()")
            body = code.find("{", close)
            if body < 0 or code[close + 1 : body].strip():
                continue  # a declaration only
            declared = code[match.end() : close]
            params = () if declared.strip() in ("", "void") else tuple(map(parameter, declared.split(",")))
            start = _first_line(self.text, code.rfind("\n", 0, match.start()) + 1)
            stop = _matching(code, body, "{}") + 1
            line = code.count("\n", 0, match.start()) + 1
            found[match.group(1)] = Signature(match[1], params, line, start, stop, _has_c_name(code, match.start()))
        return found

    @cached_property
    def tunables(self) -> dict[str, int]:
        """The macros that a launch may set, with their defaults, in headers too: `#ifndef TILE`, `#define TILE 16`."""
        return {name: int(value) for text in reversed(self.texts) for name, value in _TUNABLE.findall(blank(text))}

    @cached_property
    def unit(self) -> str:
        """The text for a compiler: its lines are numbered from its own first line."""
        if found := _SURROGATE.search(self.text):
            line = self.text.count("\n", 0, found.start()) + 1
            raise CompileError(f"{self.name}:{line}: {found[0]!r} is half a character, which no file can hold.")
        return f'{self.before.unit if self.before else ""}\n#line 1 "{self.name}"\n{self.text}'

    def with_kernel(self, text: str, name: str) -> "Source":
        """Another text for a kernel of this file; the file without its kernels is compiled ahead of it."""
        rest = self.text
        for at in reversed(self.kernels.values()):
            rest = rest[: at.start] + "\n" * self.text.count("\n", at.start, at.stop) + rest[at.stop :]
        return Source(text, name, self.folder, Source(rest, self.name, self.folder, self.before))

    @property
    def included(self) -> list[Path]:
        """The files that the text includes in quotes, directly or through others."""
        found: list[Path] = []

        def follow(text: str, here: Path) -> None:
            for name in _INCLUDE.findall(text):
                if (path := self.find(name, here)) and path not in found:
                    found.append(path)
                    follow(path.read_text(), path.parent)

        follow(self.unit, self.folder)
        return found

    @property
    def texts(self) -> list[str]:
        """All that a compiler reads: the unit and the files that it includes."""
        return [self.unit, *(path.read_text() for path in self.included)]

    def find(self, name: str, here: Path) -> Path | None:
        """The file of an include: in the folder of the including text, or in that of the source."""
        return next((path for path in (here / name, self.folder / name) if path.is_file()), None)

    def signature(self, kernel: str) -> Signature:
        """The kernel's signature. Raises ValueError if the text lacks it, or C++ would change its name."""
        if kernel not in self.kernels:
            names = ", ".join(self.kernels) or "no kernel (a kernel is `__global__ void name(...)`)"
            whole = "the text" if self.name == f"{kernel}.cu" else self.name  # a text is named after its kernel
            raise ValueError(f"{whole} has no kernel {kernel!r}; it defines {names}.")
        if not (found := self.kernels[kernel]).c_name:
            if "template" in blank(self.text[found.start : found.stop]).partition("__global__")[0]:
                raise ValueError(f'{kernel} is a template; write it for one set of types and values, as extern "C".')
            raise ValueError(f'{kernel}: write extern "C" before __global__; without it C++ gives it another name.')
        return found

    def kernel_text(self, kernel: str) -> tuple[int, str]:
        """The first line number and the text of a kernel, with the comment above it."""
        at = self.signature(kernel)
        return self.text.count("\n", 0, at.start) + 1, self.text[at.start : at.stop]

    def parts(self, kernel: str) -> dict[str, Listing]:
        """The marked regions of a kernel by their titles, each from `// [title]` to the next mark.

        A kernel without marks has those of the functions that it calls: ahead of it in its file, or in an include.
        """
        first, text = self.kernel_text(kernel)
        head = self.text[: min(each.start for each in self.kernels.values())]
        included = (Source.read(path.relative_to(CUDA).as_posix()) for path in self.included if CUDA in path.parents)
        places = [(self.name, first, text), (self.name, 1, head), *((each.name, 1, each.text) for each in included)]
        return next((found for place in places if (found := regions(*place))), {})


def _has_c_name(code: str, at: int) -> bool:
    """True if extern "C" precedes this offset, or the braces around it."""
    return any(
        _matching(code, found.end() - 1, "{}") > at
        if found.group().endswith("{")
        else not re.search("[{};]", code[found.end() : at])
        for found in _EXTERN_C.finditer(code, 0, at)
    )


def _without_if_0(code: str) -> str:
    """The code with spaces between `#if 0` and its #else, #elif or #endif."""
    depth = start = 0  # nested #ifs since the `#if 0`; the offset after that one
    for match in _CONDITION.finditer(code):
        word = match[1]
        if not depth:
            depth, start = int((word, match[2].strip()) == ("if", "0")), match.end()
        elif word.startswith("if"):
            depth += 1
        elif word == "endif" or depth == 1:
            depth -= 1
            if not depth:
                code = code[:start] + re.sub(r"[^\n]", " ", code[start : match.start()]) + code[match.start() :]
    return code


def _matching(code: str, start: int, pair: str) -> int:
    """The offset of the bracket that closes the one at `start`."""
    depth = 0
    for match in re.compile(f"[{re.escape(pair)}]").finditer(code, start):
        depth += 1 if match[0] == pair[0] else -1
        if depth == 0:
            return match.start()
    return len(code)


def end_of(code: str, start: int, signs: str) -> int:
    """The offset of the first of these signs outside of brackets, or of the bracket that closes around `start`."""
    depth = 0
    for match in re.compile(rf"[()\[\]{{}}{re.escape(signs)}]").finditer(code, start):
        depth += (match[0] in "([{") - (match[0] in ")]}")
        if depth < 0 or (depth == 0 and match[0] in signs):
            return match.start()
    return len(code)


def _first_line(text: str, start: int) -> int:
    """The offset of the first of the comment and template lines above the line that begins at `start`."""
    while start > 0:
        previous = text.rfind("\n", 0, start - 1) + 1
        line = text[previous : start - 1].strip()
        if not line.startswith(("//", "template", 'extern "C"')) or _MARK.match(text[previous:start]):
            break
        start = previous
    return start
