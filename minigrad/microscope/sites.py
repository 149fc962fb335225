"""Lines of the reader's files for the places in a compiled kernel."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from minigrad.devices.simulator.module import Module
from minigrad.errors import DeviceError


class Place(NamedTuple):
    """A line of a file."""

    file: str
    line: int
    text: str


class Places:
    """The places of a module by their addresses in it, looked up once each."""

    def __init__(self, module: Module):
        self._module = module
        self._known: dict[int, Place | None] = {}
        self._written: set[int] = set()
        self._names = {Path(name).name: name for name in module.parts}
        self._lines = {name: text.splitlines() for name, text in module.parts.items()}

    def find(self, pcs: Iterable[int]) -> dict[int, Place | None]:
        """The line of each address; None where it is in no file of the reader's, but in the simulator's own."""
        new = sorted({int(pc) for pc in pcs} - self._known.keys())
        if new:
            self._known |= dict(zip(new, self._look_up(new), strict=True))
        return self._known

    def written(self, pcs: Iterable[int]) -> list[int]:
        """Those of the addresses whose code the reader wrote: not inlined from the simulator's own files."""
        self.find(pcs)
        return [int(pc) for pc in pcs if int(pc) in self._written]

    def at(self, file: str, line: int) -> Place:
        """The line of that number."""
        name = self._names.get(Path(file).name, file)
        lines = self._lines.get(name, [])
        return Place(name, line, lines[line - 1].strip() if 0 < line <= len(lines) else "")

    def _look_up(self, pcs: list[int]) -> list[Place | None]:
        tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
        if not tool:
            raise DeviceError(
                "the microscope finds the lines of a kernel by addr2line, which is not here. "
                "Debian, Ubuntu: sudo apt install binutils. macOS: brew install binutils."
            )
        command = [tool, "-a", "-i", "-e", str(self._module.path), *map(hex, pcs)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        chunks: list[list[str]] = []
        for line in answer.splitlines():
            if line.startswith("0x"):
                chunks.append([])
            else:
                chunks[-1].append(line)
        self._written |= {pc for pc, frames in zip(pcs, chunks, strict=True) if self._place(frames[0])}
        return [next(filter(None, map(self._place, frames)), None) for frames in chunks]  # from the innermost outwards

    def _place(self, frame: str) -> Place | None:
        """The place that a line of addr2line's answer names, if it is in a file of the reader's."""
        path, _, number = frame.partition(" ")[0].rpartition(":")
        return self.at(path, int(number)) if number.isdigit() and Path(path).name in self._names else None
