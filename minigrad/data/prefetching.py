"""Batches made ahead of their use by another thread, and copied to a GPU while it computes."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

import numpy as np

from minigrad.create import tensor
from minigrad.devices import check, default_device, get, is_gpu
from minigrad.devices.dtypes import to_host
from minigrad.errors import require, require_int
from minigrad.tensor import Tensor

T = TypeVar("T")
END = object()  # in place of an item, after the last


def prefetch(
    batches: Iterable[Sequence[Any]], device: str | None = None, ahead: int = 2
) -> Iterator[tuple[Tensor, ...]]:
    """The same batches as tensors on a device; another thread makes up to `ahead` of them while the step runs.

    On `cuda` that thread also copies them while kernels run. `for x, y in data.prefetch(data.batches(images, labels,
    device="numpy"), "cuda")`: batches come from the host. An error in a batch is raised where the loop would get it;
    where a loop ends early, the thread ends after the batch that it is making.

    Raises TypeError for a batch that is no tuple or list; a batch of one array is (x,).
    """
    device, ahead = default_device() if device is None else check(device), require_int("prefetch", "ahead", ahead, 1)
    hosts = map(_on_host, require("prefetch", batches, Iterable, "batches, e.g. data.batches(images, labels)"))
    if is_gpu(device):
        sender = get(device).sender  # type: ignore[attr-defined]
        return _arrived(sender, in_background(_sent(sender, hosts), ahead, lambda batch: sender.let_go(batch[1])))
    return in_background(_made(hosts, device), ahead)


def in_background(
    items: Iterator[T], ahead: int, unwanted: Callable[[T], Any] = lambda item: None
) -> Generator[T, None, None]:
    """The items, up to `ahead` of them made by another thread before they are asked for.

    Where the caller stops early, the thread is not waited for, since it may itself wait for something that the caller
    holds; it calls `unwanted` with each item that it made in vain.
    """
    pool = ThreadPoolExecutor(1, "minigrad-batches")  # joined when Python exits, before a GPU is closed
    coming: deque[Future[Any]] = deque()
    try:
        coming.extend(pool.submit(next, items, END) for _ in range(ahead))
        while (item := coming[0].result()) is not END:
            coming.append(pool.submit(next, items, END))
            yield item
            coming.popleft()  # not before: Ctrl-C may come between any two lines
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for future in coming:
            future.add_done_callback(partial(_drop, unwanted))


def _drop(unwanted: Callable[[Any], Any], future: Future) -> None:
    """Hand the item of a future to `unwanted`, if it has one."""
    if not future.cancelled() and not future.exception() and future.result() is not END:
        unwanted(future.result())


def _on_host(batch: Any) -> list[np.ndarray]:
    """A batch as NumPy arrays. Raises TypeError."""
    batch = require("prefetch", batch, tuple | list, "batches that are tuples of arrays, of a single array (x,)")
    return [to_host(part, who="prefetch") for part in batch]


def _sent(sender: Any, batches: Iterable[Sequence[np.ndarray]]) -> Iterator[tuple[list[Any], list[Any]]]:
    """The arrays of each batch on the GPU, and the events at the end of their copies, which have been queued."""
    for batch in batches:
        arrays: list[Any] = []
        events: list[Any] = []
        try:
            for part in batch:
                array, event = sender.send(part)
                arrays.append(array)
                events.append(event)
        except BaseException:  # the memory of the first parts must not be freed while a copy still writes it
            sender.let_go(events)
            raise
        yield arrays, events


def _arrived(sender: Any, batches: Generator[Any, None, None]) -> Iterator[tuple[Tensor, ...]]:
    """The batches as tensors; the stream waits for the copies of each."""
    with closing(batches):  # Python 3.12 keeps what a closed generator without such a block refers to
        while True:
            sender.must_not_capture()  # the other thread would wait for the end of the capture, this one for a batch
            arrays, events = next(batches, (None, None))
            if arrays is None:
                return
            sender.arrive(events)
            yield tuple(map(Tensor, arrays))


def _made(batches: Iterable[Sequence[np.ndarray]], device: str) -> Iterator[tuple[Tensor, ...]]:
    """The batches as tensors on a device that is no GPU: copies, as whoever makes them may use its memory again."""
    for batch in batches:
        yield tuple(tensor(part, device=device) for part in batch)
