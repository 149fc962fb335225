"""A training step in NumPy alone: forward, backward and update by hand, to see the cost of the tape."""

from collections.abc import Callable, Sequence

import numpy as np

Layers = Sequence[tuple[np.ndarray, np.ndarray]]  # weights (inputs, outputs) and biases; relu between the layers
Update = Callable[[list[np.ndarray]], None]  # takes the gradients of all parameters


def step(
    optimizer: str, start: Sequence[np.ndarray], images: np.ndarray, labels: np.ndarray
) -> Callable[[], np.floating]:
    """Each call takes one step on this batch, in place from these weights and biases, and returns its loss."""
    layers = list(zip(start[::2], start[1::2], strict=True))
    update = {"SGD": sgd, "Adam": adam}[optimizer](start)

    def take() -> np.floating:
        saved = forward(layers, images)
        loss, dy = cross_entropy(saved[-1], labels)
        update(backward(layers, saved, dy))
        return loss

    return take


def forward(layers: Layers, x: np.ndarray) -> list[np.ndarray]:
    """The input of each layer, and the logits: h = max(h @ w + b, 0)."""
    saved = [x]
    for w, b in layers:
        saved.append(saved[-1] @ w)
        saved[-1] += b
        if len(saved) <= len(layers):
            np.maximum(saved[-1], 0, out=saved[-1])
    return saved


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> tuple[np.floating, np.ndarray]:
    """The mean of -log(probability of the label), and its gradient, (probability - onehot(label)) / rows."""
    rows = np.arange(len(labels))
    shifted = logits - logits.max(axis=1, keepdims=True)
    exps = np.exp(shifted)
    sums = exps.sum(axis=1, keepdims=True)
    loss = (np.log(sums[:, 0]) - shifted[rows, labels]).mean()
    exps /= sums
    exps[rows, labels] -= 1
    exps /= len(labels)
    return loss, exps


def backward(layers: Layers, saved: list[np.ndarray], dy: np.ndarray) -> list[np.ndarray]:
    """The gradients of w and b of every layer: dw = h^T @ dy, db = the sum of dy's rows."""
    grads: list[np.ndarray] = []
    for at in reversed(range(len(layers))):
        grads = [saved[at].T @ dy, dy.sum(axis=0), *grads]
        if at:
            dy = dy @ layers[at][0].T
            dy *= saved[at] > 0
    return grads


def sgd(parameters: Sequence[np.ndarray], lr: float = 0.05, momentum: float = 0.9) -> Update:
    """v = momentum * v + g, p = p - lr * v."""
    velocities = [np.zeros_like(p) for p in parameters]

    def update(grads: list[np.ndarray]) -> None:
        for p, g, v in zip(parameters, grads, velocities, strict=True):
            v *= momentum
            v += g
            p -= lr * v

    return update


def adam(parameters: Sequence[np.ndarray], lr: float = 1e-3) -> Update:
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p = p - lr * m' / (sqrt(v') + eps)."""
    states = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
    b1, b2, eps, t = 0.9, 0.999, 1e-8, 0

    def update(grads: list[np.ndarray]) -> None:
        nonlocal t
        t += 1
        for p, g, (m, v) in zip(parameters, grads, states, strict=True):
            m += (1 - b1) * (g - m)
            v += (1 - b2) * (g * g - v)
            p -= lr / (1 - b1**t) * m / (np.sqrt(v / (1 - b2**t)) + eps)

    return update
