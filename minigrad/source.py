"""CUDA C++ as text: the kernels in a file, their signatures, macros, includes, and marked regions.

A file may be one as downloaded: its host code is left out, a kernel gets its C name, a template its arguments.
"""

import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from minigrad.display import highlight
from minigrad.errors import CompileError
from minigrad.scan import Edit, TopLevel, apply, bare, blank, is_function, items, matching, members, split, without_if_0


class Param(NamedTuple):
    """One parameter of a kernel, e.g. `const real* x` or `int n`."""

    name: str
    type: str
    pointer: bool
    const: bool
    members: tuple = ()  # of a struct: (type, declarator, members of that type), see `scan.members`

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
    plain = re.sub(r"\b(?:__restrict__|__restrict|restrict|__grid_constant__)\b", " ", text).partition("=")[0]
    plain = re.sub(r"(\w+)\s*\[[^\]]*\]\s*$", r"* \1", plain)
    if rows := re.search(r"\(\s*\*\s*(?:const\b\s*)?(\w+)\s*\)", plain):  # float (*x)[8]
        kind = " ".join(word for word in plain[: rows.start()].split() if word not in ("const", "volatile"))
        return Param(rows[1], kind + plain[rows.end() :].strip(), True, "const" in plain[: rows.start()].split())
    words = plain.replace("*", " * ").replace("&", " & ").split()
    name = words.pop()
    pointer, const = "*" in words, "const" in words[: words.index("*")] if "*" in words else "const" in words
    kind = " ".join(word for word in words if word not in ("const", "*", "volatile", "struct", "enum"))
    return Param(name, kind + "*" * (words.count("*") - 1), pointer, const)


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
_BOUNDS = r"__(?:launch_bounds|cluster_dims)__\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_KERNEL = re.compile(rf"(?:\b(?:__global__|void|static|inline)\s+|{_BOUNDS}\s*)+(\w+)\s*\(")
_TEMPLATE = re.compile(rf"(template\s*<([^{{}};]*?)>\s*){_KERNEL.pattern}")  # its head, its parameters, the name
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)\n]*\))?[ \t]+((?:\\\n|[^\n])*)", re.M)
_WORD = re.compile(r"[A-Za-z_]\w*")
_ON_DEVICE = {"__global__", "__device__", "__constant__", "__shared__", "constexpr"}
_NOT_HOST = re.compile(
    r"(?:(?:typedef|using|namespace|struct|class|union|enum|static_assert|asm|template)\b|extern\s*[\"t])"
)
_HOST_FUNCTION = re.compile(r"(?:[\w:<>,*&\s]+[\s*&>]~?[\w:]+|main)\s*\(")
_LIBRARIES = r"cublas|cudnn|cufft|curand|cusparse|cusolver|nvToolsExt|nvtx3/|mpi\.h|nccl\.h|helper_|thrust/"
_HOST_HEADER = re.compile(rf"[ \t]*#[ \t]*include[ \t]*[<\"](?:{_LIBRARIES})[^\n]*")
_ALIASES = (
    re.compile(r"\btypedef\s+(?P<type>[\w\s:]+?)\s+(?P<name>\w+)\s*;"),
    re.compile(r"\busing\s+(?P<name>\w+)\s*=\s*(?P<type>[\w\s:]+?)\s*;"),
    re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)[ \t]+(?P<type>[A-Za-z_][\w ]*?)[ \t]*$", re.M),
)
_EXTERN_C = re.compile(r'\bextern\s*" "\s*{?')  # extern "C" after `blank`
# Types that are no structs of the reader's: those of the language, and minigrad's own, which `kernels` has.
_READ = {
    *("real", "wide", "bfloat16", "float", "double", "int", "unsigned", "bool"),
    *("View", "Window", "Frame", "TensorMap"),
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_TUNABLE = re.compile(r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)[^\n]*\n[ \t]*#[ \t]*define[ \t]+\1[ \t]+(\d+)[ \t]*$", re.M)


@dataclass(frozen=True)
class Source:
    """CUDA C++ text, its name in messages, and the folder of its includes.

    `before` is compiled ahead of it: the rest of the file from which a kernel was taken out. `template` names a kernel
    and the arguments of its template, e.g. "sgemm<64, 8>".
    """

    text: str
    name: str
    folder: Path = CUDA
    before: "Source | None" = None
    template: str = ""

    @staticmethod
    @cache
    def read(file: str) -> "Source":
        """The file of that name in the folder `cuda/`."""
        return Source((CUDA / file).read_text(), f"cuda/{file}")

    @cached_property
    def code(self) -> str:
        """The text without comments, strings and what stands under `#if 0`: same length, same lines."""
        return without_if_0(blank(self.text))

    @cached_property
    def kernels(self) -> dict[str, Signature]:
        """The kernels that the text defines, by name, in order."""
        code, found = self.code, {}
        for match in _KERNEL.finditer(code):
            close = matching(code, match.end() - 1, "()")
            body = code.find("{", close)
            if not {"__global__", "void"} <= set(match[0].split()) or body < 0 or code[close + 1 : body].strip():
                continue  # another function, or a declaration only
            declared = code[match.end() : close]
            params = () if declared.strip() in ("", "void") else tuple(map(self._parameter, declared.split(",")))
            start = _first_line(self.text, code.rfind("\n", 0, match.start()) + 1)
            stop = matching(code, body, "{}") + 1
            line = code.count("\n", 0, match.start() + match[0].index("__global__")) + 1
            found[match.group(1)] = Signature(match[1], params, line, start, stop, _has_c_name(code, match.start()))
        return found

    def _parameter(self, text: str) -> Param:
        """A parameter with its type behind typedef, using and #define."""
        param, seen = parameter(text), set[str]()
        while (kind := param.type) in self.aliases and kind not in seen:
            seen.add(kind)
            param = parameter(f"{'const ' * param.const}{self.aliases[kind]} {'*' * param.pointer} {param.name}")
        kind = param.type
        known = kind in _READ or not kind.isidentifier()
        if not known and re.search(rf"\bstruct\b[^{{}};]*\b{kind}\b|\}}\s*{kind}\s*;", self._all):
            lines = members(self._all, kind) or []
            inner = [
                (self._parameter(f"{its or '?'} {name or '?'}"), name or "?")
                for its, names in lines
                for name in names or "?"
            ]
            return param._replace(members=tuple((each.type, name, each.members) for each, name in inner))
        return param

    @cached_property
    def _all(self) -> str:
        return "\n".join(self._texts)

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Types by their other names, e.g. {"real_t": "float"}, but for a name with two meanings."""
        found: dict[str, set[str]] = {}
        for text in self._texts:
            for each in (match for pattern in _ALIASES for match in pattern.finditer(text)):
                if each["name"] in ("real", "wide") and f"#ifndef {each['name']}" in text:
                    continue  # minigrad's own words, which a launch defines
                found.setdefault(each["name"], set()).add(" ".join(each["type"].split()))
        mine = {name: value for name, kind, value in self._values if kind in ("class", "typename")}
        return {name: kinds.pop() for name, kinds in found.items() if len(kinds) == 1} | mine

    @cached_property
    def device_text(self) -> str:
        """The text with spaces in place of host code and its headers: same length, same lines."""
        if found := _SURROGATE.search(self.text):
            line = self.text.count("\n", 0, found.start()) + 1
            raise CompileError(f"{self.name}:{line}: {found[0]!r} is half a character, which no file can hold.")
        removed = [(item.start, item.stop) for item in self.host_code]
        removed += [
            match.span() for match in _HOST_HEADER.finditer(self.text) if "#" in self.code[slice(*match.span())]
        ]
        return apply([(*span, re.sub(r"[^\n]", " ", self.text[slice(*span)])) for span in removed], self.text)

    @cached_property
    def edits(self) -> list[Edit]:
        """A template's kernel put into a namespace in which its parameters have their arguments."""
        edits: list[Edit] = []
        if self.template:
            values = "".join(
                f"using {name} = {value}; " if kind in ("class", "typename") else f"constexpr {kind} {name} = {value}; "
                for name, kind, value in self._values
            )
            start, stop = self._head(self._name).span(1)  # type: ignore[union-attr]
            newlines, end = "\n" * self.text.count("\n", start, stop), self.kernels[self._name].stop
            edits += [(start, stop, f"namespace minigrad_of_{self._name} {{ {values}{newlines}"), (end, end, " }")]
        return edits

    @cached_property
    def host_code(self) -> list[TopLevel]:
        """The functions that only the host can call, such as main, and the host's variables."""
        device = set(_ON_DEVICE)
        for text in self._texts:
            device |= {name for name, value in _MACRO.findall(text) if device & set(_WORD.findall(value))}
        return [item for item in items(self.code) if self._is_host(item, device)]

    @property
    def host_names(self) -> list[str]:
        """The names of these functions and variables, each once."""
        heads = (bare(self.code[item.start : item.body]) for item in self.host_code)
        return list(dict.fromkeys(_WORD.findall(re.split(r"[(=\[]", head)[0])[-1] for head in heads))

    def _is_host(self, item: TopLevel, device: set[str]) -> bool:
        whole = self.code[item.start : item.body]
        head = bare(whole)
        if device & set(_WORD.findall(whole)) or _NOT_HOST.match(head):
            return False
        if is_function(whole):
            return bool(_HOST_FUNCTION.match(head))
        variable = (
            self.code[item.body] == ";" and _WORD.match(head) and not re.match(r"template|.*\bconst\b", whole, re.S)
        )
        return bool(variable)

    @cached_property
    def tunables(self) -> dict[str, int]:
        """The macros that a launch may set, with their defaults, in headers too: `#ifndef TILE`, `#define TILE 16`."""
        return {name: int(value) for text in reversed(self._texts) for name, value in _TUNABLE.findall(text)}

    @cached_property
    def unit(self) -> str:
        """The text for a compiler: its lines are numbered from its own first line."""
        text = apply([*self.edits, *self._c_names()], self.device_text)
        return f'{self.before.unit if self.before else ""}\n#line 1 "{self.name}"\n{text}'

    def _c_names(self) -> list[Edit]:
        """extern "C" ahead of each kernel that lacks it: a GPU's driver finds it by its name."""
        edits = []
        for item in items(self.code):
            head = self.code[item.start : item.body]
            name = _KERNEL.search(head)
            template = _TEMPLATE.match(head)
            mine = not head.startswith("template") or (template and template[3] == self._name)
            if "__global__" in head and name and mine and not _has_c_name(self.code, item.start + name.start()):
                at = item.start + (template.end(1) if template else 0)
                words = re.finditer(r"\b(?:static|inline)\b", self.code[at : item.body])
                edits += [(at, at, 'extern "C" '), *((at + w.start(), at + w.end(), "") for w in words)]
        return edits

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

        for source in self._chain:
            follow(source.text, self.folder)
        return found

    @property
    def _chain(self) -> "list[Source]":
        """The sources compiled ahead of this one, and this one."""
        return [*(self.before._chain if self.before else []), self]

    @cached_property
    def _texts(self) -> list[str]:
        """The reader's texts and those that they include, without comments and strings."""
        return [blank(text) for text in (*(each.text for each in self._chain), *(p.read_text() for p in self.included))]

    @property
    def _name(self) -> str:
        """The name of the kernel whose template has arguments."""
        return self.template.partition("<")[0].strip()

    def _head(self, kernel: str) -> re.Match[str] | None:
        """The head of a kernel's template up to its name, `template <typename T, int N = 4> __global__ void k(`."""
        return next((match for match in _TEMPLATE.finditer(self.code) if match[3] == kernel), None)

    def is_open(self, kernel: str) -> bool:
        """True for a kernel that is a template without arguments."""
        return kernel != self._name and self._head(kernel) is not None

    @cached_property
    def _values(self) -> list[tuple[str, str, str]]:
        """The parameters of that template: name, kind and argument, e.g. ("BM", "int", "64")."""
        if not self.template:
            return []
        if not (head := self._head(self._name)):
            raise ValueError(f"{self._name} is no template of {self.name}; call it {self._name!r}.")
        parameters = " ".join(head[2].split())
        declared = [each.partition("=") for each in split(parameters)]
        given = split(self.template.partition("<")[2].rpartition(">")[0])
        values = [*given, *(default.strip() for _, _, default in declared[len(given) :])]
        if len(values) != len(declared) or not all(values) or "..." in parameters:
            raise ValueError(
                f"{self._name} is a template of <{parameters}>; {self.template} gives it {len(given)} "
                f"of {len(declared)} arguments."
            )
        words = [left.split() for left, _, _ in declared]
        return [(kind[-1], " ".join(kind[:-1]), value) for kind, value in zip(words, values, strict=True)]

    @property
    def template_values(self) -> list[tuple[str, str, str]]:
        """The parameters of the kernel's template: name, kind and argument, e.g. ("BM", "int", "64")."""
        return self._values

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
        found = self.kernels[kernel]
        if self.is_open(kernel):
            values = " ".join(self._head(kernel)[2].split())  # type: ignore[index]
            raise ValueError(f"{kernel} is a template of <{values}>; give it arguments in its name: '{kernel}<...>'.")
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
        matching(code, found.end() - 1, "{}") > at
        if found.group().endswith("{")
        else not re.search("[{};]", code[found.end() : at])
        for found in _EXTERN_C.finditer(code, 0, at)
    )


def _first_line(text: str, start: int) -> int:
    """The offset of the first of the comment and template lines above the line that begins at `start`."""
    while start > 0:
        previous = text.rfind("\n", 0, start - 1) + 1
        line = text[previous : start - 1].strip()
        if not line.startswith(("//", "template", 'extern "C"')) or _MARK.match(text[previous:start]):
            break
        start = previous
    return start
