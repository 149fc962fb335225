"""One kernel among several of a name: by its namespace, the types of its parameters, or its template's arguments.

It may be in a file that the named one includes, as in `main.cu` with `#include "kernel.cu"`.
"""

import re
from dataclasses import replace
from itertools import pairwise, takewhile
from pathlib import Path
from typing import NamedTuple

from minigrad.kernels.types import ELEMENTS, SCALARS, plain
from minigrad.scan import (
    INCLUDE,
    Edit,
    TopLevel,
    apply,
    asked,
    between_directives,
    blank,
    items,
    matching,
    outside,
    parameter,
    split,
    without_directives,
)
from minigrad.source import Source

_NAMESPACE = re.compile(r"\b(inline\s+)?namespace\s+([\w:]+)\s*\{")
_WRITES = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\([^)\n]*\)(?:\\\n|[^\n])*\b__global__\b", re.M)
_OPENS_C = re.compile(r'\bextern\s*" "\s*{')
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|endif)", re.M)
_SPECIAL = re.compile(r"template\s*<\s*>")
_KINDS = {"typename": "float", "class": "float"}  # of parameters that are types, and an example
_NAME = re.compile(r"[A-Za-z_:]")
# A parameter of a template without a name, `, typename = std::enable_if_t<...>`: its default says what it is for.
_UNNAMED = re.compile(r",\s*(?:\w+|.*?(?:[>*&]|::\s*\w+))\s*(?<![<>=!])=(?!=)", re.S)
_ROUND = re.compile(r"\((?:[^()]|\([^()]*\))*\)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_WORDS = {word for kind in (*ELEMENTS, *SCALARS, "true", "false") for word in kind.split()}  # of types and values


class SaidKernel(NamedTuple):
    """The parts of a name such as `a::scale<float>(float*, int)`."""

    kernel: str
    spaces: tuple[str, ...]
    arguments: str  # of its template, "<float>"
    types: tuple[str, ...] | None  # of its parameters


def parse(name: str) -> SaidKernel:
    """The parts of a kernel's name as C++ writes it."""
    typed = re.fullmatch(r"(.*[\w>])\s*\(([^()]*)\)\s*", name, re.S)
    head, less, given = (typed[1] if typed else name).partition("<")
    *spaces, kernel = (word.strip() for word in head.split("::"))
    types = tuple(_type(each) for each in split(typed[2])) if typed else None
    return SaidKernel(kernel, tuple(filter(None, spaces)), less + given, types if types != ("",) else ())


def chosen(source: Source, name: SaidKernel) -> tuple[Source, str]:
    """The text with this kernel as the only one of its name, and its template with its arguments, or "".

    A template<> for these arguments counts before the template itself. Raises ValueError where no parameters fit, where
    several kernels have the name, and where a template has no arguments or others than it takes.
    """
    source, template = _alone(_without_unnamed(source, name.kernel), name)
    found = source.kernels.get(name.kernel)
    if found and len(found.lines) > 1:
        raise ValueError(_several(source, name.kernel, found.lines))
    parameters = source.template_parameters(name.kernel)
    if template and parameters is None and found:
        raise ValueError(f"{name.kernel} is no template of {source.name}; call it {name.kernel!r}.")
    if parameters is not None and (template or found):
        _check_arguments(source, name, parameters)
    return source, template


def _without_unnamed(source: Source, kernel: str) -> Source:
    """The text without the last parameters of the kernel's template, as far as they have no name, but a default."""
    edits, code = list[Edit](), source.code
    for item in items(code):
        if re.match(r"template\s*<", head := _head(code, item, kernel)):
            plain = _ROUND.sub(lambda found: " " * len(found[0]), head)  # `(N > 2)` closes nothing
            first = head.index("<")
            stop = matching(plain, first, "<>")
            commas = [first + 1 + at for at in outside(plain[first + 1 : stop], ",", "<", ">")]
            each = reversed([*pairwise([*commas, stop])])
            for start, end in takewhile(lambda ends: _UNNAMED.match(head[slice(*ends)]), each):
                edits.append((item.start + start, item.start + end, re.sub(r"[^\n]", " ", head[start:end])))
    return replace(source, text=apply(edits, source.text)) if edits else source


def _several(source: Source, kernel: str, lines: tuple[int, ...]) -> str:
    """The error for a name with several definitions: the names that distinguish them."""
    code = source.code
    found = [(item, head) for item in items(code) if (head := _head(code, item, kernel))]
    names = []
    for item, head in found:
        spaces = "::".join(word for each in _around(code, item) for word in each[2].split("::"))
        names.append(
            f"{spaces}{'::' * bool(spaces)}{kernel}{'<...>' * ('template' in head)}({', '.join(_types(head))})"
        )
    ways = " or ".join(map(repr, dict.fromkeys(names)))
    way = f"Say which: {ways}." if len({*names}) == len(names) else "Take one away, or give it another name."
    return f"{source.name} defines {kernel} in the lines {' and '.join(map(str, lines))}. {way}"


def _check_arguments(source: Source, name: SaidKernel, parameters: list[tuple[str, str, str]]) -> None:
    """Raise ValueError unless the arguments are as many as the template's parameters, types for types."""
    kernel, words = name.kernel, ", ".join(f"{kind} {own}{f' = {v}' * bool(v)}" for own, kind, v in parameters)
    if re.search(rf"\btemplate\s*<\s*>[^;{{}}]*\b{kernel}\s*<", source.code):
        raise ValueError(f"{source.name} has a template<> of {kernel}; give that one a name of its own.")
    given = [each for each in split(name.arguments[1:].rpartition(">")[0]) if each]
    wrong = [
        f"{a} is no {'type' if kind in _KINDS else 'value'}"
        for a, (_, kind, _) in zip(given, parameters, strict=False)
        if (not _NAME.match(a) if kind in _KINDS else plain(a) in ELEMENTS)
    ]
    enough = all(default for _, _, default in parameters[len(given) :]) and len(given) <= len(parameters)
    if name.arguments.endswith(">") and enough and not wrong:
        return
    why = "give it arguments in its name"
    if name.arguments:
        why = f"{kernel}{name.arguments} gives it {len(given)} of {len(parameters)} arguments"
        why = wrong[0] if enough else why
    raise ValueError(
        f"{kernel} is a template of <{words}>; {why}. Write for example {_example(source, name, parameters)}."
    )


def _example(source: Source, name: SaidKernel, parameters: list[tuple[str, str, str]]) -> str:
    """A template with arguments: those of a launch or an instance in the text, else some of the parameters' kinds.

    A launch leaves out what the compiler deduces, and may name constants of the host's functions.
    """
    code, kernel = blank(source.text), "::".join([*name.spaces, name.kernel])
    kinds = [(kind.removeprefix("const ").removesuffix("..."), default) for _, kind, default in parameters]
    numbers = {kind: "true" if plain(kind) == "bool" else "16" for kind, _ in kinds if plain(kind) in SCALARS}
    values = [default or (_KINDS | numbers).get(kind, "...") for kind, default in kinds]
    known = _WORDS | {*re.findall(r"\b(?:struct|class|enum)\s+(\w+)\s*[:{]", code)}
    for found in re.finditer(rf"\b{name.kernel}\s*(?=<(?!<))", code):
        close = matching(code, found.end(), "<>")
        given = [source.expanded(each) for each in split(code[found.end() + 1 : close])]
        instance = re.search(r"\btemplate\b[^<>;{}]*$", code[: found.start()])
        uses = code[close + 1 :].lstrip().startswith("(" if instance else "<<<")
        if uses and known.issuperset(_WORD.findall(" ".join(given))):
            line = code.count("\n", 0, found.start()) + 1
            left = [value for value, (_, default) in zip(values, kinds, strict=True) if not default]
            whole = ", ".join(given + left[len(given) :])
            return f"'{kernel}<{whole}>', which line {line} {'makes' if instance else 'launches'}"
    return f"'{kernel}<{', '.join(values)}>'"


def _alone(source: Source, name: SaidKernel) -> tuple[Source, str]:
    """The text with this kernel as the only one of its name, if the name tells which; and its template."""
    code, template = source.code, name.kernel + name.arguments if name.arguments else ""
    heads = {item: head for item in items(code) if (head := _head(code, item, name.kernel))}
    fit = {item: head for item, head in heads.items() if name.types in (None, _types(head))}
    if heads and not fit:
        have = " and ".join(f"{name.kernel}({', '.join(_types(head))})" for head in heads.values())
        raise ValueError(f"{source.name} has {have}, and none of them takes ({', '.join(name.types or ())}).")
    _refuse(source, name, heads)
    if len(heads) < 2:
        return source, template
    fit = {item: head for item, head in fit.items() if _inside(code, item, name.spaces)}
    plain = {item: head for item, head in fit.items() if not _SPECIAL.match(head)}
    primary = next(iter(plain.values()), "") if template else ""
    special = {i: head for i, head in fit.items() if i not in plain and primary and _is_for(head, primary, name)}
    if len(special or plain) != 1:
        return source, template
    ((item, head),) = (special or plain).items()
    edits = [edit for other in heads if other is not item for edit in _spaces(source.text, code, other)]
    if special:  # it becomes an ordinary kernel
        edits += [
            (item.start + m.start(), item.start + m.end(), " " * len(m[0]))
            for m in re.finditer(rf"{_SPECIAL.pattern}|(?<=\b{name.kernel})\s*<[^()]*>(?=\s*\()", head)
        ]
    return replace(source, text=apply(edits, source.text)), "" if special else template


def _refuse(source: Source, name: SaidKernel, heads: dict[TopLevel, str]) -> None:
    """Raise ValueError for a namespace without the kernel, a template of any number of arguments, a macro's kernel."""
    inside = any(_inside(source.code, item, name.spaces) for item in heads)
    last = name.spaces[-1] if heads and not inside else ""
    if last and (re.search(rf"\bnamespace\s+[\w:]*\b{last}\b", source.code) or last not in source.code):
        raise ValueError(f"{source.name} has {name.kernel}, but none in the namespace {'::'.join(name.spaces)}.")
    if name.arguments and any(re.match(r"template\s*<[^{};()]*\.\.\.", head) for head in heads.values()):
        raise ValueError(
            f"{name.kernel} is a template of any number of arguments, and its parameters are not known here. Put its "
            "body into a __device__ function, and write a kernel with the parameters you need that calls it."
        )
    macro = next(
        (each for each in _WRITES.finditer(source.code) if not heads and name.kernel not in source.kernels), None
    )
    if macro and re.search(rf"^\s*{macro[1]}\s*\(", source.code, re.M):
        raise ValueError(
            f"the text has no kernel {name.kernel!r}, but a macro {macro[1]} that writes kernels. Write a template in "
            "its place, which is named with its arguments, 'name<double>', or write the kernel out."
        )


def _spaces(text: str, code: str, item: TopLevel) -> list[Edit]:
    """An item gives way to spaces and to its directives."""
    return [(a, b, re.sub(r"[^\n]", " ", text[a:b])) for a, b in between_directives(code, item)]


def _head(code: str, item: TopLevel, kernel: str) -> str:
    """The text of an item up to its body, if it is a definition of that kernel."""
    if code[item.body] != "{":
        return ""
    text = without_directives(code[item.start : item.body])
    head = re.split(r"(?<=\))\s*{", text)[0]  # where the body has a ) too many, the item's body is not the first {
    return head if "__global__" in head and re.search(rf"\b{kernel}\s*(?:<[^()]*>)?\s*\(", head) else ""


def _inside(code: str, item: TopLevel, spaces: tuple[str, ...]) -> bool:
    """True where the innermost namespaces around an item are these, with or without those that are inline."""
    left = list(spaces)
    around = reversed(_around(code, item))
    for inline, word in ((each[1], word) for each in around for word in reversed(each[2].split("::"))):
        if left and word == left[-1]:
            left.pop()
        elif left and not inline:
            return False
    return not left


def _around(code: str, item: TopLevel) -> list[re.Match[str]]:
    """The heads of the namespaces around an item, the outermost first."""
    found = _NAMESPACE.finditer(code, 0, item.start)
    return [each for each in found if matching(code, each.end() - 1, "{}") > item.start]


def _types(head: str) -> tuple[str, ...]:
    """The types of the parameters of a kernel."""
    close = head.rindex(")")
    opened = max(m.start() for m in re.finditer(r"\(", head) if matching(head, m.start(), "()") == close)
    inner = head[opened + 1 : close].strip()
    return tuple(_type(each) for each in split(inner)) if inner not in ("", "void") else ()


def _type(text: str) -> str:
    param = parameter(text)
    return "".join(param.type.split()) + "*" * param.pointer if text.strip() else ""


def _is_for(head: str, primary: str, name: SaidKernel) -> bool:
    """True for a template<> with the arguments of the name: it says them, or its parameters have the types."""
    arguments = split(name.arguments[1:-1])
    if said := re.search(rf"\b{name.kernel}\s*<([^()]*)>\s*\(", head):
        return split(said[1]) == arguments
    parameters = primary[primary.index("<") + 1 : matching(primary, primary.index("<"), "<>")]
    names = [each.partition("=")[0].split()[-1] for each in split(parameters)]
    values = dict(zip(names, arguments, strict=False))
    return _types(head) == tuple(re.sub(r"\w+", lambda w: values.get(w[0], w[0]), each) for each in _types(primary))


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
        made = Source(text, path.name, path.parent, before, macros=source.macros)
        named = re.compile(rf"\b{kernel}\b")
        if not any(map(named.search, (text, *made.included.values()))):
            continue  # of hundreds of headers each may be reached in hundreds of ways
        inner = defining(made, kernel, around | {path})
        if kernel in inner.kernels:
            return inner
    return source
