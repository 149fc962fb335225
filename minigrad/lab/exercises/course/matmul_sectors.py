"""06: the sectors of the naive product, which depend on the shape of a warp."""

from minigrad.create import ones
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.microscope import Inspection, inspect
from minigrad.operators import OPS


def run() -> Inspection:
    return inspect(OPS["matmul"]["naive"], ones(64, 64, device="sim"), ones(64, 64, device="sim"), TILE=8)


def truth(record: Inspection) -> dict[str, float]:
    return {line.variable: line.sectors_per_request for line in record.lines}


matmul_sectors = Prediction(
    "06",
    "matmul_sectors",
    task=r"""
**How many sectors?** The naive kernel with TILE=8, on matrices of 64 x 64. A block is 8 x 8 threads. A warp is 32 of
them: eight values of `threadIdx.x` by four of `threadIdx.y`. In the naive kernel `threadIdx.x` goes down the *rows* of
$a$ and $c$.

How many sectors does one request of a warp touch, in `a[row * k + i]`, in `b[i * n + column]`, and in
`c[row * n + column]`?
""",
    solution="""
#> a = ...  # sectors of one request
a = 8
#<
#> b = ...
b = 1
#<
#> c = ...
c = 8
#<
""",
    run=run,
    truth=truth,
    hints=[
        "threadIdx.x has the values 0 to 7 in this warp, and threadIdx.y the values 0 to 3. So how many values have "
        "row and column?",
        "at one step i, a warp reads one number of a in each of its rows. The rows lie 64 numbers apart, so no two "
        "of these share a sector.",
        "of b it reads neighbours in one row, one for each of its columns. A sector has room for eight numbers. Of c "
        "it writes such neighbours in each of its rows.",
    ],
    wrong=[
        Wrong("a = 8", "a = 32", "value",
              "Threads of one row read the same number of a. The warp has 8 rows, not 32."),
        Wrong("a = 8", "a = 4", "value",
              "x goes down the rows, and x has 8 values in this warp. The 4 values of y are its columns."),
        Wrong("a = 8", "a = 1", "value",
              "Numbers of one column of a lie a whole row apart, each in a sector of its own."),
        Wrong("b = 1", "b = 4", "value",
              "The four columns of the warp are neighbours in a row of b: four numbers fit in one sector."),
        Wrong("b = 1", "b = 8", "value",
              "All lanes read row i of b, in four neighbouring columns: one sector holds them."),
        Wrong("c = 8", "c = 32", "value",
              "The four neighbours in a row of c share a sector. So it is one sector a row, and there are 8 rows."),
        Wrong("c = 8", "c = 4", "value",
              "The warp has 8 rows of 4 elements, and each row of c has sectors of its own."),
    ],
)  # fmt: skip
