"""Mini-batches of images and labels: one pass in a line, or epochs for training."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from minigrad.create import tensor
from minigrad.data.folders import ImageFiles
from minigrad.data.prefetching import prefetch
from minigrad.devices import check, default_device
from minigrad.devices.dtypes import to_host
from minigrad.devices.random import Generator
from minigrad.devices.state import fitting
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
    Orders and augmentation follow from `manual_seed`, or from `seed` and the number of the epoch, `epoch`. Another
    thread makes up to `ahead` batches while a step runs, and on `cuda` copies them, too. `state_dict()` is the place in
    the epoch: of the batches that the loop has got, not of those made ahead.

    rank, ranks: of a job of several processes. batch_size is that of all ranks together, and rank r takes the rows
    r, r + ranks, ... of each batch: the batches are those of one process, and equally many on every rank. In the last
    one a rank may have a row less than another, or none, (0, ...): let the loss be
    `mg.distributed.mean_over_ranks(losses)`, the mean over the whole batch.

    images are an array, or those of an `image_folder`: `Loader(*mg.data.shapes(), shuffle=True)`. Raises ValueError
    where images and labels differ in number, no batch is left, or several ranks would shuffle without a common seed.
    """

    def __init__(
        self, images: Any, labels: Any, batch_size: int = 64, shuffle: bool = False, drop_last: bool = False,
        augment: Augmentation | Sequence[Augmentation] = (), seed: int | None = None, device: str | None = None,
        ahead: int = 2, rank: int = 0, ranks: int = 1,
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
        self.rank, self.ranks = require_int("Loader", "rank", rank), require_int("Loader", "ranks", ranks, 1)
        if self.rank >= self.ranks:
            raise ValueError(f"Loader: rank={rank} must be below ranks={ranks}.")
        if self.ranks > 1 and self.shuffle and self.seed is None:
            raise ValueError("Loader: each rank would shuffle in an order of its own; give all the same seed=0.")
        self._drawn = 0  # in place of a seed, for this epoch
        self._row, self._resumes = 0, False  # rows of this epoch that the loop has got; the next loop goes on there
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
        if not self._resumes:
            if self.seed is None and (self.shuffle or self.augment):  # else an evaluation would change the training
                self._drawn = int(Generator.rng().integers(2**63))
            self.epoch, self._row = self.epoch + 1, 0
        self._resumes = False
        seeds = (self._drawn,) if self.seed is None else (self.seed, self.epoch - 1)
        return self._counted(prefetch(self._batches(seeds, self._row), self.device, self._ahead), self._row)

    def state_dict(self) -> dict[str, np.ndarray]:
        """The number of the epoch, the rows of it that the loop has got, and what its order follows from."""
        row = self._row if self._row < self._used else 0
        return {"epoch": np.array(self.epoch), "row": np.array(row), "drawn": np.array(self._drawn)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop gives the rest of the epoch of this `state_dict()`, on any number of ranks.

        Raises KeyError or ValueError; then nothing has changed.
        """
        new = fitting("Loader.load_state_dict", state, self.state_dict())
        epoch, row, drawn = (new[name].item() for name in ("epoch", "row", "drawn"))
        if row and row >= self._used:
            raise ValueError(f"Loader.load_state_dict: row {row} was reached, and an epoch has {self._used} rows.")
        self.epoch, self._row, self._drawn, self._resumes = epoch, row, drawn, row > 0

    def _counted(self, made: Any, row: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches; those that the loop has got are counted."""
        with closing(made):
            for batch in made:
                row = self._row = min(row + self.batch_size, self._used)
                yield batch

    def _batches(self, seeds: tuple[int, ...], row: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The batches of an epoch from a row on, on the host, each with random numbers of its own.

        Raises ValueError where an augmentation changes the number of images.
        """
        order = np.arange(len(self.labels))
        if self.shuffle:
            order = np.random.default_rng(seeds).permutation(len(order))
        for start in range(row, self._used, self.batch_size):
            rows = order[start : min(start + self.batch_size, self._used)][self.rank :: self.ranks]
            rng = np.random.default_rng((*seeds, 1 + start, self.rank))
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
