"""The command line: `minigrad doctor` and `minigrad bench`."""

import argparse
import sys
from collections.abc import Sequence

from minigrad.devices import why_not
from minigrad.errors import DeviceError


def main(given: Sequence[str] | None = None) -> int:
    """Run a command; 0 where it went well."""
    parser = argparse.ArgumentParser("minigrad", description="Differentiation on a GPU, with every cost in sight.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="what this machine can run, and the next step")
    bench = commands.add_parser("bench", help="time every op on this GPU; without one, show the newest record")
    bench.add_argument("--only", metavar="OP", help="one op, as matmul")
    rivals = ("torch", "numpy")
    bench.add_argument("--against", nargs="+", default=[], choices=rivals, help="time these on the same inputs")
    bench.add_argument("--sweep", action="store_true", help="every legal block size too, and what the search chooses")
    bench.add_argument("--step", action="store_true", help="only a whole training step, eager and as a graph")
    bench.add_argument("--save", metavar="FOLDER", help="write the record there, and not under notebooks/records")
    asked = parser.parse_args(given)
    return _doctor() if asked.command == "doctor" else _bench(asked)


def _doctor() -> int:
    from minigrad.doctor import doctor

    print(doctor())
    return 0


def _bench(asked: argparse.Namespace) -> int:
    from minigrad import bench, tune
    from minigrad.show.bar import progress

    if reason := why_not("cuda"):
        record = bench.newest()
        print(f"Speed cannot be measured here: {reason} A simulator says nothing about a GPU's speed.")
        print(f"\nThe newest record:\n{record.only(asked.only)}" if record else "\nThere is no record yet.")
        return 0
    words = ["minigrad bench", *(["--only", asked.only] if asked.only else [])]
    words += [*(["--against", *asked.against] if asked.against else []), *(["--sweep"] if asked.sweep else [])]
    try:
        if asked.step:
            for optimizer in bench.steps.OPTIMIZERS:
                print(bench.training_step(optimizer, asked.against))
            return 0
        more = tune.sweep if asked.sweep else None
        record = bench.run(asked.only, asked.against, lambda works: progress(works, "bench"), more, " ".join(words))
    except (ValueError, ImportError, DeviceError) as error:
        print(f"minigrad bench: {error}", file=sys.stderr)
        return 2
    print(record)
    print(f"\nWritten to {record.save(asked.save)}.")
    for wrong in record.refused.values():
        print(f"minigrad bench: {wrong}", file=sys.stderr)
    return 1 if record.refused else 0


if __name__ == "__main__":
    sys.exit(main())
