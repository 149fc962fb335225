"""Linear: the affine layer y = x @ weight + bias."""

from math import sqrt
from typing import Any

from minigrad import create
from minigrad.errors import require_bool, require_int
from minigrad.nn.module import Module
from minigrad.operators import OPS
from minigrad.tensor import Tensor


class Linear(Module):
    """y = x @ weight + bias, with x (..., inputs), weight (inputs, outputs), bias (outputs,).

    Both start uniform in +-1/sqrt(inputs), as in PyTorch, from the generator that `mg.manual_seed` sets. `state_dict`
    holds the weight as PyTorch does, (outputs, inputs).
    """

    transposed: tuple[str, ...] = ("weight",)

    def __init__(self, inputs: int, outputs: int, bias: bool = True, device: str | None = None, dtype: Any = "float32"):
        bound = 1 / sqrt(require_int("Linear", "inputs", inputs, 1))
        require_int("Linear", "outputs", outputs, 1)

        def start(*shape: int) -> Tensor:
            return create.uniform(-bound, bound, shape, requires_grad=True, device=device, dtype=dtype)

        self.weight = start(inputs, outputs)
        self.bias = start(outputs) if require_bool("Linear", "bias", bias) else None

    def forward(self, x: Tensor) -> Tensor:
        """x @ weight + bias."""
        y = OPS["matmul"](x, self.weight)
        return y if self.bias is None else OPS["add"](y, self.bias.astype(y.dtype))

    def __repr__(self) -> str:
        return f"Linear({self.weight.shape[0]} -> {self.weight.shape[1]}{'' if self.bias is not None else ', no bias'})"
