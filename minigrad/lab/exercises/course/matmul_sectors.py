"""06: the sectors of the coalesced product, which depend on the shape of a warp."""

from minigrad.create import ones
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.microscope import Inspection, inspect
from minigrad.operators import OPS


def run() -> Inspection:
    return inspect(OPS["matmul"]["coalesced"], ones(64, 64, device="sim"), ones(64, 64, device="sim"), TILE=16)


def truth(record: Inspection) -> dict[str, float]:
    return {line.variable: line.sectors_per_request for line in record.lines}


matmul_sectors = Prediction(
    "06",
    "matmul_sectors",
    task=r"""
**How many sectors?** The coalesced kernel with TILE=16, on matrices of 64 x 64. A block is 16 x 16 threads. A warp is
32 of them: sixteen values of `threadIdx.x` by two of `threadIdx.y`. In this kernel `threadIdx.x` goes along the
*columns* of $b$ and $c$.

How many sectors does one request of a warp touch, in `a[row * k + i]`, in `b[i * n + column]`, and in
`c[row * n + column]`?
""",
    solution="""
#> a = ...  # sectors of one request
a = 2
#<
#> b = ...
b = 2
#<
#> c = ...
c = 4
#<
""",
    run=run,
    truth=truth,
    hints=[
        "threadIdx.x has the values 0 to 15 in this warp, and threadIdx.y the values 0 and 1. So how many values have "
        "row and column?",
        "at one step i, a warp reads one number of a in each of its rows. The rows lie 64 numbers apart, so no two "
        "of these share a sector.",
        "of b it reads neighbors in one row, one for each of its columns. A sector has room for eight numbers. Of c "
        "it writes such neighbors in each of its rows.",
    ],
    wrong=[
        Wrong("a = 2", "a = 1", "value",
              "With TILE=32 a warp has one row. With TILE=16 it has two, and each has its own number of a."),
        Wrong("a = 2", "a = 32", "value",
              "Threads of one row read the same number of a. The warp has 2 rows, not 32."),
        Wrong("a = 2", "a = 16", "value",
              "x goes along the columns here. The 2 values of y are the rows of the warp."),
        Wrong("b = 2", "b = 4", "value",
              "Both rows of the warp read the same 16 numbers of b, and eight numbers fit in one sector."),
        Wrong("b = 2", "b = 16", "value",
              "The 16 columns of the warp are neighbors in a row of b: eight numbers fit in one sector."),
        Wrong("c = 4", "c = 2", "value",
              "16 neighbors fill two sectors, and the warp writes such neighbors in two rows of c."),
        Wrong("c = 4", "c = 32", "value",
              "Neighbors in a row of c share sectors: 16 numbers fill two of them, in each of 2 rows."),
    ],
)  # fmt: skip
