"""Network parts: modules with parameters by name. What they compute is made of ops, so the tape needs nothing new."""

from collections.abc import Callable, Iterator, Mapping
from math import sqrt
from typing import Any

import numpy as np

from minigrad import create
from minigrad.devices import check
from minigrad.devices.dtypes import move, to_host
from minigrad.errors import a, flag, whole
from minigrad.op import OPS
from minigrad.ops.cross_entropy import check_labels
from minigrad.tape import no_grad
from minigrad.tensor import Tensor


class Module:
    """A part of a network: its attributes that are leaf tensors with requires_grad, or modules, are its parameters."""

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Each parameter with its path, e.g. "0.weight"; one that parts share has several."""
        for name, value in self._children():
            if isinstance(value, Module):
                yield from value.named_parameters(f"{prefix}{name}.")
            elif isinstance(value, Tensor) and value.is_leaf and value.requires_grad:
                yield f"{prefix}{name}", value

    def parameters(self) -> list[Tensor]:
        """Every parameter once, in the order of their names: one that two parts share is still one."""
        return list({id(parameter): parameter for _, parameter in self.named_parameters()}.values())

    def zero_grad(self) -> None:
        """Forget all gradients; the next backward starts from none."""
        for parameter in self.parameters():
            parameter.grad = None

    def to(self, device: str) -> "Module":
        """Move every parameter, in place: an optimizer that holds them sees the move. Gradients are forgotten."""
        check(device)
        for parameter in self.parameters():
            parameter.array, parameter.grad = move(parameter.array, device), None
        return self

    def state_dict(self) -> dict[str, np.ndarray]:
        """A copy of every parameter by name, as NumPy arrays: what to save."""
        return {name: parameter.numpy() for name, parameter in self.named_parameters()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Overwrite the parameters with those of `state_dict()`. Raises KeyError for other names, ValueError for other
        shapes; then nothing has been changed."""
        own = dict(self.named_parameters())
        if own.keys() != a("load_state_dict", state, Mapping, "what state_dict() gives, arrays by name").keys():
            differing = ", ".join(sorted(map(str, own.keys() ^ state.keys())))
            raise KeyError(f"load_state_dict: these names are on one side only: {differing}.")
        new = {
            name: p.fitting(to_host(state[name], p.dtype, name), f"load_state_dict: {name}") for name, p in own.items()
        }
        with no_grad():  # every entry fits: nothing is ever loaded by half
            for name, parameter in own.items():
                parameter.assign(new[name])

    def _children(self) -> Iterator[tuple[str, Any]]:
        yield from vars(self).items()

    def forward(self, x: Tensor) -> Tensor:
        """What the module computes."""
        raise NotImplementedError(f"{type(self).__name__} needs a method forward(self, x).")

    def __call__(self, *inputs: Any) -> Any:
        return self.forward(*inputs)


class Linear(Module):
    """y = x @ weight + bias, with x (rows, inputs), weight (inputs, outputs), bias (outputs,).

    Both start uniform in +-1/sqrt(inputs), as in PyTorch, from the generator that `mg.manual_seed` sets.
    """

    def __init__(self, inputs: int, outputs: int, bias: bool = True, device: str | None = None, dtype: Any = "float32"):
        bound = 1 / sqrt(whole("Linear", "inputs", inputs, 1))
        whole("Linear", "outputs", outputs, 1)

        def start(*shape: int) -> Tensor:
            return create.uniform(-bound, bound, shape, requires_grad=True, device=device, dtype=dtype)

        self.weight = start(inputs, outputs)
        self.bias = start(outputs) if flag("Linear", "bias", bias) else None

    def forward(self, x: Tensor) -> Tensor:
        """x @ weight + bias."""
        y = OPS["matmul"](x, self.weight)
        return y if self.bias is None else OPS["add"](y, self.bias)

    def __repr__(self) -> str:
        return f"Linear({self.weight.shape[0]} -> {self.weight.shape[1]}{'' if self.bias is not None else ', no bias'})"


class Sequential(Module):
    """One part after the other; a part is a module or any function of a tensor, e.g. `mg.relu`."""

    def __init__(self, *parts: Callable[[Tensor], Tensor]):
        self.parts = tuple(a("Sequential", part, Callable, "modules and functions of a tensor") for part in parts)

    def _children(self) -> Iterator[tuple[str, Any]]:
        return ((str(i), part) for i, part in enumerate(self.parts))

    def forward(self, x: Tensor) -> Tensor:
        """Each part applied to the result of the one before."""
        for part in self.parts:
            x = part(x)
        return x

    def __repr__(self) -> str:
        names = (repr(part) if isinstance(part, Module) else getattr(part, "__name__", "?") for part in self.parts)
        return "Sequential(\n" + "".join(f"  {i}: {name}\n" for i, name in enumerate(names)) + ")"


def accuracy(logits: Tensor, labels: Any) -> float:
    """The share of rows whose largest logit is at the label, from 0 to 1."""
    a("accuracy", logits, Tensor, "logits as a tensor")
    labels = to_host(labels, who="accuracy: labels")
    if logits.ndim != 2 or not logits.size or labels.shape != logits.shape[:1]:
        raise ValueError(
            f"accuracy: logits {logits.shape} and labels {labels.shape}; give (rows, classes) and (rows,)."
        )
    check_labels("accuracy", labels, logits.shape[1])
    scores = logits.numpy()
    if lost := np.flatnonzero(np.isnan(scores).any(axis=1)).tolist():
        raise ValueError(f"accuracy: the logits of {len(lost)} rows hold NaN, row {lost[0]} first; nothing is largest.")
    return float((scores.argmax(axis=1) == labels).mean())
