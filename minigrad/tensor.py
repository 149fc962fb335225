"""The values of a Tensor: as a NumPy array, as a number, as text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np

from minigrad import tape
from minigrad.devices import check, default_device
from minigrad.devices.array import Array
from minigrad.devices.dtypes import check_dtype, convert, copied, device_of, has_gradient, memory, move, number, to_host
from minigrad.errors import a, flag
from minigrad.operators import Operators


class Values:
    """What a tensor is, and what it holds, brought to the host."""

    __slots__ = ()
    array: Any
    node: Any
    _requires_grad: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The extent of each axis."""
        return self.array.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.array.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.array.size

    @property
    def dtype(self) -> np.dtype:
        """The type of an element."""
        return self.array.dtype

    @property
    def device(self) -> str:
        """`numpy`, `sim` or `cuda`."""
        return device_of(self.array)

    def numpy(self) -> np.ndarray:
        """A copy as a NumPy array, from any device."""
        return self.array.numpy() if isinstance(self.array, Array) else self.array.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def _without_op(self, function: Any, given: Any, named: Mapping[str, Any]) -> Any:
        """A function of NumPy that is no op takes the values, as np.linalg.norm(x) does."""
        return function(*_arrays(given), **{name: _arrays(x) for name, x in named.items()})

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
                f"a tensor of shape {self.shape} has no one truth. Ask its .numpy() for .all() or .any(), or choose "
                "element by element: mg.where(x > 0, a, b)."
            )
        return bool(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor with no axes.")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        tensor: Any = self
        return (tensor[i] for i in range(len(self)))

    def __repr__(self) -> str:
        body = np.array2string(self.numpy(), separator=", ", prefix="tensor(", threshold=64, edgeitems=3)
        notes = [] if self.dtype in (np.float32, np.int64, np.bool_) else [f"dtype={self.dtype}"]
        notes += [] if self.device == default_device() else [f"device={self.device!r}"]
        notes += [f"op={self.node.op}"] if self.node else ["requires_grad=True"] if self._requires_grad else []
        return f"tensor({', '.join([body, *notes])})"


def _arrays(given: Any) -> Any:
    """The same with arrays for tensors, also within lists and tuples."""
    if isinstance(given, list | tuple):
        return (list if isinstance(given, list) else tuple)(map(_arrays, given))
    return given.numpy() if isinstance(given, Values) else given


class Tensor(Values, Operators):
    """An n-dimensional array that can be differentiated. Make one with `mg.tensor`."""

    __slots__ = ("__weakref__", "_grad", "_requires_grad", "_version", "array", "node")

    def __init__(self, array: Any, requires_grad: bool = False, version: tape.Version | None = None):
        self.array, self._version = array, version
        self._grad: Tensor | None = None
        self.node: tape.Node | None = None
        self._requires_grad = requires_grad

    # --- what it is ---

    @property
    def version(self) -> tape.Version:
        """Counts the writes to its memory; there is none until somebody asks."""
        if self._version is None:
            self._version = tape.Version()
        return self._version

    @property
    def requires_grad(self) -> bool:
        """Whether operations on it are recorded. Only leaves can be set."""
        return self._requires_grad or self.node is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if self.node is not None:
            raise RuntimeError("requires_grad can be set on leaves only; this tensor was computed. Use .detach().")
        if flag("tensor", "requires_grad", wanted) and not has_gradient(self.dtype):
            raise TypeError(f"only tensors of floats can require gradients, not {self.dtype}: write 1.0.")
        tape.turn(self, bool(wanted))

    @property
    def grad(self) -> "Tensor | None":
        """The gradient that `backward` has added up here, or None. What is set must be of this shape, dtype, device."""
        if effects := tape.effects():
            effects.looks_at(self)
        return self._grad

    @grad.setter
    def grad(self, given: "Tensor | None") -> None:
        if given is not None:
            self._must_be_like(a("grad", given, Tensor, "a tensor or None"), "grad", "Assign a tensor like it, or None")
        if effects := tape.effects():
            effects.sets(self, given)
        self._grad = given

    @property
    def is_leaf(self) -> bool:
        """Whether a user made it, rather than a recorded operation."""
        return self.node is None

    # --- the tape ---

    def record(self, op: str, inputs: Sequence["Tensor"], vjp: tape.Vjp, saved: Sequence[tape.Saved]) -> None:
        """Make this tensor the output of a recorded operation."""
        parents = tuple([t.node or (t if t._requires_grad else None) for t in inputs])
        self.node = tape.Node(op, parents, vjp, saved, self.array)

    def backward(self, grad: Union["Tensor", None] = None, retain_graph: bool = False) -> None:
        """Add d(self)/d(leaf), times `grad`, to `.grad` of every leaf. A non-scalar needs `grad`, of its own shape."""

        def add(a: Any, b: Any) -> Any:
            from minigrad.op import OPS

            return OPS["add"].run([a, b], {})

        seed, noted = self._seed(grad), tape.effects()
        delivered = {memory(seed)}  # a rule may hand dy itself to several leaves; each gets memory of its own
        for at, total in tape.gradients(self.node or self, seed, add):
            if isinstance(at, Tensor):
                if device_of(total) != at.device:  # the leaf has moved since the forward pass
                    total = move(total, at.device)
                if at._grad is not None:
                    total = add(at._grad.array, total)
                elif memory(total) in delivered:
                    total = copied(total)
                delivered.add(memory(total))
                grad = Tensor(total)
                if noted:
                    noted.gives(at, grad)
                at._grad = grad
            elif not retain_graph:
                at.free()
            del total  # what the next rule makes may have its memory

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
        """Note that `who` changes this tensor in place. Raises where the tape needs it unchanged."""
        if self.requires_grad and tape.grad_enabled():
            raise RuntimeError(
                f"{who} changes a tensor that requires a gradient, in place. Do it under `with mg.no_grad():`."
            )
        self.version.count += 1
        if effects := tape.effects():
            effects.written.append(self.version)

    def assign(self, value: Any, who: str = "assign") -> "Tensor":
        """Overwrite the values in place, keeping the memory: parameters are updated so, under `no_grad`."""
        other = self.fitting(value, who)
        if other.requires_grad and not self.requires_grad and tape.grad_enabled():
            raise RuntimeError(
                f"{who} would lose a gradient: the tape does not follow what is written into a tensor that requires "
                "none. Write a = a + b instead of a += b; or add b.detach(), or b.item()."
            )
        self.written_by(who)
        if isinstance(self.array, Array):
            self.array.copy_from(other.array)
        else:
            np.copyto(self.array, other.array)
        return self

    def fitting(self, value: Any, who: str) -> "Tensor":
        """The value as a tensor that can be assigned to this one. Raises ValueError where it does not fit."""
        other = as_tensor(value, self, who)
        self._must_be_like(other, f"{who}: what is assigned", "Reshape, convert or move it")
        return other

    def __reduce__(self) -> tuple:
        """For copy.deepcopy and pickle: values, device and requires_grad; a gradient is not taken along."""
        if self.node is not None:
            raise RuntimeError("copy, pickle: this tensor was computed, and a tape is not copied. Use .detach().")
        return _restored, (self.numpy(), self.device, self._requires_grad)

    def to(self, device: str) -> "Tensor":
        """The same values on another device; itself where it is there already. Gradients travel back."""
        if check(device) == (source := self.device):
            return self
        return self._converted("to", move(self.array, device), lambda dy: (move(dy, source),))

    def astype(self, dtype: Any) -> "Tensor":
        """The same values in another dtype, converted on the host; itself where the dtype is the same."""
        before, after = self.dtype, check_dtype(dtype)
        if before == after:
            return self
        return self._converted("astype", convert(self.array, after), lambda dy: (convert(dy, before),))

    def _converted(self, name: str, array: Any, vjp: tape.Vjp) -> "Tensor":
        result = Tensor(array)
        if self.requires_grad and tape.grad_enabled() and has_gradient(array.dtype):
            result.record(name, (self,), vjp, ())
        return result


def _restored(values: np.ndarray, device: str, requires_grad: bool) -> Tensor:
    """What a copied or pickled tensor becomes."""
    return Tensor(move(values, check(device)), requires_grad)


def as_tensor(value: Any, like: Tensor, who: str) -> Tensor:
    """A tensor as it is; a number or array becomes one on the device of `like`, a Python number in its dtype."""
    if isinstance(value, Tensor):
        return value
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) in (bool, int, float):
        return Tensor(number(who, value, like.dtype, like.device))
    return Tensor(move(to_host(value, who=who), like.device))
