"""Helpers of the tests of pictures: a page on which everything can be read, and a search with made-up times."""

from matplotlib.backends.backend_agg import FigureCanvasAgg

from minigrad import bench
from minigrad.devices.cuda.chip import Chip
from minigrad.lab.bench.sweeps import settings
from minigrad.lab.bench.work import work_of
from minigrad.lab.tune.occupancy import key
from minigrad.lab.tune.search import Search

H200 = Chip("NVIDIA H200", (9, 0), 132, 1.98e9, 4.8e12, 62914560, 65536, 233472, 1024, 2048, 32)


def searched(op, *shapes, known=True):
    """A search whose settings took 10, 20, 30 ... microseconds, the third being chosen."""
    work = work_of(op, shapes)
    found = settings(work)
    times = {s.label: bench.Timing(t := 1e-5 * (i + 1), t, t, 20) for i, s in enumerate(found)}
    taken = {key(run): (40, 8192, 0) for s in found for run in s.dry.launches} if known else {}
    return Search(work, tuple(found), times, found[2].label, "recorded", "NVIDIA H200, some day", H200, taken)


def fits(picture):
    """Every word lies within the page and can be read."""
    renderer = FigureCanvasAgg(picture.figure).get_renderer()
    picture.figure.draw(renderer)
    page = picture.figure.bbox.padded(1)
    texts = [*picture.figure.texts]
    for axes in picture.figure.axes:
        texts += axes.texts
        if axes.axison:
            ticks = [(axis, tick) for axis in (axes.xaxis, axes.yaxis) for tick in axis.get_major_ticks()]
            texts += [tick.label1 for axis, tick in ticks if inside(tick.get_loc(), *axis.get_view_interval())]
            texts += [axes.xaxis.label, axes.yaxis.label]
    assert texts and picture.figure.axes
    for text in texts:
        area = text.get_window_extent(renderer)
        assert page.x0 <= area.x0 and area.x1 <= page.x1 and page.y0 <= area.y0 and area.y1 <= page.y1, text
        assert text.get_fontsize() >= 10
    assert picture.figure.get_facecolor() == (1, 1, 1, 1)


def inside(at: float, low: float, high: float) -> bool:
    return min(low, high) <= at <= max(low, high)
