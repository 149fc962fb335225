"""Data to train on: handwritten digits, and mini-batches of any arrays."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from minigrad.create import tensor
from minigrad.devices import check, default_device, get, is_gpu
from minigrad.devices.dtypes import to_host
from minigrad.errors import a, whole
from minigrad.tensor import Tensor


class Split(NamedTuple):
    """Images (count, 64) in 0 to 1 as float32, and labels (count,) in 0 to 9 as int64."""

    images: np.ndarray
    labels: np.ndarray


class Digits(NamedTuple):
    """Handwritten digits to learn from, and others to be tested on."""

    train: Split
    test: Split


def digits(test: int = 360, seed: int = 0) -> Digits:
    """1797 handwritten digits of 8 x 8 pixels, shuffled and cut in two; no download.

    Source: the UCI optical recognition of handwritten digits set, as packed with scikit-learn.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("data.digits needs scikit-learn: pip install 'minigrad-cuda[data]'.") from error
    loaded: Any = load_digits()
    count = len(loaded.target)
    if whole("digits", "test", test) > count:
        raise ValueError(f"digits: test={test} must be at most {count}, the digits that there are.")
    order = np.random.default_rng(whole("digits", "seed", seed)).permutation(count)
    images = (loaded.data[order] / 16).astype(np.float32)
    labels = loaded.target[order].astype(np.int64)
    return Digits(Split(images[test:], labels[test:]), Split(images[:test], labels[:test]))


def batches(
    images: np.ndarray, labels: np.ndarray, size: int = 64, seed: int | None = None, device: str | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """The data in pieces of `size` rows as tensors, the last one smaller; shuffled by `seed`, in order without one."""
    images, labels = to_host(images, who="batches: images"), to_host(labels, who="batches: labels")
    if not images.ndim or images.shape[:1] != labels.shape[:1]:
        raise ValueError(
            f"batches: images {images.shape} and labels {labels.shape}; there must be a row for each label."
        )
    size, order = whole("batches", "size", size, 1), np.arange(len(images))
    if seed is not None:
        order = np.random.default_rng(whole("batches", "seed", seed)).permutation(len(images))
    device = default_device() if device is None else check(device)
    pieces = (order[start : start + size] for start in range(0, len(order), size))
    return ((tensor(images[rows], device=device), tensor(labels[rows], device=device)) for rows in pieces)


def prefetch(batches: Iterable[Sequence[Any]], device: str | None = None) -> Iterator[tuple[Tensor, ...]]:
    """The same batches as tensors on a device; on `cuda` the next one travels while the step on this one runs.

    `for x, y in data.prefetch(data.batches(images, labels, device="numpy"), "cuda")`: batches come from the host.
    Raises TypeError for a batch that is no tuple or list: of a single array it is (x,).
    """
    device = default_device() if device is None else check(device)
    parts = (
        a("prefetch", batch, tuple | list, "batches that are tuples of arrays, of a single array (x,)")
        for batch in a("prefetch", batches, Iterable, "batches, e.g. data.batches(images, labels)")
    )
    if not is_gpu(device):
        return (tuple(tensor(part, device=device) for part in batch) for batch in parts)
    return _sent(get(device).sender, parts)  # type: ignore[attr-defined]


def _sent(sender: Any, batches: Iterable[Sequence[Any]]) -> Iterator[tuple[Tensor, ...]]:
    """The batches on the GPU, each as soon as the next one is on its way."""
    here: list[tuple[Any, Any]] = []  # the parts of a batch, with the event at the end of the copy of each
    coming: list[tuple[Any, Any]] = []
    try:
        for batch in batches:
            coming = []
            for part in batch:
                coming.append(sender.send(to_host(part, who="prefetch")))
            if here:
                yield _arrived(sender, here)
            here = coming
        if here:
            yield _arrived(sender, here)
    finally:  # a loop that is left early, also by a part that is refused, lets go of memory being written
        sender.let_go([sent for _, sent in (*here, *coming)])


def _arrived(sender: Any, coming: list[tuple[Any, Any]]) -> tuple[Tensor, ...]:
    sender.arrive([sent for _, sent in coming])
    return tuple(Tensor(array) for array, _ in coming)
