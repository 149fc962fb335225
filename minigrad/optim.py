"""The numbers of an optimizer, which may be set at any time."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.caches import Memo
from minigrad.devices.dtypes import move
from minigrad.errors import a, number
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import ceil_div
from minigrad.ops.elementwise import per_element
from minigrad.replay.launches import Program
from minigrad.tape import effects, no_grad
from minigrad.tensor import Tensor


class Setting:
    """A number of an optimizer, checked whenever it is set: `optimizer.lr = 0.01`."""

    def __init__(self, check: Callable[[str, str, Any], Any] = number):
        self.check = check

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __set__(self, optimizer: Any, value: Any) -> None:
        vars(optimizer)[self.name] = self.check(type(optimizer).__name__, self.name, value)

    def __get__(self, optimizer: Any, owner: type) -> Any:
        if optimizer is None:
            return self
        try:
            return vars(optimizer)[self.name]
        except KeyError:
            raise AttributeError(f"{owner.__name__} has no {self.name} yet; set it first.") from None


def two_below_one(who: str, name: str, value: Any) -> tuple[float, ...]:
    """The numbers themselves. Raises TypeError or ValueError."""
    if len(a(f"{who}: {name}", value, list | tuple, "two numbers, e.g. (0.9, 0.999)")) != 2:
        raise ValueError(f"{who}: {name}={value!r:.60} must be two numbers, e.g. (0.9, 0.999).")
    return tuple(number(who, f"{name}[{i}]", given, below=1) for i, given in enumerate(value))


MANY, BLOCK, PIECE = 8, 256, 1024  # parameters that a launch updates; threads of a block, and elements
Row = Sequence[Any]  # a parameter, its gradient, its states


def per_parameters(name: str) -> Kernel:
    """A kernel for MANY parameters, whose blocks are theirs one after the other."""
    return Kernel("optim.cu", name, ("blocks",), (str(BLOCK),), "blocks")


SGD_STEPS = per_parameters("sgd_steps")
ADAM_STEPS = per_parameters("adam_steps")
ADAM_COUNTS = Kernel("optim.cu", "adam_counts", ("1",), (str(MANY),))


def blocks(rows: Sequence[Row]) -> int:
    """Blocks for these parameters: each has its own."""
    return sum(ceil_div(row[0].size, PIECE) for row in rows)


def sized(rows: Sequence[Row]) -> list[Row]:
    """With the number of elements behind each row."""
    return [(*row, row[0].size) for row in rows]


def places(rows: Sequence[Row]) -> Row:
    """What a kernel for MANY parameters takes of them; the places that are left get null pointers and a size of 0."""
    empty = [0 if isinstance(value, int) else None for value in rows[0]]
    return [value for row in [*rows, *[empty] * (MANY - len(rows))] for value in row]


SGD_STEP = per_element("optim.cu", "sgd_step")  # of one parameter: the kernel to read
_PROGRAMS = Memo()


class Optimizer:
    """A list of parameters and how to step them down their gradients, each with so many `states` of its own."""

    states: int
    lr = Setting()

    def __init__(self, parameters: Iterable[Tensor], lr: float | None):
        if isinstance(parameters, Tensor):
            raise TypeError(f"{type(self).__name__} takes a list of tensors: [w], or model.parameters().")
        self.parameters = tuple(a(type(self).__name__, parameters, Iterable, "a list of tensors: model.parameters()"))
        if lr is None:
            raise TypeError(f"{type(self).__name__} takes a learning rate: lr=0.1, for example.")
        self.lr = lr
        if not self.parameters:
            raise ValueError(f"{type(self).__name__} got no parameters; pass model.parameters().")
        for p in self.parameters:
            if not (isinstance(p, Tensor) and p.is_leaf and p.requires_grad):
                raise TypeError(
                    f"{type(self).__name__}: a parameter is a leaf tensor with requires_grad=True; got {p!r:.60}. "
                    "Pass model.parameters()."
                )
        if len({id(p) for p in self.parameters}) < len(self.parameters):
            raise ValueError(f"{type(self).__name__}: a parameter is in the list twice; it would be stepped twice.")
        self._states: list[list[Tensor]] = [[] for _ in self.parameters]

    def __repr__(self) -> str:
        count, settings = len(self.parameters), ", ".join(f"{name}={value}" for name, value in self.settings)
        return f"{type(self).__name__} of {count} parameter{'s' * (count != 1)}: {settings}"

    def zero_grad(self) -> None:
        """Forget the gradients; the next backward starts from none."""
        for parameter in self.parameters:
            parameter.grad = None

    @property
    def states_held(self) -> list[Tensor]:
        """The states of all parameters."""
        return [state for states in self._states for state in states]

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        if noted := effects():
            noted.reads(self)
        by_device: dict[str, list[Any]] = {}
        with no_grad():
            for i, p in enumerate(self.parameters):
                if p._grad is not None:
                    p.written_by(type(self).__name__)
                    row = by_device.setdefault(p.device, [])
                    row += [p.array, p._grad.array, *(state.array for state in self._kept(i, p))]
        for arrays in by_device.values():
            self._update_all(arrays)

    def _update_all(self, arrays: list[Any]) -> None:
        """One program updates all the parameters of a device that repeats launches."""
        if not (isinstance(arrays[0], Array) and arrays[0].device.repeats):
            self._each(*arrays)
            return
        specs = [array.spec for array in arrays]
        key = (type(self), self.settings, *specs)
        try:
            program = _PROGRAMS.get(key)
        except TypeError:  # a list among the settings: what it does may change with any element
            self._each(*arrays)
            return
        if program is None:
            program = _PROGRAMS.keep(key, Program(self._each, specs))
        program(arrays)

    def _each(self, *arrays: Any) -> tuple:
        """Parameter after parameter, each with its gradient and its states; on a device MANY of a dtype at a time."""
        width = 2 + self.states
        rows = [arrays[at : at + width] for at in range(0, len(arrays), width)]
        if not isinstance(arrays[0], Array):
            for row in rows:
                self._update(*row)
            return ()
        owner = next(c for c in type(self).__mro__ if "_update" in vars(c))  # who updates one knows how to update many
        launch = vars(owner).get("_launch", Optimizer._launch)
        for dtype in dict.fromkeys(row[0].dtype for row in rows):
            alike = [row for row in rows if row[0].dtype == dtype and row[0].size]
            for at in range(0, len(alike), MANY):
                launch(self, alike[at : at + MANY])
        return ()

    def _launch(self, rows: Sequence[Sequence[Any]]) -> None:
        """Update these parameters. An optimizer without a kernel for many updates one after the other."""
        for row in rows:
            self._update(*row)

    def _kept(self, i: int, p: Tensor) -> list[Tensor]:
        """The states of a parameter, on its device: they live as long as the optimizer."""
        states = self._states[i]
        if not states:
            states[:] = [Tensor(move(host, p.device)) for host in self._start(p.array)]
        elif states[0].device != p.device:
            states[:] = [state.to(p.device) for state in states]
        return states

    @property
    def settings(self) -> tuple:
        """What the update depends on, beside arrays: all else that the optimizer has."""
        return tuple((name, value) for name, value in vars(self).items() if name not in ("parameters", "_states"))

    def _start(self, p: Any) -> list[np.ndarray]:
        """The states of a parameter before the first step."""
        raise NotImplementedError

    def _update(self, p: Any, g: Any, *states: Any) -> None:
        raise NotImplementedError


class SGD(Optimizer):
    """v = momentum * v + g, then p = p - lr * v."""

    states = 1
    momentum = Setting()

    def __init__(self, parameters: Iterable[Tensor], lr: float | None = None, momentum: float = 0.0):
        super().__init__(parameters, lr)
        self.momentum = momentum

    def _start(self, p: Any) -> list[np.ndarray]:
        return [np.zeros(p.shape, p.dtype)]

    def _update(self, p: Any, g: Any, v: Any) -> None:
        if isinstance(p, Array):
            return SGD._launch(self, [(p, g, v)])
        v *= self.momentum
        v += g
        p -= self.lr * v

    def _launch(self, rows: Sequence[Sequence[Any]]) -> None:
        SGD_STEPS.launch(blocks(rows))(*places(sized(rows)), self.lr, self.momentum)


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p = p - lr * m' / (sqrt(v') + eps), where m' = m / (1 - b1^t).

    Source: Kingma and Ba, Adam: a method for stochastic optimization, 2015.
    """

    states = 3
    betas, eps = Setting(two_below_one), Setting()

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ):
        super().__init__(parameters, lr)
        self.betas, self.eps = betas, eps

    def _start(self, p: Any) -> list[np.ndarray]:
        return [np.zeros(p.shape, p.dtype), np.zeros(p.shape, p.dtype), np.zeros(1, np.int32)]

    def _update(self, p: Any, g: Any, m: Any, v: Any, t: Any) -> None:
        if isinstance(p, Array):
            return Adam._launch(self, [(p, g, m, v, t)])
        b1, b2 = self.betas
        t += 1
        m += (1 - b1) * (g - m)
        v += (1 - b2) * (g * g - v)
        p -= self.lr / (1 - b1 ** int(t[0])) * m / (np.sqrt(v / (1 - b2 ** int(t[0]))) + self.eps)

    def _launch(self, rows: Sequence[Sequence[Any]]) -> None:
        """t counts the steps of a parameter; it stands on the device, as a graph repeats only what does."""
        ADAM_COUNTS.launch()(*places([row[-1:] for row in rows]))
        c1, c2 = (1 - beta for beta in self.betas)
        ADAM_STEPS.launch(blocks(rows))(*places(sized(rows)), self.lr, c1, c2, self.eps)
