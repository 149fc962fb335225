"""DataParallel: a module whose gradients are averaged over the ranks, each of which trains on data of its own."""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from zlib import crc32

from minigrad import tape
from minigrad.devices.dtypes import DTYPES
from minigrad.distributed.host import Backend, backend_of
from minigrad.distributed.world import init
from minigrad.errors import require, require_number
from minigrad.nn.module import Module
from minigrad.tensor import Tensor

ALIKE = "Every rank must make the same module, with the same dtypes."
SAME_STEPS = "Every rank must change parameters in the same way: from the gradients of backward, without no_sync."


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
        init().agree("DataParallel", *(f"{name}, {x.dtype} {x.shape}" for name, x in state.items()), way_out=ALIKE)
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
        named = self.module.named_parameters()
        details = (f"{name} {'without' if x.grad is None else 'with'} a gradient" for name, x in named)
        init().agree("the mean of gradients of DataParallel", *details)
        ready: list[Any] = [x for x in self.module.parameters() if x.grad is not None]
        for backend, bucket in self._buckets(ready):
            for x, mean in zip(bucket, backend.all_reduce([x.grad.array for x in bucket], "mean"), strict=True):
                x.grad = Tensor(mean)

    def check_parameters(self) -> None:
        """Raise ValueError, on every rank, unless all ranks have the same parameters, to the last bit."""
        named = self.module.named_parameters(frozen=True)
        sums = (f"{name}, {x.dtype} {x.shape} with checksum {crc32(x.numpy().tobytes()):08x}" for name, x in named)
        init().agree("check_parameters", *sums, way_out=SAME_STEPS)

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
