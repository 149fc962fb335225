"""The host's time for a call: from Python until the launches are queued, next to PyTorch's in the same process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

import numpy as np

from minigrad.create import tensor
from minigrad.devices import check, get
from minigrad.display import Table, Tabular, table
from minigrad.errors import require_int, require_words
from minigrad.lab.bench.record import Times, newest_with
from minigrad.lab.bench.timer import Call, in_turns
from minigrad.lab.check import ValueMismatch
from minigrad.optim import SGD

CALLS = 50  # in a row: their launches fit into the GPU's queue, so that the host never waits
RIVALS = ("torch",)
TITLES = ("add", "add, recorded", "exp", "matmul", "three ops, forward and backward", "SGD step of one parameter")


@dataclass(frozen=True, repr=False)
class HostCost(Tabular):
    """The host's time for each call, by library."""

    device: str
    date: str
    times: dict[str, Times]

    def table(self) -> Table:
        libraries = list(next(iter(self.times.values())))
        rows = [(title, *(f"{t[name].seconds * 1e6:.2f}" for name in libraries)) for title, t in self.times.items()]
        caption = f"The host's time for a call, on {self.device}, {self.date}"
        return table(rows, ("work", *(f"{name}, us" for name in libraries)), caption)


def host_cost(against: Sequence[str] = (), repeats: int = 40) -> HostCost:
    """Time calls on small arrays, in turns with PyTorch's if "torch" is in `against`.

    The GPU is idle before each run, and no run waits for it. Raises DeviceError without a GPU, ValueError for another
    library.
    """
    against = require_words("mg.bench.host_cost", "against", against, RIVALS)
    repeats = require_int("mg.bench.host_cost", "repeats", repeats, 1)
    gpu: Any = get(check("cuda"))
    works = {"minigrad": ours("cuda")}
    if "torch" in against:
        import torch

        works["PyTorch"] = works_of(partial(torch.tensor, device="cuda"), torch.optim.SGD)
    must_agree(works, ours("numpy"))
    rows = {title: {name: calls[title] for name, calls in works.items()} for title in TITLES}
    calls = dict.fromkeys(works, CALLS)
    times = {title: in_turns(row, calls, repeats, before=gpu.finish) for title, row in rows.items()}
    return HostCost(gpu.label, date.today().isoformat(), times)


def recorded_host() -> HostCost:
    """The newest recorded cost. Raises ValueError if there is none."""
    missing = "no record has the host's time for a call. On a GPU: minigrad bench --host --against torch."
    record, times = newest_with(lambda record: record.host, missing)
    return HostCost(record.device, record.date, times)


def ours(device: str) -> dict[str, Call]:
    return works_of(partial(tensor, device=device), SGD)


def works_of(tensor: Callable[..., Any], sgd: Callable[..., Any]) -> dict[str, Call]:
    """The calls of a library on 64 x 64 matrices, from its constructors of tensors and of the optimizer."""
    numbers = np.random.default_rng(0).uniform(-1, 1, (2, 64, 64)).astype(np.float32)
    a, b = map(tensor, numbers)
    w, v = (tensor(x, requires_grad=True) for x in numbers)
    v.grad = a
    optimizer = sgd([v], lr=0.0)

    def forward_backward() -> Any:
        w.grad = None
        (w * b).tanh().sum().backward()
        return w.grad

    def step() -> Any:
        optimizer.step()
        return v

    calls = [lambda: a + b, lambda: w + b, lambda: a.exp(), lambda: a @ b, forward_backward, step]
    return dict(zip(TITLES, calls, strict=True))


def must_agree(works: Mapping[str, Mapping[str, Call]], truth: Mapping[str, Call], atol: float = 1e-4) -> None:
    """Raise ValueMismatch where a result differs from the true one."""
    for title, call in truth.items():
        wanted = call().numpy()
        for name, calls in works.items():
            got = calls[title]()
            got = got.detach().cpu().numpy() if name == "PyTorch" else got.numpy()
            if not np.abs(got - wanted).max() <= atol:
                raise ValueMismatch(f"{title} by {name} is off by {np.abs(got - wanted).max():.2g}; it is not timed.")
