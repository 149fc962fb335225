"""The device `sim` runs CUDA C++ as written."""

import ctypes
import gc

import numpy as np
import pytest
from sim_kernels import array, filled, works

import minigrad as mg
from minigrad.devices import get
from minigrad.errors import KernelError
from minigrad.kernels.source_kernel import kernel
from minigrad.simulator import Simulator


@pytest.mark.parametrize(
    "grid, block", [((1,), (1,)), ((5,), (33,)), ((3, 2), (8, 4)), ((2, 3, 4), (4, 2, 3)), ((7,), (1024,))]
)
def test_every_thread_of_every_block_runs_once(grid, block):
    (gx, gy, gz), (bx, by, bz) = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
    y = works("indices", filled(gx * gy * gz * bx * by * bz, np.int32, -1), grid=grid, block=block)
    z, v, x = np.indices((gz * bz, gy * by, gx * bx))
    assert (y.reshape(z.shape) == x + 100 * v + 10000 * z).all()


def test_parameters_lie_as_in_cudas_buffer(monkeypatch):
    from minigrad.kernels.arguments import STRUCTS

    class Pair(ctypes.Structure):
        _fields_ = (("tag", ctypes.c_byte), ("value", ctypes.c_double))

    monkeypatch.setitem(STRUCTS, "Pair", Pair)
    assert works("parameters", True, Pair(7, 8.0), 9.0, 10 << 32, filled(5, np.int32)).tolist() == [1, 7, 8, 9, 10]


def test_static_shared_memory():
    assert (works("shared_static", filled(32)) == 496 + 31 - np.arange(32) + 0.25 + 1000.5).all()


def test_dynamic_shared_memory():
    rows = np.arange(32, dtype=np.float32).reshape(8, 4)
    assert (works("shared_dynamic", filled(32), shared=128) == rows[::-1].ravel() + 1).all()


def test_shared_memory_begins_as_nan_in_every_block():
    assert np.isnan(works("shared_undefined", filled(32 * 50), grid=50)).all()


@pytest.mark.parametrize("block", [1, 2, 31, 32, 33, 1023, 1024])
def test_barriers(block):
    assert (works("barriers", filled(block, np.int32), block=block) == 1 + np.arange(block)).all()


def test_barriers_that_vote():
    assert (works("barrier_votes", filled(64, np.int32), block=64) == 40 + 2000 + 4000).all()


@pytest.mark.parametrize("name, dtype", [("int", "i4"), ("float", "f4"), ("double", "f8"), ("long", "i8")])
def test_shuffles(name, dtype):
    i = np.arange(32)
    segment, within = i // 8 * 8, i % 8
    expected = [
        np.full(32, 5), segment + (i + 1) % 8,
        np.where(i >= 3, i - 3, i), np.where(within >= 3, i - 3, i),
        np.where(i + 3 < 32, i + 3, i), np.where(within + 3 < 8, i + 3, i),
        i ^ 5, np.where((i ^ 12) // 8 > i // 8, i, i ^ 12),
    ]  # fmt: skip
    assert (works(f"shuffle_{name}", filled(256, dtype)).reshape(8, 32) == expected).all()


def test_a_shuffle_from_a_lane_that_is_not_there_is_nan():
    y = works("shuffle_partial", filled(40), block=40)
    assert (y[:24] == 1).all() and (y[24:32] == 1).all() and np.isnan(y[32:]).sum() == 8


def test_votes_and_warp_reductions():
    i = np.arange(32)
    expected = 1 + np.where(i < 16, 6, 0) + np.where(i % 4 == 1, 8, 0) + 16 + 32 + 64
    assert (works("votes", filled(32, np.int32)) == expected).all()


def test_atomics_from_all_blocks():
    i, f, d, q = (
        array([0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0], "i4"),
        filled(2),
        filled(1, "f8"),
        array([0, 1 << 50, 0], "i8"),
    )
    works("atomics", i, f, d, q, grid=20, block=100)
    n = 2000
    xor = np.bitwise_xor.reduce(np.arange(n))
    assert i.numpy().tolist() == [n, -2 * n, 1 - n, n - 1, 0, 255, xor, 3 * n, n % 10, n - 1, 2 * n, 77]
    assert f.numpy().tolist() == [n, 2.5] and d.numpy().tolist() == [n / 2]
    assert q.numpy().tolist() == [n << 33, 0, 1 << 40]


def test_a_spin_lock_lets_its_holder_run():
    assert works("lock", filled(2, np.int32), grid=4, block=64).tolist() == [0, 256]


@pytest.mark.skipif(get("sim").workers < 2, reason="one core")
def test_blocks_run_at_the_same_time():
    assert works("two_blocks", filled(1, np.int32), grid=2, block=1).tolist() == [2]


def test_constants_and_globals():
    y = works("globals", filled(4), block=4)
    assert (np.sort(y - [1, 2, 3, 4]) - np.arange(4) == y.min() - 1).all()


def test_vector_types():
    x = np.arange(32, dtype=np.float32)
    p, y, d = filled(16, "i4"), filled(32), filled(16, "f8")
    works("vectors", array(x), y, p, d, block=8)
    assert (y.numpy().reshape(8, 4) == x.reshape(8, 4)[:, ::-1]).all()
    assert p.numpy().tolist() == [12, 16] * 8 and d.numpy().tolist() == [1.5, 2.5] * 8


def test_printf_comes_out_through_python(capsys):
    works("nothing", grid=2)
    works("hello", 2, grid=2)
    lines = sorted(capsys.readouterr().out.splitlines())  # the order of blocks is left open
    assert lines == [f"thread {t} of block, {b}.5" for t in (0, 1) for b in (0, 1)]


FUNCTIONS = {
    "exp(x)": np.exp, "exp2(x)": np.exp2, "log(fabs(x))": lambda x: np.log(abs(x)), "tanh(x)": np.tanh,
    "sqrt(fabs(x))": lambda x: np.sqrt(abs(x)), "rsqrt(fabs(x))": lambda x: 1 / np.sqrt(abs(x)), "sin(x)": np.sin,
    "pow(fabs(x), x)": lambda x: abs(x) ** x, "fmax(x, (real)0.5)": lambda x: np.maximum(x, 0.5), "floor(x)": np.floor,
    "max(x, -x)": abs, "fma(x, x, x)": lambda x: x * x + x, "isfinite(x) ? x : INFINITY": lambda x: x, "min(x, NAN)": lambda x: x,
    "x * x - x * x": lambda x: 0 * x, "log1p(fabs(x))": lambda x: np.log1p(abs(x)), "cbrt(x)": np.cbrt, "copysign(x, -x)": np.negative,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mathematics_agrees_with_numpy(dtype):
    lines = "\n".join(f"y[{i} * n + t] = {text};" for i, text in enumerate(FUNCTIONS))
    body = f"int t = threadIdx.x; real x = in[t];\n{lines}"
    x = np.random.default_rng(0).standard_normal(500).astype(dtype)
    y = filled(len(FUNCTIONS) * 500, dtype)
    kernel(f'extern "C" __global__ void m(const real* in, real* y, int n) {{ {body} }}', "m")(
        array(x), y, 500, grid=1, block=500
    )
    for (text, function), row in zip(FUNCTIONS.items(), y.numpy().reshape(-1, 500), strict=True):
        few_ulp = 8 * np.finfo(dtype).eps
        np.testing.assert_allclose(
            row, function(x), rtol=few_ulp, atol=few_ulp * (text == "fma(x, x, x)"), err_msg=text
        )


def test_fast_functions_and_bits():
    text = """extern "C" __global__ void k(float* y, float x) {
        y[0] = __expf(x) / expf(x); y[1] = __fdividef(x, 2); y[2] = __int_as_float(__float_as_int(x)); y[3] = __saturatef(x);
        y[4] = __popc(255) + __clz(1) + __ffs(8) + __brev(1u << 31); y[5] = __float2int_rn(2.5f) + __float2int_rz(-7.9f);
        y[6] = max(3, 5u) + min(2LL, 3LL) + fminf(1, NAN); y[7] = rsqrtf(x * x) * x; y[8] = __fmaf_rn(x, 2, 1);
        float s, c; sincosf(x, &s, &c); y[9] = s * s + c * c;
    }"""
    y = filled(10)
    kernel(text, "k")(y, 3.0, grid=1, block=1)
    np.testing.assert_allclose(y.numpy(), [1, 1.5, 3, 1, 8 + 31 + 4 + 1, 2 - 7, 5 + 2 + 1, 1, 7, 1], rtol=1e-6)


def test_fresh_memory_is_nan_in_every_floating_type():
    sim, host = get("sim"), np.empty(1000, np.uint8)
    sim.download(sim.allocate(1000).address, host)
    bfloat16 = (host.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    for values in (host.view(np.float16), host.view(np.float32), host.view(np.float64), bfloat16):
        assert np.isnan(values).all()


def test_memory_is_reused_and_begins_as_nan():
    gc.collect()
    sim = get("sim")
    first = sim.allocate(1000)
    address = first.address
    assert address % 16 == 0
    sim.zero(address, 1000)
    del first
    again = sim.allocate(1010)
    assert again.address == address - 16  # the same pages, with the end where it belongs
    host = np.empty(250, np.float32)
    sim.download(again.address, host)
    assert np.isnan(host).all()


def test_unused_memory_goes_back_to_the_system():
    sim = Simulator()
    buffers = [sim.allocate(2**20) for _ in range(4)]
    del buffers
    assert sim._pool()._free_bytes == 4 * 2**20
    sim._pool().trim()
    assert sim._pool()._free_bytes == 0


def test_copies():
    sim, x = get("sim"), np.arange(6, dtype=np.float64)
    a, b = array(x), filled(6, np.float64)
    sim.copy(b.address, a.address + 8, 40)
    assert b.numpy().tolist() == [1, 2, 3, 4, 5, 0]
    sim.zero(b.address + 8, 16)
    assert b.numpy().tolist() == [1, 0, 0, 4, 5, 0]


@pytest.mark.parametrize(("include", "works"), [("", False), ("#define NDEBUG\n#include <cassert>\n", True)])
def test_ndebug_turns_assert_off(include, works):
    look = kernel(f"{include}__global__ void look(float* y) {{ assert(y[0] > 1); y[0] = 5; }}", "look")
    if works:
        look(y := filled(1), grid=1, block=1)
        assert y.numpy().tolist() == [5]
    else:
        with pytest.raises(KernelError, match=r"assert\(y\[0\] > 1\) failed"):
            look(filled(1), grid=1, block=1)


def test_new_and_delete():
    text = """struct Pair { float a; __device__ Pair() : a(4) {} __device__ ~Pair() { *seen += 1; } float* seen; };
    __global__ void look(float* y) {
        float* p = new float[4]; Pair* q = new Pair[2]; int* r = new int(7);
        p[1] = q[0].a; q[0].seen = q[1].seen = y + 1;
        y[0] = p[1] + *r;
        delete[] p; delete[] q; delete r;
    }"""
    kernel(text, "look")(y := filled(2), grid=1, block=1)
    assert y.numpy().tolist() == [11, 2]


@pytest.mark.parametrize("look", [False, True])
def test_the_index_of_one_of_two_arrays(look):
    text = """struct Row { float v[3]; __device__ const float& operator[](int n) const { return v[n]; } };
    struct Same { __device__ const float* operator()(const float* p) const { return p; } };
    __device__ const float* row(bool c, const float (&a)[3], const float (&b)[3]) { return &(c ? a : b)[1]; }
    __global__ void k(const float* x, float* y) {
        __shared__ float s[3], t[3];
        int i = threadIdx.x;
        if (i < 3) { s[i] = x[i]; t[i] = x[3 + i]; }
        __syncthreads();
        float a[2][3] = {{x[0], x[1], x[2]}}, b[2][3] = {{x[3], x[4], x[5]}};
        y[i] = (i & 1 ? s : t)[i % 3] + 10 * (i & 1 ? a : b)[0][i % 3];
        (i & 1 ? a : b)[1][i % 3] = (i & 1 ? Row{{x[0], x[1], x[2]}} : Row{{x[3], x[4], x[5]}})[i % 3];
        y[i] += 100 * (i & 1 ? a[1] : b[1])[i % 3] + 1000 * *row(i & 1, s, t);
        y[i] += 1e4f * (i++, i & 1 ? t : s)[--i % 3] - 1e4f * Same{}(i & 1 ? s : t)[i % 3];
    }"""
    x, i = np.arange(1, 7, dtype=np.float32), np.arange(32)
    y = mg.zeros(32, device="sim")
    if look:
        assert not mg.inspect(text, mg.tensor(x, device="sim"), y, grid=1, block=32).problems
    else:
        kernel(text)(mg.tensor(x, device="sim"), y, grid=1, block=32)
    rows = x.reshape(2, 3)[1 - i % 2]
    assert (y.numpy() == 111 * rows[i, i % 3] + 1000 * rows[:, 1]).all()
