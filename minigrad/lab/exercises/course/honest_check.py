"""10: a check of gradients whose loss y.sum() passes wrong ones."""

from collections.abc import Callable

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong

W = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0], [64.0, 128.0, 256.0]])
X = np.arange(12.0).reshape(3, 4) % 5


def convolution(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """With two rows and columns of zeros around x: every pixel meets every number of the window."""
    return under(np.pad(x, 2), w)


def under(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The sum of the products at each place of the window."""
    return np.asarray((np.lib.stride_tricks.sliding_window_view(x, w.shape) * w).sum(axis=(2, 3)))


def spread(dy: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The right gradient: each dy is handed to the pixels under its window."""
    dx = np.zeros((dy.shape[0] + 2, dy.shape[1] + 2))
    for p, q in np.ndindex(*dy.shape):
        dx[p : p + 3, q : q + 3] += dy[p, q] * w
    return dx[2:-2, 2:-2]


GRADIENTS: dict[str, Callable] = {
    "the right one": spread,
    "the window turned": lambda dy, w: spread(dy, w[::-1, ::-1]),
    "rows and columns of w swapped": lambda dy, w: spread(dy, w.T),
    "dy read backward": lambda dy, w: spread(dy[::-1, ::-1], w),
    "dy shifted by a row": lambda dy, w: spread(np.roll(dy, 1, axis=0), w),
    "the sign wrong": lambda dy, w: -spread(dy, w),
    "a row of the window left out": lambda dy, w: spread(dy, w * [[1], [1], [0]]),
    "right but for the last pixel": lambda dy, w: spread(dy, w) + np.eye(12)[11].reshape(3, 4),
    "the right one, as a convolution of dy": lambda dy, w: under(dy, w[::-1, ::-1]),
}


honest_check = PythonExercise(
    "10",
    task="""
**A check that passes everything.** `honest_check` gets a convolution, somebody's gradient of it, an image and a window.
It should return `True` where the gradient is right, and `False` where it is not. It compares every element with a
central difference, and yet it passes gradients that are wrong. Mend it. It is tried on eight gradients, of which two
are right.
""",
    solution="""
def honest_check(convolution, gradient, x, w):
    y = convolution(x, w)
    #> dy = np.ones(y.shape)  # the loss is y.sum()
    dy = np.random.default_rng(0).standard_normal(y.shape)  # the loss is (dy * y).sum()
    #<
    dx = gradient(dy, w)
    for at in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[at] = 1e-3
        #> slope = (convolution(x + step, w) - convolution(x - step, w)).sum() / 2e-3
        slope = (dy * (convolution(x + step, w) - convolution(x - step, w))).sum() / 2e-3
        #<
        if abs(dx[at] - slope) > 1e-4:
            return False
    return True
""",
    bug=True,
    hints=[
        "the loss is y.sum(), so every dy is 1. What do you see of a gradient that reads dy in the wrong place?",
        "choose another loss, in which every output counts differently: (dy * y).sum() with numbers that are all "
        "different. np.random.default_rng(0).standard_normal(y.shape) makes such numbers.",
        "the slope has to be that of the same loss: each difference of the outputs is multiplied by its dy.",
    ],
    wrong=[
        Wrong("dy = np.random.default_rng(0).standard_normal(y.shape)", "dy = np.full(y.shape, 3.0)", "value",
              "Where all dy are equal, it does not matter which one a gradient reads."),
        Wrong("np.random.default_rng(0).standard_normal(y.shape)", "np.linspace(0, 1, y.shape[1]) * np.ones(y.shape)",
              "value", "The rows of this dy are all equal: a gradient that reads the wrong row is passed."),
        Wrong("(dy * (convolution(x + step, w) - convolution(x - step, w))).sum()",
              "(convolution(x + step, w) - convolution(x - step, w)).sum()", "value",
              "The slope is still that of y.sum(), and dx that of another loss: now even a right gradient fails."),
        Wrong("abs(dx[at] - slope) > 1e-4", "abs(dx[at] - slope) > 1e4", "value",
              "A bound that large passes everything."),
        Wrong("abs(dx[at] - slope) > 1e-4", "dx[at] != slope", "value",
              "A central difference is rounded: leave room for that."),
        Wrong("            return False\n    return True", "            return False\n        return True", "value",
              "This returns after the first pixel: all of them count."),
    ],
    truth=lambda name: name.startswith("the right one"),
    cases=[(name,) for name in GRADIENTS],
    call=lambda check, name: check(convolution, GRADIENTS[name], X, W),
)  # fmt: skip
