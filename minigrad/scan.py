"""CUDA C++ text scanned without a parser: comments blanked, brackets matched, edits applied."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

# Comments, R"(text)", numbers as 10'000, strings and characters.
_TOKENS = re.compile(
    r"//(?:\\\n|[^\n])*|/\*.*?\*/|\b(?:u8|[uUL])?R\"([^()\\\s]{0,16})\(.*?\)\1\"|\b\d[\w.]*(?:'[\w.]+)+"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'",
    re.S,
)
_COMPILER = ("_", "CUDA", "MINIGRAD_")  # first signs of macros of compilers
_WORDS = re.compile(r"^[ \t]*#[ \t]*(\w*)\s*(.*?)\s*$", re.S)  # of a directive
_MACRO = re.compile(r"(\w+)(\(?)(?:\\\n|\s)*(.*)", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)
_SIGN = re.compile(rf"[()\[\]{{}};]|{DIRECTIVE.pattern}", re.M)
_OPENS = re.compile(r'\s*(?:(?:inline\s+)?namespace\b[^;=()]*|extern\s*" "\s*)$')
_TEMPLATE = re.compile(r"\btemplate\s*<[^{};]*?>(?=\s*[A-Za-z_\[])")
_NESTED = r"[^()]"
for _ in range(5):
    _NESTED = rf"(?:[^()]|\({_NESTED}*\))"
ATTRIBUTE = re.compile(rf"\b(?:alignas|__align__|__attribute__)\s*\({_NESTED}*\)|\[\[[^\]]*\]\]")
BOUNDS = re.compile(rf"__(?:launch_bounds|cluster_dims|attribute)__\s*\({_NESTED}*\)")
# The head of a constructor up to a brace with the value of a member: `S() : h(0), q`.
_INITIALIZER = re.compile(r"\)[^()]*(?<!:):(?!:).*(?<!\bconst)(?<!\bnoexcept)(?<=[\w>])\s*$", re.S)
_TYPE = re.compile(r"\s*(?:typedef\s+)?(?:struct|class|union|enum)\b[^()]*$")

INCLUDE = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*(?:"(?P<near>[^"\n]+)"|<(?P<far>[^>\n]+)>)[^\n]*""", re.M)
# Headers of C and of systems, left to the compiler as C++'s own are, which have no dot in their names.
_C_HEADER = re.compile(
    r"(?:assert|complex|ctype|errno|fenv|float|getopt|inttypes|limits|locale|malloc|math|memory|omp|pthread|setjmp"
    r"|signal|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|strings|time|unistd|wchar|bits/.*|sys/.*)\.h"
)
_SIGHT = re.compile(r"\S")
_WORD = re.compile(r"[A-Za-z_]\w*")
NO_TYPE = "return|goto|else|case|typedef|using|delete|throw|new"  # words that begin no declaration of a variable
_NOT_HOST = re.compile(
    r"(?:(?:typedef|using|namespace|struct|class|union|enum|static_assert|asm|template)\b|extern\s*[\"t])"
)
_HOST_FUNCTION = re.compile(r"(?:[\w:<>,*&\s]+[\s*&>]~?[\w:]+|main)\s*\(")

Edit = tuple[int, int, str]  # the text between two offsets, and what replaces it


# Types that are no structs of the reader's: those of the language, and minigrad's own, which `kernels` has.
OWN_STRUCTS = {"View", "Window", "Frame"}  # of the package's headers, where a text includes these
READ = {"real", "wide", "bfloat16", "float", "double", "int", "unsigned", "bool", "TensorMap", *OWN_STRUCTS}
_TYPE_WORDS = {"*", "&", "char", "short", "long", "signed", "const"}


class Param(NamedTuple):
    """One parameter of a kernel, e.g. `const real* x` or `int n`."""

    name: str
    type: str
    pointer: bool
    const: bool
    members: tuple = ()  # of a struct: (type, declarator, members of that type), see `scan.members`

    def __str__(self) -> str:
        return f"{'const ' if self.const else ''}{self.type}{'*' if self.pointer else ''} {self.name}"

    def declared(self, kind: str) -> str:
        """Its declaration with another type."""
        return f"{'const ' * self.const}{kind} {'*' * self.pointer} {self.name}"


@dataclass(frozen=True)
class Signature:
    """A kernel's name, its parameters and its location in its file."""

    name: str
    params: tuple[Param, ...]
    lines: tuple[int, ...]  # of its definitions; one, or the name has two meanings
    start: int  # the offset of its text in the file, with the comment lines above it
    stop: int
    stops: tuple[int, ...]  # where it ends in each branch of an #if
    c_name: bool  # declared extern "C": the compiled function keeps its name
    line = property(lambda self: self.lines[0], doc="The line of the word __global__.")


class TopLevel(NamedTuple):
    """A declaration or a definition outside of functions: its first sign, its body's brace or its end, and its end."""

    start: int
    body: int
    stop: int


@lru_cache(256)
def items(code: str) -> tuple[TopLevel, ...]:
    """The items of blanked code, also those in namespaces. Directives are none."""
    return tuple(_items(code))


def _items(code: str) -> Iterator[TopLevel]:
    start, body, depth, branches = 0, -1, 0, False  # branches: of an #if in the item's head, up to its #endif
    for sign in _SIGN.finditer(code):
        mark = sign[0]
        if mark in ("(", "[", "{"):
            if mark == "{" and not depth and _OPENS.match(code, start, sign.start()):
                start = sign.end()
                continue
            if mark == "{" and not depth:
                body = sign.start()
            depth += 1
        elif mark in (")", "]", "}"):
            if not depth:  # the end of a namespace, and of macros ahead of it that have no semicolon
                if code[start : sign.start()].strip():
                    yield TopLevel(_first_sign(code, start), sign.start(), sign.start())
                start, body = sign.end(), -1
                continue
            depth -= 1
        elif mark != ";" and not code[start : sign.start()].strip():
            start = sign.end()  # behind a directive
        elif branches and mark != ";" and not is_open(code[start : sign.end()]):
            yield TopLevel(_first_sign(code, start), body, sign.end())
            start, body, branches = sign.end(), -1, False
        if mark == "}" and not depth and _INITIALIZER.search(code[start:body]):
            continue
        if not depth and mark == "}" and is_open(code[start:body]):
            branches = True
        if not (depth or branches) and (mark == ";" or (mark == "}" and is_function(code[start:body]))):
            yield TopLevel(_first_sign(code, start), sign.start() if body < 0 else body, sign.end())
            start, body = sign.end(), -1


def is_open(code: str) -> bool:
    """True where an #if has no #endif yet."""
    return "#" in code and len(re.findall(r"#[ \t]*if", code)) > len(re.findall(r"#[ \t]*endif", code))


def _first_sign(code: str, start: int) -> int:
    """The offset of the first sign that is no space."""
    found = _SIGHT.search(code, start)
    return found.start() if found else len(code)


def bare(head: str) -> str:
    """A declaration without its template parameters, attributes and alignment."""
    return ATTRIBUTE.sub(" ", _TEMPLATE.sub(" ", head)).strip()


def item_name(head: str) -> str:
    """The name that the text of an item up to its body declares."""
    words = _WORD.findall(re.split(r"[(=\[]", bare(BOUNDS.sub(" ", head)))[0])
    return words[-1] if words else ""


def is_function(head: str) -> bool:
    """True for a definition's text up to its brace, if that brace opens a function."""
    head = bare(head)
    before = re.sub("[=!<>]=", " ", head.partition("(")[0])  # as in std::enable_if<N == 2>
    return "(" in head and not _TYPE.match(head) and ("=" not in before or "operator" in before)


def is_host(code: str, item: TopLevel, device: frozenset[str]) -> bool:
    """True for a function or a variable that has none of these words of device code in its head."""
    whole = code[item.start : item.body]
    head = bare(whole)
    if device & set(_WORD.findall(whole)) or _NOT_HOST.match(head):
        return False
    if is_function(whole):
        return bool(_HOST_FUNCTION.match(head))
    constant = re.match(r"template|.*\bconst\b", re.sub(r"<[^<>]*>", "", whole), re.S)
    return bool(code[item.body] == ";" and _WORD.match(head) and not constant)


def asked(include: re.Match[str]) -> str:
    """The name of an included file; nothing for a header of C, C++ or the system."""
    name = include["near"] or include["far"]
    standard = ("." not in name and "/" not in name) or _C_HEADER.fullmatch(name)
    return "" if include["far"] and standard else name


def between_directives(code: str, item: TopLevel) -> list[tuple[int, int]]:
    """The parts of an item that give way where it is left out: its directives may open or close a branch around it."""
    stay = [place for found in DIRECTIVE.finditer(code, item.start, item.stop) for place in found.span()]
    ends = [item.start, *stay, item.stop]
    return [*zip(ends[::2], ends[1::2], strict=True)]


def apply(edits: list[Edit], text: str) -> str:
    """The text with its edits; of two that overlap the first one counts."""
    chunks, at = [], 0
    for start, stop, replacement in sorted(edits):
        if start >= at:
            chunks += [text[at:start], replacement]
            at = stop
    return "".join([*chunks, text[at:]])


@lru_cache(256)
def blank(text: str) -> str:
    """The text with spaces in place of comments and the contents of strings: same length, same lines."""

    def spaces(found: re.Match) -> str:
        token = found.group()
        filler = re.sub(r"[^\n]", " ", token)
        if token[0].isdigit():
            return token
        if token[0] in "uULR":
            return '""' + filler[2:]
        return token[0] + filler[1:-1] + token[-1] if token[0] in "\"'" else filler

    return _TOKENS.sub(spaces, text)


def without_directives(code: str) -> str:
    """The code with spaces in place of `#define` and the like: same length, same lines."""
    return DIRECTIVE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), code)


def live(code: str, macros: dict[str, str | None], include: Callable[[int], None] = lambda _: None) -> str:
    """The code with spaces in place of the branches of `#if` that are not compiled: same length, same lines.

    macros: their values by name, None for one that is not known here. Those that the code defines are added. A branch
    whose condition is not known stays. include: called with the offset of each #include that is compiled.
    """
    chunks, at = [], 0
    opened: list[list[bool | None]] = []  # of each #if: its branch is compiled, one before it was; None: not known

    def keep(until: int) -> None:
        nonlocal at
        part, at = code[at:until], until
        chunks.append(part if all(branch[0] is not False for branch in opened) else re.sub(r"[^\n]", " ", part))

    lines = [(line, *_WORDS.findall(line[0].replace("\\\n", " "))[0]) for line in DIRECTIVE.finditer(code)]
    behind = accumulate((word[:2] == "if") - (word == "endif") for _, word, _ in lines)
    depths = [d - ("el" in each[1]) for d, each in zip(behind, lines, strict=True)]  # of an #else, that around its #if
    ends = lines and lines[-1][1] == "endif" and not code[lines[-1][0].end() :].strip()  # as an include guard does
    for n, (line, word, rest) in enumerate(lines):
        if word in ("if", "ifdef", "ifndef"):
            keep(line.end())
            guards = word == "ifndef" and ends and lines[n + 1][1:] == ("define", rest) and rest not in macros
            guards = guards and not opened and 0 not in depths[n:-1]
            holds = False if any(each[0] is False for each in opened) else guards or _holds(word, rest, macros)
            opened.append([holds, holds])
        elif word in ("else", "elif") and opened:
            keep(line.start())
            branch, holds = opened.pop(), True if word == "else" else _holds("if", rest, macros)
            branch[0] = False if branch[1] or holds is False else None if branch[1] is None else holds
            opened.append([branch[0], branch[1] or (None if None in (branch[1], holds) else holds)])
        elif word == "endif" and opened:
            keep(line.start())
            opened.pop()
        elif word == "include" and all(branch[0] is not False for branch in opened):
            include(line.start())
        elif word in ("define", "undef") and all(branch[0] is not False for branch in opened):
            found = _MACRO.match(rest)
            name, function, value = found.groups() if found else ("", "", "")
            if word == "undef":
                macros.pop(name, None)
            elif name not in macros or macros[name] is not None:
                macros[name] = value if all(branch[0] for branch in opened) and not function else None
    keep(len(code))
    return "".join(chunks)


def live_files(
    text: str, here: Path, macros: dict[str, str | None], find: Callable[[str, Path], Path | None], left: set[Path]
) -> list[str]:
    """The live code of a text, after that of the files that it includes, each where it stands: macros ahead count.

    here: the folder of the text; left: the files that are read, each once.
    """
    found: list[str] = []

    def include(at: int) -> None:
        path = find(asked(each), here) if (each := INCLUDE.match(text, at)) else None
        if path in left:
            left.remove(path)
            found.extend(live_files(path.read_text(errors="replace"), path.parent, macros, find, left))

    plain = re.sub(r"\b\d[\w.]*'[\w.']+", lambda found: found[0].replace("'", "").ljust(len(found[0])), blank(text))
    code = live(plain, macros, include)
    return [*found, code]


def _holds(word: str, condition: str, macros: Mapping[str, str | None]) -> bool | None:
    """The truth of a condition; None where it needs a macro of the compiler, or is not understood."""
    if word != "if":
        condition = f"{'!' * (word == 'ifndef')}defined({condition.split()[0] if condition else ''})"
    unknown = False

    def defined(found: re.Match) -> str:
        nonlocal unknown
        name = found[1] or found[2]
        unknown = unknown or name.startswith(_COMPILER) or (name in macros and macros[name] is None)
        return str(int(name in macros))

    def value(found: re.Match) -> str:
        nonlocal unknown
        name = seen = found[0]
        while name in macros and (seen := macros[name] or "") != name and seen.isidentifier():
            name = seen
        seen = macros.get(name, "0") if name not in ("true", "false") else str(int(name == "true"))
        unknown = unknown or name.startswith(_COMPILER) or not re.fullmatch(r"[\d()]+", seen or "")
        return seen or "0"

    text = re.sub(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))", defined, condition)
    text = re.sub(r"\b[A-Za-z_]\w*\b", value, re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text))
    if unknown or not re.fullmatch(r"[\d\s()<>=!&|+*-]+", text):
        return None
    for sign, meaning in (("&&", " and "), ("||", " or "), (r"!(?!=)", " not ")):
        text = re.sub(re.escape(sign) if sign[0] != "!" else sign, meaning, text)
    try:
        return bool(eval(re.sub(r"\b0+(?=\d)", "", text), {"__builtins__": {}}))
    except SyntaxError:
        return None


def matching(code: str, start: int, pair: str) -> int:
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


def split(declaration: str) -> list[str]:
    """Split at the commas outside of brackets."""
    commas = outside(declaration, ",", "([{<", ")]}>")
    return [declaration[start + 1 : stop].strip() for start, stop in pairwise([-1, *commas, len(declaration)])]


def outside(code: str, sign: str, opening: str, closing: str) -> Iterator[int]:
    """The places of a sign outside of these brackets."""
    depth = 0
    for i, each in enumerate(code):
        if each == sign and depth == 0:
            yield i
        depth += (each in opening) - (each in closing)


def parameter(text: str) -> Param:
    """`const real* __restrict__ x` -> Param("x", "real", pointer=True, const=True)."""
    left = r"\b(?:__restrict__|__restrict|restrict|__grid_constant__)\b|\[\[.*?\]\]"
    plain = re.sub(left, " ", text).partition("=")[0]
    extent = r"\s*\[[^\]]*\]"
    plain = re.sub(rf"(\w+){extent}\s*$", r"* \1", plain)
    plain = re.sub(rf"(\w+){extent}((?:{extent})+)\s*$", r"(* \1)\2", plain)  # float x[][8]
    if rows := re.search(r"\(\s*\*\s*(?:const\b\s*)?(\w+)\s*\)", plain):  # float (*x)[8]
        kind = " ".join(word for word in plain[: rows.start()].split() if word not in ("const", "volatile"))
        return Param(rows[1], kind + plain[rows.end() :].strip(), True, "const" in plain[: rows.start()].split())
    words = plain.replace("*", " * ").replace("&", " & ").split()
    own = words[-1:] in (["real"], ["wide"]) and set(words[:-1]) - {"const", "volatile"}  # `double real` is a member
    name = words.pop() if own or (len(words) > 1 and words[-1] not in READ | _TYPE_WORDS) else "unnamed"
    pointer, const = "*" in words, "const" in words[: words.index("*")] if "*" in words else "const" in words
    kind = " ".join(word for word in words if word not in ("const", "*", "volatile", "struct", "enum", "typename"))
    return Param(name, kind + "*" * (words.count("*") - 1), pointer, const)


_EXTERN_C, _ENDS_ITEM = re.compile(r'\bextern\s*" "\s*{?'), re.compile("[{};]")  # extern "C" after `blank`


@lru_cache(8)
def _c_names(code: str) -> list[tuple[int, int]]:
    """The end of each extern "C", and that of its braces; 0 where it has none."""
    found = ((each.end(), each[0].endswith("{")) for each in _EXTERN_C.finditer(code))
    return [(end, matching(code, end - 1, "{}") if braces else 0) for end, braces in found]


def has_c_name(code: str, at: int) -> bool:
    """True if extern "C" precedes this offset, or the braces around it."""
    ahead = ((end, close) for end, close in _c_names(code) if end <= at)
    return any(close > at if close else not _ENDS_ITEM.search(code, end, at) for end, close in ahead)


_KIND = r"(?P<type>[\w\s:*]+?(?:<[^;{}()]*>[\w\s:*]*?)?)"
_ALIASES = (
    re.compile(rf"\btypedef\s+{_KIND}(?<![:])(?<=[\s*])(?P<name>\w+)\s*;"),
    re.compile(rf"\busing\s+(?P<name>\w+)\s*=\s*{_KIND}\s*;"),
    re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)[ \t]+(?P<type>[A-Za-z_][\w ]*?)[ \t]*$", re.M),
)
_AHEAD = re.compile(r"\btemplate\s*<[^{};#]*>\s*\Z")


@lru_cache(256)
def renamed(text: str) -> list[re.Match[str]]:
    """The matches of typedef, using and #define that give a type another name, without those of a template."""
    found = (match for pattern in _ALIASES for match in pattern.finditer(text))
    return [match for match in found if not _AHEAD.search(text[max(match.start() - 300, 0) : match.start()])]
