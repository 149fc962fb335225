"""Dated: what was measured on one device on one day, in a file that later runs of that day add to."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from minigrad.show.tables import Table
from minigrad.source import PACKAGE

FOLDERS = (PACKAGE.parent / "notebooks" / "records", PACKAGE / "records")  # of a checkout, and of a wheel


@dataclass
class Dated(ABC):
    """Times by their titles, and what they depend on. `refused`: what was wrong, so that it was not timed, and why."""

    device: str
    date: str
    command: str
    versions: dict[str, str]
    refused: dict[str, str] = field(default_factory=dict, kw_only=True)

    within = ""  # the folder among the records
    needs: ClassVar[tuple[str, ...]] = ("device", "date", "command", "versions")  # what a file says at least

    @property
    def name(self) -> str:
        """nvidia-h200-2026-11-21"""
        return f"{self.device.lower().replace(' ', '-')}-{self.date}"

    @property
    def place(self) -> str:
        """NVIDIA H200, 2026-11-21"""
        return f"{self.device}, {self.date}"

    def save(self, folder: Path | str | None = None) -> Path:
        """Write `<device>-<date>.json`; what that file already holds and this record has not measured again, stays."""
        path = place(folder) / self.within / f"{self.name}.json"
        whole = self.added_to(self.load(path)) if path.is_file() else self
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")  # whole or not at all: Ctrl-C may come while it is written
        part.write_text(_one_line_lists(json.dumps(whole.written(), indent=1)) + "\n")
        return part.replace(path)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a record again. Raises ValueError where the file is none."""
        try:
            content = json.loads(Path(path).read_text())
        except ValueError:
            content = None
        if not isinstance(content, dict) or not set(cls.needs) <= content.keys():
            raise ValueError(f"{path} is no record: it needs {', '.join(cls.needs)}. `minigrad bench` writes one.")
        try:
            return cls.read(content)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is a record that is damaged ({type(error).__name__}: {error}).") from error

    @classmethod
    def all(cls) -> Iterator[Self]:
        """Those of the project, the newest first."""
        files = [path for folder in FOLDERS for path in (folder / cls.within).glob("*.json")]
        yield from map(cls.load, sorted(files, key=lambda path: path.stem[-10:], reverse=True))

    @classmethod
    @abstractmethod
    def read(cls, content: dict[str, Any]) -> Self:
        """The record that a file's content says."""

    @abstractmethod
    def written(self) -> dict[str, Any]:
        """The content of a file."""

    @abstractmethod
    def table(self) -> Table:
        """A row for each title."""

    def refuse(self, title: str, why: str) -> None:
        """It is wrong, so it has no times, not even those that were taken before that was seen."""
        for known in (getattr(self, f.name) for f in fields(self)):
            if isinstance(known, dict):
                known.pop(title, None)
        self.refused[title] = why

    def added_to(self, old: Self) -> Self:
        """Both in one. What is refused now has no times any more, and what is timed now is refused no more."""
        pairs = {f.name: (getattr(old, f.name), getattr(self, f.name)) for f in fields(self)}
        both = {key: _united(before, now, self.refused) for key, (before, now) in pairs.items()}
        timed = {
            title for key, (_, now) in pairs.items() if key != "refused" and isinstance(now, dict) for title in now
        }
        both["refused"] = {title: why for title, why in (old.refused | self.refused).items() if title not in timed}
        both["command"] = "; ".join(dict.fromkeys([*old.command.split("; "), *self.command.split("; ")]))
        return replace(self, **both)

    def __repr__(self) -> str:
        return f"{self._head()}\n{self.table()!r}"

    def _repr_html_(self) -> str:
        return f"<p>{self._head()}</p>{self.table()._repr_html_()}"

    def _head(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self.place}; {versions}. {self.command}.{self.summary}"

    @property
    def summary(self) -> str:
        """A sentence behind the heading."""
        return ""


def place(folder: Path | str | None = None) -> Path:
    """Where records are written: in this folder, or where those of the project are."""
    return Path(folder) if folder else next((path for path in FOLDERS if path.is_dir()), FOLDERS[0])


def _united(before: Any, now: Any, refused: dict[str, str]) -> Any:
    """What was known before and is known now, without what is refused now."""
    if not isinstance(now, dict):
        return now or before
    return {title: known for title, known in before.items() if title not in refused} | now


def _one_line_lists(text: str) -> str:
    """Lists of numbers and words on one line each: a record is read by people, too."""
    return re.sub(r"\[\s+([^\[\]{}]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
