"""`python -m minigrad.distributed -n 4 script.py ARGUMENTS...` runs a script on several ranks of MPI."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from minigrad.distributed.job import LIMIT, labelled, launch
from minigrad.errors import DeviceError, RankError


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what the ranks print, each line behind its rank. Returns 0, 1 if a rank failed, or 2 without MPI."""
    parser = argparse.ArgumentParser("python -m minigrad.distributed", description="A script on several ranks of MPI.")
    parser.add_argument("-n", dest="ranks", type=int, required=True, help="ranks")
    parser.add_argument("--timeout", type=float, default=LIMIT, metavar="SECONDS", help="time limit (%(default)s)")
    parser.add_argument("--threads", type=int, help="threads of a rank's matrix products (cores / ranks)")
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="those of the script")
    options = parser.parse_args(arguments)
    try:
        launch(
            options.ranks, options.script, options.arguments, timeout=options.timeout, threads=options.threads,
            show=lambda rank, lines: print(labelled(rank, lines), end="", flush=True),
        )  # fmt: skip
    except RankError as error:
        print(error.trace, error, sep="\n", file=sys.stderr)
        return 1
    except (DeviceError, ValueError) as error:
        print(f"minigrad.distributed: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
