"""RNN, LSTM and GRU: layers that read a sequence step by step, and carry a state from each step to the next."""

from collections.abc import Sequence
from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from minigrad import create
from minigrad.devices.array import Array
from minigrad.errors import require, require_bool, require_int, require_word
from minigrad.nn.module import Module
from minigrad.operators import OPS
from minigrad.ops.recurrence import DIRECTIONS, WEIGHTS
from minigrad.tensor import Tensor

State = tuple[Tensor, ...]  # h, and of LSTM also c


class Recurrent(Module):
    """Layers of a cell, each in one direction or in both, with weights by PyTorch's names: `weight_ih_l0`, ...

    `y, state = module(x, state, lengths)`: x is (T, B, input_size), y (T, B, directions * hidden_size), h of the last
    layer at every step, forward next to backward. The state after the last step is h, of LSTM (h, c), each (layers *
    directions, B, hidden_size); it starts as 0 where none is given. lengths are B numbers from 1 to T: a sequence is
    not read beyond its length, where its y is 0; its state is that of its own last step, and backward it is read from
    its own end. A step of `mg.graph` takes no lengths on a GPU, since they are on the host.

    Truncated backpropagation through time hands `state.detach()`, of LSTM that of h and of c, to the next part of a
    sequence. All weights start
    uniform in +-1/sqrt(hidden_size), as in PyTorch, from the generator that `mg.manual_seed` sets.
    """

    kind: str  # the cell's name in `ops.recurrence`
    gates: int  # of the cell: rows of a weight for each unit
    parts: int = 1  # of the state: h, and of LSTM also c

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, *, bias: bool = True, bidirectional: bool = False,
        device: str | None = None, dtype: Any = "float32", **unknown: Any,
    ):  # fmt: skip
        who = type(self).__name__
        if unknown:
            takes = "num_layers, bias, bidirectional, device and dtype, and of RNN also nonlinearity"
            raise TypeError(f"{who} takes no {', '.join(unknown)}, but {takes}; its x is (T, B, input_size).")
        self.input_size = require_int(who, "input_size", input_size, 1)
        self.hidden_size = require_int(who, "hidden_size", hidden_size, 1)
        self.num_layers = require_int(who, "num_layers", num_layers, 1)
        self.directions = DIRECTIONS[: 1 + require_bool(who, "bidirectional", bidirectional)]
        self._names = WEIGHTS if require_bool(who, "bias", bias) else WEIGHTS[:2]
        bound, rows = 1 / sqrt(hidden_size), self.gates * hidden_size
        start = partial(create.uniform, -bound, bound, requires_grad=True, device=device, dtype=dtype)
        for layer in range(num_layers):
            inputs = len(self.directions) * hidden_size if layer else input_size
            shapes = {"weight_ih": (rows, inputs), "weight_hh": (rows, hidden_size)}
            for direction in self.directions:
                for name in self._names:
                    setattr(self, f"{name}_l{layer}{direction}", start(shape=shapes.get(name, (rows,))))

    def cell(self, from_x: Tensor, from_h: Tensor, *state: Tensor) -> State:
        """The next state, from the sums that enter the gates, W_ih x + b_ih and W_hh h + b_hh: (B, gates * hidden)."""
        raise NotImplementedError

    def forward(self, x: Tensor, state: Any = None, lengths: Sequence[int] | None = None) -> tuple[Tensor, Any]:
        """y and the last state."""
        states, ends_at = self.states(x, state), self.lengths(x, lengths)
        mask = None if ends_at is None else np.arange(len(x))[:, None, None] < ends_at[:, None]  # (T, B, 1)
        x = padded(x, mask)
        ends: list[State] = []
        for layer in range(self.num_layers):
            ys = []
            for direction in self.directions:
                y, end = self._scan(x, f"_l{layer}{direction}", states[len(ends)], mask)
                ys.append(y)
                ends.append(end)
            x = padded(OPS["concatenate"](ys, axis=2), mask)
        last = tuple(stack(part) for part in zip(*ends, strict=True))
        return x, last if self.parts > 1 else last[0]

    def _scan(self, x: Tensor, at: str, state: State, mask: np.ndarray | None) -> tuple[Tensor, State]:
        """One layer in one direction. The products with x, of all steps, are one; each step waits for the last one."""
        w_ih, w_hh, b_ih, b_hh = self.weights(at)
        length, batch, inputs = x.shape
        rows = affine(x.reshape(length * batch, inputs), w_ih.T, b_ih)
        steps = [*enumerate(unstack(rows.reshape(length, batch, rows.shape[1])))]
        ys = {}
        for t, from_x in reversed(steps) if at.endswith(DIRECTIONS[1]) else steps:
            new = self.cell(from_x, affine(state[0], w_hh.T, b_hh), *state)
            if mask is not None and not mask[t].all():  # a sequence that has ended keeps its state
                kept = create.tensor(mask[t], device=x.device)
                new = tuple(OPS["where"](kept, after, before) for after, before in zip(new, state, strict=True))
            state, ys[t] = new, new[0]
        return stack([ys[t] for t, _ in steps]), state

    def weights(self, at: str) -> list[Any]:
        """W_ih, W_hh, b_ih and b_hh of a layer in a direction, e.g. at "_l0_reverse"; None for no bias."""
        return [getattr(self, name + at, None) for name in WEIGHTS]

    def states(self, x: Tensor, state: Any) -> list[State]:
        """The state before the first step, for each layer and direction. Raises TypeError or ValueError."""
        who, count = type(self).__name__, self.num_layers * len(self.directions)
        if require(who, x, Tensor, "x as a tensor (T, B, input_size)").ndim != 3 or x.shape[2] != self.input_size:
            raise ValueError(
                f"{who}: x is {x.shape}; it must be (T, B, {self.input_size}). A sequence alone: x[:, None]."
            )
        if not len(x):
            raise ValueError(f"{who}: x is {x.shape}, a sequence of no steps; give it one at least.")
        shape = (count, x.shape[1], self.hidden_size)
        if state is None:
            return [(zeros(x, shape[1:]),) * self.parts] * count
        given = (state,) if self.parts == 1 else require(who, state, tuple | list, "a state (h, c)")
        if len(given) != self.parts:
            raise ValueError(f"{who}: the state has {len(given)} parts; it must be (h, c), as forward returns it.")
        for name, part in zip("hc", given, strict=False):
            if require(f"{who}: {name}", part, Tensor, f"a tensor {shape}, as forward returns it").shape != shape:
                raise ValueError(
                    f"{who}: {name} is {part.shape}; it must be {shape}: layers * directions, B, hidden_size."
                )
        return [tuple(part[i] for part in given) for i in range(count)]

    def lengths(self, x: Tensor, lengths: Any) -> np.ndarray | None:
        """The lengths of the sequences, (B,). Raises TypeError or ValueError."""
        if lengths is None:
            return None
        who, (steps, batch, _) = type(self).__name__, x.shape
        wanted = f"{who}: lengths={lengths!r:.60} must be {batch} whole numbers, one for each sequence."
        try:
            found = np.asarray(lengths)
        except ValueError as ragged:
            raise TypeError(wanted) from ragged
        if found.size and found.dtype.kind not in "iu":  # [] is of floats
            raise TypeError(wanted)
        if found.shape != (batch,):
            raise ValueError(f"{who}: lengths have shape {found.shape}; x {x.shape} needs ({batch},), one a sequence.")
        if batch and not 1 <= found.min() <= found.max() <= steps:
            wrong = next(int(n) for n in found if not 1 <= n <= steps)
            raise ValueError(
                f"{who}: a length is {wrong}; each must be from 1 to T={steps}. Leave out empty sequences, or pad x."
            )
        return found

    def __repr__(self) -> str:
        layers = f", {self.num_layers} layers" if self.num_layers > 1 else ""
        both, bias = ", both directions" * (len(self.directions) - 1), ", no bias" * (self._names != WEIGHTS)
        return f"{type(self).__name__}({self.input_size} -> {self.hidden_size}{layers}{both}{bias})"


class RNN(Recurrent):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu in place of tanh: Elman's network."""

    gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, *, nonlinearity: str = "tanh", **how: Any
    ):
        self.kind = require_word("RNN", "nonlinearity", nonlinearity, ("tanh", "relu"))
        super().__init__(input_size, hidden_size, num_layers, **how)

    def cell(self, from_x: Tensor, from_h: Tensor, *state: Tensor) -> State:
        """(h',)"""
        return (OPS[self.kind](from_x + from_h),)


class LSTM(Recurrent):
    """c' = sigmoid(f) c + sigmoid(i) tanh(g) and h' = sigmoid(o) tanh(c').

    i, f, g, o, one under the other, are W_ih x + b_ih + W_hh h + b_hh.
    """

    kind, gates, parts = "lstm", 4, 2

    def cell(self, from_x: Tensor, from_h: Tensor, *state: Tensor) -> State:
        """(h', c')"""
        i, f, g, o = split(from_x + from_h, 4)
        c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class GRU(Recurrent):
    """h' = (1 - z) n + z h; r, z = s(W_ih x + b_ih + W_hh h + b_hh); n = tanh(W_in x + b_in + r (W_hn h + b_hn)).

    s is the sigmoid; the rows of a weight are those of r, z, n.
    """

    kind, gates = "gru", 3

    def cell(self, from_x: Tensor, from_h: Tensor, *state: Tensor) -> State:
        """(h',)"""
        (r_x, z_x, n_x), (r_h, z_h, n_h) = split(from_x, 3), split(from_h, 3)
        r, z = (r_x + r_h).sigmoid(), (z_x + z_h).sigmoid()
        return ((1 - z) * (n_x + r * n_h).tanh() + z * state[0],)


def affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x @ weight + bias."""
    y = OPS["matmul"](x, weight)
    return y if bias is None else OPS["add"](y, bias)


def split(rows: Tensor, count: int) -> list[Tensor]:
    """The columns in equal parts, side by side."""
    width = rows.shape[1] // count
    return [rows[:, i * width : (i + 1) * width] for i in range(count)]


def unstack(x: Tensor) -> list[Tensor]:
    """x[0], x[1], ... as halves of halves: the gradient of a slice is as large as what it was taken from.

    So all of them cost T log T; T slices of x itself would cost T^2.
    """
    if len(x) == 1:
        return [x.reshape(x.shape[1:])]
    half = len(x) // 2
    return [*unstack(x[:half]), *unstack(x[half:])]


def stack(parts: Sequence[Tensor]) -> Tensor:
    """The parts along a new first axis."""
    return OPS["concatenate"]([x.reshape(1, *x.shape) for x in parts], axis=0)


def padded(x: Tensor, mask: np.ndarray | None) -> Tensor:
    """x where a step is within its sequence, and 0 beyond."""
    return x if mask is None else OPS["where"](create.tensor(mask, device=x.device), x, 0.0)


def zeros(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Zeros in the dtype and on the device of x, made there: a captured step sends nothing to the GPU."""
    array = x.array
    return Tensor(Array.zeros(array.device, shape, x.dtype) if isinstance(array, Array) else np.zeros(shape, x.dtype))
