"""The microscope counts sectors, bank conflicts, lanes and traffic."""

import time

import numpy as np
import pytest

import minigrad as mg
from minigrad.microscope import watching

X = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)


def transpose(variant: str, **named):
    y = np.zeros((64, 64), np.float32)
    record = mg.inspect(mg.transpose[variant].launch(64, 64, TILE=32), X, y, 64, 64, outputs="y", **named)
    assert record.ok and (y == X.T).all() and (record.outputs["y"] == X.T).all()
    return {(line.variable, line.kind): line for line in record.lines}, record


@pytest.mark.parametrize("variant, sectors", [("naive", 32), ("tiled", 4), ("padded", 4)])
def test_sectors_of_the_transposes(variant, sectors):
    lines, _ = transpose(variant)
    read, write = lines["x", "read"], lines["y", "write"]
    assert (read.requests, read.sectors_per_request, read.ideal_sectors_per_request) == (32, 4, 4)
    assert (write.requests, write.sectors_per_request, write.ideal_sectors_per_request) == (32, sectors, 4)
    assert (write.active_lanes, write.bytes, write.per_thread, write.bank_conflicts) == (32, 4096, 1, 0)


@pytest.mark.parametrize("variant, waves, conflicts", [("tiled", 32, 992), ("padded", 1, 0)])
def test_bank_conflicts_of_the_transposes(variant, waves, conflicts):
    lines, _ = transpose(variant)
    read, write = lines["tile", "read"], lines["tile", "write"]
    assert (read.requests, read.wavefronts_per_request, read.bank_conflicts, read.sectors) == (32, waves, conflicts, 0)
    assert (write.wavefronts_per_request, write.bank_conflicts) == (1, 0)
    assert "[threadIdx.x][threadIdx.y]" in read.text and read.line == write.line + 7


def test_all_blocks_are_counted_where_asked():
    lines, _ = transpose("tiled", blocks=4)
    assert lines["tile", "read"].bank_conflicts == 4 * 992


def test_traffic_tells_who_touched_what_in_which_phase():
    _, record = transpose("tiled", blocks=2)
    assert record.variables["tile"].shape == (32, 32) and record.variables["y"].shape == (64, 64)
    stored = record.traffic[(record.traffic["variable"] == "tile") & (record.traffic["kind"] == "write")]
    loaded = record.traffic[(record.traffic["variable"] == "tile") & (record.traffic["kind"] == "read")]
    assert len(stored) == len(loaded) == 2 * 1024
    assert (stored["phase"] == 0).all() and (loaded["phase"] == 1).all()
    row, column = np.unravel_index(loaded["element"], record.variables["tile"].shape)
    assert (column == loaded["thread"] // 32).all() and (row == loaded["thread"] % 32).all()
    written = record.traffic[record.traffic["variable"] == "y"]
    assert len(np.unique(written["element"])) == 2 * 1024
    requests, lanes = np.unique(record.traffic["request"], return_counts=True)
    assert len(requests) == 2 * 4 * 32 and (lanes == 32).all()
    assert all(record.lines[row["site"]].variable == row["variable"] for row in record.traffic[::100])


def test_accesses_by_one_thread():
    assert transpose("tiled")[1].per_thread == {
        "global read": 1,
        "shared write": 1,
        "global write": 1,
        "shared read": 1,
    }
    with watching(blocks=1) as report:
        mg.matmul.using("tiled", TILE=16)(mg.ones((32, 48), device="sim"), mg.ones((48, 32), device="sim"))
    score = {"global read": 2 * 3, "global write": 1, "shared read": 2 * 48, "shared write": 2 * 3}
    assert report.launches[0].per_thread == score


BRANCHES = """extern "C" __global__ void k(float* y) {
    int i = threadIdx.x;
    if (i % 2)
        y[i] = 1;
    else
        y[i] = 2;
    for (int j = 0; j < i / 16; ++j)
        y[i] += j;
    if (i < 40) atomicAdd(&y[64], 1.0f);
}"""


def test_divergence():
    record = mg.inspect(BRANCHES, np.zeros(65, np.float32), grid=1, block=64)
    assert record.ok
    lanes = {branch.line: branch.lanes for branch in record.branches if branch.line != 7}
    assert lanes == {4: (16, 16), 6: (16, 16), 8: (16, 32, 32, 16), 9: (32, 8)}
    assert [line.active_lanes for line in record.line(4)] == [16]
    added = record.line(9)[0]
    assert (added.kind, added.requests, added.active_lanes, added.sectors_per_request) == ("atomic", 2, 20, 1)
    assert max(line.per_thread for line in record.line(8)) == 3


LOOPS = """__device__ float twice(const float* x, int i) { return x[i] * x[i + 1]; }
extern "C" __global__ void k(const float* x, float* y, int n) {
    int t = threadIdx.x;
    float a = 0;
    for (int i = 0; i < 4; ++i)
        if ((i + t) % 2) a += x[32 * i + t];
    for (int k = 0; k < 4; ++k)
        for (int i = 0; i < (t + k) % 4; ++i)
            a += x[i];
    for (int i = t; i < n; i += 32)
        if (i % 3 == 0)
            a += x[i];
    int j = 0;
    while (true) {
        ++j;
        if ((j + t) % 4 == 0) continue;
        if (j > 6) break;
        a += x[j];
    }
    for (int i = 0; i < 4; ++i)
        if (i % 2 == t % 2)
            a += twice(x, i);
    y[t] = a;
}"""


def test_lanes_that_part_in_a_loop_are_put_together_by_its_turn():
    record = mg.inspect(LOOPS, X, np.zeros(32, np.float32), 256, grid=1, block=32)
    lanes = {line.line: (line.requests, line.lanes) for line in record.lines if line.kind == "read"}
    alone = sum((j + t) % 4 != 0 for j in range(1, 7) for t in range(32))
    assert lanes == {1: (4, 64), 6: (4, 64), 9: (12, 192), 12: (8, 86), 18: (6, alone)}
    inner = next(branch for branch in record.branches if branch.line == 9 and sum(branch.lanes) == 192)
    assert sorted(inner.lanes) == sorted((24, 16, 8) * 4)


CALLS = """__device__ float at(const float* x, int i) { return x[i]; }
__device__ float most(float a, float b) { return a > b ? a : b; }
extern "C" __global__ void k(const float* x, float* y) {
    int t = threadIdx.x;
    float a = t % 2 ? at(x, t) : at(x, t + 32);
    if (t < 8)
        a = most(a, at(x, t));
    else
        for (int i = 0; i < 2; ++i) a += most(a, at(x, i));
    y[t] = a + at(x, t);
}"""


def test_calls_from_different_places_are_different_requests():
    record = mg.inspect(CALLS, X, np.zeros(32, np.float32), grid=1, block=32)
    read = record.line(1)[0]  # both sides of the choice; of the if; and once at the end
    assert (read.requests, read.lanes) == (2 + 1 + 2 + 1, 32 + 8 + 2 * 24 + 32)
    entered = [sorted(branch.lanes) for branch in record.branches if branch.line == 1]
    assert entered == [[8, 16, 16, 24, 24, 32]]


def test_two_accesses_in_a_line_stay_apart():
    text = 'extern "C" __global__ void k(const float* a, float* y) { int i = threadIdx.x; y[i] = a[i] * a[2 * i]; }'
    lines = mg.inspect(text, np.zeros(64, np.float32), np.zeros(32, np.float32), grid=1, block=32).lines
    assert sorted((line.variable, line.sectors_per_request) for line in lines) == [("a", 4), ("a", 8), ("y", 4)]


def test_one_array_given_twice_is_told_apart_by_the_text():
    text = 'extern "C" __global__ void k(const float* a, const float* b, float* y) {\n  int i = threadIdx.x;\n  y[i] = a[i] + b[2 * i];\n}'
    both = mg.zeros(64, device="sim")
    lines = mg.inspect(text, both, both, mg.zeros(32, device="sim"), grid=1, block=32).lines
    assert sorted((line.variable, line.sectors_per_request) for line in lines) == [("a", 4), ("b", 8), ("y", 4)]


VECTORS = """extern "C" __global__ void k(const float4* x, double* y) {
    __shared__ float4 s[32];
    __shared__ double d[64];
    int i = threadIdx.x;
    s[i] = x[i];
    d[i] = i, d[i + 32] = i;
    __syncwarp();
    y[i] = s[31 - i].x + d[2 * i];
}"""


def test_wide_accesses_go_in_parts():
    record = mg.inspect(VECTORS, np.zeros(128, np.float32), np.zeros(32), grid=1, block=32)
    assert record.ok
    counts = {
        (line.line, line.variable, line.kind): (line.sectors, line.wavefronts, line.bank_conflicts)
        for line in record.lines
    }
    assert counts[5, "x", "read"] == (16, 0, 0) and counts[5, "s", "write"] == (0, 4, 0)
    assert counts[6, "d", "write"] == (0, 2, 0) and counts[8, "d", "read"] == (0, 4, 2)
    assert counts[8, "s", "read"] == (0, 4, 3) and counts[8, "y", "write"] == (8, 0, 0)


STRUCTS = """struct Pair { float a, b; };
struct %s Four { float at[4]; };
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ Pair pairs[32];
    int i = threadIdx.x;
    float3 three = ((const float3*)x)[i];
    pairs[i] = ((const Pair*)x)[i];
    __syncwarp();
    Four four = ((const Four*)x)[i];
    Pair pair = pairs[31 - i];
    ((float3*)y)[i] = {three.x + pair.a, three.y + four.at[1], three.z};
}"""


DOUBLES = """struct Wide { double a, b; };
extern "C" __global__ void k(const double* x, double* y) {
    __shared__ Wide wide[32];
    int i = threadIdx.x;
    wide[i] = ((const Wide*)x)[i];
    __syncwarp();
    y[i] = wide[31 - i].b;
}"""


@pytest.mark.parametrize("align, requests, sectors", [("", 4, 64), ("alignas(16)", 1, 16)])
def test_a_struct_goes_in_pieces_that_its_alignment_allows(align, requests, sectors):
    lines = mg.inspect(STRUCTS % align, X, np.zeros(96, np.float32), grid=1, block=32).lines
    found = {(each.line, each.kind): each for each in lines}
    three, pair, four, out = (found[at] for at in ((6, "read"), (7, "read"), (9, "read"), (11, "write")))
    assert (three.requests, three.sectors, three.ideal_sectors, three.per_thread) == (3, 36, 12, 3)
    assert (pair.requests, pair.sectors_per_request, pair.ideal_sectors_per_request) == (2, 8, 4)
    assert (four.requests, four.sectors, four.ideal_sectors) == (requests, sectors, 16)
    assert (out.requests, out.sectors, out.bytes) == (3, 36, 384)
    for held in found[7, "write"], found[10, "read"]:
        assert (held.requests, held.wavefronts, held.bank_conflicts) == (2, 4, 2)


def test_a_struct_of_doubles_goes_double_by_double():
    lines = mg.inspect(DOUBLES, np.arange(64.0), np.zeros(32), grid=1, block=32).lines
    found = [(each.line, each.requests, each.sectors, each.wavefronts, each.bank_conflicts) for each in lines]
    assert found == [(5, 2, 32, 0, 0), (5, 2, 0, 8, 4), (7, 1, 8, 0, 0), (7, 1, 0, 4, 2)]


ARGUMENTS = """#define MORE(a, b) ((a) > (b) ? (a) : (b))
__device__ float more(float a, float b) { return a > b ? a : b; }
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[32][32];
    int t = threadIdx.x;
    for (int i = 0; i < 32; ++i) s[i][t] = i;
    __syncthreads();
    float a = fmaxf(x[t], x[8 * t]);
    float b = more(s[0][t], s[t][0]);
    float c = MORE(x[t], x[8 * t]);
    float d = t % 2 ? x[t] : x[8 * t];
    y[t] = a + b + c + d + fmaf(x[t], x[8 * t], x[2 * t]);
}"""


def test_arguments_of_one_call_a_macro_and_both_sides_of_a_choice_stay_apart():
    lines = mg.inspect(ARGUMENTS, X, np.zeros(32, np.float32), grid=1, block=32).lines
    reads = {number: [line for line in lines if (line.line, line.kind) == (number, "read")] for number in range(8, 13)}
    assert {number: sorted(line.sectors for line in found) for number, found in reads.items() if number != 9} == {
        8: [4, 32], 10: [4, 32, 32], 11: [4, 16], 12: [4, 8, 32],
    }  # fmt: skip
    assert sorted(line.bank_conflicts for line in reads[9]) == [0, 31]


INDIRECT = """extern "C" __global__ void k(float* y, const int* z) {
    __shared__ int s[32];
    int t = threadIdx.x;
    s[t] = z[t];
    __syncthreads();
    atomicAdd(&s[z[t]], 1);
    __syncthreads();
    y[s[z[t]] - 1] += 1;
}"""


def test_a_kernel_that_touches_nothing_has_no_lines():
    record = mg.inspect('extern "C" __global__ void k(double* y) { if (y) return; }', np.zeros(1), grid=1, block=32)
    assert record.lines == [] and not len(record.traffic) and record.branches == []


ASSIGNMENTS = """#define ADD(a, b) a += 1; b = a
extern "C" __global__ void k(float* x, float* y, int* z) {
    __shared__ float s[32], q[32][2];
    int t = threadIdx.x;
    x[t] = y[t] = t;
    x[t] = y[t] += 1;
    z[t] = z[t + 32] = ++z[t + 64];
    float a = y[t] = 3, *p = y + t;
    if ((y[t] = a) > 2) x[t] = 1;
    a = *p = 3;
    x[t] = y[t] = x[t + 32] = y[t] + 1;
    y[z[t] = t] = 1;
    int b = ++z[t];
    s[t] = q[t][0] = q[t][1] = b;
    s[t] = (q[t][0] = 1) + q[t][1];
    a += (y[t] = 1) + y[t + 32];
    y[t] = 1; x[t] = y[t];
    for (int i = 0; i < 2; ++i) y[t] += 1, x[t] = y[t];
    if (a < 9) y[t] = 1; else x[t] = y[t];
    while ((y[t] = y[t] + 1) < 0) x[t] = y[t];
    ADD(y[t], x[t]);
}"""


def test_the_value_of_an_assignment_is_not_read_back():
    record = mg.inspect(ASSIGNMENTS, X[0], X[1], np.zeros(96, np.int32), grid=1, block=32)
    counts = [
        [sum(line.requests for line in record.line(number) if line.kind == kind) for kind in ("read", "write")]
        for number in range(5, 22)
    ]
    assert counts == [
        [0, 2], [1, 2], [1, 3], [0, 1], [0, 2], [0, 1], [1, 3], [0, 2], [1, 1], [0, 3], [1, 2], [1, 1],
        [1, 2], [4, 4], [1, 1], [1, 1], [2, 2],
    ]  # fmt: skip
    assert record.ok and all(line.requests for line in record.lines)


def test_an_index_that_is_read_from_memory_counts_once():
    lines = mg.inspect(INDIRECT, np.zeros(32, np.float32), np.arange(32, dtype=np.int32), grid=1, block=32).lines
    reads = [(line.line, line.variable, line.requests) for line in lines if line.kind == "read"]
    assert sorted(reads) == [(4, "z", 1), (6, "z", 1), (8, "s", 1), (8, "y", 1), (8, "z", 1)]


def test_a_table_in_words_and_in_html():
    _, record = transpose("tiled")
    assert repr(record).splitlines()[0] == "transpose_tiled, grid (2, 2), block (32, 32): no problems"
    assert "  36  shared   read      tile        32     32                                    32        992" in repr(
        record
    )
    assert "<td>992</td>" in record._repr_html_() and "no problems" in record._repr_html_()


def test_pictures_come_at_once():
    x, y = mg.tensor(X, device="sim"), mg.zeros((64, 64), device="sim")
    launch = mg.transpose["tiled"].launch(64, 64)
    mg.inspect(launch, x, y, 64, 64)
    start = time.perf_counter()
    record = mg.inspect(launch, x, y, 64, 64, blocks=16)
    assert len(record.traffic) == 4 * 64 * 64 and record._repr_html_()
    assert time.perf_counter() - start < 1
