"""Arguments of calls: the function that takes them, the arguments of its template that they show, its parameters."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from minigrad.adjoint.frontend.items import FileItems
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import Place, base_name
from minigrad.adjoint.language.dataflow import inline
from minigrad.adjoint.language.lexer import Token, written_out
from minigrad.adjoint.language.values import (
    PROMOTIONS,
    Braces,
    Elements,
    FunctionItem,
    Kind,
    Pointer,
    PointerVariable,
    Struct,
    StructType,
    Value,
    is_expression,
    is_target,
    with_type,
)
from minigrad.adjoint.language.values import leaves as numbers

EXACT, PROMOTED, CONVERTED, BY_USER, WRONG = 8, 4, 0, -4, -8  # how well a parameter takes an argument


@dataclass
class Bound:
    """A parameter of a call: its name, type, and the words with it."""

    name: Token
    kind: Kind | None
    stars: int
    reference: bool
    const: bool
    array: bool


class ArgumentBinder(FileItems):
    """The functions of a file that take given arguments, and their parameters bound to these."""

    def parameters(self, params: int) -> list[tuple[int, list[str], int]]:
        """Of each parameter behind a bracket: its first token, the words ahead of its default, the default's token."""
        found, made = self.tokens.tokens, list[tuple[int, list[str], int]]()
        close = self.tokens.matching(params) if found[params].text == "(" else params + 1  # of a lambda that has none
        n, start, depth, default = params, params + 1, 0, 0
        while (n := n + 1) <= close:
            text = found[n].text
            if not depth and (text == "," or n == close):
                made.append((start, [t.text for t in found[start : default - 1 if default else n]], default))
                start, default = n + 1, 0
            elif not depth and text == "=":  # a > in the default is no bracket
                default, n = n + 1, self.tokens.behind_value(n, self.parser.is_template) - 1
            depth += (text in ("(", "[", "{", "<")) - (text in (")", "]", "}", ">"))
        return made if made[0][1] not in ([], ["void"]) else []

    def default(self, item: FunctionItem, n: int) -> int:
        """The token of a parameter's default, which also a declaration of the function may give; 0 without one."""
        own = self.parameters(item.params)
        every = map(self.parameters, (item.params, *self.declared.get(self.declared_as(item), ())))
        alike = (made for made in every if len(made) == len(own) and all(
            a[:-1] in (b, b[:-1]) for (_, a, _), (_, b, _) in zip(own, made, strict=True)))  # fmt: skip
        return next((made[n][2] for made in alike if made[n][2]), 0)

    def visible(
        self, items: list[FunctionItem], path: tuple[str, ...], arguments: list[Value], token: Token
    ) -> list[FunctionItem]:
        """The functions of a name that stand for it here: behind a path, or in the innermost namespace that has it."""
        if not items or items[0].name.startswith("operator"):  # their operands decide
            return items
        around = () if path[:1] == ("",) else self.stack[-1].space if self.stack else self.space
        path = (*self.namespaces.get(path[0], path[:1]), *path[1:]) if path and path[0] else path[1:]
        spaces = [(*around[:n], *path) for n in range(len(around), -1, -1)]
        ahead = [i for i in items if min(i.start, *self.declared.get(self.declared_as(i), [i.start])) < self.tokens.at]
        items = ahead or ([] if base_name(items[0].name) and not path else items)
        found = next(filter(None, ([i for i in items if i.space == space] for space in spaces)), [])
        if path:
            return found or [i for i in items if path[0] != "std" and i.space[-len(path) :] == path]
        with_types = {a.type.space for a in arguments if isinstance(a, Struct)} - {()}
        named = {path for start, stop, path in self.used if start < self.tokens.at < stop}
        named |= {(*space, token.text) for space in with_types}
        found += [i for i in items if i not in found and (i.friend or {i.space, (*i.space, i.name)} & named)]
        if base_name(token.text) and not found:
            return []  # CUDA's
        if base_name(token.text) and all(i.space and i.space != around[: len(i.space)] for i in found):
            why = f"{token.text} is a function of CUDA, and one of a namespace here; give that one a name of its own."
            raise self.tokens.error(token.place, why)
        return found or items

    def check_copied(self, parser: Any, kind: StructType, method: str, place: Place) -> None:
        """Reject a struct that does something of its own where it is copied: by this method, or by its constructor."""
        if self.copies(kind, method or kind.short):
            what = f"an {method}" if method else "a constructor"
            raise parser.error(place, f"{kind} has {what} of its own for copies; leave it out, or copy the members.")
        for part in (*kind.bases, *(m.type for m in kind.members if not m.pointer)):
            if isinstance(part, StructType):
                self.check_copied(parser, part, method, place)

    def copies(self, kind: StructType, method: str) -> bool:
        """True where a method copies a struct other than member by member."""
        for item in (i for i in kind.methods.get(method, ()) if i.counts == 1):
            found = self.tokens.tokens[item.params : self.tokens.matching(item.body) + 1]
            words = [t.text for t in found[: self.tokens.matching(item.params) - item.params]]
            text = " ".join(t.text for t in found[len(words) + 1 :]).replace("this -> ", "")
            alike = rf"(\w+) (?:= {words[-1]} \. \1 ;|\( {words[-1]} \. \1 \)|{{ {words[-1]} \. \1 }})"
            left = re.sub(alike, "", text).replace("return * this ;", "")
            copied = set(re.findall(alike, text)) == {m.name for m in kind.members}
            if kind.short in words and (re.search(r"\w", left) or not copied):
                return True
        return False

    def changes_arguments(self, item: FunctionItem) -> bool:
        """True where a function takes a reference or a pointer to what is not const."""
        every = [{*texts} for _, texts, _ in self.parameters(item.params)]
        return any({"&", "*", "["} & texts and "const" not in texts for texts in every)

    def constructs(self, item: FunctionItem, parser: Any) -> bool:
        """True for a constructor that takes no arguments and does something."""
        tokens = self.tokens.tokens
        empty = tokens[self.tokens.matching(item.params) + 1].text == "{" and tokens[item.body + 1].text == "}"
        return not empty and self.fits(item, [], parser)

    def fits(self, item: FunctionItem, arguments: list[Value], parser: Any) -> bool:
        parameters = self.parameters(item.params)
        if len(arguments) > len(parameters):
            return False
        for n, (start, texts, _) in enumerate(parameters):
            if n >= len(arguments) and not self.default(item, n):
                return False
            if n >= len(arguments) or isinstance(arguments[n], Braces):
                continue
            pointer = "*" in texts or "[" in texts
            if isinstance(arguments[n], Pointer | Elements) != pointer and not any(
                t in texts for _, t, _ in item.template
            ):
                return False
            kind = self.kind_of(item, start, parser)
            if isinstance(arguments[n], Struct) and not pointer:
                of_template = kind is None and self.templates.keys() & set(texts) and "::" not in texts
                given = arguments[n].type
                assert isinstance(given, StructType)
                if of_template and self.of_template(given, written_out(texts, self.templates, self.tokens)) is None:
                    return False
                other = kind is not None and kind is not given and not given.extends(kind)
            else:
                other = is_expression(arguments[n]) and isinstance(kind, StructType)
            if other and kind is not None and not self.converted_by_user(arguments[n], kind, parser):
                return False
        return True

    def converted_by_user(self, value: Value, kind: Kind, parser: Any) -> bool:
        """True where an operator or a constructor of the file makes a value of this type. C++ takes one, not two."""
        if self.converting:
            return False
        return bool(parser.conversions(value) if isinstance(kind, str) else parser.converts_to(value, kind))

    def is_explicit(self, item: FunctionItem) -> bool:
        """True for a conversion that C++ does not make of itself."""
        return "explicit" in {t.text for t in self.tokens.tokens[item.start : item.params]}

    def converts(self, item: FunctionItem, value: Value, parser: Any, explicit: bool) -> bool:
        """True for a constructor by which a value becomes an object where one is needed. explicit: by a cast."""
        copies = self.kind_of(item, item.params + 1, parser) is item.owner
        if copies or not item.counts or (self.is_explicit(item) and not explicit):
            return False
        before, self.converting = self.converting, True
        try:
            return self.fits(item, [value], parser)
        finally:
            self.converting = before

    def kind_of(self, item: FunctionItem, start: int, parser: Any) -> Kind | None:
        """The type of a parameter; None where the arguments of the function's own template decide on it."""
        if {t.text for t in self.tokens.tokens[start : start + 8]} & {name for _, name, _ in item.template}:
            return None
        inside = item.owner or StructType("", ())
        parser.symbols.types.append(inside.types)
        parser.symbols.scopes.append(inside.values)
        try:
            return parser.type_length(start)[0]
        finally:
            parser.symbols.types.pop()
            parser.symbols.scopes.pop()

    def chosen(
        self, name: str, items: list[FunctionItem], arguments: list[Value], token: Token, parser: Any
    ) -> FunctionItem | None:
        """The function that takes these arguments best; None where none does. Raises where two do it differently."""
        fitting = [(i, self.ranks(i, arguments, parser)) for i in items if self.fits(i, arguments, parser)]
        best = [i for i, own in fitting if all(a >= b for _, other in fitting for a, b in zip(own, other, strict=True))]
        best = [i for i in best if not i.template] or best
        if len({self.meaning(i, parser) for i in best}) > 1 or (fitting and not best):
            why = f"several functions {name} take these arguments; give the one that is meant a name of its own."
            raise parser.error(token.place, why)
        return next((i for i in best if not self.is_const(i)), best[0] if best else None)  # one that gives references

    def meaning(self, item: FunctionItem, parser: Any) -> tuple[str, str]:
        """The type that a function returns, and the text of its body and of the members that a constructor sets."""
        sets = item.owner is not None and item.name == item.owner.short
        start = self.tokens.matching(item.params) + 1 if sets else item.body
        kind = self.kind_of(item, self.tokens.specifiers(item.start), parser)
        return str(kind), " ".join(t.text for t in self.tokens.tokens[start : self.tokens.matching(item.body)])

    def is_const(self, item: FunctionItem) -> bool:
        """True for a method of const objects."""
        return self.tokens.tokens[self.tokens.matching(item.params) + 1].text == "const"

    def ranks(self, item: FunctionItem, arguments: list[Value], parser: Any) -> list[int]:
        """A rank for each parameter: by the type of its argument, then by what may be changed through it."""
        made = []
        for (start, texts, _), argument in zip(self.parameters(item.params), arguments, strict=False):
            kind, own = self.kind_of(item, start, parser), parser.symbols.type_of(argument)
            promoted = kind is not None and kind == PROMOTIONS.get(str(own))
            rank = EXACT if kind in (None, own) else PROMOTED if promoted else CONVERTED
            structs = [k for k in (kind, own) if isinstance(k, StructType)] if kind is not None and kind != own else []
            if structs and not (len(structs) == 2 and structs[1].extends(structs[0])):
                rank = BY_USER
            rank += ("*" in texts) + (kind is None and bool(self.templates.keys() & set(texts)))  # closer than T
            variable = isinstance(argument, Pointer | Elements) or is_target(argument)
            if "&&" in texts:
                rank = rank + 1 if not variable else rank if kind is None else WRONG
            elif "&" in texts or "*" in texts:
                const = not variable or parser.is_constant(argument)
                rank = rank - ("const" in texts and not const) if "const" in texts or not const else WRONG
            made.append(rank)
        return made

    def bind_template(
        self, parser: Any, item: FunctionItem, arguments: list[Value], token: Token, explicit: list
    ) -> tuple:
        """The arguments of a function's template, entered into the scope."""
        symbols = parser.symbols
        types, scope = symbols.types[-1], symbols.scopes[-1]
        for (number, name, _), given in zip(item.template, explicit, strict=False):
            if bool(number) == isinstance(given, str | StructType):
                raise parser.error(token.place, f"the argument {name} of the template {item.name} does not fit.")
            (scope if number else types)[name] = given
        for (_, texts, _), a in zip(self.parameters(item.params), arguments, strict=False):
            self.deduce(item, texts, a, parser)
        for number, name, default in item.template:
            if not (default or name in types or name in scope):
                raise parser.error(token.place, f"the argument {name} of the template {item.name} is not known here; "
                                   f"write {item.name}<...>.")  # fmt: skip
            into = scope if number else types
            into[name] = self.template_argument(parser, (number, name, default), {}, into.get(name), token)
        return tuple((scope if number else types)[name] for number, name, _ in item.template)

    def bind(self, parser: Any, item: FunctionItem, arguments: list[Value], token: Token) -> None:
        scope = parser.symbols.scopes[-1]
        bounds = [self.parameter(parser, start) for start, _, _ in self.parameters(item.params)]
        anything = item.scopes is not None or any(isinstance(a, FunctionItem) for a in arguments)  # a lambda reaches it
        changing = any((b.reference or b.stars or b.array) and not b.const for b in bounds)
        pure = not changing and item.owner is None and not anything
        values, bound = [*arguments], dict[str, Any]()
        for n in range(len(values), len(bounds)):
            self.tokens.at = self.default(item, n)
            values.append(parser.argument())
        for n, (b, value) in enumerate(zip(bounds, values, strict=True)):
            if b.name.text:
                others = [a for a in (*arguments[:n], *arguments[n + 1 :], scope.get("this")) if a is not None]
                reached = None if anything else others
                bound[b.name.text] = self.bound(parser, item, b, value, token.place, pure, reached)
        scope.update(bound)

    def of_template(self, kind: StructType, texts: list[str]) -> StructType | None:
        """The struct, or one that it extends, whose name is among these words."""
        inner = (self.of_template(base, texts) for base in kind.bases)
        return kind if kind.short in texts else next(filter(None, inner), None)

    def deduce(self, item: FunctionItem, texts: list[str], value: Value, parser: Any) -> None:
        """The arguments of a function's template that one of its arguments shows, entered into the scope."""
        texts, kind = written_out(texts, self.templates, self.tokens), parser.symbols.type_of(value)
        kind = (isinstance(kind, StructType) and self.of_template(kind, texts)) or kind
        if isinstance(kind, StructType) and kind.arguments and kind.short in texts:  # `Row<T, N>`
            inner = texts[texts.index(kind.short) + 1 :]
            inner = inner[: inner.index(">")] if ">" in inner else []
            shown = [t for t in inner if t not in ("<", ",")]
            pairs = list(zip(shown, kind.arguments, strict=False)) if len(shown) == len(kind.arguments) else []
        else:
            pairs = [(text, kind) for text in texts]
        if isinstance(value, Elements) and "&" in texts:  # `T (&row)[N]`
            extents = re.findall(r"\[ (\w+) (?=\])", " ".join(texts))
            pairs += zip(extents, (inline(e, parser.symbols.formulas) for e in value.left), strict=False)
        for text, given in pairs:
            for number, name, _ in item.template:
                into = (parser.symbols.scopes if number else parser.symbols.types)[-1]
                if name == text and name not in into and bool(number) != isinstance(given, str | StructType):
                    into[name] = given

    def parameter(self, parser: Any, start: int) -> Bound:
        tokens = self.tokens
        tokens.at = start
        while tokens.next.text in ("const", "__restrict__"):
            tokens.take()
        if parser.accept_group_type():
            while tokens.next.text in ("&", "const"):
                tokens.take()
            name = tokens.take() if tokens.next.kind == "name" else Token("name", "", tokens.next.place)
            return Bound(name, None, 0, True, True, False)
        void = tokens.accept("void")
        kind = None if void or tokens.accept("auto") else parser.expect_type()
        const = any(t.text == "const" for t in tokens.tokens[start : tokens.at])
        stars, reference = 0, False
        grouped = tokens.accept("(")
        while tokens.next.text in ("*", "&", "&&", "__restrict__", "__restrict", "const", "volatile"):
            word = tokens.take().text
            stars += word == "*"
            reference |= word in ("&", "&&")
        if stars > 1:
            raise parser.error(tokens.next.place, "a pointer to a pointer is outside the subset; pass the array.")
        name = tokens.take() if tokens.next.kind == "name" else Token("name", "", tokens.next.place)
        if grouped:
            tokens.expect(")")
        array = False
        while tokens.accept("["):
            array = True
            while not tokens.accept("]"):
                tokens.take()
        return Bound(name, kind, stars, reference, const, array)

    def bound(
        self, parser: Any, item: FunctionItem, b: Bound, value: Value, place: Place, pure: bool,
        others: list[Value] | None,
    ) -> Any:  # fmt: skip
        """The argument as the function's parameter. others: what else the function reaches; None: any variable."""
        name, stop = b.name.text, self.tokens.matching(item.body)
        if isinstance(value, Braces) and (b.kind in (None, Braces.type) or b.stars or b.array):
            raise parser.error(place, f"{item.name} takes no braces here; put their values into a variable.")
        of_template = isinstance(value, Pointer | Elements) and value.type == b.kind  # T is known without its stars
        if not (b.stars or b.array or of_template):
            value = parser.convert(value, b.kind, place, stored=True)
        changed = parser.changes(name, item.body, stop)
        if b.stars or b.array:
            if isinstance(value, Elements) and (value.axes > 1 or (b.array and b.reference)):
                return parser.frozen(value, place)
            pointer = parser.pointer_to(b.kind, parser.pointer(value, place), place)
            if b.kind is not None and pointer.array and str(pointer.type) != str(b.kind):
                raise parser.error(place, f"{item.name} takes a pointer to {b.kind}, and gets one to {pointer.type}.")
            if changed and b.reference:
                if pointer.moves is None:
                    why = f"{item.name} moves a pointer that it gets by reference; return it instead."
                    raise parser.error(place, why)
                return pointer.moves
            if changed and pointer.array is not None:
                return parser.pointer_variable(name, pointer.type, pointer, place)
            return parser.frozen(with_type(pointer, b.kind), place, name)
        reached = others is None or self.reaches(parser, value, others)  # what it refers to may change in the function
        if isinstance(value, Struct):
            if b.reference and is_target(value) and (not b.const or reached):
                return parser.frozen(value, place)
            simple = all(isinstance(e, ast.Name | ast.Number) for e in numbers(value))
            if simple and b.const and (pure or not reached):
                return replace(value, passing=False, temporary=False)
            return parser.copy(name or "passed", value.type, value, place)
        if not is_expression(value):
            return value
        if b.reference and (not b.const or reached):
            parser.check_not_bits(value, place)
        number = parser.number(value, place)
        own = parser.symbols.type_of(number)
        kind = b.kind if isinstance(b.kind, str) else own
        if b.reference and is_target(number) and (not b.const or (reached and own == kind)):
            return parser.frozen(number, place)
        if isinstance(number, ast.Number) and not changed and own == kind:
            return number
        if pure and isinstance(number, ast.Name) and not changed and own == kind:
            return number
        return parser.symbols.fresh(name or "passed", kind, number, place)

    def reaches(self, parser: Any, value: Value, others: list[Value]) -> bool:
        """True where other arguments reach a variable or an element that a value reads, or another thread does."""
        own, known = set(storage(value)), parser.symbols.declared
        shared = any(n in known and known[n].shared for n in own)
        return shared or bool(own & {n for v in others for n in storage(v)})


def storage(value: Value) -> Iterator[str]:
    """The variables and arrays in which a value lies, or that it reads."""
    match value:
        case Pointer() | PointerVariable():
            for part in (value.array, value.target):
                if part is not None:
                    yield from storage(part)
        case Elements() if isinstance(value.type, StructType):
            yield from (name for name, _, _ in value.type.leaves(value.name, value.joint))
        case Elements():
            yield value.name
        case Struct() if value.members:
            for member in value.members.values():
                yield from storage(member)
        case Struct():
            yield from (n for e in numbers(value) for n in e.names)
        case ast.Expression():
            yield from value.names
