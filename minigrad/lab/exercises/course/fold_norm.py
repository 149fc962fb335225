"""11: a batch norm folded into the convolution before it."""

from typing import Any

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong
from minigrad.operators import OPS


def numbers(seed: int, kernels: int) -> tuple[np.ndarray, ...]:
    """Images, windows, and weight, bias, mean and variance of the batch norm."""
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((2, 3, 4, 5)), rng.standard_normal((kernels, 3, 3, 2))
    weight, bias, mean = rng.standard_normal((3, kernels))
    return x, w, weight, bias, mean, rng.uniform(0.1, 2, kernels)


def convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    conv = OPS["conv2d"]
    return np.asarray(conv.run([x, w], conv.prepare(x, w)))


def with_folded(function: Any, seed: int, kernels: int, eps: float) -> Any:
    """The convolution with the reader's windows and bias."""
    x, w, *norm = numbers(seed, kernels)
    windows, bias = function(w.copy(), *norm, eps)
    if np.shape(windows) != w.shape or np.shape(bias) != (kernels,):
        raise ValueError(f"the shapes are {np.shape(windows)} and {np.shape(bias)}, wanted {w.shape} and {(kernels,)}")
    return convolved(x, windows) + np.asarray(bias)[:, None, None]


def truth(seed: int, kernels: int, eps: float) -> np.ndarray:
    """The convolution, and then the batch norm, channel by channel."""
    x, w, weight, bias, mean, var = numbers(seed, kernels)
    y = convolved(x, w)
    for k in range(kernels):
        y[:, k] = (y[:, k] - mean[k]) / np.sqrt(var[k] + eps) * weight[k] + bias[k]
    return y


fold_norm = PythonExercise(
    "11",
    task=r"""
**Fold the batch norm away.** In evaluation, the batch norm behind a convolution does the same to every pixel of
channel $k$, where $m_k$ and $v_k$ are the running mean and variance:

$$\frac{y_k - m_k}{\sqrt{v_k + \varepsilon}}\, \gamma_k + \beta_k$$

Find the windows and the bias of one convolution that does the work of both. `w` has the shape (kernels, channels, rows,
columns), and `weight` ($\gamma$), `bias` ($\beta$), `mean` and `var` have one number for each kernel.
""",
    solution="""
def fold_norm(w, weight, bias, mean, var, eps):
    #> return w, bias  # <- your code
    scale = weight / np.sqrt(var + eps)
    return w * scale[:, None, None, None], bias - mean * scale
    #<
""",
    hints=[
        "write the formula as y_k times a number, plus a number. What are the two?",
        "y_k is a sum of products with the numbers of window k. A factor for y_k is a factor for each of them.",
        "scale = weight / np.sqrt(var + eps), and w * scale[:, None, None, None] multiplies each kernel by its scale.",
    ],
    wrong=[
        Wrong("bias - mean * scale", "bias", "value",
              "The running mean is missing. In a network that has not been trained it is 0, and nobody notices."),
        Wrong("bias - mean * scale", "bias - mean", "value",
              "The mean is taken off before the scaling: it is scaled, too."),
        Wrong("bias - mean * scale", "bias + mean * scale", "value", "The mean is taken off: -, not +."),
        Wrong("bias - mean * scale", "(bias - mean) * scale", "value",
              "The bias is added after the scaling: it is not scaled."),
        Wrong("np.sqrt(var + eps)", "np.sqrt(var)", "value", "eps belongs under the root, as in training."),
        Wrong("np.sqrt(var + eps)", "(var + eps)", "value", "The variance is the square of the standard deviation."),
        Wrong("weight / np.sqrt(var + eps)", "1 / np.sqrt(var + eps)", "value", "The batch norm's weight is missing."),
        Wrong("w * scale[:, None, None, None]", "w * scale.mean()", "value",
              "Each kernel has a scale of its own."),
        Wrong("return w * scale[:, None, None, None]", "return w", "value", "The windows have to be scaled, too."),
    ],
    call=with_folded,
    truth=truth,
    given=("seed", "kernels", "eps"),
    cases=[(0, 4, 1e-5), (1, 1, 0.5), (2, 7, 0.1)],
)  # fmt: skip
