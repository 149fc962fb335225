"""Branches: where the lanes of a warp part."""

from dataclasses import dataclass

import numpy as np

from minigrad.microscope.native import Kind
from minigrad.microscope.requests import WARP, group
from minigrad.microscope.sites import Places


@dataclass(frozen=True)
class Branch:
    """A stretch of code that some lanes of a warp enter while others do not.

    lanes are the active ones of each execution by a warp, in order; their mean is what
    smsp__thread_inst_executed_per_inst_executed.ratio says for its instructions.
    """

    file: str
    line: int
    text: str
    lanes: tuple[int, ...]

    @property
    def executions(self) -> int:
        """How often a warp, or a part of one, entered."""
        return len(self.lanes)

    @property
    def active_lanes(self) -> float:
        """The mean number of lanes."""
        return sum(self.lanes) / len(self.lanes)


def branches(records: np.ndarray, places: Places, threads: int) -> list[Branch]:
    """The stretches that a warp did not enter as a whole, in the order of the source."""
    rows = records[records["access"] == Kind.ENTER]
    sites = places.sites(np.unique(rows["pc"]))
    # The block in which Clang leaves a loop has no line: the reader wrote none there.
    told = [pc for pc, site in sites.items() if site.written and site.place.line]
    rows = rows[np.isin(rows["pc"], told)]
    pcs, site = np.unique(rows["pc"], return_inverse=True)
    requests = group(rows, site)
    lanes, of_request = requests.lanes(), site[requests.first]
    whole = np.minimum(threads - rows["thread"][requests.first] // WARP * WARP, WARP)
    found: dict[Branch, None] = {}
    for i in np.unique(of_request[lanes < whole]):
        place = sites[int(pcs[i])].place
        found[Branch(*place, tuple(lanes[of_request == i].tolist()))] = None  # two with the same lanes are one
    # The step of a loop, ++i, stands in its first line; to Clang it is a stretch of its own, to GCC the body's end.
    bodies = {branch.lanes for branch in found if not branch.text.startswith("for")}
    kept = [branch for branch in found if branch.lanes not in bodies or not branch.text.startswith("for")]
    return sorted(kept, key=lambda branch: (branch.file, branch.line, -sum(branch.lanes), branch.lanes))
