"""The parser of a file: macros, types, constants, functions and one kernel. `parse` is the entry point."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice, pairwise, takewhile
from typing import Any

from minigrad.adjoint.frontend.assignments import by_name
from minigrad.adjoint.frontend.declarations import NONE, STORAGE
from minigrad.adjoint.frontend.expressions import ExpressionParser
from minigrad.adjoint.frontend.inline import Functions
from minigrad.adjoint.frontend.items import NO_POINTER
from minigrad.adjoint.frontend.macros import enumeration, table, typed_macros, whole_numbers
from minigrad.adjoint.frontend.parser import StatementParser
from minigrad.adjoint.frontend.structs import integer
from minigrad.adjoint.frontend.symbols import SymbolTable
from minigrad.adjoint.language.ast import TYPES, Declare, Expr, Function, Place
from minigrad.adjoint.language.dataflow import Budget, called, lengthen, merge_copies, names_used
from minigrad.adjoint.language.lexer import NotDifferentiable, Token, TokenStream, cut, template_parameters
from minigrad.adjoint.language.preprocessor import Find, tokenize
from minigrad.adjoint.language.values import VECTORS, Elements, Enum, FunctionItem, StructTemplate, StructType
from minigrad.kernels.types import TRAITS

QUALIFIERS = (
    "extern", "static", "inline", "__inline__", "__forceinline__", "__noinline__", "const", "constexpr",
    "__global__", "__device__", "__host__", "__constant__", "__launch_bounds__",
)  # fmt: skip
TOO_DEEP = "this is nested too deeply; put a part of an expression, or of a sum of hundreds of terms, into a variable."


@dataclass
class KernelFile:
    """One kernel, the device functions it calls, callees first, constant tables, and the values of whole numbers."""

    tokens: TokenStream
    kernel: Function
    functions: dict[str, Function]
    tables: list[Declare]
    values: dict[str, int]  # of macros and constants
    formulas: dict[str, Expr] = field(default_factory=dict)  # of macros that are made of others, in order
    definitions: dict[str, str] = field(default_factory=dict)  # the texts of types, by name
    dynamic: dict[str, str] = field(default_factory=dict)  # shared arrays whose extent the launch gives: its macro
    enums: dict[str, Enum] = field(default_factory=dict)
    namespaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    space: tuple[str, ...] = ()  # the namespaces around the kernel
    text: str = ""  # without the files that the head includes, with those that include this one
    budget: Budget = field(default_factory=Budget)

    def error(self, place: Place, why: str) -> NotDifferentiable:
        return self.tokens.error(place, why)


def parse(
    text: str, name: str, kernel: str, defines: Mapping[str, Any],
    template: Sequence[tuple[str, str, str]] = (), find: Find = lambda *_: None,
    ahead: Sequence[tuple[str, str]] = (), null: Set[str] = frozenset(),
) -> KernelFile:  # fmt: skip
    """Parse a kernel of a file of this name. Raises NotDifferentiable with line and column.

    template: name, kind and argument of each template parameter of the kernel; find: the text of an included file;
    ahead: names and texts of the files that include this one, up to there; null: arrays that a launch does not give.
    """
    tokens = tokenize(text, name, defines, find, ahead)
    defined = {name: [Token("number", str(value), Place(0, 0))] for name, value in defines.items() if name != "real"}
    macros, formulas = typed_macros(tokens, tokens.macros | defined, ExpressionParser)
    parser = FileParser(tokens, SymbolTable(tokens, macros), " ".join(value for *_, value in template))
    parser.symbols.null, parser.symbols.formulas = null, formulas
    try:
        parser.items()
        for trait in (t for t in TRAITS if t not in parser.functions.templates):
            if not tokens.words.isdisjoint((trait, f"{trait}_t", f"{trait}_v")):
                parser.join(TRAITS[trait])
                parser.items()
        parser.parse_kernel(kernel, template)
    except RecursionError:
        raise tokens.error(tokens.next.place, TOO_DEEP) from None
    if parser.kernel is None:
        raise ValueError(f"{name} has no kernel {kernel!r}.")
    functions = called(parser.kernel, parser.symbols.functions)
    for f in (parser.kernel, *functions.values()):
        merge_copies(f.body, lambda name: name not in tokens.words)
        if f"{f.name}_adjoint" in tokens.words:
            raise tokens.error(f.place, f"the name {f.name}_adjoint is taken in this file; the adjoint needs it.")
    values = whole_numbers({**formulas, **{t.name: t.value for t in parser.tables}})
    types = parser.definitions | {s.short: s.text for s in parser.functions.structs.values()}
    here = "\n".join([*(first for _, first in ahead), text])  # the head includes all others
    types = {n: own for n, own in types.items() if own in here}
    tables = [t for t in parser.tables if t.text in here or not t.place.file]
    formulas = {name: e for name, e in formulas.items() if name not in values and e.type == "int"}
    of, dynamic, enums = parser.functions, parser.symbols.dynamic, parser.symbols.enums
    return KernelFile(
        tokens, parser.kernel, functions, tables, values, formulas, types, dynamic, enums, of.namespaces, of.space, here
    )  # fmt: skip


class FileParser:
    """Finds the items of a file, and parses the kernel, with what it uses."""

    def __init__(self, tokens: TokenStream, symbols: SymbolTable, arguments: str):
        self.tokens, self.symbols, self.arguments = tokens, symbols, arguments  # those of the kernel's template
        self.functions = Functions(tokens)
        self.statements = StatementParser(tokens, symbols, self.functions)
        self.functions.parser = self.statements
        self.kernel: Function | None = None
        self.kernels: dict[str, FunctionItem] = {}
        self.tables: list[Declare] = []
        self.shared: list[tuple[int, int]] = []  # the tokens of `__shared__` arrays outside of functions
        self.definitions: dict[str, str] = {}
        self.open_braces: list[int] = []  # of extern "C" and namespaces: the names in each
        self.stray: Token | None = None  # a brace that closes nothing

    def items(self) -> None:
        """Find all items. One outside the subset is rejected only where the kernel uses it."""
        tokens = self.tokens
        while tokens.next.kind != "end":
            start = tokens.at
            try:
                self.item()
            except NotDifferentiable as error:
                tokens.at = start
                for name in self.skip():
                    self.symbols.scopes[0].pop(name, None)
                    tokens.unsupported.setdefault(name, error)
        if self.stray:
            raise tokens.error(self.stray.place, "this } closes nothing; there is one too many, or a { is missing.")

    def item(self) -> None:
        tokens, start = self.tokens, self.tokens.at
        if tokens.next.text in (";", "_Pragma") or tokens.next.kind == "pragma":
            tokens.at = self.tokens.matching(start + (tokens.next.text == "_Pragma")) + 1
        elif tokens.next.text == "}":
            self.close(tokens.take())
        elif tokens.next.text == "namespace" and tokens.peek(2).text == "=":
            self.statements.skip_to_semicolon()
            words = [t.text for t in tokens.tokens[start + 3 : tokens.at] if t.kind == "name"]
            self.functions.namespaces[tokens.tokens[start + 1].text] = tuple(words)
        elif (names := self.opens_namespace()) is not None or tokens.opens_c():
            self.open_braces.append(len(names or ()))
            self.functions.space = (*self.functions.space, *(names or ()))
            self.functions.namespaces |= {name: (name,) for name in names or ()}
        elif self.is_shared():
            self.statements.skip_to_semicolon()
            self.shared.append((start, tokens.at))
        elif (function := self.functions.function_item(start)) is not None:
            tokens.at = min(self.tokens.matching(function.body) + 1, len(tokens.tokens) - 1)
            if function.within:
                self.functions.outside_bodies.setdefault(function.within, []).append(function)
            elif function.kernel:
                self.kernels[function.name] = function
            else:
                self.functions.items.setdefault(function.name, []).append(function)
        elif tokens.next.text in ("typedef", "struct", "class", "using", "enum", "union") or self.is_template():
            self.type_item(start)
        elif self.tokens.is_declaration(start):
            self.functions.declare(start)
        else:
            self.constants(start)

    def is_shared(self) -> bool:
        """True for `extern __shared__ float s[];`."""
        words = (*STORAGE, "__align__", "alignas", "(", ")")
        ahead = islice(self.tokens.tokens, self.tokens.at, None)
        return "__shared__" in [t.text for t in takewhile(lambda t: t.text in words or t.kind == "number", ahead)]

    def close(self, brace: Token) -> None:
        self.stray = self.stray or (None if self.open_braces else brace)
        names = self.open_braces.pop() if self.open_braces else 0
        self.functions.space = self.functions.space[: len(self.functions.space) - names]

    def opens_namespace(self) -> list[str] | None:
        """Step over `namespace`, or `namespace a::b`, with its brace; the names, but those of inline ones."""
        tokens = self.tokens
        at = tokens.at + (tokens.next.text == "inline")
        if tokens.tokens[at].text != "namespace":
            return None
        start = tokens.at = at + 1
        while tokens.next.kind == "name" or tokens.next.text == "::":
            tokens.take()
        names = [t.text for t in tokens.tokens[start : tokens.at] if t.kind == "name"]
        return (names if tokens.tokens[at - 1].text != "inline" else []) if tokens.accept("{") else None

    # --- types ---

    def type_item(self, start: int) -> None:
        tokens = self.tokens
        if tokens.next.text == "using" or (tokens.next.text == "typedef" and not tokens.has_brace()):
            if name := self.functions.alias(self.statements):
                self.definitions[name] = tokens.since(start)
            return
        parameters = None
        if tokens.next.text == "template":
            parameters, tokens.at = template_parameters(tokens.tokens, tokens.at + 1)
        typedef = tokens.accept("typedef")
        word = tokens.take().text
        if word == "using" and parameters is not None:
            name = tokens.identifier("a type's name").text
            tokens.expect("=")
            brace = tokens.at
            self.statements.skip_to_semicolon()
            if tokens.tokens[tokens.at - 2].text in ("*", "&", "]"):
                raise tokens.error(tokens.tokens[start].place, NO_POINTER.format(name))
            self.definitions[name] = text = tokens.since(start)
            self.functions.template(name, StructTemplate(parameters, brace, text, alias=True))
            return
        if word == "enum":
            names = enumeration(self.statements, typedef, self.functions.twice)
            tokens.expect(";")
            self.definitions |= dict.fromkeys(names, tokens.since(start))
            return
        while tokens.next.text in ("__align__", "alignas", "__attribute__", "__builtin_align__"):
            tokens.take()
            tokens.at = self.tokens.matching(tokens.at) + 1
        name = tokens.take().text if tokens.next.kind == "name" else ""
        arguments = tokens.at if parameters is not None and tokens.next.text == "<" else 0
        while arguments and tokens.next.text not in (";", "{"):
            tokens.take()
        if tokens.accept(";"):
            return
        if tokens.next.text in (":", "final"):  # the structs that it extends
            while tokens.next.text not in ("{", ";") and tokens.next.kind != "end":
                tokens.take()
        if tokens.next.text != "{" or word not in ("struct", "class"):
            raise tokens.error(tokens.next.place, f"{word} {name} is outside the subset; write a struct of numbers.")
        brace = tokens.at
        tokens.at = self.tokens.matching(brace) + 1
        if typedef and tokens.next.kind == "name":
            name = tokens.take().text
        self.statements.skip_to_semicolon()
        text, found = tokens.since(start), self.functions
        found.struct_spaces[name] = found.space
        if parameters is None:
            if found.struct_bodies.setdefault(name, (brace, text))[1] != text or name in self.symbols.types[0]:
                self.functions.twice(name, tokens.tokens[brace].place)
        else:
            self.functions.template(name, StructTemplate(parameters, brace, text, arguments))

    def is_template(self) -> bool:
        """True for the template of a type."""
        found, at = self.tokens.tokens, self.tokens.at
        words = ("struct", "class", "using")
        return found[at].text == "template" and found[template_parameters(found, at + 1)[1]].text in words

    # --- constants ---

    def qualifiers(self) -> set[str]:
        words = set()
        while self.tokens.next.text in QUALIFIERS or self.tokens.next.kind in ("string", "pragma"):
            words.add(self.tokens.take().text)
        return words

    def constants(self, start: int) -> None:
        """`__constant__ int STEP[3] = {1, 2, 3};`, the same for all threads."""
        tokens, place = self.tokens, self.tokens.next.place
        words = self.qualifiers() | {tokens.peek().text} & {"const"}  # `int const STEP = 3;`
        if tokens.next.text == "template":
            self.constant_template(start)
            return
        if not words & {"const", "constexpr", "__constant__"}:
            raise tokens.error(place, f"{tokens.next.text!r} outside functions: make it __constant__, or a parameter.")
        kind, constant = self.statements.expect_type(), "__constant__" in words
        while True:
            name = tokens.identifier("a constant's name")
            behind = tokens.behind_value(tokens.at, self.statements.is_template)
            elsewhere = "extern" in words and "=" not in tokens.between(tokens.at, behind)
            if elsewhere or (len(tokens.named[name.text]) == 1 and name.text not in self.arguments):  # nothing reads it
                tokens.at = behind
            elif isinstance(kind, StructType):
                self.tables.append(self.constant_structs(kind, name, constant or "constexpr" in words))
            else:
                self.tables.append(table(self.statements, kind, name, constant))
            if not tokens.accept(","):
                break
        tokens.expect(";")
        for made in self.tables:
            made.text = made.text or tokens.since(start)

    def constant_template(self, start: int) -> None:
        """`template <class T> constexpr T pi = T(3.14159);`"""
        tokens = self.tokens
        parameters, tokens.at = template_parameters(tokens.tokens, tokens.at + 1)
        constant, brace = self.qualifiers() & {"const", "constexpr"}, tokens.at
        while tokens.next.text not in ("=", "{", ";") and tokens.next.kind != "end":
            tokens.take()
        if not (constant and parameters and tokens.tokens[tokens.at - 1].kind == "name") or tokens.next.text == ";":
            why = "a template for some types alone is outside the subset; give it a name of its own."
            raise tokens.error(tokens.tokens[start].place, why)
        name = tokens.tokens[tokens.at - 1].text
        self.statements.skip_to_semicolon()
        self.functions.template(name, StructTemplate(parameters, brace, tokens.since(start), alias=True))

    def constant_structs(self, kind: StructType, name: Token, known: bool) -> Declare:
        """`__constant__ float3 forces[4];`, whose values the launch has, or the text."""
        tokens, parser = self.tokens, self.statements
        if [tokens.next.text, tokens.peek().text, tokens.peek(2).text] == ["[", "]", "="]:
            tokens.at += 3
            given = parser.argument()
            dims = [integer(len(parser.grouped(kind, (NONE,), getattr(given, "values", ()))))]
        else:
            dims = parser.extents(name)
        if not known or len(dims) > 1:
            raise tokens.error(name.place, f"write __constant__ {kind} {name.text}, with one axis or none.")
        tokens.at = tokens.behind_value(tokens.at, self.statements.is_template)
        array = Elements(f"{name.text}[]" if dims else name.text, kind, len(dims), ".", const=True, dims=tuple(dims))
        self.symbols.scopes[0][name.text] = array if dims else by_name(array.element(name.place))
        return Declare(name.text, "float", tuple(dims), const=True, place=name.place)

    def skip(self) -> list[str]:
        """Step over the item at the cursor; return the names that it may define."""
        tokens, depth, start = self.tokens, 0, self.tokens.at
        is_type = tokens.next.text in ("struct", "class", "union", "enum", "typedef") or self.is_template()
        while tokens.next.kind != "end":
            text = tokens.take().text
            depth += (text in ("{", "(", "[")) - (text in ("}", ")", "]"))
            if depth <= 0 and (text == ";" or (text == "}" and not is_type)):
                tokens.accept(";")
                break
        found = tokens.tokens[start : tokens.at]
        ends = ("(", "{", "}", "=", ";", "[", ",", "<")
        words = (*TYPES, *VECTORS, *QUALIFIERS, *self.functions.items, "void", "template", "enum", "typedef")
        names = [a.text for a, b in pairwise(found) if a.kind == "name" and b.text in ends and a.text not in words]
        return names if found[0].text == "enum" else names[:1] + names[-1:]

    # --- the kernel ---

    def parse_kernel(self, name: str, template: Sequence[tuple[str, str, str]]) -> None:
        tokens, parser = self.tokens, self.statements
        if (item := self.kernels.get(name)) is None:
            if any(t.text == "__global__" for t in tokens.tokens) and name in tokens.unsupported:
                raise tokens.unsupported[name]
            self.broken(name)
            return
        parser.symbols.declared, parser.symbols.numbers, parser.symbols.joined = {}, {}, set()
        shared = self.shared_arrays(item)
        parser.symbols.scopes.append({})
        parser.symbols.types.append({})
        self.functions.space = item.space
        for own, kind, value in template:
            self.bind(item, own, kind, value)
        tokens.at = item.params
        lengthen(tokens, item.body)
        made = parser.function(tokens.tokens[item.start].place, name, "void")
        assert made is not None
        used = names_used(made.body)
        for d in (d for d in shared if d.name not in used):
            del made.declared[d.name]
        extents = {n for d in made.declared.values() for e in d.dims for n in e.names}
        parser.symbols.dynamic = {n: macro for n, macro in parser.symbols.dynamic.items() if macro in extents}
        made.body = [*(d for d in shared if d.name in used), *made.body]
        parser.finish(made)
        made.text, self.kernel = tokens.since(item.start), made

    def shared_arrays(self, kernel: FunctionItem) -> list[Declare]:
        """The arrays in shared memory of the file, as though declared in the kernel; without those of other kernels."""
        tokens, parser = self.tokens, self.statements
        other = [(k.start, tokens.matching(k.body)) for k in self.kernels.values() if k is not kernel] + self.shared
        words, at = set[str](), 0
        for a, b in sorted(other):
            words |= {t.text for t in tokens.tokens[at:a]}
            at = max(at, b)
        words |= {t.text for t in tokens.tokens[at:]}
        for start, stop in self.shared:
            names = {t.text for t in tokens.tokens[start:stop] if t.kind == "name"} - {*STORAGE, *TYPES}
            if words & names:
                tokens.at = start
                parser.declaration()
                self.functions.shared |= names
        return parser.taken_pending()  # type: ignore[return-value]

    def broken(self, name: str) -> None:
        """Raise the error in the braces of a kernel that has no end."""
        tokens, found = self.tokens, self.tokens.tokens
        at = next((n for n in range(1, len(found)) if found[n].text == name and found[n + 1 : n + 2]), None)
        if at is not None and found[at + 1].text == "(":
            tokens.at = at + 1
            self.statements.function(found[at].place, name, "void")

    def join(self, text: str) -> None:
        """The tokens of a text join those of the file, with the cursor at them."""
        tokens, start = self.tokens, len(self.tokens.text) + 1
        tokens.text += f"\n{text}"
        end, tokens.at = tokens.tokens[-1]._replace(place=Place(1, len(text) + 1, file=text)), len(tokens.tokens)
        tokens.tokens += [t._replace(place=t.place._replace(file=text)) for t in cut(tokens, text, 1, start)]
        tokens.tokens += [end] * 4
        for known in ("closing", "named", "words", "around"):
            vars(tokens).pop(known, None)

    def bind(self, item: FunctionItem, name: str, kind: str, value: str) -> None:
        """A template's parameter, with its argument, whose tokens join those of the file."""
        tokens, parser = self.tokens, self.statements
        self.join(value)
        if kind.startswith("template"):  # its name in the kernel becomes that of the template which is given
            every, last = slice(item.start, parser.tokens.matching(item.body)), value.rpartition("::")[2]
            tokens.tokens[every] = [t._replace(text=last) if t.text == name else t for t in tokens.tokens[every]]
        elif kind in ("class", "typename"):
            self.symbols.types[-1][name] = parser.expect_type()
        else:
            name = name.strip("(*&").partition(")")[0].strip()  # of `double (*F)(double)`
            given = parser.expression() if value[:1].isdigit() else parser.full()
            own = next((p for p in item.template if p[1] == name), (0, name, 0))
            self.symbols.scopes[-1][name] = self.functions.template_argument(parser, own, {}, given, tokens.next)
