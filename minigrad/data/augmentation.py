"""Augmentation: random changes of a batch of images that leave its labels right, other ones in every epoch.

An augmentation is a function of images (n, ..., height, width), a NumPy array, and a random generator; it returns the
changed images. A Loader gives each epoch a generator of its own; without one, that of `manual_seed` is used.
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from minigrad.devices.random import Generator
from minigrad.errors import require_int, require_number


@dataclass(frozen=True)
class RandomCrop:
    """A window of size x size pixels at a random place of each image, padded by `padding` zeros on each side."""

    size: int
    padding: int = 0

    def __post_init__(self) -> None:
        require_int("RandomCrop", "size", self.size, 1)
        require_int("RandomCrop", "padding", self.padding)

    def __call__(self, images: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Images (n, ..., size, size). Raises ValueError where the padded images are smaller than that."""
        rng, sides = rng or Generator.rng(), [(0, 0)] * (images.ndim - 2) + [(self.padding, self.padding)] * 2
        padded = np.pad(images, sides)
        height, width = padded.shape[-2:]
        if images.ndim < 3 or min(height, width) < self.size:
            raise ValueError(
                f"RandomCrop: images {images.shape} with padding={self.padding} hold no window of {self.size} x "
                f"{self.size} pixels. Images are (n, ..., height, width); choose a larger padding or a smaller size."
            )
        top, left = (rng.integers(side - self.size + 1, size=len(images)) for side in (height, width))
        windows = sliding_window_view(padded, (self.size, self.size), (-2, -1))
        return windows[np.arange(len(images)), ..., top, left, :, :]


@dataclass(frozen=True)
class RandomHorizontalFlip:
    """The mirror image, left for right, with probability p for each image."""

    p: float = 0.5

    def __post_init__(self) -> None:
        require_number("RandomHorizontalFlip", "p", self.p)
        if self.p > 1:
            raise ValueError(f"RandomHorizontalFlip: p={self.p} is a probability; it must be at most 1.")

    def __call__(self, images: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Images of the same shape."""
        rng, made = rng or Generator.rng(), images.copy()
        flipped = rng.random(len(images)) < self.p
        made[flipped] = images[flipped][..., ::-1]
        return made
