"""Values that are no numbers: structs, arrays, pointers and functions, which the parser writes as numbers; types."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import Expr, is_float
from minigrad.adjoint.language.rewrite import ZERO, constant, plus


@dataclass(frozen=True)
class Member:
    """A member of a struct, with the extents of an array."""

    name: str
    type: "Kind"
    dims: tuple[Expr, ...] = ()
    value: int = 0  # the token of the value that it has where it is given none
    pointer: bool = False
    enum: str = ""  # the name of its type, which holds whole numbers


class Enum(NamedTuple):
    """An enum, whose values are whole numbers of this type. scoped: enum class, whose names stand behind its own."""

    type: str
    scoped: bool
    values: dict[str, str]
    file: str  # that has it, which the adjoint includes; empty for the kernel's own


@dataclass(eq=False)
class StructType:
    """A struct: its members in order, its text, and the methods by name as numbers of tokens.

    One of a template has its arguments in its name and in `arguments`. types and values hold the names known inside:
    the template's parameters, other names of types, static members.
    """

    name: str
    members: tuple[Member, ...]
    text: str = ""
    methods: dict[str, list] = field(default_factory=dict)
    types: dict[str, "Kind"] = field(default_factory=dict)
    values: dict[str, "Value"] = field(default_factory=dict)
    arguments: tuple = ()
    space: tuple[str, ...] = ()  # the namespace that it stands in
    bases: tuple["StructType", ...] = ()  # that it extends: their members are the first of its own

    def __str__(self) -> str:
        return self.name

    @property
    def short(self) -> str:
        """Its name without the arguments of a template, which constructors have."""
        return self.name.partition("<")[0]

    def extends(self, other: "Kind | None") -> bool:
        return any(base is other or base.extends(other) for base in self.bases)

    @property
    def has_values(self) -> bool:
        """True where its text gives members a value."""
        return any(m.value or (isinstance(m.type, StructType) and m.type.has_values) for m in self.members)

    def base_at(self, n: int) -> "StructType | None":
        """The struct that it extends whose first member is its member n; the one without members, if any."""
        at = 0
        for base in self.bases:
            if at == n:
                return base
            at += len(base.members)
        return None

    def member(self, name: str) -> Member | None:
        return next((m for m in self.members if m.name == name), None)

    def held_pointer(self, inside: bool) -> str:
        """A sentence on a pointer in a struct of an array, or in one that is a member of another."""
        for m in self.members:
            if m.pointer and inside:
                return f"{self} holds the pointer {m.name}"
            if isinstance(m.type, StructType) and (found := m.type.held_pointer(True)):
                return found
        return ""

    def leaves(self, before: str, joint: str) -> Iterator[tuple[str, str, tuple[Expr, ...]]]:
        """The numbers in it: name, type and extents of each; those behind a pointer are in other arrays."""
        for m in self.members:
            if m.pointer:
                continue
            name = member_name(before, joint, m)
            if isinstance(m.type, StructType):
                for inner, kind, dims in m.type.leaves(name, joint):
                    yield inner, kind, (*m.dims, *dims)
            else:
                yield name, m.type, m.dims


def member_name(before: str, joint: str, m: Member) -> str:
    """x.a, or x_a; of an array of structs in a parameter x.a[], which is printed as x.a[i]."""
    inside = joint == "." and isinstance(m.type, StructType)
    return f"{before}{joint}{m.name}{'[]' * len(m.dims) * inside}"


Kind = str | StructType
PROMOTIONS = dict.fromkeys((*ast.SMALL, "bool"), "int") | {"float": "double"}  # the conversions that C++ likes best
GROUP = StructType("group", ())  # of threads, by another name
VECTORS = {
    f"{name}{n}": StructType(f"{name}{n}", tuple(Member(axis, kind) for axis in "xyzw"[:n]))
    for name, kind in (
        ("float", "float"), ("double", "double"), ("int", "int"), ("uint", "unsigned"), ("char", "signed char"),
        ("uchar", "unsigned char"), ("short", "short"), ("ushort", "unsigned short"), ("longlong", "long long"),
    )
    for n in (1, 2, 3, 4)
}  # fmt: skip
VECTORS |= {name: StructType(name, (Member("x", kind), Member("y", kind))) for name, kind in ast.PAIRS.items()}
VECTORS["dim3"] = StructType("dim3", VECTORS["uint3"].members, bases=(VECTORS["uint3"],))


@dataclass(frozen=True, eq=False)
class Struct:
    """A value of a struct type by the values of its members; a target where these are targets."""

    type: StructType
    members: dict[str, "Value"]
    origin: "Pointer | None" = None  # its address, where it is an element of an array
    whole: "Struct | None" = None  # the object of which it is the part that is a base
    temporary: bool = False  # its variables belong to no name yet
    passing: bool = False  # a temporary of C++ that is written as the values it is made of; it is no target

    def seen_as(self, base: StructType) -> "Struct":
        """The part of it that is the struct `base`, which its own type extends."""
        members = {m.name: self.members[m.name] for m in base.members}
        return replace(self, type=base, members=members, whole=self.whole or self)

    def as_base(self, kind: "Kind | None") -> "Struct":
        """The part that is of this type, where its own extends it, and else all of it."""
        return self.seen_as(kind) if isinstance(kind, StructType) and self.type.extends(kind) else self


@dataclass(frozen=True, eq=False)
class Bits(Struct):
    """A vector that holds the bits of numbers of another type, as an int4 those of four floats: it is only copied."""

    numbers: tuple[Expr, ...] = ()


@dataclass(frozen=True, eq=False)
class Elements:
    """An array, or a part of one: its name in the tree, the indices so far, and the number of axes to come.

    The members of an array of structs are arrays of their own, x.a of a parameter x, s_a of a variable s.
    """

    name: str
    type: Kind
    axes: int
    joint: str = "_"  # between the name and that of a member
    indices: tuple[Expr, ...] = ()
    const: bool = False
    dims: tuple[Expr, ...] = ()
    maybe: bool = False  # of a pointer that some branch alone has given an array

    @property
    def left(self) -> tuple[Expr, ...]:
        """The extents along the axes to come; none where they are not known."""
        return self.dims[-self.axes :] if self.axes else ()

    def at(self, index: Expr, place: ast.Place) -> "Value":
        """The element, or the part of the array, at an index."""
        part = replace(self, axes=self.axes - 1, indices=(*self.indices, index))
        if part.axes:
            return part
        value = part.element(place)
        return replace(value, origin=Pointer(self, index)) if isinstance(value, Struct) else value

    def parts(self, place: ast.Place) -> "list[Value]":
        """All its elements, or parts, along its first axis."""
        extent = self.left[0]
        return [self.at(ast.Number(str(n), "int"), place) for n in range(constant(extent) or 0)]

    def element(self, place: ast.Place) -> "Value":
        if not isinstance(self.type, StructType):
            return ast.Index(self.name, self.indices, self.type, place)
        members: dict[str, Value] = {}
        for m in self.type.members:
            own = (*self.dims[: len(self.indices)], *m.dims)
            name = member_name(self.name, self.joint, m)
            inner = replace(self, name=name, type=m.type, axes=len(m.dims), dims=own)
            members[m.name] = inner if m.dims else inner.element(place)
        return Struct(self.type, members)


@dataclass(frozen=True, eq=False, kw_only=True)
class ArrayView(Elements):
    """Memory, or numbers, seen as an array of another type or by another index: `of` makes the element at an index."""

    of: Callable[[Expr, ast.Place], "Value"]
    base: "Pointer | None" = None  # the numbers of memory that is seen as structs
    count: int = 0  # and how many of them each has

    def at(self, index: Expr, place: ast.Place) -> "Value":
        return self.of(index, place)


@dataclass(frozen=True, eq=False)
class Pointer:
    """An element of an array, or a variable, by its address. moves: the variable with the offset, if it may change."""

    array: Elements | None  # None: a pointer that has no array yet
    offset: Expr = ZERO
    target: "Value | None" = None  # the variable
    moves: "PointerVariable | None" = None

    @property
    def type(self) -> Kind:
        return self.array.type if self.array else getattr(self.target, "type", "void")

    def moved(self, by: Expr) -> "Pointer":
        return replace(self, offset=plus(self.offset, by), moves=None)


@dataclass(eq=False)
class PointerVariable:
    """A pointer that changes: the array into which it points, and the variable that holds its offset."""

    name: str
    type: Kind
    array: Elements | None
    offset: Expr
    const: bool = False
    choices: int = (
        0  # the branches and loops around its declaration: outside of further ones it may turn to another array
    )
    asked: bool = False  # before it has had an array, whether it has one
    target: "Value | None" = None  # the variable to which it points

    @property
    def value(self) -> Pointer:
        """Where it points now."""
        array = Elements(NOTHING, self.type, 1) if self.array is None and self.target is None else self.array
        return Pointer(array, self.offset if self.array else ZERO, self.target, self)


@dataclass(frozen=True, eq=False)
class Braces:
    """`{a, b}` as an argument, whose type the parameter gives; or `{.x = a, .y = b}`, with the names of members."""

    values: tuple
    names: tuple[str, ...] = ()
    type: str = "braces"


@dataclass(frozen=True, eq=False)
class FunctionName:
    """A function as the argument of a template."""

    name: str
    path: tuple[str, ...] = ()  # ahead of it
    type: str = "function"


@dataclass(eq=False)
class FunctionItem:
    """A function by the numbers of its tokens: its type, the parenthesis of its parameters, the brace of its body."""

    name: str
    start: int
    params: int
    body: int
    template: list[tuple[int, str, int]] = field(default_factory=list)  # as lexer.template_parameters has them
    owner: StructType | None = None
    kernel: bool = False
    scopes: tuple[list, list] | None = None  # of a lambda: the variables and types known where it stands
    returns: int = 0  # of a lambda: the token of its type, if it has one; of a conversion: that of its type
    counts: int = 0  # of its parameters
    templates: list[list[tuple[int, str, int]]] = field(default_factory=list)  # those of its struct, and its own
    special: int = 0  # of `template <> double f<double>(`: the token of the <
    within: str = ""  # of a method with a body outside: its struct
    arguments: int = 0  # and the < behind that name
    space: tuple[str, ...] = ()  # the namespace that it stands in
    friend: bool = False  # written in a struct, of which it is no method
    operator: str = ""  # no name of a function of CUDA
    type: str = "function"


@dataclass(eq=False)
class StructTemplate:
    """A template of a struct: its parameters, the token of its brace, and its text.

    arguments: the token of the < behind its name where it is a specialization, else 0. alias: of another name,
    `template <class T> using V = Vec<T>;`, or of a constant, whose type begins at that token.
    """

    parameters: list[tuple[int, str, int]]
    brace: int
    text: str
    arguments: int = 0
    alias: bool = False


Value = Expr | Struct | Elements | Pointer | PointerVariable | Braces
NOTHING = "nullptr"  # the array of a pointer that points nowhere; what reads it is never run


def with_type(pointer: Pointer, kind: "Kind | None") -> Pointer:
    """A pointer; where it points nowhere, one to elements of this type."""
    if pointer.array is not None or pointer.target is not None or kind is None:
        return pointer
    if pointer.moves:
        pointer.moves.asked = True
    return Pointer(Elements(NOTHING, kind, 1))


def nothing_for_zero(value: Value, other: Value) -> Value:
    """nullptr in place of the 0 with which a pointer is compared."""
    return Pointer(None) if isinstance(other, Elements | Pointer) and value == ZERO else value


def is_expression(value: "Value | None") -> bool:
    return isinstance(value, ast.Expression)


def is_target(value: "Value | None") -> bool:
    """True for variables and elements, and for a choice of two of one type: what can be assigned."""
    match value:
        case ast.Ternary():
            sides = (value.yes, value.no)
            one_type = value.yes.type == value.no.type
            return one_type and all(map(is_place, sides))
        case Struct(passing=True):
            return False
        case Bits():
            return all(map(is_target, value.numbers))
        case Struct():
            return all(
                isinstance(m, Elements | Pointer | PointerVariable) or is_target(m) for m in value.members.values()
            )
    return isinstance(value, ast.Name | ast.Index)


def holds_pointers(kind: Kind) -> bool:
    return isinstance(kind, StructType) and any(m.pointer or holds_pointers(m.type) for m in kind.members)


def is_place(value: "Value | None") -> bool:
    """True for a target that has a name: an object of C++, and no value of a call."""
    return is_target(value) and not any(getattr(e, "temporary", False) for e in (value, *leaves(value)))  # type: ignore[arg-type]


def as_temporary(value: Value, temporary: bool = True) -> Value:
    """The variables that hold the value of a call, which has no name; or those that a reference names after all."""
    match value:
        case ast.Name():
            return replace(value, temporary=temporary)
        case Struct():
            members = {name: as_temporary(m, temporary) for name, m in value.members.items()}
            return replace(value, members=members)
    return value


def leaves(value: Value) -> Iterator[Expr]:
    """The numbers of a value."""
    if isinstance(value, Bits):
        yield from value.numbers
    elif isinstance(value, Struct):
        for member in value.members.values():
            yield from leaves(member)
    elif isinstance(value, Braces):
        for part in value.values:
            yield from leaves(part)
    elif isinstance(value, Pointer | PointerVariable):
        yield value.offset
    elif not isinstance(value, Elements):
        yield value


def alike(some: tuple, others: tuple) -> bool:
    """True for equal arguments of a template."""
    return len(some) == len(others) and all(
        a is b or a == b or (is_expression(a) and is_expression(b) and constant(a) == constant(b) is not None)
        for a, b in zip(some, others, strict=True)
    )


def has_floats(kind: Kind) -> bool:
    return is_float(kind) if isinstance(kind, str) else any(has_floats(m.type) for m in kind.members)


def name_of(value: Value) -> str:
    """The base of a name for what a variable or a pointer has been."""
    if isinstance(value, Pointer):
        return value.moves.name if value.moves else "pointer"
    return value.name.replace(".", "_") if isinstance(value, ast.Name) else "value"
