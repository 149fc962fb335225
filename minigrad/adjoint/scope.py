"""What a name stands for, where it is read; and the reading of tokens one by one."""

from collections.abc import Iterator
from itertools import count

from minigrad.adjoint.expr import Name, Place, unused
from minigrad.adjoint.outside import word
from minigrad.adjoint.tokens import Refused, Token, Tokens
from minigrad.adjoint.tree import Declare, Function, Param
from minigrad.adjoint.types import BUILTINS, CONSTANTS, TYPES, plain

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
