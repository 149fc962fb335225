"""Functions and templates of structs in a file, by the numbers of their tokens."""

from dataclasses import dataclass, field

from minigrad.adjoint.language.values import StructType


@dataclass(eq=False)
class FunctionItem:
    """A function by the numbers of its tokens: its type, the parenthesis of its parameters, the brace of its body."""

    name: str
    start: int
    params: int
    body: int
    template: list[tuple[bool, str, int]] = field(
        default_factory=list
    )  # a type or a number, name, default's token or 0
    owner: StructType | None = None
    kernel: bool = False
    scopes: tuple[list, list] | None = None  # of a lambda: the variables and types known where it stands
    returns: int = 0  # of a lambda: the token of its type, if it has one; of a conversion: that of its type
    counts: int = 0  # of its parameters
    type: str = "function"


@dataclass(eq=False)
class StructTemplate:
    """A template of a struct: its parameters, the token of its brace, and its text.

    arguments: the token of the < behind its name where it is a specialization, else 0.
    """

    parameters: list[tuple[bool, str, int]]
    brace: int
    text: str
    arguments: int = 0
