"""The microscope finds races whatever the order of the threads, and the way out fits their place."""

import numpy as np
import pytest
from watched_kernels import X, kernels, line_of, look, source

import minigrad as mg

TILED = """__shared__ float s[64];
for (int round = 0; round < 2; ++round) {
    s[threadIdx.x] = x[64 * round + threadIdx.x];  // fill
    __syncthreads();  // first
    y[64 * round + threadIdx.x] = s[(threadIdx.x + 40) % 64];  // use
    __syncthreads();  // second
}"""


@pytest.mark.parametrize("mark", ["first", "second"])
def test_a_missing_barrier_is_a_race_whatever_the_order_of_the_threads(mark):
    body = "\n".join(line for line in TILED.splitlines() if f"// {mark}" not in line)
    problem, text = look(body)
    assert (problem.kind, problem.variable, problem.access) == ("race", "s", "read")
    assert problem.line == line_of(text, "// use")
    assert (problem.other.kind, problem.other.line) == ("write", line_of(text, "// fill"))
    reader, writer = problem.thread[0], problem.other.thread[0]
    assert writer == (reader + 40) % 64 == problem.element and problem.block == problem.other.block == (0, 0, 0)
    assert "__syncthreads()" in problem.message


def test_the_same_kernel_with_its_barriers_has_no_problem():
    assert mg.inspect(source(TILED), X, np.zeros_like(X), 1000, grid=1, block=64).ok


LOOPS = {
    "around": "for (int r = 0; r < 2; ++r) {\n{ FILL\n}\n__syncthreads();\nUSE\n}",
    "without braces": "int r = 0;\nwhile (++r < 3)\nif (n) {\nFILL\n__syncthreads();\nUSE\n}",
    "above": "for (int r = 0; r < 2; ++r) { x[r]; }\nFILL\nif (n < 0) __syncthreads();\nUSE",
    "in a comment": "// for now, and while\nFILL\n#if 0\n__syncthreads();\n#endif\nUSE",
}


@pytest.mark.parametrize("where", LOOPS)
def test_only_a_loop_around_the_two_has_a_next_turn(where):
    body = LOOPS[where].replace("FILL", "s[threadIdx.x] = 1;  // fill")
    body = "__shared__ float s[64];\n" + body.replace("USE", "y[threadIdx.x] = s[63 - threadIdx.x];  // use")
    problem, text = look(body)
    fill, use = line_of(text, "// fill"), line_of(text, "// use")
    turn = f"Line {fill} is in the next iteration of the loop: put a __syncthreads() between line {use} and its end."
    missed = f"The __syncthreads() in line {line_of(text, '__syncthreads')} does not come between the two."
    assert (turn if where in ("around", "without braces") else missed) in problem.message


@pytest.mark.parametrize("barrier", ["// __syncthreads();", "/* __syncthreads(); */", "if (n > 64) __syncthreads();"])
def test_a_barrier_that_is_none_is_not_taken_for_one(barrier):
    kernel = f"""extern "C" __global__ void turned(const float* x, float* y, int n) {{
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    {barrier}
    y[threadIdx.x] = s[63 - threadIdx.x];
}}"""
    x = np.ones(64, np.float32)
    (problem,) = mg.inspect(kernel, x, np.zeros_like(x), 64, grid=1, block=64).problems
    assert problem.kind == "race" and "iteration of the loop" not in problem.message


def test_lines_without_a_barrier_race_with_the_line_above_each():
    steps = "\n".join(f"if (t < {half}) s[t] += s[t + {half}];" for half in (16, 8, 4, 2, 1))
    text = source(
        f"__shared__ float s[32];\nint t = threadIdx.x;\ns[t] = x[t];\n__syncthreads();\n{steps}\ny[t] = s[t];"
    )
    races = mg.inspect(text, X, np.zeros_like(X), 32, grid=1, block=32).problems
    assert [(race.line, race.other.line, race.count) for race in races] == [(7, 6, 8), (8, 7, 8), (9, 8, 6), (10, 9, 4)]


def test_a_race_that_gives_the_right_value():
    problem, _ = look("if (threadIdx.x > 61) y[0] = 1;")
    assert (problem.kind, problem.access, problem.other.kind) == ("race", "write", "write")
    assert {problem.thread, problem.other.thread} == {(62, 0, 0), (63, 0, 0)}


def test_a_sum_without_atomics_races_within_a_block():
    problem, _ = look("y[0] += x[threadIdx.x];  // wrong", block=32)
    assert (problem.kind, problem.variable, problem.element) == ("race", "y", 0)
    assert problem.thread != problem.other.thread and "atomicAdd" in problem.message


def test_a_variable_of_the_device_is_an_array_like_others():
    text = "__device__ float sums[2][8], count;\n" + source("sums[1][threadIdx.x % 8] += 1;  // wrong\ny[0] = count;")
    record = mg.inspect(text, X, np.zeros_like(X), 1000, grid=1, block=32)
    race = record.problems[0]
    assert (race.kind, race.variable, race.element, race.line) == ("race", "sums", 8, line_of(text, "wrong"))
    assert "sums[1][0]" in race.message and record.variables["sums"].shape == (2, 8)
    counted = {(line.variable, line.space, line.kind, line.sectors) for line in record.lines}
    assert {("sums", "global", "read", 1), ("sums", "global", "write", 1), ("count", "global", "read", 1)} <= counted


def test_a_race_between_blocks():
    problem, text = look(
        "int i = blockIdx.x;\ny[i] = i;  // write\nx[0];\nif (i) y[i + 99] = y[i - 1];  // read", grid=3, block=1
    )
    assert (problem.kind, problem.variable, problem.access, problem.element) == ("race", "y", "read", 0)
    assert (problem.line, problem.other.line) == (line_of(text, "// read"), line_of(text, "// write"))
    assert (problem.block, problem.other.block) == (
        (1, 0, 0),
        (0, 0, 0),
    ) and "Blocks run in any order" in problem.message


CURES = {  # the body of a kernel, and words of the cure
    "float* z = y;\nint i = blockIdx.x * 64 + threadIdx.x;\nfloat l = i ? z[i - 1] : 0;\nz[i] = l + 1;": "Blocks run in any order",
    "__shared__ int all;\nif (!threadIdx.x) {\n    y[blockIdx.x] = 1;\n    all = atomicAdd((int*)y + 9, 1);\n}\n"
    "__syncthreads();\nif (all == 1 && !threadIdx.x) y[10] = y[0] + y[1];": "did before a __threadfence()",
    "__shared__ float s[2][64];\nint t = threadIdx.x;\ns[0][t] = 1;\n__syncthreads();\nfor (int i = 0; i < 4; ++i) {\n"
    "    float v = s[i % 2][63 - t];\n    s[1 - i % 2][t] = v;\n}": "between the two, which every thread of the block "
    "reaches. Wait before the loop's next iteration, too.",
}  # fmt: skip


def test_the_cure_is_one_for_all_occurrences():
    """Of races at one place one between two blocks is told, the next iteration and the missing fence are named."""
    for kernel, words in zip(kernels(CURES), CURES.values(), strict=True):
        (problem,) = mg.inspect(kernel, X, X * 0, 0, grid=2, block=64).problems
        assert problem.kind == "race" and words in problem.message
        assert (problem.block == problem.other.block) == ("between the two" in words)


def test_a_shuffle_orders_no_memory_and_syncwarp_orders_no_other_warp():
    for between, block in ("__shfl_down_sync(0xffffffff, 1, 1);", 32), ("__syncwarp();", 64):
        body = (
            f"__shared__ float s[64];\ns[threadIdx.x] = 1;\n{between}\ny[threadIdx.x] = s[(threadIdx.x + 1) % {block}];"
        )
        problem, _ = look(body, block=block)
        assert (problem.kind, problem.line, problem.other.line) == ("race", 5, 3)


@pytest.mark.parametrize("array", ["__shared__ float s[64];", "float* s = y;"], ids=["shared", "global"])
def test_volatile_makes_no_order_and_no_sum(array):
    body = f"{array}\nvolatile float* v = s;\nif (threadIdx.x == 0) v[0] = 0;\n__syncthreads();\nv[0] += x[threadIdx.x];  // sum"
    problem, text = look(body)
    assert (problem.kind, problem.line, problem.other.line) == ("race", *[line_of(text, "// sum")] * 2)


def test_parts_of_an_element_that_two_threads_change_race_and_others_do_not():
    body = """struct Pair { short a, b; };
__shared__ Pair s[8];
s[threadIdx.x / 2].a = 1;  // wrong
if (threadIdx.x % 2) s[threadIdx.x / 2].b = 1;"""
    problem, text = look(body, block=16)
    assert (problem.kind, problem.line, problem.variable) == ("race", line_of(text, "wrong"), "s")
    assert {problem.thread, problem.other.thread} == {(0, 0, 0), (1, 0, 0)} and problem.element == 0


def test_an_atomic_races_with_a_plain_read():
    problem, _ = look("atomicAdd(&y[0], 1.0f);\ny[threadIdx.x + 1] = y[0];  // wrong")
    assert (problem.kind, problem.access, problem.other.kind) == ("race", "read", "atomic")
    assert (problem.line, problem.other.line) == (3, 2)


def test_an_array_given_twice_is_one_array():
    text = source("int i = threadIdx.x;\ny[i] = x[63 - i];  // wrong")
    both = np.arange(64, dtype=np.float32)
    (problem,) = mg.inspect(text, both, both, 64, grid=1, block=64).problems
    assert (problem.kind, problem.line) == ("race", line_of(text, "wrong"))


def test_the_loop_of_the_cuda_guide_is_told_to_read_its_first_value_as_volatile():
    """The guide's atomicAdd of double reads *address plainly: a race, which costs at most an iteration."""
    loop = """unsigned long long *p = (unsigned long long*)y, old = *p, assumed;  // first
do {
    assumed = old;
    old = atomicCAS(p, assumed, __double_as_longlong(1 + __longlong_as_double(assumed)));
} while (assumed != old);"""
    text, y = source(loop, "double* y"), np.zeros(1)
    (problem,) = mg.inspect(text, y, grid=2, block=32).problems
    assert (problem.kind, problem.access, problem.line) == ("race", "read", line_of(text, "first")) and y == 64
    assert "Ahead of a loop of atomicCAS, which checks the value, read through a volatile pointer" in problem.message
    assert mg.inspect(text.replace("old = *p,", "old = *(volatile unsigned long long*)p,"), y, grid=2, block=32).ok


IN_BLOCK = [
    ("int i = threadIdx.x;\nif (i < 63) y[i + 1] = y[i];", "Read from one array and write to another."),
    ("y[0] += 1;", "or add to it with atomicAdd."),
    (
        "int i = threadIdx.x / 2;\ny[i] = x[i];",
        "Both write the same value: harmless, where that is so for every input. Let one",
    ),
    ("const float* row = x + threadIdx.x;\nint i = 0;\ny[i] = row[i];", "so the result depends on chance."),
    ("int i = threadIdx.x;\nfloat* z = y + 64;\nz[i] = x[i]; y[0] = i;", "so the result depends on chance."),
    (
        "__shared__ float s[64];\nint i = threadIdx.x;\nif (i < 32) {\n s[i] = 1;\n y[i] = s[31 - i];\n}",
        "Put a __syncwarp() between the two where only one warp comes, as inside if (t < 32), else a __syncthreads(), wh",
    ),
    (
        "__shared__ float s[64];\nint i = threadIdx.x;\ns[i] = 1;\n__syncthreads();\nif (i > 0) s[i] += s[i - 1];",
        "Within one line: read into a variable, wait, then write",
    ),
    ("__shared__ float s;\ns = threadIdx.x;", "Let one thread own each element, or add to it with atomicAdd."),
    ("__shared__ float s;\ns += threadIdx.x;", "Let one thread own each element, or add to it with atomicAdd."),
    ("y[threadIdx.x] = 1;\ny[63 - threadIdx.x] = 2;", "put a __syncthreads() between the two: then the later value"),
    ("atomicAdd(&y[0], 1);\ny[threadIdx.x + 1] = y[0];", "Read what all have added after a __syncthreads()."),
    ("if (threadIdx.x == 40) y[0] = 0;\natomicAdd(&y[0], 1);", "A plain write can undo what atomics have added"),
    ("if (threadIdx.x == 40) y[0] += 2;\natomicAdd(&y[0], 1);", "let the plain update be an atomicAdd, too."),
    ("if (threadIdx.x == 40) y[1] += y[0];\natomicAdd(&y[0], 1);", "Read what all have added after a __syncthreads()."),
    (
        "if (threadIdx.x == 40) y[0] = 0;\natomicAdd(&y[0], 1);",
        "changes y[0] by an atomic, which thread (40, 0, 0)",
    ),
    (
        "__shared__ float s[64];\nint t = threadIdx.x;\ns[t] = x[t];\n__syncthreads();\nfor (int j = 32; j; j /= 2) {\n"
        "if (!(t & j) && s[t] < s[t ^ j]) { float v = s[t]; s[t] = s[t ^ j]; s[t ^ j] = v; }\n}",
        "add to it with atomicAdd. If they take turns, put a __syncthreads() into the loop.",
    ),
]


RACING = kernels(body for body, _ in IN_BLOCK)


@pytest.mark.parametrize("number", range(len(IN_BLOCK)))
def test_the_way_out_of_a_race_fits_its_place(number):
    assert IN_BLOCK[number][1] in look(RACING[number])[0].message


BETWEEN_BLOCKS = [
    (
        "y[blockIdx.x] = x[0];\nif (blockIdx.x) y[9] = y[0];",
        "let one block own each element, use an atomic, or launch",
    ),
    ("y[0] = blockIdx.x;", "Let one thread own each element"),
    ("atomicAdd_block(&y[0], 1);", "use the atomic without _block"),
    ("atomicAdd(&y[0], 1);\ny[1 + blockIdx.x] = y[0];", "in a second kernel, or in the last block to count itself"),
    (
        "if (threadIdx.x == 0) y[blockIdx.x] = 1;\nif (threadIdx.x == 1) {\n__threadfence();\natomicAdd(&y[9], 1);\n"
        "if (blockIdx.x) y[10] = y[0];\n}",
        "A counter or a flag that both sides touch by atomics or as volatile hands over what its own thread did",
    ),
]


@pytest.mark.parametrize("body, way_out", BETWEEN_BLOCKS)
def test_the_way_out_of_a_race_between_blocks_fits_its_place(body, way_out):
    assert way_out in look(body, block=2 if "fence" in body else 1, grid=2)[0].message
