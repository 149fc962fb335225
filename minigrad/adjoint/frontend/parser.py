"""The parser of statements and functions."""

from dataclasses import replace

from minigrad.adjoint.frontend import loops
from minigrad.adjoint.frontend.assignments import AssignmentParser
from minigrad.adjoint.frontend.declarations import STORAGE
from minigrad.adjoint.frontend.intrinsics import LEFT_OUT, reads_clock
from minigrad.adjoint.frontend.macros import enumeration, with_constants
from minigrad.adjoint.frontend.symbols import SymbolTable
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import JUMPS, Expr, Place, Stmt
from minigrad.adjoint.language.control_flow import (
    SwitchCase,
    chain,
    groups_of,
    joined,
    known,
    leaves,
    normalize_jumps,
    settle,
    variables_of_several,
    without_breaks,
)
from minigrad.adjoint.language.dataflow import accesses, inline, read, target_name
from minigrad.adjoint.language.lexer import Token, way_out
from minigrad.adjoint.language.rewrite import flatten, folded, own_expressions
from minigrad.adjoint.language.values import NOTHING, Value

ATOMICS = ("atomicAdd", "atomicAdd_block", "atomicSub")
SYNCHRONIZE = ("__syncthreads", "__syncwarp", "sync")


class StatementParser(AssignmentParser):
    """Parses functions statement by statement. A construct outside the subset raises NotDifferentiable."""

    def alike(self) -> "StatementParser":
        """A parser of another function of the same file."""
        symbols = SymbolTable(self.tokens, self.symbols.macros)
        symbols.functions, symbols.enums = self.symbols.functions, self.symbols.enums
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
        loops.own_counters(made)
        made.body = loops.shared_ahead(settle(made.body) if self.symbols.tested else made.body)
        for place in (x.place for s in flatten(made.body) for kind, x in accesses(s) if target_name(x) == NOTHING):
            raise self.error(place, "a pointer that points nowhere is read or stored to here.")
        assigned = {target_name(s.target) for s in flatten(made.body) if isinstance(s, ast.Assign | ast.AtomicAdd)}
        for name in sorted(read(made.body) & set(made.declared) - assigned):
            variable = made.declared[name]
            if whole := self.symbols.parts.get(name):
                why = f"{whole} is read as {variable.type}, and nothing is stored in it as {variable.type}; convert "
                raise self.error(variable.place, f"{why}the numbers, as by __float_as_int.")
            if variable.value is None and variable.values is None:
                raise self.error(variable.place, f"{name} is read and never given a value; give it one.")
        for name, kind in self.symbols.typed.items():
            made.declared[name].type = kind
            parts = (x for s in flatten(made.body) for e in (*own_expressions(s), *targets(s)) for x in ast.walk(e))
            if any(isinstance(x, ast.Index) and x.array == name and x.type != kind for x in parts):
                why = f"{name} is used as {kind} and as another type; give each type bytes of its own."
                raise self.error(made.declared[name].place, why)
        if leaves(made.body, ("break", "continue")):
            raise self.error(made.place, f"{made.name} has a break or continue outside any loop; leave it out.")
        loops.unique_places(made.body)
        normalize_jumps(made, self.tokens.words)

    def function(self, place: Place, name: str, returns: str) -> ast.Function | None:
        """Parameters and body of a function whose name has been read; None for a declaration without a body."""
        tokens, start = self.tokens, self.tokens.at
        self.returns, self.symbols.function = returns, name
        self.symbols.pending, self.hoisted = [], []
        with self.symbols.scope() as scope:
            tokens.expect("(")
            params, own = [], []
            self.own_parameters, self.own_members = [], {}
            for _ in tokens.items(")"):
                if tokens.next.text == "void" and tokens.peek().text == ")":
                    tokens.take()
                    continue
                made = self.parameter(scope)
                params += made
                own.append(self.declared_parameter)
            if tokens.accept(";"):
                return None
            own += self.own_parameters
            self.symbols.parameters = {p.name: p for p in own}
            self.body_end = self.tokens.matching(tokens.at)
            with self.symbols.scope() as inner:
                self.copy_changed(params, inner)
                before = self.taken_pending()
                body = self.block()
                body = [*self.hoisted, *before, *body]
        text = tokens.line_since(start)
        tokens.accept(";")
        known, params = self.symbols.declared, self.cast_parameters(params)
        own = [replace(p, type=str(self.symbols.cast.get(p.name, p.type))) for p in own]
        return ast.Function(
            name, returns, tuple(params), body, place, text, known, own=tuple(own), pointed=self.own_members
        )

    def block(self, choice: bool = False, joins: bool = False) -> list[Stmt]:
        """Statements in braces, or a single one. choice: some threads may skip them; joins: they join those around."""
        self.symbols.choices += choice
        self.symbols.bare += joins
        with self.symbols.scope():
            one = not self.tokens.accept("{")
            body = self.statement() if one else []
            while not one and not self.tokens.accept("}"):
                body += self.statement()
        self.symbols.choices -= choice
        self.symbols.bare -= joins
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
            return self.block(joins=True)
        if token.text in JUMPS:
            return self.jump()
        if token.text == tokens.peek().text == "[" or token.text == "_Pragma":  # an attribute, as [[fallthrough]]
            tokens.at = self.tokens.matching(tokens.at + (token.text != "[")) + 1
            return self.one_statement()
        match token.text:
            case "if":
                return self.branch()
            case "while":
                return self.while_loop()
            case "for":
                return loops.for_loop(self)
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
            case "struct" | "class" if "{" in (tokens.peek().text, tokens.peek(2).text):
                self.local_struct()
                return []
            case "enum" if "{" in [tokens.peek(n).text for n in range(1, 6)]:
                tokens.take()
                enumeration(self, False, self.functions.twice)
                tokens.expect(";")
                return []
        if token.kind == "pragma":
            tokens.take()
            return loops.for_loop(self, token.text) if "unroll" in token.text and tokens.next.text == "for" else []
        if token.kind == "end":
            raise self.error(token.place, f"the file ends within {self.symbols.function}; a }} is missing.")
        if token.text in ("asm", "__asm__") and reads_clock(self):
            return []
        if error := tokens.rejected(token, word=True):
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
        opening, word, _, closing, last = (self.tokens.peek(length + n).text for n in range(5))
        if (opening, closing) == ("(", ")") and word in "*&" and last in ("[", "("):
            return True
        return opening not in ("(", "{", ".", "::")

    def expressions(self) -> None:
        """Assignments and calls as a statement, separated by commas."""
        tokens = self.tokens
        while True:
            unused = [tokens.peek(n).text for n in range(3)] == ["(", "void", ")"]
            tokens.at += 3 * unused
            at, path = tokens.at, self.qualified()
            if path and tokens.next.text not in (*SYNCHRONIZE, *LEFT_OUT, *ATOMICS):
                tokens.at = at
            self.statement_start, token = tokens.at, tokens.next
            if token.text in SYNCHRONIZE and not (self.functions and token.text in self.functions):
                tokens.take()
                tokens.expect("(")
                self.skip_arguments()
                self.symbols.pending.append(ast.Barrier(token.place, warp=token.text == "__syncwarp"))
            elif token.text in ATOMICS:
                self.atomic(tokens.take())
            elif token.text in LEFT_OUT:
                tokens.take()
                tokens.expect("(")
                self.leave_out(token)
            elif unused:
                self.full()
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

    def condition(self, loop: bool = False) -> tuple[Expr, list[Stmt]]:
        """A condition in parentheses, and the statements ahead of it. loop: they run again."""
        self.tokens.expect("(")
        place = self.tokens.next.place
        if self.begins_declaration():
            made = self.isolated(lambda: self.truth(self.declared_condition(), place), loop)
        else:
            made = self.isolated(lambda: self.truth(self.full(), place), loop)
        self.tokens.expect(")")
        return made

    def declared_condition(self) -> Value:
        name = self.tokens.peek(self.type_length(self.tokens.at)[1])
        self.declaration()
        if self.tokens.accept(";"):  # if (int k = i % 2; k > 0)
            return self.full()
        value = self.symbols.variable(name)
        return value

    def branch(self) -> list[Stmt]:
        """if, with or without else."""
        tokens, start, token = self.tokens, self.tokens.at, self.tokens.take()
        constant = tokens.accept("constexpr")
        with self.symbols.scope():
            condition, needed = self.condition()
            text = tokens.line_since(start)
            holds = known(condition)  # as of a template's parameter
            if constant and holds is None:  # a macro or a constant has its value here
                holds = known(folded(inline(with_constants(self.symbols, condition), self.symbols.formulas)))
            if constant and holds is None:
                raise self.error(token.place, "the condition of this if constexpr is not known here; write if.")
            then = self.block(holds is None, holds is True) if holds is not False else self.skip_statement()
            orelse: list[Stmt] = []
            if tokens.accept("else"):
                orelse = self.block(holds is None, holds is False) if holds is not True else self.skip_statement()
        if holds is not None:
            return [*needed, *then, *orelse]
        return [*needed, ast.If(condition, then, orelse, token.place, text)]

    def skip_statement(self) -> list[Stmt]:
        tokens, word = self.tokens, self.tokens.next.text
        if word == "{":
            self.skip_to("}")
        elif word in ("if", "for", "while", "switch"):
            tokens.at += 2 if tokens.peek().text == "constexpr" else 1
            self.skip_to(")")
            self.skip_statement()
            if word == "if" and tokens.accept("else"):
                self.skip_statement()
        else:
            if tokens.accept("do"):
                self.skip_statement()
            self.skip_to(";")
        return []

    def skip_to(self, last: str) -> None:
        """Step over this sign and all ahead of it, such as the bodies of lambdas."""
        tokens, done = self.tokens, False
        while not done and tokens.next.kind != "end":
            tokens.at = tokens.matching(tokens.at)
            done = tokens.take().text == last

    def while_loop(self) -> list[Stmt]:
        tokens, start, token = self.tokens, self.tokens.at, self.tokens.take()
        condition, needed = self.condition(True)
        text, body = tokens.line_since(start), self.block(True)
        condition = loops.to_zero(condition, needed, body)
        if needed:
            body, condition = [*needed, loops.leave(condition, token.place), *body], ast.Number("true", "bool")
        return [ast.For(None, condition, None, body, "", token.place, text)]

    def do_loop(self) -> list[Stmt]:
        tokens, token = self.tokens, self.tokens.take()
        body = self.block(True, joins=True)  # in case of `while (0)`
        tokens.expect("while")
        condition, needed = self.condition(True)
        tokens.expect(";")
        if known(condition) is False and not leaves(body, ("break", "continue")):
            return body
        body = loops.with_steps(body, [*needed, loops.leave(loops.to_zero(condition, needed, body), token.place)])
        return [ast.For(None, ast.Number("true", "bool"), None, body, "", token.place, "do")]

    def switch(self) -> list[Stmt]:
        """A chain of branches: cases that go on into the next form one, in which each asks for its labels."""
        tokens, token = self.tokens, self.tokens.take()
        value, needed = self.condition()
        outer, self.symbols.pending = self.symbols.pending, needed
        value = self.simple(value, "selected", token.place)
        self.symbols.pending = outer
        tokens.expect("{")
        cases: list[SwitchCase] = []
        with self.symbols.scope():
            while tokens.next.text not in ("case", "default", "}") and self.begins_declaration():
                needed += self.statement()  # of variables for all cases, which get no value here
            while not tokens.accept("}"):
                cases.append(case := self.labels(value))
                self.symbols.bare += 1
                self.symbols.choices += 1
                while tokens.next.text not in ("case", "default", "}"):
                    case.body += self.statement()
                self.symbols.choices -= 1
                self.symbols.bare -= 1
        needed += variables_of_several(cases)
        branches, otherwise = list[tuple[list[Expr], list[Stmt]]](), list[Stmt]()
        for group in groups_of(cases):
            body = without_breaks(joined(group, token.place), self.symbols.declared, tokens.words)
            if body is None:
                why = "a break beside a continue or return in one case is outside the subset; write if and else."
                raise self.error(next(case.body[0].place for case in group if case.body), why)
            if any(case.default for case in group):
                otherwise = body
            else:
                branches.append(([test for case in group for test in case.tests], body))
        return [*needed, *chain(branches, otherwise, token.place)]

    def labels(self, value: Expr) -> SwitchCase:
        """`case 0: case 1:` or `default:`."""
        tokens, made = self.tokens, SwitchCase([])
        if tokens.next.text not in ("case", "default"):
            raise self.error(tokens.next.place, "a statement of a switch follows its case.")
        while tokens.next.text in ("case", "default"):
            if tokens.take().text == "default":
                made.default = True
            else:
                label = self.expression(ast.PRECEDENCE["||"])
                made.tests.append(ast.Binary("==", value, label, "bool"))
            tokens.expect(":")
        return made

    def jump(self) -> list[Stmt]:
        tokens, start, token = self.tokens, self.tokens.at, self.tokens.take()
        value: Value | None = None
        if tokens.next.text != ";":
            value = self.argument()
        if token.text == "return" and self.inside_call:
            tokens.expect(";")
            return self.return_value(value, token)
        if token.text == "return" and (value is None) != (self.returns == "void"):
            what = f"a {self.returns}" if value is None else "no value"
            raise self.error(token.place, f"{self.symbols.function} returns {what}; so must this return.")
        tokens.expect(";")
        number = None if value is None else self.convert(value, self.returns, token.place, stored=True)
        return [ast.Jump(token.text, number, token.place, tokens.line_since(start))]


def targets(s: Stmt) -> tuple[Expr, ...]:
    return (s.target,) if isinstance(s, ast.Assign | ast.AtomicAdd) else ()
