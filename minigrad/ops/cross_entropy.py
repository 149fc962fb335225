"""cross_entropy: the loss of a classifier, from its logits and the labels."""

from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import MAX_THREADS
from minigrad.devices.dtypes import has_gradient, wide
from minigrad.errors import require_number
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.op import OPS, Case, Op
from minigrad.ops import rowwise
from minigrad.ops.astype import cast
from minigrad.ops.log_softmax import forward as log_softmax
from minigrad.ops.reduction import reduce

REDUCTIONS = ("mean", "sum", "none")
LONG, VECTOR = 16 * MAX_THREADS, 8  # numbers of a row that a block no longer holds, and of a vector of 2-byte numbers
FAST = rowwise.FAST | {"forward_long": "long", "backward_long": "long_backward"}


def forward(
    logits: np.ndarray, labels: np.ndarray, reduction: str = "mean", label_smoothing: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """loss = mean over the rows of log(sum(exp(x))) - x[label]

    With label smoothing s, x[label] is (1 - s) x[label] + s mean(x): the target of each class is s / classes, that of
    the label 1 - s more. The loss of bfloat16 is float32.
    """
    logits = logits.astype(wide(logits.dtype), copy=False)
    logs, smoothing = log_softmax(logits), logits.dtype.type(label_smoothing)
    losses = -np.take_along_axis(logs, labels[:, None], axis=1)[:, 0]
    if label_smoothing:
        losses = (1 - smoothing) * losses - smoothing * logs.mean(axis=1)
    most = logits.max(1, initial=-np.inf)
    loss = losses if reduction == "none" else losses.sum() / divisor(reduction, len(labels))
    return loss, most, np.exp(logits - most[:, None]).sum(1)


def backward(
    dy: np.ndarray, logits: np.ndarray, labels: np.ndarray, most: np.ndarray, total: np.ndarray, reduction: str,
    label_smoothing: float,
) -> tuple:  # fmt: skip
    """dx = (softmax(x) - onehot(label)) * dy / rows

    With label smoothing s, onehot(label) is (1 - s) onehot(label) + s / classes.
    """
    dtype, logits = logits.dtype, logits.astype(wide(logits.dtype), copy=False)
    smoothing = logits.dtype.type(label_smoothing)
    onehot = labels[:, None] == np.arange(logits.shape[1])
    target = onehot * (1 - smoothing) + smoothing / max(logits.shape[1], 1)
    dlosses = dy.astype(logits.dtype).reshape(-1, 1) / divisor(reduction, len(labels))
    p = np.exp(logits - most[:, None]) / total[:, None]
    return ((p - target) * dlosses).astype(dtype, copy=False), None


def divisor(reduction: str, rows: int) -> int:
    """The divisor of the sum of losses: rows for a mean (0/0 = NaN without rows), else 1."""
    return rows if reduction == "mean" else 1


def launch(
    kernels: dict[str, Kernel], logits: Array, labels: Array, reduction: str, label_smoothing: float
) -> tuple[Array, Array, Array]:
    """A loss for each row, then their sum or mean; of long rows also the maximum and the sum of exponentials."""
    rows, classes = logits.shape
    losses = Array.empty(logits.device, (rows,), wide(logits.dtype))
    launch, extents = fitting(kernels, "forward", rows, classes)
    kept = peaks_of(logits, rows if launch.kernel.name.endswith("_long") else 0)
    launch(logits, labels, losses, *(x for x in kept if x.size), *extents, label_smoothing)
    loss = losses if reduction == "none" else reduce(OPS["sum"].running, losses, (0,), False, divisor(reduction, rows))
    return loss, *kept


def peaks_of(logits: Array, rows: int) -> tuple[Array, Array]:
    """The arrays for the maximum and the sum of exponentials of so many rows."""
    most, total = (Array.empty(logits.device, (rows,), wide(logits.dtype)) for _ in range(2))
    return most, total


def launch_backward(
    kernels: dict[str, Kernel], needs: tuple, dy: Array, logits: Array, labels: Array, most: Array, total: Array,
    reduction: str, label_smoothing: float,
) -> tuple[Array, None]:  # fmt: skip
    """One kernel, which recomputes the softmax; for long rows from what the forward pass has kept."""
    (rows, classes), step = logits.shape, int(reduction == "none")
    dx = Array.empty(logits.device, logits.shape, logits.dtype)
    launch, extents = fitting(kernels, "backward", rows, classes)
    kept: tuple[Array, ...] = ()
    if launch.kernel.name.endswith("_long_backward"):
        kept = most, total
        if most.size < rows:  # the forward pass was another kernel's
            kept = peaks_of(logits, rows)
            losses = Array.empty(logits.device, (rows,), most.dtype)
            kernels["long"].launch(rows)(logits, labels, losses, *kept, classes, label_smoothing)
    dy = cast(dy, wide(logits.dtype))
    launch(dy, logits, labels, *kept, dx, *extents, label_smoothing, step, divisor(reduction, rows))
    return dx, None


def kernels_of() -> dict[str, Kernel]:
    """Those of any row, and those of a row that is too long to be held, which read it by vectors."""
    blocks = (512, 64, 128, 256, 1024)
    long = {
        key: Kernel("cross_entropy.cu", f"cross_entropy_{key}", ("rows",), ("BLOCK",), "rows", BLOCK=blocks)
        for key in ("long", "long_backward")
    }
    return rowwise.kernels_of("cross_entropy") | long


def fitting(kernels: dict[str, Kernel], way: str, rows: int, classes: int) -> tuple[Launch, tuple[int, ...]]:
    """The launch for these rows, and the extents that its kernel takes."""
    long = rowwise.requested(kernels, way, "long")
    if long and classes % VECTOR == 0 and (classes > LONG or long is kernels[way]):
        return long.launch(rows), (classes,)
    return rowwise.fitting(kernels, way, rows, classes)


def prepare(logits: Any, labels: Any, reduction: Any = "mean", label_smoothing: Any = 0.0) -> dict[str, Any]:
    """Raises TypeError for dtypes, ValueError for shapes, for labels that are no class and for the parameters.

    Labels on `cuda` are not checked, since that would wait for the GPU: loss and gradient of a wrong one are NaN.
    """
    if logits.ndim != 2 or labels.shape != logits.shape[:1]:
        raise ValueError(
            f"cross_entropy takes logits (rows, classes) and labels (rows,); got {logits.shape} and {labels.shape}. "
            "Reshape further axes into the rows."
        )
    if not has_gradient(logits.dtype):
        raise TypeError(f"cross_entropy: logits are {logits.dtype}; they must be floats: logits.astype('float32').")
    if labels.dtype != np.int64:
        raise TypeError(f"cross_entropy: labels are {labels.dtype}; they must be int64: labels.astype('int64').")
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        raise ValueError(f"cross_entropy: reduction={reduction!r} is not one of {', '.join(REDUCTIONS)}.")
    if not (isinstance(labels, Array) and labels.device.is_gpu):
        check_labels("cross_entropy", labels.numpy() if isinstance(labels, Array) else labels, logits.shape[1])
    smoothing = require_number("cross_entropy", "label_smoothing", label_smoothing, most=1)
    return {"reduction": reduction, "label_smoothing": smoothing}


def check_labels(who: str, labels: np.ndarray, classes: int) -> None:
    """Raise ValueError for the first label that is not one of the classes."""
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(
            f"{who}: label {labels[row]} in row {row} is not a class; {classes} classes are 0 to {classes - 1}."
        )


def cost(logits: Any, labels: Any, reduction: str = "mean", label_smoothing: float = 0.0) -> tuple[int, int]:
    """Per logit a comparison, a subtraction, an exponential and an addition, or two; all read once."""
    losses = labels.size if reduction == "none" else 1
    return (5 if label_smoothing else 4) * logits.size, (logits.size + losses) * logits.dtype.itemsize + labels.size * 8


def _case(rows: int, classes: int, **params: Any) -> Case:
    labels = np.linspace(0, classes - 1, rows).astype(np.int64)  # from the first class to the last
    return Case(((rows, classes), labels), params)


cross_entropy = Op(
    "cross_entropy",
    forward,
    backward,
    kernels=kernels_of(),
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    saves=("most", "total"),
    cost=cost,
    fast=FAST,
    widens=False,
    integers=True,
    cases=[
        *(_case(*shape) for shape in ((1, 1), (3, 2), (33, 10), (2, 1025), (3, 1024), (3, 516), (2, 16392))),
        *(_case(9, 10, reduction=reduction) for reduction in ("sum", "none")),
        *(_case(*shape, label_smoothing=0.1) for shape in ((1, 1), (33, 10), (2, 1025), (3, 516))),
        _case(5, 3, reduction="none", label_smoothing=1.0),
        Case(((5, 3), np.arange(5) % 3), {"reduction": "none"}, nan=True),
        Case((np.array([[1000.0, -1000.0, 0.0]] * 2), np.array([0, 1]))),
        Case((np.tile([1000.0, -1000.0, 0.0, -1e4], 6)[None], np.array([6]))),
    ],
)
