"""Gradient clipping: all gradients together are shortened to a largest norm, so that one step cannot go far astray."""

from collections.abc import Iterable
from math import inf

from minigrad.devices.dtypes import wide
from minigrad.errors import require, require_number
from minigrad.operators import OPS
from minigrad.tape import no_grad
from minigrad.tensor import Tensor


def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Multiply every gradient, in place, by min(1, max_norm / (norm + 1e-6)); returns the norm before that.

    norm is the root of the sum of the squares of all gradients, in float32 for bfloat16, a tensor without axes on their
    device: nothing is read on the host, so a step of `mg.graph` may clip. Call it between backward and the optimizer's
    step; parameters without a gradient are left out. Raises ValueError where none has one. Source: Pascanu, Mikolov and
    Bengio, On the difficulty of training recurrent neural networks, 2013.
    """
    if isinstance(parameters, Tensor):
        raise TypeError("clip_grad_norm takes a list of tensors: [w], or model.parameters().")
    listed = require("clip_grad_norm", parameters, Iterable, "a list of tensors: model.parameters()")
    if max_norm != inf:  # which leaves all as it is, and gives the norm
        max_norm = require_number("clip_grad_norm", "max_norm", max_norm)
    grads = [grad for p in listed if (grad := require("clip_grad_norm", p, Tensor, "tensors").grad) is not None]
    if not grads:
        raise ValueError("clip_grad_norm: no parameter has a gradient; call it between backward() and step().")
    with no_grad():
        exact = [grad.astype(wide(grad.dtype)) for grad in grads]
        first, *others = [(grad * grad).sum() for grad in exact]
        norm = sum(others, first).sqrt()
        factor = OPS["minimum"](max_norm / (norm + 1e-6), 1.0)
        for grad, values in zip(grads, exact, strict=True):
            grad.assign((values * factor).astype(grad.dtype))
    return norm
