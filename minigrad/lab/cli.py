"""The command line: `minigrad doctor` and `minigrad bench`."""

import argparse
import sys
from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import Any

from minigrad.devices import why_not
from minigrad.errors import CompileError, DeviceError, KernelError, words

WHAT = {
    "sweep": "every legal block size of short works too, and what the search chooses",
    "step": "only training steps: eager, as a graph, by hand",
    "host": "only what a call costs the host",
    "adjoint": "only the ladder's kernels, each beside its adjoint",
}
RIVALS = {"host": ("torch",), "adjoint": ("warp",)}  # of all else torch and numpy


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
    one_of = bench.add_mutually_exclusive_group()
    for name, text in WHAT.items():
        one_of.add_argument(f"--{name}", dest="what", action="store_const", const=name, default="", help=text)
    bench.add_argument("--save", metavar="FOLDER", help="write the record there, and not under notebooks/records")
    asked = parser.parse_args(given)
    return _doctor() if asked.command == "doctor" else _bench(asked)


def _doctor() -> int:
    from minigrad.lab.doctor import doctor

    print(doctor())
    return 0


def _bench(asked: argparse.Namespace) -> int:
    from minigrad.lab.check import ValueMismatch

    wrong = (ValueError, ImportError, MemoryError, DeviceError, CompileError, KernelError, ValueMismatch)
    try:
        _must_go_together(asked)
        if not (reason := why_not("cuda")):
            return _measured(asked)
        if asked.what == "step" and {*asked.against} == {"numpy"}:  # needs no GPU; a processor has no record
            _training_steps(asked)
            return 0
        return _recorded(asked, reason)
    except wrong as error:
        said = str(error)
        print(said if said.startswith("minigrad bench") else f"minigrad bench: {said}", file=sys.stderr)
        return 2


def _must_go_together(asked: argparse.Namespace) -> None:
    """Raise ValueError for options that say nothing beside each other, and for names that nothing has."""
    from minigrad.lab.bench import adjoints, workloads

    what = f"minigrad bench --{asked.what}" if asked.what else "minigrad bench"
    words(what, "--against", asked.against, RIVALS.get(asked.what, ("torch", "numpy")))
    if asked.what == "adjoint":
        adjoints.rungs(asked.only)
    elif asked.only and asked.what in ("step", "host"):
        raise ValueError(f"--only {asked.only}: {what} measures one thing, and nothing of it alone; leave --only out.")
    elif asked.only != workloads.CHAIN:
        workloads.named(asked.only)


def _recorded(asked: argparse.Namespace, reason: str) -> int:
    """The newest record of what was asked for, where there is no GPU to measure on."""
    from minigrad.lab import bench, tune

    print(f"Speed cannot be measured here: {reason} A simulator says nothing about a GPU's speed.")
    shown: list[Any] = []
    if asked.what == "step":
        shown = [*map(bench.recorded_step, bench.steps.OPTIMIZERS)]
    elif asked.what == "host":
        shown = [bench.recorded_host()]
    elif asked.what == "adjoint" and (adjoints := bench.newest_adjoints()):
        shown = [adjoints.only(asked.only) if asked.only else adjoints]
    elif asked.what != "adjoint" and (record := bench.newest()):
        part = record.only(asked.only) if asked.only else record
        shown = [part, tune.regret(part)] if asked.what == "sweep" else [part]
    print("\nThe newest record:" if shown else "\nThere is no record yet.")
    print(*shown, sep="\n\n")
    return 0


def _measured(asked: argparse.Namespace) -> int:
    """Measure what was asked for, show it, and write it to the record of today."""
    _must_take_files(asked.save)
    command = ["minigrad bench", *(["--only", asked.only] if asked.only else [])]
    command += [*([f"--{asked.what}"] if asked.what else []), *(["--against", *asked.against] if asked.against else [])]
    how = {"step": _steps, "host": _host, "adjoint": _adjoints}.get(asked.what, _ops)
    record = how(asked, " ".join(command))
    print(f"\nWritten to {record.save(asked.save)}.")
    for wrong in dict.fromkeys(record.refused.values()):
        print(f"minigrad bench: {wrong}", file=sys.stderr)
    return 1 if record.refused else 0


def _must_take_files(folder: str | None) -> None:
    """Raise ValueError where no record can be written, before anything is measured."""
    from minigrad.lab.bench.record import place

    at = place(folder)
    try:
        at.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=at).close()
    except OSError as error:
        raise ValueError(f"no record can be written to {at}: {error.strerror}. Name another: --save FOLDER.") from error


def _training_steps(asked: argparse.Namespace) -> list[Any]:
    from minigrad.lab import bench

    steps = [bench.training_step(optimizer, asked.against) for optimizer in bench.steps.OPTIMIZERS]
    print(*steps, sep="\n\n")
    return steps


def _steps(asked: argparse.Namespace, command: str) -> Any:
    from minigrad.lab.bench.record import blank

    steps, record = _training_steps(asked), blank(command)
    record.steps = {step.title: dict(step.times) for step in steps}
    return record


def _host(asked: argparse.Namespace, command: str) -> Any:
    from minigrad.lab import bench
    from minigrad.lab.bench.record import blank

    cost, record = bench.host_cost(asked.against), blank(command)
    print(cost)
    record.host = {title: dict(times) for title, times in cost.times.items()}
    return record


def _adjoints(asked: argparse.Namespace, command: str) -> Any:
    from minigrad.lab.bench import adjoints
    from minigrad.lab.show.output import progress

    record = adjoints.run(asked.only, asked.against, lambda all_: progress(all_, "adjoints"), command)
    print(record)
    return record


def _ops(asked: argparse.Namespace, command: str) -> Any:
    from minigrad.lab import bench, tune
    from minigrad.lab.show.output import progress

    more = tune.sweep if asked.what == "sweep" else None
    record = bench.run(asked.only, asked.against, lambda works: progress(works, "bench"), more, command)
    print(record, *([tune.regret(record)] if more else []), sep="\n\n")
    return record


if __name__ == "__main__":
    sys.exit(main())
