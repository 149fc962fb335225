"""Optimizer: parameters and the rule of their update; SGD with momentum."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.caches import Cache
from minigrad.devices.dtypes import FLOATS, is_last, move
from minigrad.devices.layouts import in_layout
from minigrad.devices.state import fitting
from minigrad.errors import require, require_number
from minigrad.kernels.kernel import RETUNED
from minigrad.kernels.multi_tensor import arguments, blocks, chunks, multi_tensor
from minigrad.ops.elementwise import per_element
from minigrad.replay.device_number import DeviceNumber
from minigrad.replay.launches import Program, Unrecordable
from minigrad.tape import mode, no_grad
from minigrad.tensor import Tensor

SGD_STEP = per_element("optim.cu", "sgd_step")  # of one parameter: the kernel to read
SGD_STEPS = multi_tensor("optim.cu", "sgd_steps")
_REPLAYED = Cache()  # updates of all parameters of a device, by optimizer, settings and specs
RETUNED.append(_REPLAYED.clear)
ARRAYS = ("parameters", "_states", "_rate", "_lr")  # attributes of an optimizer that are no settings


class Optimizer:
    """A list of parameters and the rule that updates them from their gradients, with an array for each of `states`."""

    states: tuple[str, ...]
    reads_lr = False  # True where the kernels read lr in device memory: another lr then changes no launch
    checks: ClassVar[dict[str, Callable]] = {"lr": require_number}  # of the numbers that a user may set at any time

    def __init_subclass__(cls) -> None:
        cls.reads_lr = vars(cls).get("reads_lr", cls.reads_lr and "_update" not in vars(cls))

    def __init__(self, parameters: Iterable[Tensor], lr: float | None):
        who = type(self).__name__
        if isinstance(parameters, Tensor):
            raise TypeError(f"{who} takes a list of tensors: [w], or model.parameters().")
        self.parameters = tuple(require(who, parameters, Iterable, "a list of tensors: model.parameters()"))
        if lr is None:
            raise TypeError(f"{who} takes a learning rate: lr=0.1, for example.")
        self.lr = lr
        if not self.parameters:
            raise ValueError(f"{who} got no parameters; pass model.parameters().")
        for p in self.parameters:
            if not (isinstance(p, Tensor) and p.is_leaf and p.requires_grad and p.dtype in FLOATS):
                wanted = "a parameter is a leaf tensor with requires_grad=True, and for bfloat16 see mg.autocast"
                raise TypeError(f"{who}: {wanted}; got {p!r:.60}. Pass model.parameters().")
        if len({id(p) for p in self.parameters}) < len(self.parameters):
            raise ValueError(f"{who}: a parameter is in the list twice; it would be stepped twice.")
        self._states: list[list[Tensor]] = [[] for _ in self.parameters]
        self._rate, self._lr = DeviceNumber(), None  # lr where kernels read it, and on the device of this update

    def __setattr__(self, name: str, value: Any) -> None:
        check = self.checks.get(name)
        value = check(type(self).__name__, name, value) if check else value
        if check and mode.recorder and value != getattr(self, name, value):
            raise RuntimeError(
                f"mg.graph: the step sets {name}, and a replay cannot. Set it between steps, or let a schedule do so."
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        count, settings = len(self.parameters), ", ".join(f"{name}={value}" for name, value in self.settings)
        return f"{type(self).__name__} of {count} parameter{'s' * (count != 1)}: {settings}"

    def zero_grad(self) -> None:
        """Clear the gradients; the next backward starts from none."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        if mode.recorder:
            mode.recorder.steps(self)
        by_device: dict[str, list[Any]] = {}
        with no_grad():
            for i, p in enumerate(self.parameters):
                if p._grad is not None:
                    p.written_by(type(self).__name__)
                    row = by_device.setdefault(p.device, [])
                    row += [p.array, in_layout(p._grad.array, is_last(p.array))]
                    row += [state.array for state in self._states_of(i, p)]
        for name, arrays in by_device.items():
            if name != "numpy":
                arrays.append(self._rate.on(arrays[0].device, self.lr))
            self._replayed(arrays)(arrays)

    def send(self) -> None:
        """Write lr where the kernels read it, as each replay of a captured step does first."""
        self._rate.send(self.lr)

    def _replayed(self, arrays: list[Any]) -> Callable:
        """The update of these arrays, replayed where the device replays launches."""
        if not (isinstance(arrays[0], Array) and arrays[0].device.repeats):
            return self._update_all
        specs = [array.spec for array in arrays]
        key = (type(self), self.launched, *specs)
        try:
            return _REPLAYED.get(key) or _REPLAYED.keep(key, Program(self._update_all, specs))
        except (TypeError, Unrecordable):  # a list among the settings, which may change; an update that reads values
            return self._update_all

    def _update_all(self, arrays: Sequence[Any]) -> tuple:
        """Update each parameter by its gradient and states; on a device several at a time, and lr comes last."""
        width = 2 + len(self.states)
        rows = [arrays[at : at + width] for at in range(0, len(arrays) - width + 1, width)]
        if not isinstance(arrays[0], Array):
            for row in rows:
                self._update(*row)
            return ()
        self._lr = arrays[-1]
        owner = vars(next(c for c in type(self).__mro__ if "_update" in vars(c)))
        for few in chunks(rows):
            owner.get("_launch", Optimizer._launch)(self, few)
        return ()

    def _launch(self, rows: Sequence[Sequence[Any]]) -> None:
        """Update these parameters: one by one, unless the class with `_update` has a kernel for many."""
        for row in rows:
            self._update(*row)

    def _states_of(self, i: int, p: Tensor) -> list[Tensor]:
        """The states of a parameter, on its device and in its layout; they live as long as the optimizer."""
        states, last = self._states[i], is_last(p.array)
        if not states or states[0].device != p.device or is_last(states[0].array) != last:
            arrays = [state.array for state in states] or self._start(p.array)
            states[:] = [Tensor(in_layout(move(x, p.device), last)) for x in arrays]
        return states

    def state_dict(self) -> dict[str, np.ndarray]:
        """The settings, as "lr", and the states of each parameter that was updated, as "0.v": arrays to be saved."""
        saved = {name: np.array(value) for name, value in self.settings}
        for i, row in enumerate(self._states):
            saved |= {f"{i}.{name}": x.numpy() for name, x in zip(self.states, row, strict=False)}
        return saved

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on as the optimizer with this `state_dict()`. Raises KeyError or ValueError; then nothing has changed."""
        rows = [zip(self.states, self._start(p.array), strict=True) for p in self.parameters]
        start = {f"{i}.{name}": x for i, row in enumerate(rows) for name, x in row}
        settings = {name: np.array(value) for name, value in self.settings}
        new = start | fitting(f"{type(self).__name__}.load_state_dict", state, settings | start, optional=start)
        for name in settings:
            value = new[name].tolist()
            setattr(self, name, tuple(value) if isinstance(value, list) else value)
        with no_grad():
            for i, p in enumerate(self.parameters):
                for name, held in zip(self.states, self._states_of(i, p), strict=True):
                    held.assign(new[f"{i}.{name}"])

    @property
    def settings(self) -> tuple:
        """Everything besides arrays that the update depends on: every other attribute of the optimizer."""
        return tuple([x for x in vars(self).items() if x[0] not in ARRAYS])

    @property
    def launched(self) -> tuple:
        """The settings that are part of the launches."""
        return tuple([x for x in self.settings if x[0] != "lr" or not self.reads_lr])

    def _start(self, p: Any) -> list[np.ndarray]:
        """The states of a parameter before the first step."""
        raise NotImplementedError

    def _update(self, p: Any, g: Any, *states: Any) -> None:
        raise NotImplementedError


class SGD(Optimizer):
    """v = momentum * v + g + weight_decay * p, then p = p - lr * v."""

    states = ("v",)
    reads_lr = True
    checks: ClassVar = Optimizer.checks | {"momentum": require_number, "weight_decay": require_number}

    def __init__(
        self, parameters: Iterable[Tensor], lr: float | None = None, momentum: float = 0.0, weight_decay: float = 0.0
    ):
        super().__init__(parameters, lr)
        self.momentum, self.weight_decay = momentum, weight_decay

    def _start(self, p: Any) -> list[np.ndarray]:
        return [np.zeros(p.shape, p.dtype)]

    def _update(self, p: Any, g: Any, v: Any) -> None:
        if isinstance(p, Array):
            return SGD._launch(self, [(p, g, v)])
        v *= self.momentum
        v += g + self.weight_decay * p if self.weight_decay else g
        p -= self.lr * v

    def _launch(self, rows: Sequence[Sequence[Any]]) -> None:
        arrays = arguments([(*row, row[0].size) for row in rows])
        SGD_STEPS.launch(blocks(rows))(*arrays, self._lr, self.momentum, self.weight_decay)
