"""The rungs of the ladder in a record: how fast each was, and PyTorch beside it."""

from minigrad.bench.measurement import Measurement
from minigrad.bench.record import Record, records
from minigrad.show.counts import rungs

HEADERS = ("rung", "arithmetic", "us", "TFLOP/s", "of peak", "x PyTorch")


def newest(n: int) -> Record | None:
    """The newest record that has rungs at n x n."""
    return next((record for record in records() if len(measured(record, n)) > 1), None)


def measured(record: Record | None, n: int) -> dict[str, Measurement]:
    """The measurement of each rung, by the kernel that was launched."""
    square = sorted(products(record, n), key=lambda m: len(m.rivals))  # rather one with a rival
    by_kernel = {m.kernels: m for m in square}
    return {name: by_kernel[key] for name in rungs() if (key := (f"matmul_{name}",)) in by_kernel}


def products(record: Record | None, n: int) -> list[Measurement]:
    """Every product of n x n matrices, whatever kernels made it."""
    of = f" of {n} x {n}, {n} x {n}"
    whole = record.measurements.values() if record else ()
    return [m for m in whole if of in m.title and m.title.startswith("matmul") and "backward" not in m.title]


def pytorch(record: Record | None, n: int) -> dict[str, float]:
    """PyTorch's FLOP/s by the unit that computes. It may have been beside kernels that are no rung."""
    return {m.unit: m.flops / m.rivals["torch"].seconds for m in products(record, n) if "torch" in m.rivals}


def rows_of(record: Record | None, n: int) -> list[tuple[str, ...]]:
    """The table of the rungs."""
    found = measured(record, n)
    rivals = pytorch(record, n)
    rows: list[tuple[str, ...]] = []
    for name, m in found.items():
        peak = record.chip.peak(m.unit) if record and record.chip else None
        share = f"{100 * m.flops_per_second / peak:.0f} %" if peak else ""
        against = f"{m.flops_per_second / rivals[m.unit]:.2f}" if m.unit in rivals else ""
        speed = f"{m.flops_per_second / 1e12:.2f}"
        rows.append((name, m.unit, f"{m.timing.seconds * 1e6:.1f}", speed, share, against))
    return rows


def time_of(name: str, n: int, record: Record | None) -> str:
    """How long a rung took, and how many times faster than the one below it is."""
    found, rows = measured(record, n), {row[0]: row for row in rows_of(record, n)}
    if name not in rows:
        return f"not timed, {n} x {n}"
    _, _, took, speed, share, _ = rows[name]
    told, names = f"{took} us for {n} x {n}, {speed} TFLOP/s, {share} of peak", list(found)
    if name == names[0]:
        return told
    below = names[names.index(name) - 1]
    return f"{told}, {found[below].timing.seconds / found[name].timing.seconds:.2f} x as fast as {below}"
