"""The parser of calls: math functions, intrinsics, groups of threads, and functions of the file."""

from minigrad.adjoint.frontend import intrinsics
from minigrad.adjoint.frontend.intrinsics import INTRINSICS, LEFT_OUT, SHUFFLES, Group
from minigrad.adjoint.frontend.structs import StructParser
from minigrad.adjoint.frontend.symbols import IGNORED
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import (
    BYTES,
    Expr,
    Place,
    arity,
    base_name,
    is_float,
    result_type,
)
from minigrad.adjoint.language.lexer import Token, way_out
from minigrad.adjoint.language.rewrite import ZERO, constant
from minigrad.adjoint.language.values import (
    VECTORS,
    Braces,
    Elements,
    FunctionItem,
    FunctionName,
    Pointer,
    Struct,
    StructType,
    Value,
)

CHANGES = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--")


class CallParser(StructParser):
    """Parses calls and casts that look like calls."""

    def call(self, name: Token) -> Value:
        """A call of a math function, an intrinsic or one of the file's functions."""
        tokens = self.tokens
        if (error := tokens.rejected(name)) and not (self.functions and name.text in self.functions):
            raise error
        if isinstance(known := self.symbols.lookup(name.text), FunctionName):
            name = name._replace(text=known.name)
        if isinstance(known, FunctionItem | Struct) and self.functions and tokens.accept("("):
            return self.called_value(known, [self.argument() for _ in tokens.items(")")], name)
        if (holder := self.holder(name.text)) is not None and tokens.accept("("):
            return self.method(holder, name.text, [self.argument() for _ in tokens.items(")")], name)
        explicit = self.functions.template_arguments(self) if self.functions and tokens.next.text == "<" else []
        tokens.expect("(")
        if name.text in LEFT_OUT:
            self.leave_out(name)
            return ZERO
        arguments = [self.argument() for _ in tokens.items(")")]
        return self.called(name.text, arguments, name, explicit)

    def called_value(self, value: Struct | FunctionItem, arguments: list[Value], token: Token) -> Value:
        """The call of an object, or of a lambda."""
        if isinstance(value, Struct):
            return self.method(value, "operator()", arguments, token)
        assert self.functions is not None
        if not self.functions.fits(value, arguments, self):
            raise self.error(token.place, f"{value.name} does not take these {len(arguments)} arguments.")
        return self.functions.inline(self, value, arguments, token, [])

    def holder(self, name: str) -> Struct | StructType | None:
        """The object, or the type, whose method is being parsed, if it has a method of this name."""
        if self.functions is None or self.symbols.lookup(name) is not None:
            return None
        this, stack = self.symbols.lookup("this"), self.functions.stack
        object_ = this.target if isinstance(this, Pointer) and isinstance(this.target, Struct) else None
        kind = object_.type if object_ else stack[-1].owner if stack else None
        return (object_ or kind) if kind and name in kind.methods and name != kind.short else None

    def argument(self) -> Value:
        if not self.tokens.accept("{"):
            return self.full()
        return Braces(tuple(self.full() for _ in self.tokens.items("}")))  # type: ignore[return-value]

    def leave_out(self, name: Token) -> None:
        """Step over the arguments of a call that computes nothing. Rejects those that change something."""
        start = self.tokens.at
        self.skip_arguments()
        given = self.tokens.tokens[start : self.tokens.at]
        for before, token, after in zip([name, *given], given, [*given[1:], name], strict=False):
            items = self.functions.items.get(token.text, ()) if self.functions and token.kind == "name" else ()
            changes = any(self.functions.changes_arguments(i) for i in items)
            changes |= before.text in (".", "->") and after.text == "("  # a method, which may change its object
            if changes or token.text in CHANGES or token.text.startswith("atomic"):
                why = f"{name.text} is left out, and {token.text} may change something; write a statement ahead of it."
                raise self.error(token.place, why)

    def skip_arguments(self) -> None:
        depth = 1
        while depth and self.tokens.next.kind != "end":
            depth += {"(": 1, ")": -1}.get(self.tokens.take().text, 0)

    def called(self, name: str, arguments: list[Value], token: Token, explicit: list | None = None) -> Value:
        """The value of a call with these arguments."""
        if name.startswith("operator") and self.has_operator(name, arguments):
            return self.method(arguments[0], name, arguments[1:], token)  # type: ignore[arg-type]
        if self.functions and name in self.functions:
            return self.functions.call(self, name, arguments, token, explicit or [])
        return self.builtin(name, arguments, token)

    def has_operator(self, name: str, arguments: list[Value]) -> bool:
        """True where an operator is a method of its first operand."""
        first, found = arguments[0], self.functions
        methods = first.type.methods.get(name, ()) if isinstance(first, Struct) and found else ()
        return any(found.fits(i, arguments[1:], self) for i in methods)

    def builtin(self, name: str, arguments: list[Value], token: Token) -> Value:
        """The value of a call of a function of CUDA or C++."""
        if name.startswith("make_") and name[5:] in VECTORS:
            return self.constructor(VECTORS[name[5:]], arguments, token)
        if name.startswith("operator"):
            kinds = " and ".join(str(a.type) for a in arguments)
            why = f"{name[8:]} of {kinds} is not defined in this file; write the members one by one."
            raise self.error(token.place, why)
        if name == "memcpy" and len(arguments) == 3:
            return self.memcpy(arguments, token)
        if name in INTRINSICS:
            return INTRINSICS[name](self, arguments, token)
        if name in SHUFFLES:
            return intrinsics.shuffle(self, name, arguments, token)
        if name == "atomicAdd":
            why = "the value that atomicAdd returns depends on the order of the threads; use it as a statement alone."
            raise self.error(token.place, why)
        if not base_name(name):
            why = f"{name} has no derivative rule here, and is no __device__ function; {way_out(name)}."
            raise self.tokens.unknown(token.place, why)
        numbers = tuple(self.number(a, token.place) for a in arguments)
        if len(numbers) != arity(name):
            raise self.error(token.place, f"{name} takes {arity(name)} arguments; got {len(numbers)}.")
        return ast.Call(name, numbers, result_type(name, [e.type for e in numbers]), token.place)

    def method(self, value: Struct | StructType, name: str, arguments: list[Value], token: Token) -> Value:
        kind = value if isinstance(value, StructType) else value.type
        if self.functions and name in kind.methods:
            return self.functions.method(self, value, name, arguments, token)
        raise self.error(token.place, f"{kind} has no method {name} whose body stands in it.")

    def conversion(self, value: Struct, place: Place) -> Expr:
        name, *others = self.conversions(value)
        if others:
            raise self.error(place, f"{value.type} can become several types here; call a method of it instead.")
        return self.number(self.method(value, name, [], Token("name", name, place)), place)

    def converts(self, name: str, operands: list[Value]) -> bool:
        """True where an operator is not defined for objects, and takes the numbers that these become."""
        known = self.has_operator(name, operands) or (self.functions and name in self.functions)
        return not known and any(map(self.conversions, operands))

    def static_member(self, kind: StructType, name: Token) -> Value:
        """`Row::width`, or the call `Row::zeros()`; inside of a struct that extends Row also a member of this one."""
        if name.text in kind.values:
            return kind.values[name.text]
        this = self.symbols.lookup("this")
        object_ = this.target if isinstance(this, Pointer) else None
        own = object_.seen_as(kind) if isinstance(object_, Struct) and object_.type.extends(kind) else None
        if own and name.text in own.members:
            return own.members[name.text]
        if name.text not in kind.methods or not self.tokens.accept("("):
            raise self.error(name.place, f"{kind} has no static {name.text} with a value here.")
        return self.method(own or kind, name.text, [self.argument() for _ in self.tokens.items(")")], name)

    def construct(self, kind: StructType, arguments: list[Value], token: Token) -> Value:
        assert self.functions is not None
        return self.functions.construct(self, kind, arguments, token)

    def is_constructed(self, kind: StructType, token: Token) -> bool:
        """True if a constructor without arguments sets members of the struct. Raises the error of one in a member."""
        for m in kind.members:
            if isinstance(m.type, StructType) and not m.pointer and self.is_constructed(m.type, token):
                raise self.error(token.place, f"the constructor of {m.type} runs for the member {m.name}; set it here.")
        own = kind.methods.get(kind.short, ())
        if not own and (base := next((b for b in kind.bases if self.is_constructed(b, token)), None)):
            raise self.error(token.place, f"the constructor of {base} runs for {kind}; give {kind} one of its own.")
        return any(self.functions and self.functions.constructs(i, self) for i in own)

    def group_call(self, name: Token) -> Value | None:
        """A call of cooperative_groups; None where the name is the file's own."""
        tokens = self.tokens
        if self.symbols.lookup(name.text) is not None or (self.functions and name.text in self.functions):
            return None
        if name.text in ("this_thread_block", "this_grid"):
            tokens.expect("(")
            return self.close(Group(None, name.text == "this_grid"))  # type: ignore[arg-type]
        if name.text in ("reduce", *intrinsics.SCANS) and tokens.accept("("):
            return intrinsics.collective(self, [self.full() for _ in tokens.items(")")], name)
        if name.text in intrinsics.UNKNOWN:
            why = "only the running kernel knows the threads of this group; take a tile, where those left out give 0."
            raise self.error(name.place, f"{name.text}: {why}")
        if name.text == "tiled_partition" and tokens.next.text in ("<", "("):
            return self.tile(name)
        if not tokens.accept("<"):
            return None
        self.expect_type()
        tokens.expect(">")
        closing = {"(": ")", "{": "}"}.get(tokens.take().text, ")")
        tokens.expect(closing)
        return intrinsics.Operator(intrinsics.REDUCTIONS[name.text])  # type: ignore[return-value]

    def tile(self, name: Token) -> Value:
        """`cg::tiled_partition<4>(block)`, or (block, 4)."""
        tokens = self.tokens
        static = tokens.accept("<")
        size = self.number(self.value(ast.PRECEDENCE["<"]), name.place) if static else None
        if static:
            tokens.expect(">")
        tokens.expect("(")
        self.full()
        if size is None:
            tokens.expect(",")
            size = self.number(self.full(), name.place)
        tokens.expect(")")
        if (lanes := constant(size)) not in (1, 2, 4, 8, 16, 32):
            raise self.error(name.place, "the number of threads of a tile is not known here; write 4, 8, 16 or 32.")
        return Group(lanes)  # type: ignore[return-value]

    def character(self, token: Token) -> Expr:
        text = self.tokens.text[token.start : token.stop]
        if len(text) != 3:
            raise self.error(token.place, f"write the number of the character {text}.")
        return ast.Number(str(ord(text[1])), "signed char")

    def limit(self) -> Expr:
        """`std::numeric_limits<float>::max()`."""
        tokens = self.tokens
        place = tokens.next.place
        tokens.at += 3
        tokens.expect("<")
        kind = self.scalar_type()
        tokens.expect(">")
        tokens.expect("::")
        name = tokens.identifier("max").text
        tokens.expect("(")
        tokens.expect(")")
        short = {"float": "FLT", "double": "DBL"}.get(kind, kind.upper())
        words = {"max": f"{short}_MAX", "min": f"{short}_MIN", "epsilon": f"{short}_EPSILON", "infinity": "INFINITY",
                 "quiet_NaN": "NAN"}  # fmt: skip
        found = "-" if name == "lowest" and is_float(kind) else words.get(name, "")
        if found == "-":
            return ast.Unary("-", ast.Name(f"{short}_MAX", kind, place), kind)
        if found not in ast.CONSTANTS:
            raise self.error(place, f"std::numeric_limits<{kind}>::{name} is not known here; write its value.")
        return ast.Name(found, ast.CONSTANTS[found], place)

    def qualified(self) -> None:
        """Step over `std::` and other namespaces."""
        tokens = self.tokens
        while tokens.next.text == "::" or (tokens.next.kind == "name" and tokens.peek().text == "::"):
            if tokens.next.text == "std" and tokens.peek(2).text == "numeric_limits":
                return
            tokens.take()

    def named_cast(self) -> Value:
        tokens = self.tokens
        place = tokens.take().place
        tokens.expect("<")
        kind, stars = self.expect_type(), 0
        while tokens.next.text in ("*", "&", *IGNORED):
            stars += tokens.take().text == "*"
        tokens.expect(">")
        tokens.expect("(")
        return self.converted(kind, stars, self.close(self.full()), place)

    def sizeof(self) -> Expr:
        tokens = self.tokens
        place = tokens.take().place
        whole = tokens.accept("(")
        kind, dims = self.accept_type() if whole else None, tuple[Expr, ...]()
        if kind is None:
            value, _ = self.isolated(self.full if whole else self.unary)
            kind = value.type
            if isinstance(value, Elements):
                dims = value.left
            if isinstance(value, Pointer) or (isinstance(value, Elements) and not dims):
                kind = "size_t"  # of the bytes of an address
        if whole:
            tokens.expect(")")
        members = [m.type for m in kind.members] if isinstance(kind, StructType) else [kind]
        if not all(isinstance(m, str) and m in BYTES and m != "real" for m in members) or len(set(members)) > 1:
            raise self.error(place, f"the bytes of {kind} are not known here; write their number.")
        made: Expr = ast.Number(str(sum(BYTES[str(m)] for m in members)), "size_t")
        for extent in dims:
            made = ast.Binary("*", made, extent, "size_t")
        return made

    def close(self, e: Value) -> Value:
        """The expression, with its closing parenthesis stepped over."""
        self.tokens.expect(")")
        return e


def literal(text: str) -> ast.Number:
    low = text.lower()
    if low.startswith("0x") and "p" in low:
        return ast.Number(repr(float.fromhex(low.rstrip("f"))), "float" if low.endswith("f") else "double")
    if low.startswith("0x") or not any(c in low for c in ".ef"):
        wide = "l" in low
        kind = ("unsigned long long" if wide else "unsigned") if "u" in low else "long long" if wide else "int"
        return ast.Number(text, kind)
    return ast.Number(text.rstrip("lL"), "float" if low.endswith("f") else "double")
