"""Conv2d: a layer of convolution kernels."""

from math import prod, sqrt
from typing import Any

from minigrad import create
from minigrad.errors import require_bool, require_int
from minigrad.kernels.window import pair
from minigrad.nn.module import Module
from minigrad.operators import OPS
from minigrad.tensor import Tensor


class Conv2d(Module):
    """y = conv2d(x, weight, bias), with x (N, inputs, H, W), weight (outputs, inputs / groups, *size), bias (outputs,).

    stride, padding, dilation and groups are those of `mg.conv2d`. Weight and bias start uniform in +-1/sqrt(terms of an
    output), as in PyTorch, from the generator that `mg.manual_seed` sets.
    """

    def __init__(
        self, inputs: int, outputs: int, size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1, bias: bool = True, device: str | None = None, dtype: Any = "float32",
    ):  # fmt: skip
        for name, value in (("inputs", inputs), ("outputs", outputs), ("groups", groups)):
            require_int("Conv2d", name, value, 1)
        if inputs % groups or outputs % groups:
            raise ValueError(f"Conv2d: inputs={inputs} and outputs={outputs} must be divisible by groups={groups}.")
        for name, value in (("stride", stride), ("dilation", dilation)):
            pair("Conv2d", name, value, 1)
        shape = (outputs, inputs // groups, *pair("Conv2d", "size", size, 1))
        bound = 1 / sqrt(prod(shape[1:]))

        def start(*shape: int) -> Tensor:
            return create.uniform(-bound, bound, shape, requires_grad=True, device=device, dtype=dtype)

        self.weight = start(*shape)
        self.bias = start(outputs) if require_bool("Conv2d", "bias", bias) else None
        self._how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}

    def forward(self, x: Tensor) -> Tensor:
        """conv2d(x, weight, bias)."""
        inputs = (x, self.weight) if self.bias is None else (x, self.weight, self.bias)
        return OPS["conv2d"](*inputs, **self._how)

    def relu(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """relu(forward(x) + residual), by one op where there is a bias."""
        more = () if residual is None else (residual,)
        if self.bias is not None:
            return OPS["conv2d_relu"](x, self.weight, self.bias, *more, **self._how)
        return OPS["relu"](sum(more, self.forward(x)))

    def __repr__(self) -> str:
        outputs, each, rows, columns = self.weight.shape
        usual = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}
        how = "".join(f", {name}={value}" for name, value in self._how.items() if value != usual[name])
        bias = "" if self.bias is not None else ", no bias"
        return f"Conv2d({each * self._how['groups']} -> {outputs}, {rows} x {columns}{how}{bias})"
