"""norm_linear: a layer of few rows with the norm before it, by one kernel: for a text that grows word by word."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import must_be_floats, wide
from minigrad.errors import require_bool
from minigrad.kernels.kernel import Kernel
from minigrad.op import Case, Op
from minigrad.ops import gelu_tanh, layer_norm

FILE, WARPS = "norm_linear.cu", (8, 2, 4, 16)
AXIS = {False: 1, True: 0}  # of the weight, along which the outputs are, by `transposed`


def forward(
    x: np.ndarray, scale: np.ndarray, shift: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None,
    eps: float = 1e-5, gelu: bool = False, transposed: bool = False,
) -> np.ndarray:  # fmt: skip
    """y = layer_norm(x, scale, shift) @ weight + bias, and gelu_tanh of it, or with weight^T

    For inference: it has no gradient. A row of x is held in the shared memory of a block, which is for rows of some
    thousand numbers.
    """
    normal = layer_norm.forward(x.astype(wide(x.dtype), copy=False), scale, shift, eps)[0]
    return finished(normal, weight, bias, gelu, transposed).astype(x.dtype, copy=False)


def finished(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, gelu: bool = False, transposed: bool = False
) -> np.ndarray:
    """x @ weight + bias, or gelu_tanh of it, in the type of arithmetic."""
    weight, *more = (a.astype(x.dtype, copy=False) for a in (weight, bias) if a is not None)
    y = sum(more, x @ (weight.T if transposed else weight))
    return gelu_tanh.forward(y) if gelu else y


def kernels_of() -> dict[str, Kernel]:
    """The kernel for weights (terms, columns), and for (columns, terms)."""

    def kernel(name: str, outputs: str, **tunables: Any) -> Kernel:
        sizes = f"{outputs.partition('/')[0]} rows shared"
        return Kernel(
            FILE,
            f"norm_linear_{name}",
            (outputs, "rows"),
            ("32*WARPS",),
            sizes,
            shared="shared",
            WARPS=WARPS,
            **tunables,
        )

    columns = kernel("columns", "columns/OUTPUTS", OUTPUTS=(8, 16, 32))
    return {"forward": columns, "forward_rows": kernel("rows", "columns/WARPS")}


def launch(
    kernels: Mapping[str, Kernel], x: Array, scale: Array, shift: Array, weight: Array, bias: Array | None = None, *,
    eps: float, gelu: bool, transposed: bool,
) -> Array:  # fmt: skip
    """One kernel."""
    return layer(kernels, x, weight, bias, (scale, shift), None, eps, gelu, transposed)


def layer(
    kernels: Mapping[str, Kernel], x: Array, weight: Array, bias: Array | None, norm: tuple = (None, None),
    residual: Array | None = None, eps: float = 0.0, gelu: bool = False, transposed: bool = False,
) -> Array:  # fmt: skip
    """y by the kernel for this weight."""
    terms, columns, rows = x.shape[-1], weight.shape[AXIS[transposed]], prod(x.shape[:-1])
    y = Array.empty(x.device, (*x.shape[:-1], columns), x.dtype)
    kernel, shape = kernels["forward"], (terms, columns)
    if transposed:
        kernel, shape = kernels["forward_rows"], (columns, terms)
    run = kernel.launch(columns, rows, terms * wide(x.dtype).itemsize)
    run(x, *norm, weight, bias, residual, y, eps, int(gelu), *shape)
    return y


def prepare(
    x: Any, scale: Any, shift: Any, weight: Any, bias: Any = None, eps: Any = 1e-5, gelu: Any = False,
    transposed: Any = False,
) -> dict[str, Any]:  # fmt: skip
    """Raises ValueError for shapes and TypeError for dtypes."""
    transposed = require_bool("norm_linear", "transposed", transposed)
    checked("norm_linear", x, weight, bias, transposed)
    params = layer_norm.prepare("norm_linear", x, scale, shift, eps)
    return {**params, "gelu": require_bool("norm_linear", "gelu", gelu), "transposed": transposed}


def checked(name: str, x: Any, weight: Any, bias: Any, transposed: bool = False) -> None:
    """Raise ValueError or TypeError where x, weight and bias do not fit."""
    must_be_floats(name, x, weight, *(() if bias is None else (bias,)))
    outputs = AXIS[transposed]
    if not x.ndim or weight.ndim != 2 or x.shape[-1] != weight.shape[1 - outputs]:
        wanted = "(columns, terms)" if transposed else "(terms, columns)"
        raise ValueError(f"{name}: x is {x.shape}, weight {weight.shape}; they must be (..., terms) and {wanted}.")
    if bias is not None and bias.shape != (weight.shape[outputs],):
        raise ValueError(f"{name}: bias is {bias.shape}; weight {weight.shape} needs ({weight.shape[outputs]},).")
    if len({a.dtype for a in (x, weight, bias) if a is not None}) > 1:
        raise TypeError(f"{name}: x is {x.dtype}, weight {weight.dtype}; x, weight and bias must have one dtype.")


def cost(x: Any, *others: Any, **params: Any) -> tuple[int, int]:
    """2 FLOPs for each weight and row, about 8 for each x; all arrays read once, y written once."""
    weight, columns = others[2], others[2].shape[AXIS[params.get("transposed", False)]]
    rows, moved = prod(x.shape[:-1]), sum(a.size * a.dtype.itemsize for a in (x, *others))
    return 2 * rows * weight.size + 8 * x.size, moved + rows * columns * x.dtype.itemsize


def _case(terms: int, columns: int, *rows: int, bias: bool = True, transposed: bool = False, **params: Any) -> Case:
    weight = (columns, terms) if transposed else (terms, columns)
    given = (*rows, terms), (terms,), (terms,), weight, *[(columns,)] * bias
    return Case(given, {**params, "transposed": transposed})


norm_linear = Op(
    "norm_linear",
    forward,
    kernels=kernels_of(),
    launch=launch,
    prepare=prepare,
    integers=True,
    widens=False,
    cost=cost,
    cases=[
        *(
            _case(*sizes, transposed=turned)
            for turned in (False, True)
            for sizes in ((4, 8, 1), (33, 65, 3), (300, 12, 2, 1), (1, 1), (260, 132, 1))
        ),
        _case(24, 20, 2, gelu=True), _case(36, 5, 1, bias=False, transposed=True, eps=0.1), _case(8, 4, 0),
    ],
)  # fmt: skip
