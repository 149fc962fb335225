"""The microscope finds what is wrong: a deliberately broken kernel for each kind of problem."""

import subprocess
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get
from minigrad.errors import CompileError, LaunchError
from minigrad.source import Source

X = np.arange(1000, dtype=np.float32)


def source(body: str, params: str = "const float* x, float* y, int n") -> str:
    return f'extern "C" __global__ void k({params}) {{\n{body}\n}}\n'


def line_of(text: str, mark: str) -> int:
    """The line that holds the mark."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if mark in line)


def look(body: str, *args, params: str = "const float* x, float* y, int n", block=64, grid=1, **named):
    """The one problem of a kernel, and its text."""
    text = source(body, params)
    given = args or (X, np.zeros_like(X), 1000)
    record = mg.inspect(text, *given, grid=grid, block=block, **named)
    assert len(record.problems) == 1, record
    problem = record.problems[0]
    assert problem.text and problem.text in text
    return problem, text


def test_a_missing_guard():
    body = "int i = blockIdx.x * blockDim.x + threadIdx.x;\nfloat v = 1;\ny[i] = v;  // wrong"
    problem, text = look(body, grid=4, block=256)
    assert (problem.kind, problem.access, problem.variable, problem.element) == ("out-of-bounds", "write", "y", 1000)
    assert (problem.line, problem.block, problem.thread, problem.count) == (
        line_of(text, "wrong"),
        (3, 0, 0),
        (232, 0, 0),
        24,
    )
    assert "y[1000], and y has 1000 elements" in problem.message and "if (i < n)" in problem.message


@pytest.mark.parametrize("index, element", [("-i", -1), ("100000 * i", 100000)], ids=["negative", "far away"])
def test_an_index_far_outside_belongs_to_its_own_array_and_the_kernel_goes_on(index, element):
    y = np.zeros(64, np.float32)
    problem, _ = look(f"int i = threadIdx.x;\ny[i] = x[{index}];\ny[i] = i;", X, y, 64)
    assert (problem.variable, problem.element, problem.thread, problem.count) == ("x", element, (1, 0, 0), 63)
    assert (y == np.arange(64)).all()


WRAPS = "unsigned i = threadIdx.x;\ny[i] = w[i] + x[i - 1];  // wrong"


@pytest.mark.parametrize("dtype, real", [("float32", "float"), ("float64", "double"), ("int32", "int")])
def test_an_index_below_0_that_is_unsigned_belongs_to_its_own_array(dtype, real):
    params = f"const {real}* x, const {real}* w, {real}* y, {real}* z"
    problem, text = look(WRAPS, *np.zeros((4, 8), dtype), params=params, block=8)
    assert (problem.variable, problem.element, problem.count) == ("x", -1, 1)
    assert (problem.line, problem.thread) == (line_of(text, "// wrong"), (0, 0, 0))
    assert "reads x[-1] (4294967295 as unsigned), and x has 8 elements" in problem.message


@pytest.mark.parametrize(
    "shared", ["extern __shared__ float s[];", "__shared__ float s[8];"], ids=["dynamic", "static"]
)
@pytest.mark.parametrize("pointer", ["s", "p"])
def test_so_it_does_in_shared_memory(shared, pointer):
    body = (
        f"{shared}\nfloat* p = s;\ns[threadIdx.x] = 1;\n__syncthreads();\ny[0] = {pointer}[threadIdx.x - 1];  // wrong"
    )
    problem, text = look(body, block=8, shared=32 * ("extern" in shared))
    assert (problem.kind, problem.variable, problem.line) == ("out-of-bounds", "s", line_of(text, "// wrong"))
    assert ("index -1 (4294" if pointer == "s" and "extern" not in shared else "s[-1] (4294") in problem.message


def test_so_it_does_where_the_first_launch_of_all_is_watched():
    """There the buffers' addresses are beside those of shared memory."""
    body = "extern __shared__ float s[];\ns[threadIdx.x] = 1;\ny[threadIdx.x] = s[threadIdx.x - 1];"
    code = f"""import numpy as np, minigrad as mg
y = np.zeros(8, np.float32)
print([p.variable for p in mg.inspect({source(body)!r}, y.copy(), y, 8, grid=1, block=8, shared=32).problems])"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "['s']\n"


def test_the_element_that_is_named_is_the_first_outside():
    y = np.zeros(50, np.float32)
    problem, _ = look("int i = threadIdx.x;\nif (4 * i < n) ((float4*)y)[i] = make_float4(1, 2, 3, 4);", X, y, 50)
    assert (problem.kind, problem.element, problem.thread) == ("out-of-bounds", 50, (12, 0, 0))


def test_shared_memory_too_small():
    body = "__shared__ float s[32];\nfloat* p = s;\np[threadIdx.x] = 1;  // wrong"
    problem, text = look(body)
    assert (problem.kind, problem.variable, problem.element) == ("out-of-bounds", "s", 32)
    assert (problem.line, problem.thread, problem.count) == (line_of(text, "wrong"), (32, 0, 0), 32)


@pytest.mark.parametrize("array, first", [("a", 0), ("b", 0), ("a", -8), ("b", -8), ("b", -1), ("d", -4)])
def test_a_pointer_that_runs_over_an_end_of_a_shared_array_does_not_reach_the_next(array, first):
    body = f"""__shared__ float a[8], b[8];
extern __shared__ float d[];
float* p = {array};
p += {first};
for (int i = 0; i < {16 if first == 0 else -first}; ++i) p[i] = 1;  // wrong
__syncthreads();"""
    problem, text = look(body, block=1, shared=32)
    outside = 8 if first == 0 else first
    assert (problem.kind, problem.variable, problem.element) == ("out-of-bounds", array, outside)
    assert (problem.line, problem.count) == (line_of(text, "// wrong"), abs(outside))


def test_all_shared_memory_of_a_block_can_be_used_and_not_more():
    for size, fits in (6112, True), (6128, False):
        body = f"__shared__ float a[{size}], b[6112];\na[{size} - 1] = 1, b[6111] = 1;"
        given = (source(body), X, np.zeros_like(X), 1000)
        if fits:
            assert mg.inspect(*given, grid=2, block=1, shared=256).ok
        else:
            with pytest.raises(LaunchError, match="48960 bytes"):
                mg.inspect(*given, grid=2, block=1, shared=256)


def test_dynamic_shared_memory_too_small():
    body = "extern __shared__ float s[];\ns[threadIdx.x] = 1;\n__syncthreads();\ny[threadIdx.x] = s[threadIdx.x + 1];  // wrong"
    problem, text = look(body, shared=256)
    assert (problem.kind, problem.access, problem.variable, problem.element) == ("out-of-bounds", "read", "s", 64)
    assert (problem.line, problem.thread) == (line_of(text, "wrong"), (63, 0, 0))


def test_what_lies_behind_a_single_value_is_counted_in_bytes():
    body = "__shared__ struct { float v[2][4]; } t;\nfloat* p = &t.v[0][0];\np[threadIdx.x] = 1;  // wrong"
    problem, text = look(body, block=9)
    assert (problem.variable, problem.line) == ("t", line_of(text, "wrong"))
    assert problem.message.startswith("writes byte 32 of t, and t has 32 bytes. Check the index")


def test_an_index_that_leaves_its_row_inside_memory():
    body = "__shared__ float s[4][9];\nint i = threadIdx.x, r = i / 8, c = i % 8;\ns[r][c] = 1;\nif (c == 0) s[r][8] = 1;\n"
    problem, text = look(body + "__syncthreads();\nif (r < 3) y[i] = s[r][c + 2];  // wrong", block=32)
    assert (problem.kind, problem.variable, problem.thread) == ("out-of-bounds", "s", (7, 0, 0))
    assert problem.line == line_of(text, "wrong") and problem.count == 3
    assert "index 9" in problem.message and "float[9]" in problem.message


@pytest.mark.parametrize(
    "name, line",
    [
        ("r", "for (int j = 0; j <= 4; ++j) r[j] = x[j];"),
        ("s", "float* p = &s[0][9]; y[threadIdx.x] = x[threadIdx.x] + *p;"),
        ("s", "y[threadIdx.x] = e[1] + s[e[0] ? 1 : 0] [n];"),
        ("q", "/* ä */ y[threadIdx.x] = s[1][0] + q[1].a[n];"),
        ("r", "r[n] += x[0];"),
        (None, "#define LAST(a) a[n]\ny[threadIdx.x] = LAST(r);"),
        ("t", "__shared__ float t[2][8], u[3]; int i = 5; t[i][i % 2] = x[i];"),
    ],
)
def test_the_array_of_an_index_is_the_one_that_the_line_indexes(name, line):
    body = """__shared__ float s[2][8], e[2];
__shared__ struct { float a[4]; int b; } q[3];
float r[4] = {};
if (threadIdx.x == 0) { memset(s, 0, sizeof s); memset(e, 0, sizeof e); memset(q, 0, sizeof q); }
__syncthreads();
"""
    record = mg.inspect(source(body + line), X, np.zeros_like(X), 8, grid=1, block=1)
    problem = next(p for p in record.problems if p.kind == "out-of-bounds")
    assert (problem.variable, problem.text) == (name, line.splitlines()[-1])
    of = f"an extent of {name}, which is float[" if name else "an extent, which is float["
    assert of in problem.message and "aka" not in problem.message


def test_an_index_that_many_threads_get_wrong_hides_nothing_else():
    body = """__shared__ float tile[32][32], other[1024];
int t = threadIdx.y * 32 + threadIdx.x;
tile[threadIdx.y][threadIdx.x] = x[t % 1000];
__syncthreads();
float v = 0;
for (int j = 0; j < 4; ++j) v += tile[0][32 + j];  // index
other[t] = v;  // fill
y[t] = other[1023 - t];  // use"""
    text = source(body)
    record = mg.inspect(text, X, np.zeros(1024, np.float32), 1000, grid=1, block=(32, 32))
    index, race = record.problems[:2]
    assert (index.kind, index.line, index.count) == ("out-of-bounds", line_of(text, "// index"), 4096)
    assert (race.kind, race.line, race.other.line) == ("race", line_of(text, "// use"), line_of(text, "// fill"))
    assert record.complete


def test_where_there_is_no_room_for_all_problems_the_record_says_so():
    record = mg.inspect(source("y[n] = 1;\n" * 600), X, np.zeros_like(X), 1000, grid=1, block=1)
    assert len(record.problems) == 512 and not record.complete
    assert record.summary().endswith("512 problems, and more that there was no room for")


def test_an_index_outside_a_local_array():
    problem, text = look("float local[4] = {1, 2, 3, 4};\ny[threadIdx.x] = local[threadIdx.x];  // wrong", block=8)
    assert (problem.kind, problem.line, problem.thread) == ("out-of-bounds", line_of(text, "wrong"), (4, 0, 0))


def test_a_misaligned_float4():
    problem, text = look(
        "const float* p = x + 2;\nfloat4 v = *(const float4*)(p + 4 * threadIdx.x);  // wrong\ny[0] = v.x;"
    )
    assert (problem.kind, problem.variable, problem.line) == ("misaligned", "x", line_of(text, "wrong"))
    assert problem.element == 2
    assert (problem.block, problem.thread) == ((0, 0, 0), (0, 0, 0)) and "16 bytes" in problem.message


def test_a_misaligned_int_has_its_article():
    problem, _ = look(
        "y[0] = *(const int*)(p + 1);", np.zeros(64, np.uint8), X.copy(), params="const unsigned char* p, float* y"
    )
    assert (problem.kind, problem.variable, problem.element) == ("misaligned", "p", 1)
    assert "an int must begin at a multiple of 4 bytes" in problem.message


@pytest.mark.parametrize("call", ["atomicAdd(p, 1)", "atomicExch(p, 1)", "atomicCAS(p, 0, 1)", "atomicMax(p, 1)"])
def test_a_misaligned_atomic(call):
    problem, text = look(f"int* p = (int*)((char*)x + 6);\n{call};  // wrong", np.zeros(8, np.int32), params="int* x")
    assert (problem.kind, problem.variable, problem.element) == ("misaligned", "x", 1)
    assert problem.line == line_of(text, "// wrong") and "a word of an atomic must begin" in problem.message


@pytest.mark.parametrize("shared", ["__shared__ float s[64];", "extern __shared__ float s[];"])
def test_a_misaligned_float4_in_shared_memory(shared):
    body = f"{shared}\nint t = threadIdx.x;\ns[t] = x[t];\n__syncthreads();\n"
    body += "if (t < 8) {\nfloat4 v = *(float4*)&s[4 * t + 1];  // wrong\ny[t] = v.x;\n}"
    problem, text = look(body, shared=256 * ("extern" in shared))
    assert (problem.kind, problem.variable, problem.element) == ("misaligned", "s", 1)
    assert problem.line == line_of(text, "// wrong") and "access to s[1]; a " in problem.message


def test_a_null_pointer():
    problem, _ = look("y[threadIdx.x] = x[threadIdx.x];", None, np.zeros(64, np.float32), 64)
    assert (problem.kind, problem.variable, problem.line) == ("null-pointer", "x", 2)


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
    turn = f"Line {fill} is in the next turn of the loop: put a __syncthreads() between line {use} and its end."
    missed = f"The __syncthreads() in line {line_of(text, '__syncthreads')} does not come between the two."
    assert (turn if where in ("around", "without braces") else missed) in problem.message


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


@pytest.mark.parametrize("values", ["", " = {1, 2}"])
@pytest.mark.parametrize("at, name", [("a, 8", "a"), ("b, -1", "b"), ("b, 8", "b")])
def test_a_pointer_that_runs_over_an_end_of_a_device_array_does_not_reach_the_next(values, at, name):
    text = f"__device__ float a[8]{values};\n__device__ float b[8]{values};\n__device__ float c[8]{values};\n"
    text += "__device__ void set(float* p, int i) { p[i] = 1; }  // wrong\n"
    text += source(f"set({at});\ny[0] = a[0] + b[0] + c[0];")
    (problem,) = mg.inspect(text, X, np.zeros_like(X), 1, grid=1, block=1).problems
    assert (problem.kind, problem.variable, problem.access) == ("out-of-bounds", name, "write")
    assert (problem.element, problem.line) == (int(at.split()[1]), line_of(text, "wrong"))


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


@pytest.mark.parametrize("word", ["", "  // as a float2", '  const char* w = "float2";'])
def test_a_word_in_a_comment_makes_no_struct_a_vector(word):
    body = f"""struct Pair {{ float value; int index; }};{word}
__shared__ Pair s[64];
s[threadIdx.x].value = 1;
__syncthreads();
Pair p = s[63 - threadIdx.x];
y[threadIdx.x] = p.value;"""
    assert mg.inspect(source(body), X, np.zeros_like(X), 1000, grid=1, block=64).ok


@pytest.mark.parametrize("read", ["s[i]", "two[i].y"], ids=["half of a word", "half of a vector"])
def test_an_element_of_which_a_part_is_undefined(read):
    body = "__shared__ unsigned s[64];\n__shared__ float2 two[64];\nint i = threadIdx.x;\n"
    problem, text = look(body + f"((short*)&s[i])[0] = 1;\ntwo[i].x = 1;\ny[i] = {read};  // wrong")
    assert (problem.kind, problem.line, problem.count) == ("uninitialised", line_of(text, "wrong"), 64)


@pytest.mark.parametrize(
    "body",
    [
        "__shared__ int s;\natomicAdd(&s, 1);  // reads\ny[threadIdx.x] = s;",
        "__shared__ float s[128];\nint i = threadIdx.x;\ns[i] = s[64 + i];  // reads\ny[i] = s[63 - i];",
    ],
    ids=["an atomic", "the writer"],
)
def test_a_race_does_not_hide_undefined_memory_that_its_other_side_reads(body):
    text = source(body)
    race, undefined = mg.inspect(text, X, np.zeros_like(X), 1000, grid=1, block=64).problems
    assert (race.kind, undefined.kind) == ("race", "uninitialised")
    assert race.other.line == undefined.line == line_of(text, "reads")


def test_undefined_memory_that_is_filled_too_late_is_a_race_and_nothing_else():
    look("__shared__ int s;\nif (threadIdx.x == 63) s = 0;\natomicAdd(&s, 1);")


def test_undefined_shared_memory():
    body = "__shared__ float s[64];\nif (threadIdx.x > 0) s[threadIdx.x] = 1;\n__syncthreads();\n"
    problem, text = look(body + "y[threadIdx.x] = s[63 - threadIdx.x];  // wrong")
    assert (problem.kind, problem.variable, problem.element) == ("uninitialised", "s", 0)
    assert (problem.line, problem.thread) == (line_of(text, "wrong"), (63, 0, 0))


def test_shared_memory_of_the_block_before_is_undefined_too():
    body = "__shared__ float s[64];\nif (blockIdx.x == 0) s[threadIdx.x] = 1;\n__syncthreads();\n"
    problem, _ = look(body + "atomicAdd(&y[0], s[threadIdx.x]);", grid=2)
    assert (problem.kind, problem.block, problem.count) == ("uninitialised", (1, 0, 0), 64)


def test_a_barrier_that_not_all_reach():
    problem, text = look("if (threadIdx.x < 48) {\n__syncthreads();  // wrong\n}\ny[threadIdx.x] = 1;")
    assert (problem.kind, problem.line) == ("barrier-divergence", line_of(text, "wrong"))
    assert problem.thread[0] < 48 and "48 wait" in problem.message


@pytest.mark.parametrize("call", ["__syncthreads()", "__syncthreads_or(1)"])
def test_two_barriers_of_one_line_are_two(call):
    problem, text = look(f"if (threadIdx.x < 48) {call}; else {call};  // wrong")
    assert (problem.kind, problem.line) == ("barrier-divergence", line_of(text, "wrong"))
    assert f"48 wait at {call[:-3].rstrip('(')}" in problem.message and "16 wait at" in problem.message


def test_an_element_that_is_never_written():
    body = "int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i < n - 1) y[i] = 1;  // short"
    problem, text = look(body, grid=16, outputs=("y",))
    assert (problem.kind, problem.variable, problem.element, problem.count) == ("never-written", "y", 999, 1)
    assert problem.line == line_of(text, "short") and "y[999]" in problem.message


def test_an_element_that_is_written_in_part():
    text = source("((short*)y)[2 * threadIdx.x + threadIdx.x / 63] = 1;")
    (problem,) = mg.inspect(text, X, np.zeros(64, np.float32), 64, grid=1, block=64, outputs="y").problems
    assert (problem.kind, problem.variable, problem.element, problem.count) == ("never-written", "y", 0, 64)


def test_a_nan_and_who_wrote_it():
    body = "int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i < n) y[i] = sqrtf(997 - x[i]);  // root"
    problem, text = look(body, grid=16, outputs="y")
    assert (problem.kind, problem.variable, problem.element, problem.count) == ("nan", "y", 998, 2)
    assert (problem.line, problem.block, problem.thread) == (line_of(text, "root"), (15, 0, 0), (38, 0, 0))


def test_an_output_that_only_atomics_write_is_written():
    text = source("atomicAdd(&y[threadIdx.x], x[threadIdx.x]);")
    assert mg.inspect(text, X, np.zeros(64, np.float32), 64, grid=2, block=64, outputs=["y"]).ok


@pytest.mark.parametrize(
    "body, way_out",
    [
        ("if (threadIdx.x > 9) return;\n__syncthreads();", "let no thread return before it"),
        ("if (threadIdx.x > 9) __syncthreads();\nelse __syncthreads();", "Move the call out of the condition, so that"),
        ("y[0] = 1 / (n - 1000);", "integer division by zero. Check the divisor first."),
    ],
)
def test_what_stops_a_kernel_says_its_place_once(body, way_out):
    problem, _ = look(body)
    assert way_out in problem.message and problem.thread and problem.line
    assert not any(word in problem.message for word in ("k: ", "k.cu", "block (", "thread ("))


def test_what_else_stops_a_kernel_is_a_problem_too():
    problem, _ = look("y[0] = n / (n - 1000);", block=1)
    assert (problem.kind, problem.line) == ("division", 2)


def test_a_launch_is_refused_as_any_other():
    text = source("y[threadIdx.x] = 1;")
    with pytest.raises(LaunchError, match="takes 3 arguments"):
        mg.inspect(text, X, grid=1, block=1)
    with pytest.raises(LaunchError, match="give grid= and block="):
        mg.inspect(text, X, X, 1)
    with pytest.raises(LaunchError, match="2048 threads"):
        mg.inspect(text, X, X, 1, grid=1, block=(1024, 2))
    with pytest.raises(CompileError, match=r"k.cu\(2\)"):
        mg.inspect(source("y[0] = 1"), X, X, 1, grid=1, block=1)
    with pytest.raises(LaunchError, match="outputs='z'"):
        mg.inspect(text, X, X.copy(), 1, grid=1, block=1, outputs="z")


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        ({"kernel": ""}, FileNotFoundError, "no file ''; give the path of a .cu file or CUDA C"),
        ({"kernel": "no file " * 1000}, FileNotFoundError, r"no file '(no file )+no?.*\.\.\.'; give the path"),
        ({"kernel": None}, TypeError, "mg.inspect takes a kernel, a planned launch"),
        ({"kernel": mg.matmul}, TypeError, "mg.inspect takes a kernel, a planned launch"),
        ({"blocks": -1}, ValueError, "blocks=-1 must be a whole number of at least 0"),
        ({"blocks": "all"}, TypeError, "blocks='all' must be a whole number"),
        ({"outputs": None}, TypeError, "mg.inspect: outputs takes a parameter's name"),
        (
            {"kernel": source("", "const float (*x)[8], float* y, int n")},
            TypeError,
            r"pointers to float\[8\] are not known here",
        ),
        ({"name": "c"}, ValueError, "the text has no kernel 'c'; it defines k."),
        ({"kernel": "// __global__"}, LaunchError, "the source has no kernel"),
        ({"y": X[10:]}, LaunchError, "k writes y, which shares memory with x; give one array for both"),
        ({"y": np.broadcast_to(np.float32(0), 64)}, LaunchError, "k writes y, and the NumPy array .* read-only"),
    ],
)
def test_what_cannot_be_inspected_is_said_before_anything_runs(wrong, error, message):
    named = {"kernel": source("y[threadIdx.x] = 1;"), "y": np.zeros(64, np.float32), "blocks": 1, "outputs": ()} | wrong
    with pytest.raises(error, match=message):
        mg.inspect(named.pop("kernel"), X, named.pop("y"), 64, grid=1, block=64, **named)


def test_more_accesses_than_can_be_kept_are_checked_and_not_counted(monkeypatch):
    monkeypatch.setattr("minigrad.microscope.watch.LIMIT", 1 << 16)
    text = source("for (int i = 0; i < 2000; ++i) y[threadIdx.x] += x[i % 9];")
    y = np.zeros(64, np.float32)
    record = mg.inspect(text, X, y, 1000, grid=1, block=64)
    assert record.ok and (y == sum(X[i % 9] for i in range(2000))).all()
    with pytest.raises(MemoryError, match=r"more than 65536 accesses .* give fewer blocks="):
        record.lines  # noqa: B018
    assert mg.inspect(text.replace("2000", "2"), X, y, 1000, grid=1, block=64).ok


@pytest.mark.parametrize(
    "body, mend",
    [
        ("int i = threadIdx.x;\nif (i < 63) y[i + 1] = y[i];", "Read from one array and write to another."),
        ("y[0] += 1;", "or add to it with atomicAdd."),
        (
            "__shared__ float s[64];\nint i = threadIdx.x;\nif (i < 32) {\n s[i] = 1;\n y[i] = s[31 - i];\n}",
            "Where only one warp comes, as inside if (t < 32), that is a __syncwarp().",
        ),
        (
            "__shared__ float s[64];\nint i = threadIdx.x;\ns[i] = 1;\n__syncthreads();\nif (i > 0) s[i] += s[i - 1];",
            "Within one line: read into a variable, wait, then write",
        ),
        ("__shared__ float s;\ns = threadIdx.x;", "Let one thread own each element, or add to it with atomicAdd."),
        ("__shared__ float s;\ns += threadIdx.x;", "Let one thread own each element, or add to it with atomicAdd."),
        ("y[threadIdx.x] = 1;\ny[63 - threadIdx.x] = 2;", "put a __syncthreads() between the two: then the later one"),
        ("atomicAdd(&y[0], 1);\ny[threadIdx.x + 1] = y[0];", "Read what all have added after a __syncthreads()."),
        ("if (threadIdx.x == 40) y[0] = 0;\natomicAdd(&y[0], 1);", "A plain write can undo what atomics have added"),
        (
            "if (threadIdx.x == 40) y[0] = 0;\natomicAdd(&y[0], 1);",
            "changes y[0] by an atomic, which thread (40, 0, 0)",
        ),
        (
            "__shared__ float s[64];\nint t = threadIdx.x;\ns[t] = x[t];\n__syncthreads();\nfor (int j = 32; j; j /= 2) {\n"
            "if (!(t & j) && s[t] < s[t ^ j]) { float v = s[t]; s[t] = s[t ^ j]; s[t ^ j] = v; }\n}",
            "add to it with atomicAdd. Where they take turns, put a __syncthreads() into the loop.",
        ),
    ],
)
def test_the_way_out_of_a_race_fits_its_place(body, mend):
    assert mend in look(body)[0].message


@pytest.mark.parametrize(
    "body, mend",
    [
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
            "A counter or a flag, which both sides touch by atomics or as volatile, hands over what its own thread did",
        ),
    ],
)
def test_the_way_out_of_a_race_between_blocks_fits_its_place(body, mend):
    assert mend in look(body, block=2 if "fence" in body else 1, grid=2)[0].message


def test_the_loop_of_the_cuda_guide_is_told_to_read_its_first_value_as_volatile():
    """The guide's atomicAdd of double reads *address plainly: a race in the words of the language, which costs a turn."""
    loop = """unsigned long long *p = (unsigned long long*)y, old = *p, assumed;  // first
do {
    assumed = old;
    old = atomicCAS(p, assumed, __double_as_longlong(1 + __longlong_as_double(assumed)));
} while (assumed != old);"""
    text, y = source(loop, "double* y"), np.zeros(1)
    (problem,) = mg.inspect(text, y, grid=2, block=32).problems
    assert (problem.kind, problem.access, problem.line) == ("race", "read", line_of(text, "first")) and y == 64
    assert "in front of a loop of atomicCAS, which checks it, read through a volatile pointer" in problem.message
    assert mg.inspect(text.replace("old = *p,", "old = *(volatile unsigned long long*)p,"), y, grid=2, block=32).ok


def test_an_array_given_twice_is_one_array():
    text = source("int i = threadIdx.x;\ny[i] = x[63 - i];  // wrong")
    both = np.arange(64, dtype=np.float32)
    (problem,) = mg.inspect(text, both, both, 64, grid=1, block=64).problems
    assert (problem.kind, problem.line) == ("race", line_of(text, "wrong"))


def test_what_is_read_outside_is_nan():
    y = np.zeros(2, np.float32)
    record = mg.inspect(source("y[0] = x[n];\ny[1] = x[n + 5000];"), X, y, 1000, grid=1, block=1, outputs="y")
    assert [problem.kind for problem in record.problems] == ["out-of-bounds"] * 2 + ["nan"] and np.isnan(y).all()


def test_an_endless_loop_is_a_problem_with_its_line(monkeypatch):
    monkeypatch.setattr(get("sim"), "timeout", 0.3)
    problem, text = look("volatile int* p = (volatile int*)y;\nwhile (*p == 0) {}  // for ever", block=1)
    assert (problem.kind, problem.line) == ("timeout", line_of(text, "for ever"))


@pytest.mark.parametrize(
    "wait",
    [
        "if (threadIdx.x == 0) atomicAdd(p, 1);\nwhile (atomicAdd(p, 0) < gridDim.x) {}  // wait",
        "volatile int* f = p;\nwhile (!(f[0] == 0 && f[1])) {}  // wait",
        "if (threadIdx.x) __syncthreads();\nelse while (atomicCAS(p, 1, 1) == 0) {}  // wait",
        "int seen = 0;\nwhile (seen < gridDim.x) seen = atomicMax(p, 0);  // wait",
    ],
    ids=["a counter", "two flags", "others at a barrier", "a maximum"],
)
def test_blocks_that_wait_for_one_that_cannot_begin_are_told_so_long_before_time_is_out(wait):
    problem, text = look(f"int* p = (int*)y;\n{wait}", grid=8, block=32)
    assert (problem.kind, problem.line, problem.block) == ("timeout", line_of(text, "// wait"), (0, 0, 0))
    assert "waits for another block" in problem.message
    assert "1 of 8 blocks run at once here" in problem.message and "cooperative launch" in problem.message


def test_a_block_that_looks_at_memory_in_vain_and_counts_is_not_stopped(monkeypatch):
    monkeypatch.setattr(get("sim"), "timeout", 4.0)
    counts = "volatile float* f = y;\nint i = 0;\nwhile (*f == 0 && i < n) ++i;\nif (threadIdx.x == 0) y[1 + blockIdx.x] = i;"
    y = np.zeros(3, np.float32)
    assert mg.inspect(source(counts), X, y, 100_000, grid=2, block=1).ok
    assert (y == [0, 100_000, 100_000]).all()


def test_two_volatile_flags_may_be_waited_for_at_once(monkeypatch):
    monkeypatch.setattr(get("sim"), "timeout", 2.0)
    body = """volatile float* f = y;
if (threadIdx.x == 0) { while (!(f[0] && f[1])) {} }
else if (threadIdx.x == 32) f[0] = 1;
else if (threadIdx.x == 64) { while (!f[2]) {} f[1] = 1; }
else if (threadIdx.x == 96) f[2] = 1;"""
    assert mg.inspect(source(body), X, np.zeros_like(X), 1000, grid=1, block=128).ok


def test_a_volatile_flag_within_a_block_may_be_waited_for_whoever_runs_first():
    body = "volatile float* flag = y;\nif (threadIdx.x == 0) {\n  while (*flag == 0) {}\n}\nelse if (threadIdx.x == 40) *flag = 1;"
    assert mg.inspect(source(body), X, np.zeros_like(X), 1000, grid=1, block=64).ok


def test_an_endless_loop_that_fills_the_record_is_a_problem_and_has_no_counts(monkeypatch):
    monkeypatch.setattr(get("sim"), "timeout", 0.3)
    monkeypatch.setattr("minigrad.microscope.watch.LIMIT", 1 << 16)
    record = mg.inspect(source("while (n) y[threadIdx.x] += 1;"), X, np.zeros_like(X), 1000, grid=1, block=64)
    assert [problem.kind for problem in record.problems] == ["timeout"]
    assert "timeout" in repr(record) and "no counts" in repr(record) and "no counts" in record._repr_html_()
    for count in ("lines", "branches", "traffic", "per_thread"):
        with pytest.raises(MemoryError, match=r"more than 65536 accesses .* give fewer blocks="):
            getattr(record, count)


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
    assert problem.kind == "race" and "turn of the loop" not in problem.message


def test_a_shuffle_from_a_lane_outside_its_mask_is_among_the_causes_of_nan():
    body = "float v = 1;\nif (threadIdx.x < 16) v = __shfl_sync(0xffff, v, 20);\ny[threadIdx.x] = v;"
    problem, _ = look(body, X, np.zeros(32, np.float32), 32, block=32, outputs="y")
    assert (problem.kind, problem.count) == ("nan", 16) and "not in the mask" in problem.message


@pytest.mark.parametrize(
    "outputs, error, words",
    [
        ([X], TypeError, "mg.inspect: outputs"),
        ("nonsense", LaunchError, "outputs='nonsense' is no array that k may write; those are y."),
        (["y", "x"], LaunchError, "outputs='x' is no array that k may write; those are y."),
        ("n", LaunchError, "outputs='n' is no array that k may write; those are y."),
    ],
)
def test_what_names_no_output_is_refused_before_the_launch(outputs, error, words):
    y = np.zeros_like(X)
    with pytest.raises(error, match=words):
        mg.inspect(source("y[threadIdx.x] = 1;"), X, y, 1000, grid=1, block=1, outputs=outputs)
    assert not y.any()


@pytest.mark.parametrize(
    "text, names",
    [
        ("#if 0\nOLD\n#endif\nNEW", ["k"]),
        ("#if 0\n#ifdef A\nOLD\n#else\nOLD\n#endif\nOLD\n#else\nNEW\n#endif", ["k"]),
        ("#if 1\nOLD\n#else\nNEW\n#endif", ["old", "k"]),
        ("# if 0  // for now\nOLD\n#elif 1\nNEW\n#endif", ["k"]),
    ],
)
def test_a_kernel_that_is_left_out_by_if_0_does_not_count(text, names):
    new = source("y[threadIdx.x] = 1;")
    text = text.replace("OLD", new.replace("void k", "void old")).replace("NEW", new)
    assert list(Source(text, "k.cu").kernels) == names
    if names == ["k"]:
        assert mg.inspect(text, X, np.zeros_like(X), 1000, grid=1, block=8).ok


def test_a_default_value_is_no_part_of_a_parameter():
    text = source("y[threadIdx.x] = n;", "const float* x, float* y, int n = 8")
    assert mg.inspect(text, X, np.zeros_like(X), 5, grid=1, block=8).outputs["y"][7] == 5
