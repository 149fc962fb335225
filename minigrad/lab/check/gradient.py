"""Gradient check by central differences in float64, with the likely cause of an error."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.devices import default_device
from minigrad.devices.dtypes import FLOATS, move, to_host
from minigrad.errors import require, require_int, require_number
from minigrad.tape import no_grad
from minigrad.tensor import Tensor

SMALL = 1000  # elements; up to this size a failure is diagnosed by the slope of every element


class GradientError(AssertionError):
    """A gradient that central differences contradict."""


@dataclass(frozen=True)
class GradientCheck:
    """A gradient that central differences confirm."""

    function: str
    inputs: tuple[str, ...]
    directions: int
    rtol: float
    error: float  # the largest relative one

    def __repr__(self) -> str:
        each = " each" if len(self.inputs) > 1 else ""
        return (
            f"gradient of {self.function} with respect to {', '.join(self.inputs)}: right in {self.directions} random "
            f"directions{each}, relative error below {self.rtol:g}"
        )


def gradient(
    fn: Callable, *inputs: Any, eps: float = 1e-6, rtol: float = 1e-5, directions: int = 3, seed: int = 0
) -> GradientCheck:
    """Compare <dx, v> of the tape with (f(x + eps v) - f(x - eps v)) / (2 eps), in float64, for random directions v.

    fn takes tensors and returns one of any shape, which is contracted with a random upstream gradient. inputs are
    arrays or tensors; those of float dtype are differentiated, the others are passed on. Raises GradientError with the
    input, the direction, both numbers and the likely cause; NaN never passes. ValueError if no input has an element of
    float dtype.
    """
    eps, rtol = require_number("check.gradient", "eps", eps, 1e-300), require_number("check.gradient", "rtol", rtol)
    directions = require_int("check.gradient", "directions", directions, 1)
    probe = _Probe(fn, inputs, eps, require_int("check.gradient", "seed", seed))
    grads, worst = {i: grad for i, grad in probe.gradients().items() if grad.size}, 0.0
    if not grads:
        raise ValueError(
            f"check.gradient: {probe.name} got no input of floats that has an element: nothing to compare."
        )
    for i, grad in grads.items():
        for trial in range(1, directions + 1):
            v = probe.rng.standard_normal(grad.shape)
            rule, slope = float((grad * v).sum()), probe.slope(i, v)
            size = max(abs(slope), float(np.linalg.norm(grad)))
            error = abs(rule - slope)
            if not error <= rtol * size + probe.noise(i):
                raise GradientError(
                    f"gradient of {probe.name} with respect to input {i + 1} ({probe.names[i]}), direction {trial} "
                    f"of {directions}: the tape says {rule:.8g}, central differences say {slope:.8g}. "
                    f"Likely cause: {_cause(probe, i, grad, v)}."
                )
            worst = max(worst, error / size if size else 0.0)
    return GradientCheck(probe.name, tuple(probe.names[i] for i in grads), directions, rtol, worst)


class _Probe:
    """f(x) = <fn(x), dy> at a point, with a random upstream gradient dy."""

    def __init__(self, fn: Callable, inputs: tuple, eps: float, seed: int):
        require("check.gradient", fn, Callable, "a function of tensors")
        self.fn, self.eps, self.rng = fn, eps, np.random.default_rng(seed)
        self.name = getattr(fn, "__name__", type(fn).__name__)
        self.names = _names(fn, len(inputs))
        self.device = next((x.device for x in inputs if isinstance(x, Tensor)), default_device())
        hosts = [x.numpy() if isinstance(x, Tensor) else to_host(x, who="check.gradient") for x in inputs]
        self.point = [x.astype(np.float64) if x.dtype in FLOATS else x for x in hosts]
        y = self.call(self.point)
        self.dy = self.rng.standard_normal(y.shape)
        self.value = float((y * self.dy).sum())
        self.size = float(np.abs(y * self.dy).sum())

    def tensors(self, arrays: list[np.ndarray], requires_grad: bool = False) -> list[Tensor]:
        return [Tensor(move(x, self.device), requires_grad and x.dtype in FLOATS) for x in arrays]

    def call(self, arrays: list[np.ndarray]) -> np.ndarray:
        """fn(arrays); raises TypeError unless it is float64, GradientError for NaN."""
        with no_grad():
            y = self.fn(*self.tensors(arrays))
        if not isinstance(y, Tensor) or y.dtype != np.float64:
            what = y.dtype if isinstance(y, Tensor) else type(y).__name__
            raise TypeError(f"check.gradient: {self.name} returned {what}; from float64 tensors it must return one.")
        return _without_nan(y.numpy(), f"the value of {self.name}")

    def gradients(self) -> dict[int, np.ndarray]:
        """The tape's gradients by number of the input; zeros where none arrived."""
        xs = self.tensors(self.point, requires_grad=True)
        y = self.fn(*xs)
        if y.requires_grad:
            y.backward(Tensor(move(self.dy, self.device)))
        return {
            i: _without_nan(np.zeros(x.shape) if x.grad is None else x.grad.numpy(), f"the gradient of {self.names[i]}")
            for i, x in enumerate(xs)
            if x.requires_grad
        }

    def step(self, i: int) -> float:
        """h = eps * max(1, RMS of the input)"""
        x = self.point[i]
        return self.eps * max(1.0, float(np.sqrt(np.mean(x * x))) if x.size else 1.0)

    def at(self, i: int, offset: np.ndarray) -> float:
        moved = [x + offset if i == j else x for j, x in enumerate(self.point)]
        return float((self.call(moved) * self.dy).sum())

    def slope(self, i: int, v: np.ndarray) -> float:
        """(f(x + h v) - f(x - h v)) / (2 h)"""
        h = self.step(i)
        return (self.at(i, h * v) - self.at(i, -h * v)) / (2 * h)

    def noise(self, i: int) -> float:
        """The rounding error of a slope."""
        return 8 * float(np.finfo(np.float64).eps) * self.size / self.step(i)


def _names(fn: Callable, count: int) -> list[str]:
    """The names of fn's parameters, as far as its signature has them."""
    target = getattr(fn, "forward", fn)  # an op's are those of its reference
    try:
        known = [p.name for p in inspect.signature(target).parameters.values() if p.kind is not p.VAR_POSITIONAL]
    except (TypeError, ValueError):
        known = []
    return [known[i] if i < len(known) else f"x{i + 1}" for i in range(count)]


def _without_nan(array: np.ndarray, what: str) -> np.ndarray:
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        raise GradientError(f"{what} is {array[at]} at {list(at)}, and in {len(bad)} of {array.size} elements in all.")
    return array


def _cause(probe: _Probe, i: int, grad: np.ndarray, v: np.ndarray) -> str:
    h, name = probe.step(i), probe.names[i]
    if probe.at(i, 0 * v) != probe.value:
        return f"{probe.name} gives another value for the same input; is there randomness in it?"
    ahead, behind = (probe.at(i, h * v) - probe.value) / h, (probe.value - probe.at(i, -h * v)) / h
    if abs(ahead - behind) > 1e-2 * max(abs(ahead), abs(behind)) + 2 * probe.noise(i):
        return f"a kink here, as of relu at 0 or a tie in max: the slope is {behind:.6g} behind and {ahead:.6g} ahead"
    if not grad.any():
        return f"no gradient reaches {name}; it is detached, or the rule returns zeros"
    if grad.size > SMALL:
        return f"unknown; try an input of at most {SMALL} elements to see which element is wrong"
    slopes = [probe.slope(i, one.reshape(grad.shape)) for one in np.eye(grad.size)]
    return _pattern(grad, np.array(slopes).reshape(grad.shape))


def _pattern(grad: np.ndarray, slopes: np.ndarray) -> str:
    factor = float((grad * slopes).sum() / (slopes * slopes).sum()) if slopes.any() else 0.0

    def near(other: np.ndarray) -> bool:
        return np.allclose(grad, other, rtol=1e-4, atol=1e-4 * float(np.abs(slopes).max()))

    if near(-slopes):
        return "the sign is wrong"
    if grad.ndim == 2 and grad.shape[0] == grad.shape[1] and near(slopes.T):
        return "the gradient is transposed"
    if factor and near(factor * slopes):
        return f"it is {factor:.4g} times what it should be: a path counted that often, or a factor such as 1/n missing"
    at = np.unravel_index(int(np.abs(grad - slopes).argmax()), grad.shape)
    where = list(map(int, at))
    return f"the rule; it is most wrong at element {where}, with {grad[at]:.6g} where the slope is {slopes[at]:.6g}"
