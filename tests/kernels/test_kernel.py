"""A user's own kernel: checks of its text and arguments before a launch."""

import os
import subprocess
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.cuda import compiler as nvcc
from minigrad.errors import CompileError, KernelError, LaunchError
from minigrad.source import Source

FILL = 'extern "C" __global__ void fill(real* y, real v) { y[threadIdx.x] = v; }'


def on_sim(values, dtype):
    return mg.tensor(np.array(values, dtype), device="sim")


def test_extern_c_around_several_kernels():
    y = on_sim([0], np.int32)
    both = "__global__ void a(int* y) { y[0] = 1; } __global__ void b(int* y) { y[0] += 2; }"
    for name in "ab":
        mg.kernel(f'extern "C" {{ {both} }}', name)(y, grid=1, block=1)
    assert y.item() == 3


def test_parameters_without_a_name():
    text = "__global__ void k(const float* x, float* y, int, float, const float*) { y[0] = x[0] * x[0]; }"
    assert [param.name for param in mg.kernel(text).signature.params[2:]] == ["unnamed", "unnamed_2", "unnamed_3"]
    text = text.replace("* x,", "* unnamed_2,").replace("x[0]", "unnamed_2[0]")
    assert [param.name for param in mg.kernel(text).signature.params[2:]] == ["unnamed", "unnamed_3", "unnamed_4"]
    (dx,) = mg.adjoint(text).vjp(
        *(on_sim([3], "f4"), on_sim([0], "f4"), 1, 0.5, None), dy=[on_sim([2], "f4")], grid=1, block=1
    )
    assert dx.item() == 12


@pytest.mark.parametrize(("flag", "result"), [(True, 1), (False, 0), (7, 7)])
def test_a_boolean_define_is_a_number(flag, result):
    y = on_sim([-1], np.int32)
    text = 'extern "C" __global__ void k(int* y) { y[0] = 0;\n#if FAST\ny[0] = FAST;\n#endif\n}'
    mg.kernel(text, "k", defines={"FAST": flag})(y, grid=1, block=1)
    assert y.item() == result


@pytest.mark.parametrize(
    ("dtype", "value", "error"),
    [
        (np.int32, 2**40, "does not fit into int"),
        (np.int32, 1.5, "takes a whole number; got float 1.5"),
        (np.uint8, 256, "does not fit into unsigned char"),
        (np.uint32, -1, "does not fit into unsigned"),
        (np.float32, "a", "takes a number; got str"),
    ],
)
def test_a_real_parameter_has_the_type_of_the_arrays(dtype, value, error):
    with pytest.raises((LaunchError, TypeError), match=rf"fill: argument 2 \(real v\).*{error}"):
        mg.kernel(FILL, "fill")(on_sim([0], dtype), value, grid=1, block=1)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(np.int64, 2**40), (np.uint64, 2**64 - 1), (np.uint32, 2**32 - 1), (np.uint8, 255), (np.float64, 0.1)],
)
def test_a_real_parameter_arrives_whole(dtype, value):
    y = on_sim([0], dtype)
    mg.kernel(FILL, "fill")(y, value, grid=1, block=1)
    assert y.item() == value


TURNS = """extern "C" __global__ void k(
    unsigned* turns, const unsigned int* x, uint2* pairs, const uint4* fours, unsigned n) {
    atomicInc(turns, n);
    atomicMax(&turns[1], x[threadIdx.x]);
    pairs[threadIdx.x] = {fours[threadIdx.x].w, n};
}"""


@pytest.mark.parametrize("defines", [{"A B": 1}, {"": 1}, {1: 1}, {"A": None}])
def test_defines_that_are_no_macros_are_rejected(defines):
    with pytest.raises(ValueError, match=r"mg.kernel fill: defines=.* is no macro; write \{'TILE': 16\}"):
        mg.kernel(FILL, "fill", defines)


def test_atomics_of_64_bits(kernel_device):
    text = """extern "C" __global__ void k(unsigned long long* w) {
    atomicAdd(&w[0], 1ull << 40);
    atomicCAS(&w[1], 5ull, ~0ull);
    atomicMax(&w[2], (unsigned long long)threadIdx.x);
}"""
    w = mg.tensor(np.array([1, 5, 0], np.uint64), device=kernel_device)
    mg.kernel(text, "k")(w, grid=1, block=3)
    assert w.dtype == np.uint64 and w.numpy().tolist() == [1 + 3 * 2**40, 2**64 - 1, 2]


def test_unsigned_arrays(kernel_device):
    def there(values):
        return mg.tensor(np.array(values, np.uint32), device=kernel_device)

    turns, x, pairs, fours = there([0, 0]), there([7, 2**32 - 1, 2**31]), there([0] * 6), there(range(12))
    k = mg.kernel(TURNS, "k")
    k(turns, x, pairs, fours, 2**32 - 1, grid=1, block=3)
    assert turns.dtype == np.uint32 and turns.numpy().tolist() == [3, 2**32 - 1]
    assert pairs.numpy().tolist() == [3, 2**32 - 1, 7, 2**32 - 1, 11, 2**32 - 1]
    with pytest.raises(TypeError, match=r"\(unsigned\* turns\) is uint32; got float32. Use .astype\('uint32'\)"):
        k(pairs.astype("float32"), x, pairs, fours, 1, grid=1, block=3)
    with pytest.raises(LaunchError, match="holds 3 elements; uint4 reads 4 at a time"):
        k(turns, x, pairs, x, 1, grid=1, block=3)
    with pytest.raises(
        TypeError, match=r"argument 1 \(fp8\* y\): pointers to fp8 are not known here; those to numbers"
    ):
        mg.kernel('extern "C" __global__ void s(fp8* y) {}', "s")(turns, grid=1, block=1)


def test_a_kernel_that_does_not_compile_has_changed_nothing():
    w = mg.ones(2, device="sim", requires_grad=True)
    c = mg.ones(2, device="sim")
    loss = (w * c).sum()
    with pytest.raises(CompileError):
        mg.kernel('extern "C" __global__ void k(float* y) { y[0] = nothing; }', "k")(c, grid=1, block=1)
    loss.backward()
    assert w.grad.numpy().tolist() == [1, 1]


def test_a_fault_is_reported_for_the_kernel_that_caused_it():
    x = mg.zeros(3, device="sim")
    bad = mg.kernel('extern "C" __global__ void bad(float* x) { x[-1] = 1; assert(false); }', "bad")
    with pytest.raises(KernelError, match="assert"):
        bad(x, grid=1, block=1)
    mg.kernel(FILL, "fill")(x, 2.0, grid=1, block=3)
    assert x.numpy().tolist() == [2, 2, 2]


def test_an_edited_header_is_compiled_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: "nvcc")
    monkeypatch.setattr(nvcc, "_version", lambda: "13.0")
    monkeypatch.setattr(nvcc, "_nvcc", lambda compiler, source, options, image: image.write_text(options[-1]))
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.h").write_text('#include "sub/b.cuh"\n')
    for number in (1, 2):
        (tmp_path / "sub" / "b.cuh").write_text(f"#define N {number}\n")
        source = Source('#include "a.h"\n', "k.cu", tmp_path)
        assert [path.name for path in source.included] == ["a.h", "b.cuh"]
        for _ in range(2):
            assert nvcc.cubin(source, {}, "sm_90") == f"-I{tmp_path}".encode()
        assert len(list((tmp_path / "cache").iterdir())) == number


@pytest.mark.soak  # the runtime is compiled for it
def test_the_first_use_from_several_threads(tmp_path):
    script = """
import threading, numpy as np, minigrad as mg
text = 'extern "C" __global__ void k(int* y) { y[threadIdx.x] = threadIdx.x; }'
right = []
def use():
    y = mg.zeros(64, dtype="int32", device="sim")
    mg.kernel(text, "k")(y, grid=1, block=64)
    right.append((y.numpy() == np.arange(64)).all())
threads = [threading.Thread(target=use) for _ in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
assert len(right) == 4 and all(right)
"""
    environment = os.environ | {"MINIGRAD_CACHE": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, env=environment)


def test_a_launch_without_grid_says_what_to_give():
    with pytest.raises(LaunchError, match=r"twice: give grid=, how many blocks, and block=, how many threads"):
        mg.kernel('extern "C" __global__ void twice(float* x) {}', "twice")(mg.zeros(1, device="sim"))


def test_a_kernel_with_views_says_how_to_make_them():
    x = mg.zeros((2, 2), device="sim")
    with pytest.raises(LaunchError, match=r"got 3\. a_at is a view: mg\.view\.broadcast\(shape, to\)"):
        mg.matmul["vectorized"].launch(2, 2, 2)(x, x, x)


@pytest.mark.parametrize(
    ("message", "line", "hint"),
    [
        ('identifier "i" is undefined', "i = threadIdx.x;", "A new variable begins with its type"),
        ('expected a ";"', "}", "Each statement ends with a semicolon"),
        ("expression must have pointer-to-object type", "y[0][1] = 0;", "An array is flat"),
        ("expression must have pointer-to-object type", "y[0] = k[0];", "A number has no elements"),
        ('"i" has already been declared in the current scope', "int i = 1;", "without the type"),
        ("expression must be a modifiable lvalue", "x[0] = y[0];", "Write to the one without"),
        ('more than one instance of overloaded function "max" matches', "y[0] = max(x[0], 0);", "real(0) for a real"),
        ("return value type does not match the function type", "return x[0];", "A kernel returns nothing"),
        ('a value of type "const float *" cannot be used to initialize an entity of type "float"', "", "an element is"),
        ("this declaration has no storage class", "twice(3);", ""),
    ],
)
def test_compile_errors_of_nvcc_get_hints(message, line, hint):
    source = Source(f"// a text\n{line}", "k.cu")
    text = str(nvcc.explain(source, f'k.cu(2): error: {message}\n1 error detected in the compilation of "k.cu".'))
    assert text.startswith(f"k.cu(2): error: {message}\n    {line}")
    assert hint in text.splitlines()[-1] and len(text.splitlines()) == (3 if hint else 2), text


@pytest.mark.parametrize(("body", "hinted"), [("y[0] = 2 * y;", True), ("y[0] = y;", True), ("int* p = y;", False)])
def test_an_array_in_place_of_an_element_gets_a_hint(body, hinted):
    with pytest.raises(CompileError) as caught:
        mg.kernel(f"__global__ void bad(float* y) {{\n    {body}\n}}", "bad")(
            mg.zeros(3, device="sim"), grid=1, block=3
        )
    assert str(caught.value).endswith("is its address: an element is x[i].") is hinted


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("y[0] = n[1];", "A number has no elements. An array comes as a pointer"),
        ("y[0][1] = n;", "An array is flat"),
        ("y[0] = y[n * 0.5f];", "An index is a whole number"),
    ],
)
def test_an_index_that_does_not_fit_gets_a_hint(body, hint):
    with pytest.raises(CompileError, match=hint):
        mg.inspect(f"__global__ void k(float* y, int n) {{ {body} }}", np.ones(4, np.float32), 1, grid=1, block=1)


def test_compile_errors_of_the_simulator_get_hints():
    bad = mg.kernel('extern "C" __global__ void bad(float* y) {\n    i = threadIdx.x;\n}', "bad")
    with pytest.raises(CompileError, match=r"bad\.cu\(2\): error(.*\n)*A new variable begins with its type: int i"):
        bad(mg.zeros(3, device="sim"), grid=1, block=3)


def test_a_kernel_without_tunables_has_its_macros_from_defines():
    plain = mg.kernel('extern "C" __global__ void plain(float* y) { y[0] = 1; }', "plain")
    with pytest.raises(LaunchError, match=r"plain knows no TILE; .* macros are the defines= of mg.kernel"):
        plain.using(TILE=8)


def test_a_function_that_lacks_device_is_named():
    text = "float square(float v) { return v * v; }\n__global__ void k(float* y) { y[0] = square(3); }\n"
    with pytest.warns(UserWarning, match="code for the host is left out: square"):
        made = mg.kernel(text, "k")
    with pytest.raises(CompileError, match=r"square is a function of the host. .* write __device__ in front of it"):
        made(mg.zeros(1, device="sim"), grid=1, block=1)
