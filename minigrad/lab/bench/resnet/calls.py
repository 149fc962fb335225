"""Calls apart from the network that are compared with PyTorch's: small ones by the wall clock, and large products."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minigrad.create import tensor
from minigrad.devices import get
from minigrad.lab.bench.record import Times
from minigrad.lab.bench.resnet.whole_steps import DEVICE, REPEATS, rival
from minigrad.lab.bench.steps import timed
from minigrad.lab.bench.work import Work
from minigrad.lab.check import ValueMismatch
from minigrad.op import OPS, Case

SHAPE, ALLOWED = (512, 64), 1e-5
SMALL: dict[str, Callable[[Any], Any]] = {  # by title, on tensors and on arrays of NumPy
    "sum over axis 0 of 512 x 64, eager": lambda x: OPS["sum"](x, axis=0),
    "softmax of 512 x 64, eager": lambda x: OPS["softmax"](x),
}


def small_call(title: str, against: Sequence[str]) -> Times:
    """The wall clock's time of a call, many in a row until the GPU has done them. Raises ValueMismatch."""
    host = np.random.default_rng(0).standard_normal(SHAPE, np.float32)
    x = tensor(host, device=DEVICE)
    truth = SMALL[title](tensor(host, device="numpy")).numpy()
    works: dict[str, Callable[[], Any]] = {"minigrad": lambda: SMALL[title](x)}
    works |= {"PyTorch": rival().small_call(title.split()[0], host)} if "torch" in against else {}
    for name, work in works.items():
        y = work()
        error = np.abs((y.numpy() if name == "minigrad" else y.cpu().numpy()) - truth).max()
        if not error <= ALLOWED * np.abs(truth).max():
            raise ValueMismatch(f"{title} by {name} is off by {error:.2g}; it is not timed.")
    return timed(works, get(DEVICE).finish, REPEATS)  # type: ignore[attr-defined]


def products() -> list[Work]:
    """Products on tensor cores as `mg.precision("tf32")` has them made, and small ones in bfloat16."""
    matmul, tf32 = OPS["matmul"], {"precision": "tf32"}
    large = [Work(matmul, Case(((n, n), (n, n)), tf32)) for n in (4096, 8192)]
    vectors: list[tuple] = [((4096, 4096), (4096,)), ((2**20,), (2**20,))]
    return large + [Work(matmul, Case(shapes), dtype="bfloat16") for shapes in vectors]
