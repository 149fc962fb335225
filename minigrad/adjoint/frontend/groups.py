"""Warps: shuffles, each a statement of its own; the groups of cooperative_groups in terms of these and of indices."""

from dataclasses import dataclass
from typing import Any

from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import Expr, common_type
from minigrad.adjoint.language.lexer import Token
from minigrad.adjoint.language.rewrite import ZERO, as_float
from minigrad.adjoint.language.values import VECTORS, Struct, Value

SHUFFLES = {"__shfl_sync": "idx", "__shfl_up_sync": "up", "__shfl_down_sync": "down", "__shfl_xor_sync": "xor"}
FULL = ast.Number("0xffffffffu", "unsigned")
BLOCK = {"group_index": "blockIdx", "thread_index": "threadIdx", "group_dim": "blockDim", "dim_threads": "blockDim"}
REDUCTIONS = {"plus": "+", "greater": "max", "less": "min"}
SCANS = ("inclusive_scan", "exclusive_scan")
UNKNOWN = ("coalesced_threads", "labeled_partition", "binary_partition")
NAMES = ("tiled_partition", "this_thread_block", "this_grid", "reduce", *REDUCTIONS, *SCANS, *UNKNOWN)


@dataclass(frozen=True, eq=False)
class Group:
    """The grid or a block of cooperative_groups, or a tile of a warp with so many threads."""

    size: int | None
    grid: bool = False
    type: str = "group"


def shuffle(parser: Any, function: str, arguments: list[Value], token: Token) -> Expr:
    """`v = __shfl_down_sync(mask, x, delta, width)` as a new variable: all lanes of the warp compute it together."""
    if len(arguments) not in (3, 4):
        raise parser.error(token.place, f"{function} takes 3 or 4 arguments; got {len(arguments)}.")
    mask, x, lane, *width = [parser.number(a, token.place) for a in arguments]
    x = x if isinstance(x, ast.Name) else parser.symbols.fresh("own", x.type, x, token.place)
    kind = common_type(x.type)
    call = ast.Call(function, (mask, x, lane, *width), kind, token.place)
    return parser.symbols.fresh(f"{x.name.removesuffix('_own')}_{SHUFFLES[function]}", kind, call, token.place)


def linear(parser: Any) -> Expr:
    """The number of the thread in its block; threadIdx.x in a file that uses no other axis."""
    return _number(parser, "threadIdx", "blockDim")


def _number(parser: Any, place: str, extent: str) -> Expr:
    """The number of a thread in its block, or of a block in the grid."""
    x, y, z = (ast.Name(f"{place}.{a}", "int") for a in "xyz")
    if is_flat(parser, place):
        return x
    across, down = ast.Name(f"{extent}.x", "int"), ast.Name(f"{extent}.y", "int")
    row = ast.Binary("+", ast.Binary("*", z, down, "int"), y, "int")
    return ast.Binary("+", ast.Binary("*", row, across, "int"), x, "int")


def is_flat(parser: Any, place: str) -> bool:
    """True in a file that uses no other axis than x."""
    found, whole = parser.tokens.tokens, {word for word, of in BLOCK.items() if of == place}
    return not any(
        a.text in whole or (a.text == place and b.text == "." and c.text in "yz")
        for a, b, c in zip(found, found[1:], found[2:], strict=False)
    )


def threads(parser: Any, grid: bool = False) -> Expr:
    """The number of threads of a block, or of the grid."""
    sizes = [ast.Name(f"blockDim.{a}", "int") for a in ("x" if is_flat(parser, "threadIdx") else "xyz")]
    if grid:
        sizes += [ast.Name(f"gridDim.{a}", "int") for a in ("x" if is_flat(parser, "blockIdx") else "xyz")]
    made: Expr = sizes[0]
    for e in sizes[1:]:
        made = ast.Binary("*", made, e, "int")
    return made


def number(value: int) -> Expr:
    return ast.Number(str(value), "int")


def method(parser: Any, group: Group, name: str, arguments: list[Value], token: Token) -> Value:
    """`tile.thread_rank()`, `tile.shfl_down(v, 1)`, `block.sync()`."""
    rank, size = linear(parser), number(group.size) if group.size else threads(parser, group.grid)
    if group.grid:
        block = ast.Binary("*", _number(parser, "blockIdx", "gridDim"), threads(parser), "int")
        rank = ast.Binary("+", block, rank, "int")
    if name == "sync" and not group.grid:
        parser.symbols.pending.append(ast.Barrier(token.place))
        return number(0)
    if name in ("thread_rank", "size", "num_threads"):
        within = ast.Binary("%", rank, size, "int") if group.size else rank
        return within if name == "thread_rank" else size
    if name in BLOCK and group.size is None and not group.grid:
        return Struct(VECTORS["dim3"], {a: ast.Name(f"{BLOCK[name]}.{a}", "int") for a in "xyz"})
    if name == "meta_group_rank" and group.size:
        return ast.Binary("/", rank, size, "int")
    if name == "meta_group_size" and group.size:
        more = ast.Binary("+", threads(parser), number(group.size - 1), "int")
        return ast.Binary("/", more, size, "int")
    if name in ("shfl", "shfl_up", "shfl_down", "shfl_xor") and group.size:
        width = [] if group.size == 32 else [size]
        return shuffle(parser, f"__{name}_sync", [FULL, *arguments, *width], token)
    raise parser.error(token.place, f"{name} of a group of threads is outside the subset; use shuffles.")


def collective(parser: Any, arguments: list[Value], token: Token) -> Value:
    """`cg::reduce(tile, v, cg::plus<float>())` and scans, over all distances between the lanes of a tile."""
    scans = token.text in SCANS
    group, value, operator = (*arguments, *[None] * 3)[:3]
    op = "+" if scans and len(arguments) == 2 else getattr(operator, "operator", None)
    if not isinstance(group, Group) or not group.size or op is None or value is None or len(arguments) > 3:
        raise parser.error(token.place, f"{token.text} takes a tile, a number, and plus, greater or less.")
    total, distances = parser.number(value, token.place), [1 << n for n in range(group.size.bit_length() - 1)]
    rank = ast.Binary("%", linear(parser), number(group.size), "int")
    width = [] if group.size == 32 else [number(group.size)]
    for distance in distances if scans else reversed(distances):
        own = total if isinstance(total, ast.Name) else parser.symbols.fresh("own", total.type, total, token.place)
        way = "__shfl_up_sync" if scans else "__shfl_xor_sync"
        other = shuffle(parser, way, [FULL, own, number(distance), *width], token)
        total = (
            ast.Binary("+", own, other, own.type) if op == "+"
            else ast.Call(op, (own, other), own.type, token.place)
        )  # fmt: skip
        if scans:  # the lanes whose prefix is complete keep it
            total = ast.Ternary(ast.Binary(">=", rank, number(distance), "bool"), total, own, total.type)
    if token.text == "exclusive_scan":
        before = shuffle(parser, "__shfl_up_sync", [FULL, total, number(1), *width], token)
        total = ast.Ternary(ast.Binary("==", rank, ZERO, "bool"), as_float(ZERO, total.type), before, total.type)
    return parser.symbols.fresh(f"{token.text.partition('_')[0]}_value", total.type, total, token.place)


@dataclass(frozen=True, eq=False)
class Operator:
    """`cg::plus<float>()`."""

    operator: str
    type: str = "operator"
