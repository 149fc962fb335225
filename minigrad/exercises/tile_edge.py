"""07: how large a tile has to be before arithmetic, and not memory, is what a kernel waits for."""

from minigrad.workbook import PythonExercise, Wrong


def truth(flops: float, bandwidth: float) -> int:
    """The first edge, tried one after the other, at which a step's fetching takes no longer than its arithmetic."""
    edge = 1
    while (2 * edge * 4) / bandwidth > (2 * edge * edge) / flops:  # bytes of a column and a row; FLOPs with them
        edge += 1
    return edge


tile_edge = PythonExercise(
    "07",
    task="""
**How large must a tile be?** A block makes `edge` x `edge` elements of $c$. For each step along $k$ it fetches `edge`
numbers of $a$ and `edge` numbers of $b$, of 4 bytes each, and does `edge` x `edge` multiplications and as many
additions with them. A chip does `flops` operations in a second, and its memory brings `bandwidth` bytes in a second.

What is the smallest `edge` for which the fetching takes no longer than the arithmetic?
""",
    solution="""
def tile_edge(flops, bandwidth):
    #> return None  # <- your code
    wanted = flops / bandwidth
    return int(np.ceil(4 * wanted))
    #<
""",
    hints=[
        "how many FLOPs for each byte does the chip want, so that both take the same time? flops / bandwidth.",
        "how many FLOPs for each byte does the tile give? 2 * edge * edge, for 2 * edge * 4 bytes. That is edge / 4.",
        "edge / 4 must be at least flops / bandwidth; np.ceil rounds up.",
    ],
    wrong=[
        Wrong("flops / bandwidth", "bandwidth / flops", "value", "Operations for each byte: flops over bandwidth."),
        Wrong("4 * wanted", "2 * wanted", "value", "It fetches numbers of two matrices: 2 * edge * 4 bytes a step."),
        Wrong("4 * wanted", "8 * wanted", "value", "A multiplication and an addition are two operations."),
        Wrong("4 * wanted", "wanted", "value", "A number has 4 bytes."),
        Wrong("np.ceil", "np.floor", "value", "Rounded down, the tile is a little too small: round up."),
        Wrong("int(np.ceil(4 * wanted))", "int(np.ceil(np.sqrt(4 * wanted)))", "value",
              "FLOPs grow with edge * edge, but bytes do with edge: what is left is edge / 4, not its square."),
    ],
    truth=truth,
    cases=[(66.9e12, 4.8e12), (66.9e12, 4.243e12), (19.5e12, 1.555e12), (1e12, 1e12), (989e12, 4.8e12), (10e12, 3e12)],
)  # fmt: skip
