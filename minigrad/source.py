"""CUDA C++ as text: the kernels in a file, their signatures, macros, includes, and marked regions.

A file may be one as downloaded: its host code is left out, a kernel gets its C name, a template its arguments.
"""

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from minigrad import members
from minigrad.display import Listing as Listing
from minigrad.display import first_line
from minigrad.display import regions as regions
from minigrad.errors import CompileError
from minigrad.scan import (
    ATTRIBUTE,
    BOUNDS,
    INCLUDE,
    OWN_STRUCTS,
    READ,
    Edit,
    TopLevel,
    apply,
    asked,
    between_directives,
    blank,
    has_c_name,
    is_host,
    item_name,
    items,
    live_files,
    matching,
    renamed,
    split,
    without_directives,
)
from minigrad.scan import Param as Param
from minigrad.scan import Signature as Signature
from minigrad.scan import parameter as parameter

PACKAGE = Path(__file__).parent
CUDA = next(folder for folder in (PACKAGE / "cuda", PACKAGE.parent / "cuda", PACKAGE) if folder.is_dir())

_WORDS = r"__global__|void|static|inline|__forceinline__|__noinline__"
_KERNEL = re.compile(rf"(?:\b(?:{_WORDS})\s+|{BOUNDS.pattern}\s*)+(\w+)\s*(?:<[^()]*>\s*)?\(")
_TEMPLATE = re.compile(rf"(template\s*<([^{{}};]*?)>\s*){_KERNEL.pattern}")  # its head, its parameters, the name
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)\n]*\))?[ \t]+((?:\\\n|[^\n])*)", re.M)
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_NO_BODY = re.compile(r"\s*;")
_HEADERS = ("include", "inc", "common", "Common", "src")
_ON_DEVICE = {"__global__", "__device__", "__constant__", "__managed__", "__shared__", "constexpr"}
_RESTRICT = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(?:__)?restrict(?:__)?[ \t]*$", re.M)
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
    kernel: str = ""  # the one that is wanted: what does not compile may be left out where it needs none of it
    macros: tuple[tuple[str, str], ...] = ()  # those of a build, which decide what stands under #if
    left_out: frozenset[tuple[str, int]] = frozenset()  # files, and offsets of their items
    assertions: str = ""  # behind the kernel
    words: frozenset[str] = frozenset()  # of a header: the words of device code in the text that includes it

    @staticmethod
    @cache
    def read(file: str) -> "Source":
        """The file of that name in the folder `cuda/`."""
        return Source((CUDA / file).read_text(), f"cuda/{file}")

    @cached_property
    def code(self) -> str:
        """The text without comments, strings and branches of #if that are not compiled: same length, same lines."""
        return self._compiled[0][-1]

    @cached_property
    def _compiled(self) -> tuple[list[str], dict[str, str]]:
        """The same of each text ahead of it and of its own; and the values of macros and constants."""
        tunables = dict.fromkeys(name for text in self._texts for name, _ in _TUNABLE.findall(text))
        macros: dict[str, str | None] = tunables | dict(self.macros)
        left = {*self.included}
        found = [code for s in self.chain for code in live_files(s.text, s.folder, macros, self.find, left)]
        known = members.unique(each for code in found for each in members.constants(code))
        known |= dict.fromkeys((name for text in self._texts for name in _RESTRICT.findall(text)), "")
        return found, known | {name: value for name, value in macros.items() if value is not None}

    @cached_property
    def _kernel(self) -> re.Pattern[str]:
        """The head of a kernel, whose words may be macros, up to its parameters."""
        macros = "|".join(re.escape(name) for name, value in self._compiled[1].items() if "__global__" in value)
        return re.compile(_KERNEL.pattern.replace(_WORDS, f"{_WORDS}|{macros}")) if macros else _KERNEL

    @cached_property
    def kernels(self) -> dict[str, Signature]:
        """The kernels that the text defines, by name, in order."""
        code, found = self.code, dict[str, Signature]()
        for match in self._kernel.finditer(without_directives(code)):
            close = matching(code, match.end() - 1, "()")
            body = code.find("{", close)
            said = self.expanded(match[0]).split()
            if not {"__global__", "void"} <= set(said) or body < 0 or code[close + 1 : body].strip():
                continue  # another function, or a declaration only
            declared = without_directives(code[match.end() : close])
            names = ((parameter(each).name, each) for each in split(declared))
            known = self._compiled[1]  # `float* x UNUSED` has a name without the macro
            own = {n for n, each in names if known.get(n) != "" or parameter(self.expanded(each)).name == "unnamed"}
            declared = self.expanded(declared, own)
            params = () if declared.strip() in ("", "void") else tuple(map(self._parameter, split(declared)))
            start = first_line(self.text, code.rfind("\n", 0, match.start()) + 1)
            stop = matching(code, body, "{}") + 1
            at = match.start() + max(match[0].find("__global__"), 0)
            again = found.get(match[1])
            stops = (*(again.stops if again else ()), stop)
            other = again and not re.search(r"#\s*el", code[again.stop : at])  # they are no branches of one #if
            lines = (*(again.lines if again and other else ()), code.count("\n", 0, at) + 1)
            c_name = has_c_name(code, match.start()) or '" "' in " ".join(said)
            found[match[1]] = Signature(match[1], params, lines, start, stop, stops, c_name)
        return found

    def _parameter(self, text: str, inside: tuple[str, ...] = ()) -> Param:  # inside: the structs around it
        """A parameter with its type behind typedef, using and #define."""
        param, seen = parameter(text), set[str]()
        element, bracket, extents = param.type.partition("[")  # a pointer to rows
        if bracket and element in self.aliases and (of := self._parameter(f"{element} row", inside)):
            const = param.const or (of.const and not of.pointer)  # `typedef const double cd;`
            param = param._replace(type=of.type + "*" * of.pointer + bracket + extents, const=const)
        while (kind := param.type) in self.aliases and kind not in seen:
            seen.add(kind)
            text = f"{'const ' * param.const}{self.aliases[kind]} {'*' * param.pointer} "
            param = parameter(self.expanded(text) + param.name)
        if "::" in param.type and "<" not in param.type and not param.type.startswith("std::"):
            return self._parameter(param.declared(param.type.rpartition("::")[2]), inside)
        if "<" in kind:
            return self._of_template(param, inside)
        ours = kind in READ and (kind not in OWN_STRUCTS or any(CUDA in path.parents for path in self.included))
        known = ours or not kind.isidentifier() or kind not in members.type_words(self._all)
        if not known and (base := members.enum_type(self._all, kind)):
            return param._replace(type=base)
        struct = rf"\b(?:struct|class|union)\b[^{{}};<]*\b{kind}\b|\}}(?:\s*(?:{ATTRIBUTE.pattern}))*\s*{kind}\s*[;,]"
        if not known and kind not in inside and re.search(struct, self._all):
            return param._replace(members=self.struct_members(self._expanded, kind, inside))
        return param

    def struct_members(self, text: str, struct: str, inside: tuple[str, ...]) -> tuple:
        made: list[tuple[str, str, tuple]] = []
        for its, name in members.of_struct(text, struct):
            if its in ("?", *members.MARKS):
                made.append((its, name, ()))
                continue
            if "{" in its:  # without a name
                word = its.partition("{")[0].split()[0]
                inner = f"{word} unnamed {its[its.index('{') :]};"
                each = Param(
                    name, f"{word} {{...}}", False, False, self.struct_members(inner, "unnamed", (*inside, struct))
                )
            else:
                each = self._parameter(f"{its} {name.partition('[')[0] or 'base'}", (*inside, struct))
            own = self.expanded(name, _WORD.findall(name)[:1])
            own = members.extents("*" * its.endswith("*") + own, self.tunables)
            made.append((each.type, own, each.members))
        return tuple(made)

    def _of_template(self, param: Param, inside: tuple[str, ...]) -> Param:
        """A parameter whose type is a template's instance, as Pack<float, 4>, or lies in one, as vec4<float>::Type."""
        values = {name: value for name, _, value in self.template_values}
        kind = _WORD.sub(lambda word: values.get(word[0], word[0]), param.type)
        if kind.startswith(("std::bool_constant<", "std::integral_constant<")):
            return param._replace(members=members.EMPTY)
        found = re.fullmatch(r"(?:\w+\s*::\s*)*(\w+)\s*<(.*)>\s*(?:::\s*(\w+))?", kind, re.S)
        if not found or kind in inside:
            return param
        given, within = [each for each in split(found[2]) if each], found[3]
        text = members.instance(self._expanded, found[1], given)
        if another := members.meant(self._expanded, found[1], given):
            another += f"::{within}" if within else ""
        elif text and within:
            another = next((each["type"] for each in renamed(text) if each["name"] == within), "?")
        if another:
            return self._parameter(param.declared(another), (*inside, kind))
        return param._replace(members=self.struct_members(text, found[1], (*inside, kind))) if text else param

    def expanded(self, text: str, names: Collection[str] = (), depth: int = 5) -> str:
        """The text with the values of macros and constants, but for those of a launch, and of parameters' `names`."""
        values, own = self._compiled[1], self._of_launch
        own = own | {name for name in names if values.get(name, "_")[:1] in {"", *"(-0123456789"}}
        here = (values.keys() & {*_WORD.findall(text)}) - own if depth else ()
        known = {name: self.expanded(values[name], names, depth - 1) for name in here}
        return _WORD.sub(lambda found: known.get(found[0], found[0]), text) if known else text

    _of_launch = cached_property(lambda self: {name for name in ("real", "wide") if f"#ifndef {name}" in self._all})
    _all = cached_property(lambda self: "\n".join(self._compiled[0]))
    _expanded = cached_property(lambda self: self.expanded(*members.with_constants(self._all)))

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Types by their other names, e.g. {"real_t": "float"}, but for a name with two meanings.

        A macro with a default has this where an #if asks for it.
        """
        mine = {name: value for name, kind, value in self.template_values if kind in ("class", "typename")}
        found = members.meanings(self._compiled[0])
        if self.tunables and not self.macros and any(len(kinds) > 1 for kinds in found.values()):
            defaults = tuple((name, str(value)) for name, value in self.tunables.items())
            return replace(self, macros=defaults).aliases | mine
        return {name: kinds[0] for name, kinds in found.items() if len(kinds) == 1} | mine

    @cached_property
    def open_types(self) -> set[str]:
        """The types that a launch defines: `real`, where the text uses it and has no meaning of its own for it."""
        return {"real"} - self.aliases.keys() if members.takes_real(self._all) else set()

    @cached_property
    def device_text(self) -> str:
        """The text with spaces in place of host code and its headers: same length, same lines."""
        if found := _SURROGATE.search(self.text):
            line = self.text.count("\n", 0, found.start()) + 1
            raise CompileError(f"{self.name}:{line}: {found[0]!r} is half a character, which no file can hold.")
        other = re.compile(rf"template\b[^;{{}}]*\b{self._name}\s*<" if self.template else "(?!)")  # of its instances
        gone = [
            item
            for item in items(self.code)
            if (self.name, item.start) in self.left_out or other.match(self.code, item.start, item.body)
        ]
        spans = [part for item in (*self.host_code, *gone) for part in between_directives(self.code, item)]
        return apply([(*span, re.sub(r"[^\n]", " ", self.text[slice(*span)])) for span in spans], self.text)

    @cached_property
    def edits(self) -> list[Edit]:
        """Assertions; a template's kernel put into a namespace in which its parameters have their arguments."""
        edits: list[Edit] = []
        if self.assertions and self.kernel in self.kernels:
            edits += [(stop, stop, self.assertions) for stop in self.kernels[self.kernel].stops]
        if self.template:
            values = "".join(members.argument(*each) for each in self.template_values)
            start, stop = self._head(self._name).span(1)  # type: ignore[union-attr]
            newlines, end = "\n" * self.text.count("\n", start, stop), self.kernels[self._name].stop
            edits += [(start, stop, f"namespace minigrad_of_{self._name} {{ {values}{newlines}"), (end, end, " }")]
        return edits

    @cached_property
    def host_code(self) -> list[TopLevel]:
        """The functions that only the host can call, such as main, and the host's variables."""
        return [item for item in items(self.code) if is_host(self.code, item, self.device_words)]

    device_words = cached_property(lambda self: self.words or self.standing_for(_ON_DEVICE))

    def standing_for(self, words: Collection[str], said: re.Pattern[str] | None = None) -> frozenset[str]:
        """The words, and the macros of the text whose values have any of them, or what the pattern says."""
        found = set(words)
        for name, value in (each for text in self._texts for each in _MACRO.findall(text)):
            found |= {name} if found & set(_WORD.findall(value)) or (said and said.search(value)) else set()
        return frozenset(found)

    @property
    def host_names(self) -> list[str]:
        return list(dict.fromkeys(item_name(self.code[at.start : at.body]) for at in self.host_code))

    @cached_property
    def tunables(self) -> dict[str, int]:
        """The macros that a launch may set, with their defaults, in headers too: `#ifndef TILE`, `#define TILE 16`."""
        return {name: int(value) for text in reversed(self._texts) for name, value in _TUNABLE.findall(text)}

    def c_name_at(self, item: TopLevel) -> int | None:
        """Where extern "C" belongs ahead of an item that is a kernel of this build; None where it does not."""
        head = without_directives(self.code[item.start : item.body])
        name = self._kernel.search(head)
        template = _TEMPLATE.match(head)
        wanted = template and template[3] == self._name and self.code[item.body] == "{"
        mine = wanted or not head.startswith("template")
        mine = mine and (self.name, item.start) not in self.left_out and "__global__" in self.expanded(head)
        if not (mine and name) or has_c_name(self.code, item.start + name.start()):
            return None
        return item.start + (template.end(1) if template else 0)

    def others(self, kernel: str) -> list[TopLevel]:
        """The kernels of the text but for the one that is wanted, which needs none of them."""
        if not kernel:
            return []
        plain = without_directives(self.code)
        found = ((item, self._kernel.search(plain[item.start : item.body])) for item in items(self.code))
        return [item for item, name in found if name and name[1] in self.kernels and name[1] != kernel]

    def with_kernel(self, text: str, name: str) -> "Source":
        """Another text for a kernel of this file; the file without its kernels is compiled ahead of it."""
        rest = self.text
        for at in reversed(self.kernels.values()):
            rest = rest[: at.start] + "\n" * self.text.count("\n", at.start, at.stop) + rest[at.stop :]
        return Source(text, name, self.folder, Source(rest, self.name, self.folder, self.before))

    @property
    def included(self) -> dict[Path, str]:
        """The files that the text includes, directly or through others, with their texts."""
        found: dict[Path, str] = {}

        def follow(text: str, here: Path) -> None:
            for each in INCLUDE.finditer(text):
                if (path := self.find(asked(each), here)) and path not in found:
                    found[path] = path.read_text(errors="replace")
                    follow(found[path], path.parent)

        for source in self.chain if not self.words else []:
            follow(source.text, source.folder)
        return found

    @property
    def folders(self) -> list[Path]:
        """Where a compiler finds them: the folder of the text first, then those of a project's headers."""
        far = [path for path in self.included if not path.is_relative_to(self.folder) and CUDA not in path.parents]
        own = [source.folder for source in reversed(self.chain)]
        return list(dict.fromkeys([*own, *(folder for path in far for folder in (path.parent, path.parent.parent))]))

    @property
    def chain(self) -> "list[Source]":
        """The sources compiled ahead of this one, and this one."""
        return [*(self.before.chain if self.before else []), self]

    _texts = cached_property(lambda self: [blank(text) for text in self.texts])  # without comments and strings

    _name = property(lambda self: self.template.partition("<")[0].strip())  # of the kernel whose template has arguments

    def _head(self, kernel: str) -> re.Match[str] | None:  # `template <typename T, int N = 4> __global__ void k(`
        heads = [each for each in _TEMPLATE.finditer(without_directives(self.code)) if each[3] == kernel]
        ends = [matching(self.code, each.end() - 1, "()") + 1 for each in heads]
        return next((head for head, end in zip(heads, ends, strict=True) if not _NO_BODY.match(self.code, end)), None)

    def is_open(self, kernel: str) -> bool:
        """True for a kernel that is a template without arguments."""
        return kernel != self._name and self._head(kernel) is not None

    def template_parameters(self, kernel: str) -> list[tuple[str, str, str]] | None:
        """The parameters of a kernel's template: name, kind and default, e.g. ("BM", "int", "64"); None without one."""
        if not (head := self._head(kernel)):
            return None
        declared = [each.partition("=") for each in split(" ".join(head[2].split())) if each]
        return [(left.split()[-1], " ".join(left.split()[:-1]), default.strip()) for left, _, default in declared]

    @cached_property
    def template_values(self) -> list[tuple[str, str, str]]:
        """The parameters of the kernel's template: name, kind and argument, e.g. ("BM", "int", "64")."""
        declared = self.template_parameters(self._name) if self.template else None
        given = [each for each in split(self.template.partition("<")[2].rpartition(">")[0]) if each]
        return [(own, kind, given.pop(0) if given else default) for own, kind, default in declared or ()]

    @property
    def texts(self) -> list[str]:
        """All that a compiler reads: the texts and the files that they include."""
        return [*(each.text for each in self.chain), *self.included.values()]

    def find(self, name: str, here: Path) -> Path | None:
        """The file of an include: by the including text, by the source, or where a project keeps its headers."""
        folders = (str(here), *self._around)  # Paths join in fivefold time
        return next((Path(os.path.normpath(p)) for f in folders if os.path.isfile(p := os.path.join(f, name))), None)

    @cached_property
    def _around(self) -> list[str]:
        near = [self.folder, *self.folder.parents][:4] if self.folder != CUDA else []
        far = [f"{folder}/{each}" for folder in near for each in ("", *_HEADERS)]
        return list(dict.fromkeys([*(str(each.folder) for each in reversed(self.chain)), *far]))

    def signature(self, kernel: str) -> Signature:
        """The kernel's signature. Raises ValueError if the text lacks it, or C++ would change its name."""
        if kernel not in self.kernels:
            names = ", ".join(self.kernels) or "no kernel (a kernel is `__global__ void name(...)`)"
            whole = "the text" if self.name == f"{kernel}.cu" else self.name  # a text is named after its kernel
            raise ValueError(f"{whole} has no kernel {kernel!r}; it defines {names}.")
        found = self.kernels[kernel]
        if len(found.lines) > 1:
            lines = " and ".join(map(str, found.lines))
            raise ValueError(f"{self.name} defines {kernel} in the lines {lines}. Take one away, or choose one.")
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
