"""Two chains of elementwise operations and a sum, forward and backward: op by op, fused, and by PyTorch.

Fused, they move the same bytes; only one of them has a logarithm and an exponential.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.fusion import Fused, fuse
from minigrad.fusion.fused import nbytes
from minigrad.lab.bench.measure import TOLERANCE, Measurement, Reference, numbers, pytorch, wall
from minigrad.lab.bench.timer import Call, timer
from minigrad.lab.check import ValueMismatch
from minigrad.tensor import Tensor

SIZE = 2**26
WAYS = ("op by op", "fused")


def chain(x: Any) -> Any:
    """y = sum of log(x * x + 1) * exp(x)"""
    return ((x * x + 1).log() * x.exp()).sum()


def plain_chain(x: Any) -> Any:
    """y = sum of (x * x + 1) / 2 * (x + 2): a multiplication for the logarithm, an addition for the exponential"""
    return ((x * x + 1) * 0.5 * (x + 2)).sum()


CHAINS = {"chain": chain, "plain chain": plain_chain}


def measured(against: Sequence[str] = (), size: int = SIZE, repeats: int = 20) -> list[Measurement]:
    """Time forward plus backward of both chains op by op, fused and by the rivals, those of a chain in turns.

    Before that value and gradient of each are compared with NumPy's. Raises ValueMismatch, DeviceError.
    """
    return [m for name in CHAINS for m in _measured(name, against, size, repeats)]


def _measured(name: str, against: Sequence[str], size: int, repeats: int) -> list[Measurement]:
    gpu: Any = get(check("cuda"))
    of = CHAINS[name]
    fused, host = fuse(of), numbers(size, False)
    x = Array.upload(gpu, host)
    ways = dict(zip(WAYS, (passes(of, x), passes(fused, x)), strict=True))
    calls = ways | (pytorch().passes(of, x) if "torch" in against else {})
    must_agree(calls, fused, host, gpu)
    times = timer().interleaved(calls, repeats)
    rivals = {rival: time for rival, time in times.items() if rival not in ways}
    if "numpy" in against:
        rivals["numpy"] = wall(lambda: fused.vjp([host], np.ones((), host.dtype), {}))
    moved = fused.traffic(size)

    def measurement(way: str, launches: Sequence[Any]) -> Measurement:
        kernels = tuple(dict.fromkeys(launch.kernel for launch in launches))
        return Measurement(title(way, size, name), kernels, times[way], 0, nbytes(launches), "float32", rivals)

    return list(map(measurement, WAYS, (moved.op_by_op, moved.fused)))


def title(way: str, size: int = SIZE, name: str = "chain") -> str:
    return f"{name} {way} of {size}"


def titles() -> list[str]:
    return [title(way, name=name) for name in CHAINS for way in WAYS]


def passes(fn: Callable, x: Array) -> Call:
    """A call runs forward and backward in minigrad, and returns the value and the gradient."""
    leaf = Tensor(x, requires_grad=True)

    def call() -> Sequence[Array]:
        leaf.grad = None
        y = fn(leaf)
        y.backward()
        return y.array, leaf.grad.array  # type: ignore[attr-defined]

    return call


def must_agree(calls: Mapping[str, Call], fused: Fused, host: np.ndarray, device: Any) -> None:
    """Raise ValueMismatch where a value or a gradient differs from NumPy's."""
    y, pull = fused.pullback([host], {})
    wanted = [Reference(device, np.asarray(a)) for a in (y, *pull(np.ones((), host.dtype)))]
    for name, call in calls.items():
        for what, got, reference in zip(("value", "gradient"), call(), wanted, strict=True):
            if not (error := reference.error(got)) <= TOLERANCE["float32"]:
                raise ValueMismatch(f"chain: the {what} of {name} is off by {error:.2g} of the largest; not timed.")
