"""The time of an all-reduce between GPUs by its size, and of its call on the host, next to NCCL's own and PyTorch's."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from minigrad.create import ones
from minigrad.devices import get
from minigrad.devices.cuda import libnccl
from minigrad.distributed import all_reduce, init
from minigrad.distributed.host import backend_of
from minigrad.lab.bench.timer import Call, clocked, timer, turns
from minigrad.replay.graph import graph

DEVICE = "cuda"
SIZES = tuple(2**power for power in range(10, 29, 2))  # bytes, 1 KiB to 256 MiB
IN_A_ROW, LARGE = 20, 2**26  # messages of a graph; a quarter of them from this size on
NCCL = "NCCL"  # the contestant that calls the library itself, from one array into another
SMALL, CALLS, REPEATS = 1024, 200, 7  # bytes and calls in a row where the host is timed


def size_title(nbytes: int) -> str:
    """all-reduce of 16 MiB"""
    return f"all-reduce of {nbytes // 2**20} MiB" if nbytes >= 2**20 else f"all-reduce of {nbytes // 2**10} KiB"


def bus_bandwidth(nbytes: int, ranks: int, seconds: float) -> float:
    """Bytes per second over each link: a ring sends 2 (n - 1) / n of the message over it."""
    return 2 * (ranks - 1) / ranks * nbytes / seconds


def rival() -> Any:
    """PyTorch on the ranks, which is imported only where it is asked for."""
    return import_module("minigrad.lab.bench.rivals.pytorch_parallel")


# --- on a rank ---


def message_seconds(against: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    """Seconds of an all-reduce on the GPU in each run, those of the slower rank, by title and library."""
    found = {}
    for nbytes in SIZES:
        count = IN_A_ROW if nbytes < LARGE else IN_A_ROW // 4
        works = {"minigrad": _captured(nbytes, count), NCCL: _captured(nbytes, count, itself=True)}
        if "torch" in against:
            works["PyTorch"] = rival().captured_messages(nbytes, count)
        found[size_title(nbytes)] = of_the_slowest(works, partial(_on_gpu, count))
    return found


def _captured(nbytes: int, count: int, itself: bool = False) -> Call:
    """All-reduces in a row as one graph, which leaves out the host's time for a call. itself: by NCCL's function."""
    x, go, backend = ones(nbytes // 4, device=DEVICE).array, ones(1, device=DEVICE), backend_of(DEVICE)
    ours: Call = partial(backend.all_reduce, [x], "sum")
    send = _by_nccl(x, ones(nbytes // 4, device=DEVICE).array) if itself else ours

    def step(go: Any) -> Any:
        for _ in range(count):
            send()
        return go + 1

    run = graph(step)
    return lambda: run(go)


def _by_nccl(x: Any, y: Any) -> Call:
    """The bare call of the library: y = the sum of x over the ranks. It has been made once, and checked."""
    gpu: Any = get(DEVICE)
    library, comm = backend_of(DEVICE).communicator  # type: ignore[attr-defined]
    words = libnccl.TYPES["float32"], libnccl.OPS["sum"], comm, gpu.stream.handle
    call: Call = partial(library.ncclAllReduce, x.address, y.address, x.size, *words)
    gpu.context.claim()
    libnccl.check(library, call())
    return call


def _on_gpu(count: int, work: Call) -> float:
    """The GPU's seconds for one of this many messages; they are all queued before the first begins."""
    gpu: Any = get(DEVICE)
    timer().hold(5e-4)
    start = gpu.mark()
    work()
    return gpu.between(start, gpu.mark()) / count


def host_seconds(against: Sequence[str]) -> dict[str, list[float]]:
    """The host's seconds for a call: all_reduce, which compares the calls of all ranks first; what it then calls.

    The GPU's context is current, so NCCL's own call is bare.
    """
    x, backend, gpu = ones(SMALL // 4, device=DEVICE), backend_of(DEVICE), get(DEVICE)
    works: dict[str, Call] = {
        "minigrad": lambda: all_reduce(x),
        "minigrad, without the comparison": lambda: backend.all_reduce([x.array], "sum"),
        NCCL: _by_nccl(x.array, ones(SMALL // 4, device=DEVICE).array),
    }
    if "torch" in against:
        works["PyTorch"] = rival().message(SMALL)
    with gpu.context.current():  # type: ignore[attr-defined]
        return of_the_slowest(works, lambda work: clocked(work, CALLS))


def of_the_slowest(works: dict[str, Call], seconds: Callable[[Call], float], warm: int = 3) -> dict[str, list[float]]:
    """Seconds of each run of each work, those of the slowest rank; all ranks begin a run together."""
    comm, gpu = init().comm, get(DEVICE)

    def slowest(_: str, work: Call) -> float:
        gpu.finish()  # type: ignore[attr-defined]
        comm.Barrier()
        taken = seconds(work)
        gpu.finish()  # type: ignore[attr-defined]
        return max(comm.allgather(taken))

    return {name: runs[warm:] for name, runs in turns(works, warm + REPEATS, slowest).items()}
