"""The budget of a derivation: beyond it sums are atomics, passes are left out, and the table of decisions says so."""

import sys
import time

import adjoint_oracle as oracle
import numpy as np
import pytest
from adjoint_rungs import RUNGS

import minigrad as mg
from minigrad.adjoint import NotDifferentiable
from minigrad.adjoint.language import dataflow
from minigrad.adjoint.language.dataflow import Budget
from minigrad.adjoint.passes import OUT_OF_BUDGET

HEAD = """__global__ void f(const double* x, const int* t, double* y, int n, int page) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    int k = blockIdx.z * blockDim.z + threadIdx.z;
"""


def spent(made):
    return [row for row in made.decisions.rows if row == OUT_OF_BUDGET]


@pytest.mark.sample(20)
@pytest.mark.parametrize("left", [1, 400, 2000, 10_000])
@pytest.mark.parametrize("rung", RUNGS)
def test_the_gradient_is_right_wherever_the_budget_ends(rung, left, monkeypatch):
    kernel, args, grid, block = RUNGS[rung]
    monkeypatch.setattr(Budget.__init__, "__defaults__", (left, left // 2))
    made = mg.adjoint(kernel)
    assert len(spent(made)) <= 1
    assert left > 1 or spent(made)
    oracle.check(made, args, grid, block)


def test_a_kernel_of_many_indices(monkeypatch):
    """Beyond the budget, sums are atomics, and the table says why."""
    lines = "".join(f"s += x[(k + {n}) * page + (j + {n % 7}) * n + i + {n % 3}];\n" for n in range(150))
    monkeypatch.setattr(Budget.__init__, "__defaults__", (250_000, 100_000))
    made = mg.adjoint(f"{HEAD} double s = 0;\n{lines} y[k * page + j * n + i] = s; }}")
    assert {row.why for row in made.decisions.rows if "atomic" in row.how} == {
        "threads of the grid may share the element",
        "the kernel has too many indices to prove of each that it belongs to one thread",
    }


def test_a_kernel_of_many_statements(monkeypatch):
    """Beyond the budget, passes are left out, and the table says so."""
    lines = "\n".join(f"y[{n}] = x[{n}] * x[i];" for n in range(150))
    assert not spent(mg.adjoint(f"{HEAD}{lines} }}"))
    monkeypatch.setattr(Budget.__init__, "__defaults__", (20_000, 10_000))
    assert "further passes are left out" in spent(mg.adjoint(f"{HEAD}{lines} }}"))[0].why


def test_a_bound_that_is_the_least_of_many_others():
    """Written out it has as many parts as 2 to the power of 20, twice as many as the bound before it."""
    lines = "".join(f"int m{n + 1} = min(m{n}, m{n} + 2);\n" for n in range(20))
    loops = "for (int r = 0; r < n; ++r) { for (int l = 0; l < m20; ++l) { s = s * y[i + l]; } y[i + r] = s; }"
    start = time.process_time()
    with pytest.raises(NotDifferentiable, match="only the running kernel knows how many iterations that takes"):
        mg.adjoint(f"{HEAD} double s = x[i]; int m0 = n;\n{lines}{loops} }}")
    assert time.process_time() - start < 20  # it takes a third of one


LINES = "\n".join(f"y[{n}] = x[{n}] * x[i];" for n in range(20))


def test_a_kernel_is_refused_where_it_becomes_too_long(monkeypatch):
    """Each line has 7 parts: y[0] = x[0] * x[i] is an assignment, two numbers, a name, two elements and a product."""
    monkeypatch.setattr(dataflow, "MOST_PARTS", 150)
    with pytest.raises(NotDifferentiable, match=r"f.cu:22:1: up to here .* more than 150 statements, names, numbers"):
        mg.adjoint(f"{HEAD}{LINES} }}", "f")
    assert mg.adjoint(f"{HEAD}{LINES[: LINES.index('y[18]')]} }}", "f").wrt


def test_a_call_is_refused_where_the_kernel_becomes_too_long(monkeypatch):
    monkeypatch.setattr(dataflow, "MOST_TOKENS", 150)
    ahead = "__device__ void twice(double& v) { v = v * v; }\n"
    with pytest.raises(NotDifferentiable, match=r"f.cu:5:78: up to here .* more than 150 tokens; write a loop"):
        mg.adjoint(f"{ahead}{HEAD}double v = x[i]; {'twice(v); ' * 9} y[i] = v; }}", "f")


def steps(text, name="f"):
    """The calls of Python functions that a derivation takes."""
    count = 0

    def called(frame, event, arg):
        nonlocal count
        count += event == "call"

    kernel = mg.kernel(text, name)
    sys.setprofile(called)
    try:
        mg.adjoint(kernel)
    finally:
        sys.setprofile(None)
    return count


def repeated(line, ahead="", after=""):
    """The text of a kernel with a line n times."""
    return lambda n: f"{HEAD}{ahead}\n" + "\n".join(line.replace("@", str(k)) for k in range(n)) + f"{after}\n}}"


def nested(line):
    return lambda n: HEAD + "\n".join(line.replace("@", str(k)) for k in range(n)) + "y[i] += x[i];" + "}" * n + "}"


LONG = {
    "branches": repeated("if (i < n + @) y[i] += x[i] * @.0;"),
    "loops": repeated("for (int q = 0; q < n; q++) y[i] += x[i * n + q] * @.0;"),
    "loops that are left": repeated(
        "for (int q = 0; q < n; q++) { if (a > @.0) break; a *= x[q]; }", "double a = x[i];", "y[i] = a;"
    ),
    "elements": repeated("y[i] += x[i + @] * x[i];"),
    "values": repeated("a = a * x[i + @] + @.0;", "double a = x[i];", "y[i] = a;"),
    "barriers": repeated(
        "s[threadIdx.x] = x[i + @]; __syncthreads(); y[i] += s[63 - threadIdx.x] * @.0; __syncthreads();",
        "__shared__ double s[64];",
    ),
    "calls": lambda n: "__device__ double g(double a) { double b = a * a; return b > 0 ? sin(b) : a; }\n"
    + repeated("y[i] += g(x[i + @]);")(n),
    "choices": repeated("a = a > @.0 ? a * x[i + @] : a + x[t[i] + @];", "double a = x[i];", "y[i] = a;"),
}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", LONG)
def test_four_times_the_statements_take_four_times_as_long(kind):
    few, many = (steps(LONG[kind](n)) for n in (40, 160))
    assert many < 4.8 * few


@pytest.mark.parametrize("line", ["if (x[i] > @.0) {", "for (int q@ = 0; q@ < n; q@++) {"])
def test_a_deep_nest_takes_little(line):
    few, many = (steps(nested(line)(n)) for n in (6, 24))
    assert many < 32 * few  # by the square


def test_an_index_through_a_chain_of_tables_takes_little():
    """Written out in terms of i alone, the last index would have 2^40 parts."""
    chain = "\n".join(f"int j{k + 1} = j{k} + t[j{k}];" for k in range(40))
    made = mg.adjoint(f"{HEAD} int j0 = i;\n{chain}\n y[i] = x[j40] * x[j40]; }}")
    x, t = np.random.default_rng(0).random(8), np.zeros(8, np.int32)
    oracle.check(made, [x, t, np.zeros(8), 8, 8], 1, 8)
