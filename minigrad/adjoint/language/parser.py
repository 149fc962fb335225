"""The parser of declarations, statements and functions."""

from dataclasses import replace

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import JUMPS, Expr, Place, Stmt, common_type, is_float, unused_name
from minigrad.adjoint.language.control_flow import leaves, normalize_jumps
from minigrad.adjoint.language.dataflow import inline, read, target_name
from minigrad.adjoint.language.expressions import ASSIGNMENTS, ExpressionParser, SymbolTable
from minigrad.adjoint.language.groups import Group
from minigrad.adjoint.language.intrinsics import LEFT_OUT
from minigrad.adjoint.language.lexer import Token, way_out
from minigrad.adjoint.language.loops import for_loop, own_counters, unique_places, with_steps
from minigrad.adjoint.language.rewrite import ONE, ZERO, flatten, int_value, logical_not
from minigrad.adjoint.language.values import Array, Kind, Member, Pointer, PointerVariable, Struct, StructType, Value
from minigrad.adjoint.language.values import leaves as numbers

STORAGE = ("const", "__shared__", "extern", "static", "volatile", "constexpr", "register", "__constant__")
SYNCHRONIZE = ("__syncthreads", "__syncwarp", "sync")


class StatementParser(ExpressionParser):
    """Parses functions statement by statement. A construct outside the subset raises NotDifferentiable."""

    returns: Kind = "void"  # the type that the function being parsed returns
    body_end = 0  # the token that ends the body of the function being parsed
    result: Value | None = None  # where the value of a function goes that is written in place of its call
    returned: Value | None = None  # that value, where it has one return at its end
    inside_call = False
    hoisted: list[ast.Declare]  # offsets of pointers that get their array later, declared at the start of the function

    # --- functions and declarations ---

    def alike(self) -> "StatementParser":
        """A parser of another function of the same file."""
        symbols = SymbolTable(self.tokens, self.symbols.macros)
        symbols.functions = self.symbols.functions
        symbols.scopes, symbols.types = [self.symbols.scopes[0]], [self.symbols.types[0]]
        return StatementParser(self.tokens, symbols, self.functions)

    def state(self) -> tuple:
        """Where the parser stands, for `restore` after the call of a function."""
        own = (self.returns, self.result, self.returned, self.inside_call, self.body_end)
        return self.tokens.at, self.symbols.scopes, self.symbols.types, self.statement_start, self.discarded, own

    def restore(self, state: tuple) -> None:
        self.tokens.at, self.symbols.scopes, self.symbols.types, self.statement_start, self.discarded, own = state
        self.returns, self.result, self.returned, self.inside_call, self.body_end = own

    def finish(self, made: ast.Function) -> None:
        """Bring a parsed function into the form that analyses expect. Rejects variables that get no value."""
        own_counters(made)
        assigned = {target_name(s.target) for s in flatten(made.body) if isinstance(s, ast.Assign | ast.AtomicAdd)}
        for name in sorted(read(made.body) & set(made.declared) - assigned):
            variable = made.declared[name]
            if variable.value is None and variable.values is None:
                raise self.error(variable.place, f"{name} is read and never given a value; give it one.")
        if leaves(made.body, ("break", "continue")):
            raise self.error(made.place, f"{made.name} has a break or continue outside any loop; leave it out.")
        unique_places(made.body)
        normalize_jumps(made, self.tokens.words)

    def function(self, place: Place, name: str, returns: str) -> ast.Function | None:
        """Parameters and body of a function whose name has been read; None for a declaration without a body."""
        tokens, start = self.tokens, self.tokens.at
        self.returns, self.symbols.function = returns, name
        self.symbols.pending, self.hoisted = [], []
        with self.symbols.scope() as scope:
            tokens.expect("(")
            params, own = [], []
            for _ in tokens.items(")"):
                if tokens.next.text == "void" and tokens.peek().text == ")":
                    tokens.take()
                    continue
                made = self.parameter(scope)
                params += made
                own.append(self.declared_parameter)
            if tokens.accept(";"):
                return None
            self.symbols.parameters = {p.name: p for p in own}
            self.body_end = self.matching(tokens.at)
            with self.symbols.scope() as inner:
                self.copy_changed(params, inner)
                before = self.taken_pending()
                body = self.block()
                body = [*self.hoisted, *before, *body]
        text = tokens.line_since(start)
        tokens.accept(";")
        return ast.Function(name, returns, tuple(params), body, place, text, self.symbols.declared, own=tuple(own))

    def matching(self, start: int) -> int:
        """The token that closes the bracket at a token."""
        depth = 0
        for n in range(start, len(self.tokens.tokens)):
            text = self.tokens.tokens[n].text
            depth += (text in ("{", "(", "[")) - (text in ("}", ")", "]"))
            if not depth:
                return n
        return len(self.tokens.tokens) - 1

    def skip_to_semicolon(self) -> None:
        while self.tokens.next.kind != "end" and self.tokens.take().text != ";":
            pass

    def taken_pending(self) -> list[Stmt]:
        found, self.symbols.pending = self.symbols.pending, []
        return found

    def copy_changed(self, params: list[ast.Parameter], scope: dict) -> None:
        """Variables for the parameters that the body changes, which are copies for each thread."""
        for p in params:
            if "." in p.name or "[" in p.name or not self.changes(p.name, self.tokens.at, self.body_end):
                continue
            place = p.place
            if p.pointer:
                array = Array(p.name, p.type, 1, const=p.const)
                scope[p.name] = made = self.pointer_variable(p.name, p.type, Pointer(array), place)
                made.depth += 1  # the body is a scope of its own
            else:
                copied = self.symbols.fresh(p.name, p.type, ast.Name(p.name, p.type), place)
                scope[p.name] = self.symbols.declared[copied.name]

    def changes(self, name: str, start: int, stop: int) -> bool:
        """True where a name is assigned as a whole: by =, +=, ++ and the like, or by its address."""
        found = self.tokens.tokens
        for n in range(start, stop):
            if found[n].text == name and found[n].kind == "name" and found[n - 1].text not in (".", "->"):
                after, before = found[n + 1].text, found[n - 1].text
                if after in (*ASSIGNMENTS, "++", "--") or before in ("++", "--"):
                    return True
                if before == "&" and after != "[" and found[n - 2].text in ("(", ",", "=", "return"):
                    return True
        return False

    declared_parameter: ast.Parameter

    def parameter(self, scope: dict) -> list[ast.Parameter]:
        """`const real* __restrict__ x`, `int n`, `const Atom* atoms` or `Box box`: the numbers in it."""
        tokens, place = self.tokens, self.tokens.next.place
        start = tokens.at
        kind = self.accept_type()
        if kind is None:
            why = f"a parameter of type {tokens.next.text!r} is outside the differentiable subset; "
            raise tokens.rejected(tokens.next) or self.error(place, f"{why}pass arrays of numbers, and numbers.")
        const = any(t.text == "const" for t in tokens.tokens[start : tokens.at])
        pointer, restrict = tokens.accept("*"), False
        while pointer and tokens.next.text in ("const", "volatile", "__restrict__", "__restrict"):
            restrict |= tokens.take().text.startswith("__")
        why = "references and pointers to pointers are outside the subset as parameters of a kernel; pass an array."
        tokens.forbid(why, "*", "&", "**", "&&")
        name = tokens.identifier("the parameter's name")
        if tokens.accept("["):
            pointer = True
            if tokens.next.text != "]":
                self.expression()
            tokens.expect("]")
        tokens.forbid(f"{name.text} has a default value; leave it out and pass it every time.", "=")
        own = ast.Parameter(name.text, str(kind), pointer, const, name.place, restrict)
        self.declared_parameter = own
        if isinstance(kind, str):
            scope[name.text] = own
            return [own]
        return self.struct_parameter(own, kind, scope)

    def struct_parameter(self, own: ast.Parameter, kind: StructType, scope: dict) -> list[ast.Parameter]:
        """The numbers in a struct, or in an array of structs: parameters x[].a, which are printed as x[i].a."""
        before = f"{own.name}[]" if own.pointer else own.name
        array = Array(before, kind, 1, ".", const=own.const)
        made = []
        for name, member, dims in kind.leaves(before, "."):
            pointer = own.pointer or bool(dims)
            made.append(ast.Parameter(name, member, pointer, own.const or not own.pointer, own.place, own.restrict))
        if self.nested_arrays(kind) and own.pointer:
            raise self.error(own.place, f"{kind} holds an array of structs; pass that as an array of its own.")
        scope[own.name] = array if own.pointer else replace(array, axes=0).element(own.place)
        if not own.pointer:
            scope[own.name] = _names(scope[own.name])
        return made

    def nested_arrays(self, kind: StructType) -> bool:
        return any(isinstance(m.type, StructType) and (m.dims or self.nested_arrays(m.type)) for m in kind.members)

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

    def accept_group_type(self) -> bool:
        """Step over `cg::thread_block` or `cg::thread_block_tile<32>`."""
        tokens, n = self.tokens, self.tokens.at
        while tokens.tokens[n].kind == "name" and tokens.tokens[n + 1].text == "::":
            n += 2
        if tokens.tokens[n].text not in ("thread_block", "thread_block_tile", "thread_group"):
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
        name = tokens.identifier("a variable's name")
        if stars > 1 or (stars and tokens.next.text == "["):
            raise self.error(
                name.place, f"{name.text} is an array of pointers, which is outside the subset; use indices."
            )
        if kind is None or stars or reference:
            self.initialized(name, kind, stars, reference, const)
        else:
            self.variable(kind, name, shared, const, "extern" in words)
        for s in self.symbols.pending[before:]:
            s.text = s.text or f"{kind or 'auto'}{'*' * stars}{'&' * reference} {tokens.line_since(at)};"
        read = tokens.tokens[at + 1 : tokens.at]
        if any(t.text == name.text and t.kind == "name" and read[n - 1].text not in (".", "->")
               for n, t in enumerate(read)):  # fmt: skip
            raise self.error(name.place, f"{name.text} is read in its own initial value, before it has one.")

    def initialized(self, name: Token, kind: Kind | None, stars: int, reference: bool, const: bool) -> None:
        """`auto v = e;`, `float* p = e;` or `float& v = e;`."""
        tokens, scope = self.tokens, self.symbols.scopes[-1]
        if not tokens.accept("="):
            if not stars or kind is None:
                raise self.error(name.place, f"write a value for {name.text}: ... = ...;")
            variable = PointerVariable(name.text, kind, None, ast.Name("", "int"))
            scope[name.text] = variable
            return
        if tokens.next.text == "[":
            raise self.error(name.place, "a lambda is outside the subset; write it as a __device__ function.")
        value = self.full()
        if isinstance(value, Group):
            scope[name.text] = value
            return
        if reference and isinstance(value, Array | Struct | ast.Name | ast.Index):
            scope[name.text] = self.frozen(value, name.place)
            return
        if isinstance(value, Array | Pointer):
            self.declare_pointer(name, self.pointer(value, name.place), const)
        elif isinstance(value, Struct):
            scope[name.text] = self.copy(name.text, value.type, value, name.place)
        else:
            number = self.number(value, name.place)
            type_ = kind if isinstance(kind, str) and not stars else number.type
            self.declare(ast.Declare(name.text, type_, value=number, const=const, place=name.place))

    def declare_pointer(self, name: Token, pointer: Pointer, const: bool) -> None:
        """A pointer: its array, and its offset, in a variable of its name unless it is a number."""
        scope = self.symbols.scopes[-1]
        if pointer.array is None and pointer.target is None:  # nullptr
            scope[name.text] = PointerVariable(name.text, pointer.type, None, ast.Name("", "int"))
        elif self.changes(name.text, self.tokens.at, self.body_end) and pointer.array is not None:
            scope[name.text] = self.pointer_variable(name.text, pointer.type, pointer, name.place)
        else:
            scope[name.text] = self.frozen(pointer, name.place, name.text)

    def pointer_variable(self, name: str, kind: Kind, pointer: Pointer, place: Place) -> PointerVariable:
        array = pointer.array
        assert array is not None
        array = (
            replace(array, indices=tuple(self.simple(i, f"{name}_row", place) for i in array.indices))
            if array.indices
            else array
        )
        offset_type = common_type(pointer.offset.type)
        offset = self.symbols.fresh(name, offset_type, pointer.offset, place)
        return PointerVariable(name, kind, array, offset, array.const, len(self.symbols.scopes))

    def frozen(self, value: Value, place: Place, name: str = "place") -> Value:
        """A target or a pointer whose indices do not change any more."""
        match value:
            case ast.Index():
                return replace(value, indices=tuple(self.simple(i, f"{name}_index", place) for i in value.indices))
            case Pointer():
                array = value.array
                if array and array.indices:
                    array = replace(array, indices=tuple(self.simple(i, f"{name}_row", place) for i in array.indices))
                return replace(value, array=array, offset=self.simple(value.offset, name, place), moves=None)
            case Array() if value.indices:
                return replace(value, indices=tuple(self.simple(i, f"{name}_row", place) for i in value.indices))
            case Struct() if value.origin is not None and value.origin.array is not None:
                origin = self.frozen(value.origin, place, name)
                assert isinstance(origin, Pointer) and origin.array is not None
                return origin.array.at(origin.offset, place)
        return value

    def declare(self, variable: ast.Declare) -> ast.Declare:
        """Enter a variable and append its declaration."""
        self.symbols.declare(variable)
        self.symbols.pending.append(variable)
        return variable

    def variable(self, kind: Kind, name: Token, shared: bool, const: bool, extern: bool = False) -> None:
        """A variable or an array, with its initial value."""
        tokens, dims = self.tokens, list[Expr]()
        unknown = False
        while tokens.accept("["):
            if tokens.next.text == "]" and not dims:
                unknown = True
            else:
                dims.append(self.extent(name))
            tokens.expect("]")
        if unknown and extern:
            dims = [self.dynamic_extent(name), *dims]
        elif unknown and tokens.next.text != "=":
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
        after: list[Stmt] = []
        given = tokens.accept("=")
        if (given or tokens.next.text == "{") and (dims or unknown):
            after = self.initial_values(variable, unknown)
        elif given and tokens.next.text == "{":
            variable.value = self.as_type(kind, self.number(self.braces(kind), name.place))
        elif given:
            variable.value = self.converted_number(kind, self.full(), name.place)
        elif tokens.next.text == "{":
            variable.value = self.number(self.braces(kind), name.place)
        elif tokens.accept("("):
            variable.value = self.converted_number(kind, self.close(self.full()), name.place)
        self.declare(variable)
        if after:
            for s in after:
                s.target = replace(s.target, array=variable.name)  # type: ignore[union-attr]
            self.symbols.pending += after

    def converted_number(self, kind: str, value: Value, place: Place) -> Expr:
        number = self.number(value, place)
        return ast.Cast(kind, number) if is_float(number.type) and not is_float(kind) and kind != "bool" else number

    def initial_values(self, variable: ast.Declare, unknown: bool) -> list[Stmt]:
        """The values in braces; those of several axes become assignments."""
        rows = self.nested()
        if unknown:
            variable.dims = (ast.Number(str(len(rows)), "int"), *variable.dims)
        if len(variable.dims) == 1:
            values = tuple(self.number(v, variable.place) for v in rows)
            variable.values = tuple(self.converted_number(variable.type, v, variable.place) for v in values)
            return []
        flat = [v for row in rows for v in (row if isinstance(row, list) else [row])]
        if all(v == ZERO or (isinstance(v, ast.Number) and v.value == 0) for v in flat):
            variable.values = (ZERO,)
            return []
        extents = [int_value(d) for d in variable.dims]
        if len(extents) != 2 or any(not isinstance(row, list) for row in rows):
            raise self.error(variable.place, f"set the elements of {variable.name} one by one.")
        variable.values = ()
        made: list[Stmt] = []
        for r, row in enumerate(rows):
            for c, v in enumerate(row):
                indices = (ast.Number(str(r), "int"), ast.Number(str(c), "int"))
                target = ast.Index(variable.name, indices, variable.type, variable.place)
                made.append(ast.Assign(target, "=", self.number(v, variable.place), variable.place))
        return made

    def nested(self) -> list:
        self.tokens.expect("{")
        return [self.nested() if self.tokens.next.text == "{" else self.full() for _ in self.tokens.items("}")]

    def dynamic_extent(self, name: Token) -> Expr:
        """The macro for the extent of `extern __shared__ float s[];`, which a launch gives."""
        if self.symbols.dynamic and name.text not in self.symbols.dynamic:
            other = next(iter(self.symbols.dynamic))
            why = f"{other} and {name.text} are the same memory; give the launch's shared memory one name."
            raise self.error(name.place, why)
        macro = unused_name(f"{name.text}_extent", self.tokens.words)
        self.symbols.dynamic[name.text] = macro
        self.symbols.macros[macro] = ast.Name(macro, "int")
        return ast.Name(macro, "int")

    def struct_variable(self, kind: StructType, name: Token, dims: list[Expr], shared: bool, unknown: bool) -> None:
        """A variable or an array for each number of a struct."""
        tokens, place, scope = self.tokens, name.place, self.symbols.scopes[-1]
        if not dims and not unknown and not shared:
            value: Value | None = None
            if tokens.accept("="):
                value = self.braces(kind) if tokens.next.text == "{" else self.full()
            elif tokens.next.text == "{":
                value = self.braces(kind)
            elif tokens.accept("("):
                value = self.constructor(kind, [self.full() for _ in tokens.items(")")], name)
            if value is not None and (not isinstance(value, Struct) or value.type is not kind):
                raise self.error(place, f"{name.text} is a {kind} and is given another value.")
            scope[name.text] = self.copy(name.text, kind, value, place)
            return
        if unknown or tokens.next.text in ("=", "{"):
            raise self.error(place, f"set the elements of {name.text} one by one.")
        whole, base = (tuple(dims) or (ONE,)), name.text
        while any(leaf in self.symbols.declared for leaf, _, _ in kind.leaves(base, "_")):
            base += "_2"
        for leaf, member, own in kind.leaves(base, "_"):
            made = ast.Declare(leaf, member, (*whole, *own), shared=shared, place=place)
            self.symbols.declared[leaf] = made
            self.symbols.pending.append(made)
        array = Array(base, kind, len(whole), dims=whole)
        scope[name.text] = array if dims else array.at(ZERO, place)

    def copy_array(self, name: str, m: Member, own: Value | None, place: Place) -> Array:  # type: ignore[override]
        """An array that is a member of a struct variable."""
        if own is not None:
            raise self.error(place, f"the member {m.name} is an array; copy it element by element.")
        if isinstance(m.type, StructType):
            for leaf, member, dims in m.type.leaves(name, "_"):
                made = ast.Declare(leaf, member, (*m.dims, *dims), place=place)
                self.symbols.declared[leaf] = made
                self.symbols.pending.append(made)
            return Array(name, m.type, len(m.dims), dims=m.dims)
        made = ast.Declare(unused_name(name, {*self.symbols.declared, *self.tokens.words}), m.type, m.dims, place=place)
        self.symbols.declared[made.name] = made
        self.symbols.pending.append(made)
        return Array(made.name, m.type, len(m.dims), dims=m.dims)

    def extent(self, name: Token) -> Expr:
        """The extent of an array along an axis, with the values of the kernel's own constants substituted."""
        place = self.tokens.next.place
        known = [s for scope in self.symbols.scopes for s in scope.values() if isinstance(s, ast.Declare) and s.const]
        e = inline(self.expression(), {s.name: s.value for s in known if s.value is not None})
        if any(n not in self.symbols.macros for n in e.names):
            why = f"the extent of {name.text} must be a constant: a number, a macro or a const int."
            raise self.error(place, why)
        return e

    # --- statements ---

    def block(self) -> list[Stmt]:
        """Statements in braces, or a single one."""
        with self.symbols.scope():
            if not self.tokens.accept("{"):
                return self.statement()
            body: list[Stmt] = []
            while not self.tokens.accept("}"):
                body += self.statement()
            return body

    def statement(self) -> list[Stmt]:
        """One statement; a declaration of several variables becomes several."""
        tokens, start = self.tokens, self.tokens.at
        outer, self.symbols.pending = self.symbols.pending, []
        tail = self.one_statement()
        made, self.symbols.pending = [*self.symbols.pending, *tail], outer
        text = ""
        for s in made:
            if not s.text if not isinstance(s, ast.Comment) else False:
                text = text or self.statement_text(start)
                s.text = text
            if s.place == ast.NOWHERE:
                s.place = tokens.tokens[start].place
        return made

    def statement_text(self, start: int) -> str:
        text = self.tokens.line_since(start)
        return text.partition("{")[0].strip() if "{" in text and not text.startswith(("float", "int")) else text

    def one_statement(self) -> list[Stmt]:
        tokens, token = self.tokens, self.tokens.next
        if tokens.accept(";"):
            return []
        if token.text == "{":
            self.symbols.bare += 1
            body = self.block()
            self.symbols.bare -= 1
            return body
        if token.text in JUMPS:
            return self.jump()
        match token.text:
            case "if":
                return self.branch()
            case "while":
                return self.while_loop()
            case "for":
                return for_loop(self)
            case "do":
                return self.do_loop()
            case "switch":
                return self.switch()
            case "namespace":
                self.skip_to_semicolon()
                return []
            case "typedef" | "using":
                self.functions.alias(self) if self.functions else None
                return []
        if token.kind == "pragma":
            tokens.take()
            if "unroll" in token.text and tokens.next.text == "for":
                return for_loop(self, token.text)
            if "unroll" in token.text or "nv_" in token.text or "diag" in token.text:
                return []
            raise self.error(token.place, "of pragmas only #pragma unroll before a for is supported.")
        if token.kind == "end":
            raise self.error(token.place, f"the file ends within {self.symbols.function}; a }} is missing.")
        if error := tokens.rejected(token):
            raise error
        if tokens.peek().text == ":" and tokens.peek(2).text != ":":
            raise self.error(token.place, "labels are outside the differentiable subset; leave a loop with break.")
        if self.begins_declaration():
            self.declaration()
            tokens.expect(";")
            return []
        self.expressions()
        tokens.expect(";")
        return []

    def begins_declaration(self) -> bool:
        token = self.tokens.next
        if token.text in (*STORAGE, "auto", "__align__", "alignas"):
            return True
        start, found = self.tokens.at, self.accept_group_type()
        self.tokens.at = start
        if found:
            return True
        kind, length = self.type_length(self.tokens.at)
        if kind is None:
            if token.kind == self.tokens.peek().kind == "name" or token.text == "void":
                raise self.unknown_type(token)
            return False
        return self.tokens.peek(length).text not in ("(", "{", ".")

    def expressions(self) -> None:
        """Assignments and calls as a statement, separated by commas."""
        tokens = self.tokens
        while True:
            if tokens.peek().text == "::":
                self.qualified()
            self.statement_start, token = tokens.at, tokens.next
            if token.text in SYNCHRONIZE and not (self.functions and token.text in self.functions):
                tokens.take()
                tokens.expect("(")
                self.skip_arguments()
                self.symbols.pending.append(ast.Barrier(token.place))
            elif token.text in ("atomicAdd", "atomicAdd_block", "atomicSub"):
                self.atomic(tokens.take())
            elif token.text == "(" and tokens.peek().text == "void" and tokens.peek(2).text == ")":
                tokens.at += 3
                self.isolated(self.full)
            elif token.text in LEFT_OUT:
                tokens.take()
                tokens.expect("(")
                self.skip_arguments()
            else:
                self.effect(token)
            if not tokens.accept(","):
                return

    def effect(self, token: Token) -> None:
        before = len(self.symbols.pending)
        value = self.full()
        if len(self.symbols.pending) == before and isinstance(value, ast.Call):
            why = f"the call of {token.text} as a statement is outside the subset; {way_out(token.text)}."
            raise self.error(token.place, why)

    def atomic(self, token: Token) -> None:
        """`atomicAdd(&y[i], value)`, whose result is not used."""
        self.tokens.expect("(")
        place = self.tokens.next.place
        target = self.element(self.pointer(self.full(), place), ZERO, place)
        self.tokens.expect(",")
        value = self.number(self.close(self.full()), place)
        if not isinstance(target, ast.Index):
            raise self.error(place, f"{token.text} takes an element: {token.text}(&x[i], value).")
        self.check_writable(target)
        value = ast.Unary("-", value, value.type) if token.text == "atomicSub" else value
        self.symbols.pending.append(ast.AtomicAdd(target, value, token.place))

    def condition(self) -> tuple[Expr, list[Stmt]]:
        """A condition in parentheses, and the statements ahead of it."""
        self.tokens.expect("(")
        place = self.tokens.next.place
        if self.begins_declaration():
            value, needed = self.isolated(self.declared_condition)
        else:
            value, needed = self.isolated(self.full)
        if isinstance(value, Pointer | Array):
            value = ast.Number("true", "bool")  # an adjoint needs every array
        self.tokens.expect(")")
        return self.number(value, place), needed

    def declared_condition(self) -> Value:
        name = self.tokens.peek(self.type_length(self.tokens.at)[1])
        self.declaration()
        value = self.symbols.variable(name)
        return value  # type: ignore[return-value]

    def branch(self) -> list[Stmt]:
        """if, with or without else."""
        tokens, start, token = self.tokens, self.tokens.at, self.tokens.take()
        constant = tokens.accept("constexpr")
        with self.symbols.scope():
            condition, needed = self.condition()
            text = tokens.line_since(start)
            known = _known(condition) if constant else None
            if constant and known is None:
                raise self.error(token.place, "the condition of this if constexpr is not known here; write if.")
            then = self.block() if known is not False else self.skip_statement()
            orelse: list[Stmt] = []
            if tokens.accept("else"):
                orelse = self.block() if known is not True else self.skip_statement()
        if constant:
            return [*needed, *then, *orelse]
        return [*needed, ast.If(condition, then, orelse, token.place, text)]

    def skip_statement(self) -> list[Stmt]:
        tokens = self.tokens
        if tokens.next.text == "{":
            tokens.at = self.matching(tokens.at) + 1
        else:
            self.skip_to_semicolon()
        return []

    def while_loop(self) -> list[Stmt]:
        tokens, start, token = self.tokens, self.tokens.at, self.tokens.take()
        condition, needed = self.condition()
        text, body = tokens.line_since(start), self.block()
        if needed:
            body, condition = [*needed, leave(condition, token.place), *body], ast.Number("true", "bool")
        return [ast.For(None, condition, None, body, "", token.place, text)]

    def do_loop(self) -> list[Stmt]:
        tokens, token = self.tokens, self.tokens.take()
        body = self.block()
        tokens.expect("while")
        condition, needed = self.condition()
        tokens.expect(";")
        if _known(condition) is False and not leaves(body, ("break", "continue")):
            return body
        body = with_steps(body, [*needed, leave(condition, token.place)])
        return [ast.For(None, ast.Number("true", "bool"), None, body, "", token.place, "do")]

    def switch(self) -> list[Stmt]:
        """A chain of branches; each case ends with break or return, or shares the statements of the next."""
        tokens, token = self.tokens, self.tokens.take()
        value, needed = self.condition()
        value_name = self.simple_outside(value, needed, token.place)
        tokens.expect("{")
        cases: list[tuple[Expr | None, list[Stmt]]] = []
        with self.symbols.scope():
            while not tokens.accept("}"):
                condition: Expr | None = None
                labels = 0
                default = False
                while tokens.next.text in ("case", "default"):
                    labels += 1
                    if tokens.take().text == "default":
                        default = True
                    else:
                        label = self.expression(ast.PRECEDENCE["||"])
                        test = ast.Binary("==", value_name, label, "bool")
                        condition = test if condition is None else ast.Binary("||", condition, test, "bool")
                    tokens.expect(":")
                if not labels:
                    raise self.error(tokens.next.place, "a statement of a switch follows its case.")
                body: list[Stmt] = []
                place = tokens.next.place
                self.symbols.bare += 1
                while tokens.next.text not in ("case", "default", "}"):
                    body += self.statement()
                self.symbols.bare -= 1
                falls = not (body and isinstance(body[-1], ast.Jump))
                if falls and tokens.next.text != "}":
                    raise self.error(place, "this case goes on into the next; end it with break.")
                body = body[:-1] if not falls and body[-1].kind == "break" else body  # type: ignore[union-attr]
                if leaves(body, ("break",)):
                    raise self.error(place, "a break within a case is outside the subset; write if and else.")
                if default and tokens.next.text != "}":
                    raise self.error(place, "write the default of a switch as its last case.")
                cases.append((None if default else condition, body))
        made: list[Stmt] = []
        for condition, body in reversed(cases):
            made = body if condition is None else [ast.If(condition, body, made, token.place, "switch")]
        return [*needed, *made]

    def simple_outside(self, value: Expr, needed: list[Stmt], place: Place) -> Expr:
        outer, self.symbols.pending = self.symbols.pending, needed
        found = self.simple(value, "selected", place)
        self.symbols.pending = outer
        return found

    def jump(self) -> list[Stmt]:
        tokens, start, token = self.tokens, self.tokens.at, self.tokens.take()
        value: Value | None = None
        if tokens.next.text != ";":
            kind = self.returns
            value = self.braces(kind) if tokens.next.text == "{" and isinstance(kind, StructType) else self.full()
        if token.text == "return" and self.inside_call:
            tokens.expect(";")
            return self.return_value(value, token)
        if token.text == "return" and (value is None) != (self.returns == "void"):
            what = f"a {self.returns}" if value is None else "no value"
            raise self.error(token.place, f"{self.symbols.function} returns {what}; so must this return.")
        tokens.expect(";")
        number = None if value is None else self.number(value, token.place)
        return [ast.Jump(token.text, number, token.place, tokens.line_since(start))]

    def return_value(self, value: Value | None, token: Token) -> list[Stmt]:
        """The return of a function that is written in place of its call."""
        if (value is None) != (self.returns == "void"):
            what = f"a {self.returns}" if value is None else "no value"
            raise self.error(token.place, f"{self.symbols.function} returns {what}; so must this return.")
        if value is None:
            return [ast.Jump("return", None, token.place)]
        if self.result is None:
            self.returned = value
            return []
        self.store(self.result, value, token.place)
        return [ast.Jump("return", None, token.place)]

    def store(self, target: Value, value: Value, place: Place) -> None:
        """target = value, appended to the pending statements."""
        if isinstance(target, Struct):
            if not isinstance(value, Struct) or value.type is not target.type:
                raise self.error(place, f"a {target.type} is given another value.")
            self.symbols.pending += self.stores(target, value, place)
        else:
            number = self.converted_number(target.type, value, place)  # type: ignore[arg-type]
            self.symbols.pending.append(ast.Assign(target, "=", number, place))  # type: ignore[arg-type]

    def assign(self, target: Value, op: Token, value: Value, place: Place) -> Value:
        match target:
            case Struct():
                return self.assign_struct(target, op, value, place)
            case Pointer() if target.moves is not None:
                return self.move(target.moves, op, value, place)
            case ast.Name() | ast.Index():
                self.check_writable(target)
                number = self.number(value, op.place)
                if is_float(number.type) and not is_float(target.type) and target.type != "bool":
                    if op.text != "=":
                        why = f"a {number.type} becomes {target.type} here; write the cast: (int)(...)."
                        raise self.error(op.place, why)
                    number = ast.Cast(target.type, number)
                self.symbols.pending.append(ast.Assign(target, op.text, number, place))
                return target
        raise self.error(place, "write the target of the assignment as a variable or as an element: y[i] = ...;")

    def assign_struct(self, target: Struct, op: Token, value: Value, place: Place) -> Value:
        if op.text == "=":
            self.check_members(target)
            self.store(target, value, place)
        elif self.functions and f"operator{op.text}" in self.functions:
            self.called(f"operator{op.text}", [target, value], op)
        elif self.functions and f"operator{op.text}" in target.type.methods:
            self.functions.method(self, target, f"operator{op.text}", [value], op)
        else:
            result = self.called(f"operator{op.text[:-1]}", [target, value], op)
            self.store(target, result, place)
        return target

    def check_members(self, target: Struct) -> None:
        for number in numbers(target):
            if not isinstance(number, ast.Name | ast.Index):
                raise self.error(self.tokens.next.place, "this struct cannot be assigned; it is a value.")
            self.check_writable(number)

    def move(self, variable: PointerVariable, op: Token, value: Value, place: Place) -> Value:
        """`p = x + n`, `p += n`, `++p`."""
        if op.text == "=":
            pointer = self.pointer(value, place)
            if variable.array is None and pointer.array is not None:
                made = self.pointer_variable(variable.name, pointer.type, pointer, place)
                variable.array, variable.offset = made.array, made.offset
                declared = self.symbols.declared[made.offset.name]
                self.hoisted.append(declared)
                self.symbols.pending = [s for s in self.symbols.pending if s is not declared]
                self.symbols.pending.append(ast.Assign(made.offset, "=", pointer.offset, place))
                declared.value = ZERO
                return Pointer(variable.array, variable.offset, moves=variable)
            same = pointer.array and variable.array and pointer.array.name == variable.array.name
            if not same and pointer.array and variable.depth == len(self.symbols.scopes):  # it points there from now on
                made = self.pointer_variable(variable.name, pointer.type, pointer, place)
                variable.array, variable.offset = made.array, made.offset
                return Pointer(variable.array, variable.offset, moves=variable)
            if not same or pointer.array.indices != variable.array.indices:  # type: ignore[union-attr]
                raise self.error(place, f"{variable.name} points into two arrays; use a pointer for each.")
            self.symbols.pending.append(ast.Assign(variable.offset, "=", pointer.offset, place))
        elif op.text in ("+=", "-="):
            self.symbols.pending.append(ast.Assign(variable.offset, op.text, self.number(value, place), place))
        else:
            raise self.error(place, f"{op.text} of a pointer is outside the subset; use + or -.")
        return Pointer(variable.array, variable.offset, moves=variable)

    def check_writable(self, target: ast.Name | ast.Index) -> None:
        """Reject stores into constants, parameters and unknown names."""
        name = target_name(target)
        declared = self.symbols.declared.get(name)
        if declared is not None:
            if declared.const:
                raise self.error(target.place, f"{name} is const and is written here.")
            return
        base = name.partition("[")[0]
        symbol = self.symbols.parameters.get(base)
        if symbol is None:
            why = f"{name} cannot be assigned."
        elif symbol.const:
            why = f"{base} is const and is written here."
        elif symbol.pointer and self.returns != "void" and not self.inside_call:
            why = f"a __device__ function stores into {name}; return the value instead."
        else:
            return
        raise self.error(target.place, why)


def leave(condition: Expr, place: Place) -> ast.If:
    """`if (!condition) break;`"""
    return ast.If(logical_not(condition), [ast.Jump("break", place=place)], [], place, "break")


def _known(e: Expr) -> bool | None:
    """The value of a constant condition."""
    match e:
        case ast.Number(text="true"):
            return True
        case ast.Number(text="false"):
            return False
        case ast.Name(name="true" | "false"):
            return e.name == "true"
        case ast.Unary(op="!"):
            inner = _known(e.operand)
            return None if inner is None else not inner
        case ast.Binary(op="&&" | "||"):
            left, right = _known(e.left), _known(e.right)
            if None in (left, right):
                return None
            return (left and right) if e.op == "&&" else (left or right)
        case ast.Binary(op="==" | "!=" | "<" | "<=" | ">" | ">="):
            a, b = _number(e.left), _number(e.right)
            if a is None or b is None:
                return None
            return {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[e.op]
    value = _number(e)
    return None if value is None else bool(value)


def _number(e: Expr) -> int | None:
    match e:
        case ast.Binary(op="+" | "-" | "*" | "/" | "%"):
            a, b = _number(e.left), _number(e.right)
            if a is None or b is None or (e.op in "/%" and b <= 0):
                return None
            return {"+": a + b, "-": a - b, "*": a * b, "/": a // b if b else 0, "%": a % b if b else 0}[e.op]
    return int_value(e)


def _names(value: Value) -> Value:
    """A struct parameter passed by value: its numbers are named box.lo.x."""
    if isinstance(value, Struct):
        return Struct(value.type, {name: _names(member) for name, member in value.members.items()})
    return ast.Name(value.array, value.type, value.place) if isinstance(value, ast.Index) else value
