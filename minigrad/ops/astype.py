"""astype: the same values in another dtype, rounded to the nearest where that holds fewer digits."""

from typing import Any

import numpy as np

from minigrad.devices import dtypes
from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.op import Case, Op
from minigrad.ops.elementwise import RAGGED, launch_over, per_element, per_four
from minigrad.tensor import Tensor


def forward(x: np.ndarray, dtype: Any = None) -> np.ndarray:
    """y = x, in the dtype: by default its own"""
    return dtypes.cast("astype", x, prepare(x, dtype)["dtype"]).copy("K")


def backward(dy: np.ndarray, x: np.ndarray) -> tuple:
    """dx = dy, in the dtype of x"""
    return (forward(dy, x.dtype),)


kernels = {f"to_{name}": per_four("astype.cu", f"astype_{name}") for name in ("float32", "float64", "bfloat16")}
# To and from float16, a dtype of memory alone, whose arrays are for kernels of the reader's own.
of_half = {
    ("float16", "float32"): per_element("half.cu", "half_to_float"),
    ("float32", "float16"): per_element("half.cu", "float_to_half"),
}


def launch(kernels: dict[str, Kernel], x: Array, dtype: np.dtype) -> Array:
    """The kernel of the dtype; the layout stays."""
    y = Array.empty(x.device, x.shape, dtype, x.channels_last)
    launch_over(kernels[f"to_{dtype.name}"], x.size, x.dtype)(x, y, x.size)
    return y


def cast(x: Array, dtype: np.dtype) -> Array:
    """The array in this dtype: itself where it has it."""
    return x if x.dtype == dtype else launch(kernels, x, dtype)


def as_half(kernel: Kernel, x: Array, dtype: np.dtype) -> Array:
    y = Array.empty(x.device, x.shape, dtype, x.channels_last)
    kernel.launch(x.size)(x, y, x.size)
    return y


def prepare(x: Any, dtype: Any = None) -> dict[str, np.dtype]:
    """The dtype. Raises TypeError where kernels do not know it."""
    return {"dtype": x.dtype if dtype is None else dtypes.check_dtype(dtype)}


class Astype(Op):
    """An Op to a dtype of floats. The host converts to others: it finds a value that does not fit into an integer.

    A float16 has no gradient; it is converted from and to float32 on the device.
    """

    def __call__(self, *args: Any, **named: Any) -> Any:
        (x, *_), params = self.inputs.split(args, named)
        to = prepare(x, **params)["dtype"]
        if isinstance(x, Tensor) and (x.dtype == np.float16 or not dtypes.has_gradient(to)):
            kernel = of_half.get((x.dtype.name, to.name)) if isinstance(x.array, Array) else None
            return Tensor(as_half(kernel, x.array, to) if kernel else dtypes.convert(x.array, to))
        return super().__call__(*args, **named)


astype = Astype(
    "astype",
    forward,
    backward,
    launch=launch,
    launch_backward=lambda kernels, needs, dy, x: (cast(dy, x.dtype),),
    prepare=prepare,
    uses=("",),  # the dtype of x, and no value
    cost=lambda x, dtype=None: (0, x.size * (x.dtype.itemsize + prepare(x, dtype)["dtype"].itemsize)),
    integers=True,
    widens=False,
    layouts="alike",
    kernels=kernels,
    cases=[Case((shape,)) for shape in RAGGED],
)
