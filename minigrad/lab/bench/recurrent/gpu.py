"""Time of a whole sequence on the GPU: each rung of the CUDA ladder, and cuDNN's by PyTorch; and that of a barrier."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from minigrad.create import tensor
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.errors import LaunchError
from minigrad.kernels.kernel import Kernel
from minigrad.lab.bench.record import Times
from minigrad.lab.bench.recurrent.processor import CELLS, must_agree, network
from minigrad.lab.bench.timer import Call, Timing, timer
from minigrad.recurrent import CUDA, NumPy
from minigrad.replay.graph import graph
from minigrad.rounding import precision
from minigrad.tensor import Tensor

DEVICE, REPEATS = "cuda", 10
MEETINGS, THREADS, CLUSTER = 4000, 512, 8  # of the threads of each block, 8 blocks in a cluster
PLANNED = ("persistent", "cluster", "wavefront")  # rungs whose blocks keep the weights
ALLOWED = {"float32": 2e-5, "tf32": 1e-2, "bf16": 2e-2, "float16": 2e-2}  # the error of y, which lies within +-1
RIVALS = {  # the modes of PyTorch that keep this precision
    "float32": ("float32",), "tf32": ("float32", "tf32"), "bf16": ("float32", "tf32", "float16"),
}  # fmt: skip


class CudaRung(NamedTuple):
    """A rung of CUDA as it is timed, captured as a graph or not, in a precision of its own or in the work's."""

    rung: str
    graph: bool = False
    precision: str = ""

    @property
    def label(self) -> str:
        """persistent, 3xTF32"""
        return self.rung + ", graph" * self.graph + f", {self.precision}".replace("tf", "TF") * bool(self.precision)

    def rounds(self, work: "Sequences") -> str:
        """The precision in which it runs this work; "" if that is not the work's."""
        return "" if self.precision and work.precision != "float32" else self.precision or work.precision


LADDER = (
    CudaRung("steps"), CudaRung("steps", True), CudaRung("projected", True), CudaRung("persistent"),
    CudaRung("persistent", precision="3xtf32"),  # tensor cores with the error of float32
    CudaRung("cluster"), CudaRung("wavefront"),
)  # fmt: skip


class Sequences(NamedTuple):
    """Layers with as many inputs as units, for some sequences of this many steps, in a precision of `mg.precision`."""

    cell: str
    hidden: int
    batch: int
    steps: int = 512
    precision: str = "float32"
    layers: int = 1

    @property
    def title(self) -> str:
        """LSTM H512 B32 T512, float32"""
        layers = f" {self.layers} layers" if self.layers > 1 else ""
        return f"{CELLS[self.cell].__name__}{layers} H{self.hidden} B{self.batch} T{self.steps}, {self.precision}"


WORKS = (
    Sequences("tanh", 512, 32), Sequences("tanh", 1024, 1), Sequences("tanh", 1024, 64), Sequences("lstm", 512, 1),
    Sequences("lstm", 512, 32), Sequences("gru", 512, 32), Sequences("lstm", 1024, 64, precision="tf32"),
    Sequences("tanh", 1024, 64, precision="bf16"), Sequences("tanh", 512, 32, layers=4),
    *(Sequences("lstm", 512, 32, steps) for steps in (8, 32, 128, 2048)),  # beside the 512 of above
)  # fmt: skip


def sequence_times(work: Sequences, against: Sequence[str] = ()) -> Times:
    """The times of every rung whose blocks hold the network, and of PyTorch's modes, in turns.

    Every y is compared with NumPy's before. Raises ValueMismatch, and ImportError without PyTorch.
    """
    module = network(CELLS[work.cell], work.hidden, work.layers)
    host = np.random.default_rng(0).standard_normal((work.steps, work.batch, work.hidden), np.float32)
    truth = NumPy(module)(tensor(host, device="numpy"))[0].numpy()
    rivals: dict[str, Call] = {}
    if "torch" in against:
        from minigrad.lab.bench.rivals.pytorch_recurrent import on_gpu

        rivals = {f"PyTorch, {mode}": on_gpu(module, host, mode) for mode in ("float32", "tf32", "float16")}
    x, works = tensor(host, device=DEVICE), dict[str, Call]()
    module.to(DEVICE)
    for one in LADDER:
        runner, rounding = CUDA(module, one.rung), one.rounds(work)
        if rounding and (one.rung != "wavefront" or work.layers > 1) and holds(runner, work.batch, rounding):
            works[one.label] = call = sequence(runner, x, rounding, one.graph)
            must_agree(one.label, call().numpy(), truth, ALLOWED[work.precision])
    for label, call in rivals.items():
        y = call()
        get(DEVICE).synchronize()
        must_agree(label, y.float().cpu().numpy(), truth, ALLOWED[label.partition(", ")[2]])
    return timer().interleaved(works | rivals, REPEATS)


def holds(runner: CUDA, batch: int, rounding: str) -> bool:
    """True if the blocks of this rung hold the network."""
    try:
        with precision(rounding):
            if runner.rung in PLANNED:
                runner.planned(batch, runner.module.num_layers if runner.rung == "wavefront" else 1)
    except LaunchError:
        return False
    return True


def sequence(runner: CUDA, x: Tensor, rounding: str, as_graph: bool) -> Call:
    """A function that gives y of all steps."""

    def plain(x: Tensor) -> Tensor:
        return runner(x)[0]

    run: Any = graph(plain) if as_graph else plain

    def call() -> Any:
        with precision(rounding):
            return run(x)

    if as_graph:
        for _ in range(2):  # the first call compiles, the second captures
            call()
    return call


def best(times: Times, kept: str) -> tuple[float | None, float | None]:
    """Seconds of the fastest rung, and of PyTorch's fastest mode that keeps this precision."""
    ours = min((times[one.label].seconds for one in LADDER if one.label in times), default=None)
    theirs = [times[label].seconds for mode in RIVALS[kept] if (label := f"PyTorch, {mode}") in times]
    return ours, min(theirs, default=None)


def barrier_times() -> Times:
    """The time of one barrier: of the threads of a block, of the blocks of a cluster, and of those of a grid."""
    gpu: Any = get(DEVICE)
    most = gpu.chip.sms
    block = Kernel("bench/barriers.cu", "meet_in_blocks")
    cluster = Kernel("bench/cluster_barriers.cu", "meet_in_clusters")
    grid = Kernel("bench/barriers.cu", "meet_in_the_grid", cooperative=True)

    def meet(blocks: int, meetings: int) -> None:
        grid(Array.zeros(gpu, (1,), np.dtype(np.uint32)), meetings, grid=blocks, block=THREADS)

    works = {
        "a block": lambda n: block(n, grid=1, block=THREADS),
        f"a cluster of {CLUSTER} blocks": lambda n: cluster(n, grid=CLUSTER, block=THREADS),
        f"a grid of {CLUSTER} blocks": lambda n: meet(CLUSTER, n),
        f"a grid of {most} blocks": lambda n: meet(most, n),
    }
    some, twice = (
        timer().interleaved({who: partial(work, n) for who, work in works.items()}, REPEATS)
        for n in (MEETINGS, 2 * MEETINGS)
    )
    # the difference is without the time of a launch
    return {who: Timing.of([(twice[who].seconds - some[who].seconds) / MEETINGS]) for who in works}
