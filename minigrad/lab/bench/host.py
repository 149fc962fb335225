"""What an op costs the host: from the call in Python until its launches are queued, beside PyTorch's in one process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from minigrad.create import tensor
from minigrad.devices import check, get
from minigrad.errors import whole, words
from minigrad.lab.bench.record import records
from minigrad.lab.bench.timer import Timing
from minigrad.lab.check import ValueMismatch
from minigrad.optim import SGD

CALLS = 50  # in a row: their launches fit into the GPU's queue, so that the host never waits for it
RIVALS = ("torch",)
Call = Callable[[], Any]
TITLES = ("add", "add, recorded", "exp", "matmul", "three ops, forward and backward", "SGD step of one parameter")


@dataclass(frozen=True)
class HostCost:
    """The host's time for a call of each work, by library."""

    device: str
    date: str
    times: Mapping[str, Mapping[str, Timing]]

    def _table(self) -> Any:
        from minigrad.display import table

        libraries = list(next(iter(self.times.values())))
        rows = [(title, *(f"{t[name].seconds * 1e6:.2f}" for name in libraries)) for title, t in self.times.items()]
        return table(rows, ("work", *(f"{name}, us" for name in libraries)))

    def __repr__(self) -> str:
        return f"The host's time for a call, on {self.device}, {self.date}\n{self._table()!r}"

    def _repr_html_(self) -> str:
        return f"<p>The host's time for a call, on {self.device}, {self.date}</p>{self._table()._repr_html_()}"


def host_cost(against: Sequence[str] = (), repeats: int = 40) -> HostCost:
    """Time what each call takes the host on small arrays, in turns with PyTorch's if "torch" is in `against`.

    The GPU is idle before each run and nothing waits for it in a run. Raises DeviceError without a GPU, ValueError for
    another library.
    """
    against = words("mg.bench.host_cost", "against", against, RIVALS)
    repeats = whole("mg.bench.host_cost", "repeats", repeats, 1)
    gpu: Any = get(check("cuda"))
    works = {"minigrad": ours("cuda")} | ({"PyTorch": pytorch()} if "torch" in against else {})
    must_agree(works, ours("numpy"))
    times = {
        title: in_turns({name: calls[title] for name, calls in works.items()}, gpu.finish, repeats) for title in TITLES
    }
    return HostCost(gpu.label, date.today().isoformat(), times)


def recorded_host() -> HostCost:
    """The newest recorded cost. Raises ValueError where there is none."""
    for record in records():
        if record.host:
            return HostCost(record.device, record.date, record.host)
    raise ValueError("no record has what a call costs the host. On a GPU: minigrad bench --host --against torch.")


def numbers() -> list[np.ndarray]:
    """Two matrices of small numbers."""
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, (64, 64)).astype(np.float32) for _ in range(2)]


def ours(device: str) -> dict[str, Call]:
    """The works by minigrad."""
    return works_of(partial(tensor, device=device), SGD)


def pytorch() -> dict[str, Call]:
    """The works by PyTorch."""
    import torch

    return works_of(partial(torch.tensor, device="cuda"), torch.optim.SGD)


def works_of(made: Callable[..., Any], sgd: Callable[..., Any]) -> dict[str, Call]:
    """The works of a library, by what makes its tensors and its optimizer."""
    a, b = (made(x) for x in numbers())
    w, v = (made(x, requires_grad=True) for x in numbers())
    v.grad = a
    optimizer = sgd([v], lr=0.0)

    def both() -> Any:
        w.grad = None
        (w * b).tanh().sum().backward()
        return w.grad

    def stepped() -> Any:
        optimizer.step()
        return v

    calls = [lambda: a + b, lambda: w + b, lambda: a.exp(), lambda: a @ b, both, stepped]
    return dict(zip(TITLES, calls, strict=True))


def must_agree(works: Mapping[str, Mapping[str, Call]], truth: Mapping[str, Call], atol: float = 1e-4) -> None:
    """Raise ValueMismatch where a result differs from that of the truth."""
    for title, call in truth.items():
        wanted = call().numpy()
        for name, calls in works.items():
            got = calls[title]()
            got = got.detach().cpu().numpy() if name == "PyTorch" else got.numpy()
            if not np.abs(got - wanted).max() <= atol:
                raise ValueMismatch(f"{title} by {name} is off by {np.abs(got - wanted).max():.2g}; it is not timed.")


def in_turns(works: Mapping[str, Call], wait: Callable[[], None], repeats: int) -> dict[str, Timing]:
    """Each work in turn, some calls in a row; `wait` waits for the device in between, and is not in the time."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, call in works.items():
            wait()
            start = perf_counter()
            for _ in range(CALLS):
                call()
            taken[name].append((perf_counter() - start) / CALLS)
    return {name: Timing.of(seconds, host=True) for name, seconds in taken.items()}
