"""`__shared__` variables translated: each becomes a reference into the running block's shared memory.

Where one is declared outside of functions, an object of a type of its own stands for it, so that C++ looks the name up.
A function that names it begins with a reference to what the name is there, the block's memory or another variable.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from minigrad.errors import CompileError
from minigrad.scan import (
    NO_TYPE,
    Edit,
    apply,
    bare,
    blank,
    end_of,
    is_function,
    items,
    matching,
    outside,
    split,
    without_directives,
)
from minigrad.source import Source

_SHARED = re.compile(
    r"\b(?:(?:extern|static|volatile|(?:alignas|__align__)\s*\([^()]*\))\s+)*(?:extern\s+[\w:]+\s+)?__shared__\b"
)
_OPENS_NAMESPACE = re.compile(r'(?:\bnamespace\b[\w\s:]*|\bextern\s*"\s*")\s*$')
NAME = re.compile(r"(\w+)[\s)]*$")  # the last word, also of `float (*rows`
_NO_EXTENT = re.compile(r"\[\s*\]")
_STRUCT = re.compile(r"(?:struct|class|union)\b")
_NESTED = r"\((?:[^()]|\([^()]*\))*\)"
# Up to its body; one that captures by reference sees the variables themselves.
_SAID = r"(?:(?:mutable|noexcept|constexpr|__\w+__)\s*)*"
_LAMBDA = re.compile(
    rf"\[(?!\s*&\s*[],])[^][]*\]\s*(?:<[^;{{}}]*?>\s*)?{_SAID}(?:{_NESTED})?\s*{_SAID}(?:->[\w\s:*&<>]+)?\{{"
)
_COPIES = re.compile(r"\[\s*=")
_SETS = re.compile(r"(\)[\s\w]*):(?!:).*", re.S)  # what a constructor sets
_USINGS = re.compile(r"(?:\s*using\s[\w\s:]+;)*")  # `using namespace a;`, `using a::s;`
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)\n]*\))?[ \t]+((?:\\\n|[^\n])*)", re.M)
_BRACKET = r"\s*\("

Scope = tuple[int, dict[str, str]]  # an offset, and the places of shared variables by the names known behind it


def macros(source: Source) -> tuple[tuple[str, str, str], ...]:
    """The macros with `__shared__` in their values: name, parameters in their brackets, value."""
    names = source.standing_for({"__shared__"}) - {"__shared__"}
    found = (each for text in (source.texts if names else []) for each in _DEFINE.findall(blank(text)))
    return tuple((name, args, value.replace("\\\n", " ")) for name, args, value in found if name in names)


@lru_cache(512)
def shared(
    code: str, macros: tuple[tuple[str, str, str], ...] = (), inside: bool = False
) -> tuple[list[Edit], list[Scope], list[Scope]]:
    """Declarations with `__shared__` -> references into the block's shared memory; outside of functions objects that
    stand for these. And by their names what each is in a lambda: of those outside of functions, and of the others.

    inside: all of the code is in a function.
    """
    edits, outer, inner = list[Edit](), list[Scope](), list[Scope]()
    plain = without_directives(code)
    for match, stop in declarations(_SHARED.finditer(plain), plain):
        declaration = " ".join(code[match.end() : stop].replace("\\\n", " ").split()).replace("alignas", "__align__")
        kept = re.sub(r"\b(?:static|__shared__)\b", " ", match.group()).replace("alignas", "__align__")
        text, extern = re.subn(r"^\s*(.*?)\bextern\b", r"\1", f"{kept} {declaration}")
        within = inside or inside_function(code, match.start())
        made, references = (_dynamic if extern and _NO_EXTENT.search(text) else _static)(text, within)
        (inner if within else outer).append((stop, references))
        newlines = "\n" * code.count("\n", match.start(), stop)
        edits.append((match.start(), stop + 1, made.rstrip() + newlines))
    for name, parameters, value in macros:
        for use in re.finditer(rf"\b{name}\b{_BRACKET * bool(parameters)}", plain):
            end = matching(plain, use.end() - 1, "()") + 1 if parameters else use.end()
            given = dict(zip(split(parameters[1:-1]), split(plain[use.end() : end - 1]), strict=False))
            text = re.sub(r"\w+", lambda word, given=given: given.get(word[0], word[0]), value)  # type: ignore[misc]
            open_ended = not text.rstrip().endswith(";")
            stop = end_of(plain, end, ";") + 1 if open_ended else end
            text = re.sub(r"\s*##\s*", "", text) + plain[end:stop]
            own, *found = shared(text, macros, inside or inside_function(code, use.start()))
            outer += [(stop, pairs) for _, pairs in found[0]]
            inner += [(stop, pairs) for _, pairs in found[1]]
            edits.append((use.start(), stop, apply(own, text) + "\n" * code.count("\n", use.start(), end)))
    return edits, outer, inner


def in_functions(source: Source, code: str, scopes: list[Scope], inner: list[Scope]) -> list[Edit]:
    """At the head of each function references of the shared variables outside of it that it names: C++ looks the name
    up, and what is no shared variable stays itself. Also at that of a lambda, which would capture a reference.

    scopes and inner: the variables outside of functions and inside, each with the offset from which it is known.
    Raises CompileError for a lambda that a macro makes and that would have a copy.
    """
    edits: list[Edit] = []
    for head, start, stop in _bodies(code, 0, len(code)) if inner or any(pairs for _, pairs in scopes) else []:
        if re.search(r"\bconstexpr\b[^;{}]*$", head):
            continue  # it cannot use shared memory
        outer = {name: place for at, pairs in scopes if at < start for name, place in pairs.items()}
        used = [n for n in outer if _uses(code[start:stop], source.standing_for({n})) and not _declared(head, n)]
        seen = [f'typedef decltype({n}) minigrad_{n}_seen; auto&& minigrad_{n}_here = minigrad::here({n}, "{n}"); '
                for n in used]  # fmt: skip
        behind = _USINGS.match(code, start).end()  # type: ignore[union-attr]
        edits += _around(behind, stop, seen, [f"auto&& {n} = minigrad_{n}_here; " for n in used])
        _no_copies(source, code, start, stop, {*used, *(n for at, pairs in inner if start < at < stop for n in pairs)})
        for found in _LAMBDA.finditer(code, start, stop):
            ahead = code[start : found.start()].rstrip()
            if re.search(r"[\w)\]]$", ahead) and not ahead.endswith("return"):
                continue  # it is an index
            first, last = found.end(), matching(code, found.end() - 1, "{}")
            known = [(at, name, place) for at, pairs in inner if start < at < first for name, place in pairs.items()]
            around, ends = _open(f"{head}{code[start - 1 : found.start()]}"), len(head) - start + 1
            own = {name: place for at, name, place in known if not around[at + ends - 1 : at + ends].isspace()}
            last_set = {name: at + ends for at, name, _ in known}
            places = {
                name: place
                for name, place in ({n: outer[n] for n in used} | own).items()
                if _declared(around, name) <= last_set.get(name, 0) and not _uses(found[0], {name})
            }
            named = [n for n in [*used, *own] if _uses(code[first:last], source.standing_for({n}))]
            words = [f"{places[n]} " for n in named if n in places]
            if re.match(
                r"\[\s*=", found[0]
            ):  # what looks like a declaration of the name must be one: a copy is no reference
                ours = [n for n in named if n not in places and not _uses(found[0], {n})]
                words += [f"static_assert(!minigrad::is_reference<decltype({n})>, MINIGRAD_TWO_NAMES); " for n in ours]
            edits += _around(first, last, words)
    return edits


def _no_copies(source: Source, code: str, start: int, stop: int, names: set[str]) -> None:
    """Raise CompileError where a lambda that takes copies names a shared variable, and is not all in the text."""
    if not names:
        return
    whole = {found.start() for found in _LAMBDA.finditer(code, start, stop)}
    makers, words = source.standing_for((), _COPIES), source.standing_for(names)
    for found in re.compile(rf"{_COPIES.pattern}|\b(?:{'|'.join(makers) or '(?!)'})\b").finditer(code, start, stop):
        end = min(end_of(code, found.start(), ";"), stop)
        if found.start() not in whole and _uses(code[found.start() : end], words):
            line = code.count("\n", 0, found.start()) + 1
            raise CompileError(
                f"{source.name}({line}): a lambda that a macro makes would have a copy of a __shared__ variable here. "
                "Write the lambda without the macro, or capture by [&]."
            )


def _around(start: int, stop: int, *words: list[str]) -> list[Edit]:
    """Declarations at the head of a body, each list of them in a scope around it."""
    text = "".join(f" {''.join(each)}{{" for each in words)
    return [(start, start, text), (stop, stop, "}" * len(words))] if words[0] else []


def _open(code: str) -> str:
    """The scopes around the end of the code: spaces in place of blocks and brackets that are closed before it."""
    closed = re.compile(r"{[^{}]*}|\((?:[^(){}]|\([^(){}]*\))*\)(?![^;(){}]*\{)")
    while code != (less := closed.sub(lambda found: " " * len(found[0]), code)):
        code = less
    return code


_CONDITION = re.compile(r"\b(?:if|while|switch)\s*\((?:[^(){};=]|[=!<>]=|\([^()]*\))*\)")  # that declares nothing


def _declared(code: str, name: str) -> int:
    """The offset behind the last declaration of a name in open scopes; 0: there is none."""
    code = _CONDITION.sub(lambda found: " " * len(found[0]), code)
    kinds = (
        rf"(?!(?:{NO_TYPE}|if|while|for|switch|do|and|or|not|sizeof)\b)(?:[A-Za-z_][\w:]*(?:\s*<[^;{{}}()]*>)?[\s*&]+)+"
    )
    begin = r"(?:^|[;{}(,:]|\btemplate\s*<)"
    found = re.finditer(rf"{begin}\s*{kinds}(?:[^;{{}}()]*,[\s*&]*)?{name}(?=\s*(?:[=;,[({{:)>]|$))", code)
    return max((each.end() for each in found), default=0)


def in_heads(code: str, scopes: list[Scope]) -> list[Edit]:
    """Shared variables by names with a namespace, in defaults, and where a constructor sets: C++ looks them up."""
    edits: list[Edit] = []
    known = {name: at for at, pairs in scopes for name in pairs}
    if not known:
        return edits
    bodies = [(start, stop) for _, start, stop in _bodies(code, 0, len(code))]
    space = r"(?<![\w.])(?P<space>(?:(?:(?!return\b)\w+\s*)?::\s*)+)?"
    for found in re.finditer(rf"{space}(?P<name>{'|'.join(known)})\b(?!\s*\()", code):
        word = re.sub(r".*?(\w*)[\s:]*$", r"\1", found["space"] or "", flags=re.S)
        named = found["space"] is not None and (not word or re.search(rf"\bnamespace\s+[\w\s:]*\b{word}\b", code))
        inside = any(start <= found.start() < stop for start, stop in bodies)
        ahead = code[max(0, found.start() - 300) : found.start()]
        named = named and not re.search(r"\busing\s*$", ahead)
        set_here = not inside and re.search(r"(?:=\s*|\)\s*:[^;{}]*|\bsizeof[\s(*&]*)$", ahead)
        if known[found["name"]] < found.start() and (named or (set_here and found["space"] is None)):
            edits.append((*found.span(), f'minigrad::here({found[0]}, "{found["name"]}")'))
    return edits


def in_types(source: Source, code: str, scopes: list[Scope]) -> list[Edit]:
    """`decltype(s)` is the variable's type, not the reference's. Raises CompileError where it is not known."""
    edits: list[Edit] = []
    known = {name for _, pairs in scopes for name in pairs}
    if not known or "decltype" not in (whole := "\n".join(map(blank, source.texts))):
        return edits
    its = rf"(?:[\w:\s]*::\s*)?(?P<name>{'|'.join(source.standing_for(known))})\s*"
    makes = "|".join(re.findall(r"#[ \t]*define[ \t]+(\w+)\((?:\\\n|[^\n])*\bdecltype\b", whole)) or "(?!)"
    copies = rf"\bdecltype\s*\(\s*auto\s*\)\s*\w+\s*[=({{]\s*{its}[;)}}]"
    passes = rf"\b(?:{makes})\s*\((?:[^;()]*,)?\s*{its}[,)]"
    named = re.compile(rf"\bdecltype\s*\(\s*{its}\)")
    for found in (*named.finditer(code), *re.finditer(copies, code), *re.finditer(passes, code)):
        name = found["name"]
        other = rf"[\w>]\s*&&?\s*{name}\s*[=,;:){{(]|\(\s*&\s*{name}\s*\)\s*\["  # a reference of that name
        if found.re is not named or name not in known or re.search(other, whole):
            line = code.count("\n", 0, found.start()) + 1
            raise CompileError(
                f"{source.name}({line}): write the type of the __shared__ variable in place of {found[0]}."
            )
        edits += [(found.start(), found.start(), "minigrad::declared<"), (found.end(), found.end(), ">")]
    return edits


def _bodies(code: str, start: int, stop: int) -> Iterator[tuple[str, int, int]]:
    """The functions between two offsets: the text ahead of the body, in a struct all of it, and where the body is."""
    for item in items(code[start:stop]):
        head, first, last = code[start + item.start : start + item.body], start + item.body + 1, start + item.stop - 1
        if code[first - 1] == "{" and is_function(head):
            yield _SETS.sub(r"\1", head), first, last
        elif code[first - 1] == "{" and _STRUCT.match(bare(head)):
            inner = [*_bodies(code, first, matching(code, first - 1, "{}"))]
            own = _members(apply([(a - first, b - first, "") for _, a, b in inner], code[first:last]))
            yield from ((f"{own} {each}", a, b) for each, a, b in inner)


def _members(body: str) -> str:
    """The text of a struct without what stands in brackets, but for unions and structs that have no name within it."""
    closed = re.compile(
        r"(\b(?:struct|union)\s*)?\{([^{}]*)\}(\s*;)?|\([^(){}]*\)|\btemplate\s*<[^;{}()]*?>(?!\s*[>,])"
    )
    while body != (
        less := closed.sub(lambda each: f"; {each[2]};" if each[1] and each[3] else f" {each[3] or ''}", body)
    ):
        body = less
    return body


def _uses(code: str, names: Collection[str]) -> bool:
    """True if the code has one of these names, and not as a member's."""
    return bool(re.search(rf"(?<![.\w])(?<!->)(?<!::)(?:{'|'.join(names)})\b", code))


def declarations(starts: Iterable[re.Match], code: str) -> Iterator[tuple[re.Match, int]]:
    """The matches that a semicolon follows, and its index."""
    for match in starts:
        stop = end_of(code, match.end(), ";")
        if code[stop : stop + 1] == ";":
            yield match, stop


def _static(declaration: str, within: bool) -> tuple[str, dict[str, str]]:
    """`float a[2][3], b` -> typedefs with the same declarators, slots, and references of these or what stands for them.

    With the text that makes each name the variable in a lambda.
    """
    names = [NAME.search(_head(each))[1] for each in split(declaration)]  # type: ignore[index]
    text = f"typedef {', '.join(map(_rename, split(declaration)))}; "
    text += "".join(f'static minigrad::Slot minigrad_{name}_slot = {{"{name}"}}; ' for name in names)
    places = {name: f"minigrad::shared<minigrad_{name}_type>(minigrad_{name}_slot)" for name in names}
    return _named(text, places, within, "&minigrad_{0}_slot")


def _dynamic(declaration: str, within: bool) -> tuple[str, dict[str, str]]:
    """`float s[]` -> a typedef, and a reference to the dynamic shared memory or what stands for it."""
    name = NAME.search(_head(declaration))[1]  # type: ignore[index]
    place = f'minigrad::dynamic_shared<minigrad_{name}_type>("{name}")'
    return _named(f"typedef {_rename(declaration)}; ", {name: place}, within, "nullptr")


def _named(text: str, places: dict[str, str], within: bool, slot: str) -> tuple[str, dict[str, str]]:
    if within:
        text += "".join(f"minigrad_{name}_type& {name} = {place}; " for name, place in places.items())
        same = "static_assert(minigrad::same<decltype({0}), minigrad_{0}_type&>, MINIGRAD_TWO_NAMES); auto& {0} = {1};"
        return text, {name: same.format(name, place) for name, place in places.items()}
    stands = "extern MINIGRAD_WEAK minigrad::Outer<minigrad_{0}_type, " + slot + "> {0}; "
    text += "".join(stands.format(name) for name in places)
    return text, {name: f'auto& {name} = minigrad::Place<minigrad_{name}_seen>::at("{name}");' for name in places}


def _head(declarator: str) -> str:
    """The declarator up to its extents."""
    return declarator[: next(outside(declarator, "[", "(<{", ")>}"), None)]


def _rename(declarator: str) -> str:
    head = _head(declarator)
    return NAME.sub(lambda m: f"minigrad_{m[1]}_type" + m.group()[len(m[1]) :], head) + declarator[len(head) :]


def inside_function(code: str, position: int) -> bool:
    """True inside a brace other than that of a namespace or an extern "C"."""
    open_braces = []
    for match in re.finditer(r"[{}]", code[:position]):
        if match.group() == "{":
            open_braces.append(bool(_OPENS_NAMESPACE.search(code[: match.start()][-200:])))
        elif open_braces:
            open_braces.pop()
    return not all(open_braces)
