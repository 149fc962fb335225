"""What the rungs of the ladder of matrix multiplication own and load: counted by the microscope, in the kernels."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from minigrad.create import ones
from minigrad.microscope import Inspection, watching
from minigrad.op import OPS
from minigrad.ops.ladder import BESIDE
from minigrad.show.seen import parts
from minigrad.show.tables import Table, table

SIDE, DEPTH = 128, 16  # what is counted: c is SIDE x SIDE, and DEPTH of each of its sums
HEADERS = ("rung", "a block makes", "a thread", "global loads", "shared loads", "wavefronts", "FLOP/byte")


def rungs() -> list[str]:
    """The kernels of the ladder, from the foot to the top."""
    others = ("forward", *BESIDE)
    return [name for name in OPS["matmul"].kernels if name not in others and "backward" not in name]


def settings(name: str, n: int) -> dict[str, int]:
    """The tunables of a rung as it runs for n x n matrices. Raises ValueError where there is no such rung."""
    if name not in rungs():
        raise ValueError(f"the ladder has no rung {name!r}; it has {', '.join(rungs())}.")
    return dict(OPS["matmul"].kernels[name].launch(n, n, n).values)


@dataclass(frozen=True)
class Counts:
    """What DEPTH steps of the sum take in block 0. A load or a multiplication is one instruction of a warp."""

    threads: int
    owners: np.ndarray  # of each element of c: 3 for thread 0, 2 for the others of its warp, 1 for its block, else 0
    global_loads: int
    shared_loads: int
    sectors: int  # of the global loads
    wavefronts: int  # of the shared loads

    @property
    def multiplications(self) -> float:
        """Each with its addition."""
        return float((self.owners > 0).sum()) * DEPTH / 32

    @property
    def elements(self) -> int:
        """That thread 0 makes."""
        return int((self.owners == 3).sum())

    @property
    def intensity(self) -> float:
        """FLOPs for each byte that is fetched from global memory: 2 for a multiplication, 32 bytes a sector."""
        return 2 * 32 * self.multiplications / (32 * self.sectors)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of c that the block makes."""
        rows, columns = np.nonzero(self.owners)
        return int(rows.max()) + 1, int(columns.max()) + 1


def on_tensor_cores(name: str) -> np.ndarray:
    """The owners of a rung that only a GPU runs, by the layout of its instruction: as in `Counts`.

    Pieces of 16 x 8 (mma.sync) or of 16 x 256 (wgmma), which a warp adds up; each lane has pairs in two rows of each.
    The kernel of TF32 works out the transpose, and with wgmma the lanes exchange pairs before they store.
    """
    row, column = np.mgrid[:SIDE, :SIDE]
    warp, thread = {
        "mma_tf32": ((row < 64) & (column < 64), (row % 8 < 2) & (column % 16 < 2)),
        "mma_bf16": ((row < 64) & (column < 64), (row % 8 == 0) & (column % 8 < 2)),
        "wgmma": (row < 16, (row % 8 == 0) & (column % 32 < 8)),
    }[name]
    return 1 + warp.astype(np.uint8) + (warp & thread)


@lru_cache
def counted(name: str, **values: int) -> Counts | None:
    """What a rung does, seen on `sim`; None for those on tensor cores, which only a GPU has."""
    if "mma" in name:  # mma.sync and wgmma, the instructions of tensor cores
        return None
    short, long = _watched(name, DEPTH, values), _watched(name, 2 * DEPTH, values)
    counts = (more - less for more, less in zip(_loads(long), _loads(short), strict=True))  # without begin and end
    return Counts(int(np.prod(short.block)), owners(short, SIDE), *counts)


def _watched(name: str, depth: int, values: dict[str, int]) -> Inspection:
    """Block 0 of a rung, with sums of so many terms."""
    with watching(blocks=1) as report:
        OPS["matmul"].using(name, **values)(ones(SIDE, depth, device="sim"), ones(depth, SIDE, device="sim"))
    return report.launches[0]


def _loads(seen: Inspection) -> tuple[int, int, int, int]:
    """Loads from global and from shared memory, sectors of the former, wavefronts of the latter."""
    fetched, held = ([x for x in seen.lines if (x.space, x.kind) == (s, "read")] for s in ("global", "shared"))
    loads = sum(x.requests for x in fetched), sum(x.requests for x in held)
    return *loads, sum(x.sectors for x in fetched), sum(x.wavefronts for x in held)


def owners(seen: Inspection, side: int) -> np.ndarray:
    """Who writes which element of c, a matrix of side x side."""
    stores = seen.traffic[seen.traffic["variable"] == "c"]
    found = np.zeros(side * side, np.uint8)
    for which, mine in enumerate((stores["thread"] >= 0, stores["thread"] < 32, stores["thread"] == 0), 1):
        found[parts(stores[mine], seen.variables["c"].itemsize)["element"]] = which
    return found.reshape(side, side)


def loads(n: int = 4096) -> Table:
    """What each rung loads for a multiplication and an addition, as it runs for n x n matrices; counted on `sim`.

    Loads are instructions of a warp for each of its multiplications. A wavefront is a pass over shared memory: as a
    multiprocessor makes one in a clock, and could multiply for four warps, more than 1/4 leaves multipliers idle.
    """
    rows = []
    for name in rungs():
        if seen := counted(name, **settings(name, n)):
            per, (down, across) = seen.multiplications, seen.tile
            each = seen.global_loads / per, seen.shared_loads / per, seen.wavefronts / per, seen.intensity
            rows.append((name, f"{down} x {across}", str(seen.elements), *(f"{x:.4g}" for x in each)))
    return table(rows, HEADERS)
