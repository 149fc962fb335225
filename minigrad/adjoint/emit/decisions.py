"""The decision table: the source of each value that the gradient needs, and the way each gradient is added up."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from math import prod

from minigrad.adjoint.analyse.activity import by_value
from minigrad.adjoint.analyse.trip_counts import evaluate
from minigrad.adjoint.decide import Choice, Derived
from minigrad.adjoint.decide.checkpoints import EVERY, work
from minigrad.adjoint.decide.store_or_recompute import Tape
from minigrad.adjoint.language.ast import BYTES, Assign, Declare, Expr, Index, Number, is_float, walk
from minigrad.adjoint.language.dataflow import elements_read, own_writes
from minigrad.adjoint.language.printer import UNARY, expression
from minigrad.adjoint.language.rewrite import flatten

HEAD = ("value", "decision", "bytes per thread", "bytes moved", "alternative", "reason")
Row = tuple[str, ...]
LEFT = "text-align:left;vertical-align:top"


@dataclass(frozen=True)
class Decisions:
    """Rows of the table; a notebook shows it. Bytes are those of a build with real = float."""

    rows: tuple[Choice, ...]

    def __getitem__(self, what: str) -> Choice:
        """The row of a value or gradient. Raises KeyError with the names of all rows."""
        for row in self.rows:
            if row.what == what:
                return row
        raise KeyError(f"no decision on {what!r}; there are {', '.join(row.what for row in self.rows)}.")

    def _cells(self) -> list[Row]:
        return [HEAD, *((r.what, r.how, r.bytes, r.moved, r.instead, r.why) for r in self.rows)]

    def __repr__(self) -> str:
        columns = ([c.ljust(max(map(len, column))) for c in column] for column in zip(*self._cells(), strict=True))
        return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))

    def _repr_html_(self) -> str:
        def line(cells: Iterable[str], tag: str = "td") -> str:
            return "".join(f'<{tag} style="{LEFT}">{cell}</{tag}>' for cell in cells)

        head, *rows = ([escape(cell) for cell in row] for row in self._cells())
        body = "".join(f"<tr>{line([f'<code>{row[0]}</code>', *row[1:]])}</tr>" for row in rows)
        return f"<table><thead><tr>{line(head, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def decisions(derived: Derived) -> Decisions:
    kernel, reread = derived.facts.function, _reread(derived)
    why = "a member of a struct that is passed by value; make it a parameter to have one"
    left = [Choice(p.name, "no gradient", why) for p in kernel.params if is_float(p.type) and by_value(p)]
    rows = [*left, *reread, *_recomputed(derived, {row.what for row in reread}), *_saved(derived)]
    return Decisions((*rows, *(_taped(derived, tape) for tape in derived.tapes), *derived.choices))


def _reread(derived: Derived) -> list[Choice]:
    """Inputs, which the kernel has not overwritten."""
    read = {x.array for x in elements_read(derived.body)} - derived.replayed
    why = "the kernel does not change it"
    sizes = {p.name: BYTES[p.type] for p in derived.facts.function.params if p.name in read}
    return [Choice(name, "read again", why, "0", str(size), f"tape: {2 * size}") for name, size in sizes.items()]


def _recomputed(derived: Derived, reread: set[str]) -> list[Choice]:
    """Variables and shared arrays whose statements are also in the adjoint. The rows of reread count its bytes."""
    inputs = {p.name for p in derived.facts.function.params if p.pointer} - reread
    taped = {tape.value for tape in derived.tapes}
    lines: dict[str, list[Expr]] = {}
    for s in flatten(derived.body):
        if isinstance(s, Declare | Assign) and s.value is not None and not isinstance(s.value, Number):
            (name,) = own_writes(s)
            lines.setdefault(name, []).append(s.value)
    rows = []
    for name, d in derived.facts.function.declared.items():
        if (computed := lines.get(name)) and name not in taped and is_float(d.type):
            found = {x for e in computed for x in walk(e) if isinstance(x, Index)}
            moved = sum(BYTES[x.type] for x in found if x.array in inputs)
            count = sum(map(work, computed))
            why = f"its line runs again: {count or 'no'} operation{'s' * (count != 1)}"
            rows.append(Choice(name, "recompute", why, "0", str(moved), f"tape: {2 * BYTES[d.type]}"))
    return rows


def _saved(derived: Derived) -> list[Choice]:
    """Values saved in variables."""
    rows = []
    for s in flatten(derived.body):
        if isinstance(s, Declare) and s.name in derived.registers and s.value is not None:
            why = f"{derived.registers[s.name]} changes after {s.place.words}, and its value there is still needed"
            rows.append(Choice(s.name, "registers", why, str(BYTES[s.type]), "0", f"tape: {2 * BYTES[s.type]}"))
    return rows


def _taped(derived: Derived, tape: Tape) -> Choice:
    """Values saved in each iteration of a loop, or in every eighth."""
    loop = f"the loop at {tape.place.words}"
    why = f"{loop} overwrites {tape.value} in every round"
    why = f"{tape.of} is needed for every round of {loop}, and its inputs are overwritten" if tape.of else why
    extents = [(e, evaluate(e, derived.facts.file.values)) for e in tape.dims]
    size = BYTES[tape.type] * prod(n for _, n in extents if n is not None)
    inside = "".join(f" x {expression(e, UNARY)}" for e, n in extents if n is None)  # iterations of inner loops
    never = derived.never.get(tape.name, "a different loop reads the tape")
    moved, again = f"{2 * size} a round", f"every {EVERY}th round: impossible, {never}"
    if counted := derived.costs.get(tape.name):
        moved, again = f"{counted.store:g} a round", f"every {EVERY}th round: {counted}"
    if tape.size is not None:
        rounds = evaluate(tape.size, derived.facts.file.values) or 0
        why = f"{why}; at most {rounds} rounds"
        return Choice(tape.name, "local tape", why, str(rounds * size), f"{moved}, in L1", again)
    trips, how = "counted as it runs" if tape.trips is None else expression(tape.trips), "global tape"
    if tape.every > 1:
        how, why = f"global tape, every {EVERY}th round", f"{why}; the rounds in between run again"
        moved, again = str(derived.costs[tape.name]), f"every round: {moved.partition(' ')[0]} bytes"
    return Choice(tape.name, how, why, f"{size}{inside} x rounds ({trips})", moved, again)
