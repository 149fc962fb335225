"""07: double buffering with one barrier a step, at the wrong place."""

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

SHAPES = ((8, 8, 24), (1, 1, 1), (9, 7, 17), (3, 1, 33), (5, 33, 3), (16, 17, 12))

one_barrier = KernelExercise(
    "07",
    task=r"""
**Two buffers, one barrier.** This product has two tiles of each matrix. While the threads multiply one pair, they fill
the other, and `buffer` says which is which. On a GPU it gave the right result on Monday, and a wrong one on Tuesday.

Mend it. One barrier a step is enough: a second one would cost time, and the answer counts them. Keep
the load in advance: the answer does not look for it.
""",
    solution="""
extern "C" __global__ void one_barrier(
    const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float a_tiles[2][TILE][TILE], b_tiles[2][TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    auto load = [&](int buffer, int start) {
        a_tiles[buffer][y][x] = row < m && start + x < k ? a[row * k + start + x] : 0;
        b_tiles[buffer][y][x] = start + y < k && column < n ? b[(start + y) * n + column] : 0;
    };
    load(0, 0);
    for (int start = 0, buffer = 0; start < k; start += TILE, buffer ^= 1) {
        //> load(buffer ^ 1, start + TILE);  // the next tiles
        //> __syncthreads();
        __syncthreads();  // this pair is complete, and the other one has been read by all
        load(buffer ^ 1, start + TILE);
        //<
        for (int i = 0; i < TILE; ++i) sum += a_tiles[buffer][y][i] * b_tiles[buffer][i][x];
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
""",
    bug=True,
    limits={"barriers": 1},
    hints=[
        "take two threads, one fast and one slow. The slow one is still multiplying in step 1. Where can the fast "
        "one be "
        "by now, if no barrier holds it?",
        "the fast one has left step 1 and is at the top of step 2. Which pair of tiles does it fill there? And which "
        "one "
        "does the slow one read?",
        "before a pair is filled again, all threads must have read it. The barrier of a step can promise both: this "
        "pair "
        "is complete, and the other one has been read. Where must it be for that?",
    ],
    wrong=[
        Wrong("        __syncthreads();  // this pair is complete, and the other one has been read by all\n", "",
              "race", "Without a barrier nothing says that a tile is complete when it is read."),
        Wrong("        __syncthreads();  // this pair is complete, and the other one has been read by all\n"
              "        load(buffer ^ 1, start + TILE);\n        for (int i = 0; i < TILE; ++i) "
              "sum += a_tiles[buffer][y][i] * b_tiles[buffer][i][x];\n",
              "        load(buffer ^ 1, start + TILE);\n        for (int i = 0; i < TILE; ++i) "
              "sum += a_tiles[buffer][y][i] * b_tiles[buffer][i][x];\n        __syncthreads();\n", "race",
              "At the end of the loop the barrier comes too late for the first pair, which is loaded before the loop "
              "and read in step 0. A barrier at the top of the loop serves that pair, too."),
        Wrong("load(buffer ^ 1, start", "load(buffer, start", "race",
              "This fills the pair that is being multiplied: the other one is buffer ^ 1."),
        Wrong("load(buffer ^ 1, start + TILE);", "load(buffer ^ 1, start + TILE);\n        __syncthreads();",
              "wasteful", "Right, with two barriers a step. The first one alone is enough: two buffers are there to "
              "save the "
              "other."),
        Wrong("load(buffer ^ 1, start + TILE)", "load(buffer ^ 1, start)", "value",
              "The next step needs the next tiles: those from start + TILE on."),
        Wrong("a_tiles[buffer][y][i] * b_tiles[buffer][i][x]", "a_tiles[buffer ^ 1][y][i] * b_tiles[buffer ^ 1][i][x]",
              "race", "The pair to multiply is the one that is complete, and buffer ^ 1 is still being filled."),
        Wrong("b_tiles[buffer][i][x]", "b_tiles[0][i][x]", "race",
              "Every second step finds its tiles in buffer 1: b_tiles[buffer]."),
        Wrong("load(0, 0);", "load(1, 0);", "uninitialised",
              "The first step reads buffer 0, so the first tiles go there."),
        Wrong("    load(0, 0);\n", "", "uninitialised", "The first tiles have to be loaded before the loop."),
        Wrong("start += TILE, buffer ^= 1)", "start += TILE)", "value",
              "The buffers must change their roles after each step: buffer ^= 1 makes 0 of 1 and 1 of 0."),
        Wrong("row < m && start + x < k ?", "row < m ?", "out-of-bounds", "The last tile hangs over the edge of a."),
        Wrong("start + y < k && column < n ?", "column < n ?", "out-of-bounds",
              "After the last tiles one more pair is asked for, all of it beyond the end: start + y < k keeps it "
              "away."),
        Wrong("sum += a_tiles", "sum = a_tiles", "value", "Every product is added: `+=`."),
    ],
    reference=lambda a, b: a @ b,
    arguments=lambda a, b: {"c": (a.shape[0], b.shape[1]), "m": a.shape[0], "n": b.shape[1], "k": a.shape[1]},
    inputs=[(numbers(m, k), numbers(k, n, seed=1)) for m, n, k in SHAPES],
    grid=("n/TILE", "m/TILE"),
    block=("TILE", "TILE"),
    sizes="m n",
    tunables={"TILE": (8, 4)},
)  # fmt: skip
