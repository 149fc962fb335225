"""The reference for a kernel's derivative: its source run by Python in complex numbers, with a step of 1e-30 i.

f(x + ih) = f(x) + ih f'(x) - ..., so the imaginary part over h is the derivative to the last digit, with no difference
of near numbers. The kernel's tree becomes the text of a Python generator for one thread; a barrier is a yield.
"""

import cmath
import math
import random
import sys
from functools import partial
from itertools import product

import numpy as np
import pytest

import minigrad as mg
from minigrad.adjoint import Adjoint
from minigrad.adjoint.derive import derive
from minigrad.adjoint.language.ast import (
    TESTS,
    Assign,
    AtomicAdd,
    Barrier,
    Binary,
    Call,
    Cast,
    Declare,
    For,
    If,
    Index,
    Jump,
    Name,
    Number,
    Ternary,
    Unary,
    base_name,
    is_float,
)
from minigrad.adjoint.passes import PASSES

STEP = 1e-30
TESTING = ("<", "<=", ">", ">=", "==", "!=")


def with_slope(value, slope):
    """A function without a complex version in Python: f(a + ib) = f(a) + ib f'(a)."""
    return lambda x: complex(value(x.real), x.imag * slope(x.real)) if isinstance(x, complex) else value(x)


FUNCTIONS = {name: getattr(cmath, name) for name in ("exp", "log", "sin", "cos", "tan", "tanh", "sqrt", "atan")} | {
    "erf": with_slope(math.erf, lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x)),
    "log1p": with_slope(math.log1p, lambda x: 1 / (1 + x)),
    "expm1": with_slope(math.expm1, math.exp),
    "cbrt": with_slope(np.cbrt, lambda x: np.cbrt(x) / (3 * x)),
    "rsqrt": lambda x: 1 / cmath.sqrt(x),
    "fabs": lambda x: -x if x.real < 0 else x,
    "abs": lambda x: -x if x.real < 0 else x,
    "floor": lambda x: math.floor(x.real),
    "pow": lambda x, y: x**y,
    "max": lambda x, y: x if x.real >= y.real else y,
    "min": lambda x, y: x if x.real <= y.real else y,
    "fmax": lambda x, y: x if x.real >= y.real else y,
    "fmin": lambda x, y: x if x.real <= y.real else y,
    "fma": lambda x, y, z: x * y + z,
    "hypot": lambda x, y: cmath.sqrt(x * x + y * y),
    "atan2": lambda x, y: cmath.atan(x / y),  # of y above 0
    "fmod": lambda x, y: x - y * np.trunc((x / y).real),
    "INFINITY": math.inf, "M_PI": math.pi, "true": True, "false": False,
}  # fmt: skip


def expression(e):
    """An expression as Python."""
    match e:
        case Number():
            return e.text.rstrip("uUlL") if e.type in ("int", "unsigned") else e.text.rstrip("fF").capitalize()
        case Name():
            return e.name.replace(".", "_")
        case Index():
            return f"{e.array}[{', '.join(map(expression, e.indices))}]"
        case Unary():
            return f"({'not ' if e.op == '!' else e.op}{expression(e.operand)})"
        case Ternary():
            return f"({expression(e.yes)} if {expression(e.condition)} else {expression(e.no)})"
        case Cast():
            return f"int(({expression(e.operand)}).real)" if not is_float(e.type) else expression(e.operand)
        case Call():
            name = base_name(e.function) or e.function
            assert name not in TESTS
            return f"{name}({', '.join(map(expression, e.arguments))})"
        case Binary():
            return binary(e)


def binary(e):
    a, b = expression(e.left), expression(e.right)
    if e.op in TESTING:
        return f"(({a}).real {e.op} ({b}).real)"
    if e.op in ("&&", "||"):
        return f"({a} {'and' if e.op == '&&' else 'or'} {b})"
    if e.op in ("/", "%") and not is_float(e.type):
        return f"int({a} / {b})" if e.op == "/" else f"math.fmod({a}, {b}).__int__()"
    return f"({a} {e.op} {b})"


def lines(body, depth, step=""):
    """Statements as the lines of a Python function; `step` comes before each continue."""
    pad, made = "    " * depth, []
    for s in body:
        match s:
            case Declare() if s.dims and not s.shared:
                shape = ", ".join(map(expression, s.dims))
                made.append(f"{pad}{s.name} = np.zeros(({shape},), {'complex' if is_float(s.type) else 'int'})")
                made += [f"{pad}{s.name}[{n}] = {expression(v)}" for n, v in enumerate(s.values or ())]
            case Declare():
                made += [f"{pad}{s.name} = {expression(s.value)}"] if s.value is not None else []
            case Assign():
                op = "//=" if s.op == "/=" and not is_float(s.target.type) else s.op
                made.append(f"{pad}{expression(s.target)} {op} {expression(s.value)}")
            case AtomicAdd():
                made.append(f"{pad}{expression(s.target)} += {expression(s.value)}")
            case Barrier():
                made.append(f"{pad}yield")
            case Jump():
                made += [f"{pad}{step}"] if s.kind == "continue" and step else []
                made.append(f"{pad}{s.kind}{' ' + expression(s.value) if s.value else ''}")
            case If():
                made += [f"{pad}if {expression(s.condition)}:", *lines(s.then, depth + 1, step), f"{pad}    pass"]
                made += [f"{pad}else:", *lines(s.orelse, depth + 1, step)] if s.orelse else []
            case For():
                after = lines([s.step], 0)[0] if s.step else ""
                made += lines([s.start], depth) if s.start else []
                made += [f"{pad}while {expression(s.condition)}:", *lines(s.body, depth + 1, after)]
                made += [f"{pad}    {after or 'pass'}"]
    return made


def compiled(file):
    """The kernel as a Python function that makes one thread, a generator."""
    text = []
    for f in file.functions.values():
        text += [f"def {f.name}({', '.join(p.name for p in f.params)}):", *lines(f.body, 1)]
    builtins = [f"{b}_{a}" for b in ("threadIdx", "blockIdx", "blockDim", "gridDim") for a in "xyz"]
    shared = [d.name for d in file.kernel.declared.values() if d.shared]
    names = [*(p.name for p in file.kernel.params), *builtins, *shared]
    text += [f"def thread({', '.join(names)}):", "    if False: yield", *lines(file.kernel.body, 1)]
    space = {**FUNCTIONS, **file.values, "np": np, "math": math}
    for table in file.tables:
        space[table.name] = np.array([eval(expression(v), space) for v in table.values])
    exec("\n".join(text), space)
    return space["thread"], space


def run(file, args, grid, block, seed=0):
    """Run the kernel on complex copies of the arrays; all of its arguments afterwards, by name."""
    thread, space = compiled(file)
    kernel, order = file.kernel, random.Random(seed)
    values = {p.name: a for p, a in zip(kernel.params, args, strict=True)}
    values = {
        n: a.astype(complex) if isinstance(a, np.ndarray) and a.dtype.kind in "fc" else a for n, a in values.items()
    }
    grid, block = ((*e, 1, 1)[:3] if isinstance(e, tuple) else (e, 1, 1) for e in (grid, block))
    extents = {
        f"{what}_{a}": n for what, e in (("gridDim", grid), ("blockDim", block)) for a, n in zip("xyz", e, strict=True)
    }
    for place in product(*map(range, grid)):
        shared = {
            d.name: np.zeros(tuple(eval(expression(e), space) for e in d.dims), complex)
            for d in kernel.declared.values() if d.shared
        }  # fmt: skip
        here = {f"blockIdx_{a}": n for a, n in zip("xyz", place, strict=True)}
        alive = [
            thread(
                **values, **extents, **shared, **here, **{f"threadIdx_{a}": n for a, n in zip("xyz", at, strict=True)}
            )
            for at in product(*map(range, block))
        ]
        while alive:
            order.shuffle(alive)
            ended = [next(t, "ended") == "ended" for t in alive]
            assert len(set(ended)) == 1, "a barrier that only some threads reach"
            alive = [] if ended[0] else alive
    return values


OPTIONAL = [p.name for p in PASSES if not p.required]


def without(off, kernel, wrt=None):
    """The adjoint of a kernel by all passes but these."""
    with pytest.MonkeyPatch.context() as patch:
        some = partial(derive, passes=[p for p in PASSES if p.name not in off])
        patch.setattr(sys.modules["minigrad.adjoint.adjoint"], "derive", some)
        return Adjoint(kernel, wrt)


def directional(made, args, direction, grid, block):
    """J v of a kernel: the derivatives of its outputs along `direction`, {parameter: array or number}."""
    names = [p.name for p in made.file.kernel.params]
    moved = [a + 1j * STEP * direction[n] if n in direction else a for n, a in zip(names, args, strict=True)]
    after = run(made.file, moved, grid, block)
    return {name: after[name].imag / STEP for name in made.outputs}


def check(made, args, grid, block, rtol=1e-11):
    """The gradients of `wrt`, compared along a direction with the complex step; no race, nothing read unwritten."""
    rng, names = np.random.default_rng(2), [p.name for p in made.file.kernel.params]
    on_sim = [mg.tensor(a, device="sim") if isinstance(a, np.ndarray) else a for a in args]
    w = {name: rng.standard_normal(args[names.index(name)].shape) for name in made.outputs}
    v = {name: rng.standard_normal(np.shape(args[names.index(name)])) for name in made.wrt}
    with mg.microscope.watching() as report:
        found = made.vjp(*on_sim, dy=[mg.tensor(d, device="sim") for d in w.values()], grid=grid, block=block)
    assert not report.problems
    gradients = {name: d.numpy() for name, d in zip(made.wrt, found, strict=True)}
    jv = directional(made, args, v, grid, block)
    forward = sum(np.vdot(w[name], jv[name]) for name in made.outputs)
    backward = sum(np.vdot(gradients[name], v[name]) for name in made.wrt)
    scale = sum(np.vdot(np.abs(gradients[name]), np.abs(v[name])) for name in made.wrt)
    assert abs(forward - backward) <= rtol * scale
