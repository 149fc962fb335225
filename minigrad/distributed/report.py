"""The reports of a job's ranks, as rank.py writes them, and the sentence about the first one that failed."""

import json
import pickle
import re
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from minigrad.display import plural
from minigrad.errors import RankError

FRAME = re.compile(r'File "(.+)", line (\d+)')


class RankReport:
    """The folder of a rank that has begun. A file is missing where the rank did not come so far."""

    def __init__(self, folder: Path):
        self.folder = folder
        start = self._json("rank")
        self.rank, self.size, self.library, self.script = (start[key] for key in ("rank", "size", "library", "script"))
        self._shown = 0  # bytes of its output

    def _json(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        return json.loads(path.read_text()) if path.is_file() else {}

    def output(self) -> str:
        return (self.folder / "output").read_text("utf-8", errors="replace")

    def new_lines(self, ended: bool) -> str:
        """The whole lines that it has printed since the last call; after its end all that it has printed."""
        with (self.folder / "output").open("rb") as file:
            file.seek(self._shown)
            text = file.read()
        lines = text if ended else text[: text.rfind(b"\n") + 1]
        self._shown += len(lines)
        return lines.decode(errors="replace")

    def values(self) -> dict[str, Any]:
        """The variables that were asked for. Raises TypeError for one of a class that is not known here."""
        found = {}
        for name, value in pickle.loads((self.folder / "values").read_bytes()).items():
            try:
                found[name] = pickle.loads(value)
            except Exception as error:  # whatever the value's class raises
                raise TypeError(
                    f"launch: `{name}` of rank {self.rank} cannot be read here: {error}. Give numbers, arrays, or "
                    "lists of them; a class must be of a module, since the code's own are gone with its rank."
                ) from None
        return found

    def failure(self) -> tuple[float, str, str] | None:
        """The time of its failure, what it did, and its traceback, if it has one."""
        end, status = self._json("end"), self._json("status")
        if end.get("error"):
            place = f" (line {end['line']} of {Path(self.script).name})" if end["line"] else ""
            return end["time"], f"{end['error']}{place}", end["trace"]
        if status and (status["code"] or not end):
            return status["time"], self._died(status["code"]), ""
        return None

    def _died(self, code: int) -> str:
        if code >= 0:
            return f"ended with status {code} and no exception, as by os._exit, comm.Abort or a library's exit()"
        place = f" {at}" if (at := self.at("crash")) else ""
        hint = ", as the system does where memory runs out" if -code == signal.SIGKILL else ""
        return f"was killed by {signal.Signals(-code).name}{place}{hint}"

    def place(self) -> str:
        """Its place at the time limit."""
        line = self.at("where") or ("at the end of its code" if self._json("end") else "at the beginning")
        waits, call = self.call()
        return f"{line}, {'at' if waits else 'after'} {call}" if call else line

    def call(self) -> tuple[bool, str]:
        """The last collective that it came to, and whether it still waits there for others; empty before the first."""
        path = self.folder / "call"
        note = path.read_bytes().rstrip(b"\0 ").decode(errors="replace") if path.is_file() else ""
        return note.startswith("at"), note[2:]

    def at(self, file: str) -> str:
        """The line of the script that it was in, as the file `crash` or `where` has it."""
        path = self.folder / file
        frames = FRAME.findall(path.read_text()) if path.is_file() else []
        own = [(name, line) for name, line in frames if name == self.script] or frames
        return f"in line {own[0][1]} of {Path(own[0][0]).name}" if own else ""


def reports(folder: Path, known: Sequence[RankReport] = ()) -> list[RankReport]:
    """Those of the ranks that have begun, in their order; the known ones are not made a second time."""
    old = {report.folder: report for report in known}
    begun = [path.parent for path in folder.glob("*/rank")]
    return sorted((old.get(path) or RankReport(path) for path in begun), key=lambda report: report.rank)


def failure(
    found: Sequence[RankReport], ranks: int, folder: Path, code: int | None, begun: float, limit: float
) -> RankError | None:
    """The error of a job, if it has one. code: that of mpiexec; None where the ranks were stopped at the time limit."""
    if others := [report for report in found if report.size != ranks]:
        return RankError(
            f"{plural(ranks, 'rank')} should start, and one found itself in a job of {others[0].size}: its library, "
            f"{others[0].library}, and the mpiexec are of two MPIs. MINIGRAD_MPIEXEC names another mpiexec, "
            "MPI4PY_LIBMPI another library; without them both are those of this Python's environment."
        )
    failures = [(*how, report.rank) for report in found if (how := report.failure())]
    if failed := [each for each in failures if code is not None or each[0] < begun + limit]:
        _, what, trace, rank = min(failed)
        calls = [(report.call(), report.rank) for report in found if report.rank != rank]
        waiting = _clauses((f"waited at {call}", other) for (waits, call), other in calls if waits)
        then = f" Then {waiting}." if waiting else ""
        return RankError(f"rank {rank} of {ranks} {what}.{then}", rank, trace.replace(f"{folder}/", ""))
    if code is None:
        return RankError(_late(found, limit))
    if code or len(found) < ranks:
        files = [folder / "mpiexec", *folder.glob("*/output")]
        said = [
            line for file in files for line in file.read_text("utf-8", errors="replace").splitlines() if line.strip()
        ]
        words = f" It said: {said[-1].strip()}" if said else ""
        return RankError(f"{len(found)} of {plural(ranks, 'rank')} began, and mpiexec ended with status {code}.{words}")
    return None


def _late(found: Sequence[RankReport], limit: float) -> str:
    """Where the ranks were when they were stopped."""
    at = _clauses((report.place(), report.rank) for report in found)
    return (
        f"the time limit of {limit:g} s was reached, and the ranks were stopped: {at or 'none had begun'}. "
        "A rank that waits for a message which no other sends waits for ever; else give the job more time."
    )


def _clauses(each: Iterable[tuple[str, int]]) -> str:
    """One clause for all ranks of which the same is said: ranks 0, 2 wait; rank 1 ends."""
    places: dict[str, list[str]] = {}
    for place, rank in each:
        places.setdefault(place, []).append(str(rank))
    return "; ".join(f"rank{'s' * (len(who) > 1)} {', '.join(who)} {place}" for place, who in places.items())
