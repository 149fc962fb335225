"""DataParallel: a module whose gradients are averaged over the ranks, each of which trains on data of its own."""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from operator import add
from typing import Any
from zlib import crc32

from minigrad import tape
from minigrad.devices.dtypes import DTYPES
from minigrad.distributed.host import Backend, backend_of
from minigrad.distributed.world import init
from minigrad.errors import require, require_number
from minigrad.nn.module import Module
from minigrad.tensor import Tensor

ALIKE = "Every rank must make the same module, with the same dtypes and bucket_mb."
SAME_STEPS = "Every rank must change parameters in the same way: from the gradients of backward, without no_sync."
_numbers = count(1)


class DataParallel(Module):
    """The module, trained by all ranks on data of their own: `backward` ends with the mean of the ranks' gradients.

    With batches of b rows on each of `size()` ranks, a step is that of one process with the mean over b * size rows.
    All ranks start with the parameters and buffers of rank 0; later each has buffers, such as running statistics, of
    its own. Gradients travel in messages of about bucket_mb MiB, from the last parameter to the first. `.module` is the
    module itself, whose state has names without a prefix. Raises ValueError on every rank where the modules differ.
    """

    def __init__(self, module: Module, bucket_mb: float = 25):
        self.module = require("DataParallel", module, Module, "a module")
        self._bytes = require_number("DataParallel", "bucket_mb", bucket_mb) * 2**20
        self._synchronized = True
        state = dict(module._named_state())
        for name, x in state.items():
            backend_of(x.device)
            if x.dtype not in DTYPES:
                raise TypeError(f"DataParallel: {name} is {x.dtype}; parameters are float32 or float64.")
        init().agree("DataParallel", f"bucket_mb={float(bucket_mb)}", *_described(state), way_out=ALIKE)
        self._number = next(_numbers)  # the same on all ranks: two modules of the same shapes are not mixed up
        with tape.no_grad():
            for backend, bucket in self._buckets([*{id(x): x for x in state.values()}.values()]):
                for x, array in zip(bucket, backend.broadcast([x.array for x in bucket], 0), strict=True):
                    x.assign(Tensor(array))
        self._follow_backward()

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The module's output."""
        return self.module(*inputs, **named)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes within leave each rank its own gradients; the next one after it averages their sum."""
        before, self._synchronized = self._synchronized, False
        try:
            yield
        finally:
            self._synchronized = before

    def reduce_gradients(self) -> None:
        """Average the gradients over the ranks, as each `backward` does at its end.

        A parameter without a gradient keeps none. Raises ValueError on every rank where it has one on some ranks only.
        """
        named = dict(self.module.named_parameters())
        grads = (f" with{'out' * (x.grad is None)} a gradient" for x in named.values())
        details = map(add, _described(named), grads)
        init().agree("the mean of gradients of DataParallel", f"DataParallel number {self._number}", *details)
        ready: list[Any] = [x for x in self.module.parameters() if x.grad is not None]
        for backend, bucket in self._buckets(ready):
            for x, mean in zip(bucket, backend.all_reduce([x.grad.array for x in bucket], "mean"), strict=True):
                x.grad = Tensor(mean)

    def check_parameters(self) -> None:
        """Raise ValueError, on every rank, unless all ranks have the same parameters, to the last bit."""
        named = dict(self.module.named_parameters(frozen=True))
        sums = (f" with checksum {crc32(x.numpy().tobytes()):08x}" for x in named.values())
        init().agree("check_parameters", *map(add, _described(named), sums), way_out=SAME_STEPS)

    def _buckets(self, tensors: Sequence[Any]) -> Iterator[tuple[Backend, list[Any]]]:
        """The tensors from last to first, in lists of one back end and dtype, each within bucket_mb or of one."""
        kinds: dict[tuple, list[list[Any]]] = {}
        for x in reversed(tensors):
            buckets = kinds.setdefault((backend_of(x.device), x.dtype), [[]])
            if buckets[-1] and sum(y.array.nbytes for y in buckets[-1]) + x.array.nbytes > self._bytes:
                buckets.append([])
            buckets[-1].append(x)
        return ((backend, bucket) for (backend, _), buckets in kinds.items() for bucket in buckets)

    def _follow_backward(self) -> None:
        """Be called at the end of each backward pass, as long as this module lives."""
        weak = weakref.ref(self)

        def ended(leaves: Sequence[Tensor]) -> None:
            own = weak()
            if own and own._synchronized and {id(x) for x in own.module.parameters()} & {id(x) for x in leaves}:
                own.reduce_gradients()

        tape.AFTER_BACKWARD.append(ended)
        weakref.finalize(self, tape.AFTER_BACKWARD.remove, ended)

    def __reduce__(self) -> tuple:
        raise TypeError("copy, pickle: DataParallel follows the backward passes of its own module; copy its .module.")


def _described(named: Mapping[str, Tensor]) -> Iterator[str]:
    """Each tensor in words; one that has come before under another name with that name, since it is sent once."""
    first: dict[int, str] = {}
    for name, x in named.items():
        known = first.setdefault(id(x), name)
        yield f"{name}, {x.dtype} {x.shape}" if known == name else f"{name}, which is {known}"
