"""The goals of recurrent networks: sequences on the GPU, steps on the processor, and speed-ups by threads and ranks."""

from collections.abc import Iterator

from minigrad.display import Table, table
from minigrad.lab.bench.record import Record
from minigrad.lab.bench.recurrent import gpu
from minigrad.lab.bench.resnet.goals import verdict

GPUS = "NVIDIA H200", "NVIDIA H100"  # limits in microseconds: set for the first; an H100 has the same chip
HEADERS = ("work", "measured", "PyTorch", "must", "hope", "reached")
MICROSECONDS = (  # of the first of gpu.WORKS, at most
    (1350, 750), (1600, 900), (2800, 1700), (1700, 900), (2800, 1500), (2500, 1300), (5000, 3000),
)  # fmt: skip
OF_TORCH, OF_LIMIT = (1.0, 1.5), (0.5, 0.75)  # at least: PyTorch's time over ours, the machine's limit over ours
EFFICIENCY = {2: (0.8, 0.95), 16: (0.6, 0.8)}  # at least, by threads, at batch 32
ON_RANKS = {"batch": (3.5, 3.9), "hidden": (2.0, 3.0)}  # speed-up of 4 ranks at least, H1024 B32


def goals_table(record: Record) -> Table:
    """A row for each goal that the record has a measurement of."""
    rows = [*_sequences(record), *_steps(record), *_ranks(record)]
    return table(rows, HEADERS, f"Goals of recurrent networks on {record.place}. must, hope: limits")


def _row(work: str, value: float, rival: str, limits: tuple[float, float], unit: str = "x") -> tuple[str, ...]:
    """A row; microseconds are at most the limit, anything else at least."""
    signed = 1 if unit == "us" else -1  # as an upper limit
    reached = verdict(*(signed * number for number in (value, *limits)))
    shown = [f"{number:.0f} us" if unit == "us" else f"{number:.2f} {unit}" for number in (value, *limits)]
    return work, shown[0], rival, *shown[1:], reached


def _sequences(record: Record) -> Iterator[tuple[str, ...]]:
    for work, limits in zip(gpu.WORKS, MICROSECONDS, strict=False):
        if (times := record.steps.get(work.title)) and record.device.startswith(GPUS):
            ours, theirs = gpu.best(times, work.precision)
            if ours:
                yield _row(work.title, ours * 1e6, f"{theirs * 1e6:.0f} us" if theirs else "", limits, "us")


def _steps(record: Record) -> Iterator[tuple[str, ...]]:
    """The fastest rung at the most threads: next to PyTorch, to the limit, and to itself on one thread."""
    for title, times in record.steps.items():
        if ", batch " not in title:
            continue
        threads = max(int(label.split()[-2]) for label in times)
        ours, alone = (_fastest(times, n) for n in (threads, 1))
        if not ours or not alone:
            continue
        words = f"{threads} thread{'s' * (threads > 1)}"
        if rival := times.get(f"torch, {words}"):
            ratio = rival.fastest / ours
            yield _row(f"{title}, {words}: of PyTorch", ratio, f"{rival.fastest * 1e6:.1f} us a step", OF_TORCH)
        if limit := times.get(f"limit, {words}"):
            yield _row(f"{title}, {words}: of the limit", limit.fastest / ours, "", OF_LIMIT, "of it")
        if threads in EFFICIENCY and "batch 32" in title:
            yield _row(f"{title}, {words}: efficiency", alone / ours / threads, "", EFFICIENCY[threads], "")


def _fastest(times: dict, threads: int) -> float | None:
    """Seconds of the fastest rung on so many threads."""
    rungs = [t.fastest for label, t in times.items()
             if label.split()[-2] == str(threads) and not label.startswith(("torch", "limit", "barrier"))]  # fmt: skip
    return min(rungs, default=None)


def _ranks(record: Record) -> Iterator[tuple[str, ...]]:
    for title, times in record.steps.items():
        split = title.rpartition(", ")[2]
        if split in ON_RANKS and "H1024 B32" in title and {"1 rank", "4 ranks"} <= times.keys():
            speedup = times["1 rank"].fastest / times["4 ranks"].fastest
            yield _row(f"{title}: speed-up of 4 ranks", speedup, "", ON_RANKS[split])
