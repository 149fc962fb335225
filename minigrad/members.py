"""Structs, classes and enums in CUDA C++ text: their members, a template's instances, and values by name."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from minigrad.scan import ATTRIBUTE, items, matching, parameter, renamed, split

BYTES = {"char": 1, "bool": 1, "short": 2, "half": 2, "__half": 2, "int": 4, "unsigned": 4, "float": 4, "double": 8}
EMPTY = (("alignas", "1", ()),)  # the members of a struct without any, which has one byte
_PACK = re.compile(r"#\s*pragma\s+pack\s*\(([^)]*)\)")
_EXTENT = re.compile(r"\[((?:[\d\s()*/%+-]|<<|>>)+)\]")
_CONSTANT = re.compile(
    r"\b(?:const|constexpr)\s+(?:unsigned\s+)?(?:int|unsigned|size_t)\s+(\w+)\s*=\s*([\w\s()*/%+-]+?)\s*;"
)
_ENUM = re.compile(r"\benum\b[^{};()]*\{([^{}]*)\}")
_REAL = re.compile(r"(?<![.>:\w])real\b")
_OWN_REAL = re.compile(  # a variable, a member or a function of that name; `q * real(2)` is a product
    r"(?<![\w.])(?!(?:const|constexpr|return|else|case|new|operator|typename|class|volatile|static|inline)\b)"
    r"[A-Za-z_]\w*(?:\s*[*&]\s*real\s*[;,=[]|\s+real\s*[;,=[({])"
)
_WORD = re.compile(r"\b[A-Za-z_]\w*")


def of_struct(code: str, struct: str) -> list[tuple[str, list[str]]] | None:
    """The type and the declarators of each line of a struct, e.g. ("float", ["x", "v[3]"]); None: it is not here.

    A pointer's type ends with *; those of a base come first. A bit-field, a pointer to pointers and a macro's call have
    an empty type, and so have packed members: their layout is not read. An alignment and the word union come first, as
    ("alignas", ["16"]) and ("union", [""]).
    """
    word, code = re.escape(struct), ATTRIBUTE.sub(_alignment, code)
    pattern = rf"\b(?P<key>struct|class|union)\s+(?P<more>[^{{}};()=<:]*?)\b{word}\b(?P<base>[^{{}};()=]*)\{{"
    heads = [*re.finditer(pattern, code)]
    if len(heads) > 1:
        return [("", [""])]  # of one name in several namespaces
    head = heads[0] if heads else None
    if not head and (alias := re.search(rf"\}}\s*{word}\s*;", code)):  # typedef struct { ... } Name;
        typedefs = re.finditer(
            r"\btypedef\s+(?P<key>struct|union)(?P<more>(?:\s+minigrad_align_\d+)?)(?P<base>)[^{};]*\{", code
        )
        head = next((each for each in typedefs if matching(code, each.end() - 1, "{}") == alias.start()), None)
    if not head:
        return None
    end = matching(code, head.end() - 1, "{}")
    body = code[head.end() : end]
    aligned, more = re.fullmatch(r"minigrad_align_(\d+)", head["more"].strip()), head["more"].strip()
    packed = [each[1] for each in _PACK.finditer(code, 0, head.start())][-1:] or [""]
    unread = bool(more and not aligned) or re.search(r"\bvirtual\b", body) or re.search(r"\d", packed[0])
    found = [("", [""])] * bool(unread or "minigrad_align" in code[end : code.find(";", end)])
    found += [("alignas", [aligned[1]])] if aligned else []
    found += [("union", [""])] * (head["key"] == "union")
    found += _of_base(code, head["base"])
    body = re.sub(r"\b(?:public|private|protected)\s*:", " ", body)
    for item in items(body):
        text = body[item.start : item.stop].rstrip("; \n")
        call = re.match(rf"(?!{word}\b|operator\b|static_assert\b)\w+\s*\(", text)  # of a macro
        if call or re.match(r"(?:struct|class|union|enum)\b[^;]*\{", text):
            found.append(("", [""]))
            continue
        plain = re.sub(r"\[[^\]]*\]", "", text).partition("=")[0]
        declared = "(" in plain and not re.match(r"[^(]*\(\s*\*", plain)  # a method, and no pointer (*f)(int)
        if not text or declared or re.match(r"static\b|using\b|typedef\b|friend\b", text):
            continue
        first, *others = (re.sub(r"\s*(?:=.*|\{.*\})$", "", each, flags=re.S) for each in split(text))
        bare = re.sub(r"\[[^\]]*\]", "", ", ".join((first, *others)))
        if "*" in bare and "[" not in text and not re.search(r"[&{=:(<]|\*\s*(?:const\s*)?\*", bare):
            kind, star, name = first.partition("*")
            for each in (parameter(f"{kind} {declarator}") for declarator in (star + name, *others)):
                found.append((each.type + " *" * each.pointer, [each.name]))
            continue
        line = re.fullmatch(r"(?:mutable\s+)?([\w\s:<>,]*?)\s*(\w+(?:\s*\[[^\]]+\])*)", first)
        known = line and not re.search(r"[*&{=]|\b(?:minigrad_)?align", bare)
        found.append((line[1], [line[2], *others]) if line and known else ("", [""]))
    rest = body[max((item.stop for item in items(body)), default=0) :].strip()  # such as macros without semicolons
    return [*found, *([("", [""])] * bool(rest))] or [("alignas", ["1"])]


def _of_base(code: str, clause: str) -> list[tuple[str, list[str]]]:
    """The members of a base, as in `: public Base`; unread where more than one type of them lets C++ pad in between."""
    base = re.fullmatch(r"\s*:\s*(?:public\s+)?(\w+)\s*", clause)
    found = of_struct(code, base[1]) if base else None
    alike = found is not None and len({kind for kind, _ in found}) <= 1
    return found if found is not None and alike else [("", [""])] * bool(clause.strip())


_STRUCT = re.compile(r"\btemplate\s*<(?P<parameters>[^{};]*?)>\s*(?P<key>struct|class)\b(?P<name>[^{};=]*)\{")


def instance(code: str, name: str, arguments: list[str]) -> str:
    """A struct or class template as the text of a struct, with these arguments in place of its parameters; or ""."""
    plain, given = (
        ATTRIBUTE.sub(lambda found: found[0].replace("=", " "), code),
        ["".join(a.split()) for a in arguments],
    )
    found = [
        each for each in _STRUCT.finditer(plain) if re.search(rf"\b{re.escape(name)}\b", each["name"].partition(":")[0])
    ]
    for head in found:  # template <> struct Pack<half, 2>
        own = re.search(rf"\b{re.escape(name)}\s*<(.*)>", head["name"], re.S)
        if not head["parameters"].strip() and own and ["".join(a.split()) for a in split(own[1])] == given:
            body = code[head.end() : matching(code, head.end() - 1, "{}") + 1]
            return f"{head['key']} {name} {{{body};"
    for head in (each for each in found if each["parameters"].strip()):
        declared = [each.partition("=") for each in split(head["parameters"])]
        values = [*arguments, *(default.strip() for _, _, default in declared[len(arguments) :])]
        if len(values) == len(declared) and "..." not in head["parameters"]:
            named = dict(zip((left.split()[-1] for left, _, _ in declared), values, strict=True))
            text = code[head.start("key") : matching(code, head.end() - 1, "{}") + 1]
            return _WORD.sub(lambda word, named=named: named.get(word[0], word[0]), text) + ";"  # type: ignore[misc]
    return ""


def _alignment(found: re.Match[str]) -> str:
    """An alignment as a word, other attributes as none."""
    said = re.sub(r"\bsizeof\s*\(\s*([\w ]+?)\s*\)", lambda kind: str(BYTES.get(kind[1], kind[0])), found[0])
    size = re.fullmatch(r"(?:alignas|__align__)\s*\(([\d\s()*+-]+)\)", said)
    other = "align" in found[0] or "packed" in found[0]
    return f"minigrad_align_{eval(size[1], {})}" if size else " minigrad_align_as_said " if other else " "


def constants(code: str) -> Iterator[tuple[str, str]]:
    """The names of whole numbers with their values: constants, and those in enums up to one that is no number."""
    for name, value in _CONSTANT.findall(code):
        yield name, value if value.isdigit() else f"({value})"
    for each in _ENUM.finditer(code):
        value = 0
        for name, sign, said in (one.partition("=") for one in split(each[1])):
            if sign and not said.strip().isdigit():
                break
            value = int(said) if sign else value
            yield name.strip(), str(value)
            value += 1


def extents(declarator: str, values: Mapping[str, int]) -> str:
    """`v[N * 2]` -> `v[6]`; ? for one that is not read."""
    text = _WORD.sub(lambda found: str(values.get(found[0], found[0])), declarator)
    return _EXTENT.sub(lambda found: f"[{eval(found[1].replace('/', '//'), {})}]", text) or "?"


@lru_cache(64)
def type_words(code: str) -> frozenset[str]:
    """The words in the heads of structs, classes, unions and enums, and those behind a closing brace."""
    heads = re.findall(r"\b(?:struct|class|union|enum)\b([^{};]*)|\}\s*(\w+)\s*;", code)
    return frozenset(word for head in heads for text in head for word in _WORD.findall(text))


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
            if each["name"] in ("real", "wide") and f"#ifndef {each['name']}" in text:
                continue  # minigrad's own words, which a launch defines
            for found in (whole, own) if text is texts[-1] else (whole,):
                found.setdefault(each["name"], set()).add(" ".join(each["type"].split()))
    return {n: [kind for kind in kinds if kind.rpartition("::")[2] != n] for n, kinds in (whole | own).items()}


def takes_real(code: str) -> bool:
    """True for a text in which `real` is a type, and no member, variable or function of its own."""
    return bool(_REAL.search(code) and not _OWN_REAL.search(code))
