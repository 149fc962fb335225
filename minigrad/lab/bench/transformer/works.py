"""The ops of transformers that are timed alone: attention forward and backward, layer norm, and a table's gradient."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from minigrad.create import tensor
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.lab.bench.measure import measure
from minigrad.lab.bench.record import Times
from minigrad.lab.bench.timer import Call, timer
from minigrad.lab.check import ValueMismatch
from minigrad.op import OPS

DEVICE, REPEATS, SIDES = "cuda", 9, ("forward", "backward")
ALLOWED = {"3xtf32": 2e-5, "bf16": 2e-2}  # errors as a part of the largest element
LONGEST = 65536  # keys whose scores would take 17 GB a head
LAST = 64  # queries and keys of those that are compared


class Attention(NamedTuple):
    """Attention of some sequences to themselves, in a mode: 3xtf32, which is float32, or bf16."""

    batch: int
    heads: int
    length: int
    width: int
    causal: bool = False
    mode: str = "3xtf32"

    def title(self, way: str = "") -> str:
        """attention forward B4 H16 S4096 D64, causal, bf16"""
        shape = f"B{self.batch} H{self.heads} S{self.length} D{self.width}"
        return f"attention {f'{way} ' * bool(way)}{shape}, {'causal, ' * self.causal}{self.mode}"

    @property
    def params(self) -> dict[str, Any]:
        return {"causal": self.causal, "precision": "3xtf32" if self.mode == "3xtf32" else "float32"}

    @property
    def dtype(self) -> str:
        return "bfloat16" if self.mode == "bf16" else "float32"

    def hosts(self) -> list[np.ndarray]:
        """q, k, v and dy in float32."""
        shape, rng = (self.batch, self.heads, self.length, self.width), np.random.default_rng(0)
        return [rng.standard_normal(shape, np.float32) for _ in range(4)]


WORKS = (
    Attention(8, 12, 1024, 64), Attention(4, 16, 4096, 64, True), Attention(4, 16, 4096, 64, mode="bf16"),
    Attention(4, 16, 2048, 128, True, "bf16"), Attention(1, 1, LONGEST, 64, True, "bf16"),
)  # fmt: skip


def rival() -> Any:
    """PyTorch's attention and GPT, which are imported only where they are asked for."""
    return import_module("minigrad.lab.bench.rivals.pytorch_transformer")


def attention_times(work: Attention, against: Sequence[str]) -> dict[str, Times]:
    """The GPU's time forward and backward, by title, in turns with those of PyTorch that take this work.

    The results for a sequence and a head are compared with NumPy's in float64 before, those of the longest sequence in
    their last rows. Raises ValueMismatch.
    """
    arrays = [tensor(x, device=DEVICE).astype(work.dtype).array for x in work.hosts()]
    calls = {"minigrad": ours(work, arrays)}
    if "torch" in against:
        calls |= rival().attention(work, arrays, get(DEVICE))
    truth = exact(work, arrays, LAST if work.length >= LONGEST else work.length)
    for name, both in calls.items():
        for way, call, wanted in zip(SIDES, both, truth, strict=True):
            found = call()
            get(DEVICE).finish()  # type: ignore[attr-defined]
            must_agree(work, f"{name}, {way}", found, wanted)
    times: dict[str, Times] = {}
    for i, way in enumerate(SIDES):
        times[work.title(way)] = timer().interleaved({name: both[i] for name, both in calls.items()}, REPEATS)
    return times


def ours(work: Attention, arrays: Sequence[Array]) -> tuple[Call, Call]:
    """The op forward, and its gradients."""
    op, inputs = OPS["attention"], arrays[:3]
    _, pull = op.pullback(inputs, work.params)
    return lambda: [op.run(inputs, work.params | {"scale": None})], lambda: pull(arrays[3])


def exact(work: Attention, arrays: Sequence[Array], rows: int) -> list[list[np.ndarray]]:
    """y, and dq, dk and dv, of the first head in float64: the last rows of each.

    Some rows alone are right with causal only: there no earlier query sees the last keys.
    """
    q, k, v, dy = (x.numpy()[:1, :1].astype(np.float64) for x in arrays)
    y, pull = OPS["attention"].pullback([q[:, :, -rows:], k, v], {"causal": work.causal})
    return [[y], [x[:, :, -rows:] for x in pull(dy[:, :, -rows:])]]


def must_agree(work: Attention, who: str, found: Sequence[Any], wanted: Sequence[np.ndarray]) -> None:
    """Raise ValueMismatch where the last rows of the first head differ by more than the mode allows."""
    for x, right in zip(found, wanted, strict=True):
        first = x.numpy()[:1, :1] if isinstance(x, Array) else x[:1, :1].detach().float().cpu().numpy()
        got = first[:, :, -right.shape[2] :]
        error = float(np.abs(got - right).max() / np.abs(right).max())
        if not error <= ALLOWED[work.mode]:
            raise ValueMismatch(f"{work.title(who)} is off by {error:.2g} of the largest element; it is not timed.")


def other_works() -> Iterator[tuple[str, tuple, str, str]]:
    """Op, inputs, way and title."""
    rows, columns = (8192, 1024), (1024,)
    for way in SIDES:
        yield "layer_norm", (rows, columns, columns), way, f"layer norm {way} of 8192 x 1024"
    indices = np.random.default_rng(0).integers(0, 50304, (32, 1024))
    yield "embedding", (indices, (50304, 768)), SIDES[1], "embedding gradient, 32768 rows into 50304 x 768"


def other_times(op: str, inputs: tuple, way: str, title: str, against: Sequence[str]) -> dict[str, Times]:
    """An op as `mg.bench.measure` times it."""
    found = measure(op, *inputs, way=way, against=against)
    return {title: {"minigrad": found.timing, **({"PyTorch": found.rivals["torch"]} if against else {})}}
