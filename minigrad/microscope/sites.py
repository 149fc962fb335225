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
        self._known: dict[int, Place] = {}
        self._written: set[int] = set()
        self._names = {Path(name).name: name for name in module.parts}
        self._lines = {name: text.splitlines() for name, text in module.parts.items()}

    def find(self, pcs: Iterable[int]) -> dict[int, Place]:
        """The line of each address: the reader's own, where code of another file was inlined into it."""
        new = sorted({int(pc) for pc in pcs} - self._known.keys())
        if new:
            self._known |= dict(zip(new, self._look_up(new), strict=True))
        return self._known

    def written(self, pcs: Iterable[int]) -> list[int]:
        """Those of the addresses whose code the reader wrote: not inlined from the simulator's own files."""
        self.find(pcs)
        return [int(pc) for pc in pcs if int(pc) in self._written]

    def at(self, file: str, line: int) -> Place:
        """The line of that number; the text is known of the reader's files."""
        name = self._names.get(Path(file).name, Path(file).name)
        lines = self._lines.get(name, [])
        return Place(name, line, lines[line - 1].strip() if 0 < line <= len(lines) else "")

    def _look_up(self, pcs: list[int]) -> list[Place]:
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
        frames = [[_place(frame) for frame in chunk] for chunk in chunks]  # from the innermost outwards
        own = [[self.at(*frame) for frame in chain if Path(frame[0]).name in self._names] for chain in frames]
        self._written |= {pc for pc, chain, ours in zip(pcs, frames, own, strict=True) if len(chain) == len(ours)}
        return [ours[0] if ours else self.at(*chain[-1]) for chain, ours in zip(frames, own, strict=True)]


def _place(frame: str) -> tuple[str, int]:
    """File and line in a line of addr2line's answer."""
    path, _, number = frame.partition(" ")[0].rpartition(":")
    return path, int(number) if number.isdigit() else 0
