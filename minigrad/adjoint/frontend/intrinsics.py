"""Functions of CUDA's headers in terms of functions that have derivatives; shuffles, and groups in terms of these."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from minigrad.adjoint.frontend.structs import integer
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import HALVES, PAIRS, Expr, common_type, result_type
from minigrad.adjoint.language.lexer import Token
from minigrad.adjoint.language.rewrite import ZERO, as_float, negative, typed
from minigrad.adjoint.language.values import VECTORS, Struct, Value

Make = Callable[[Any, list[Value], Token], Value]
# Calls that compute nothing.
LEFT_OUT = ("printf", "assert", "__threadfence", "__threadfence_block", "__threadfence_system", "__builtin_assume",
            "__nanosleep", "static_assert", "__trap", "__builtin_unreachable")  # fmt: skip


def _given(parser: Any, arguments: list[Value], token: Token, count: int) -> list[Value]:
    if len(arguments) != count:
        why = f"{token.text} takes {count} argument{'s' * (count != 1)}; got {len(arguments)}."
        raise parser.error(token.place, why)
    return arguments


def _numbers(parser: Any, arguments: list[Value], token: Token, count: int) -> list[Expr]:
    return [parser.number(a, token.place) for a in _given(parser, arguments, token, count)]


def _function(name: str, count: int = 1) -> Make:
    def make(parser: Any, arguments: list[Value], token: Token) -> Expr:
        numbers = tuple(_numbers(parser, arguments, token, count))
        return ast.Call(name, numbers, result_type(name, [e.type for e in numbers]), token.place)

    return make


def _operator(op: str) -> Make:
    def make(parser: Any, arguments: list[Value], token: Token) -> Expr:
        a, b = _numbers(parser, arguments, token, 2)
        return ast.Binary(op, a, b, common_type(a.type, b.type))

    return make


def _rounded(function: str, kind: str) -> Make:
    """The conversion of a number, rounded first."""

    def make(parser: Any, arguments: list[Value], token: Token) -> Expr:
        (x,) = _numbers(parser, arguments, token, 1)
        return ast.Cast(kind, ast.Call(function, (x,), x.type, token.place) if function else x)

    return make


def _reciprocal(parser: Any, arguments: list[Value], token: Token) -> Expr:
    (x,) = _numbers(parser, arguments, token, 1)
    one = ast.Number("1.0f", "float") if x.type == "float" else ast.Number("1.0", "double")
    return ast.Binary("/", one, x, x.type)


def _saturate(parser: Any, arguments: list[Value], token: Token) -> Expr:
    (x,) = _numbers(parser, arguments, token, 1)
    low = ast.Call("fmaxf", (x, ast.Number("0.0f", "float")), "float", token.place)
    return ast.Call("fminf", (low, ast.Number("1.0f", "float")), "float", token.place)


def _sincos(suffix: str, of: str = "") -> Make:
    def make(parser: Any, arguments: list[Value], token: Token) -> Expr:
        angle, *places = _given(parser, arguments, token, 3)
        x = parser.simple(parser.number(angle, token.place), "angle", token.place)
        for name, at in zip((f"sin{of}", f"cos{of}"), places, strict=True):
            value = ast.Call(name + suffix, (x,), result_type(name + suffix, [x.type]), token.place)
            target = parser.element(parser.pointer(at, token.place), ZERO, token.place)
            parser.assign(target, token._replace(text="="), value, token.place)
        return ZERO

    return make


def _normal(parser: Any, arguments: list[Value], token: Token) -> Expr:
    """The normal distribution function, erfc(-x / sqrt(2)) / 2."""
    (x,) = _numbers(parser, arguments, token, 1)
    f = "f" if token.text.endswith("f") else ""
    kind = "float" if f else "double"
    scaled = ast.Binary("*", ast.Unary("-", x, x.type), ast.Number(f"0.7071067811865476{f}", kind), kind)
    return ast.Binary("*", ast.Number(f"0.5{f}", kind), ast.Call(f"erfc{f}", (scaled,), kind, token.place), kind)


def _norm(count: int) -> Make:
    """The length of a vector, its components given one by one."""

    def make(parser: Any, arguments: list[Value], token: Token) -> Expr:
        numbers = [parser.simple(e, "component", token.place) for e in _numbers(parser, arguments, token, count)]
        square: Expr | None = None
        for e in numbers:
            term = ast.Binary("*", e, e, e.type)
            square = term if square is None else ast.Binary("+", square, term, common_type(square.type, e.type))
        assert square is not None
        root = "rsqrt" if token.text.startswith("r") else "sqrt"
        return ast.Call(root + ("f" if square.type == "float" else ""), (square,), square.type, token.place)

    return make


def _store(parser: Any, arguments: list[Value], token: Token) -> Expr:
    """`__stcs(&y[i], v)`: a store with a hint for the cache."""
    at, value = _given(parser, arguments, token, 2)
    target = parser.element(parser.pointer(at, token.place), ZERO, token.place)
    parser.assign(target, token._replace(text="="), value, token.place)
    return ZERO


def _load(parser: Any, arguments: list[Value], token: Token) -> Value:
    """`__ldg(&x[i])`: a load with a hint for the cache."""
    (at,) = _given(parser, arguments, token, 1)
    return parser.element(parser.pointer(at, token.place), ZERO, token.place)


def reads_clock(parser: Any) -> bool:
    """`asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));` as t = clock64(), a barrier for the compiler, `asm("" :::
    "memory")`, as nothing; no step at any other assembly.
    """
    tokens, start = parser.tokens, parser.tokens.at
    token = tokens.take()
    while tokens.next.text in ("volatile", "__volatile__"):
        tokens.take()
    text = tokens.text[tokens.peek().start : tokens.peek().stop]
    end = parser.tokens.matching(tokens.at) if tokens.next.text == "(" else tokens.at
    if text == '""' and all(each.kind == "string" or each.text in ":::" for each in tokens.tokens[tokens.at + 2 : end]):
        tokens.at = end + 1
        return bool(tokens.expect(";"))
    if not re.fullmatch(r'"\s*mov\.[us]\d+\s+%0,\s*%%?(clock|clock64|clock_hi|globaltimer\w*)\s*;\s*"', text):
        tokens.at = start
        return False
    tokens.at += 2
    for text in (":", tokens.peek().text, "("):
        tokens.expect(text)
    target = parser.full()
    for text in (")", ")", ";"):
        tokens.expect(text)
    parser.assign(target, token._replace(text="="), ast.Name("clock64()", "long long"), token.place)
    return True


def _clock(parser: Any, arguments: list[Value], token: Token) -> Expr:
    _numbers(parser, arguments, token, 0)
    return ast.Name(f"{token.text}()", "long long", token.place)


def is_packed(*values: Value) -> bool:
    """True for pairs of halves of one type."""
    kinds = {v.type.name if isinstance(v, Struct) else "" for v in values}
    return len(kinds) == 1 and kinds <= PAIRS.keys()


def _packed(parser: Any, value: Value, token: Token) -> Struct:
    if not isinstance(value, Struct) or not is_packed(value):
        raise parser.error(token.place, f"{token.text} takes pairs of halves; got {value.type}.")
    return value


def _half(of_floats: Make) -> Make:
    """A function of halves: that of floats, rounded."""

    def make(parser: Any, arguments: list[Value], token: Token) -> Expr:
        halves = [parser.number(a, token.place) for a in arguments]
        kind = next((e.type for e in halves if e.type in HALVES), "half")
        return ast.Cast(kind, of_floats(parser, [ast.Cast("float", e) for e in halves], token))  # type: ignore[arg-type]

    return make


def _half_operator(op: str) -> Make:
    def make(parser: Any, arguments: list[Value], token: Token) -> Expr:
        a, b = _numbers(parser, arguments, token, 2)
        return ast.Binary(op, a, b, "bool" if op in ast.PRECEDENCE and ast.PRECEDENCE[op] < 8 else a.type)

    return make


def _each(of_one: Make) -> Make:
    """A function of pairs of halves: that of halves, of both."""

    def make(parser: Any, arguments: list[Value], token: Token) -> Struct:
        pairs = [_packed(parser, a, token) for a in arguments]
        members = {axis: of_one(parser, [p.members[axis] for p in pairs], token) for axis in "xy"}
        return Struct(pairs[0].type, members)

    return make


def _pair(kind: str, spread: bool = False) -> Make:
    """A pair of these from two numbers, one number for both, or another pair."""

    def make(parser: Any, arguments: list[Value], token: Token) -> Struct:
        pair = [*a.members.values()] if len(arguments) == 1 and isinstance(a := arguments[0], Struct) else []
        given = pair if len(pair) == 2 else _given(parser, arguments, token, 2 - spread) * (1 + spread)
        member = VECTORS[kind].members[0].type
        values = [typed(parser.number(e, token.place), str(member)) for e in given]
        return Struct(VECTORS[kind], dict(zip("xy", values, strict=True)))

    return make


def _member(axis: str, kind: str = "") -> Make:
    def make(parser: Any, arguments: list[Value], token: Token) -> Expr:
        (value,) = _given(parser, arguments, token, 1)
        e = _packed(parser, value, token).members[axis]
        return typed(e, kind or e.type)  # type: ignore[arg-type]

    return make


HALF_FUNCTIONS: dict[str, Make] = {
    **{f"__h{name}": _half_operator(op) for name, op in (
        ("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"), ("gt", ">"), ("lt", "<"), ("ge", ">="), ("le", "<="),
        ("eq", "=="), ("ne", "!="))},
    **{f"__h{name}": _half(_function(of_floats, count)) for name, of_floats, count in (
        ("fma", "fmaf", 3), ("max", "fmaxf", 2), ("min", "fminf", 2), ("abs", "fabsf", 1))},
    "__hneg": lambda parser, arguments, token: negative(_numbers(parser, arguments, token, 1)[0]),
    **{f"h{name}": _half(_function(f"{name}f")) for name in (
        "exp", "exp2", "log", "log2", "log10", "sin", "cos", "tanh", "sqrt", "rsqrt", "floor", "ceil", "rint", "trunc"
    )},
    "hrcp": _half(_reciprocal),
}  # fmt: skip
INTRINSICS: dict[str, Make] = {
    **HALF_FUNCTIONS,
    **{f"{name}2": _each(make) for name, make in HALF_FUNCTIONS.items()},
    **{f"__{a}2{b}{mode}": _rounded("", kind)
       for a in ("float", "double", "int") for b, kind in (("half", "half"), ("bfloat16", "__nv_bfloat16"))
       for mode in ("", "_rn", "_rz")},
    "__half2float": _rounded("", "float"), "__bfloat162float": _rounded("", "float"),
    **{f"{name}{b}2{mode}": _pair(f"{c}2", spread) for b, c in (("half", "half"), ("bfloat16", "__nv_bfloat16"))
       for name, mode, spread in (("__floats2", "_rn", False), ("__float22", "_rn", False), ("__float2", "_rn", True),
                                  (f"__{b}2", "", True), ("__halves2", "", False))},
    "make_half2": _pair("half2"), "make_bfloat162": _pair("__nv_bfloat162"),
    "__half22float2": _pair("float2"), "__bfloat1622float2": _pair("float2"),
    "__low2float": _member("x", "float"), "__high2float": _member("y", "float"),
    **dict.fromkeys(("__low2half", "__low2bfloat16"), _member("x")),
    **dict.fromkeys(("__high2half", "__high2bfloat16"), _member("y")),
    **{f"__{name}f": _function(f"{name}f") for name in ("exp", "log", "sin", "cos", "tan", "log2", "log10", "exp10")},
    "__builtin_expect": lambda parser, arguments, token: parser.truth(
        _given(parser, arguments, token, 2)[0], token.place),
    "__powf": _function("powf", 2), "__frsqrt_rn": _function("rsqrtf"),
    **{f"__{name}_{mode}": make for mode in ("rn", "rz", "ru", "rd") for name, make in (
        ("fsqrt", _function("sqrtf")), ("dsqrt", _function("sqrt")), ("fmaf", _function("fmaf", 3)),
        ("fma", _function("fma", 3)), ("fdiv", _operator("/")), ("ddiv", _operator("/")), ("frcp", _reciprocal),
        ("drcp", _reciprocal))},
    "__fdividef": _operator("/"), "fdividef": _operator("/"), "fdivide": _operator("/"),
    "__saturatef": _saturate, "norm3df": _norm(3),
    "norm3d": _norm(3), "norm4df": _norm(4), "norm4d": _norm(4), "rnorm3df": _norm(3), "rnorm3d": _norm(3),
    **{f"__{kind}{name}_{mode}": _operator(op)
       for kind in "fd" for name, op in (("mul", "*"), ("add", "+"), ("sub", "-"))
       for mode in ("rn", "rz", "ru", "rd")},
    "__mul24": _operator("*"), "__umul24": _operator("*"), "mul24": _operator("*"),
    "sincospi": _sincos("", "pi"), "sincospif": _sincos("f", "pi"),
    "sincos": _sincos(""), "sincosf": _sincos("f"), "__sincosf": _sincos("f"),
    **dict.fromkeys(("__stcs", "__stcg", "__stwb", "__stwt"), _store),
    **dict.fromkeys(("__ldg", "__ldcs", "__ldcg", "__ldca", "__ldcv", "__ldlu"), _load),
    "move": lambda parser, arguments, token: _given(parser, arguments, token, 1)[0],  # and read no more
    "clock": _clock, "clock64": _clock, "normcdf": _normal, "normcdff": _normal,
    **{f"__{a}2{b}_{mode}": _rounded(round_, kind)
       for a in ("float", "double") for b, kind in (("int", "int"), ("uint", "unsigned"), ("ll", "long long"))
       for mode, round_ in (("rn", "rint"), ("rz", "trunc"), ("rd", "floor"), ("ru", "ceil"))},
    **{f"__{a}2{b}_{mode}": _rounded("", b)
       for a in ("int", "uint", "ll") for b in ("float", "double") for mode in ("rn", "rz", "rd", "ru")},
    "__int2double_rn": _rounded("", "double"), "__double2float_rn": _rounded("", "float"),
    **{f"{kind}{name}{end}": _rounded(name, "long long") for kind in ("l", "ll") for name in ("rint", "round")
       for end in ("", "f")},
}  # fmt: skip


# --- warps: shuffles, each a statement of its own; the groups of cooperative_groups ---

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
    x = x if isinstance(x, ast.Name) else parser.symbols.fresh("own", parser.symbols.type_of(x), x, token.place)
    kind = common_type(parser.symbols.type_of(x))
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
    found, named = parser.tokens.tokens, parser.tokens.named
    across = any(found[n + 1].text == "." and found[n + 2].text in "yz" for n in named.get(place, ()))
    return not across and named.keys().isdisjoint(word for word, of in BLOCK.items() if of == place)


def threads(parser: Any, grid: bool = False) -> Expr:
    """The number of threads of a block, or of the grid."""
    sizes: list[Expr] = [ast.Name(f"blockDim.{a}", "int") for a in ("x" if is_flat(parser, "threadIdx") else "xyz")]
    if grid:
        sizes += [ast.Name(f"gridDim.{a}", "int") for a in ("x" if is_flat(parser, "blockIdx") else "xyz")]
    return reduce(lambda a, b: ast.Binary("*", a, b, "int"), sizes)


def method(parser: Any, group: Group, name: str, arguments: list[Value], token: Token) -> Value:
    """`tile.thread_rank()`, `tile.shfl_down(v, 1)`, `block.sync()`."""
    rank, size = linear(parser), integer(group.size) if group.size else threads(parser, group.grid)
    if group.grid:
        block = ast.Binary("*", _number(parser, "blockIdx", "gridDim"), threads(parser), "int")
        rank = ast.Binary("+", block, rank, "int")
    if name == "sync" and not group.grid:
        parser.symbols.pending.append(ast.Barrier(token.place, warp=group.size is not None))
        return ZERO
    if name in ("thread_rank", "size", "num_threads"):
        within = ast.Binary("%", rank, size, "int") if group.size else rank
        return within if name == "thread_rank" else size
    if name in BLOCK and group.size is None and not group.grid:
        return Struct(VECTORS["dim3"], {a: ast.Name(f"{BLOCK[name]}.{a}", "int") for a in "xyz"})
    if name == "meta_group_rank" and group.size:
        return ast.Binary("/", rank, size, "int")
    if name == "meta_group_size" and group.size:
        more = ast.Binary("+", threads(parser), integer(group.size - 1), "int")
        return ast.Binary("/", more, size, "int")
    if name in ("shfl", "shfl_up", "shfl_down", "shfl_xor") and group.size:
        width = [] if group.size == 32 else [size]
        return shuffle(parser, f"__{name}_sync", [FULL, *arguments, *width], token)
    way = "launch what stands ahead of it and behind it as two kernels" if group.grid else "use shuffles"
    raise parser.error(token.place, f"{name} of a group of threads is outside the subset; {way}.")


def collective(parser: Any, arguments: list[Value], token: Token) -> Value:
    """`cg::reduce(tile, v, cg::plus<float>())` and scans, over all distances between the lanes of a tile."""
    scans = token.text in SCANS
    group, value, operator = (*arguments, *[None] * 3)[:3]
    op = "+" if scans and len(arguments) == 2 else getattr(operator, "operator", None)
    size = group.size if isinstance(group, Group) else None
    if not size or op is None or (scans and not op) or len(arguments) not in (2, 3):
        others = ("u = tile.shfl_up(v, d); if (tile.thread_rank() >= d) v = f(u, v); for d = 1, 2, 4 and so on"
                  if scans else "v = f(v, tile.shfl_xor(v, d)) for d = 1, 2, 4 and so on")  # fmt: skip
        operators = "plus, greater or less" if scans else "plus, greater, less or a lambda"
        raise parser.error(token.place, f"{token.text} takes a tile, a number, and {operators}; "
                           f"write another operator as shuffles: {others}.")  # fmt: skip
    total, distances = parser.number(value, token.place), [1 << n for n in range(size.bit_length() - 1)]
    rank, width = ast.Binary("%", linear(parser), integer(size), "int"), [] if size == 32 else [integer(size)]
    for distance in distances if scans else reversed(distances):
        own = total if isinstance(total, ast.Name) else parser.symbols.fresh("own", total.type, total, token.place)
        way = "__shfl_up_sync" if scans else "__shfl_xor_sync"
        other = shuffle(parser, way, [FULL, own, integer(distance), *width], token)
        total = (
            parser.number(parser.called_value(operator, [own, other], token), token.place) if not op
            else ast.Binary("+", own, other, own.type) if op == "+"
            else ast.Call(op, (own, other), own.type, token.place)
        )  # fmt: skip
        if scans:  # the lanes whose prefix is complete keep it
            total = ast.Ternary(ast.Binary(">=", rank, integer(distance), "bool"), total, own, total.type)
    if token.text == "exclusive_scan":
        before = shuffle(parser, "__shfl_up_sync", [FULL, total, integer(1), *width], token)
        total = ast.Ternary(ast.Binary("==", rank, ZERO, "bool"), as_float(ZERO, total.type), before, total.type)
    return parser.symbols.fresh(f"{token.text.partition('_')[0]}_value", total.type, total, token.place)


@dataclass(frozen=True, eq=False)
class Operator:
    """`cg::plus<float>()`."""

    operator: str
    type: str = "operator"
