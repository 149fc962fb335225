"""The recurrences of RNN, LSTM and GRU in NumPy: the truth that every way to run them is compared with.

x is (T, B, inputs), h and c are (B, hidden); w_ih is (gates * hidden, inputs), w_hh (gates * hidden, hidden), with the
gates in PyTorch's order; a bias may be 0. Each function returns y (T, B, hidden), h of all steps, and the last state.

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


def rnn(x: np.ndarray, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h: np.ndarray, nonlinearity: str = "tanh") -> tuple:
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu in place of tanh"""
    y = np.empty((len(x), *h.shape), x.dtype)
    for t, x_t in enumerate(x):
        a = x_t @ w_ih.T + b_ih + h @ w_hh.T + b_hh
        h = y[t] = np.tanh(a) if nonlinearity == "tanh" else np.maximum(a, 0)
    return y, h


def lstm(x: np.ndarray, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h: np.ndarray, c: np.ndarray) -> tuple:
    """i, f, g, o = W_ih x + b_ih + W_hh h + b_hh; c' = s(f) c + s(i) tanh(g); h' = s(o) tanh(c'), s the sigmoid"""
    y = np.empty((len(x), *h.shape), x.dtype)
    for t, x_t in enumerate(x):
        i, f, g, o = np.split(x_t @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = y[t] = sigmoid(o) * np.tanh(c)
    return y, h, c


def gru(x: np.ndarray, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h: np.ndarray) -> tuple:
    """h' = (1 - z) n + z h; r, z = s(W_ih x + b_ih + W_hh h + b_hh); n = tanh(W_in x + b_in + r (W_hn h + b_hn))

    s is the sigmoid.
    """
    y = np.empty((len(x), *h.shape), x.dtype)
    for t, x_t in enumerate(x):
        r_x, z_x, n_x = np.split(x_t @ w_ih.T + b_ih, 3, axis=1)
        r_h, z_h, n_h = np.split(h @ w_hh.T + b_hh, 3, axis=1)
        r, z = sigmoid(r_x + r_h), sigmoid(z_x + z_h)
        h = y[t] = (1 - z) * np.tanh(n_x + r * n_h) + z * h
    return y, h


def network(
    cell: Callable, x: np.ndarray, weights: Mapping[str, np.ndarray], state: Sequence[np.ndarray],
    lengths: Sequence[int] | None = None,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """y (T, B, directions * hidden) and the last state of one of these recurrences in several layers and directions.

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
                arrays = [weights.get(f"{name}_l{layer}{direction}", 0) for name in WEIGHTS]
                order = slice(None, None, -1 if direction else 1)
                found, *ends = cell(inputs[order], *arrays, *(s[i, b : b + 1] for s in state))
                outputs.append(found[order])
                for s, end in zip(state, ends, strict=True):
                    s[i, b] = end[0]
            inputs = np.concatenate(outputs, axis=2)
        y[:length, b] = inputs[:, 0]
    return y, *state
