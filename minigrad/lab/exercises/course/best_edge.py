"""08: the edge of a tile chosen by calculation: rounds of blocks, each as long as its bytes or its arithmetic take."""

from collections.abc import Sequence
from heapq import heapreplace
from itertools import product

from minigrad.lab.exercises import PythonExercise, Wrong


def duration(n: int, edge: int, sms: int, bandwidth: float, peak: float) -> float:
    """The seconds until the last tile is done, each given to the multiprocessor that is free first."""
    free = [0.0] * sms  # when each of them is free again, the first one in front
    nbytes = sum(4 * n for lines in ("rows", "columns") for _ in range(edge))  # at the border, too
    flops = sum(2 * n for row in range(edge) for column in range(edge))
    for _ in product(range(0, n, edge), repeat=2):
        heapreplace(free, free[0] + max(nbytes / bandwidth, flops / peak))
    return max(free)


def best(n: int, edges: Sequence[int], sms: int, bandwidth: float, peak: float) -> int:
    """The edge with the shortest time."""
    return min(edges, key=lambda edge: duration(n, edge, sms, bandwidth, peak))


best_edge = PythonExercise(
    "08",
    task="""
**Which tile, without measuring?** Two `n` x `n` matrices of 4-byte numbers are multiplied. Each block makes a tile of
`edge` x `edge` numbers. It reads `edge` rows of one matrix and `edge` columns of the other, and for each number of its
tile it does `2 * n` FLOPs. Leave out what it writes. A tile at the border takes as long as any other.

Each of the `sms` multiprocessors holds one block at a time. Alone it moves `bandwidth` bytes and does `peak` FLOPs in a
second, both at the same time. Return the one of `edges` with which the product is done first.
""",
    solution="""
def best_edge(n, edges, sms, bandwidth, peak):
    #> return None  # <- your code
    times = []
    for edge in edges:
        blocks = (-(-n // edge)) ** 2
        block = max(8 * edge * n / bandwidth, 2 * edge**2 * n / peak)
        times.append(-(-blocks // sms) * block)
    return edges[times.index(min(times))]
    #<
""",
    hints=[
        "take one edge first. How many bytes does a block read, and how many FLOPs does it do? Both go on at the same "
        "time, so the longer of the two times is that of the block.",
        "how many tiles are a row of the result? The one at the border counts, so round up. There are as many rows.",
        "the blocks go in rounds of `sms`, and a round that is not full takes as long as a full one. Multiply the "
        "rounds by the time of a block, for each edge, and return the edge with the smallest product.",
    ],
    wrong=[
        Wrong("max(8 * edge * n / bandwidth, 2 * edge**2 * n / peak)",
              "8 * edge * n / bandwidth + 2 * edge**2 * n / peak", "value",
              "Some warps calculate while others wait for memory: the two times overlap, and do not add up."),
        Wrong("max(8", "min(8", "value", "A block is done when both are done: the longer of the two times."),
        Wrong("max(8 * edge * n / bandwidth, 2 * edge**2 * n / peak)", "8 * edge * n / bandwidth", "value",
              "A large tile uses each number often: then the arithmetic takes longer than the memory."),
        Wrong("max(8 * edge * n / bandwidth, 2 * edge**2 * n / peak)", "2 * edge**2 * n / peak", "value",
              "A small tile uses each number seldom: then the memory takes longer than the arithmetic."),
        Wrong("-(-blocks // sms) * block", "blocks / sms * block", "value",
              "The last round takes as long as a full one, however few blocks are left for it: round up."),
        Wrong("-(-blocks // sms) * block", "blocks // sms * block", "value",
              "The blocks that are left need a round of their own: round up."),
        Wrong("-(-blocks // sms) * block", "block", "value",
              "That is the time of one block. A small tile has a short one, and many rounds."),
        Wrong("(-(-n // edge)) ** 2", "(n // edge) ** 2", "value",
              "The tile at the border is not full, but it needs a block: round up."),
        Wrong("(-(-n // edge)) ** 2", "-(-n // edge)", "value",
              "That is one row of tiles. The result has as many rows of them as columns."),
        Wrong("8 * edge * n", "4 * edge * n", "value",
              "A block reads edge rows of one matrix and edge columns of the other: 2 * edge * n numbers."),
        Wrong("8 * edge * n", "2 * edge * n", "value", "That counts numbers. Each of them has 4 bytes."),
        Wrong("edges[times.index(min(times))]", "min(times)", "value",
              "That is the shortest time. Wanted is the edge that it belongs to."),
        Wrong("edges[times.index(min(times))]", "max(edges)", "value",
              "The largest tile reads least. Where it leaves multiprocessors without a block, it loses."),
    ],
    truth=best,
    cases=[(1500, (32, 64, 128, 256), 132, 32e9, 5e11), (3000, (32, 64, 128, 256), 132, 32e9, 5e11),
           (777, (32, 64, 128), 132, 32e9, 5e11), (500, (32, 64, 128, 256), 20, 32e9, 2e12),
           (500, (16, 48, 96), 132, 32e9, 5e11), (4096, (32, 64, 128, 256), 132, 32e9, 4e12)],
)  # fmt: skip
