"""The derivative of each operation: the gradient of a value handed on to the operands of the expression."""

from minigrad.adjoint.activity import flows
from minigrad.adjoint.build import ZERO, is_number, literal, negative, opposite, over, test, times
from minigrad.adjoint.derivatives import derivative, slopes
from minigrad.adjoint.expr import Binary, Call, Cast, Expr, Index, Name, Number, Ternary, Unary
from minigrad.adjoint.keeping import Keeping
from minigrad.adjoint.module import Module
from minigrad.adjoint.structure import branch
from minigrad.adjoint.tree import Assign, Declare, Do, Function, Stmt
from minigrad.adjoint.types import DERIVATIVES, plain


class Rules(Keeping):
    """Hands a gradient down an expression, to the gradients of the variables and elements in it."""

    def __init__(self, module: Module, function: Function, active: set[str]):
        super().__init__(module, function, active)
        self.passed: Name | Index | None = None  # an operand whose share is taken care of
        self.gradients: dict[str, str] = {}  # of a variable: the name of its gradient

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

    def arrive(self, leaf: Name | Index, seed: Expr) -> list[Stmt]:
        """d_leaf += seed"""
        if leaf == self.passed:
            return []
        minus = isinstance(seed, Unary) and seed.op == "-"
        value = seed.operand if isinstance(seed, Unary) and minus else seed
        owned = isinstance(self.here, Assign) and leaf == self.here.target
        return [Assign(self.shadow(leaf), "-=" if minus else "+=", value, owned=owned)]

    def shadow(self, target: Name | Index) -> Name | Index:
        """The gradient of a variable or element."""
        if isinstance(target, Name):
            return Name(self.gradient(target.name), target.type)
        return Index(self.gradient(target.array), tuple(map(self.keep, target.indices)), target.type)

    def gradient(self, name: str) -> str:
        """The name of a variable's gradient."""
        if name not in self.gradients:
            self.gradients[name] = self.fresh(f"d_{name}")
        return self.gradients[name]

    def call(self, e: Call, seed: Expr) -> list[Stmt]:
        """f(x): `f_adjoint(x, seed, d_x)` adds to d_x."""
        function = self.module.functions[e.function]
        before, behind, sinks = [], [], []
        for n, (p, a) in enumerate(zip(function.params, e.arguments, strict=True)):
            if n in e.flat:
                continue
            if p.pointer:
                sinks.append(Name(self.gradient(a.name), p.type))  # type: ignore[union-attr]
            elif isinstance(a, Name) and self.carries(a):
                sinks.append(Name(self.gradient(a.name), p.type))
            else:
                name = Name(self.fresh(f"d_{p.name}_part"), p.type)
                before.append(Declare(name.name, p.type, value=ZERO))
                behind += self.pull(a, name)
                sinks.append(name)
        arrays = self.overwritten(e)
        own = [a if p.pointer else self.keep(a) for p, a in zip(function.params, e.arguments, strict=True)]
        stale = {p.name: a.names for p, a in zip(function.params, e.arguments, strict=True) if a.names & arrays}
        writes = tuple(n.name for n in sinks)
        return [*before, Do(f"{e.function}_adjoint", (*own, seed, *sinks), writes, stale=stale), *behind]

    def choice(self, e: Ternary, seed: Expr) -> list[Stmt]:
        """The gradient of `condition ? yes : no`."""
        condition, sides = self.keep(e.condition), []
        for guard, value in ((e.condition, e.yes), (opposite(e.condition), e.no)):
            self.guards.append(guard)
            sides.append(self.pull(value, seed))
            self.guards.pop()
        then, orelse = sides
        return branch(condition, then, orelse)

    def binary(self, e: Binary, seed: Expr) -> list[Stmt]:
        """Sum, difference, product, quotient."""
        both = self.carries(e.left) and self.carries(e.right) and not equal_factors(e)
        before, seed = self.once(seed) if both else ([], seed)
        if e.op in "+-":
            return [*before, *self.pull(e.left, seed), *self.pull(e.right, seed if e.op == "+" else negative(seed))]
        left, right = self.keep(e.left), self.keep(e.right)
        if n := equal_factors(e):  # x * x * x: d_x += 3 * d * (x * x), by one statement
            return self.pull(e.right, times(times(literal(n), seed), left))
        if e.op == "*":
            return [*before, *self.pull(e.left, times(seed, right)), *self.pull(e.right, times(left, seed))]
        if both:  # of a / b, d_b = -d_a * (a / b): a division that the forward sweep has made already
            value, part = self.keep(e), Name(self.fresh("d_part"), seed.type)
            before = [*before, Declare(part.name, part.type, value=over(seed, right))]
            return [*before, *self.pull(e.left, part), *self.pull(e.right, negative(times(part, value)))]
        quotient = over(negative(times(seed, left)), times(right, right))
        return [*before, *self.pull(e.left, over(seed, right)), *self.pull(e.right, quotient)]

    def once(self, seed: Expr) -> tuple[list[Stmt], Expr]:
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
            return branch(test(">=" if "max" in name else "<=", x, y), self.pull(a, seed), self.pull(b, seed))
        before, seed = self.once(seed) if self.carries(a) and self.carries(b) else ([], seed)
        parts = [(operand, times(seed, slope)) for operand, slope in slopes(e, x, y, lambda: self.keep(e))]
        return [*before, *(s for operand, part in parts for s in self.pull(operand, part))]


def equal_factors(e: Expr) -> int:
    """How many factors a product has, if they are equal; 0 if they are not."""
    if not isinstance(e, Binary) or e.op != "*":
        return 0
    if e.left == e.right:
        return 2
    inner = equal_factors(e.left)
    return inner + 1 if inner and isinstance(e.left, Binary) and e.left.right == e.right else 0


def _works(seed: Expr) -> bool:
    """Whether an expression is more than a variable, its negative, or a literal."""
    return not isinstance(seed.operand if isinstance(seed, Unary) else seed, Name | Number)
