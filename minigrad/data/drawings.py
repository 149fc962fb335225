"""Images of ten shapes, drawn from signed distances: a set to train on that needs no file.

Only sums, products, quotients and square roots are used, which IEEE 754 rounds in one way, and the bits of PCG64, which
NumPy keeps as they are: so every machine draws the same images.
"""

from collections.abc import Callable
from math import sqrt

import numpy as np

from minigrad.data.split import Split
from minigrad.errors import require_int

Distance = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _radius(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.sqrt(x * x + y * y)


def _box(x: np.ndarray, y: np.ndarray, width: float, height: float) -> np.ndarray:
    return np.maximum(np.abs(x) - width, np.abs(y) - height)


def _flower(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """r - 0.73 - 0.27 cos(5 angle): five petals. r^5 cos(5 angle) is the real part of (x + iy)^5."""
    xx, yy, r = x * x, y * y, np.maximum(_radius(x, y), 1e-6)
    return r - 0.73 - 0.27 * x * (xx * xx - 10 * xx * yy + 5 * yy * yy) / (r * r * r * r * r)


# The distance of a point from the edge of each shape, negative inside; shapes reach from -1 to 1.
_DISTANCES: dict[str, Distance] = {
    "disc": lambda x, y: _radius(x, y) - 0.9,
    "square": lambda x, y: _box(x, y, 0.8, 0.8),
    "diamond": lambda x, y: (np.abs(x) + np.abs(y) - 1.1) * sqrt(0.5),
    "triangle": lambda x, y: np.maximum(y - 0.55, np.abs(x) * sqrt(0.75) - 0.5 * y - 0.5),
    "cross": lambda x, y: np.minimum(_box(x, y, 1.0, 0.3), _box(x, y, 0.3, 1.0)),
    "ring": lambda x, y: np.abs(_radius(x, y) - 0.78) - 0.2,
    "bar": lambda x, y: _box(x, y, 1.0, 0.3),
    "flower": _flower,
    "crescent": lambda x, y: np.maximum(_radius(x, y) - 1, 0.8 - _radius(x - 0.5, y)),
    "frame": lambda x, y: np.abs(_box(x, y, 0.75, 0.75)) - 0.2,
}
SHAPES = tuple(_DISTANCES)  # the names of the classes, by label


def shapes(count: int = 4000, size: int = 16, channels: int = 1, seed: int = 0) -> Split:
    """Images (count, channels, size, size) of a bright shape on a dark ground, and labels 0 to 9, as `SHAPES` has them.

    Place, size, tilt, a quarter turn, a mirror image and both brightnesses are random, and so is a noise, in which
    alone the channels differ. Image i of a seed shows the same at every size, and in sets of any count; the same bits
    on every machine.
    """
    count, seed = require_int("shapes", "count", count), require_int("shapes", "seed", seed)
    size, channels = require_int("shapes", "size", size, 8), require_int("shapes", "channels", channels, 1)
    images, labels = np.empty((count, channels, size, size), np.float32), np.empty(count, np.int64)
    of_shapes, of_noise = (np.random.PCG64([seed, part]) for part in range(2))
    for i in range(count):
        label, *numbers = _uniform(of_shapes, 9).tolist()
        labels[i] = int(len(SHAPES) * label)
        noise = _uniform(of_noise, images[i].size).reshape(images[i].shape) - 0.5
        images[i] = np.clip(_drawn(_DISTANCES[SHAPES[labels[i]]], size, *numbers) + 0.2 * noise, 0, 1)
    return Split(images, labels)


def _uniform(bits: np.random.PCG64, count: int) -> np.ndarray:
    """Numbers from 0 to below 1, of 53 bits each."""
    return (bits.random_raw(count) >> np.uint64(11)) * 2.0**-53


def _drawn(
    distance: Distance, size: int, x: float, y: float, radius: float, tilt: float, mirror: float, turn: float,
    ground: float, light: float,
) -> np.ndarray:  # fmt: skip
    """An image (size, size) of one shape; all numbers after the size are from 0 to 1.

    A pixel is as bright as the part of it that the shape covers, about 0.5 - distance in pixels.
    """
    radius, tilt = 0.5 + 0.3 * radius, 0.3 * (tilt - 0.5)
    cosine, sine = (1 - tilt * tilt) / (1 + tilt * tilt), 2 * tilt / (1 + tilt * tilt)
    centers = (np.arange(size) + 0.5) * (2 / size) - 1
    across = (centers - 0.4 * (x - 0.5)) / radius * (1 if mirror < 0.5 else -1)
    down = (centers[:, None] - 0.4 * (y - 0.5)) / radius
    u, v = cosine * across + sine * down, cosine * down - sine * across
    inside = np.clip(0.5 - distance(*((u, v) if turn < 0.5 else (v, u))) * radius * (size / 2), 0, 1)
    ground, light = 0.1 + 0.3 * ground, 0.6 + 0.3 * light
    return ground + (light - ground) * inside
