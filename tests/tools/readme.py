"""Writes the tables of README.md and notebook 00: from the newest records, and from the first cells of the notebooks.

It is the last step of `make notebooks`.
"""

import re
from pathlib import Path

import nbformat

from minigrad.lab.bench import Timing, recorded_host, recorded_recurrent, recorded_resnet, recorded_step
from minigrad.lab.bench.recurrent import gpu
from minigrad.recurrent.openmp import RUNGS

README = Path(__file__).parents[2] / "README.md"
NOTEBOOKS = README.parent / "notebooks"
START = NOTEBOOKS / "00_start_here.ipynb"
ROW = re.compile(r"^\| \[(\S+) (· )?[^\]]*\]\(((?:notebooks/)?(\d\w+\.ipynb))\) \|(.*)\| \d+ min \|$", re.M)
STEPS = [f"{cell} 512, batch {batch}, float32" for cell in ("lstm", "gru") for batch in (1, 32)]  # of the processors
FIRST, LAST = "<!-- from the newest records, by make notebooks -->\n\n", "\n<!-- until here -->"


def tables() -> str:
    """Training steps, inference and the host's cost of a call, compared with PyTorch, in Markdown."""
    steps = {optimizer: recorded_step(optimizer) for optimizer in ("SGD", "Adam")}
    host, one, images = recorded_host(), steps["SGD"], recorded_resnet()
    ways = ("minigrad", "minigrad, graph", "PyTorch", "PyTorch, graph")
    libraries = ("minigrad", "PyTorch")
    return "\n".join(
        [
            f"On one {one.device}, {one.date}, in microseconds, the host's time included "
            "(`minigrad bench --step --against torch numpy`):",
            "",
            *rows(["a step of an MLP 784-512-256-10, batch 128", "minigrad", "as a graph", "PyTorch", "as a graph"]),
            *(line([name, *(micro(step.times.get(way), 0) for way in ways)]) for name, step in steps.items()),
            "",
            f"ResNet-18 on photographs of 224 x 224, {images.record.place}, in microseconds; PyTorch in its best mode "
            "(`minigrad bench --resnet --against torch`):",
            "",
            *rows(["work", *libraries]),
            *(line([row[0], *row[2:4]]) for row in images.table().rows if row[0].startswith("ResNet-18")),
            "",
            f"What a call costs the host until its launches are queued, {host.device}, {host.date} "
            "(`minigrad bench --host --against torch`):",
            "",
            *rows(["work", *libraries]),
            *(line([title, *(micro(of.get(name), 1) for name in libraries)]) for title, of in host.times.items()),
            "",
            *recurrent_tables(),
        ]
    )


def recurrent_tables() -> list[str]:
    """Sequences on a GPU and steps on processors: the fastest rung and PyTorch's fastest mode of that precision."""
    sequences, processors = recorded_recurrent("gpu"), recorded_recurrent("processor")
    best = []
    for work in gpu.WORKS:
        if work.steps == 512 and (times := sequences.record.steps.get(work.title)):
            seconds = gpu.best(times, work.precision)
            best.append(line([work.title, *("" if t is None else f"{t * 1e6:.0f}" for t in seconds)]))
    threads = max(int(label.split()[-2]) for label in processors.record.steps[STEPS[0]])
    label = f", {threads} threads" if threads > 1 else ", 1 thread"
    return [
        f"A recurrent network reads sequences, {sequences.record.place}, in microseconds, the fastest rung next to "
        "PyTorch's fastest mode of that precision (`minigrad bench --rnn --against torch`):",
        "",
        *rows(["512 steps", "minigrad", "PyTorch"]),
        *best,
        "",
        f"One step on {threads} threads, {processors.host}:",
        "",
        *rows(["network", "minigrad", "PyTorch"]),
        *(line([title, *step(processors.record.steps[title], label)]) for title in STEPS),
        "",
    ]


def step(times: dict[str, Timing], label: str) -> list[str]:
    """Microseconds of the fastest rung on these threads, and of PyTorch."""
    ours = min(t.fastest for name, t in times.items() if name.partition(", ")[0].split()[0] in RUNGS and label in name)
    return [f"{ours * 1e6:.0f}", f"{times[f'torch{label}'].fastest * 1e6:.0f}"]


def rows(headers: list[str]) -> list[str]:
    """The header row of a table, and the line under it."""
    return [line(headers), "|" + "---|" * len(headers)]


def line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def micro(timing: Timing | None, digits: int) -> str:
    """The median in microseconds; empty where it was not timed."""
    return f"{timing.seconds * 1e6:.{digits}f}" if timing else ""


def with_tables(text: str) -> str:
    """The text with its tables filled from the records."""
    before, rest = text.split(FIRST)
    _, after = rest.split(LAST)
    return f"{before}{FIRST}{tables()}{LAST}{after}"


def with_course(text: str) -> str:
    """The text with the titles and minutes that the first cells of the notebooks name, in each row of the course."""

    def row(found: re.Match) -> str:
        first = nbformat.read(NOTEBOOKS / found[4], as_version=4).cells[0].source
        number, title = re.findall(r"# (\w+) · (.*)", first)[0]
        minutes = re.findall(r"\*\*(\d+) minutes", first)[0]
        return f"| [{number} {found[2] or ''}{title}]({found[3]}) |{found[5]}| {minutes} min |"

    return ROW.sub(row, text)


if __name__ == "__main__":
    README.write_text(with_course(with_tables(README.read_text())))
    start = nbformat.read(START, as_version=4)
    for cell in start.cells:
        cell.source = with_course(cell.source)
    nbformat.write(start, START)
