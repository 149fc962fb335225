"""Data to train on: handwritten digits, and mini-batches of any arrays."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from minigrad.create import tensor
from minigrad.devices import check, default_device, get, is_gpu
from minigrad.devices.dtypes import to_host
from minigrad.errors import require, require_int
from minigrad.tensor import Tensor


class Split(NamedTuple):
    """float32 images (count, 64) in [0, 1], and int64 labels (count,) in 0 to 9."""

    images: np.ndarray
    labels: np.ndarray


class Digits(NamedTuple):
    """Handwritten digits for training and for testing."""

    train: Split
    test: Split


def digits(test: int = 360, seed: int = 0) -> Digits:
    """1797 handwritten digits of 8 x 8 pixels, shuffled and split in two; no download.

    Source: the UCI optical recognition of handwritten digits set, as packed with scikit-learn.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("data.digits needs scikit-learn: pip install 'minigrad-cuda[data]'.") from error
    loaded: Any = load_digits()
    count = len(loaded.target)
    if require_int("digits", "test", test) > count:
        raise ValueError(f"digits: test={test} must be at most {count}, the number of digits.")
    order = np.random.default_rng(require_int("digits", "seed", seed)).permutation(count)
    images = (loaded.data[order] / 16).astype(np.float32)
    labels = loaded.target[order].astype(np.int64)
    return Digits(Split(images[test:], labels[test:]), Split(images[:test], labels[:test]))


def batches(
    images: np.ndarray, labels: np.ndarray, size: int = 64, seed: int | None = None, device: str | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Chunks of `size` rows as tensors, the last one smaller; shuffled by `seed`, in order without one."""
    images, labels = to_host(images, who="batches: images"), to_host(labels, who="batches: labels")
    if not images.ndim or images.shape[:1] != labels.shape[:1]:
        raise ValueError(
            f"batches: images {images.shape} and labels {labels.shape}; there must be a row for each label."
        )
    size, order = require_int("batches", "size", size, 1), np.arange(len(images))
    if seed is not None:
        order = np.random.default_rng(require_int("batches", "seed", seed)).permutation(len(images))
    device = default_device() if device is None else check(device)
    chunks = (order[start : start + size] for start in range(0, len(order), size))
    return ((tensor(images[rows], device=device), tensor(labels[rows], device=device)) for rows in chunks)


def prefetch(batches: Iterable[Sequence[Any]], device: str | None = None) -> Iterator[tuple[Tensor, ...]]:
    """The same batches as tensors on a device; on `cuda` the next one is copied while the step on the last one runs.

    `for x, y in data.prefetch(data.batches(images, labels, device="numpy"), "cuda")`: batches come from the host.
    Raises TypeError for a batch that is no tuple or list; a batch of one array is (x,).
    """
    device = default_device() if device is None else check(device)
    parts = (
        require("prefetch", batch, tuple | list, "batches that are tuples of arrays, of a single array (x,)")
        for batch in require("prefetch", batches, Iterable, "batches, e.g. data.batches(images, labels)")
    )
    if not is_gpu(device):
        return (tuple(tensor(part, device=device) for part in batch) for batch in parts)
    return _prefetched(get(device).sender, parts)  # type: ignore[attr-defined]


def _prefetched(sender: Any, batches: Iterable[Sequence[Any]]) -> Iterator[tuple[Tensor, ...]]:
    """The batches on the GPU; the copy of the next one is queued before one is yielded."""
    current: list[tuple[Any, Any]] = []  # the arrays of a batch, each with the event at the end of its copy
    coming: list[tuple[Any, Any]] = []
    try:
        for batch in batches:
            coming = []
            for part in batch:
                coming.append(sender.send(to_host(part, who="prefetch")))
            if current:
                yield _arrived(sender, current)
            current = coming
        if current:
            yield _arrived(sender, current)
    finally:  # a loop that ends early, also by an error, must not free memory that a copy still writes
        sender.let_go([sent for _, sent in (*current, *coming)])


def _arrived(sender: Any, coming: list[tuple[Any, Any]]) -> tuple[Tensor, ...]:
    """The batch as tensors; the stream waits for its copies."""
    sender.arrive([sent for _, sent in coming])
    return tuple(Tensor(array) for array, _ in coming)
