"""DataParallel: a module whose gradients are averaged over the ranks, each of which trains on data of its own."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from operator import add
from typing import Any
from zlib import crc32

from minigrad import tape
from minigrad.devices.dtypes import DTYPES, is_last
from minigrad.display import plural
from minigrad.distributed.host import Backend, backend_of
from minigrad.distributed.world import init
from minigrad.errors import require, require_number
from minigrad.nn.module import Module
from minigrad.tensor import Tensor

ALIKE = "Every rank must make the same module, with the same dtypes and bucket_mb."
SAME_STEPS = "Every rank must change parameters in the same way: from the gradients of backward, without no_sync."
MEAN = "the mean of gradients of DataParallel"
_numbers = count(1)


class DataParallel(Module):
    """The module, trained by all ranks on data of their own: `backward` ends with the mean of the ranks' gradients.

    With batches of b rows on each of `size()` ranks, a step is that of one process with the mean over b * size rows.
    All ranks start with the parameters and buffers of rank 0; later each has buffers, such as running statistics, of
    its own. Gradients travel in messages of about bucket_mb MiB, in the order in which backward gave them first: on
    GPUs, from the second pass on, each as soon as its last gradient is there, while the rest is computed. `mg.graph`
    captures that, too. `.module` is the module itself, whose state has names without a prefix. Raises ValueError on
    every rank where the modules differ.
    """

    def __init__(self, module: Module, bucket_mb: float = 8):
        self.module = require("DataParallel", module, Module, "a module")
        self._bytes = require_number("DataParallel", "bucket_mb", bucket_mb) * 2**20
        self._synchronized = True
        self._kept = 0  # backward passes in no_sync since the last mean
        self._plan: list[tuple[Backend, list[Any]]] = []  # the messages that travel during a backward pass
        self._message_of: dict[int, int] = {}  # the number of a parameter's message in the plan, by id
        state = dict(module._named_state())
        for name, x in state.items():
            backend_of(x.device)
            if x.dtype not in DTYPES:
                raise TypeError(f"DataParallel: {name} is {x.dtype}; parameters are float32 or float64.")
        init().agree("DataParallel", f"bucket_mb={float(bucket_mb)}", *_described(state), way_out=ALIKE)
        self._number = next(_numbers)  # the same on all ranks: two modules of the same shapes are not mixed up
        with tape.no_grad():
            for backend, bucket in self._buckets({id(x): x for x in state.values()}.values()):
                for x, array in zip(bucket, backend.broadcast([x.array for x in bucket], 0), strict=True):
                    x.assign(Tensor(array))
        self._follow_backward()

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The module's output."""
        return self.module(*inputs, **named)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes within leave each rank its own gradients; the next one after it averages their sum.

        Each rank makes as many; where they cannot, make all of them within, and then call `reduce_gradients()`.
        """
        before, self._synchronized = self._synchronized, False
        try:
            yield
        finally:
            self._synchronized = before

    def reduce_gradients(self) -> None:
        """Average the gradients over the ranks, as each `backward` does at its end.

        A parameter without a gradient keeps none. Raises ValueError on every rank where it has one on some ranks only.
        """
        self._reduce((), ())

    def _reduce(self, reached: Sequence[Tensor], sent: Sequence[Sequence[Any]]) -> None:
        """Average all gradients. reached: the leaves of a backward pass; sent: the means of the plan's first messages.

        All ranks send in the order of one plan, whatever comes first on one of them. It is that in which rank 0 got its
        gradients when backward first came to these leaves.
        """
        named = dict(self.module.named_parameters())
        parameters = [*named.values()]
        numbers = {id(x): i for i, x in enumerate(parameters)}
        order = [numbers[id(x)] for x in reached if id(x) in numbers]
        if reached and not order:
            return  # the backward pass of another module
        if reached and not self._synchronized:
            self._kept += 1
            return
        grads = (f" with{'out' * (x.grad is None)} a gradient" for x in parameters)
        details = map(add, _described(named), grads)
        way = f"gradients for {sorted(order)}"
        kept = f"{plural(self._kept, 'backward pass', 'backward passes')} in no_sync" if reached else "reduce_gradients"
        init().agree(MEAN, f"DataParallel number {self._number}", *details, way, kept)
        self._kept = 0
        for backend in {backend for backend, _ in self._plan[: len(sent)]}:
            backend.join()
        messages = [(bucket, means) for (_, bucket), means in zip(self._plan, sent, strict=False)]
        if order and {id(parameters[number]) for number in order} != self._message_of.keys():
            self._plan = [*self._buckets(parameters[number] for number in init().of_first(order))]
            self._message_of = {id(x): number for number, (_, bucket) in enumerate(self._plan) for x in bucket}
        done = {id(x) for bucket, _ in messages for x in bucket}
        every = (*(x for _, bucket in self._plan for x in bucket), *reversed(parameters))
        rest = {id(x): x for x in every if x.grad is not None and id(x) not in done}
        messages += [
            (bucket, backend.all_reduce(_grads(bucket), "mean")) for backend, bucket in self._buckets(rest.values())
        ]
        for bucket, means in messages:
            for x, mean in zip(bucket, means, strict=True):
                x.grad = Tensor(mean)

    def check_parameters(self) -> None:
        """Raise ValueError, on every rank, unless all ranks have the same parameters, to the last bit."""
        named = dict(self.module.named_parameters(frozen=True))
        sums = (f" with checksum {crc32(x.numpy().tobytes()):08x}" for x in named.values())
        init().agree("check_parameters", *map(add, _described(named), sums), way_out=SAME_STEPS)

    def _buckets(self, tensors: Iterable[Any]) -> Iterator[tuple[Backend, list[Any]]]:
        """The tensors in their order, in lists of one back end and dtype, each within bucket_mb or of one."""
        kinds: dict[tuple, list[list[Any]]] = {}
        for x in tensors:
            buckets = kinds.setdefault((backend_of(x.device), x.dtype), [[]])
            if buckets[-1] and sum(y.array.nbytes for y in buckets[-1]) + x.array.nbytes > self._bytes:
                buckets.append([])
            buckets[-1].append(x)
        return ((backend, bucket) for (backend, _), buckets in kinds.items() for bucket in buckets)

    def _follow_backward(self) -> None:
        """Follow each backward pass, as long as this module lives."""
        weak = weakref.ref(self)

        def follow() -> Callable[[Any], None]:
            own = weak()
            return _BackwardPass(own) if own else lambda leaf: None

        tape.FOLLOWERS.append(follow)
        weakref.finalize(self, tape.FOLLOWERS.remove, follow)

    def __reduce__(self) -> tuple:
        raise TypeError("copy, pickle: DataParallel follows the backward passes of its own module; copy its .module.")


class _BackwardPass:
    """A backward pass that is followed: where messages can travel meanwhile, one of the plan leaves when it is full."""

    def __init__(self, own: DataParallel):
        self._own, self._reached, self._means = own, list[Tensor](), list[list[Any]]()
        self._plan = own._plan if own._synchronized else []
        self._missing = [len(bucket) for _, bucket in self._plan]

    def __call__(self, leaf: Tensor | None) -> None:
        """A leaf has its gradient, or it is the end."""
        if leaf is None:
            if self._reached:
                self._own._reduce(self._reached, self._means)
            return
        self._reached.append(leaf)
        number = self._own._message_of.get(id(leaf))
        if number is not None and self._plan:
            self._missing[number] -= 1
            self._send()

    def _send(self) -> None:
        """Send every message that is full, in the order of the plan, which all ranks have alike."""
        for backend, bucket in self._plan[len(self._means) :]:
            if self._missing[len(self._means)] or not backend.overlaps:
                break
            self._means.append(backend.all_reduce(_grads(bucket), "mean", overlap=True))


def _grads(bucket: Sequence[Any]) -> list[Any]:
    return [x._grad.array for x in bucket]


def _described(named: Mapping[str, Tensor]) -> Iterator[str]:
    """Each tensor in words; one that has come before under another name with that name, since it is sent once."""
    first: dict[int, str] = {}
    for name, x in named.items():
        known = first.setdefault(id(x), name)
        layout = ", NHWC" * is_last(x.array)
        yield f"{name}, {x.dtype} {x.shape}{layout}" if known == name else f"{name}, which is {known}"
