"""Structs, classes and enums in CUDA C++ text: their members, a template's instances, and values by name."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from minigrad.scan import ATTRIBUTE, items, matching, parameter, renamed, split, without_directives

BYTES = {"char": 1, "bool": 1, "short": 2, "half": 2, "__half": 2, "int": 4, "unsigned": 4, "float": 4, "double": 8}
EMPTY = (("alignas", "1", ()),)  # the members of a struct without any, which has one byte
# What stands among a struct's members and is none.
MARKS = ("alignas", "union", "open", "private", "default")
_ALIGNED = re.compile(r"(?:minigrad_align_\d+\s+)*\s*")
_ACCESS = re.compile(r"\b(public|private|protected)\s*:(?!:)")
_PACK = re.compile(r"#\s*pragma\s+pack\s*\(([^)]*)\)")
_EXTENT = re.compile(r"\[((?:[\d\s()*/%+-]|<<|>>)+)\]")
_CONSTANT = re.compile(r"\b(?:const|constexpr)\s+((?:[\w:]+\s+)+?)(\w+\s*(?:\[[^;{}]*)?[={][^;]*);")
_WHOLE = re.compile(r"(?:(?:static|inline|const|constexpr|unsigned)\s+)*(?:int|unsigned|size_t)")
_ENUM = re.compile(r"\benum\b(?!\s+(?:class|struct)\b)[^{};()]*\{([^{}]*)\}")
_VALUE = re.compile(r"(\w+)\s*(?:=\s*(.*)|\{(.*)\})", re.S)
_STRUCT_HEAD = re.compile(r"\b(?:struct|class|union)\b")
_REAL = re.compile(r"(?<![.>:\w])real\b")
_OWN_REAL = re.compile(  # a variable, a member or a function of that name
    r"(?<![\w.])(?!(?:const|constexpr|return|else|case|new|operator|typename|class|volatile|static|inline)\b)"
    r"[A-Za-z_]\w*(?:\s*[*&]\s*real\s*[;,=[]|\s+real\s*[;,=[({])"  # `q * real(2)` is a product
)
_WORD = re.compile(r"\b[A-Za-z_]\w*")


@lru_cache(64)
def of_struct(code: str, struct: str) -> list[tuple[str, str]]:
    """The types and declarators of a struct's members, e.g. [("float", "x"), ("float*", "p")]; none: it is not here.

    Bases come first, without a declarator, as do unions and structs that have no name within it. A struct that is
    written there is its own type: its text. ("?", text) is a member whose layout is not read. There are MARKS among
    them: an alignment ahead of what it is for, ("alignas", "16"); "union"; "open" of a struct in whose last bytes
    C++ may place what is derived from it, "private", and ("default", "n = 3") of a member with a value in the text, or
    ("default", "") where a constructor without arguments gives values.
    """
    word, code = re.escape(struct), ATTRIBUTE.sub(_alignment, code)
    pattern = rf"\b(?P<key>struct|class|union)\s+(?P<more>[^{{}};()=<:]*?)\b{word}\b(?P<base>[^{{}};()=]*)\{{"
    heads = [*re.finditer(pattern, code)]
    if len(heads) > 1:
        return [("?", f"two structs {struct}")]  # in several namespaces
    head = heads[0] if heads else None
    aligned = r"(?:\s*minigrad_align_\w+)*"
    if not head and (alias := re.search(rf"\}}{aligned}\s*{word}\s*[;,]", code)):  # typedef struct { ... } Name;
        typedefs = re.finditer(rf"\btypedef\s+(?P<key>struct|union)(?P<more>{aligned})(?P<base>)[^{{}};]*\{{", code)
        head = next((each for each in typedefs if matching(code, each.end() - 1, "{}") == alias.start()), None)
    if not head:
        return []
    end = matching(code, head.end() - 1, "{}")
    body, more = code[head.end() : end], head["more"].strip()
    packed = [each[1] for each in _PACK.finditer(code, 0, head.start())][-1:] or [""]
    around = f"{more} {code[end + 1 : code.find(';', end)] if 'minigrad' in code[end : code.find(';', end)] else ''}"
    if re.search(r"\d", packed[0]) or not _ALIGNED.fullmatch(around.strip() + " "):
        return [("?", f"packed {struct}")]
    found = [("alignas", each) for each in re.findall(r"\d+", more)] + [("union", "")] * (head["key"] == "union")
    bases = [
        re.sub(r"\b(?:public|protected|private)\b", "", each).strip() for each in split(head["base"].strip(": \n"))
    ]
    found += [("?", base) if " " in base else (base, "") for base in filter(None, bases)]
    if any(bases):
        found.append(("open", ""))
    access = [(each.start(), each[1]) for each in _ACCESS.finditer(body) if _outside_braces(body, each.start())]
    body = _ACCESS.sub(lambda each: " " * len(each[0]), body)
    for item in items(body):
        said = next((word for at, word in reversed(access) if at < item.start), head["key"])
        text = body[item.start : item.stop].rstrip("; \n")
        made = [*_declared(text, struct)]
        hidden = said in ("class", "private", "protected") and any(kind not in MARKS for kind, _ in made)
        found += [*made, *([("private", ""), ("open", "")] if hidden else [])]
    rest = body[max((item.stop for item in items(body)), default=0) :].strip()  # such as macros without semicolons
    return [*found, *([("?", rest)] if rest else [])] or [("alignas", "1")]


def _outside_braces(code: str, at: int) -> bool:
    return code.count("{", 0, at) == code.count("}", 0, at)


def _declared(text: str, struct: str) -> Iterator[tuple[str, str]]:
    """The members that an item of a struct declares."""
    if not text or re.match(r"(?:static|using|typedef|friend|static_assert|template)\b", text):
        return
    if aligned := re.match(r"minigrad_align_(\d+)\s*", text):
        for each in _declared(text[aligned.end() :], struct):
            yield from (each,) if each[0] in MARKS else (("alignas", aligned[1]), each)
        return
    if inner := re.match(r"(struct|class|union|enum)\b([^{;(]*)\{", text):  # a type that is written here
        key, name = inner[1], re.sub(r"\bclass\b|:.*", "", inner[2], flags=re.S).strip()
        end = matching(text, inner.end() - 1, "{}") + 1
        kind, declared = name or ("int" if key == "enum" else text[:end]), text[end:].strip()
        if declared:
            yield from _declarators(kind, declared)
        elif key != "enum" and not name:
            yield kind, ""
        return
    plain = re.sub(r"\boperator\s*[^\w\s(]+|\[[^\]]*\]", "", text).partition("=")[0]
    if "(" in plain and not re.match(r"[^(]*\(\s*\*", plain):  # a method, and no pointer (*f)(int)
        if re.match(
            rf"(?!(?:{re.escape(struct)}|operator)\b)\w+\s*\((?![^;{{}}=]*\)\s*[A-Za-z_][\w\s*&:<>,]*\()", text
        ):
            yield "?", text  # a macro's call, and none ahead of a method
        elif re.match(rf"[^(]*(?:(?<!\w){re.escape(struct)}\s*\(|~|\boperator\s*=\s*\()", text):
            if not re.search(r"=\s*default$", text):
                yield "open", ""
            if _gives_values(text, struct):
                yield "default", ""
        elif re.match(r"virtual\b", text):
            yield "?", text
        return
    if re.search(r"[={]", text.partition(":")[0]):
        yield "open", ""
    first = re.sub(r"\s*(?:=.*|\{.*\})$", "", split(text)[0], flags=re.S)
    line = re.fullmatch(r"([\w\s:<>,]*?)\s*([*&(].*|\b\w+(?:\s*\[[^\]]*\])*)", first, re.S)
    if line and line[1].strip() and "minigrad_align" not in text:
        yield from _declarators(re.sub(r"\b(?:mutable|volatile)\b", "", line[1]).strip(), text[line.start(2) :])
    else:
        yield "?", text


def _gives_values(text: str, struct: str) -> bool:
    """True for a constructor that takes no arguments and sets members, or whose body is elsewhere."""
    if not (head := re.match(rf"[^(]*(?<![~\w]){re.escape(struct)}\s*\(", text)):
        return False
    close = matching(text, head.end() - 1, "()")
    free = all("=" in each for each in split(text[head.end() : close]) if each)
    return free and bool(re.match(r"\s*(?:noexcept\s*(?:\([^()]*\)\s*)?)?(?:$|:|\{\s*[^}\s])", text[close + 1 :]))


def _declarators(kind: str, declared: str) -> Iterator[tuple[str, str]]:
    """The members of a type: numbers, structs and arrays of them by their declarators, pointers with * at the type."""
    for each in split(declared):
        each, *said = re.split(r"\s*(?:=|(?=\{))\s*", each, maxsplit=1)
        pointer = re.fullmatch(r"\*\s*(?:(?:const|__restrict__|__restrict)\s+)*(\w+)", each)
        if pointer:
            found = parameter(f"{kind} * {pointer[1]}")
            yield (f"{found.type} *", found.name) if found.pointer else ("?", f"{kind} {each}")
        else:
            plain = re.fullmatch(r"\w+(?:\s*\[[^\]]+\])*", each)
            yield (re.sub(r"^const\s+|\s+const$", "", kind), each) if plain else ("?", f"{kind} {each}")
        if said:
            name = (re.findall(r"\w+", each.partition("[")[0]) or ["?"])[-1]
            yield "default", f"{name} = {said[0]}"


_STRUCT = re.compile(r"\btemplate\s*<(?P<parameters>[^{};]*?)>\s*(?P<key>struct|class)\b(?P<name>[^{};=]*)\{")
_ALIAS = re.compile(r"\btemplate\s*<(?P<parameters>[^{};]*?)>\s*using\s+(?P<name>\w+)\s*=\s*(?P<type>[^;{}]+);")


@lru_cache(8)
def templates(code: str) -> dict[str, list[re.Match[str]]]:
    """The heads of templates of structs and classes by the words in their names, and of other names of types."""
    found: dict[str, list[re.Match[str]]] = {}
    plain = ATTRIBUTE.sub(lambda found: found[0].replace("=", " "), code)
    for each in (*_STRUCT.finditer(plain), *_ALIAS.finditer(code)):
        for word in {*re.findall(r"\w+", each["name"].partition(":")[0])}:
            found.setdefault(word, []).append(each)
    return found


def instance(code: str, name: str, arguments: list[str]) -> str:
    """A struct or class template as the text of a struct, with these arguments in place of its parameters; or ""."""
    given, found = ["".join(a.split()) for a in arguments], templates(code).get(name, [])
    found = [each for each in found if each.re is _STRUCT]
    for head in found:  # template <> struct Pack<half, 2>
        own = re.search(rf"\b{re.escape(name)}\s*<(.*)>", head["name"], re.S)
        if not head["parameters"].strip() and own and ["".join(a.split()) for a in split(own[1])] == given:
            body = code[head.end() : matching(code, head.end() - 1, "{}") + 1]
            return f"{head['key']} {name} {{{body};"
    for head in (each for each in found if each["parameters"].strip()):
        text = code[head.start("key") : matching(code, head.end() - 1, "{}") + 1]
        if made := _with_arguments(text, head["parameters"], arguments):
            return f"{made};"
    return ""


def meant(code: str, name: str, arguments: list[str]) -> str:
    """The type for which a template gives another name, `template <class T> using Name = Pack<T, 4>;`; or ""."""
    found = (each for each in templates(code).get(name, []) if each.re is _ALIAS)
    kinds = {_with_arguments(each["type"], each["parameters"], arguments) for each in found}
    return kinds.pop() if len(kinds) == 1 else ""


def _with_arguments(text: str, parameters: str, arguments: list[str]) -> str:
    """The text with the arguments of a template in place of its parameters; "" where these do not fit."""
    declared = [each.partition("=") for each in split(parameters)]
    values = [*arguments, *(default.strip() for _, _, default in declared[len(arguments) :])]
    if len(values) != len(declared) or "..." in parameters:
        return ""
    named = dict(zip((left.split()[-1] for left, _, _ in declared), values, strict=True))
    return _WORD.sub(lambda word: named.get(word[0], word[0]), text)


def argument(name: str, kind: str, value: str) -> str:
    """A parameter of a template as what its argument is; one that is a template itself takes its own."""
    if kind.startswith("template"):
        own = [each.split()[0] for each in split(kind[kind.index("<") + 1 : kind.rindex(">")])]
        taken = ", ".join(f"{word} minigrad_{n}" for n, word in enumerate(own))
        given = ", ".join(f"minigrad_{n}" for n in range(len(own)))
        return f"template <{taken}> using {name} = {value}<{given}>; "
    return f"using {name} = {value}; " if kind in ("class", "typename") else f"constexpr {kind} {name} = {value}; "


def defaults(members: tuple) -> dict[str, str]:
    """The values of members in the text, those of bases too; "" where a constructor may give another."""
    found: dict[str, str] = {}
    for kind, declarator, inner in members:
        if kind == "default":
            name, _, value = declarator.partition(" = ")
            found |= {name: value} if name else {}
        elif not declarator:
            found |= defaults(inner)
    return found | dict.fromkeys(fields(members) if ("default", "", ()) in members else (), "")


def fields(members: tuple) -> dict[str, tuple]:
    """The members by name, those of bases too: type, declarator, and the members of that type."""
    found: dict[str, tuple] = {}
    for each in (each for each in members if each[0] not in (*MARKS, "?")):
        found |= {re.findall(r"\w+", each[1])[0]: each} if each[1] else fields(each[2])
    return found


def number(text: str) -> float | int | bool | None:
    """The value of a number, true, false or nullptr in C++; None for any other expression."""
    if (word := text.strip()) in ("true", "false", "nullptr", "NULL"):
        return word == "true"
    plain = re.fullmatch(
        r"([-+]?(?:0[xX][\da-fA-F']+|0[bB][01']+|0[0-7']*|[1-9][\d']*))[uUlL]*|([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fFlL]?",
        word,
    )
    if not plain:
        return None
    whole = re.sub(r"^([-+]?0)(?=\d)", r"\1o", plain[1].replace("'", "")) if plain[1] else ""
    return int(whole, 0) if whole else float(plain[2])


def _alignment(found: re.Match[str]) -> str:
    """An alignment as a word, other attributes as none."""
    said = re.sub(r"\bsizeof\s*\(\s*([\w ]+?)\s*\)", lambda kind: str(BYTES.get(kind[1], kind[0])), found[0])
    size = re.fullmatch(r"(?:alignas|__align__)\s*\(([\d\s()*+-]+)\)", said)
    other = "align" in found[0] or "packed" in found[0]
    return f"minigrad_align_{eval(size[1], {})}" if size else " minigrad_align_as_said " if other else " "


class NamedValue(NamedTuple):
    """A constant or an enumerator; value: "" where it is no whole number that is read here."""

    name: str
    value: str
    at: int


def constants(code: str) -> Iterator[NamedValue]:
    """The constants of the text, and the names in its enums but for those that have the enum's name ahead of them."""
    for each in _CONSTANT.finditer(code):
        for one in filter(None, map(_VALUE.fullmatch, split(each[2]))):
            value = (one[2] or one[3] or "").strip()
            plain = _WHOLE.fullmatch(each[1].strip()) and re.fullmatch(r"[\w\s()*/%+-]+", value)
            if value.count("(") >= value.count(")"):  # else it is a parameter
                yield NamedValue(one[1], "" if not plain else value if value.isdigit() else f"({value})", each.start())
    for each in _ENUM.finditer(code):
        number, known = 0, True
        for name, sign, said in (one.partition("=") for one in split(each[1])):
            known = said.strip().isdigit() if sign else known
            number = int(said) if sign and known else number
            yield NamedValue(name.strip(), str(number) if known else "", each.start())
            number += 1


@lru_cache(8)
def with_constants(code: str) -> tuple[str, set[str]]:
    """The text with the values of constants of which there are several of a name, each where C++ finds it by its scope.

    And the constants of functions alone: elsewhere their names are those of other things, as of a struct's members.
    What may be that of a base, of another namespace or of a declaration by `using` stays a name.
    """
    found, inside = list(constants(code)), set[str]()
    bodies = [(each.body, each.stop) for each in items(code) if "(" in code[each.start : each.body]] if found else []
    for local in (True, False):
        names = {each.name for each in found if any(a < each.at < b for a, b in bodies) == local}
        inside = names if local else inside - names
    several = {each.name for each in found if each.value} - (unique(found).keys() - inside)
    several -= {*re.findall(r"\busing\s[\w\s:]*::\s*(\w+)\s*;", code)}
    if not several:
        return code, inside
    words = re.compile(rf"[{{}}]|(?<![:.>])\b(?:enum|const|constexpr|{'|'.join(several)})\b(?!\s*=[^=])")
    around, opened = dict[int, tuple[int, ...]](), [-1]  # the scopes around each word, by their braces
    for word in words.finditer(code):
        if word[0] == "{":
            opened.append(word.start())
        elif word[0] != "}":
            around[word.start()] = (*opened,)
        elif opened[1:]:
            opened.pop()
    known = {(each.name, around[each.at][-1]): each for each in found if each.name in several and each.at in around}

    def value(word: re.Match[str]) -> str:
        for brace in reversed(around[word.start()]) if word[0] in several else ():
            head = code[max(code.rfind(sign, 0, max(brace, 0)) for sign in ";}{") + 1 : max(brace, 0)]
            one = known.get((word[0], brace))
            if one and (one.at < word.start() or _STRUCT_HEAD.search(head)):
                return one.value or word[0]
            if re.search(r"(?<!:):(?!:)", head):  # it has a base
                break
        return word[0]

    return words.sub(value, code), inside


def unique(found: Iterable[NamedValue]) -> dict[str, str]:
    """The values of the constants by their names, but for a name with several."""
    by_name = dict[str, set[str]]()
    for each in found:
        by_name.setdefault(each.name, set()).add(each.value)
    return {name: value for name, (value, *more) in by_name.items() if value and not more}


def extents(declarator: str, values: Mapping[str, int | str]) -> str:
    """`v[N * 2]` -> `v[6]`."""
    text = _WORD.sub(lambda found: str(values.get(found[0], found[0])), declarator)
    return _EXTENT.sub(lambda found: f"[{eval(found[1].replace('/', '//'), {})}]", text)


@lru_cache(64)
def type_words(code: str) -> frozenset[str]:
    """The words in the heads of structs, classes, unions and enums, and those behind a closing brace."""
    behind = rf"\}}(?:\s*(?:{ATTRIBUTE.pattern}))*\s*(\w+)\s*[;,]"
    heads = re.findall(rf"\b(?:struct|class|union|enum)\b([^{{}};]*)|{behind}", code)
    return frozenset(word for head in heads for text in head for word in _WORD.findall(text))


@lru_cache(64)
def enum_type(code: str, name: str) -> str:
    """The integer type of an enum of that name, or an empty text."""
    head = re.search(rf"\benum\b(?:\s+(?:class|struct))?\s+{name}\s*(?::\s*([\w\s:]+?)\s*)?\{{", code)
    if head or re.search(rf"\benum\b[^{{}};]*\{{[^{{}}]*\}}\s*{name}\s*;", code):
        return (head and head[1]) or "int"
    return ""


def meanings(texts: list[str]) -> dict[str, list[str]]:
    """The types for which typedef, using and #define give another name, by that name.

    What the last text says, the reader's own, counts before its headers, whose types may lie in classes.
    """
    whole, own = dict[str, set[str]](), dict[str, set[str]]()
    for text in texts:
        for each in renamed(text):
            given = each["type"].startswith("Wide<real>") or f"#ifndef {each['name']}" in text
            if each["name"] in ("real", "wide") and given:
                continue  # minigrad's own words, which a launch defines
            for found in (whole, own) if text is texts[-1] else (whole,):
                found.setdefault(each["name"], set()).add(" ".join(each["type"].split()))
    return {n: [kind for kind in kinds if kind.rpartition("::")[2] != n] for n, kinds in (whole | own).items()}


def takes_real(code: str) -> bool:
    """True for a text in which `real` is a type, and no member, variable or function of its own."""
    return bool(_REAL.search(code) and not _OWN_REAL.search(without_directives(code)))
