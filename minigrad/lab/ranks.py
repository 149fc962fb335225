"""%%mpi: the text of a cell as a script on several ranks."""

import argparse
from collections import defaultdict
from keyword import iskeyword
from typing import Any, NoReturn

from minigrad.display import folded
from minigrad.distributed.job import LIMIT, labelled, launch
from minigrad.errors import DeviceError

USAGE = "Write %%mpi and the number of ranks, then what you want: %%mpi 4 --get loss time --timeout 100."


class UsageError(Exception):
    """A line of a cell magic that is not written as it must be."""


class LineParser(argparse.ArgumentParser):
    """A parser that ends no process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{USAGE} Here {message}.")


def run_cell(line: str, cell: str, names: dict[str, Any]) -> None:
    """Run the cell, print what the ranks printed, rank by rank, and put the variables that are asked for in `names`.

    Where there is no MPI, it prints what to install. Raises UsageError for another line, RankError where the job fails.
    """
    options = _options(line.split())
    outputs: dict[int, str] = defaultdict(str)

    def show(rank: int, lines: str) -> None:
        outputs[rank] += lines

    try:
        text = f"\n{cell}"  # below the magic's line: numbers of lines are those of the cell
        done = launch(options.ranks, text, get=options.get, timeout=options.timeout, show=show)
    except DeviceError as lack:  # the other cells of a page run without MPI
        print(folded(str(lack)))
        return
    finally:
        print(*(labelled(rank, outputs[rank]) for rank in sorted(outputs)), sep="", end="")
    names.update(done.values)


def _options(words: list[str]) -> argparse.Namespace:
    parser = LineParser(add_help=False)
    parser.add_argument("ranks", type=int)
    parser.add_argument("--get", nargs="+", default=[])
    parser.add_argument("--timeout", type=float, default=LIMIT)
    options = parser.parse_args(words)
    if wrong := [name for name in options.get if not name.isidentifier() or iskeyword(name)]:
        raise UsageError(f"{USAGE} {wrong[0]!r} is not a variable name.")
    if options.ranks < 1 or not options.timeout > 0:
        raise UsageError(f"{USAGE} The number of ranks and the seconds must be above 0.")
    return options
