"""The chip: the multiprocessors of a GPU, its levels of memory and the host, with sizes, bandwidths and latencies."""

from math import ceil, sqrt

import numpy as np
from matplotlib.axes import Axes

from minigrad.devices import why_not
from minigrad.devices.cuda.chip import Chip
from minigrad.display import plural, table
from minigrad.lab import bench
from minigrad.lab.bench import Levels
from minigrad.lab.bench.record import Level
from minigrad.lab.show.draw.bands import colour
from minigrad.lab.show.draw.colours import GREY, INK, LIGHT_GREEN, PALE
from minigrad.lab.show.draw.picture import WIDTH, Picture, box, boxes, canvas, write

SMALL = 10
BLOCKS, WARPS, LANES = 2, 3, 32  # drawn in a multiprocessor, a block, a warp
KB, MB, GB = 2**10, 2**20, 2**30
ROSE = "#F3D9E6"


def chip(found: Levels | None = None) -> Picture:
    """The picture of this machine's GPU, or where there is none of the newest record that has its levels of memory.

    One multiprocessor is drawn large, with two of its blocks. An arrow has the bytes that all threads together read
    through it in a second, and the time that one thread waits for one number.
    """
    found = found or (bench.recorded_levels() if why_not("cuda") else bench.memory_levels())
    gpu, levels = found.chip, found.levels
    title = f"{found.device}: {plural(gpu.sms, 'multiprocessor')} around one L2 cache and one global memory"
    figure, axes = canvas(WIDTH, 6.1, title)
    axes.set(xlim=(0, 96), ylim=(56, 0))
    box(axes, 15, 0.2, 80.8, 55.6, PALE, linewidth=1.4)
    _multiprocessor(axes, gpu, levels["shared memory"])
    _all(axes, gpu)
    _level(axes, 17, 37.6, 77, ROSE, "L2 cache", f"{_size(gpu.l2)}, copies of what was used last")
    _level(axes, 17, 49.4, 77, ROSE, "global memory", f"{_size(gpu.memory)}, every array".removeprefix(", "))
    _arrow(axes, 40, 43.2, 49.2, levels["global memory"])
    _arrow(axes, 40, 31.4, 37.4, levels["L2"])
    _host(axes, levels["host"])
    return Picture(figure, title, _numbers(found))


def _multiprocessor(axes: Axes, gpu: Chip, shared: Level) -> None:
    """One multiprocessor: blocks of warps, the cores that compute for them, and the memory that is theirs."""
    box(axes, 17, 1.6, 50, 29.6, "white", linewidth=2.2)
    write(axes, 18, 3.5, "one multiprocessor", ha="left", fontweight="bold")
    for block in range(BLOCKS):
        _block(axes, block, 18.2, 5.6 + 12.4 * block)
    _level(axes, 45, 5.6, 20.8, LIGHT_GREEN, f"{gpu.cores or 'many'} cores", "32 compute for a warp")
    _level(axes, 45, 15, 20.8, ROSE, "registers", f"{_size(4 * gpu.registers)}, the variables")
    _level(axes, 45, 24.4, 20.8, ROSE, "shared memory, L1", f"{_size(gpu.near)}, for its blocks")
    _both_ways(axes, (48, 11), (48, 15))
    write(axes, 49, 13, _rate(_registers(gpu)), ha="left", fontsize=SMALL)
    _arrow(axes, 48, 20.6, 24.2, shared)


def _block(axes: Axes, block: int, left: float, top: float) -> None:
    """A block on a multiprocessor: some of its warps, each with its threads."""
    box(axes, left, top, 25, 11.6, colour(block))
    write(axes, left + 0.6, top + 1.5, "another block" if block else "a block", ha="left", fontsize=SMALL)
    for warp in range(WARPS):
        y = top + 3.2 + 2.4 * warp
        write(axes, left + 0.6, y + 0.7, f"warp {warp}", ha="left", fontsize=SMALL)
        boxes(axes, left + 7 + 0.54 * np.arange(LANES), y, 0.54, 1.5, "white", linewidths=0.5)
    write(axes, left + 12.5, top + 10.6, "…", fontsize=SMALL)


def _all(axes: Axes, gpu: Chip) -> None:
    """All multiprocessors, the one that is drawn large filled."""
    across = ceil(sqrt(gpu.sms))
    unit = min(25 / across, 24 / ceil(gpu.sms / across))
    places = np.arange(gpu.sms)
    left, top = 69.5 + places % across * unit, 5.6 + places // across * unit
    fill = [GREY if place == 0 else "white" for place in places]
    write(axes, 69.5, 3.5, f"all {gpu.sms} of them", ha="left", fontweight="bold")
    boxes(axes, left, top, 0.8 * unit, 0.8 * unit, fill, linewidths=0.8)
    for y in (1.6, 31.2):
        axes.plot([67, 69.5], [y, 5.6 + (y > 5) * 0.8 * unit], color=INK, linewidth=0.8, linestyle=":")
    write(axes, 69.5, 34.4, "GB/s: all of them together\nns: the wait of one thread", ha="left", fontsize=SMALL)


def _level(axes: Axes, left: float, top: float, width: float, fill: str, name: str, about: str) -> None:
    """A box with a name and what it holds: on one line where it is wide."""
    box(axes, left, top, width, 5.4, fill)
    if width > 40:
        write(axes, left + 1.5, top + 2.7, name, ha="left", fontweight="bold")
        write(axes, left + 24, top + 2.7, about, ha="left")
    else:
        write(axes, left + width / 2, top + 1.6, name, fontweight="bold")
        write(axes, left + width / 2, top + 3.9, about, fontsize=SMALL)


def _host(axes: Axes, link: Level) -> None:
    box(axes, 0.2, 38, 8, 17.8, "white", linewidth=1.4)
    write(axes, 4.2, 40.2, "host", fontweight="bold")
    write(axes, 4.2, 45, "CPU, its\nmemory,\nPython", fontsize=SMALL)
    _both_ways(axes, (17, 52.1), (8.3, 52.1))
    write(axes, 11.5, 50.7, _rate(link.bandwidth), fontsize=SMALL)


def _arrow(axes: Axes, x: float, top: float, bottom: float, level: Level) -> None:
    """Up and down between two levels, with the bandwidth and the latency of the lower one."""
    _both_ways(axes, (x, top), (x, bottom))
    text = f"{_rate(level.bandwidth)}, {level.latency * 1e9:.0f} ns" if level.latency else _rate(level.bandwidth)
    write(axes, x + 1, (top + bottom) / 2, text, ha="left", fontsize=SMALL)


def _both_ways(axes: Axes, one: tuple[float, float], other: tuple[float, float]) -> None:
    axes.annotate("", one, other, arrowprops={"arrowstyle": "<->", "lw": 1.6, "color": INK})


def _registers(gpu: Chip) -> float:
    """Bytes per second: each core reads three registers of 4 bytes per clock, for a multiplication and an addition."""
    return gpu.sms * (gpu.cores or 0) * 12 * gpu.clock


def _size(nbytes: int) -> str:
    """256 KB, 60 MB: in steps of 1024. Nothing where it is not known."""
    if not nbytes:
        return ""
    unit, name = next(((u, n) for u, n in ((GB, "GB"), (MB, "MB")) if nbytes >= u), (KB, "KB"))
    return f"{nbytes / unit:.0f} {name}"


def _rate(bandwidth: float) -> str:
    """Two digits, which is what such a number is good for: 4,800 GB/s. Nothing where it is not known."""
    if not bandwidth:
        return ""
    return f"{float(f'{bandwidth / 1e9:.2g}'):,.0f} GB/s"


def _numbers(found: Levels) -> str:
    """The figures of the picture, and where each is from."""
    gpu, levels = found.chip, found.levels
    known = {
        "registers": (
            f"{gpu.registers // 1024} K x 4 bytes = {_size(4 * gpu.registers)} in each multiprocessor",
            Level(_registers(gpu), None),
        ),
        "shared memory": (
            f"up to {_size(gpu.shared)} in each, a block at most {_size(gpu.shared - gpu.reserved)}",
            levels["shared memory"],
        ),
        "L1": (f"what shared memory leaves of {_size(gpu.near)}", levels["L1"]),
        "L2": (_size(gpu.l2), levels["L2"]),
        "global memory": (_size(gpu.memory), levels["global memory"]),
        "host": ("", levels["host"]),
    }
    rows = [
        (name, size, _rate(level.bandwidth), f"{level.latency * 1e9:.0f} ns" if level.latency else "")
        for name, (size, level) in known.items()
    ]
    cores = f"{gpu.cores} cores, " if gpu.cores else ""
    return "\n".join([
        f"A multiprocessor: {cores}at most {gpu.blocks} blocks and {gpu.threads} threads = {gpu.warps} warps at once, "
        f"{gpu.clock / 1e9:.2f} GHz.",
        repr(table(rows, ("level", "size", "bandwidth", "latency"))),
        f"Measured on {found.device}, {found.date}, by minigrad bench --levels.\nThe bandwidth of the registers is "
        "computed, not measured: 12 bytes per core and clock.\n"
        "1 KB is 1024 bytes, MB and GB likewise; 1 GB/s is a billion bytes in a second.",
    ])  # fmt: skip
