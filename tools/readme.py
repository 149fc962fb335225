"""Writes the tables of README.md from the newest records: the last step of `make notebooks`."""

from pathlib import Path

from minigrad.lab.bench import Timing, recorded_host, recorded_step

README = Path(__file__).parents[1] / "README.md"
FIRST, LAST = "<!-- from the newest records, by make notebooks -->\n\n", "\n<!-- until here -->"


def tables() -> str:
    """A training step and the host's cost of a call, compared with PyTorch, in Markdown."""
    steps = {optimizer: recorded_step(optimizer) for optimizer in ("SGD", "Adam")}
    host, one = recorded_host(), steps["SGD"]
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
            f"What a call costs the host until its launches are queued, {host.device}, {host.date} "
            "(`minigrad bench --host --against torch`):",
            "",
            *rows(["work", *libraries]),
            *(line([title, *(micro(of.get(name), 1) for name in libraries)]) for title, of in host.times.items()),
            "",
        ]
    )


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


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text()))
