"""Arguments of mg.adjoint and of a launch: sources, wrt, arrays, numbers, upstream gradients."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import LaunchError

HEAD = 'extern "C" __global__ void f(const float* x, float* y, const int* at, float a, int n)'
I = "int i = blockIdx.x * blockDim.x + threadIdx.x; "  # noqa: E741
TEXT = f"{HEAD} {{ {I}if (i < n) y[i] = a * x[i]; }}"


def ones(*shape, dtype="float32"):
    return mg.ones(*shape, dtype=dtype, device="sim")


@pytest.fixture(scope="module")
def made():
    return mg.adjoint(TEXT)


def arguments(**other):
    """The arguments of a valid launch of f, by name, with these in place of some."""
    return {"x": ones(8), "y": ones(8), "at": mg.zeros(8, dtype="int32", device="sim"), "a": 2.0, "n": 6} | other


DEFAULTS = {
    "if (i < n) y[i] = x[i];": "x",
    "if (i >= n) return; y[i] = x[i];": "x",
    "if (i < n && i > 0) { if (i % 2) y[i] = x[i]; }": "x",
    "y[i] = a;": "a",
    "y[i] = n;": "",
    "y[i] += x[i];": "x y",
    "atomicAdd(&y[0], x[i]);": "x y",
    "if (x[i] > 0) y[i] = x[i];": "x y",
    "if (a > 0) y[i] = x[i];": "x y",
    "if (at[i]) y[i] = x[i];": "x y",
    "if (x[i] > 0) { y[i] = x[i]; } else { y[i] = a; }": "x a",
    "if (x[i] > 0) return; y[i] = x[i];": "x y",
    "y[i] = 0; if (x[i] > 0) y[i] = x[i];": "x",
    "y[at[i]] = x[i];": "x y",
    "int k = i; if (x[i] > a) k = 0; y[k] = x[i];": "x y",
    "int k = i; if (x[i] > a) { int l = 3; k = k + 0 * l; } y[i] = x[k];": "x",
    "for (int j = 0; j < at[i]; ++j) y[j] = x[j];": "x y",
    "for (int j = 0; j < n; ++j) { if (x[j] < 0) break; y[j] = x[j]; }": "x y",
    "float s = 0; for (int j = 0; j < at[i]; ++j) s += x[j]; for (int j = 0; j < 2; ++j) y[2 * i + j] = s;": "x",
}


@pytest.mark.parametrize(("body", "wanted"), DEFAULTS.items())
def test_an_output_counts_where_the_data_decide_what_is_stored(body, wanted):
    text = f"{HEAD} {{ {I}{body} }}"
    if not wanted:
        with pytest.raises(ValueError, match=r"reaches an output other than .*, so there is no gradient; it has x"):
            mg.adjoint(text)
        return
    made = mg.adjoint(text)
    assert sorted(made.wrt) == sorted(wanted.split())


@pytest.mark.parametrize("condition", ["i < n", "x[i] > 0"])
def test_whatever_requires_a_gradient_gets_one(condition):
    """Elements that the kernel does not store keep the value of y, and so its gradient."""
    f = mg.differentiable(f"{HEAD} {{ {I}if ({condition}) y[i] = a * x[i]; }}")
    x = mg.tensor(np.float32([1, 2, 3, 4, 5, 6, -7, -8]), device="sim", requires_grad=True)
    y = mg.tensor(np.zeros(8, np.float32), device="sim", requires_grad=True)
    out = f(x, y, arguments()["at"], 2.0, 6, grid=1, block=8)
    (out * out).sum().backward()
    assert x.grad.numpy().tolist() == [8, 16, 24, 32, 40, 48, 0, 0]
    assert y.grad.numpy().tolist() == [0] * 8
    f(x, y, arguments()["at"], 2.0, 6, grid=1, block=8).sum().backward()
    assert y.grad.numpy().tolist() == [0, 0, 0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("kind", ["int", "unsigned", "long long", "bool"])
def test_an_array_of_whole_numbers_that_the_kernel_changes(kind):
    """The array gets a new version, and the adjoint starts from its old values."""
    head = f'extern "C" __global__ void f(const double* x, {kind}* c, double* y)'
    f = mg.differentiable(f"{head} {{ int i = threadIdx.x; y[i] = x[c[i]]; c[i] = 0; }}")
    dtype = {"int": "int32", "unsigned": "uint32", "long long": "int64", "bool": "bool"}[kind]
    at = np.array([1, 1, 0]).astype(dtype)
    x, c, y, w = (
        mg.tensor(a, device="sim") for a in (np.float64([1, 2, 3]), at, np.zeros(3), np.float64([1, 10, 100]))
    )
    x.requires_grad = True
    before = c.version.count
    out = f(x, c, y, grid=1, block=3)
    (out * w).sum().backward()
    assert (x.grad.numpy().tolist(), out.numpy().tolist()) == ([100, 11, 0], [2, 2, 1])
    assert (c.numpy().tolist(), c.version.count - before) == ([0, 0, 0], 1)


def test_named_parameters_alone():
    f = mg.differentiable(TEXT, wrt=["a"])
    x, a = mg.ones(8, device="sim"), mg.tensor(2.0, device="sim", requires_grad=True)
    y = mg.tensor(np.zeros(8, np.float32), device="sim", requires_grad=True)
    f(x, y, arguments()["at"], a, 6, grid=1, block=8).sum().backward()
    assert (a.grad.item(), y.grad) == (6, None)


ONE = ones(4)
HOST = np.ones(8, np.float32)
WRONG = {
    "too few": ({"at": ...}, "f takes 5 arguments \\(x, y, at, a, n\\); got 4"),
    "too many": ({"more": 1}, "f takes 5 arguments \\(x, y, at, a, n\\); got 6"),
    "another dtype": ({"x": ones(8, dtype="float64")}, r"argument 1 \(const float\* x\) is float32; got float64. Use"),
    "an array of another dtype": ({"x": np.ones(8)}, r"argument 1 \(const float\* x\) is float32; got float64. Use"),
    "an array of what is no number": ({"x": np.array(["a"])}, "cannot make numbers of ndarray"),
    "a number for an array": ({"y": 3}, r"argument 2 \(float\* y\) is a pointer and takes an array, .*; got int 3"),
    "a list": (
        {"y": [3]},
        r"argument 2 \(float\* y\) is a pointer and takes an array, .*; got list \[3\]\. Make it one",
    ),
    "nothing": ({"y": None}, r"argument 2 \(float\* y\) is None, and the kernel uses it without ask"),
    "an array for a number": ({"a": ones(2)}, r"argument 4 \(float a\) takes a number; got Tensor"),
    "a fraction": ({"n": 2.5}, r"argument 5 \(int n\) takes a whole number; got float 2.5"),
    "too large": ({"n": 2**40}, r"argument 5 \(int n\): 1099511627776 does not fit into int"),
    "one array of NumPy twice": ({"x": HOST, "y": HOST}, "f: x and y share memory and y is written; pass a copy"),
    "the same memory": ({"x": ONE, "y": ONE}, "f: x and y share memory and y is written; pass a copy"),
}
EXTENTS = {
    "no grid": ({"grid": None}, "f: give grid=, how many blocks, and block=, how many threads"),
    "empty": ({"grid": 0}, "f: grid.x=0 is outside 1 to"),
    "a fraction of a grid": ({"grid": 1.5}, "f: grid=1.5 must be one to three whole numbers"),
    "large": ({"block": 2048}, "f: block.x=2048 is outside 1 to 1024"),
    "large in all": ({"block": (64, 64)}, "f: block=64 x 64 x 1 needs 4096 threads in a block; a device allows 1024"),
    "another block": ({"block": (8, 2)}, "f: blockDim.y is 2, and its adjoint relies on 1"),
}


@pytest.mark.parametrize("forward", [False, True], ids=["vjp", "differentiable"])
@pytest.mark.parametrize("case", [*WRONG, *EXTENTS])
def test_wrong_arguments(made, case, forward):
    """The kernel and its adjoint reject them with the same sentence."""
    other, message = (WRONG | EXTENTS)[case]
    launch = {"grid": 1, "block": 8} | (other if case in EXTENTS else {})
    args = [a for a in arguments(**({} if case in EXTENTS else other)).values() if a is not ...]
    with pytest.raises((LaunchError, TypeError), match=message):
        if forward:
            mg.adjoint.Differentiable(made)(*args, **launch)
        else:
            made.vjp(*args, dy=[ones(8)], **launch)


GRADIENTS = {
    "none given": (None, "f: dy takes a list with the gradient of each output \\(y\\); got NoneType None"),
    "a word": ("y", "f: dy takes a list with the gradient of each output"),
    "too many": ([ones(8), ones(8)], "f: dy holds 2 gradients; it takes one for each output, None for 0: y"),
    "none at all": ([None], "f: dy is None for every output \\(y\\); None is a gradient of 0"),
    "a number": ([1.0], "f: dy of y takes a tensor or an array; got float 1.0"),
    "another shape": ([ones(3)], r"f: dy of y has shape \(3,\); it must be \(8,\), as y is"),
    "another dtype": ([ones(8, dtype="float64")], "f: dy of y is float64; it must be float32, as y is. Use .astype"),
}


@pytest.mark.parametrize("case", GRADIENTS)
def test_wrong_gradients(made, case):
    dy, message = GRADIENTS[case]
    with pytest.raises((LaunchError, TypeError), match=message):
        made.vjp(*arguments().values(), dy=dy, grid=1, block=8)


def test_gradients_that_are_taken(made):
    """NumPy arrays, one array for one output, numbers in tensors; the gradients are of the arguments' kind."""
    launch = {"grid": 1, "block": 8}
    for dy in (ones(8), [ones(8)], np.ones(8, np.float32), (np.ones(8, np.float32),)):
        dx, da = made.vjp(*arguments(a=mg.tensor(2.0), n=np.int64(6)).values(), dy=dy, **launch)
        assert (dx.numpy().tolist(), da.item()) == ([2] * 6 + [0] * 2, 6)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_number_in_a_tensor_has_a_gradient_like_itself(made, shape, dtype):
    a = mg.tensor(np.full(shape, 2.0, dtype), device="sim", requires_grad=True)
    given, launch = arguments(a=a), {"grid": 1, "block": 8}
    doubled = mg.differentiable(TEXT)(*arguments(a=a * 2).values(), **launch)
    (mg.adjoint.Differentiable(made)(*given.values(), **launch).sum() + doubled.sum()).backward()
    assert (a.grad.shape, a.grad.dtype, a.grad.numpy().item()) == (shape, np.dtype(dtype), 18)
    _, da = made.vjp(*given.values(), dy=[ones(8)], **launch)
    assert (da.shape, da.dtype, da.numpy().item()) == (shape, np.dtype(dtype), 6)
    host = np.full(shape, 2.0, dtype)
    _, da = made.vjp(
        *(arguments(a=host, x=np.ones(8, "f"), y=np.ones(8, "f"), at=np.zeros(8, "i")).values()),
        dy=np.ones(8, "f"),
        **launch,
    )
    assert (da.shape, da.dtype, da.item()) == (shape, np.dtype(dtype), 6)


def test_a_number_on_another_device_has_its_gradient_there():
    a = mg.tensor(2.0, device="numpy", requires_grad=True)
    mg.differentiable(TEXT)(*arguments(a=a * 3).values(), grid=1, block=8).sum().backward()
    assert (a.grad.device, a.grad.item()) == ("numpy", 18)


def test_arrays_that_are_only_read_may_be_one():
    text = 'extern "C" __global__ void f(float* a, float* b, float* y) { int i = threadIdx.x; y[i] = a[i] * b[i]; }'
    x, y = mg.tensor(np.float32([1, 2, 3]), device="sim", requires_grad=True), mg.zeros(3, device="sim")
    mg.differentiable(text)(x, x, y, grid=1, block=3).sum().backward()
    assert x.grad.numpy().tolist() == [2, 4, 6]


WINDOWS = """extern "C" __global__ void f(const double* x, double* y, int step) {
    int i = blockIdx.x * STEP + threadIdx.x;
    atomicAdd(&y[blockIdx.x], x[i] * x[i]);
}"""


@pytest.mark.parametrize(
    ("step", "wanted"), [("step", [2, 4, 66, 88, 100, 120, 0, 0, 0]), ("5", [2, 4, 6, 8, 0, 120, 140, 160, 180])]
)
def test_windows_that_overlap_or_leave_gaps(step, wanted):
    """A number in the index limits the block, since threads of a larger one meet; a parameter does not."""
    x, y = mg.tensor(np.arange(1.0, 10), device="sim"), mg.zeros(2, dtype="float64", device="sim")
    launch = {"dy": [mg.tensor(np.float64([1, 10]), device="sim")], "grid": 2, "block": 4}
    dx, *_ = mg.adjoint(WINDOWS.replace("STEP", step), ["x"]).vjp(x, y, 2, **launch)
    assert dx.numpy().tolist() == wanted
    with pytest.raises(LaunchError, match=r"blockDim.x is 4, and its adjoint relies on at most 2.*an int parameter"):
        mg.adjoint(WINDOWS.replace("STEP", "2"), ["x"]).vjp(x, y, 2, **launch)


def test_no_gradient_of_one_output_is_a_zero():
    text = TEXT.replace("y[i] = a * x[i];", "{ y[i] = a * x[i]; z[i] = x[i]; }").replace("int n", "float* z, int n")
    made = mg.adjoint(text)
    x, y, at, a, n = arguments().values()
    for dy, wanted in (([ones(8), None], 2), ([None, ones(8)], 1), ([ones(8), ones(8)], 3)):
        assert made.vjp(x, y, at, a, ones(8), n, dy=dy, grid=1, block=8)[0].numpy().tolist() == [wanted] * 6 + [0] * 2


CALLS = {
    "empty": (lambda: mg.adjoint(""), "no file ''; give the path of a .cu file or CUDA C"),
    "no file": (lambda: mg.adjoint("nosuch.cu"), "no file 'nosuch.cu'; give the path"),
    "a number": (lambda: mg.adjoint(3), "mg.adjoint takes CUDA C.. or the path of a .cu file; got int 3"),
    "an op": (lambda: mg.differentiable(mg.relu), "mg.adjoint takes CUDA C.. or the path of a .cu file; got Op"),
    "no kernel": (lambda: mg.adjoint("int f() {\n}"), "the text has no kernel. A kernel is `__glob"),
    "two kernels": (lambda: mg.adjoint(TEXT + TEXT.replace(" f(", " g(")), "has 2 kernels: f, g. Choose one, as by"),
    "no such kernel": (lambda: mg.adjoint(TEXT, name="g"), "the text has no kernel 'g'; it defines f"),
    "a name that is none": (lambda: mg.kernel(TEXT, name=3), "mg.kernel takes the name of a kernel"),
    "another name": (lambda: mg.adjoint(mg.kernel(TEXT, "f"), name="g"), "name='g' is for a source, wrt=.'g'. for a p"),
    "wrt a number": (lambda: mg.adjoint(TEXT, wrt=3), r"wrt takes the names of parameters, such as \['x'\]; got int 3"),
    "wrt twice over": (lambda: mg.adjoint(TEXT, ["x"], ["a"]), r"wrt comes once; got list \['x'\] and list \['a'\]"),
    "wrt nothing": (lambda: mg.adjoint(TEXT, wrt=[]), "f: wrt is empty, so there is no gradient; it has x, y, a"),
    "wrt no name": (lambda: mg.adjoint(TEXT, wrt=[None]), "f has no floating-point parameter None; it has x, y, a"),
    "wrt another": (lambda: mg.adjoint(TEXT, wrt=["nosuch"]), "f has no floating-point parameter 'nosuch'; it has x"),
    "wrt an int": (lambda: mg.adjoint(TEXT, wrt=["x", "n"]), "f has no floating-point parameter 'n'; it has x, y, a"),
    "wrt twice": (lambda: mg.adjoint(TEXT, wrt=["x", "a", "x"]), "wrt names 'x' twice; each parameter has one"),
    "no header": (
        lambda: mg.adjoint('#include "lost.h"\n__global__ void f(real_t* x) { x[0] *= 2; }'),
        "real_t. x has a type that is not known here, and there is no file lost.h. Put it beside"),
    "two structs": (
        lambda: mg.adjoint("namespace a { struct S { double u; }; } namespace b { struct S { double w, u; }; }\n"
                           "__global__ void f(const b::S* x, double* y) { y[0] = x[0].u; }"),
        "f.cu:1:64: S has several meanings in this file; give each a name of its own"),
    "no output": (lambda: mg.adjoint(f"{HEAD} {{ }}"), "f.cu:1:1: f writes to no floating-point array, so it has"),
}  # fmt: skip


@pytest.mark.parametrize("case", CALLS)
def test_wrong_sources_and_names(case):
    call, message = CALLS[case]
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
        call()


def test_the_microscope_watches_the_kernels_of_an_adjoint(made):
    """One record for each kernel of the adjoint, of the launch alone, whatever sums its copies afterwards."""
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    (record,) = made.inspect(x, y, np.zeros(8, np.int32), 2.0, 6, dy=y, grid=2, block=4)
    assert (record.kernel, record.grid[0], record.block[0]) == ("f_adjoint", 2, 4) and record.ok
    assert (record.traffic["block"] == 0).all() and not x[0]
    square = mg.adjoint(mg.adjoint.ladder("matmul_tiled", TILE=2))
    a = np.ones(4, np.float32)
    both = square.inspect(a, a, np.zeros(4, np.float32), 2, 2, 2, dy=[a], grid=1, block=(2, 2), blocks=0)
    assert [one.kernel for one in both] == [kernel.name for kernel in square.kernels] and len(both) == 2
    with pytest.raises(LaunchError, match="it takes one for each output"):
        made.inspect(x, y, np.zeros(8, np.int32), 2.0, 6, dy=[], grid=2, block=4)


def test_a_tape_that_was_too_short_leaves_one_record():
    loop = "float v = x[0]; while (v > 1) v = sqrtf(v) - 0.001f; y[0] = v;"
    made = mg.adjoint(f"{HEAD} {{ {loop} }}", wrt=["x"])
    made.slots = 1
    one = np.full(1, 100, np.float32)
    (record,) = made.inspect(one, one.copy(), np.zeros(1, np.int32), 0.0, 1, dy=[one], grid=1, block=1)
    assert made.slots > 1 and record.ok


ASKED = {
    "a branch": "if (w) y[i] = x[i] * w[i]; else y[i] = x[i] * x[i];",
    "a return": "if (!w) { y[i] = x[i] * x[i]; return; } y[i] = x[i] * w[i];",
    "a choice": "y[i] = x[i] * x[i] * (w ? w[i] : 1) / 2;",
    "a variable": "const bool has = w != nullptr; double v = x[i]; if (has && w[i] > 0.1) v *= w[i];\n"
    "if (i < 4 && has) { double u = w[0]; v *= u; } y[i] = v * x[i];",
    "a loop": "for (int j = 0; w && j < 3; ++j) { y[i] += x[i] * x[i] * w[j]; } y[i] += x[i];",
    "another pointer": "const double* p = w; y[i] = x[i]; if (p != NULL) y[i] *= *p;",
    "shared memory": "y[i] = x[i]; if (w) { __shared__ double s[4]; s[i] = w[i]; __syncthreads(); y[i] *= s[3 - i]; }",
    "a pointer or none": "const double* q = w ? w + i : nullptr; y[i] = x[i] * x[i]; if (q) y[i] *= *q;",
    "numbers": "y[i] = x[i] * x[i]; if (w == 0) y[i] *= 2; bool has = (bool)w; int n = w ? 3 : 1;\n"
    "if (has) y[i] *= w[i]; if (n > 2) y[i] += w[i];",
    "functions": "y[i] = x[i] * at(w, i) * other(w, i); if (w && at(w, i) > 0) y[i] *= x[i];",
    "a struct": "if (b.w) y[i] *= b.w[i]; y[i] += x[i] * x[i]; if (w) y[i] *= w[i];",
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("body", ASKED.values(), ids=ASKED)
def test_an_array_that_the_kernel_asks_for_may_be_missing(body):
    text = (
        "struct B { const double* w; };\n__device__ double at(const double* w, int i) { return w ? w[i] : 2; }\n"
        "__device__ double other(const double* w, int i) { if (w == nullptr) return 3; return w[i] * w[i]; }\n"
        f"__global__ void f(const double* x, double* y, const double* w, B b) {{ int i = threadIdx.x;\n{body}\n}}"
    )
    kernel, made = mg.kernel(text, "f"), mg.adjoint(text, "f", ["x", "w"] if " w" in body else ["x"])
    rng = np.random.default_rng(2)
    x, w, u = 0.3 + rng.random(4), 0.5 + rng.random(4), rng.standard_normal(4)

    def value(x, w):
        y = mg.tensor(np.zeros(4), device="sim")
        w = None if w is None else mg.tensor(w, device="sim")
        kernel(mg.tensor(x, device="sim"), y, w, {"w": w}, grid=1, block=4)
        return u @ y.numpy()

    for given in (w, None, w):
        found = made.vjp(x, np.zeros(4), given, {"w": given}, dy=[u], grid=1, block=4)
        slopes = [(value(x + step, given) - value(x - step, given)) / 2e-6 for step in 1e-6 * np.eye(4)]
        np.testing.assert_allclose(found[0], slopes, rtol=1e-6, atol=1e-8)
        assert len(found) == 1 or (found[1] is None) == (given is None)


def test_a_kernel_that_does_nothing_without_an_array():
    text = "__global__ void f(const double* x, const double* w, double* y) { if (!w) return; int i = threadIdx.x;\n"
    text += "y[i] = x[i] * w[i]; }"
    made, x = mg.adjoint(text), np.ones(4)
    dx, dw = made.vjp(x, None, np.zeros(4), dy=[x], grid=1, block=4)
    assert dx.tolist() == [0] * 4 and dw is None
    dx, dw = made.vjp(mg.tensor(x, device="sim"), None, mg.ones(4), dy=[x], grid=1, block=4)
    assert dx.device == "sim" and dx.numpy().tolist() == [0] * 4 and dw is None
    with pytest.raises(LaunchError, match=r"f takes 3 arguments \(x, w, y\); got 2"):
        made.vjp(x, None, dy=[x], grid=1, block=4)
    with pytest.raises(LaunchError, match="f: without w it writes to no array of floats"):
        mg.differentiable(text)(*(mg.tensor(v, device="sim") for v in (x,)), None, mg.ones(4), grid=1, block=4)


def test_missing_arrays_on_the_tape_and_among_the_outputs():
    text = "__global__ void f(const double* x, double* y, double* z) { int i = threadIdx.x; y[i] = x[i] * x[i];\n"
    text += "if (z != nullptr) z[i] = 3 * x[i]; }"
    x = mg.tensor(np.arange(1.0, 5), device="sim", requires_grad=True)
    y, z = mg.zeros(4, dtype="float64", device="sim"), mg.zeros(4, dtype="float64", device="sim")
    f = mg.differentiable(text)
    f(x, y, None, grid=1, block=4).sum().backward()
    assert x.grad.numpy().tolist() == [2, 4, 6, 8]
    sum(each.sum() for each in f(x, y, z, grid=1, block=4)).backward()
    assert x.grad.numpy().tolist() == [7, 11, 15, 19]
    with pytest.raises(LaunchError, match="f: dy of z is given, and z is None"):
        f.adjoint.vjp(x, y, None, dy=[y, z], grid=1, block=4)
    with pytest.raises(TypeError, match="f: all that wrt names is None"):
        mg.adjoint(text, ["z"]).vjp(x, y, None, dy=[y, None], grid=1, block=4)


def test_an_array_that_is_none_is_so_in_the_kernel_alone():
    """Another function may have a parameter of the same name."""
    text = """__device__ double at(const double* w, int i, double e) { return w ? w[i] * w[i] : e; }
__global__ void k(const double* x, const double* w, double* y) {
    int i = threadIdx.x;
    y[i] = at(x, i, 2.0) * (w ? w[i] : 3.0);
}"""
    x, y = np.arange(1.0, 9), np.zeros(8)
    dx, dw = mg.adjoint(mg.kernel(text, "k"), ["x", "w"]).vjp(x, None, y, dy=[np.ones(8)], grid=1, block=8)
    assert (dx == 6 * x).all() and dw is None


@pytest.mark.parametrize("kind", ["", ": unsigned char", ": short", ": uint32_t", ": long long"])
@pytest.mark.parametrize("key", ["enum", "enum class", "enum struct"])
def test_an_array_of_an_enum_has_its_type(key, kind):
    ahead = f"#include <cstdint>\n{key} Act {kind} {{ ONE, SQUARE = 4 }};"
    text = f"{ahead}\n__global__ void f(const double* x, const Act* a, double* y) {{ int i = threadIdx.x;\n"
    text += "    Act own = a[i]; y[i] = own == Act::SQUARE ? x[i] * x[i] : x[i]; }"
    x, y = np.arange(1.0, 5), np.zeros(4)
    sizes = {": unsigned char": np.uint8, ": short": np.int16, ": uint32_t": np.uint32, ": long long": np.int64}
    a = np.array([0, 4, 4, 0], sizes.get(kind, np.int32))
    (dx,) = mg.adjoint(text).vjp(x, a, y, dy=[np.ones(4)], grid=1, block=4)
    assert dx.tolist() == [1, 4, 6, 1]


@pytest.mark.parametrize(
    "barrier", ['asm volatile("" ::: "memory");', 'asm("");', '__asm__ __volatile__ ("" : : : "memory");']
)
def test_a_barrier_for_the_compiler_changes_no_gradient(barrier):
    text = f"__global__ void f(const double* x, double* y) {{ {I}double v = x[i] * x[i]; {barrier} y[i] = v; }}"
    (dx,) = mg.adjoint(text).vjp(np.arange(1.0, 5), np.zeros(4), dy=[np.ones(4)], grid=1, block=4)
    assert dx.tolist() == [2, 4, 6, 8]
