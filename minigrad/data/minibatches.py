"""Mini-batches of images and labels: one pass in a line, or epochs for training."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minigrad.create import tensor
from minigrad.data.folders import ImageFiles
from minigrad.data.prefetching import prefetch
from minigrad.devices import check, default_device
from minigrad.devices.dtypes import to_host
from minigrad.devices.random import Generator
from minigrad.errors import require, require_bool, require_int
from minigrad.tensor import Tensor

Augmentation = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def batches(
    images: Any, labels: Any, size: int = 64, seed: int | None = None, device: str | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Chunks of `size` rows as tensors, the last one smaller; shuffled by `seed`, in order without one."""
    images, labels = _rows("batches", images, labels)
    size, order = require_int("batches", "size", size, 1), np.arange(len(labels))
    if seed is not None:
        order = np.random.default_rng(require_int("batches", "seed", seed)).permutation(len(labels))
    device = default_device() if device is None else check(device)
    chunks = (order[start : start + size] for start in range(0, len(order), size))
    return ((tensor(images[rows], device=device), tensor(labels[rows], device=device)) for rows in chunks)


class Loader:
    """Mini-batches for training: each `for x, y in loader` is an epoch; `len(loader)` is its number of batches.

    shuffle: every epoch has an order of its own. drop_last: without a last batch that is smaller than batch_size.
    augment: a function of images and a random generator that changes a batch, such as `RandomCrop(32, 4)`, or several.
    Orders and augmentation follow from `manual_seed`, or from `seed` and the number of the epoch, `epoch`, which a
    program that goes on from a checkpoint sets. Another thread makes up to `ahead` batches while a step runs, and on
    `cuda` copies them, too.

    images are an array, or those of an `image_folder`: `Loader(*mg.data.shapes(), shuffle=True)`. Raises ValueError
    where images and labels differ in number, or no batch is left.
    """

    def __init__(
        self, images: Any, labels: Any, batch_size: int = 64, shuffle: bool = False, drop_last: bool = False,
        augment: Augmentation | Sequence[Augmentation] = (), seed: int | None = None, device: str | None = None,
        ahead: int = 2,
    ):  # fmt: skip
        self.images, self.labels = _rows("Loader", images, labels)
        self.batch_size = require_int("Loader", "batch_size", batch_size, 1)
        self.shuffle = require_bool("Loader", "shuffle", shuffle)
        wanted = "a function of images and a random generator, or a list of such"
        steps = (augment,) if callable(augment) else require("Loader: augment", augment, Sequence, wanted)
        self.augment = tuple(require("Loader: augment", step, Callable, wanted) for step in steps)
        self.seed = None if seed is None else require_int("Loader", "seed", seed)
        self.device = default_device() if device is None else check(device)
        self.epoch, self._ahead = 0, require_int("Loader", "ahead", ahead, 1)
        rows = len(self.labels)
        self._used = rows - rows % self.batch_size if require_bool("Loader", "drop_last", drop_last) else rows
        if rows and not self._used:
            raise ValueError(
                f"Loader: drop_last leaves no batch of {batch_size} from {rows} images; choose batch_size <= {rows}."
            )

    def __len__(self) -> int:
        return -(-self._used // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of the next epoch. Its random numbers are settled here, before another thread draws them."""
        seed: Any = 0
        if self.seed is not None:
            seed = (self.seed, self.epoch)
        elif self.shuffle or self.augment:  # otherwise nothing is random, and an evaluation changes no training
            seed = int(Generator.rng().integers(2**63))
        self.epoch += 1
        made = self._batches(np.random.default_rng(seed))
        return prefetch(made, self.device, self._ahead)  # type: ignore[return-value]

    def _batches(self, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The batches of an epoch on the host. Raises ValueError where an augmentation changes the number of images."""
        order = rng.permutation(len(self.labels)) if self.shuffle else np.arange(len(self.labels))
        for start in range(0, self._used, self.batch_size):
            rows = order[start : start + self.batch_size]
            images = self.images[rows]
            for step in self.augment:
                images = step(images, rng)
                if np.shape(images)[:1] != rows.shape:
                    raise ValueError(
                        f"Loader: augment: {step!r:.60} made an array of shape {np.shape(images)} of {len(rows)} "
                        "images; it must return as many."
                    )
            yield images, self.labels[rows]


def _rows(who: str, images: Any, labels: Any) -> tuple[Any, np.ndarray]:
    """Images and labels as arrays of as many rows. Raises TypeError or ValueError."""
    images = images if isinstance(images, ImageFiles) else to_host(images, who=f"{who}: images")
    labels = to_host(labels, who=f"{who}: labels")
    if not images.ndim or images.shape[:1] != labels.shape[:1]:
        raise ValueError(f"{who}: images {images.shape} and labels {labels.shape}; there must be a row for each label.")
    return images, labels
