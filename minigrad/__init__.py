"""minigrad: automatic differentiation on a GPU, with every kernel, gradient and cost in sight."""

from importlib import import_module
from typing import Any

from minigrad import ops  # noqa: F401  importing the rooms registers the ops
from minigrad.create import manual_seed, ones, randn, tensor, uniform, zeros
from minigrad.devices import devices, kernel_device
from minigrad.kernel import kernel
from minigrad.op import OPS
from minigrad.tape import no_grad
from minigrad.tensor import Tensor

__version__ = "0.1.0"
# Loaded at their first use: import minigrad stays quick.
_LATER = ("bench", "check", "data", "microscope", "nn", "optim", "show")
__all__ = [
    "OPS", "Tensor", "devices", "kernel", "kernel_device", "manual_seed", "no_grad", "ones", "randn", "tensor",
    "uniform", "zeros", *_LATER, *OPS,
]  # fmt: skip
globals().update(OPS)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return import_module(f"minigrad.{name}")
    if name == "inspect":
        return import_module("minigrad.microscope").inspect
    if name == "doctor":
        return import_module("minigrad.doctor").doctor
    raise AttributeError(f"minigrad has no {name!r}.")
