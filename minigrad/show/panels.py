"""What threads did to a variable, barrier phase by barrier phase: the rows of the picture of phases."""

from dataclasses import dataclass

import numpy as np

from minigrad.show.seen import parts


@dataclass(frozen=True)
class Panel:
    """What one kind of access did to a variable between two barriers."""

    phase: int
    kind: str
    rows: np.ndarray  # of the traffic
    contested: np.ndarray  # elements that several threads touched in this phase, one of them writing

    def owners(self, by: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Elements, the lowest thread or block that touched each, and how many threads did."""
        who = np.stack([self.rows["element"], self.rows[by], self.rows["block"], self.rows["thread"]])
        element, owner = np.unique(who, axis=1)[:2]
        each, first, count = np.unique(element, return_index=True, return_counts=True)
        return each, owner[first], count


def panels_of(rows: np.ndarray, itemsize: int) -> list[Panel]:
    """In the order of time: phase after phase, and in a phase the kind of access that began first."""
    found = []
    whole = not ((rows["offset"] % itemsize).any() or (rows["bytes"] % itemsize).any())
    for phase in np.unique(rows["phase"]):
        now = rows[rows["phase"] == phase]
        contested = _contested(now, itemsize) if whole else np.unique(_contested(now, 1) // itemsize)
        now = parts(now, itemsize)
        for kind in dict.fromkeys(now["kind"].tolist()):
            found.append(Panel(int(phase), kind, now[now["kind"] == kind], contested))
    return found


def _contested(rows: np.ndarray, size: int) -> np.ndarray:
    """The pieces of `size` bytes that several threads of a block touch, one of them by a plain write."""
    pieces = parts(rows, size)
    who = np.unique(np.stack([pieces["block"], pieces["element"], pieces["thread"]]), axis=1)[:2]
    shared, count = np.unique(who, axis=1, return_counts=True)
    return np.intersect1d(shared[1, count > 1], pieces["element"][pieces["kind"] == "write"])
