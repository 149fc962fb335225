"""Tensor: an array on a device, its gradient, and the node of the tape that made it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np

from minigrad import numpy_functions, tape
from minigrad.devices import check, default_device
from minigrad.devices.array import Array
from minigrad.devices.dtypes import check_dtype, copied, device_of, has_gradient, is_last, memory, move, number, to_host
from minigrad.devices.layouts import LAYOUTS, in_layout, typed, wants_last
from minigrad.errors import require, require_bool
from minigrad.operators import OPS, Operators


class Tensor(Operators):
    """An n-dimensional array that can be differentiated. Make one with `mg.tensor`."""

    __slots__ = ("__weakref__", "_grad", "_requires_grad", "_version", "array", "node")

    def __init__(self, array: Any, requires_grad: bool = False, version: tape.Version | None = None):
        self.array, self._version = array, version
        self._grad: Tensor | None = None
        self.node: tape.Node | None = None
        self._requires_grad: bool | None = requires_grad  # None: frozen

    shape = property(lambda self: self.array.shape, doc="The extent of each axis.")
    ndim = property(lambda self: len(self.array.shape), doc="The number of axes.")
    size = property(lambda self: self.array.size, doc="The number of elements.")
    dtype = property(lambda self: self.array.dtype, doc="The type of an element.")
    device = property(lambda self: device_of(self.array), doc="The name of the device: `numpy`, `sim`, `cuda`.")

    layout = property(lambda self: LAYOUTS[is_last(self.array)], doc="The order of images in memory: `NCHW`, `NHWC`.")
    is_leaf = property(lambda self: self.node is None, doc="True unless a recorded operation made it.")

    def numpy(self) -> np.ndarray:
        """A copy as a NumPy array, from any device."""
        return self.array.numpy() if isinstance(self.array, Array) else self.array.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def _numpy_function(self, function: Any, inputs: Any, named: Mapping[str, Any]) -> Any:
        """Call a NumPy function that has no op of its name on the values, as in np.argmax(x)."""
        return numpy_functions.call(function, inputs, named)

    def item(self) -> float | int | bool:
        """The only element, as a Python number."""
        if self.size != 1:
            raise ValueError(f"item() needs a tensor of one element; this one has shape {self.shape}. Use .numpy().")
        return self.numpy().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                f"a tensor of shape {self.shape} is neither true nor false. Ask its .numpy() for .all() or .any(), or "
                "choose element by element: mg.where(x > 0, a, b)."
            )
        return bool(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor with no axes.")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        body = np.array2string(self.numpy(), separator=", ", prefix="tensor(", threshold=64, edgeitems=3)
        notes = [] if self.dtype in (np.float32, np.int64, np.bool_) else [f"dtype={self.dtype}"]
        notes += [] if self.device == default_device() else [f"device={self.device!r}"]
        notes += [f"op={self.node.op}"] if self.node else ["requires_grad=True"] if self._requires_grad else []
        return f"tensor({', '.join([body, *notes])})"

    @property
    def version(self) -> tape.Version:
        """Counts the writes to its memory; created on first use."""
        self._version = self._version or tape.Version()
        return self._version

    @property
    def requires_grad(self) -> bool:
        """True where operations on it are recorded. Only leaves can be set."""
        return bool(self._requires_grad) or self.node is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if self.node is not None:
            raise RuntimeError("requires_grad can be set on leaves only; this tensor was computed. Use .detach().")
        if require_bool("tensor", "requires_grad", wanted) and not has_gradient(self.dtype):
            raise TypeError(f"only tensors of floats can require gradients, not {self.dtype}: write 1.0.")
        if wanted != self.requires_grad:
            self._requires_grad = True if wanted else None
            if isinstance(self.array, Array):
                tape.RequiresGrad.note(self.array.buffer.address)

    frozen = property(lambda self: self._requires_grad is None, doc="True where requires_grad went from True to False.")

    @property
    def grad(self) -> "Tensor | None":
        """The gradient that `backward` has accumulated, or None. A new one must have this shape, dtype and device."""
        if recorder := tape.mode.recorder:
            recorder.reads_grad(self)
        return self._grad

    @grad.setter
    def grad(self, given: "Tensor | None") -> None:
        if given is not None:
            given = require("grad", given, Tensor, "a tensor or None")
            self._must_be_like(given, "grad", "Assign a tensor like it, or None")
        if recorder := tape.mode.recorder:
            recorder.sets_grad(self, given)
        self._grad = given

    def record(self, op: str, inputs: Sequence["Tensor"], vjp: tape.Vjp, saved: Sequence[tape.Saved]) -> None:
        """Make this tensor the output of a recorded operation."""
        parents = tuple([t.node or (t if t._requires_grad else None) for t in inputs])
        self.node = tape.Node(op, parents, vjp, saved, self.array)

    def backward(self, grad: Union["Tensor", None] = None, retain_graph: bool = False) -> None:
        """Add d(self)/d(leaf), times `grad`, to `.grad` of every leaf. A non-scalar needs `grad`, of its own shape."""
        seed, recorder = self._seed(grad), tape.mode.recorder
        require_bool("backward", "retain_graph", retain_graph)
        delivered = {memory(seed)}  # a rule may hand dy itself to several leaves; each gets memory of its own
        followers = [follow() for follow in tape.FOLLOWERS]
        for at, total in tape.gradients(self.node or self, seed, _add):
            if isinstance(at, Tensor):
                if device_of(total) != at.device:  # the leaf has moved since the forward pass
                    total = move(total, at.device)
                total = typed(in_layout(total, is_last(at.array)), at.dtype)
                if at._grad is not None:
                    total = _add(at._grad.array, total)
                elif memory(total) in delivered:
                    total = copied(total)
                delivered.add(memory(total))
                grad = Tensor(total)
                if recorder:
                    recorder.delivers_grad(at, grad)
                at._grad = grad
                for call in followers:
                    call(at)
            elif not retain_graph:
                at.free()
            del total  # the next rule may reuse its memory
        for call in followers:
            call(None)

    def _seed(self, grad: Union["Tensor", None]) -> Any:
        if not self.requires_grad:
            raise RuntimeError("backward: nothing here requires a gradient. Make a leaf with requires_grad=True.")
        if grad is None:
            if self.size != 1:
                raise RuntimeError(
                    f"backward: this tensor has shape {self.shape}, and only a scalar starts by itself. "
                    "Reduce it, e.g. y.sum().backward(), or pass backward(grad) with the upstream gradient."
                )
            return number("backward", 1.0, self.dtype, self.device).reshape(self.shape)
        grad = as_tensor(grad, self, "backward")
        self._must_be_like(grad, "backward: grad", "Give one like the tensor")
        return grad.array

    def _must_be_like(self, other: "Tensor", what: str, way_out: str) -> None:
        """Raise ValueError where another tensor is not of this one's shape, dtype and device."""
        if (other.shape, other.dtype, other.device) != (self.shape, self.dtype, self.device):
            raise ValueError(
                f"{what} is {other.dtype} {other.shape} on {other.device}; "
                f"it must be {self.dtype} {self.shape} on {self.device}. {way_out}."
            )

    def detach(self) -> "Tensor":
        """The same memory, cut off the tape."""
        return Tensor(self.array, version=self.version)

    def written_by(self, who: str) -> None:
        """Count a write of `who` in place. Raises RuntimeError where the tape would miss it."""
        if self.requires_grad and tape.grad_enabled():
            raise RuntimeError(
                f"{who} changes a tensor that requires a gradient, in place. Do it under `with mg.no_grad():`."
            )
        self.version.count += 1
        if recorder := tape.mode.recorder:
            recorder.writes(self.version)

    def assign(self, value: Any, who: str = "assign") -> "Tensor":
        """Overwrite the values in place, in the same memory: the way to update parameters, under `no_grad`."""
        other = self.fitting(value, who)
        if other.requires_grad and not self.requires_grad and tape.grad_enabled():
            raise RuntimeError(
                f"{who} would lose a gradient: the tape does not follow what is written into a tensor that requires "
                "none. Write a = a + b instead of a += b; or add b.detach(), or b.item()."
            )
        self.written_by(who)
        if isinstance(self.array, Array):
            self.array.copy_from(in_layout(other.array, self.array.channels_last))
        else:
            np.copyto(self.array, other.array)
        return self

    def _in_place(self, op: str, other: Any) -> "Tensor":
        return self.assign(OPS[op](self, other), f"in-place {op}")

    def fitting(self, value: Any, who: str) -> "Tensor":
        """The value as a tensor like this one. Raises ValueError for another shape, dtype or device."""
        other = as_tensor(value, self, who)
        self._must_be_like(other, f"{who}: what is assigned", "Reshape, convert or move it")
        return other

    def __reduce__(self) -> tuple:
        """For copy.deepcopy and pickle: values, device and requires_grad; not the gradient."""
        if self.node is not None:
            raise RuntimeError("copy, pickle: this tensor was computed, and a tape is not copied. Use .detach().")
        return _restored, (self.numpy(), self.device, self._requires_grad)

    def to(self, device: str | None = None, layout: str | None = None) -> "Tensor":
        """The same values on another device, or images with the channels last: layout="NHWC"; itself if already so."""
        source, array = self.device, self.array
        if device is not None and check(device) != source:
            array = move(array, device)
        if layout is not None:
            array = in_layout(array, wants_last(layout, self.shape))
        back = (lambda dy: (move(dy, source),)) if device_of(array) != source else lambda dy: (dy,)
        result = self if array is self.array else Tensor(array)
        if result is not self and self.requires_grad and tape.grad_enabled():
            result.record("to", (self,), back, ())
        return result

    def astype(self, dtype: Any) -> "Tensor":
        """The same values in another dtype; itself where the dtype is the same."""
        return self if check_dtype(dtype) == self.dtype else OPS["astype"](self, dtype=dtype)


def output(array: Any, version: tape.Version | None, new: Callable = object.__new__) -> Tensor:
    """Tensor(array, version=version), in half the time: every op makes one."""
    result: Tensor = new(Tensor)
    result.array, result._version = array, version
    result._grad = result.node = None
    result._requires_grad = False
    return result


def _add(a: Any, b: Any) -> Any:
    """Two gradients on any device."""
    return OPS["add"].run([a, typed(b, a.dtype)], {})


def _restored(values: np.ndarray, device: str, requires_grad: Any) -> Tensor:
    """A tensor from a copy or a pickle."""
    return Tensor(move(values, check(device)), requires_grad)


def as_tensor(value: Any, like: Tensor, who: str) -> Tensor:
    """A tensor as it is; a number or array becomes one on the device of `like`, a Python number in its dtype."""
    if isinstance(value, Tensor):
        return value
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) in (bool, int, float):
        return Tensor(number(who, value, like.dtype, like.device))
    return Tensor(move(to_host(value, who=who), like.device))
