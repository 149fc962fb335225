"""What a name stands for, where it is read; and the reading of tokens one by one."""

from collections.abc import Iterator
from itertools import count

from minigrad.adjoint.language.ast import (
    BUILTINS,
    CONSTANTS,
    TYPES,
    Binary,
    Call,
    Cast,
    Declare,
    Expr,
    Function,
    Index,
    Name,
    Number,
    Param,
    Place,
    Ternary,
    Unary,
    common,
    floating,
    operands,
    plain,
    result,
    unused,
)
from minigrad.adjoint.language.dataflow import flat
from minigrad.adjoint.language.lexer import Refused, Token, Tokens, word
from minigrad.adjoint.language.lexer import call as way_out

Symbol = Declare | Param
KNOWN = "int, unsigned, long long, bool, float, double and real are within"
UNKNOWN = ("long", "char", "short", "signed", "void", "half")  # types of which an expression may not begin


class Scope:
    """A cursor over the tokens of a file, and the names known where it stands."""

    def __init__(self, tokens: Tokens, macros: dict | None = None, outside: dict | None = None):
        self.file, self.tokens, self.at = tokens, tokens.tokens, 0
        self.macros, self.functions = macros or {}, dict[str, Function]()
        self.outside = outside or {}  # names of the file that are refused where they are used
        self.scopes: list[dict[str, Symbol]] = [{}]
        self.declared: dict[str, Declare] = {}

    # --- tokens ---

    @property
    def next(self) -> Token:
        """The token under the cursor."""
        return self.tokens[self.at]

    def peek(self, ahead: int = 1) -> str:
        """The text of a token further on."""
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)].text

    def take(self) -> Token:
        """Step over one token."""
        token = self.next
        self.at += token.kind != "end"
        return token

    def accept(self, text: str) -> bool:
        """Step over the token if it is this one."""
        found = self.next.text == text and self.next.kind != "string"
        self.at += found
        return found

    def expect(self, text: str) -> Token:
        """Step over this token. Raises Refused at any other."""
        if self.next.text == text:
            return self.take()
        last, ahead, found = self.tokens[max(self.at - 1, 0)], self.next, self.next.text
        if found in ("=", "+=", "-=", "*=", "/=") and text in (")", ":", "]"):
            raise self.refuse(ahead.place, f"{found} inside an expression is outside the subset; make it a statement.")
        if found == "," and text in (")", ";", ":", "]"):
            raise self.refuse(ahead.place, "the comma operator is outside the subset; write two statements.")
        if text == ";" and ahead.place.line > last.place.line:
            end = Place(last.place.line, last.place.column + len(last.text))
            raise self.refuse(end, "a ; is missing here, at the end of the statement.")
        raise self.stray(ahead) or self.refuse(ahead.place, f"expected {text!r}, found {found or 'the end'!r}.")

    def listed(self, close: str) -> Iterator[int]:
        """Number what stands between commas, up to `close`, for a loop that reads it."""
        for n in count():
            if self.accept(close):
                return
            yield n
            if self.next.text != close:
                self.expect(",")

    def identifier(self, what: str) -> Token:
        """Step over a name."""
        if (refused := self.stray(self.next)) or self.next.kind != "name":
            raise refused or self.refuse(self.next.place, f"expected {what}, found {self.next.text or 'the end'!r}.")
        return self.take()

    def refuse(self, place: Place, why: str) -> Refused:
        """The exception for a place."""
        return self.file.refuse(place, why)

    def bar(self, why: str, *texts: str) -> None:
        """Raise Refused, with this sentence, where one of these tokens is next."""
        if self.next.text in texts:
            raise self.refuse(self.next.place, why)

    def stray(self, token: Token) -> Refused | None:
        """The exception for a word that is outside the subset, or a name of the file that is; None for another."""
        why = word(token)
        return self.refuse(token.place, why) if why else self.outside.get(token.text)

    def since(self, start: int) -> str:
        """The source text from a token to the cursor."""
        return self.file.text[self.tokens[start].start : self.tokens[self.at - 1].stop]

    def words(self, start: int) -> str:
        """The same on one line."""
        return " ".join(self.since(start).split())

    # --- names ---

    def lookup(self, name: str) -> Symbol | None:
        """The declaration or parameter behind a name."""
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def declare(self, made: Declare) -> None:
        """Enter a variable. One that hides another, or has another's name and not its type, gets a new name."""
        written = made.name
        if written in self.scopes[-1]:
            raise self.refuse(made.place, f"{written} is declared twice in one scope.")
        if plain(written) or written in self.functions or written in self.macros or written in BUILTINS:
            what = "builtin" if written in BUILTINS else "function or macro"
            raise self.refuse(made.place, f"{written} is the name of a {what}; choose another name.")
        known = self.declared.get(written)
        if self.lookup(written) or (known and (known.type, known.dims) != (made.type, made.dims)):
            made.name = unused(written, {*self.declared, *self.file.words})
        self.declared[made.name] = self.scopes[-1][written] = made

    def type_here(self) -> str | None:
        """The type that begins at the cursor, in one word; None where no type does. The cursor stays."""
        two = f"{self.next.text} {self.peek()}"
        if two in TYPES:
            return TYPES[two]
        following = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if self.next.text in UNKNOWN and (following.kind == "name" or following.text in "*&"):
            raise self.untyped(self.next)
        alias = self.macros.get(self.next.text)
        kind = TYPES.get(self.next.text) or (alias.type if alias and alias.name == "a type" else None)
        if kind and self.peek() in ("long", "char", "short", "int", "double"):
            raise self.untyped(self.next._replace(text=two))
        return kind

    def untyped(self, token: Token) -> Refused:
        """The exception for a type that is none of the subset."""
        made = self.refuse(token.place, f"the type {token.text} is outside the differentiable subset; {KNOWN}.")
        return self.stray(token) or made

    def expect_type(self) -> str:
        """Step over a type. Raises Refused where none is."""
        kind = self.take_type()
        if kind is None:
            raise self.untyped(self.next)
        return kind

    def take_type(self) -> str | None:
        """The type at the cursor, stepped over."""
        kind = self.type_here()
        if kind:
            self.at += 2 if f"{self.next.text} {self.peek()}" in TYPES else 1
        return kind

    def variable(self, token: Token) -> Name:
        """The name as an expression, with its type. Raises Refused where nothing of that name is known."""
        if token.text in CONSTANTS:
            return Name(token.text, CONSTANTS[token.text], token.place)
        if token.text in self.macros:
            return Name(token.text, self.macros[token.text].type, token.place)
        if token.text in BUILTINS:
            raise self.refuse(token.place, f"{token.text} is used by its parts x, y and z.")
        found = self.lookup(token.text)
        if found is None:
            raise self.stray(token) or self.refuse(token.place, f"{token.text} is not declared here.")
        return Name(found.name, found.type, token.place)


PRECEDENCE = {
    op: rank
    for rank, ops in enumerate(["||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %"], 1)
    for op in ops.split()
}
ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
AFTER = {
    "++": "make it a statement", "--": "make it a statement", ".": "write a variable for each member",
    "->": "write a variable for each member", "[": "an array takes one index for each of its axes",
    "(": "only functions are called", "::": "write the name alone",
}  # fmt: skip
POWER = "a power is x * x, or pow(x, 3)"
TESTS = ("||", "&&", "==", "!=", "<", "<=", ">", ">=")


class Expressions(Scope):
    """Reads expressions."""

    reading = ""  # the name of the function that is read

    def expression(self, rank: int = 0) -> Expr:
        """An expression of operators that bind at least as tightly as `rank`."""
        left = self.unary()
        while (op := self.next.text) in PRECEDENCE and PRECEDENCE[op] > rank:
            token = self.take()
            if op == self.next.text == "*" and self.next.place.column == token.place.column + 1:
                raise self.refuse(token.place, f"** is no operator of C++; {POWER}.")
            left = self.binary(token, left, self.expression(PRECEDENCE[op]))
        if rank == 0 and self.accept("?"):
            yes = self.expression()
            self.expect(":")
            no = self.expression()
            return Ternary(left, yes, no, common(yes.type, no.type))
        if self.next.text in (*ASSIGNMENTS, "++", "--") and rank:
            raise self.refuse(self.next.place, f"{self.next.text} inside an expression; make it a statement.")
        return left

    def binary(self, token: Token, left: Expr, right: Expr) -> Expr:
        """The two operands joined; tests give a bool."""
        op, kinds = token.text, (left.type, right.type)
        if op in ("%", "&", "|", "^", "<<", ">>") and any(map(floating, kinds)):
            instead = f"; {POWER}" if op == "^" else ""
            raise self.refuse(token.place, f"{op} of floating-point numbers has no meaning{instead}.")
        return Binary(op, left, right, "bool" if op in TESTS else common(*kinds))

    def unary(self) -> Expr:
        """A sign, a negation, a cast, or an operand with its indices."""
        token = self.next
        if token.text in ("-", "!", "~", "+"):
            self.take()
            operand = self.unary()
            if token.text == "~" and floating(operand.type):
                raise self.refuse(token.place, "~ of a floating-point number has no meaning.")
            kind = "bool" if token.text == "!" else common(operand.type)
            return operand if token.text == "+" else Unary(token.text, operand, kind)
        if token.text in ("++", "--", "*", "&"):
            why = "make it a statement" if token.text in ("++", "--") else "write x[i] for an element"
            raise self.refuse(token.place, f"{token.text} before an operand is outside the subset; {why}.")
        return self.postfix()

    def postfix(self) -> Expr:
        """An operand; what may not follow it is refused."""
        found = self.primary()
        if (after := self.next.text) in AFTER:
            raise self.refuse(self.next.place, f"{after!r} is outside the differentiable subset here; {AFTER[after]}.")
        return found

    def primary(self) -> Expr:
        """A literal, a name, an element, a call, a cast, or an expression in parentheses."""
        token = self.next
        if token.kind == "number":
            return literal(self.take().text)
        if self.accept("("):
            return self.parenthesis()
        if kind := self.take_type():
            self.expect("(")
            return self.close(Cast(kind, self.expression()))
        if self.accept("static_cast"):
            self.expect("<")
            kind = self.expect_type()
            self.expect(">")
            self.expect("(")
            return self.close(Cast(kind, self.expression()))
        name = self.identifier("an operand")
        if name.text == "__ldg":
            return self.pointed(name)
        if self.next.text == "(":
            return self.call(name)
        if name.text in BUILTINS and self.accept("."):
            axis = self.identifier("x, y or z")
            if axis.text not in "xyz":
                raise self.refuse(axis.place, f"{name.text}.{axis.text} does not exist; the parts are x, y and z.")
            return Name(f"{name.text}.{axis.text}", "int", name.place)
        return self.element(name)

    def pointed(self, function: Token) -> Index:
        """`__ldg(&x[i])`, which reads x[i]; and of `atomicAdd(&y[i], e)` what comes before the comma."""
        self.expect("(")
        if not self.accept("&"):
            more = ", value" if function.text == "atomicAdd" else ""
            raise self.refuse(self.next.place, f"{function.text} takes the element: {function.text}(&x[i]{more}).")
        target = self.element(name := self.identifier("an array"))
        if not isinstance(target, Index):
            raise self.refuse(name.place, f"{name.text} is no array; {function.text} takes an element of one.")
        if function.text == "__ldg":
            self.expect(")")
        return target

    def parenthesis(self) -> Expr:
        """What follows an opening parenthesis: a cast or an expression."""
        place, const = self.next.place, self.accept("const")
        if kind := self.take_type():
            if const or self.next.text == "*":
                raise self.refuse(place, "pointers cannot be cast in the subset; pass the array with its own type.")
            self.expect(")")
            return Cast(kind, self.unary())
        return self.close(self.expression())

    def close(self, e: Expr) -> Expr:
        """The expression, with its closing parenthesis stepped over."""
        self.expect(")")
        return e

    def element(self, name: Token) -> Name | Index:
        """A variable, or an element of an array with an index for each axis."""
        made, found = self.variable(name), self.lookup(name.text)
        axes = 0 if found is None else int(found.pointer) if isinstance(found, Param) else len(found.dims)
        indices: list[Expr] = []
        while len(indices) < axes and self.accept("["):
            at = self.next.place
            indices.append(self.expression())
            if floating(indices[-1].type):
                raise self.refuse(at, "an index must be a whole number.")
            self.expect("]")
        if len(indices) != axes:
            raise self.refuse(
                name.place, f"{name.text} is an array of {axes} axes and is used here with {len(indices)} indices; "
                "pointers cannot be moved, copied or compared in the subset."
            )  # fmt: skip
        return Index(made.name, tuple(indices), made.type, name.place) if axes else made

    def call(self, name: Token) -> Expr:
        """A call of a maths function or of one of the file's own device functions."""
        self.expect("(")
        given: list[Expr] = []
        known = self.functions.get(name.text)
        if refused := self.outside.get(name.text):
            raise refused
        if name.text == self.reading:
            raise self.refuse(name.place, f"{name.text} calls itself; recursion is outside the subset, write a loop.")
        if name.text == "atomicAdd":
            why = "the value that atomicAdd returns depends on the order of the threads; use it as a statement alone."
            raise self.refuse(name.place, why)
        if known is None and not plain(name.text):
            why = f"{name.text} has no derivative rule here, and is no __device__ function; {way_out(name.text)}."
            raise self.refuse(name.place, why)
        for n in self.listed(")"):
            pointer = known and n < len(known.params) and known.params[n].pointer
            given.append(self.whole_array() if pointer else self.expression())
        wanted = len(known.params) if known else operands(name.text)
        if len(given) != wanted:
            raise self.refuse(name.place, f"{name.text} takes {wanted} arguments; got {len(given)}.")
        kind = known.returns if known else result(name.text, [e.type for e in given])
        return Call(name.text, tuple(given), kind, name.place, flat(known) if known else frozenset())

    def whole_array(self) -> Name:
        """An array handed to a device function: a pointer parameter by its name."""
        self.bar("hand over the array alone, and the index as a parameter of its own.", "&")
        name = self.identifier("an array")
        if not isinstance(self.lookup(name.text), Param):
            raise self.refuse(name.place, "only a pointer parameter can be handed to a function as an array.")
        if self.next.text not in (",", ")"):
            raise self.refuse(self.next.place, f"hand over {name.text} alone, and the index as a parameter of its own.")
        return self.variable(name)


def literal(text: str) -> Number:
    """A literal with its type."""
    low = text.lower()
    if low.startswith("0x") or not any(c in low for c in ".ef"):
        return Number(text, "unsigned" if "u" in low else "long long" if "l" in low else "int")
    return Number(text, "float" if low.endswith("f") else "double")
