"""The microscope's counts are those by hand, by Nsight Compute's definitions."""

from typing import NamedTuple

import numpy as np
import pytest

import minigrad as mg
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source


class Counted(NamedTuple):
    """The body of a kernel over x and y, how it is launched, and (line, kind): (requests, lanes, sectors) of x and y,
    or (requests, lanes, wavefronts, conflicts) of shared memory. The first line of the body is line 2.
    """

    body: str
    counts: dict
    functions: str = ""
    block: int | tuple = 32
    grid: int = 1


BY_HAND = {
    "a warp and a quarter": Counted("y[t] = x[t];", {(2, "read"): (2, 40, 5), (2, "write"): (2, 40, 5)}, block=40),
    "one element further": Counted("y[t] = x[t + 1];", {(2, "read"): (1, 32, 5), (2, "write"): (1, 32, 4)}),
    "one for all": Counted("y[t] = x[0];", {(2, "read"): (1, 32, 1), (2, "write"): (1, 32, 4)}),
    "float2": Counted(
        "((float2*)y)[t] = ((const float2*)x)[t];", {(2, "read"): (1, 32, 8), (2, "write"): (1, 32, 8)}
    ),
    "a member of float4": Counted(
        "y[t] = ((const float4*)x)[t].x;", {(2, "read"): (1, 32, 16), (2, "write"): (1, 32, 4)}
    ),
    "a block of 4 x 4 x 4, read along z": Counted(
        "int i = threadIdx.x + 4 * (threadIdx.y + 4 * threadIdx.z);\n"
        "y[i] = x[threadIdx.z + 4 * (threadIdx.y + 4 * threadIdx.x)];",
        {(3, "read"): (2, 64, 16), (3, "write"): (2, 64, 8)},
        block=(4, 4, 4),
    ),
    "rows of 33 threads": Counted(
        "int c = blockIdx.x * 33 + t;\nif (c < 40) y[40 * threadIdx.y + c] = x[40 * threadIdx.y + c];",
        {(3, "read"): (7, 120, 20), (3, "write"): (7, 120, 20)},
        block=(33, 3),
        grid=2,
    ),
    "lanes that return": Counted(
        "if (t >= 40) return;\nfloat a = x[t];\nif (t % 2) return;\ny[t] = a;",
        {(3, "read"): (2, 40, 5), (5, "write"): (2, 20, 5)},
        block=64,
    ),
    "two halves of a warp": Counted(
        "if (t < 16)\n    y[t] = x[t];\nelse\n    y[t] = x[t + 100];",
        {(3, "read"): (1, 16, 2), (3, "write"): (1, 16, 2), (5, "read"): (1, 16, 3), (5, "write"): (1, 16, 2)},
    ),
    "a case that falls through": Counted(
        "float a = 0;\nswitch (t % 4) {\ncase 0: a = x[t]; break;\ncase 1: a = x[t + 32];\ndefault: a += x[t + 64];\n}\n"
        "y[t] = a;",
        {(4, "read"): (1, 8, 4), (5, "read"): (1, 8, 4), (6, "read"): (1, 24, 4), (8, "write"): (1, 32, 4)},
    ),
    "loops of 0 to 3 turns": Counted(
        "float a = 0;\nfor (int i = 0; i < t % 4; ++i)\n    a += x[32 * i + t];\ny[t] = a;",
        {(4, "read"): (3, 24 + 16 + 8, 12), (5, "write"): (1, 32, 4)},
    ),
    "a loop in a loop": Counted(
        "float a = 0;\nfor (int i = 0; i < t / 8; ++i)\n    for (int j = 0; j < 2; ++j)\n        a += x[2 * i + j];\n"
        "y[t] = a;",
        {(5, "read"): (6, 2 * (24 + 16 + 8), 6), (6, "write"): (1, 32, 4)},
    ),
    "halves until nothing is left": Counted(
        "float a = 0;\nwhile (t > 0) {\n    a += x[t];\n    t /= 2;\n}\ny[threadIdx.x] = a;",
        {(4, "read"): (5, 31 + 30 + 28 + 24 + 16, 4 + 2 + 1 + 1 + 1), (7, "write"): (1, 32, 4)},
    ),
    "lanes that break one after the other": Counted(
        "float a = 0;\nfor (int i = 0; i < 32; ++i) {\n    if (i > t) break;\n    a += x[i];\n}\ny[t] = a;",
        {(5, "read"): (32, 32 * 33 // 2, 32), (7, "write"): (1, 32, 4)},
    ),
    "one function, called twice": Counted(
        "y[t] = odd(x, t) + odd(x, t / 2);",
        {(1, "read"): (2, 16 + 16, 4 + 2), (2, "write"): (1, 32, 4)},
        "__device__ float odd(const float* x, int i) { return i % 2 ? x[i] : 0; }",
    ),
    "a function that calls itself": Counted(
        "y[t] = below(x, t % 4);",
        {(1, "read"): (3, 24 + 16 + 8, 3), (2, "write"): (1, 32, 4)},
        "__device__ float below(const float* x, int n) { return n ? x[n] + below(x, n - 1) : 0; }",
    ),
    "an and that stops early": Counted(
        "if (t % 2 &&\n    x[t] > 3)\n    y[t] = 1;",
        {(3, "read"): (1, 16, 4), (4, "write"): (1, 14, 4)},
    ),
    "a local array": Counted(
        "float a[4];\nfor (int i = 0; i < 4; ++i)\n    a[i] = x[32 * i + t];\ny[t] = a[t % 4];",
        {(4, "read"): (4, 128, 16), (5, "write"): (1, 32, 4)},
    ),
    "bytes": Counted(
        "const unsigned char* b = (const unsigned char*)x;\n((unsigned char*)y)[t] = b[t];",
        {(3, "read"): (1, 32, 1), (3, "write"): (1, 32, 1)},
    ),
    "a column of a tile, padded or not": Counted(
        "__shared__ float s[32][32], p[32][33];\nfor (int i = 0; i < 32; ++i) s[i][t] = p[i][t] = i;\n__syncwarp();\n"
        "float a = s[t][0];\nfloat b = p[t][1];\ny[t] = a + b;",
        {(5, "read"): (1, 32, 32, 31), (6, "read"): (1, 32, 1, 0), (7, "write"): (1, 32, 4)},
    ),
    "a tree over two warps": Counted(
        "__shared__ float s[64];\ns[t] = x[t];\nfor (int half = 32; half > 0; half /= 2) {\n    __syncthreads();\n"
        "    if (t < half)\n        s[t] += s[t + half];\n}\nif (t == 0)\n    y[0] =\n        s[0];",
        {(3, "read"): (2, 64, 8), (3, "write"): (2, 64, 2, 0), (7, "write"): (6, 63, 6, 0)},
        block=64,
    ),
    "atomics of one word and of many": Counted(
        "__shared__ int s[32];\ns[t] = 0;\n__syncwarp();\natomicAdd(&s[0], 1);\natomicAdd(&s[t], 1);\natomicAdd(&s[t / 2], 1);",
        {(5, "atomic"): (1, 32, 32, 31), (6, "atomic"): (1, 32, 1, 0), (7, "atomic"): (1, 32, 2, 1)},
    ),
}  # fmt: skip


def one_file() -> tuple[Source, dict[str, int]]:
    """The kernels in one file, which is compiled once, and the line before the first of each."""
    text, before = "", {}
    for name, kernel in BY_HAND.items():
        before[name] = text.count("\n")
        head = f'extern "C" __global__ void k{before[name]}(const float* x, float* y) {{ int t = threadIdx.x;'
        text += f"{kernel.functions} {head}\n{kernel.body}\n}}\n"
    return Source(text, "by_hand.cu"), before


FILE, BEFORE = one_file()


def inspect(name: str):
    kernel = BY_HAND[name]
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    launched = Kernel(FILE, f"k{BEFORE[name]}")
    return mg.inspect(launched, x, y, grid=kernel.grid, block=kernel.block, blocks=kernel.grid)


@pytest.mark.parametrize("name", BY_HAND)
def test_counted_by_hand(name):
    record = inspect(name)
    assert record.ok, record
    for (line, kind), expected in BY_HAND[name].counts.items():
        space = "global" if len(expected) == 3 else "shared"
        (found,) = [each for each in record.line(BEFORE[name] + line) if (each.space, each.kind) == (space, kind)]
        cost = (found.sectors,) if space == "global" else (found.wavefronts, found.bank_conflicts)
        assert (found.requests, found.lanes, *cost) == expected, f"line {line}: {found}"


# The reads of p, s, q, x and y in a line. A thread has its own element of each; p is a permutation.
READS = {
    "s[p[i]] = x[i];": {"p": 1, "x": 1},
    "s[p[i]] += x[i];": {"p": 1, "s": 1, "x": 1},
    "s[p[i]] -= 1;": {"p": 1, "s": 1},
    "s[p[i]]++;": {"p": 1, "s": 1},
    "atomicAdd(&s[p[i]], x[p[i]]);": {"p": 2, "x": 1},
    "s[p[i]] += x[p[i]];": {"p": 2, "s": 1, "x": 1},
    "s[p[i] % 4 + p[i] - p[i] % 4] = 1;": {"p": 3},
    "q[p[i]].a = x[i];": {"p": 1, "x": 1},
    "q[p[i]].a += x[p[i]];": {"p": 2, "q": 1, "x": 1},
    "y[i] = q[p[i]].a + q[p[i]].b;": {"p": 2, "q": 2},
    "y[p[i]] = s[p[i]] += 1;": {"p": 2, "s": 1},
    "t[p[i] / 8][p[i] % 8] *= x[i];": {"p": 2, "t": 1, "x": 1},
    "y[p[i]] += y[p[i]];": {"p": 2, "y": 2},
    "y[p[i]] = x[i] + x[i];": {"p": 1, "x": 2},
    "s[p[i]] = s[p[i]] + s[p[i]];": {"p": 3, "s": 2},
    "if ((p[i] & p[i]) < 0) s[i] = 1;": {"p": 2},
    "PUT(s, p[i], x[i]);": {"p": 1, "s": 1, "x": 1},
    "float v = 0, w[2] = {x[p[i]], s[p[i]]}; y[p[i]] = v + w[p[i] % 2];": {"p": 4, "s": 1, "x": 1},
    "y[p[i]] = sum(x[i], s[p[i]]);": {"p": 2, "s": 1, "x": 1},
}


def inspect_reads(pointer: str):
    """All lines of READS, from line 9 on."""
    head = f"""#define PUT(s, i, v) s[i] += v
template <class... All> __device__ float sum(All... all) {{ return (... + all); }}
struct Pair {{ float a, b; }};
extern "C" __global__ void k(const float* x, {pointer} p, float* y) {{
    __shared__ float s[40], t[4][8]; __shared__ Pair q[32];
    int i = threadIdx.x;
    s[i] = t[i / 8][i % 8] = 1; q[i].a = q[i].b = 2; if (i < 8) s[i + 32] = 1;
    __syncthreads();
"""
    order = np.arange(32, dtype=np.int32)[::-1].copy()
    lines = "\n".join(f"__syncwarp(); {line}" for line in READS)
    return mg.inspect(f"{head}{lines}\n}}", np.ones(32, np.float32), order, np.zeros(32, np.float32), grid=1, block=32)


@pytest.mark.parametrize("pointer", ["const int*", "int*"])
def test_what_is_written_once_is_read_once(pointer):
    record = inspect_reads(pointer)
    assert record.ok, record
    for number, (line, expected) in enumerate(READS.items(), 9):
        read = [(each.variable, each.requests) for each in record.line(number) if each.kind == "read"]
        counts = {name: sum(count for variable, count in read if variable == name) for name, _ in read}
        assert counts == expected, line


def test_an_index_that_has_to_stay_a_constant_compiles():
    source = """template <int COUNT> __device__ float many(float x) { return COUNT * x; }
constexpr int counts[] = {3, 4}, last = 1;
extern "C" __global__ void k(const float* x, float* y) {
    y[threadIdx.x] = many<counts[last]>(x[threadIdx.x]);
}"""
    y = np.zeros(32, np.float32)
    record = mg.inspect(source, np.ones(32, np.float32), y, grid=1, block=32)
    assert record.ok and (y == 4).all() and [line.requests for line in record.line(4)] == [1, 1]
