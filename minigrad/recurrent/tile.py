"""The tile of a block of the persistent kernels: its share of the weights and sequences, and the choice among tiles."""

from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import NamedTuple

from minigrad.display import plural
from minigrad.errors import LaunchError
from minigrad.kernels.extents import ceil_div

REGISTERS, MOST = 65536, 255  # of four bytes, in a multiprocessor and at most in a thread
OTHERS, SUMS = 48, 16  # registers of a thread besides its weights and sums; sums at most
WARP, THREADS = 32, 1024  # threads of a warp, and at most of a block
ARITHMETIC = {"tf32": "Tf32", "bf16": "Bf16", "3xtf32": "Tf32x3"}  # the precisions of tensor cores
TENSOR_CORES = ARITHMETIC | {"half": "Half1"}  # and TF32 where h lies within +-1
SHORT = "bf16", "half"  # those whose weights and h have 2 bytes a number
PRODUCTS = {"3xtf32": 3}  # of tensor cores for one product; each waits for the last one of its sum
LATENCY, FEWEST = 33, 8  # cycles of a product of tensor cores, and its sequences: fewer leave it half empty
KS = 32, 16, 64, 128  # columns of a warp
SEQS = 4, 1, 2, 3, 8, 16  # sequences of a block
SPLITS = 1, 2, 4  # lanes that share columns
CLUSTER = 8  # blocks of a cluster at most, on every GPU that has them


class Room(NamedTuple):
    """A device: blocks and threads that run at once, and bytes of shared memory of a block."""

    blocks: int
    threads: int
    shared: int


class Layers(NamedTuple):
    """The work: layers of `hidden` units with `gates` gates, for `batch` sequences, in numbers of `itemsize` bytes."""

    hidden: int
    batch: int
    gates: int
    layers: int
    itemsize: int


class Tile(NamedTuple):
    """`rows` rows of the weights for `seqs` sequences are a block's, and of these `k` columns a warp's.

    On CUDA cores `split` lanes share the columns, each with as many times the rows.
    """

    work: Layers
    rows: int
    k: int
    seqs: int
    split: int
    kind: str = "registers"  # the kernel: "registers", "cluster", or on tensor cores an arithmetic

    @property
    def units(self) -> int:
        return self.rows // self.work.gates

    @property
    def columns(self) -> int:
        return ceil_div(self.work.hidden, self.units)

    @property
    def groups(self) -> int:
        """Groups of sequences, each of which meets for itself."""
        return ceil_div(self.work.batch, self.seqs)

    @property
    def blocks(self) -> int:
        return self.columns * self.groups * self.work.layers

    @property
    def products(self) -> int:
        """Products of a block in a step: with its own h, and with that of the layer below."""
        return 2 if self.work.layers > 1 else 1

    @property
    def warps(self) -> int:
        """The warps of a block: one for k columns of each product, and a thread for each unit of a sequence."""
        threads = self.units * self.seqs
        return self.products * max(ceil_div(self.work.hidden, self.k), ceil_div(threads, WARP * self.products))

    @property
    def width(self) -> int:
        """The columns of all warps of a product: those of h, with zeros beyond the units."""
        return self.k * self.warps // self.products

    @property
    def itemsize(self) -> int:
        """Bytes of a weight, and of a number of h as it changes hands."""
        return 2 if self.kind in SHORT else self.work.itemsize

    @property
    def words(self) -> int:
        """Words of four bytes in which h changes hands: both halves, of all layers."""
        return 2 * self.work.layers * self.groups * self.seqs * self.width * self.itemsize // 4

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of a launch: grid, warps of a block, and bytes of its shared memory."""
        return self.columns, self.groups, self.work.layers, self.warps, self.shared

    @property
    def values(self) -> dict[str, int]:
        """The tunables of a launch."""
        cluster = {"CLUSTER": self.columns} if self.kind == "cluster" else {}
        values = {"K": self.k, "THREADS": WARP * self.warps} | cluster
        if self.kind in TENSOR_CORES:
            return values | {"MROWS": self.rows // 16, "EIGHTS": self.seqs // 8}
        return values | {"ROWS": self.rows // WARP, "SEQS": self.seqs, "SPLIT": self.split}

    @property
    def shared(self) -> int:
        """Bytes: each warp's partial sums, and its numbers of h, which tensor cores take from global memory.

        A block of a cluster has two halves of h of all units besides.
        """
        own = self.rows + (4 if self.kind in TENSOR_CORES else self.k)
        halves = 2 * self.width if self.kind == "cluster" else 0
        return self.seqs * (self.warps * own + halves) * self.work.itemsize

    def fits(self, room: Room) -> bool:
        """True if the registers of the threads and the shared memory of the block are enough."""
        threads = WARP * self.warps
        summed = 8 * self.rows // WARP if self.kind in TENSOR_CORES else SUMS
        registers = (self.itemsize * self.rows * self.k // WARP + self.work.itemsize * summed) // 4 + OTHERS
        held = registers <= min(MOST, REGISTERS // threads)
        together = self.kind != "cluster" or (self.columns <= CLUSTER and self.work.layers == 1)
        return threads <= THREADS and held and together and self.shared <= room.shared

    def resident(self, room: Room) -> bool:
        """True if all blocks run at once.

        A cluster runs within a group of multiprocessors, and groups are not multiples of it: room for one may be lost.
        """
        lost = CLUSTER if self.kind == "cluster" else 0
        return self.blocks <= room.blocks - lost and self.blocks * WARP * self.warps <= room.threads

    @property
    def cycles(self) -> float:
        """A model of a step: products or reads of shared memory, sums over lanes and warps, and h from the L2 cache."""
        macs = self.rows * self.k * self.seqs * self.warps
        partial = self.warps * self.seqs * self.rows / WARP  # sums of all warps, in writes of a warp
        if self.kind in TENSOR_CORES:
            many = PRODUCTS.get(self.kind, 1)
            products = max(macs * many / 512, self.k / 8 * self.seqs / 8 * many * LATENCY)
        else:
            products = max(macs / 128, self.seqs * self.k / self.split * self.warps)  # a warp reads a number in a cycle
            products += partial * (self.split - 1)  # exchanges
        moved = 2 * self.words * self.columns / 2500  # bytes that all blocks read of a half, in a cycle
        return products + 2 * partial + moved


def tiles(work: Layers, kind: str) -> list[Tile]:
    """Every tile that the kernel of this kind is compiled for."""
    if kind in TENSOR_CORES:
        shapes = product((16, 32, 64), KS, (8, 16, 32, 64), (1,))
    else:
        shapes = product((32, 64, 96, 128), KS, SEQS, SPLITS)
    return [Tile(work, *shape, kind) for shape in shapes]


@cache
def choose(work: Layers, kind: str, room: Room) -> Tile:
    """The tile with the shortest step whose blocks are resident at once.

    Raises LaunchError where there is none, with the most units or sequences for which there is one.
    """
    fitting = [tile for tile in tiles(work, kind) if tile.fits(room)]
    resident = [tile for tile in fitting if tile.resident(room)]
    if not fitting:
        raise LaunchError(
            f"{kind}: {'no cluster of 8 blocks' if kind == 'cluster' else 'no block'} holds its share of "
            f"{work.hidden} units, {work.gates} gates and {plural(work.layers, 'layer')} in registers. "
            f"{smaller(work, kind, room)}, or choose rung='projected'."
        )
    if not resident:
        least = min(fitting, key=lambda tile: (tile.blocks, tile.warps))
        raise LaunchError(
            f"{kind}: {work.hidden} units, {plural(work.batch, 'sequence')} and {plural(work.layers, 'layer')} need "
            f"{least.blocks} blocks of {WARP * least.warps} threads at once, and this device runs {room.blocks}, with "
            f"{room.threads} threads. {smaller(work, kind, room)}, or choose rung='projected'."
        )
    return min(resident, key=lambda tile: tile.cycles)


def smaller(work: Layers, kind: str, room: Room) -> str:
    """The most sequences whose blocks are resident at once; where not even one's are, the most units."""

    def resident(**sizes: int) -> bool:
        return any(tile.fits(room) and tile.resident(room) for tile in tiles(work._replace(**sizes), kind))

    if sequences := largest(work.batch, lambda n: resident(batch=n)):
        return f"Run {plural(sequences, 'sequence')} at a time, the most that fit"
    if units := largest(work.hidden, lambda n: resident(batch=1, hidden=n)):
        return f"Take {plural(units, 'unit')}, the most that fit for one sequence"
    return "Take fewer layers: a unit of each is too much"


def largest(beyond: int, fits: Callable[[int], bool]) -> int:
    """The largest number below `beyond` that fits, 0 if none does: below one that fits all do."""
    return bisect_left(range(1, beyond), True, key=lambda n: not fits(n))
