"""The decision table: where each value that the gradient needs comes from, and how each gradient is added up."""

from dataclasses import dataclass
from html import escape
from math import prod

from minigrad.adjoint.counting import evaluate
from minigrad.adjoint.derive import Derivation, Derived
from minigrad.adjoint.effects import each, expressions
from minigrad.adjoint.printer import expression
from minigrad.adjoint.sites import Choice
from minigrad.adjoint.tapes import Tape, base
from minigrad.adjoint.tree import Declare, Index, walk
from minigrad.adjoint.types import BYTES

HEAD = ("value", "decision", "bytes a thread", "reason")


@dataclass(frozen=True)
class Decisions:
    """Rows of the table; shows itself in a notebook. Bytes are those of a build with real = float."""

    rows: tuple[Choice, ...]

    def __getitem__(self, what: str) -> Choice:
        """The row of a value or gradient. Raises KeyError and names those there are."""
        for row in self.rows:
            if row.what == what:
                return row
        raise KeyError(f"no decision on {what!r}; there are {', '.join(row.what for row in self.rows)}.")

    def _cells(self) -> list[tuple[str, str, str, str]]:
        return [HEAD, *((row.what, row.how, row.bytes, row.why) for row in self.rows)]

    def __repr__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self._cells(), strict=True)]
        lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in self._cells())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head, *rows = ("".join(f"<{t}>{escape(c)}</{t}>" for c in row) for t, row in _tagged(self._cells()))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{r}</tr>' for r in rows)}</tbody></table>"


def _tagged(cells: list[tuple[str, str, str, str]]) -> list[tuple[str, tuple[str, str, str, str]]]:
    return [("td" if n else "th", row) for n, row in enumerate(cells)]


def decisions(made: Derivation, derived: Derived) -> Decisions:
    """The table of an adjoint."""
    values = [*_read_again(made, derived), *_saved(made, derived), *(_taped(made, tape) for tape in derived.tapes)]
    return Decisions((*values, *derived.choices))


def _read_again(made: Derivation, derived: Derived) -> list[Choice]:
    """Inputs, which still stand where they stood."""
    arrays = [p.name for p in made.of.params if p.pointer and p.name not in derived.replayed]
    read = {x.array for s in each(derived.body) for e in expressions(s) for x in walk(e) if isinstance(x, Index)}
    why = "it is as the kernel found it, so it is read again"
    return [Choice(name, "recompute", why, "0") for name in arrays if name in read]


def _saved(made: Derivation, derived: Derived) -> list[Choice]:
    """Values kept in variables."""
    rows = []
    for s in each(derived.body):
        if isinstance(s, Declare) and s.name in made.saved_names and s.value is not None:
            why = f"{base(s.value)} changes after line {s.place.line}, and its value there is needed"
            rows.append(Choice(s.name, "registers", why, str(BYTES[s.type])))
    return rows


def _taped(made: Derivation, tape: Tape) -> Choice:
    """Values kept for each round of a loop."""
    why = f"every round of the loop at line {tape.place.line} has another {tape.value}"
    size = BYTES[tape.type] * prod(evaluate(e, made.module.values) or 0 for e in tape.dims)
    if tape.size is not None:
        rounds = evaluate(tape.size, made.module.values) or 0
        return Choice(tape.name, "local tape", f"{why}; at most {rounds} rounds", str(rounds * size))
    rounds_text = "counted as it runs" if tape.trips is None else expression(tape.trips)
    return Choice(tape.name, "global tape", why, f"{size} x rounds ({rounds_text})")
