"""Tapes of every eighth iteration, with those between computed again, against the complex step."""

import adjoint_oracle as oracle
import numpy as np
import pytest

import minigrad as mg

HEAD = """
__device__ double taken(const double* x, int place) { return x[place]; }
extern "C" __global__ void f(const double* x, const double* w, double* y, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        double p = w[i], q = 1, sum = 0;
        int k = 0;
        LOOP
        y[i] = p + q * sum;
    }
}
"""
AGAIN = {  # loops whose rounds are run again
    "a product": "for (int j = 0; j < m; ++j) { p *= x[j * n + i]; }",
    "from 3 on, by 2": "for (int j = 3; j < m; j += 2) { p = p * x[j * n + i] + p; }",
    "downwards": "for (int j = m - 1; j >= 0; --j) { p = p * x[j * n + i]; }",
    "two of them": "for (int j = 0; j < m; ++j) { p *= x[j * n + i]; } for (int j = 0; j < m; ++j) { q *= x[i]; }",
    "two values": "for (int j = 0; j < m; ++j) { double t = p; p = q * x[j * n + i]; q = t * x[i] + 0.1 * q; }",
    "a sum beside it": "for (int j = 0; j < m; ++j) { p *= x[j * n + i]; sum += p * x[j * n + i]; }",
    "a sum that the way back reads": "for (int j = 0; j < m; ++j) { p *= x[j * n + i]; sum += p; } p = p * sum;",
    "an index in a round": "for (int j = 0; j < m; ++j) { double t = x[j * n + i]; int low = t > 1 ? 0 : 1; "
    "p *= x[low * n + i] * t; }",
    "a loop's own count": "for (int j = 0; j < m; ++j) { int at = j * n + i; p *= x[at]; if (k % 2 == 0) p *= w[0]; }",
    "continue": "for (int j = 0; j < m; ++j) { if (x[j * n + i] < 1) continue; p *= x[j * n + i]; }",
    "break": "for (int j = 0; j < m; ++j) { if (p > 3) break; p *= 1 + x[j * n + i]; }",
    "an index that a state counts": "for (int j = 0; j < m; ++j) { p *= x[k * n + i]; k += 1; }",
    "a divisor that a state counts": "for (int j = 0; j < m; ++j) { p *= x[j * n + i] + 1 / (m - k); k += 1; }",
    "an element that a branch reads": "for (int j = 0; j < m; ++j) { if (k < m) { p *= x[j * n + i]; } k += 1; }",
    "a function of the array": "for (int j = 0; j < m; ++j) { p *= x[j * n + i] * taken(x, k * n); k += 1; }",
    "a test ahead of it": "for (int j = 0; j < m; ++j) { if (x[j * n + i] < 1) p *= 1 + x[j * n + i]; }",
    "within another": "for (int l = 0; l < 3; ++l) { q = 1; for (int j = 0; j <= l + 8; ++j) { q *= x[j * n + i]; } "
    "sum += q; }",
    "both loops": "for (int l = 0; l < m; ++l) { for (int j = 0; j < m; ++j) { p = 0.9 * p * x[j * n + i]; } }",
}
STORED = {  # those for which it does not pay, or whose rounds find something else
    "while": "while (k < m) { p = p * x[k * n + i]; k += 1; }",
    "dear": "for (int j = 0; j < m; ++j) { p = sin(p) * exp(p) / (1 + x[j * n + i]); }",
    "a value that is not on the tape": "for (int j = 0; j < m; ++j) { double t = p; p = q * x[j * n + i]; q += t; }",
    "a loop in a loop": "for (int l = 0; l < 9; ++l) { for (int j = 0; j < m; ++j) { sum += x[j]; } p *= sum; }",
    "what it reads changes later": "double u = x[i]; for (int j = 0; j < m; ++j) { p *= u; } u = p * p; sum = u * u;",
    "reads what the way back does not": "for (int j = 0; j < m; ++j) { p = p * x[j * n + i] + w[j % n]; }",
    "few, known rounds": "for (int j = 0; j < 6; ++j) { p *= x[j * n + i]; }",
}


GUARDED = {  # of these, those whose round might read or divide by what the loop does not, were it run once more
    "a loop's own count", "break", "an index that a state counts", "a divisor that a state counts",
    "an element that a branch reads", "a function of the array",
}  # fmt: skip


@pytest.mark.sample(5)
@pytest.mark.parametrize("m", [1, 8, 11, 17])
@pytest.mark.parametrize("form", [*AGAIN, *STORED])
def test_loops(form, m):
    made = mg.adjoint(HEAD.replace("LOOP", (AGAIN | STORED)[form]), wrt=["x", "w"], name="f")
    made.slots = 0  # so that the first try is too short
    n, rng = 5, np.random.default_rng(1)
    args = [rng.random(17 * n) + 0.5, rng.random(n) + 0.5, np.zeros(n), n, m]
    oracle.check(made, args, 2, 4)
    assert any("every 8th" in row.how for row in made.decisions.rows) == (form in AGAIN)
    assert ("= min(8 * part + near, " in made.source) == (form in AGAIN and form not in GUARDED)


def test_the_table_shows_both_counts():
    """8 bytes for a tape of all iterations; or an eighth of it, and a multiplication."""
    product, gas = (mg.adjoint(mg.adjoint.ladder(name)).decisions for name in ("product", "equation_of_state"))
    chosen, kept = product["p_tape"], gas["e_tape"]
    assert chosen.how == "global tape, every 8th round" and chosen.instead == "every round: 8 bytes"
    assert chosen.moved == "1 byte + 1 operation, as long as 1.125 bytes"
    assert kept.how == "global tape" and kept.moved == "24 a round" and "every 8th round: 3 bytes + " in kept.instead


@pytest.mark.parametrize(("bound", "rows"), [
    ("(1 << 14)", "8 x rounds (1 << 14)"), ("(ROUNDS & 24)", "64"), ("(m >> 1)", "8 x rounds (m >> 1)"),
])  # fmt: skip
def test_shifts_and_masks_count_as_other_operations(bound, rows):
    """The compiler or the host evaluates the length of a tape, with these operators too."""
    loop = f"for (int j = 0; j < {bound}; ++j) {{ p = sin(p) * exp(p) / (1 + x[i]); }}"
    made = mg.adjoint("#define ROUNDS 11\n" + HEAD.replace("LOOP", loop), wrt=["x"], name="f")
    assert made.decisions["p_tape"].bytes == rows


@pytest.mark.parametrize("loop", [
    "for (int j = 8; p < 9; j /= 2) { p = p * (1 + 0.1 * x[i]); }",
    "for (int j = 0; j < m; j *= 2) { if (p > 9) break; p = p * (1 + 0.1 * x[i]); }",
    "for (long long j = 1; j < 1000000000000000; j *= 2) { p = p * (1 + 0.1 * x[i]); }",
    "for (int j = -8; j < m; j >>= 1) { if (p > 9) break; p = p * (1 + 0.1 * x[i]); }",
])  # fmt: skip
def test_a_variable_that_is_halved_or_doubled_may_not_end_the_loop(loop):
    """Then there are more iterations than it has bits."""
    made = mg.adjoint(HEAD.replace("LOOP", loop), wrt=["x", "w"], name="f")
    x, w = np.random.default_rng(1).random((2, 5))
    oracle.check(made, [0.5 + 0.1 * x, 0.5 + w, np.zeros(5), 5, 3], 2, 4)


@pytest.mark.parametrize("n", [0, 1, 2, 11])
@pytest.mark.parametrize("header", [
    "int j = threadIdx.x; j < n - 2; j += blockDim.x", "int j = threadIdx.x + 1; j < n - 1; j += blockDim.x",
    "int j = n - 1; j > (int)threadIdx.x + 1; j -= blockDim.x",
])  # fmt: skip
def test_a_range_that_threads_share_may_end_below_0(header, n):
    """There C++ would compute the trip count in unsigned arithmetic."""
    made = mg.adjoint(f"""extern "C" __global__ void f(const double* x, double* y, int n) {{
        double p = x[threadIdx.x];
        for ({header}) {{ p = 0.5 * p + x[j] * x[j]; }}
        y[threadIdx.x] = p;
    }}""")
    oracle.check(made, [np.random.default_rng(1).random(12), np.zeros(8), n], 1, 8)


def test_gradients_of_outputs_are_read_ahead_of_loops():
    """Only where the adjoint never writes them: others are read at the place of the kernel's store."""
    source = mg.adjoint(mg.adjoint.ladder("after_the_loop")).source
    assert source.index("= d_y[i];") < source.index("for (int j = 0; j < m")
    text = """extern "C" __global__ void f(const double* x, double* y, int n, int m) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        double v = y[i];
        for (int j = 0; j < m; ++j) { v *= x[j * n + i]; }
        y[i] = v * v;
    }"""
    source = mg.adjoint(text, name="f").source
    assert source.index("d_y[i]") > source.index("v *= x[j * n + i];")


def test_a_branch_that_no_round_changes_stands_around_the_loop():
    source = mg.adjoint(mg.adjoint.ladder("nbody")).source
    turned = source.index("real d_tile_sum = 0;")
    branch, loop = (
        source.index("if (start + t < n) {", turned),
        source.index("for (int j = 0; j < TILE; ++j) {", turned),
    )
    assert branch < loop and source.count("if (start + t < n) {") == 2  # that, and the one of the tile's load
