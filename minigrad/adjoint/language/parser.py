"""The parser of declarations, statements and functions."""

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import JUMPS, Expr, Place, Stmt, Target, is_float
from minigrad.adjoint.language.dataflow import inline, target_name
from minigrad.adjoint.language.expressions import ALLOWED_TYPES, ASSIGNMENTS, ExpressionParser, SymbolTable
from minigrad.adjoint.language.lexer import Token, TokenStream, way_out

STORAGE = ("const", "__shared__", "extern", "static", "volatile", "constexpr")


class StatementParser:
    """Parses functions statement by statement. A construct outside the subset raises NotDifferentiable."""

    def __init__(self, tokens: TokenStream, symbols: SymbolTable):
        self.tokens, self.symbols, self.expressions = tokens, symbols, ExpressionParser(tokens, symbols)
        self.returns = "void"  # the type that the function being parsed returns

    # --- functions and declarations ---

    def function(self, place: Place, name: str, returns: str) -> ast.Function | None:
        """Parameters and body of a function whose name has been read; None for a declaration without a body."""
        start, self.returns, self.symbols.function = self.tokens.at, returns, name
        with self.symbols.scope() as scope:
            self.tokens.expect("(")
            params = []
            for _ in self.tokens.items(")"):
                params.append(self.parameter())
                scope[params[-1].name] = params[-1]
            if self.tokens.accept(";"):
                return None
            with self.symbols.scope():
                body = self.block()
        text = self.tokens.line_since(start)
        self.tokens.accept(";")
        return ast.Function(name, returns, tuple(params), body, place, text, self.symbols.declared)

    def parameter(self) -> ast.Parameter:
        """`const real* __restrict__ x` or `int n`."""
        tokens, place, const = self.tokens, self.tokens.next.place, self.tokens.accept("const")
        kind = self.expressions.accept_type()
        if kind is None:
            why = f"a parameter of type {tokens.next.text!r} is outside the differentiable subset; {ALLOWED_TYPES}."
            raise tokens.rejected(tokens.next) or tokens.error(place, why)
        const = tokens.accept("const") or const
        pointer, restrict = tokens.accept("*"), False
        while pointer and tokens.next.text in ("const", "__restrict__", "__restrict"):
            restrict |= tokens.take().text != "const"
        why = "references and pointers to pointers are outside the subset; pass an array and an index, and return the "
        tokens.forbid(f"{why}value.", "*", "&", "**", "&&")
        name = tokens.identifier("the parameter's name")
        tokens.forbid(f"write the array parameter as a pointer: {kind}* {name.text}.", "[")
        tokens.forbid(f"{name.text} has a default value; leave it out and pass it every time.", "=")
        return ast.Parameter(name.text, kind, pointer, const, name.place, restrict)

    def declaration(self) -> list[Stmt]:
        """`const int i = ..., j = ...;` or `__shared__ real tile[TILE][TILE];`."""
        tokens, place, words = self.tokens, self.tokens.next.place, set[str]()
        while tokens.next.text in STORAGE:
            words.add(tokens.take().text)
        if outside := words & {"extern", "static", "volatile"}:
            way = "give the array its extents" if "extern" in outside else f"leave {min(outside)} out"
            raise tokens.error(place, f"{min(outside)} variables are outside the differentiable subset; {way}.")
        kind = self.expressions.expect_type()
        words |= {"const"} if tokens.accept("const") else set()
        declared: list[Stmt] = []
        while not declared or tokens.accept(","):
            declared.append(self.variable(kind, words))
        tokens.expect(";")
        return declared

    def variable(self, kind: str, words: set[str]) -> ast.Declare:
        """One variable of a declaration, entered into the symbol table."""
        tokens, start = self.tokens, self.tokens.at
        tokens.forbid("local pointers and references are outside the subset; use an index.", "*", "&")
        name, dims = tokens.identifier("a variable's name"), []
        while tokens.accept("["):
            dims.append(self.extent(name))
            tokens.expect("]")
        shared, const = "__shared__" in words, bool(words & {"const", "constexpr"})
        if shared and not dims:
            raise tokens.error(
                name.place, f"{name.text} is one value shared by the block, which is outside the subset; "
                f"make it an array of one element: __shared__ {kind} {name.text}[1];"
            )  # fmt: skip
        variable = ast.Declare(name.text, kind, tuple(dims), shared=shared, const=const, place=name.place)
        tokens.forbid(f"write {kind} {name.text} = ...; with an equals sign.", "{", "(")
        if tokens.accept("="):
            if dims:
                variable.values = self.initializers()
            else:
                variable.value = self.expressions.expression()
        read = tokens.tokens[start + 1 : tokens.at]
        if any(t.text == name.text and read[n - 1].text != "." for n, t in enumerate(read)):
            raise tokens.error(name.place, f"{name.text} is read in its own initial value, before it has one.")
        variable.text = f"{kind} {tokens.line_since(start)};"
        self.symbols.declare(variable)
        return variable

    def extent(self, name: Token) -> Expr:
        """The extent of an array along an axis, with the values of the kernel's own constants substituted."""
        place = self.tokens.next.place
        self.tokens.forbid(f"write the extent of {name.text}.", "]")
        known = [s for scope in self.symbols.scopes for s in scope.values() if isinstance(s, ast.Declare) and s.const]
        e = inline(self.expressions.expression(), {s.name: s.value for s in known if s.value is not None})
        if any(n not in self.symbols.macros for n in e.names):
            why = f"the extent of {name.text} must be a constant: a number, a macro or a const int."
            raise self.tokens.error(place, why)
        return e

    def initializers(self) -> tuple[Expr, ...]:
        self.tokens.expect("{")
        values = []
        for _ in self.tokens.items("}"):
            self.tokens.forbid("write all values of the array in one pair of braces.", "{")
            values.append(self.expressions.expression())
        return tuple(values)

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
        tokens, token = self.tokens, self.tokens.next
        if tokens.accept(";"):
            return []
        if token.text == "{":
            self.symbols.bare += 1
            body = self.block()
            self.symbols.bare -= 1
            return body
        if token.text in JUMPS:
            return [self.jump()]
        if token.text in ("if", "while"):
            return [self.branch()]
        if token.text == "for" or token.kind == "pragma":
            return [self.for_loop()]
        if token.kind == "end":
            raise tokens.error(token.place, f"the file ends within {self.symbols.function}; a }} is missing.")
        if error := tokens.rejected(token):
            raise error
        if tokens.peek().text == ":":
            raise tokens.error(token.place, "labels are outside the differentiable subset; leave a loop with break.")
        if token.text in STORAGE or self.expressions.peek_type():
            return self.declaration()
        if token.kind == tokens.peek().kind == "name":
            raise self.expressions.unknown_type(token)
        return [self.simple(";")]

    def branch(self) -> ast.If | ast.For:
        """if, with or without else; while, a loop without start and step."""
        tokens, start, token = self.tokens, self.tokens.at, self.tokens.take()
        tokens.forbid("if constexpr is outside the subset; write if.", "constexpr")
        tokens.expect("(")
        if self.expressions.peek_type() and (name := tokens.peek().text) != "(":
            raise tokens.error(tokens.next.place, f"declare the variable {name} in a statement ahead of this one.")
        condition = self.expressions.close(self.expressions.expression())
        text, body = tokens.line_since(start), self.block()
        if token.text == "while":
            return ast.For(None, condition, None, body, "", token.place, text)
        return ast.If(condition, body, self.block() if tokens.accept("else") else [], token.place, text)

    def for_loop(self) -> ast.For:
        """for with at most one variable, and its `#pragma unroll`."""
        tokens, pragma = self.tokens, ""
        if tokens.next.kind == "pragma":
            token = tokens.take()
            pragma = token.text
            if "unroll" not in pragma or tokens.next.text != "for":
                raise tokens.error(token.place, "of pragmas only #pragma unroll before a for is supported.")
        start, token = tokens.at, tokens.take()
        with self.symbols.scope():
            tokens.expect("(")
            first = None if tokens.accept(";") else self.loop_start(token.place)
            condition = ast.Number("true", "bool") if tokens.next.text == ";" else self.expressions.expression()
            tokens.expect(";")
            step = None if tokens.next.text == ")" else self.simple("")
            tokens.expect(")")
            text = tokens.line_since(start)
            return ast.For(first, condition, step, self.block(), pragma, token.place, text)  # type: ignore[arg-type]

    def loop_start(self, place: Place) -> Stmt:
        declares = self.expressions.peek_type()
        if declares and self.tokens.peek(2).text == ":":
            raise self.tokens.error(place, "a for over all elements is outside the subset; count with an int.")
        first, *others = self.declaration() if declares else [self.simple(";")]
        if others:
            raise self.tokens.error(place, "a for with several variables; declare the others before the loop.")
        variable = first.target if isinstance(first, ast.Assign) else first
        if isinstance(variable, ast.Declare | ast.Name | ast.Index) and is_float(variable.type):
            why = f"the variable of this for is a {variable.type}; count with an int, or use while."
            raise self.tokens.error(place, why)
        return first

    def jump(self) -> ast.Jump:
        start, token = self.tokens.at, self.tokens.take()
        value = None if self.tokens.next.text == ";" else self.expressions.expression()
        if token.text == "return" and (value is None) != (self.returns == "void"):
            what = f"a {self.returns}" if value is None else "no value"
            raise self.tokens.error(token.place, f"{self.symbols.function} returns {what}; so must this return.")
        self.tokens.expect(";")
        return ast.Jump(token.text, value, token.place, self.tokens.line_since(start))

    def simple(self, end: str) -> ast.Assign | ast.AtomicAdd | ast.Barrier:
        """An assignment, a step, an atomicAdd or a barrier, up to `end`."""
        tokens, start, token = self.tokens, self.tokens.at, self.tokens.next
        parsed: ast.Assign | ast.AtomicAdd | ast.Barrier
        if tokens.accept("__syncthreads"):
            tokens.expect("(")
            tokens.expect(")")
            parsed = ast.Barrier(token.place)
        elif tokens.accept("atomicAdd"):
            target = self.expressions.address(token)
            tokens.expect(",")
            value = self.expressions.close(self.expressions.expression())
            self.check_writable(target)
            parsed = ast.AtomicAdd(target, value, token.place)
        else:
            parsed = self.assignment()
        if end:
            tokens.expect(end)
        parsed.text = tokens.line_since(start)
        return parsed

    def assignment(self) -> ast.Assign:
        """`x = e`, `x += e`, `++i`, `i--`."""
        tokens, place = self.tokens, self.tokens.next.place
        step = tokens.take() if tokens.next.text in ("++", "--") else None
        tokens.forbid("write the target of the assignment as a variable or as an element: y[i] = ...;", "*", "(")
        name = tokens.identifier("a statement")
        if tokens.next.text == "(":
            why = f"the call of {name.text} as a statement is outside the subset; {way_out(name.text)}."
            raise tokens.error(name.place, why)
        target = self.expressions.element(name)
        op = step or tokens.take()
        if op.text not in (*ASSIGNMENTS, "++", "--"):
            raise tokens.error(op.place, f"expected an assignment, found {op.text or 'the end'!r}.")
        self.check_writable(target)
        if op.text in ("++", "--"):
            return ast.Assign(target, f"{op.text[0]}=", ast.Number("1", "int"), place)
        value = self.expressions.expression()
        tokens.forbid("assign one variable in a statement.", *ASSIGNMENTS)
        if is_float(value.type) and not is_float(target.type):
            raise tokens.error(op.place, f"a {value.type} becomes {target.type} here; write the cast: (int)(...).")
        return ast.Assign(target, op.text, value, place)

    def check_writable(self, target: Target) -> None:
        """Reject stores into constants, parameters and unknown names."""
        name = target_name(target)
        symbol = next((s for scope in self.symbols.scopes for s in scope.values() if s.name == name), None)
        if symbol is None:
            why = f"{name} cannot be assigned."
        elif isinstance(symbol, ast.Parameter) and symbol.pointer and self.returns != "void":
            why = f"a __device__ function stores into {name}; return the value instead."
        elif symbol.const:
            why = f"{name} is const and is written here."
        elif isinstance(symbol, ast.Parameter) and not symbol.pointer and not isinstance(target, ast.Index):
            why = f"the parameter {name} is changed here; copy it into a variable first."
        else:
            return
        raise self.tokens.error(target.place, why)
