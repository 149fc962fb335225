"""14: the cell of a GRU in NumPy, from its formula."""

from math import exp, tanh

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong


def truth(from_x: np.ndarray, from_h: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The next h, unit by unit."""
    units, y = h.shape[1], np.empty_like(h)
    for b, u in np.ndindex(h.shape):
        (r_x, z_x, n_x), (r_h, z_h, n_h) = from_x[b, u::units], from_h[b, u::units]
        r, z = 1 / (1 + exp(-r_x - r_h)), 1 / (1 + exp(-z_x - z_h))
        y[b, u] = (1 - z) * tanh(n_x + r * n_h) + z * h[b, u]
    return y


def case(batch: int, units: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(units)
    return tuple(rng.uniform(-1, 1, (batch, width)) for width in (3 * units, 3 * units, units))


gru_cell = PythonExercise(
    "14",
    task=r"""
**The cell of a GRU.** Write one step from the three formulas above. `from_x` has $W_{ih} x_t + b_{ih}$, and `from_h`
has $W_{hh} h_{t-1} + b_{hh}$. Both have the shape (sequences, 3 x units), with the columns of $r$ first, then those of
$z$, then those of $n$. `h` is $h_{t-1}$, of shape (sequences, units). Return $h_t$.
""",
    solution="""
def gru_cell(from_x, from_h, h):
    r_x, z_x, n_x = np.split(from_x, 3, axis=1)
    r_h, z_h, n_h = np.split(from_h, 3, axis=1)
    #> return h  # <- your code
    r = 1 / (1 + np.exp(-(r_x + r_h)))
    z = 1 / (1 + np.exp(-(z_x + z_h)))
    n = np.tanh(n_x + r * n_h)
    return (1 - z) * n + z * h
    #<
""",
    hints=[
        "begin with the two gates: r and z are the sigmoid of a sum of two parts. In NumPy the sigmoid of a is "
        "1 / (1 + np.exp(-a)).",
        "n is a tanh. Only its part from h is multiplied by r; the part from x is not.",
        "h_t is a mix: the share 1 - z of the new n, and the share z of the old h.",
    ],
    wrong=[
        Wrong("(1 - z) * n + z * h", "z * n + (1 - z) * h", "value",
              "The shares are exchanged: z is the share of the *old* state that is kept."),
        Wrong("np.tanh(n_x + r * n_h)", "np.tanh(n_x + n_h)", "value",
              "The reset gate is missing: r multiplies the part of n that comes from h."),
        Wrong("np.tanh(n_x + r * n_h)", "np.tanh(r * (n_x + n_h))", "value",
              "r multiplies only the part that comes from h: what comes from x is always seen."),
        Wrong("np.tanh(n_x + r * n_h)", "1 / (1 + np.exp(-(n_x + r * n_h)))", "value",
              "n is no gate: its function is tanh, so that it can be negative."),
        Wrong("-(r_x + r_h)", "-r_x", "value", "A gate looks at x and at h: the part from h is missing in r."),
        Wrong("np.exp(-(z_x + z_h))", "np.exp(z_x + z_h)", "value",
              "The sigmoid has a minus: 1 / (1 + exp(-a)). Without it z becomes 1 - z."),
        Wrong("(1 - z) * n + z * h", "(1 - z) * n", "value", "The old state is lost: z * h is to be added."),
    ],
    truth=truth,
    cases=[case(1, 1), case(2, 3), case(3, 5)],
)  # fmt: skip
