"""The command line: `minigrad doctor`, `minigrad inspect`, `minigrad bench` and `minigrad grade`."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from minigrad.devices import why_not
from minigrad.errors import CompileError, DeviceError, KernelError, require_words
from minigrad.lab import bench, grade, inspect_command, show, tune
from minigrad.lab.bench import adjoints, workloads
from minigrad.lab.bench.jobs import known_part
from minigrad.lab.bench.paper.report import titles
from minigrad.lab.bench.parallel import report as parallel
from minigrad.lab.bench.record import Record, records_folder
from minigrad.lab.bench.recurrent import report as recurrent
from minigrad.lab.bench.resnet import run as resnet
from minigrad.lab.check import ValueMismatch
from minigrad.lab.doctor import doctor

EVERY_RIVAL = ("torch", "numpy", "warp")
WRONG = (ValueError, ImportError, MemoryError, DeviceError, CompileError, KernelError, ValueMismatch)


@dataclass(frozen=True)
class Benchmark:
    """One of the benchmarks of `minigrad bench`.

    names(only) raises ValueError for an unknown name; None: the benchmark has no parts. measure(only, against, command)
    prints and returns a record, newest(only) returns recorded tables. on_host: rivals that are timed without a GPU.
    everywhere: a machine without a GPU has something to measure and to record, too.
    """

    help: str
    rivals: tuple[str, ...]
    names: Callable[[str | None], Any] | None
    measure: Callable[[str | None, Sequence[str], str], Record | None]
    newest: Callable[[str | None], list[Any]]
    on_host: tuple[str, ...] = ()
    everywhere: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns 0, 1 if a result was wrong or a kernel has a fault, or 2 if nothing could be measured."""
    parser = argparse.ArgumentParser("minigrad", description="Differentiation on a GPU, with every cost in sight.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="what this machine can run, and the next step")
    inspect_command.add_to(commands)
    timing = commands.add_parser("bench", help="time every op on this GPU; without one, show the newest record")
    timing.add_argument(
        "--only",
        metavar="OP",
        help="one op, as matmul; chain, op by op and fused; with --adjoint a kernel; with --resnet a part",
    )
    timing.add_argument("--against", nargs="+", default=[], choices=EVERY_RIVAL, help="time these on the same inputs")
    for name, benchmark in list(BENCHMARKS.items())[1:]:
        timing.add_argument(f"--{name}", dest="names", action="append_const", const=name, help=benchmark.help)
    timing.add_argument("--save", metavar="FOLDER", help="write the record there, and not under notebooks/records")
    grading = commands.add_parser(
        "grade", help="for a teacher: check the exercises in notebooks; this runs the students' code on this machine",
        description="Check every %%exercise and %%kernel cell of these notebooks, without running any other cell. "
        "Each is checked in a process of its own with a time limit, but nothing else holds it back: THIS RUNS THE "
        "STUDENTS' CODE, PYTHON AND C++, WITH YOUR RIGHTS. Use an account or a container that has nothing to lose.",
    )  # fmt: skip
    grading.add_argument("notebooks", nargs="+", metavar="NOTEBOOK", help="a file *.ipynb")
    grading.add_argument("--json", metavar="FILE", help="write cells, verdicts and totals there, too")
    grading.add_argument("--limit", type=float, default=grade.LIMIT, metavar="SECONDS", help="for a cell (%(default)g)")
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        axes = "; an extent of two axes is written --grid 4,2" * unknown[0].isdigit()
        parser.error(f"minigrad {options.command} knows no {' '.join(unknown)}{axes}")
    if options.command == "bench":
        return max(_bench(options, name) for name in options.names or [""])
    if options.command == "grade":
        return _grade(options)
    if options.command == "inspect":
        return inspect_command.run(options)
    print(doctor())
    return 0


def _grade(options: argparse.Namespace) -> int:
    """Print the verdicts. Returns 0, or 2 if a file is no notebook or the JSON cannot be written."""
    cells, code = {}, 0
    for path in options.notebooks:
        try:
            cells[path] = list(grade.answers(path))
        except (OSError, ValueError) as error:
            code = _refuse(error)
    if not cells:
        return code
    found = grade.graded(cells, options.limit)
    print(found)
    try:
        if options.json:
            Path(options.json).write_text(found.json(), encoding="utf-8")
    except OSError as error:
        return _refuse(error)
    return code


def _refuse(error: Exception) -> int:
    """Say what is wrong with a file."""
    if isinstance(error, OSError):
        error = ValueError(f"{error.filename}: {error.strerror}.")
    print(f"minigrad grade: {error}", file=sys.stderr)
    return 2


def _bench(options: argparse.Namespace, name: str) -> int:
    benchmark = BENCHMARKS[name]
    command = f"minigrad bench --{name}" if name else "minigrad bench"
    try:
        require_words(command, "--against", options.against, benchmark.rivals)
        if benchmark.names:
            benchmark.names(options.only)
        elif options.only:
            raise ValueError(f"--only {options.only}: {command} measures one thing and has no parts; leave --only out.")
        if (reason := why_not("cuda")) and not benchmark.everywhere:
            if options.against and set(options.against) <= set(benchmark.on_host):
                benchmark.measure(options.only, options.against, command)  # there are no records of processors
            else:
                _show_newest(benchmark, options.only, reason)
            return 0
        return _measure(benchmark, options, name)
    except WRONG as error:
        text = str(error)
        print(text if text.startswith("minigrad bench") else f"minigrad bench: {text}", file=sys.stderr)
        return 2


def _show_newest(benchmark: Benchmark, only: str | None, reason: str) -> None:
    print(f"Speed cannot be measured here: {reason} A simulator says nothing about a GPU's speed.")
    shown = benchmark.newest(only)
    print("\nThe newest record:" if shown else "\nThere is no record yet.")
    print(*shown, sep="\n\n")


def _measure(benchmark: Benchmark, options: argparse.Namespace, name: str) -> int:
    """Measure, print, and merge the result into the record of today."""
    _check_writable(options.save)
    command = ["minigrad bench", *(["--only", options.only] if options.only else [])]
    command += [f"--{name}"] if name else []
    command += ["--against", *options.against] if options.against else []
    record = benchmark.measure(options.only, options.against, " ".join(command))
    assert record  # only a run without a GPU has none
    print(f"\nWritten to {record.save(options.save)}.")
    for why in dict.fromkeys(record.refused.values()):
        print(f"minigrad bench: {why}", file=sys.stderr)
    return 1 if record.refused else 0


def _check_writable(folder: str | None) -> None:
    """Raise ValueError if no record can be written, before anything is measured."""
    path = records_folder(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=path).close()
    except OSError as error:
        raise ValueError(
            f"no record can be written to {path}: {error.strerror}. Name another: --save FOLDER."
        ) from error


# --- the benchmarks ---


def _ops(only: str | None, against: Sequence[str], command: str, sweep: bool) -> Record:
    more = tune.sweep if sweep else None
    record = bench.run(only, against, lambda works: show.progress(works, "bench"), more, command)
    print(record, *([tune.regret(record)] if sweep else []), sep="\n\n")
    return record


def _newest(only: str | None, find: Callable[[], Record | None], sweep: bool = False) -> list[Any]:
    if not (record := find()):
        return []
    part = record.only(only) if only else record
    return [part, *([tune.regret(part)] if sweep else [])]


def _steps(_: str | None, against: Sequence[str], command: str) -> Record | None:
    steps = [bench.training_step(optimizer, against) for optimizer in bench.steps.OPTIMIZERS]
    print(*steps, sep="\n\n")
    if why_not("cuda"):
        return None
    return bench.record.todays_record(command, steps={step.title: step.times for step in steps})


def _host(_: str | None, against: Sequence[str], command: str) -> Record:
    cost = bench.host_cost(against)
    print(cost)
    return bench.record.todays_record(command, host=cost.times)


def _levels(_: str | None, against: Sequence[str], command: str) -> Record:
    found = bench.memory_levels()
    print(found)
    return bench.record.todays_record(command, levels=dict(found.levels))


def _adjoints(only: str | None, against: Sequence[str], command: str) -> Record:
    record = adjoints.run(only, against, lambda subjects: show.progress(subjects, "adjoints"), command)
    print(record)
    return record


def _paper(only: str | None, against: Sequence[str], command: str) -> Record:
    report = bench.paper_report(only, lambda subjects: show.progress(subjects, "applications"), command)
    print(report)
    return report.record


def _resnet(only: str | None, against: Sequence[str], command: str) -> Record:
    report = bench.resnet_report(only, against, lambda jobs: show.progress(jobs, "ResNet-18"), command)
    print(*report.tables(only), sep="\n\n")
    return report.record


def _recurrent(only: str | None, against: Sequence[str], command: str) -> Record:
    report = bench.recurrent_report(only, against, lambda jobs: show.progress(jobs, "recurrent networks"), command)
    print(*report.tables(only), sep="\n\n")
    return report.record


def _parallel(only: str | None, against: Sequence[str], command: str) -> Record:
    report = bench.parallel_report(only, against, lambda jobs: show.progress(jobs, "several GPUs"), command)
    print(*report.tables(only), sep="\n\n")
    return report.record


def _transformer(_: str | None, against: Sequence[str], command: str, part: str) -> Record:
    report = bench.transformer_report(part, against, lambda jobs: show.progress(jobs, part), command)
    print(*report.tables(part), sep="\n\n")
    return report.record


def _of_transformers(help: str, part: str) -> Benchmark:
    return Benchmark(
        help, ("torch",), None, partial(_transformer, part=part), lambda _: bench.recorded_transformer().tables(part)
    )


def _of_ops(help: str, sweep: bool) -> Benchmark:
    return Benchmark(
        help, ("torch", "numpy"), lambda only: only == workloads.CHAIN or workloads.named(only),
        partial(_ops, sweep=sweep), partial(_newest, find=bench.newest, sweep=sweep),
    )  # fmt: skip


BENCHMARKS = {  # by option
    "": _of_ops("", sweep=False),
    "sweep": _of_ops("every legal block size of short works too, and what the search chooses", sweep=True),
    "step": Benchmark(
        "only training steps: eager, as a graph, by hand", ("torch", "numpy"), None, _steps,
        lambda _: [bench.recorded_step(optimizer) for optimizer in bench.steps.OPTIMIZERS], on_host=("numpy",),
    ),
    "host": Benchmark(
        "only what a call costs the host", ("torch",), None, _host, lambda _: [bench.recorded_host()]
    ),
    "levels": Benchmark(
        "only the levels of memory: bandwidth and latency", (), None, _levels, lambda _: [bench.recorded_levels()]
    ),
    "resnet": Benchmark(
        "only ResNet-18: whole steps, single layers and a timeline, against goals", ("torch",),
        partial(known_part, parts=resnet.PARTS), _resnet,
        lambda only: bench.recorded_resnet().tables(only),
    ),
    "rnn": Benchmark(
        "only recurrent networks: on the GPU, on threads and on ranks, against goals", ("torch",),
        partial(known_part, parts=recurrent.PARTS), _recurrent,
        lambda only: bench.recorded_recurrent(only or "gpu").tables(only), everywhere=True,
    ),
    "gpus": Benchmark(
        "only several GPUs: messages between them, and training on all of them, against goals", ("torch",),
        partial(known_part, parts=parallel.PARTS), _parallel, lambda only: bench.recorded_parallel().tables(only),
    ),
    "attention": _of_transformers("only attention, layer norm and a table's gradient, against goals", "attention"),
    "gpt": _of_transformers("only GPTs: training steps and generation, against goals", "gpt"),
    "adjoint": Benchmark(
        "only the ladder's kernels, each beside its adjoint", ("warp",), adjoints.rungs, _adjoints,
        partial(_newest, find=bench.newest_adjoints),
    ),
    "paper": Benchmark(
        "only the Enzyme paper's applications, each and its adjoint", (), titles, _paper,
        lambda _: [bench.recorded_paper()],
    ),
}  # fmt: skip
