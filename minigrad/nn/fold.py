"""Batch norms behind convolutions: with relu in one op, and for inference folded into the convolution."""

import copy
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from minigrad import create
from minigrad.devices.dtypes import copied
from minigrad.errors import require
from minigrad.nn.conv import Conv2d
from minigrad.nn.module import Module, Sequential
from minigrad.nn.normalization import BatchNorm2d
from minigrad.tape import no_grad
from minigrad.tensor import Tensor

AnyModule = TypeVar("AnyModule", bound=Module)


def convolved(x: Tensor, conv: Conv2d, norm: BatchNorm2d | None, residual: Tensor | None = None) -> Tensor:
    """relu(norm(conv(x)) + residual); norm is None where it has been folded into the convolution."""
    return conv.relu(x, residual) if norm is None else norm.relu(conv(x), residual)


def folded(model: AnyModule) -> AnyModule:
    """A copy of the network for inference, in which convolutions do the work of the batch norms behind them.

    With s = weight / sqrt(var + eps), in the running statistics, conv(x) s + (bias - mean s) is a convolution with the
    kernels w s and the bias b s + bias - mean s. Pairs are found in a Sequential, one after the other, and in a module
    that names them: `norms = (("conv1", "bn1"), ...)`, of which the second is None from then on. The copy shares no
    memory with the model.
    """
    other = _copied(require("folded", model, Module, "a network"))
    _fold_in(other)
    return other.eval()


def _copied(value: Any) -> Any:
    """A copy of a module with copies of its tensors, each on its device and in its layout."""
    if isinstance(value, Tensor):
        return Tensor(copied(value.array), value.requires_grad)
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    if isinstance(value, Module):
        other = copy.copy(value)
        vars(other).update({name: _copied(part) for name, part in vars(value).items()})
        return other
    return value


def _fold_in(module: Module) -> None:
    """Fold the batch norms of this module and of all below it."""
    for conv, norm in getattr(module, "norms", ()):
        _fold(getattr(module, conv), getattr(module, norm))
        setattr(module, norm, None)
    if isinstance(module, Sequential):
        pairs = [(a, b) for a, b in pairwise(module.parts) if isinstance(a, Conv2d) and isinstance(b, BatchNorm2d)]
        for conv, norm in pairs:
            _fold(conv, norm)
        done = {id(norm) for _, norm in pairs}
        module.parts = tuple(part for part in module.parts if id(part) not in done)
    for _, part in module._children():
        if isinstance(part, Module):
            _fold_in(part)


def _fold(conv: Conv2d, norm: BatchNorm2d | None) -> None:
    """Give a convolution the work of the batch norm behind it. It is computed in float64."""
    if norm is None:  # folded before
        return
    mean, var = _host(norm.running_mean, 0), _host(norm.running_var, 1)
    scale = _host(norm.weight, 1) / np.sqrt(var + norm.eps)
    shift = (_host(conv.bias, 0) - mean) * scale + _host(norm.bias, 0)
    w = conv.weight
    with no_grad():
        w.assign((w.numpy() * scale[:, None, None, None]).astype(w.dtype))
    conv.bias = create.tensor(shift, requires_grad=True, device=w.device, dtype=w.dtype)


def _host(x: Tensor | None, otherwise: float) -> Any:
    """The values in float64."""
    return otherwise if x is None else x.numpy().astype(np.float64)
