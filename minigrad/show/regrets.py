"""What is lost by a choice of blocks: of the timed search, and of the values that stand in the source."""

from matplotlib.ticker import FuncFormatter

from minigrad.bench.record import Record
from minigrad.show.curves import frame
from minigrad.show.picture import BLUE, GREY, INK, PALE, PAPER, VERMILLION, Picture, canvas, plural, words
from minigrad.show.tables import table
from minigrad.tune.regret import regret as regrets

HEADERS = ("work", "search loses", "source loses", "best")
ALLOWED = 5  # percent: what a test lets the search lose


def regret(record: Record | None = None, count: int = 12) -> Picture:
    """How much slower than the best of a full sweep each choice is, where the values in the source lose most.

    Of the newest record if none is given. Raises ValueError where there is none.
    """
    found = regrets(record)
    if not found.rows:
        raise ValueError(f"{found.place}: nothing was swept. On a GPU: minigrad bench --sweep.")
    shown = found.largest(count).rows
    lost = [f"{100 * share:.1f} %" for share in (found.worst, max(row.of_default for row in found.rows))]
    of = plural(len(found.rows), "work")
    title = f"Of {of}: the search loses at most {lost[0]}, the values in the source {lost[1]}"
    figure, axes = canvas(9.6, 1.4 + 0.27 * len(shown), title)
    frame(axes, f"percent slower than the best of a full sweep, {found.place}", "")
    axes.invert_yaxis()
    axes.axvline(ALLOWED, color=GREY, linestyle=":", linewidth=1.2)
    for y, row in enumerate(shown):
        search, source = 100 * row.of_search, 100 * row.of_default
        axes.plot([search, source], [y, y], color=PALE, linewidth=4, zorder=1)
        axes.plot([source], [y], "D", color=VERMILLION, markerfacecolor="white", markersize=6)
        axes.plot([search], [y], "o", color=BLUE, markersize=6)
    axes.set_yticks(range(len(shown)), [row.title for row in shown], fontsize=9)
    axes.set_xlim(left=-2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    key = f"points: the search; diamonds: the values in the source; dotted: {ALLOWED} %"
    words(axes, 0.99, 0.06, key, ha="right", transform=axes.transAxes, color=INK, bbox=PAPER)
    rows = [(row[0], row[4], row[6], row[1]) for row in (each.row() for each in shown)]
    return Picture(figure, title, repr(table(rows, HEADERS)))
