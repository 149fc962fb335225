"""Runner: a trained recurrent network, prepared for inference in one way. NumPy's is the plainest."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad.devices.dtypes import copied
from minigrad.errors import require
from minigrad.nn.recurrent import Recurrent
from minigrad.ops.recurrence import CELLS, DIRECTIONS, WEIGHTS
from minigrad.source import Listing, Source, regions
from minigrad.tape import no_grad
from minigrad.tensor import Tensor

Arrays = tuple[Any, ...]  # NumPy arrays, or Arrays of a device
REAL = {"float32": "float", "float64": "double"}  # the type of numbers in C++


def order(steps: int, at: str) -> Sequence[int]:
    """The steps as the direction of this place takes them."""
    return range(steps)[::-1] if at.endswith(DIRECTIONS[1]) else range(steps)


def projected(x: np.ndarray, w_ih: np.ndarray, b_ih: np.ndarray | None) -> np.ndarray:
    """W_ih x + b_ih for all steps, (T, B, rows of W_ih): one product, where of three axes NumPy makes one a step."""
    rows = x.reshape(-1, x.shape[2]) @ w_ih.T + (0 if b_ih is None else b_ih)
    return rows.reshape(*x.shape[:2], len(w_ih))


class Runner:
    """Runs an `nn.RNN`, `nn.LSTM` or `nn.GRU` without gradients, with the weights that it has now: they are copied.

    `y, state = runner(x, state, lengths)` takes and gives what the module does, of the same shapes and on the same
    device, and raises what it raises. A subclass gives `scan`, one layer in one direction; where layers overlap in
    time it gives `run`. One in C++ names its files, and `OpenMP["units"]` shows a part of them by its title.
    """

    host = True  # it runs on NumPy arrays, not on those of a device
    files: tuple[str, ...] = ()  # in cuda/, from the rungs down to what they call

    def __class_getitem__(cls, title: str) -> Listing:
        """A part of the C++ by its title, as a rung's. Raises KeyError with all titles."""
        if title not in (parts := cls.parts()):
            raise KeyError(f"{cls.__name__} has no part {title!r}; its parts are {', '.join(parts)}.")
        return parts[title]

    @classmethod
    def parts(cls) -> dict[str, Listing]:
        """The marked regions of the C++ by their titles."""
        sources = [Source.read(file) for file in cls.files]
        return {key: part for file in sources for key, part in regions(file.name, 1, f"{file.text}}}").items()}

    def __init__(self, module: Recurrent):
        who = type(self).__name__
        self.module = require(who, module, Recurrent, "an nn.RNN, nn.LSTM or nn.GRU")
        first: Tensor = module.weights("_l0")[0]
        self.on, self.dtype = first.device, np.dtype(first.dtype)
        if (self.on == "numpy") != self.host:
            way_out = "numpy')" if self.host else "sim') or 'cuda'"
            raise ValueError(f"{who}: the network is on {self.on!r}; move it: module.to('{way_out}.")
        if self.dtype.name not in REAL:
            raise TypeError(f"{who} computes in {' or '.join(REAL)}; these weights are {self.dtype}.")
        self.places = [f"_l{layer}{way}" for layer in range(module.num_layers) for way in module.directions]
        self._weights_must_fit()
        self.weights: dict[str, list[Any]] = {
            at: [None if w is None else copied(w.array) for w in module.weights(at)] for at in self.places
        }

    def _weights_must_fit(self) -> None:
        """Raise ValueError, for a dtype TypeError, where a weight is not what the module's sizes need.

        A kernel would read beyond the end of a smaller one.
        """
        who, hidden = type(self).__name__, self.module.hidden_size
        rows = self.module.gates * hidden
        for at in self.places:
            inputs = self.module.input_size if at.startswith("_l0") else hidden * len(self.module.directions)
            shapes = (rows, inputs), (rows, hidden), (rows,), (rows,)
            for name, shape, w in zip(WEIGHTS, shapes, self.module.weights(at), strict=True):
                if w is None and len(shape) == 1:
                    continue  # no bias
                given = require(f"{who}: {name}{at}", w, Tensor, f"a tensor {shape}")
                if (given.shape, given.dtype, given.device) != (shape, self.dtype, self.on):
                    raise (TypeError if given.dtype != self.dtype else ValueError)(
                        f"{who}: {name}{at} is {given.shape} {given.dtype} on {given.device!r}; {self.module} needs "
                        f"{shape} {self.dtype} on {self.on!r}."
                    )

    def __call__(self, x: Tensor, state: Any = None, lengths: Sequence[int] | None = None) -> tuple[Tensor, Any]:
        """y and the last state."""
        with no_grad():
            states, ends_at = self.module.states(x, state), self.module.lengths(x, lengths)
            self._must_fit("x", x)
            for name, part in zip(("h", "c"), states[0], strict=False):
                self._must_fit(name, part)
            y, ends = self.run(x.array, [tuple(part.array for part in each) for each in states], ends_at)
            last = tuple(Tensor(self.stack(part)) for part in zip(*ends, strict=True))
            return Tensor(y), last if self.module.parts > 1 else last[0]

    def _must_fit(self, name: str, given: Tensor) -> None:
        """Raise ValueError for another device than that of the weights, TypeError for another dtype."""
        who = type(self).__name__
        if given.device != self.on:
            raise ValueError(f"{who}: {name} is on {given.device!r}, the network on {self.on!r}; move one by .to(...).")
        if given.dtype != self.dtype:
            raise TypeError(
                f"{who}: {name} is {given.dtype}, the weights are {self.dtype}; make them one by .astype(...)."
            )

    def run(self, x: Any, states: Sequence[Arrays], lengths: np.ndarray | None) -> tuple[Any, list[Arrays]]:
        """y and the last states: one layer after the other, and in each layer one direction after the other."""
        ends: list[Arrays] = []
        for layer in range(self.module.num_layers):
            ys = []
            for way in self.module.directions:
                y, *end = self.scan(x, f"_l{layer}{way}", states[len(ends)], lengths)
                ys.append(y)
                ends.append(tuple(end))
            x = ys[0] if len(ys) == 1 else self.concatenate(ys)
        return x, ends

    def scan(self, x: Any, at: str, state: Arrays, lengths: np.ndarray | None) -> Arrays:
        """y (T, B, hidden) and the last state of the layer and direction at this place, e.g. "_l0_reverse"."""
        raise NotImplementedError

    def concatenate(self, ys: Sequence[Any]) -> Any:
        """Forward next to backward."""
        return np.concatenate(ys, axis=2)

    def stack(self, ends: Sequence[Any]) -> Any:
        """A part of the last state, of all layers and directions along a new first axis."""
        return np.stack(ends)


class NumPy(Runner):
    """The formulas in NumPy: the products with x of all steps at once, then step by step, a whole batch at a time."""

    def scan(self, x: np.ndarray, at: str, state: Arrays, lengths: np.ndarray | None) -> Arrays:
        """y (T, B, hidden) and the last state."""
        w_ih, w_hh, b_ih, b_hh = self.weights[at]
        cell, from_x, b_hh = CELLS[self.module.kind], projected(x, w_ih, b_ih), 0 if b_hh is None else b_hh
        y = np.zeros((*x.shape[:2], self.module.hidden_size), x.dtype)
        for t in order(len(x), at):
            new = cell(from_x[t], state[0] @ w_hh.T + b_hh, *state)
            within = True if lengths is None else t < lengths[:, None]
            state = tuple(np.where(within, after, before) for after, before in zip(new, state, strict=True))
            y[t] = np.where(within, state[0], 0)
        return y, *state
