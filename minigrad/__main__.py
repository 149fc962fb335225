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
    bench.add_argument(
        "--only", metavar="OP", help="one op, as matmul; chain, op by op and fused; with --adjoint a kernel"
    )
    rivals = ("torch", "numpy", "warp")
    bench.add_argument("--against", nargs="+", default=[], choices=rivals, help="time these on the same inputs")
    bench.add_argument("--sweep", action="store_true", help="every legal block size too, and what the search chooses")
    bench.add_argument("--step", action="store_true", help="only training steps: eager, as a graph, by hand")
    bench.add_argument("--adjoint", action="store_true", help="only the ladder's kernels, each beside its adjoint")
    bench.add_argument("--host", action="store_true", help="only what a call costs the host")
    bench.add_argument("--save", metavar="FOLDER", help="write the record there, and not under notebooks/records")
    asked = parser.parse_args(given)
    if asked.command == "doctor":
        return _doctor()
    return _adjoints(asked) if asked.adjoint else _bench(asked)


def _doctor() -> int:
    from minigrad.doctor import doctor

    print(doctor())
    return 0


def _adjoints(asked: argparse.Namespace) -> int:
    from minigrad.bench import adjoint_record, adjoints
    from minigrad.show.bar import progress

    if reason := why_not("cuda"):
        record = adjoint_record.newest()
        print(f"Speed cannot be measured here: {reason} A simulator says nothing about a GPU's speed.")
        print(f"\nThe newest record:\n{record}" if record else "\nThere is no record yet.")
        return 0
    words = ["minigrad bench --adjoint", *(["--only", asked.only] if asked.only else [])]
    words += ["--against", *asked.against] if asked.against else []
    try:
        record = adjoints.run(asked.only, asked.against, lambda all_: progress(all_, "adjoints"), " ".join(words))
    except (ValueError, ImportError, DeviceError) as error:
        print(f"minigrad bench: {error}", file=sys.stderr)
        return 2
    print(record)
    print(f"\nWritten to {record.save(asked.save)}.")
    for wrong in dict.fromkeys(record.refused.values()):
        print(f"minigrad bench: {wrong}", file=sys.stderr)
    return 1 if record.refused else 0


def _bench(asked: argparse.Namespace) -> int:
    from minigrad import bench, tune
    from minigrad.show.bar import progress

    reason = why_not("cuda")
    if reason and not (asked.step and asked.against == ["numpy"]):
        return _show_recorded(asked, reason)
    words = ["minigrad bench", *(["--only", asked.only] if asked.only else []), *(["--step"] if asked.step else [])]
    words += ["--host"] if asked.host else []
    words += [*(["--against", *asked.against] if asked.against else []), *(["--sweep"] if asked.sweep else [])]
    try:
        if asked.step:
            steps = [bench.training_step(optimizer, asked.against) for optimizer in bench.steps.OPTIMIZERS]
            print(*steps, sep="\n\n")
            if reason:  # a processor has no record: its times are those of NumPy and of this machine
                return 0
            record = bench.works.blank(" ".join(words))
            record.steps = {step.title: dict(step.times) for step in steps}
        elif asked.host:
            cost = bench.host_cost(asked.against)
            print(cost)
            record = bench.works.blank(" ".join(words))
            record.host = {title: dict(times) for title, times in cost.times.items()}
        else:
            more = tune.sweep if asked.sweep else None
            record = bench.run(asked.only, asked.against, lambda works: progress(works, "bench"), more, " ".join(words))
            print(record)
    except (ValueError, ImportError, DeviceError, bench.steps.StepMismatch, bench.host.HostMismatch) as error:
        print(f"minigrad bench: {error}", file=sys.stderr)
        return 2
    print(f"\nWritten to {record.save(asked.save)}.")
    for wrong in dict.fromkeys(record.refused.values()):
        print(f"minigrad bench: {wrong}", file=sys.stderr)
    return 1 if record.refused else 0


def _show_recorded(asked: argparse.Namespace, reason: str) -> int:
    """The newest record, where there is no GPU to measure on."""
    from minigrad import bench

    record = bench.newest()
    print(f"Speed cannot be measured here: {reason} A simulator says nothing about a GPU's speed.")
    if asked.step and record and record.steps:
        print("", *map(bench.recorded_step, bench.steps.OPTIMIZERS), sep="\n")
    else:
        print(f"\nThe newest record:\n{record.only(asked.only)}" if record else "\nThere is no record yet.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
