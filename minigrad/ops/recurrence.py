"""The recurrences of RNN, LSTM and GRU in NumPy: the truth that every way to run them is compared with.

x is (T, B, inputs), h and c are (B, hidden); w_ih is (gates * hidden, inputs), w_hh (gates * hidden, hidden), with the
gates in PyTorch's order; a bias may be 0. A cell makes the next state of the sums a = W_ih x + b_ih + W_hh h + b_hh,
given as their two parts, (B, gates * hidden) each.

Sources: Elman, Finding structure in time, 1990. Hochreiter and Schmidhuber, Long short-term memory, 1997, with the gate
f of Gers, Schmidhuber and Cummins, Learning to forget, 2000. Cho et al., Learning phrase representations using RNN
encoder-decoder, 2014; as in cuDNN and PyTorch, r multiplies W_hn h + b_hn and not h.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minigrad.ops.sigmoid import forward as sigmoid

WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")  # of a layer, by PyTorch's names
DIRECTIONS = ("", "_reverse")  # as the names of weights end

State = tuple[np.ndarray, ...]  # h, and of LSTM also c


def tanh(from_x: np.ndarray, from_h: np.ndarray, h: np.ndarray) -> State:
    """h' = tanh(a), of Elman's network"""
    return (np.tanh(from_x + from_h),)


def relu(from_x: np.ndarray, from_h: np.ndarray, h: np.ndarray) -> State:
    """h' = max(a, 0), of Elman's network"""
    return (np.maximum(from_x + from_h, 0),)


def lstm(from_x: np.ndarray, from_h: np.ndarray, h: np.ndarray, c: np.ndarray) -> State:
    """c' = s(f) c + s(i) tanh(g) and h' = s(o) tanh(c'), where i, f, g, o are the rows of a and s is the sigmoid"""
    i, f, g, o = np.split(from_x + from_h, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru(from_x: np.ndarray, from_h: np.ndarray, h: np.ndarray) -> State:
    """h' = (1 - z) n + z h; r, z = s(rows of a), s the sigmoid; n = tanh(W_in x + b_in + r (W_hn h + b_hn))"""
    (r_x, z_x, n_x), (r_h, z_h, n_h) = np.split(from_x, 3, axis=-1), np.split(from_h, 3, axis=-1)
    r, z = sigmoid(r_x + r_h), sigmoid(z_x + z_h)
    return ((1 - z) * np.tanh(n_x + r * n_h) + z * h,)


CELLS: dict[str, Callable[..., State]] = {"tanh": tanh, "relu": relu, "lstm": lstm, "gru": gru}


def scan(kind: str, x: np.ndarray, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, *state: np.ndarray) -> State:
    """y (T, B, hidden), h of all steps, and the last state, of a cell by its name."""
    y = np.empty((len(x), *state[0].shape), x.dtype)
    for t, x_t in enumerate(x):
        state = CELLS[kind](x_t @ w_ih.T + b_ih, state[0] @ w_hh.T + b_hh, *state)
        y[t] = state[0]
    return y, *state


def network(
    kind: str, x: np.ndarray, weights: Mapping[str, np.ndarray], state: Sequence[np.ndarray],
    lengths: Sequence[int] | None = None,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """y (T, B, directions * hidden) and the last state of a cell in several layers and directions.

    weights are those of a `state_dict`; h and c are (layers * directions, B, hidden). Each sequence is computed alone,
    cut off at its length; backward it is read from its own end. y is 0 beyond it.
    """
    directions = [direction for direction in DIRECTIONS if f"weight_hh_l0{direction}" in weights]
    state = [s.copy() for s in state]
    y = np.zeros((*x.shape[:2], len(directions) * state[0].shape[2]), x.dtype)
    for b in range(x.shape[1]):
        length = len(x) if lengths is None else lengths[b]
        inputs = x[:length, b : b + 1]
        for layer in range(len(state[0]) // len(directions)):
            outputs = []
            for i, direction in enumerate(directions, layer * len(directions)):
                arrays: list[Any] = [weights.get(f"{name}_l{layer}{direction}", 0) for name in WEIGHTS]
                order = slice(None, None, -1 if direction else 1)
                found, *ends = scan(kind, inputs[order], *arrays, *(s[i, b : b + 1] for s in state))
                outputs.append(found[order])
                for s, end in zip(state, ends, strict=True):
                    s[i, b] = end[0]
            inputs = np.concatenate(outputs, axis=2)
        y[:length, b] = inputs[:, 0]
    return y, *state
