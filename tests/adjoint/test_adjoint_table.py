"""The rows of the decision table, and the page that a notebook shows of an adjoint."""

import re

import pytest

import minigrad as mg
from minigrad.adjoint import ladder

HEAD = 'extern "C" __global__ void f(const double* x, const double* w, int* c, double* y, int n) {\n'
HEAD += "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
TILE = "#define T 4\n" + HEAD + "__shared__ double s[TILE]; int tx = threadIdx.x, ty = threadIdx.y; double v = 0; "
TILE += "for (int k = 0; k < n; k += T) { s[STORE] = x[(blockIdx.x * T + ty) * n + k + tx]; __syncthreads(); "
TILE += "for (int j = 0; j < T; ++j) { ROUND } __syncthreads(); } y[(blockIdx.x * T + ty) * T + tx] = v;"
ROWS = {  # what is asked for, and what the table says
    "an index that data choose": (
        HEAD + "int k = 0; if (x[i] > 0) k = 1; y[i] = x[i] * w[k];", "d_w[k]", "why",
        "the index may be the same in all threads of a warp; then the warp adds once",
    ),
    "an index that is one for all": (HEAD + "y[i] = x[i] * w[n];", "d_w[n]", "why", "the index is the same in all thr"),
    "a condition on a tape": (
        HEAD + "double v = x[i]; for (int j = 0; j < n; ++j) { if (c[i] > 0) v = v * v; c[i] -= 1; } y[i] = v;",
        "condition_tape", "why", "c[i] > 0 is needed for every round of the loop at line 3, and its inputs are overwr",
    ),
    "a state on a tape": (
        HEAD + "double v = x[i]; while (v > 1) { v = sin(v); } y[i] = v;",
        "v_tape", "why", "the loop at line 3 overwrites v in every round",
    ),
    "a state that is never computed again": (
        HEAD + "double v = x[i]; while (v > 1) { v = sin(v); } y[i] = v;",
        "v_tape", "instead", "every 8th round: impossible, the rounds are known only while the kernel runs",
    ),
    "a value that changes": (
        HEAD + "double v = x[i]; for (int j = 0; j < n; ++j) { if (c[i] > 0) v = v * v; c[i] -= 1; } y[i] = v;",
        "v_3", "why", "v changes after line 3, and its value there is still needed",
    ),
    "a flat tile": (
        TILE.replace("TILE", "T * T").replace("STORE", "ty * T + tx").replace("ROUND", "v += s[ty * T + j] * w[j];"),
        "d_s[ty * T + j]", "why", "no loop is as long as the block and counts an index that could change places",
    ),
    "rounds in order": (
        TILE.replace("TILE", "T][T").replace("STORE", "ty][tx").replace("ROUND", "v = v * s[ty][j] + w[j];"),
        "d_s[ty][j]", "why", "the rounds of its loop depend on one another",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
def test_rows(case):
    text, what, column, words = ROWS[case]
    row = mg.adjoint(text + "\n}", wrt=["x", "w"]).decisions[what]
    assert words in getattr(row, column)


def test_a_turned_sum_moves_what_other_threads_hand_over():
    """One value for each term of a matrix product; six for the three sums of attracting bodies."""
    assert mg.adjoint(ladder("matmul_tiled")).decisions["d_a_tile[ty][tx]"].moved == "4 in shared memory"
    assert mg.adjoint(ladder("nbody")).decisions["d_tile[t][0]"].moved == "8 in shared memory"


def test_a_tile_that_all_blocks_read_says_why_it_needs_atomics():
    table = mg.adjoint(ladder("nbody")).decisions
    inside, outside = table["d_p[3 * (cloud + start + t) + c]"], table["d_p[3 * (cloud + i)]"]
    assert inside.how == outside.how == "global atomic"
    assert "only in a launch that adds up nothing else in memory" in inside.why
    assert outside.why == "threads of the grid may share the element"


@pytest.mark.parametrize("name", ["product", "matmul_tiled", "dg_volume"])
def test_a_line_and_the_comments_above_what_reverses_it_have_one_colour(name):
    html = mg.adjoint(ladder(name))._repr_html_()
    left, right = html.split(f"{name}_adjoint.cu:")
    lines = r'<span style="[^"]*background:(#\w+)"><span[^>]*> *(\d+)  </span>'
    colours = {int(line): colour for colour, line in re.findall(lines, left)}
    comments = re.findall(lines + r".*?// adjoint of line (\d+)", right)
    assert comments and colours == {int(reversed): colour for colour, _, reversed in comments}
    assert right.count("background:#") == len(comments), "no other line has one"


def test_functions_stand_beside_their_adjoints():
    text = """__device__ double square(double v) {
    return v * v;
}

extern "C" __global__ void f(const double* x, double* y) {
    y[threadIdx.x] = square(x[threadIdx.x]);
}
"""
    left, right = re.sub("<[^>]*>", "", mg.adjoint(text)._repr_html_()).split("f_adjoint.cu:")
    assert "1  __device__ double square(double v)" in left and "5  extern &quot;C&quot; __global__ void f(" in left
    assert "double square(double v)" not in right  # the adjoint does not call it
    assert "__device__ void square_adjoint(double v, " in right
    assert right.index("square_adjoint(double") < right.index("f_adjoint(const")
