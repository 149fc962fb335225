"""minigrad: automatic differentiation on a GPU, with every kernel, gradient and cost in sight."""

import sys
from importlib import import_module
from typing import Any

from minigrad import ops  # noqa: F401  importing the rooms registers the ops
from minigrad.create import ones, randn, tensor, uniform, zeros
from minigrad.devices import devices, kernel_device
from minigrad.devices.random import manual_seed
from minigrad.kernels.source_kernel import kernel
from minigrad.op import OPS
from minigrad.rounding import precision
from minigrad.rounding.autocast import autocast
from minigrad.tape import no_grad
from minigrad.tensor import Tensor

__version__ = "0.1.0"
# Loaded at their first use: import minigrad stays quick.
_MODULES = {
    "adjoint": "minigrad.adjoint",
    "bench": "minigrad.lab.bench",
    "check": "minigrad.lab.check",
    "data": "minigrad.data",
    "distributed": "minigrad.distributed",
    "microscope": "minigrad.microscope",
    "nn": "minigrad.nn",
    "optim": "minigrad.optim",
    "recurrent": "minigrad.recurrent",
    "show": "minigrad.lab.show",
    "view": "minigrad.kernels.view",
}
_FUNCTIONS = {
    "Runtime": "minigrad.lab.runtime",
    "add_layer_norm": "minigrad.ops.add_layer_norm",
    "add_rms_norm": "minigrad.ops.add_rms_norm",
    "differentiable": "minigrad.adjoint",
    "doctor": "minigrad.lab.doctor",
    "empty": "minigrad.lab.undefined",
    "exercise": "minigrad.lab.exercises.course",
    "fuse": "minigrad.fusion",
    "graph": "minigrad.replay.graph",
    "inspect": "minigrad.microscope",
    "load": "minigrad.nn.checkpoint",
    "memory": "minigrad.lab.memory",
    "mine": "minigrad.lab.own",
    "progress": "minigrad.lab.progress",
    "save": "minigrad.nn.checkpoint",
    "tune": "minigrad.lab.tune",
    "using": "minigrad.lab.own",
    "word": "minigrad.lab.words",
}
__all__ = [
    "OPS", "Tensor", "autocast", "devices", "kernel", "kernel_device", "manual_seed", "no_grad", "ones", "precision",
    "randn", "tensor", "uniform", "zeros", *_MODULES, *_FUNCTIONS, *OPS,
]  # fmt: skip
globals().update(OPS)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _FUNCTIONS:
        return getattr(import_module(_FUNCTIONS[name]), name)
    raise AttributeError(f"minigrad has no {name!r}.")


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext minigrad`: the magics `%%kernel`, `%%exercise` and `%%mpi`, and tracebacks that end in the cell."""
    import_module("minigrad.lab.notebook").register(shell)
    import_module("minigrad.lab.notebook").shorten(shell)


# In a notebook these are there at once; elsewhere IPython is neither needed nor imported.
if "IPython" in sys.modules and (_shell := sys.modules["IPython"].get_ipython()):
    load_ipython_extension(_shell)
