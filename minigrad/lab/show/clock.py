"""The clock of a GPU while it multiplies matrices, launch by launch, from a record."""

from typing import Any

from minigrad.display import table
from minigrad.lab.bench.record import records
from minigrad.lab.hardware.power import known
from minigrad.lab.show.draw.axes import STYLES, frame, name_curves, plain_ticks
from minigrad.lab.show.draw.colours import GREY
from minigrad.lab.show.draw.picture import Picture, canvas, write

LAUNCHES = (1, 10, 100, 1000, 6000)


def clock_under_load(record: dict[str, Any] | None = None) -> Picture:
    """The multiprocessors' clock in each launch of matmul_wgmma, 4096 x 4096, one after another, by kind of numbers.

    The record is by default the newest one of power. Raises ValueError where there is none.
    """
    found = known(record)
    highest = next((each.chip.clock / 1e6 for each in records(found["device"]) if each.chip), None)
    ends = ", ".join(f"{burst['mhz'][-1]:.0f} MHz for {kind}" for kind, burst in found["bursts"].items())
    title = f"The clock of matmul_wgmma, launched again and again, ends at {ends}"
    figure, axes = canvas(8.6, 3.4, title)
    frame(axes, "launch", "MHz")
    for burst, (colour, dash) in zip(found["bursts"].values(), STYLES, strict=False):
        axes.plot(burst["launch"], burst["mhz"], color=colour, linestyle=dash, linewidth=2)
    axes.set_xscale("log")
    plain_ticks(axes.xaxis)
    low = min(min(burst["mhz"]) for burst in found["bursts"].values())
    if highest:
        axes.axhline(highest, color=GREY, linewidth=1.2, linestyle=":")
        write(axes, 1, highest - 25, f"the highest clock, {highest:.0f} MHz", ha="left", fontsize=10, color=GREY)
        axes.set_ylim(0.95 * low, 1.03 * highest)
    curves = zip(found["bursts"].items(), STYLES, strict=False)
    name_curves(axes, [(kind, burst["mhz"][-1], colour) for (kind, burst), (colour, _) in curves])
    rows = []
    for launch in LAUNCHES:
        each = (nearest(burst, launch) for burst in found["bursts"].values())
        cells = ((f"{mhz:.0f}", f"{us:.1f}", f"{ticks:.0f}") for mhz, us, ticks in each)
        rows.append((str(launch), *(cell for three in cells for cell in three)))
    headers = [header for kind in found["bursts"] for header in (f"{kind}, MHz", "us", "ticks")]
    numbers = repr(table(rows, ("launch", *headers)))
    return Picture(figure, title, f"{numbers}\nRecorded on {found['device']}, {found['date']}.")


def nearest(burst: dict[str, list[float]], launch: int) -> tuple[float, float, float]:
    """MHz, us and ticks of the recorded launch that is nearest."""
    at = min(range(len(burst["launch"])), key=lambda i: abs(burst["launch"][i] - launch))
    return burst["mhz"][at], burst["us"][at], burst["ticks"][at]
