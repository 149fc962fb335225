"""The parser of parameters and declarations."""

from dataclasses import replace
from itertools import chain, count
from typing import Any

from minigrad.adjoint.frontend.expressions import ASSIGNMENTS, ExpressionParser
from minigrad.adjoint.frontend.intrinsics import Group
from minigrad.adjoint.frontend.macros import SEVERAL, with_constants
from minigrad.adjoint.frontend.structs import integer
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import BITS, Expr, Place, common_type
from minigrad.adjoint.language.lexer import Token
from minigrad.adjoint.language.rewrite import ONE, ZERO, chosen_number, constant, is_number, replace_parts
from minigrad.adjoint.language.values import (
    GROUP,
    NOTHING,
    Braces,
    Elements,
    Kind,
    Member,
    Pointer,
    PointerVariable,
    Struct,
    StructType,
    Value,
    holds_pointers,
    is_expression,
    is_target,
    with_type,
)

NONE = ast.Name("", "int")  # the offset of a pointer without an array
MOST_COPIED = 32  # elements of a member that are copied one by one
STORAGE = ("const", "__shared__", "extern", "static", "volatile", "constexpr", "register", "__constant__")


class DeclarationParser(ExpressionParser):
    """Parses parameters, variables, arrays and pointers."""

    returns: Kind = "void"  # the type that the function being parsed returns

    def changes(self, name: str, start: int, stop: int) -> bool:
        """True where a name is assigned as a whole: by =, +=, ++ and the like, by its address or a reference to it."""
        found = self.tokens.tokens
        for n in self.tokens.uses(name, start, stop):
            after, before = found[n + 1].text, found[n - 1].text
            if after in (*ASSIGNMENTS, "++", "--") or before in ("++", "--"):
                return True
            referred = (found[n - 3].text, before) == ("&", "=") and after in (",", ";")
            if referred or (before in ("(", ",") and after in (",", ")") and self.passed_on(n)):
                return True
            if before == "&" and after != "[" and found[n - 2].text in ("(", ",", "=", "return"):
                return True
        return False

    def declaration(self) -> None:
        """`const int i = ..., j = ...;` or `__shared__ real tile[TILE][TILE];`."""
        tokens, words = self.tokens, set[str]()
        start = tokens.at
        while tokens.next.text in (*STORAGE, "__align__", "alignas"):
            words.add(word := tokens.take().text)
            if word in ("__align__", "alignas"):
                tokens.expect("(")
                self.skip_arguments()
        if "static" in words and "__shared__" not in words and not words & {"const", "constexpr"}:
            raise self.error(tokens.tokens[start].place, "static variables are outside the differentiable subset; "
                             "leave static out.")  # fmt: skip
        first = tokens.at
        kind: Kind | None = None
        if not tokens.accept("auto") and not self.accept_group_type():
            kind = self.expect_type()
        words |= {t.text for t in tokens.tokens[first : tokens.at] if t.text in STORAGE}
        while tokens.next.text in STORAGE:
            words.add(tokens.take().text)
        while True:
            self.declarator(kind, words, start)
            if not tokens.accept(","):
                break

    def local_struct(self) -> None:
        """`struct Line { double a, b; } line;`"""
        tokens, start = self.tokens, self.tokens.at
        tokens.take()
        name, brace = tokens.identifier("the struct's name"), tokens.at
        while tokens.tokens[brace].text not in ("{", ";"):
            brace += 1
        tokens.at = self.tokens.matching(brace) + 1
        if self.functions.struct_bodies.setdefault(name.text, (brace, tokens.since(start)))[0] != brace:
            raise self.error(name.place, SEVERAL.format(name.text))
        if not tokens.accept(";"):
            kind = self.functions.struct(name.text)
            while tokens.next.text != ";":
                self.declarator(kind, set(), tokens.at)
                tokens.accept(",")
            tokens.expect(";")

    def accept_group_type(self) -> bool:
        """Step over `cg::thread_block` or `cg::thread_block_tile<32>`."""
        tokens, n = self.tokens, self.tokens.at
        if self.symbols.type(tokens.next.text) is GROUP:
            return bool(tokens.take())
        while tokens.tokens[n].kind == "name" and tokens.tokens[n + 1].text == "::":
            n += 2
        if tokens.tokens[n].text not in ("thread_block", "thread_block_tile", "thread_group", "grid_group"):
            return False
        n += 1
        while (tokens.tokens[n - 1].text != ">" and tokens.tokens[n].text == "<") or tokens.tokens[n - 1].text in "<,":
            while tokens.tokens[n].text != ">":
                n += 1
            n += 1
        tokens.at = n
        return True

    def declarator(self, kind: Kind | None, words: set[str], start: int) -> None:
        """One name of a declaration, entered into the symbol table; its statements join the pending ones."""
        tokens = self.tokens
        const, shared = bool(words & {"const", "constexpr"}), "__shared__" in words
        stars, reference = 0, False
        while tokens.next.text in ("*", "&", "&&", "__restrict__", "__restrict", "const", "volatile"):
            word = tokens.take().text
            stars += word == "*"
            reference |= word in ("&", "&&")
        at, before = tokens.at, len(self.symbols.pending)
        if kind is None and tokens.accept("["):
            self.bindings(reference)
            return
        tokens.forbid_brackets()
        name = tokens.identifier("a variable's name")
        if stars > 1 or (stars and tokens.next.text == "["):
            why = f"{name.text} is an array of pointers; choose between their elements: k == 0 ? x[i] : w[i]."
            raise self.error(name.place, why)
        if kind is None or stars or reference:
            self.initialized(name, kind, stars, reference, const)
        else:
            self.variable(kind, name, shared, const, "extern" in words)
        for s in self.symbols.pending[before:]:
            s.text = s.text or f"{kind or 'auto'}{'*' * stars}{'&' * reference} {tokens.line_since(at)};"
        if tokens.uses(name.text, at + 1, tokens.at):
            raise self.error(name.place, f"{name.text} is read in its own initial value, before it has one.")

    def bindings(self, reference: bool) -> None:
        """`auto [a, b] = v;`: names for the members of a copy of v, or with & of v itself."""
        tokens, place = self.tokens, self.tokens.next.place
        names = [tokens.identifier("a name").text for _ in tokens.items("]")]
        tokens.expect("=")
        value = self.argument()
        if not isinstance(value, Struct) or len(value.members) != len(names):
            raise self.error(place, "write a variable for each element, and not auto [...] = ...")
        whole: Any = self.frozen(value, place) if reference else self.copy("bound", value.type, value, place)
        self.symbols.scopes[-1] |= dict(zip(names, whole.members.values(), strict=True))

    def initialized(self, name: Token, kind: Kind | None, stars: int, reference: bool, const: bool) -> None:
        """`auto v = e;`, `float* p = e;` or `float& v = e;`."""
        tokens, scope = self.tokens, self.symbols.scopes[-1]
        if not tokens.accept("="):
            if not stars or kind is None:
                raise self.error(name.place, f"write a value for {name.text}: ... = ...;")
            scope[name.text] = PointerVariable(name.text, kind, None, NONE, choices=self.symbols.choices)
            return
        if tokens.next.text == "[" and self.functions:
            scope[name.text] = self.functions.closure(self, name)
            return
        value = self.argument()
        if isinstance(value, Group):
            scope[name.text] = value
        elif stars or (kind is None and isinstance(value, Pointer)) or (isinstance(value, Elements) and not reference):
            pointer = self.pointer_to(kind, self.pointer(value, name.place), name.place)
            if reference and pointer.moves is not None:
                scope[name.text] = pointer.moves
            else:
                self.declare_pointer(name, with_type(pointer, kind or "void"), const)
        elif reference and (itself := self.referred(value, kind, name.place)) is not None:
            scope[name.text] = itself
        else:
            self.new(name, kind, value, const)

    def referred(self, value: Value, kind: Kind | None, place: Place) -> Value | None:
        """The object that a reference names, or its base; None where it names a converted copy."""
        if isinstance(value, Elements) or (is_expression(value) and is_target(value) and kind in (None, value.type)):
            return self.frozen(value, place)
        self.check_not_bits(value, place)
        object_ = isinstance(value, Struct) and (kind is None or value.as_base(kind).type is kind)
        return self.frozen(self.convert(value, kind, place), place) if object_ else None

    def check_not_bits(self, value: Value, place: Place) -> None:
        """Reject a reference to the bits of a number, which a copy of them would not follow."""
        parts = ast.walk(value) if is_expression(value) else ()  # type: ignore[arg-type]
        if any(isinstance(e, ast.Call) and e.function in BITS.values() for e in parts):
            raise self.error(place, "a reference to the bits of a number; write a variable, const int b = ...;")

    def new(self, name: Token, kind: Kind | None, value: Value, const: bool = False) -> None:
        """A variable that has this value first."""
        made = self.convert(value, kind, name.place, stored=True)
        if isinstance(made, Struct):
            self.symbols.scopes[-1][name.text] = self.copy(name.text, made.type, made, name.place)
        else:
            number = self.number(made, name.place)
            type_ = kind if isinstance(kind, str) else self.symbols.type_of(number)
            self.declare(ast.Declare(name.text, type_, value=number, const=const, place=name.place))

    def declare_pointer(self, name: Token, pointer: Pointer, const: bool) -> None:
        """A pointer: its array, and its offset, in a variable of its name unless it is a number."""
        scope = self.symbols.scopes[-1]
        changes = self.changes(name.text, self.tokens.at, self.body_end)
        if pointer.array is not None and pointer.array.name == NOTHING and changes:  # gets its array later
            scope[name.text] = PointerVariable(name.text, pointer.type, None, NONE, choices=self.symbols.choices)
        elif changes and pointer.array is not None:
            scope[name.text] = self.pointer_variable(name.text, pointer.type, pointer, name.place)
        else:
            scope[name.text] = self.frozen(pointer, name.place, name.text)

    def pointer_variable(self, name: str, kind: Kind, pointer: Pointer, place: Place) -> PointerVariable:
        array = pointer.array
        assert array is not None
        if array.indices:
            rows = (self.simple(i, f"{name}_row", place, index=True) for i in array.indices)
            array = replace(array, indices=tuple(rows))
        offset = self.symbols.fresh(name, common_type(pointer.offset.type), pointer.offset, place)
        return PointerVariable(name, kind, array, offset, array.const, self.symbols.choices)

    def frozen(self, value: Value, place: Place, name: str = "place", kept: dict[Expr, Expr] | None = None) -> Value:
        """A target whose indices change no more; a temporary struct's copy. kept: the variables that hold indices."""
        known: dict[Expr, Expr] = {} if kept is None else kept

        def keep(e: Expr, what: str) -> Expr:
            if e not in known:
                known[e] = self.simple(e, f"{name}{what}", place, index=True)
            return known[e]

        def part(value: Value) -> Value:
            return self.frozen(value, place, name, known)

        match value:
            case ast.Name():
                return self.as_place(value, place)
            case ast.Index():
                return replace(value, indices=tuple(keep(i, "_index") for i in value.indices))
            case ast.Ternary() if is_target(value):
                yes, no, chosen = part(value.yes), part(value.no), keep(value.condition, "_chosen")
                return replace(value, condition=chosen, yes=yes, no=no)  # type: ignore[arg-type]
            case Pointer():
                array = value.array
                if array and array.indices:
                    array = replace(array, indices=tuple(keep(i, "_row") for i in array.indices))
                return replace(value, array=array, offset=keep(value.offset, ""), moves=None)
            case Elements() if value.indices:
                return replace(value, indices=tuple(keep(i, "_row") for i in value.indices))
            case Struct() if not is_target(value):
                return self.copy(value.type.short.lower(), value.type, value, place)
            case Struct() if value.whole is not None:
                return part(value.whole).as_base(value.type)  # type: ignore[union-attr]
            case Struct() if value.origin is not None and value.origin.array is not None:
                origin = part(value.origin)
                assert isinstance(origin, Pointer) and origin.array is not None
                whole = origin.array.at(origin.offset, place)
                return whole.as_base(value.type) if isinstance(whole, Struct) else whole
            case Struct():
                members = {
                    n: m if isinstance(m, Pointer | PointerVariable) else part(m) for n, m in value.members.items()
                }
                return replace(value, members=members, temporary=False)
        return value

    def declare(self, variable: ast.Declare) -> ast.Declare:
        """Enter a variable and append its declaration."""
        self.symbols.declare(variable)
        self.symbols.pending.append(variable)
        return variable

    def variable(self, kind: Kind, name: Token, shared: bool, const: bool, extern: bool = False) -> None:
        """A variable or an array, with its initial value."""
        tokens = self.tokens
        unknown = [tokens.next.text, tokens.peek().text] == ["[", "]"]
        tokens.at += 2 * unknown
        dims = self.extents(name)
        if unknown and extern:
            known = self.symbols.declared.get(name.text)
            if known is not None and known.type == kind and name.text in self.symbols.dynamic:
                self.symbols.scopes[-1][name.text] = known  # the same memory in another function
                return
            dims = [self.dynamic_extent(name), *dims]
        elif unknown and tokens.next.text not in ("=", "{"):
            raise self.error(name.place, f"write the extent of {name.text}.")
        if isinstance(kind, StructType):
            self.struct_variable(kind, name, dims, shared, unknown and not extern)
            return
        if shared and not dims:
            self.declare(ast.Declare(name.text, kind, (ONE,), shared=True, place=name.place))
            made = self.symbols.scopes[-1][name.text]
            self.symbols.scopes[-1][name.text] = ast.Index(made.name, (ZERO,), kind, name.place)  # type: ignore[union-attr]
            return
        variable = ast.Declare(name.text, kind, tuple(dims), shared=shared, const=const, place=name.place)
        given = tokens.accept("=") or tokens.next.text == "{"
        if given and (dims or unknown):
            self.initial_values(variable, self.argument(), unknown)
            return
        if given:
            variable.value = self.convert(self.argument(), kind, name.place, stored=True)
        elif tokens.accept("("):
            variable.value = self.convert(self.close(self.full()), kind, name.place, stored=True)
        self.declare(variable)

    def initial_values(self, variable: ast.Declare, given: Value, unknown: bool) -> None:
        """The values in braces; those of several axes become assignments."""
        if not isinstance(given, Braces) or given.names:
            raise self.error(variable.place, f"write the values of {variable.name} in braces.")
        if unknown:
            given = Braces(self.grouped(variable.type, (NONE, *variable.dims), given.values))
            variable.dims = (integer(len(given.values)), *variable.dims)
        several = len(variable.dims) > 1
        numbers = given.values if not several else (ZERO,) if all_zero(given) else ()
        variable.values = tuple(self.convert(v, variable.type, variable.place, stored=True) for v in numbers)
        self.declare(variable)
        if several and not numbers:
            self.set_member(self.symbols.array(variable), given, variable.place)

    def dynamic_extent(self, name: Token) -> Expr:
        """The macro for the extent of `extern __shared__ float s[];`, which a launch gives."""
        if self.symbols.dynamic and name.text not in self.symbols.dynamic:
            other = next(iter(self.symbols.dynamic))
            why = f"{other} and {name.text} are the same memory; give the launch's shared memory one name."
            raise self.error(name.place, why)
        return self.symbols.extent(name.text)

    def struct_variable(self, kind: StructType, name: Token, dims: list[Expr], shared: bool, unknown: bool) -> None:
        """A variable or an array for each number of a struct."""
        tokens, place, scope = self.tokens, name.place, self.symbols.scopes[-1]
        if not dims and not unknown and not shared:
            value: Any = None
            if tokens.accept("=") or tokens.next.text == "{":
                value = self.convert(self.argument(), kind, place)
            elif tokens.accept("("):
                value = self.constructor(kind, [self.argument() for _ in tokens.items(")")], name)
            elif self.is_constructed(kind, name):
                value = self.construct(kind, [], name)
            scope[name.text] = self.copy(name.text, kind, value, place)
            return
        if holds_pointers(kind):
            raise self.error(place, f"{kind} holds pointers; write a variable for each element of {name.text}.")
        rows = self.argument() if tokens.accept("=") or tokens.next.text == "{" else None
        if unknown and isinstance(rows, Braces):
            rows = Braces(self.grouped(kind, (NONE, *dims), rows.values))
            dims = [integer(len(rows.values)), *dims]
        elif unknown:
            raise self.error(place, f"write the values of {name.text} in braces.")
        array = self.arrays(name.text, kind, tuple(dims) or (ONE,), place, shared)
        scope[name.text] = array if dims else array.at(ZERO, place)
        if rows is not None:
            self.set_member(array, rows, place)
            return
        if not shared and (self.is_constructed(kind, name) or any(m.value for m in kind.members)):
            if len(dims) > 1 or (constant(dims[0]) or MOST_COPIED + 1) > MOST_COPIED:
                raise self.error(place, f"{kind} sets its own members in each of many elements; set them in a loop.")
            for part in array.parts(place):
                self.store(part, self.constructor(kind, [], name), place)

    def arrays(self, name: str, kind: Kind, dims: tuple[Expr, ...], place: Place, shared: bool = False) -> Elements:
        """An array; of structs one for each of their numbers, whose names begin with name, name_2 or so on."""

        def leaves(base: str) -> list[tuple[str, str, tuple[Expr, ...]]]:
            return [(base, kind, ())] if isinstance(kind, str) else [*kind.leaves(base, "_")]

        bases = chain([name], (f"{name}_{n}" for n in count(2)))
        base = next(b for b in bases if not any(leaf in self.symbols for leaf, _, _ in leaves(b)))
        for leaf, member, own in leaves(base):
            made = ast.Declare(leaf, member, (*dims, *own), shared=shared, place=place)
            self.symbols.declared[leaf] = made
            self.symbols.pending.append(made)
        return Elements(base, kind, len(dims), dims=dims)

    def copy_array(self, name: str, m: Member, own: Value | None, place: Place) -> Elements:
        """An array that is a member of a struct variable."""
        array = self.arrays(name, m.type, m.dims, place)
        if own is not None:
            if any(constant(d) is None or constant(d) > MOST_COPIED for d in m.dims):  # type: ignore[operator]
                raise self.error(place, f"the member {m.name} is an array; copy it element by element.")
            whole = StructType("", (m,))
            to, of = (Struct(whole, {m.name: v}) for v in (array, own))
            self.symbols.pending += self.member_stores(to, of, place)
        return array

    def extents(self, name: Token) -> list[Expr]:
        """The extents `[4][N]` of an array, with the values of the kernel's own constants substituted."""
        dims = list[Expr]()
        while self.tokens.accept("["):
            place = self.tokens.next.place
            e = with_constants(self.symbols, self.expression())
            if any(n not in self.symbols.macros for n in e.names):
                why = f"the extent of {name.text} must be a constant: a number, a macro or a const int."
                raise self.error(place, why)
            dims.append(replace_parts(e, chosen_number))
            self.tokens.expect("]")
        return dims


def all_zero(value: Value) -> bool:
    """True for `{}`, and for numbers in braces that are all 0."""
    return all(map(all_zero, value.values)) if isinstance(value, Braces) else is_number(value, 0)  # type: ignore[arg-type]
