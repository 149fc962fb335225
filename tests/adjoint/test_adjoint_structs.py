"""Structs with arrays in them, as elements of arrays: copied, stored and passed whole, against central differences."""

import numpy as np
import pytest

import minigrad as mg

B = np.dtype([("p", "f8", 3), ("q", "f8")])
PLAIN = "struct B { double p[3]; double q; };\n"
ALIAS = (
    "template <class T, int N> struct Row { T p[N]; T q; };\ntemplate <class T> using Of = Row<T, 3>;\n"
    "using B = Of<double>;\n"
)
AHEAD = (
    "__device__ double f(B v) { v.p[0] *= 2; return v.p[0] * v.p[1] * v.q; }\n"
    "__device__ B g(const B& v) { B w = v; w.p[1] *= w.q; return w; }\n"
)
FORMS = {
    "a copy": "B q = b[i]; y[i].q = q.p[1] * q.p[2] * q.q;",
    "an assignment": "B q; q = b[i]; q.p[0] *= q.p[1]; y[i].q = q.p[1] * q.p[0] * q.q;",
    "a store": "B q = b[i]; q.p[1] *= q.q; y[i] = q;",
    "from element to element": "y[i] = b[i]; y[i].p[2] *= b[i].q;",
    "shared memory": "__shared__ B s[4]; s[i] = b[i]; __syncthreads(); B q = s[3 - i]; "
    "y[i].q = q.p[1] * s[i].p[1] * q.q;",
    "arguments and results": "B q = g(b[i]); y[i].q = f(b[i]) * q.p[1] * q.q; y[i].p[2] = f(q);",
    "a pointer": "const B* p = b + i; B q = *p; y[i].q = q.p[1] * q.p[2] * q.q;",
    "a swap": "y[i] = b[i]; __syncthreads(); if (i < 2) { B t = y[i]; y[i] = y[i + 2]; y[i + 2] = t; "
    "y[i].p[1] *= y[i].q; }",
    "the largest": "B q = b[0]; for (int j = 1; j < 4; j++) { B t = b[j]; if (t.p[0] > q.p[0]) q = t; } "
    "y[i].q = q.p[0] * q.p[1] * b[i].q;",
    "a choice": "B q = i > 1 ? b[i] : b[0]; y[i] = b[i].q > 0.9 ? b[i] : b[3 - i]; y[i].q = q.p[1] * q.q;",
    "a choice of what is stored": "B s[2]; s[0] = b[i]; s[1] = b[3 - i]; B& r = i > 1 ? s[0] : s[1]; r.p[1] *= r.q; "
    "y[i].q = s[0].p[1] * s[1].p[1] * s[1].q;",
}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("form", FORMS)
def test_structs_with_arrays(form):
    ahead = (ALIAS if "s" in form else PLAIN) + AHEAD
    text = f"{ahead}__global__ void k(const B* b, B* y) {{ int i = threadIdx.x;\n{FORMS[form]} }}"
    kernel, rng = mg.kernel(text, "k"), np.random.default_rng(2)
    b, w = (rng.random(16) + 0.5).view(B), rng.standard_normal(16)

    def value(numbers):
        y = mg.tensor(np.zeros(4, B), device="sim")
        kernel(mg.tensor(numbers.view(B), device="sim"), y, grid=1, block=4)
        return w @ y.numpy().view("f8")

    args = [mg.tensor(a, device="sim") for a in (b, np.zeros(4, B))]
    with mg.microscope.watching() as report:
        (db,) = mg.adjoint(kernel, ["b"]).vjp(*args, dy=[mg.tensor(w.view(B), device="sim")], grid=1, block=4)
    assert not report.problems
    slopes = [(value(b.view("f8") + h) - value(b.view("f8") - h)) / 2e-6 for h in 1e-6 * np.eye(16)]
    np.testing.assert_allclose(db.numpy().view("f8"), slopes, rtol=1e-6, atol=1e-8)


def test_a_member_of_a_struct_by_value_has_no_gradient_and_that_is_said():
    head = "struct P { double k, b; }; __global__ void f(const double* x, double* y, P p) { int i = threadIdx.x; "
    made = mg.adjoint(head + "y[i] = p.k * x[i] + p.b; }")
    assert made.wrt == ("x",) and made.decisions["p.k"].how == "no gradient"
    with pytest.raises(ValueError, match=r"wrt: p\.k is a member of a struct that is passed by value"):
        mg.adjoint(head + "y[i] = p.k * x[i]; }", ["p.k"])
    with pytest.raises(ValueError, match=r"whole numbers \(p\.k is a member .* make it a parameter\)"):
        mg.adjoint(head + "y[i] = p.k; }")
