"""The derivative of each operation: the gradient of a value handed on to the operands of the expression."""

from minigrad.adjoint.activity import flows
from minigrad.adjoint.build import ONE, ZERO, converted, is_number, minus, negative, number_of, over, plus, test, times
from minigrad.adjoint.derivatives import derivative
from minigrad.adjoint.effects import opposite
from minigrad.adjoint.tree import (
    Binary,
    Call,
    Cast,
    Declare,
    Expr,
    If,
    Index,
    Name,
    Number,
    Stmt,
    Ternary,
    Unary,
)
from minigrad.adjoint.types import DERIVATIVES, plain


class Rules:
    """Hands a gradient down an expression. A subclass says what is active and how a value is had again."""

    active: set[str]

    def keep(self, e: Expr) -> Expr:
        """The value that `e` had in the forward pass, as an expression that gives it now."""
        raise NotImplementedError

    def arrive(self, leaf: Name | Index, seed: Expr) -> list[Stmt]:
        """The statements that add `seed` to the gradient of a variable or element."""
        raise NotImplementedError

    def fresh(self, base: str) -> str:
        """A name that is not in use."""
        raise NotImplementedError

    def choice(self, e: Ternary, seed: Expr) -> list[Stmt]:
        """The statements for `condition ? yes : no`."""
        raise NotImplementedError

    def call(self, e: Call, seed: Expr) -> list[Stmt]:
        """The statements for a call of a device function."""
        raise NotImplementedError

    def carries(self, e: Expr) -> bool:
        """Whether the derivative of an expression can be other than zero."""
        return bool(flows(e) & self.active)

    def pull(self, e: Expr, seed: Expr) -> list[Stmt]:
        """Add `seed` times the derivative of `e` to the gradient of each operand."""
        if not self.carries(e) or is_number(seed, 0):
            return []
        match e:
            case Name() | Index():
                return self.arrive(e, seed)
            case Unary():
                return self.pull(e.operand, negative(seed))
            case Cast():
                return self.pull(e.operand, seed)
            case Ternary():
                return self.choice(e, seed)
            case Binary():
                return self.binary(e, seed)
            case Call():
                return self.function(e, seed)
        return []

    def branch(self, condition: Expr, then: list[Stmt], orelse: list[Stmt]) -> list[Stmt]:
        """The gradient goes the way that the value came."""
        if then:
            return [If(condition, then, orelse)]
        return [If(opposite(condition), orelse, [])] if orelse else []

    def binary(self, e: Binary, seed: Expr) -> list[Stmt]:
        """Sum, difference, product, quotient."""
        both = self.carries(e.left) and self.carries(e.right)
        before, seed = self.shared(seed) if both or self.forks(e) else ([], seed)
        if e.op in "+-":
            return [*before, *self.pull(e.left, seed), *self.pull(e.right, seed if e.op == "+" else negative(seed))]
        left, right = self.keep(e.left), self.keep(e.right)
        if e.op == "*":
            return [*before, *self.pull(e.left, times(seed, right)), *self.pull(e.right, times(left, seed))]
        value = self.keep(e)
        if both and isinstance(value, Name):  # a / b = value: one division, as d_b = -d_a * value
            part = Name(self.fresh("d_part"), seed.type)
            before = [*before, Declare(part.name, part.type, value=over(seed, right))]
            return [*before, *self.pull(e.left, part), *self.pull(e.right, negative(times(part, value)))]
        quotient = over(negative(times(seed, left)), times(right, right))
        return [*before, *self.pull(e.left, over(seed, right)), *self.pull(e.right, quotient)]

    def forks(self, e: Expr) -> bool:
        """Whether the gradient goes on to more than one place below."""
        return False

    def shared(self, seed: Expr) -> tuple[list[Stmt], Expr]:
        """A gradient that is used twice, in a variable of its own where it takes work to compute."""
        if not _works(seed):
            return [], seed
        name = self.fresh("d_part")
        return [Declare(name, seed.type, value=seed)], Name(name, seed.type)

    def function(self, e: Call, seed: Expr) -> list[Stmt]:
        """A maths function, or a function of the file."""
        name, args = plain(e.function), e.arguments
        if not name:
            return self.call(e, seed)
        if name in DERIVATIVES:
            before, y = self.valued(name, self.keep(e))
            return [*before, *self.pull(args[0], times(seed, derivative(e.function, self.keep(args[0]), y)))]
        return self.several(name, e, seed)

    def valued(self, name: str, y: Expr) -> tuple[list[Stmt], Expr]:
        """The value of a function, in a variable where its derivative is made of it twice."""
        if DERIVATIVES[name].count("y") < 2 or isinstance(y, Name):
            return [], y
        value = self.fresh(f"{name}_value")
        return [Declare(value, y.type, value=y)], Name(value, y.type)

    def several(self, name: str, e: Call, seed: Expr) -> list[Stmt]:
        """Functions of two or three operands."""
        a, b = e.arguments[:2]
        x, y = self.keep(a), self.keep(b)
        if name in ("max", "fmax", "min", "fmin"):  # of two equal operands the first one
            return self.branch(test(">=" if "max" in name else "<=", x, y), self.pull(a, seed), self.pull(b, seed))
        before, seed = self.shared(seed) if self.carries(a) and self.carries(b) else ([], seed)
        parts = [(operand, times(seed, slope)) for operand, slope in self.slopes(name, e, x, y)]
        return [*before, *(s for operand, part in parts for s in self.pull(operand, part))]

    def slopes(self, name: str, e: Call, x: Expr, y: Expr) -> list[tuple[Expr, Expr]]:
        """Each operand with the derivative in it. Where a limit is missing it is 0, as sqrt has it at 0."""
        a, b = e.arguments[:2]
        match name:
            case "fma":
                return [(a, y), (b, x), (e.arguments[2], ONE)]
            case "pow":  # x^0 is 1 for all x, and 0^y is 0 for all y > 0
                in_base = times(y, Call(e.function, (x, minus(y, ONE)), e.type))
                in_exponent = times(self.keep(e), _call("log", e, x))
                flat = Binary("&&", test("==", x, ZERO), test(">=", y, ZERO), "bool")
                return [(a, _unless(test("==", y, ZERO), in_base)), (b, _unless(flat, in_exponent))]
            case "hypot":
                length = self.keep(e)
                return [(v, _unless(test("==", length, ZERO), over(w, length))) for v, w in ((a, x), (b, y))]
            case "atan2":
                x, y = converted(x, e.type), converted(y, e.type)
                square = plus(times(x, x), times(y, y))
                origin = test("==", square, ZERO)
                return [(a, _unless(origin, over(y, square))), (b, _unless(origin, negative(over(x, square))))]
            case "fmod":
                return [(a, ONE), (b, negative(_call("trunc", e, over(x, y))))]
            case "copysign":
                return [(a, _unless(test("==", x, ZERO), over(self.keep(e), x)))]
        raise TypeError(name)


def _unless(condition: Expr, value: Expr) -> Expr:
    """0 where the condition holds, else the value. Of literals the answer is known."""
    assert isinstance(condition, Binary)
    known = [number_of(e) for e in (condition.left, condition.right)]
    if condition.op == "==" and None not in known:
        return ZERO if known[0] == known[1] else value
    return Ternary(condition, ZERO, value, value.type)


def _works(seed: Expr) -> bool:
    """Whether an expression is more than a variable, its negative, or a literal."""
    return not isinstance(seed.operand if isinstance(seed, Unary) else seed, Name | Number)


def _call(function: str, like: Call, x: Expr) -> Call:
    """The function, with the f of a sister function."""
    return Call(function + ("f" if plain(like.function) != like.function else ""), (x,), like.type)
