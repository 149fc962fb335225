"""autocast: products in bfloat16, of parameters that stay float32."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from minigrad import tape
from minigrad.devices.dtypes import dtype_of, is_bfloat16
from minigrad.tensor import Tensor

FLOAT32 = np.dtype(np.float32)
DTYPES = ("bfloat16", "float32")
# As in PyTorch: products take bfloat16; sums of many terms, exponentials and losses are made in float32.
PRODUCTS = ("conv2d", "conv2d_relu", "matmul", "matmul_transposed")
EXACT = ("exp", "log", "log_softmax", "power", "softmax", "sum")
# They take both dtypes as they are. The loss of cross_entropy is float32.
MIXED = (
    "add_layer_norm", "add_rms_norm", "astype", "batch_norm", "batch_norm_relu", "bias_gelu_tanh", "cross_entropy",
    "self_attention",
)  # fmt: skip


@contextmanager
def autocast(dtype: str = "bfloat16") -> Iterator[None]:
    """Within it the products of a network are made in bfloat16, and its parameters stay float32: the master weights.

    `with mg.autocast("bfloat16"): loss = mg.cross_entropy(net(x), labels)`, then `loss.backward()` and the optimizer's
    step as always. conv2d, conv2d_relu and matmul round float32 inputs to bfloat16 and give bfloat16; exponentials and
    sums take bfloat16 as float32; cross_entropy takes it as it is and gives a loss in float32; all other ops take what
    they get, and where bfloat16 meets float32 both are float32.
    Rounding is recorded, so the gradients of parameters are float32, and so are optimizer and state_dict. A parameter
    is rounded once as long as it does not change. bfloat16 has the range of float32, so losses need no scaling.
    "float32" ends it for a part of a network. Also a function decorator.
    """
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"autocast {dtype!r} is not one of {', '.join(DTYPES)}.")
    token = _active.set(Casts() if dtype == "bfloat16" else None)
    try:
        yield
    finally:
        _active.reset(token)


class Copy(NamedTuple):
    """A parameter in bfloat16, made of its array at a version, for the step that was being captured or none."""

    parameter: Tensor
    array: Any
    version: int
    recorder: Any
    rounded: Tensor

    def serves(self) -> bool:
        """True where an op may take it again: nothing has changed, and a gradient finds its way to the parameter."""
        p, node = self.parameter, self.rounded.node
        recorded = p.requires_grad and tape.grad_enabled()
        same = p.array is self.array and p.version.count == self.version and tape.mode.recorder is self.recorder
        return same and (node is not None) == recorded and (node is None or node.vjp is not None)


class Casts:
    """The inputs of ops in the dtypes of `autocast`, and the copies of parameters in bfloat16."""

    def __init__(self) -> None:
        self._copies: dict[int, Copy] = {}

    def inputs(self, op: str, args: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """The arguments of a call of this op, with its tensors of floats in one dtype."""
        kinds = {x.dtype for x in _tensors((*args, *named.values()))}
        low = any(map(is_bfloat16, kinds))
        wanted = "bfloat16" if op in PRODUCTS else "float32" if op in EXACT or (low and FLOAT32 in kinds) else ""
        if not wanted or op in MIXED or not (low or FLOAT32 in kinds):
            return args, named
        dtype = dtype_of(wanted)
        return tuple(self._cast(x, dtype) for x in args), {name: self._cast(x, dtype) for name, x in named.items()}

    def _cast(self, x: Any, dtype: np.dtype) -> Any:
        """An argument in the dtype, if it is a tensor of float32 or bfloat16, or a list of them."""
        if isinstance(x, list | tuple):
            return [self._cast(each, dtype) for each in x] if next(_tensors(x), None) is not None else x
        if not isinstance(x, Tensor) or x.dtype == dtype or not (x.dtype == FLOAT32 or is_bfloat16(x.dtype)):
            return x
        if not (x.is_leaf and x.requires_grad):
            return x.astype(dtype)
        copy = self._copies.get(id(x))
        if copy is None or not copy.serves():
            copy = Copy(x, x.array, x.version.count, tape.mode.recorder, x.astype(dtype))
            self._copies[id(x)] = copy
        return copy.rounded


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among values, and in lists of them."""
    for x in values:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, list | tuple):
            yield from _tensors(x)


_active: ContextVar[Casts | None] = ContextVar("autocast", default=None)
current = _active.get  # of this thread or task
