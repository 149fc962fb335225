"""Module: a part of a network, with parameters, buffers and a state that can be saved; Sequential joins several."""

from collections.abc import Callable, Iterator
from textwrap import indent
from typing import Any

from minigrad.devices import check
from minigrad.devices.dtypes import check_dtype
from minigrad.devices.state import fitting
from minigrad.errors import require, require_bool
from minigrad.tape import no_grad
from minigrad.tensor import Tensor


class Module:
    """A part of a network.

    Its parameters are the leaf tensors with requires_grad among its attributes and those of its modules; one whose
    requires_grad is set to False is frozen: no optimizer gets it, and it stays in the state. Its buffers, state that is
    not trained, such as a running mean, are the tensors given to `register_buffer`.
    """

    training = True
    transposed: tuple[str, ...] = ()  # parameters of its own that a state holds transposed, in PyTorch's shape
    _buffers: tuple[str, ...] = ()

    def __init__(self, *, device: str | None = None, dtype: Any = "float32"):
        """For modules without parameters: device and dtype are checked, and not needed."""
        check("numpy" if device is None else device)
        check_dtype(dtype)

    def register_buffer(self, name: str, value: Tensor) -> None:
        """Keep a tensor as the attribute `name` and in `state_dict`. Raises TypeError where it requires a gradient."""
        if require("register_buffer", value, Tensor, "a tensor").requires_grad:
            raise TypeError(f"register_buffer: {name} requires a gradient; assign it as a parameter: self.{name} = ...")
        self._buffers = (*self._buffers, *({name} - {*self._buffers}))
        setattr(self, name, value)

    def train(self, mode: bool = True) -> "Module":
        """Switch this module and all below it to training, `training=True`, or to evaluation."""
        self.training = require_bool("train", "mode", mode)
        for _, value in self._children():
            if isinstance(value, Module):
                value.train(mode)
        return self

    def eval(self) -> "Module":
        """Switch to evaluation: layers such as batch norm use their buffers."""
        return self.train(False)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, "Module"]]:
        """This module and all below it, each with what its paths begin with, e.g. "layer1.0."; a shared one several."""
        yield prefix, self
        for name, value in self._children():
            if isinstance(value, Module):
                yield from value.named_modules(f"{prefix}{name}.")

    def named_parameters(self, prefix: str = "", frozen: bool = False) -> Iterator[tuple[str, Tensor]]:
        """Each parameter with its path, e.g. "0.weight"; a shared one has several. frozen: frozen ones, too."""
        for path, module in self.named_modules(prefix):
            for name, x in module._children():
                if isinstance(x, Tensor) and x.is_leaf and (x.requires_grad or (frozen and x.frozen)):
                    yield f"{path}{name}", x

    def named_buffers(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Each buffer with its path, e.g. "1.running_mean"."""
        for path, module in self.named_modules(prefix):
            own = ((name, getattr(module, name, None)) for name in module._buffers)
            yield from ((f"{path}{name}", x) for name, x in own if isinstance(x, Tensor) and not x.requires_grad)

    def parameters(self) -> list[Tensor]:
        """Every parameter once, in the order of the attributes."""
        return list({id(x): x for _, x in self.named_parameters()}.values())

    def buffers(self) -> list[Tensor]:
        """Every buffer once."""
        return list({id(x): x for _, x in self.named_buffers()}.values())

    def zero_grad(self) -> None:
        """Clear all gradients; the next backward starts from none."""
        for _, parameter in self.named_parameters(frozen=True):
            parameter.grad = None

    def to(self, device: str | None = None, layout: str | None = None) -> "Module":
        """Move parameters and buffers in place, so that an optimizer follows them. Gradients are cleared.

        layout="NHWC" stores the kernels of convolutions, and then all images between layers, with the channels last.
        """
        parameters = {id(x): x for _, x in self.named_parameters(frozen=True)}
        for tensor in (*parameters.values(), *(x for x in self.buffers() if x.ndim)):  # a number stays on the host
            moved = tensor.detach().to(device, layout if tensor.ndim == 4 else None)
            tensor.array, tensor.grad = moved.array, None
        return self

    def state_dict(self) -> dict[str, Any]:
        """A copy of every parameter, frozen ones too, and buffer by name: NumPy arrays of PyTorch's shapes."""
        transposed = {*self._transposed()}
        return {name: x.numpy().T if name in transposed else x.numpy() for name, x in self._named_state()}

    def _named_state(self) -> Iterator[tuple[str, Tensor]]:
        yield from (*self.named_parameters(frozen=True), *self.named_buffers())

    def _transposed(self) -> Iterator[str]:
        return (f"{prefix}{name}" for prefix, module in self.named_modules() for name in module.transposed)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Overwrite parameters and buffers with those of `state_dict()`, or of a PyTorch model with the same names.

        A buffer without axes, a count, may be missing. Raises KeyError or ValueError, with nothing changed.
        """
        own, transposed, wanted = dict(self._named_state()), {*self._transposed()}, self.state_dict()
        counts = [name for name, x in wanted.items() if not x.ndim]
        new = fitting("load_state_dict", state, wanted, optional=counts)
        with no_grad():  # every entry fits, so a state is loaded whole or not at all
            for name, x in new.items():
                own[name].assign(x.T if name in transposed else x)

    def _children(self) -> Iterator[tuple[str, Any]]:
        yield from vars(self).items()

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The output of the module for an input."""
        raise NotImplementedError(f"{type(self).__name__} needs a method forward(self, x).")

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        return self.forward(*inputs, **named)

    def __repr__(self) -> str:
        parts = [(name.lstrip("_"), part) for name, part in self._children() if callable(part)]
        texts = (repr(part) if isinstance(part, Module) else getattr(part, "__name__", "?") for _, part in parts)
        lines = [indent(f"{name}: {text}", "  ") for (name, _), text in zip(parts, texts, strict=True)]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"]) if lines else f"{type(self).__name__}()"


class Sequential(Module):
    """One part after the other; a part is a module or any function of a tensor, e.g. `mg.relu`."""

    def __init__(self, *parts: Callable[[Tensor], Tensor]):
        self.parts = tuple(require("Sequential", part, Callable, "modules and functions of a tensor") for part in parts)

    def _children(self) -> Iterator[tuple[str, Any]]:
        return ((str(i), part) for i, part in enumerate(self.parts))

    def forward(self, x: Tensor) -> Tensor:
        """Each part applied to the result of the one before."""
        for part in self.parts:
            x = part(x)
        return x
