"""Types of expressions, and the functions that have a derivative or need none."""

from minigrad.adjoint.expr import FLOATS, RANKS

TYPES = {
    "int": "int", "unsigned": "unsigned", "unsigned int": "unsigned", "bool": "bool", "float": "float",
    "double": "double", "real": "real", "long long": "long long", "size_t": "size_t",
}  # fmt: skip
BYTES = {"real": 4, "float": 4, "double": 8, "int": 4, "unsigned": 4, "bool": 1, "long long": 8, "size_t": 8}
UNSIGNED = ("unsigned", "size_t")
BUILTINS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
CONSTANTS = {"INFINITY": "float", "true": "bool", "false": "bool", "M_PI": "double"}

# Of one operand x, by the name without its f; y stands for the value of the function itself.
DERIVATIVES = {
    "exp": "y", "exp2": "y * 0.6931471805599453", "expm1": "y + 1", "log": "1 / x", "log2": "1.4426950408889634 / x",
    "log10": "0.4342944819032518 / x", "log1p": "1 / (1 + x)", "sin": "cos(x)", "cos": "-sin(x)",
    "tan": "1 + y * y", "asin": "rsqrt(1 - x * x)", "acos": "-rsqrt(1 - x * x)", "atan": "1 / (1 + x * x)",
    "sinh": "cosh(x)", "cosh": "sinh(x)", "tanh": "1 - y * y", "sqrt": "x > 0 ? 0.5 / y : 0",
    "cbrt": "x == 0 ? 0 : y / (3 * x)", "rsqrt": "y * y * y * -0.5", "erf": "1.1283791670955126 * exp(-x * x)",
    "erfc": "-1.1283791670955126 * exp(-x * x)", "fabs": "x < 0 ? -1 : 1", "abs": "x < 0 ? -1 : 1",
    "floor": "", "ceil": "", "round": "", "trunc": "", "rint": "",
}  # fmt: skip
BINARY = ("max", "min", "fmax", "fmin", "pow", "atan2", "hypot", "fmod", "copysign")
TERNARY = ("fma",)
TESTS = ("isnan", "isinf", "isfinite")


def plain(function: str) -> str:
    """`expf` -> `exp`: the name by which the rules know a function; empty for a name that none knows."""
    known = (*DERIVATIVES, *BINARY, *TERNARY, *TESTS)
    if function in known:
        return function
    return function[:-1] if function.endswith("f") and function[:-1] in known else ""


def operands(function: str) -> int:
    """How many operands a maths function takes."""
    return 2 if plain(function) in BINARY else 3 if plain(function) in TERNARY else 1


def result(function: str, types: list[str]) -> str:
    """The type that a maths function returns."""
    if plain(function) in TESTS:
        return "bool"
    if plain(function) != function:
        return "float"
    if plain(function) in ("max", "min", "abs"):
        return common(*types)
    return common(*types) if any(t in FLOATS for t in types) else "double"


def common(*types: str) -> str:
    """The type in which C++ computes with operands of these types; `real` counts as at least float."""
    return max((*types, "int"), key=RANKS.index)


def floating(kind: str) -> bool:
    """Whether values of this type have derivatives."""
    return kind in FLOATS
