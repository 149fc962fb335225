"""The chain rule: the gradient of a value is passed on to the operands of the expression that computes it.

Derivatives of maths functions follow: of one operand by a table of formulas, of several operands case by case.
"""

from collections.abc import Callable, Container
from functools import cache

from minigrad.adjoint.analyse import KernelFacts, Names
from minigrad.adjoint.differentiate.saved import Saved, short_name
from minigrad.adjoint.frontend.expressions import parse_expression
from minigrad.adjoint.frontend.intrinsics import SHUFFLES
from minigrad.adjoint.language import ast, rewrite
from minigrad.adjoint.language.ast import DERIVATIVES, HALVES, Expr, Stmt, Target, base_name, gradient_type, is_float
from minigrad.adjoint.language.control_flow import branch
from minigrad.adjoint.language.dataflow import derivative_sources, names_in, own_writes, target_name
from minigrad.adjoint.language.rewrite import ONE, ZERO, comparison, minus, negative, over, plus, times


class Gradients(dict[str, str]):
    """The names of gradients by variable or array, each chosen when it is first asked for."""

    def __init__(self, names: Names):
        super().__init__()
        self.names = names

    def __missing__(self, name: str) -> str:
        array, bracket, member = name.partition("[")
        if bracket and array not in self:  # of an array of structs, whose members share it
            self[array] = self.names.fresh(f"d_{array}")
        self[name] = f"{self[array]}[{member}" if bracket else self.names.fresh(f"d_{name}")
        return self[name]


class Rules:
    """Applies the chain rule: to expressions (`pull`) and to statements that assign (`adjoint`)."""

    def __init__(self, facts: KernelFacts, saved: Saved, gradients: Gradients):
        self.facts, self.saved, self.gradients = facts, saved, gradients
        self.fresh = facts.names.fresh
        self.updated: Target | None = None  # the target of `t = a * t + b`, whose gradient is scaled instead

    def keep(self, e: Expr) -> Expr:
        """The value of an expression in the backward sweep, which computes with float where the kernel has halves."""
        kept = self.saved.keep(e)
        return ast.Cast("float", kept) if e.type in HALVES else kept

    def gradient(self, name: str, kind: str) -> ast.Name:
        return ast.Name(self.gradients[name], gradient_type(kind))

    def carries(self, e: Expr) -> bool:
        return bool(derivative_sources(e) & self.facts.active)

    def pull(self, e: Expr, seed: Expr) -> list[Stmt]:
        """Add `seed` times the derivative of `e` to the gradient of each operand."""
        if not self.carries(e) or rewrite.is_number(seed, 0):
            return []
        match e:
            case ast.Name() | ast.Index():
                return self.leaf(e, seed)
            case ast.Unary():
                return self.pull(e.operand, negative(seed))
            case ast.Cast():
                return self.pull(e.operand, seed)
            case ast.Ternary():
                return self.ternary(e, seed)
            case ast.Binary():
                return self.binary(e, seed)
            case ast.Call():
                return self.function(e, seed)
        return []

    def leaf(self, leaf: Target, seed: Expr) -> list[Stmt]:
        """d_leaf += seed"""
        if leaf == self.updated:
            return []
        minus = isinstance(seed, ast.Unary) and seed.op == "-"
        value = seed.operand if isinstance(seed, ast.Unary) and minus else seed
        owned = isinstance(self.saved.here, ast.Assign) and leaf == self.saved.here.target
        return [ast.Assign(self.gradient_of(leaf), "-=" if minus else "+=", value, owned=owned)]

    def gradient_of(self, target: Target) -> Target:
        if isinstance(target, ast.Name):
            return self.gradient(target.name, target.type)
        indices = tuple(map(self.keep, target.indices))
        return ast.Index(self.gradients[target.array], indices, gradient_type(target.type))

    def call(self, e: ast.Call, seed: Expr) -> list[Stmt]:
        """f(x): `f_adjoint(x, seed, d_x)` adds to d_x."""
        function = self.facts.file.functions[e.function]
        before, after, sinks = [], [], []
        for n, (p, a) in enumerate(zip(function.params, e.arguments, strict=True)):
            if n in e.inactive:
                continue
            if isinstance(a, ast.Name) and (p.pointer or self.carries(a)):
                sinks.append(self.gradient(a.name, p.type))
            else:
                name = ast.Name(self.fresh(f"d_{p.name}_part"), gradient_type(p.type))
                before.append(ast.Declare(name.name, name.type, value=ZERO))
                after += self.pull(a, name)
                sinks.append(name)
        arrays = self.saved.plan.changed(self.saved.here, e)
        own = [a if p.pointer else self.saved.keep(a) for p, a in zip(function.params, e.arguments, strict=True)]
        stale = {p.name: a.names for p, a in zip(function.params, e.arguments, strict=True) if a.names & arrays}
        writes = tuple(n.name for n in sinks)
        return [*before, ast.CallStmt(f"{e.function}_adjoint", (*own, seed, *sinks), writes, stale=stale), *after]

    def ternary(self, e: ast.Ternary, seed: Expr) -> list[Stmt]:
        condition, sides = self.keep(e.condition), []
        for guard, value in ((e.condition, e.yes), (rewrite.logical_not(e.condition), e.no)):
            self.saved.guards.append(guard)
            sides.append(self.pull(value, seed))
            self.saved.guards.pop()
        then, orelse = sides
        return branch(condition, then, orelse)

    def binary(self, e: ast.Binary, seed: Expr) -> list[Stmt]:
        both = self.carries(e.left) and self.carries(e.right) and not equal_factors(e)
        before, seed = self.in_variable(seed) if both else ([], seed)
        if e.op in "+-":
            return [*before, *self.pull(e.left, seed), *self.pull(e.right, seed if e.op == "+" else negative(seed))]
        left, right = self.keep(e.left), self.keep(e.right)
        if n := equal_factors(e):  # x * x * x: d_x += 3 * d * (x * x)
            return self.pull(e.right, times(times(rewrite.int_literal(n), seed), left))
        if e.op == "*":
            return [*before, *self.pull(e.left, times(seed, right)), *self.pull(e.right, times(left, seed))]
        if both:  # of a / b, d_b = -d_a * (a / b), and the forward sweep has computed a / b
            value, part = self.keep(e), ast.Name(self.fresh("d_part"), seed.type)
            before = [*before, ast.Declare(part.name, part.type, value=over(seed, right))]
            return [*before, *self.pull(e.left, part), *self.pull(e.right, negative(times(part, value)))]
        quotient = over(negative(times(seed, left)), times(right, right))
        return [*before, *self.pull(e.left, over(seed, right)), *self.pull(e.right, quotient)]

    def in_variable(self, e: Expr, base: str = "d_part") -> tuple[list[Stmt], Expr]:
        """An expression that is used twice, in a variable unless it is one, its negative, or a literal."""
        if isinstance(e.operand if isinstance(e, ast.Unary) else e, ast.Name | ast.Number):
            return [], e
        name = self.fresh(base)
        return [ast.Declare(name, e.type, value=e)], ast.Name(name, e.type)

    def shuffle(self, e: ast.Call, seed: Expr) -> list[Stmt]:
        """y = the x of another lane: that lane adds the d_y of all lanes that read its x."""
        mask, x, *rest = e.arguments
        assert isinstance(x, ast.Name)
        before, d = self.in_variable(seed)
        own = (self.keep(mask), d, *map(self.keep, rest))
        name = f"shuffle_{SHUFFLES[e.function]}_adjoint"
        return [*before, ast.Assign(self.gradient_of(x), "+=", ast.Call(name, own, d.type))]

    def function(self, e: ast.Call, seed: Expr) -> list[Stmt]:
        name, args = base_name(e.function), e.arguments
        if e.function in SHUFFLES:
            return self.shuffle(e, seed)
        if not name:
            return self.call(e, seed)
        if name in DERIVATIVES:
            y, twice = self.keep(e), DERIVATIVES[name].count("y") > 1
            before, y = self.in_variable(y, f"{name}_value") if twice else ([], y)
            return [*before, *self.pull(args[0], times(seed, derivative(e.function, self.keep(args[0]), y)))]
        a, b = args[:2]
        x, y = self.keep(a), self.keep(b)
        if name in ("max", "fmax", "min", "fmin"):  # of two equal ones the first, of NaN and a number that
            first = comparison(">=" if "max" in name else "<=", x, y)
            if is_float(y.type) and rewrite.numeric_value(y) is None:
                first = ast.Binary("||", first, comparison("!=", y, y), "bool")
            return branch(first, self.pull(a, seed), self.pull(b, seed))
        before, seed = self.in_variable(seed) if sum(map(self.carries, args)) > 1 else ([], seed)
        parts = [(operand, times(seed, slope)) for operand, slope in slopes(e, x, y, lambda: self.keep(e))]
        return [*before, *(s for operand, part in parts for s in self.pull(operand, part))]

    # --- statements ---

    def adjoint(self, s: Stmt, after: Container[str]) -> list[Stmt]:
        """The backward sweep of an assignment."""
        if not own_writes(s) & self.facts.active:
            return []
        match s:
            case ast.Declare(value=value) if value is not None:
                if s.name not in after:  # then `keep` may read the value from the variable
                    self.saved.held = value, ast.Name(s.name, s.type)
                return self.pull(value, self.gradient(s.name, s.type))
            case ast.Declare(values=values) if values:
                name, kind = self.gradients[s.name], gradient_type(s.type)
                d = [ast.Index(name, (rewrite.int_literal(n),), kind) for n in range(len(values))]
                return [t for e, seed in zip(values, d, strict=True) for t in self.pull(e, seed)]
            case ast.Assign():
                return self.assignment(s, after)
            case ast.AtomicAdd():
                given, part = self.gradient_of(s.target), list[Stmt]()
                if target_name(s.target) in s.value.names:
                    given, part = self.copied_gradient(s.value, given, s)
                return [*part, *self.pull(s.value, given)]
        return []

    def assignment(self, s: ast.Assign, after: Container[str]) -> list[Stmt]:
        """Of `target = a * target + b`: add to the gradients of a and b, then d_target *= a."""
        value, d = assigned_value(s), self.gradient_of(s.target)
        again, added = coefficient(value, s.target), remainder(s)
        if again is None:
            d, part = self.copied_gradient(value if added is None else added, d, s)
            clear: list[Stmt] = [ast.Assign(self.gradient_of(s.target), "=", ZERO)] if added is None else []
            return [*part, *clear, *self.pull(value if added is None else added, d)]
        if isinstance(s.target, ast.Name) and again == ZERO and s.target.name not in after:
            self.saved.held = value, s.target
        self.updated = s.target
        seed, part = self.copied_gradient(value, d, s) if isinstance(d, ast.Index) else (d, [])
        gradient = self.pull(value, seed)
        self.updated = None
        return [*part, *gradient, *self.scaled(d, self.keep(again), target_name(s.target))]

    def copied_gradient(self, value: Expr, d: Target, s: ast.Assign | ast.AtomicAdd) -> tuple[Target, list[Stmt]]:
        """The gradient, in a variable if several operands or the target itself receive it."""
        leaves = (x for x in ast.walk(value) if isinstance(x, ast.Name | ast.Index | ast.Call))
        operands = [x for x in leaves if self.carries(x) and x != self.updated]
        again = self.updated is None and target_name(s.target) in value.names
        if len(operands) < 2 and not again:
            return d, []
        part = ast.Name(self.fresh(f"{short_name(d)}_{s.place.line}"), d.type)
        return part, [ast.Declare(part.name, d.type, value=d)]

    def scaled(self, d: Target, by: Expr, name: str) -> list[Stmt]:
        """d *= by"""
        if by == ZERO:
            once = name in self.facts.final or id(self.saved.here) in self.facts.first
            return [] if once else [ast.Assign(d, "=", ZERO)]
        if rewrite.is_number(by, 1):
            return []
        divides = isinstance(by, ast.Binary) and by.op == "/" and by.left == ONE
        value = by.right if isinstance(by, ast.Binary) and divides else by
        if isinstance(value, ast.Cast) and value.type == d.type and not is_float(value.operand.type):
            value = value.operand  # converted by *= itself
        return [ast.Assign(d, "/=" if divides else "*=", value)]


def equal_factors(e: Expr) -> int:
    """The number of factors of a product, if all are equal; else 0."""
    if not isinstance(e, ast.Binary) or e.op != "*":
        return 0
    if e.left == e.right:
        return 2
    inner = equal_factors(e.left)
    return inner + 1 if inner and isinstance(e.left, ast.Binary) and e.left.right == e.right else 0


def coefficient(e: Expr, target: Target) -> Expr | None:
    """a of `e = a * target + b`; None if a or b read the target's variable.

    The target is floating-point, and its operands are converted as C++ does: of `t / 2 / 3` it is 1 / 2.0 / 3.0.
    """
    name = target_name(target)
    if name not in e.names:
        return ZERO
    if e == target:
        return ONE if name not in names_in(ast.children(e)) else None
    match e:
        case ast.Unary(op="-"):
            inner = coefficient(e.operand, target)
            return None if inner is None else negative(inner)
        case ast.Binary(op="+" | "-" | "*"):
            left, right = coefficient(e.left, target), coefficient(e.right, target)
            if left is None or right is None or (e.op == "*" and ZERO not in (left, right)):
                return None
            if e.op != "*":
                return plus(left, right) if e.op == "+" else minus(left, right)
            if right == ZERO:
                return times(left, rewrite.as_float(e.right, e.type))
            return times(rewrite.as_float(e.left, e.type), right)
        case ast.Binary(op="/") if name not in e.right.names:
            left = coefficient(e.left, target)
            return None if left is None else over(left, rewrite.as_float(e.right, e.type))
    return None


def assigned_value(s: ast.Assign) -> Expr:
    """The new value of the target: of `v += e` it is `v + e`."""
    if s.op == "=":
        return s.value
    return ast.Binary(s.op[:-1], s.target, s.value, ast.common_type(s.target.type, s.value.type))


def remainder(s: ast.Assign) -> Expr | None:
    """b of `target = target + b`, whatever b reads; None for other assignments."""
    if s.op in ("+=", "-="):
        return s.value if s.op == "+=" else negative(s.value)
    match s.value:
        case ast.Binary(op="+" | "-" as op, left=left, right=right) if s.op == "=" and left == s.target:
            return right if op == "+" else negative(right)
        case ast.Binary(op="+", left=left, right=right) if s.op == "=" and right == s.target:
            return left
    return None


# --- derivatives of functions ---


def derivative(function: str, x: Expr, y: Expr) -> Expr:
    """The derivative of a maths function at x, where its value is y."""
    name = base_name(function)
    suffix = "f" if name != function else ""
    kind = "float" if suffix else y.type

    def fill(e: Expr) -> Expr | None:
        match e:
            case ast.Name():
                return x if e.name == "x" else y
            case ast.Number():
                return typed(e.text, kind)
            case ast.Call():
                return ast.Call(e.function + suffix, tuple(rewrite.replace_parts(a, fill) for a in e.arguments), kind)
        return None

    return rewrite.replace_parts(_template(name), fill)


def typed(text: str, kind: str) -> Expr:
    if text.isdigit() or kind == "double":
        return ast.Number(text, "int" if text.isdigit() else kind)
    return ast.Number(f"{text}f", kind) if kind == "float" else ast.Cast("real", ast.Number(text, "double"))


@cache
def _template(function: str) -> Expr:
    return parse_expression(DERIVATIVES[function], "xy")


def slopes(e: ast.Call, x: Expr, y: Expr, value: Callable[[], Expr]) -> list[tuple[Expr, Expr]]:
    """Each operand of a function of several, at x and y, with the derivative in it; `value` gives that of the function.

    Where a limit is missing it is 0, as sqrt has it at 0.
    """
    a, b = e.arguments[:2]
    match base_name(e.function):
        case "fma":
            return [(a, y), (b, x), (e.arguments[2], ONE)]
        case "pow":  # x^0 is 1 for all x, and 0^y is 0 for all y > 0
            in_base = times(y, ast.Call(e.function, (x, minus(y, ONE)), e.type))
            in_exponent = times(value(), _call("log", e, x))
            flat = ast.Binary("&&", comparison("==", x, ZERO), comparison(">=", y, ZERO), "bool")
            return [(a, _unless(comparison("==", y, ZERO), in_base)), (b, _unless(flat, in_exponent))]
        case "hypot":
            length = value()
            return [(v, _unless(comparison("==", length, ZERO), over(w, length))) for v, w in ((a, x), (b, y))]
        case "atan2":
            x, y = rewrite.as_float(x, e.type), rewrite.as_float(y, e.type)
            square = plus(times(x, x), times(y, y))
            origin = comparison("==", square, ZERO)
            return [(a, _unless(origin, over(y, square))), (b, _unless(origin, negative(over(x, square))))]
        case "fmod" | "remainder" as name:
            return [(a, ONE), (b, negative(_call("trunc" if name == "fmod" else "rint", e, over(x, y))))]
        case "fdim":
            apart = comparison("<=", x, y)
            return [(a, _unless(apart, ONE)), (b, _unless(apart, negative(ONE)))]
        case "rhypot":
            cube = times(value(), times(value(), value()))
            return [(a, negative(times(x, cube))), (b, negative(times(y, cube)))]
        case "ldexp" | "scalbn":
            return [(a, ast.Call(e.function, (rewrite.as_float(ONE, e.type), y), e.type))]
        case "copysign":
            return [(a, _unless(comparison("==", x, ZERO), over(value(), x)))]
    raise TypeError(e.function)


def _unless(condition: Expr, value: Expr) -> Expr:
    """0 where the condition holds, else the value. Of literals the answer is known."""
    assert isinstance(condition, ast.Binary)
    known = [rewrite.numeric_value(e) for e in (condition.left, condition.right)]
    if condition.op == "==" and None not in known:
        return ZERO if known[0] == known[1] else value
    return ast.Ternary(condition, ZERO, value, value.type)


def _call(function: str, like: ast.Call, x: Expr) -> ast.Call:
    """The function, with the f of a sister function."""
    return ast.Call(function + ("f" if base_name(like.function) != like.function else ""), (x,), like.type)
