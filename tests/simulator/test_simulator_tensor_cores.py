"""The instructions of tensor cores on the simulator: fragments as in NVIDIA's manual, rounding, whole warps, room."""

import numpy as np
import pytest
from sim_kernels import filled

import minigrad as mg
from minigrad import rounding
from minigrad.errors import KernelError, LaunchError
from minigrad.kernels.kernel import Kernel
from minigrad.source import CUDA, Source

# The lanes hold what the PTX manual says for m16n8k8 and m16n8k16: registers count in words, of one TF32 or two
# bfloat16. b is transposed.
TEXT = """
#include "matmul/mma.cuh"
extern "C" __global__ void product(const unsigned* a, const unsigned* b, float* c, bool bf16, int lanes) {
    int g = threadIdx.x / 4, w = threadIdx.x % 4;
    unsigned tall[4] = {a[g * 8 + w], a[(g + 8) * 8 + w], a[g * 8 + w + 4], a[(g + 8) * 8 + w + 4]};
    float *up = c + g * 8 + w * 2, *low = up + 64, sum[4] = {up[0], up[1], low[0], low[1]};
    if (threadIdx.x >= lanes) return;
    if (bf16) mma_bf16(sum, tall, b[g * 8 + w], b[g * 8 + w + 4]);
    else mma_tf32(sum, tall, b[g * 8 + w], b[g * 8 + w + 4]);
    up[0] = sum[0], up[1] = sum[1], low[0] = sum[2], low[1] = sum[3];
}
extern "C" __global__ void load(const unsigned* x, unsigned* y, bool transposed, int shift) {
    __shared__ __align__(16) unsigned rows[33 * 4];
    unsigned own[4];
    for (int i = 0; i < 4; ++i) rows[threadIdx.x * 4 + i] = x[threadIdx.x * 4 + i];
    __syncwarp();
    if (transposed) load_transposed(own, rows + threadIdx.x * 4 + shift);
    else load_matrices(own, rows + threadIdx.x * 4 + shift);
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = own[i];
}
extern "C" __global__ void cut(const float* x, unsigned* tf32, unsigned* bf16, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        tf32[i] = to_tf32(__float_as_uint(x[i]));
        bf16[i] = bfloat16(x[i]).bits << 16;
    }
}
extern "C" __global__ void other_calls(float* c) {
    unsigned tall[4] = {};
    float sum[4] = {};
    if (threadIdx.x == 5) __syncwarp();
    else mma_tf32(sum, tall, 0, 0);
}
extern "C" __global__ void roomy(float* y) {
    extern __shared__ float dynamic[];
    __shared__ float fixed[1024];
    dynamic[0] = fixed[0] = 1, dynamic[57087] = 2;
    y[0] = dynamic[57087] + fixed[0];
}
"""
SOURCE = Source(TEXT, "instructions.cu", CUDA)
RNG = np.random.default_rng(0)


def launched(name, *args, block=32):
    """Run a kernel on tensors of these arrays; returns the last one."""
    given = [mg.tensor(arg, device="sim") if isinstance(arg, np.ndarray) else arg for arg in args]
    Kernel(SOURCE, name)(*given, grid=1, block=block)
    return next(arg for arg in reversed(given) if hasattr(arg, "numpy")).numpy()


def test_tf32_is_truncated_and_summed_in_float32():
    a, b, c = (RNG.standard_normal(shape).astype(np.float32) for shape in ((16, 8), (8, 8), (16, 8)))
    got = launched("product", a.view(np.uint32), b.T.copy().view(np.uint32), c, False, 32)
    x, y = ((v.view(np.uint32) & ~np.uint32(0x1FFF)).view(np.float32).astype(float) for v in (a, b))
    np.testing.assert_allclose(got, c + x @ y, rtol=1e-6, atol=1e-6)


def test_bfloat16_is_summed_in_float32():
    a, b, c = (RNG.standard_normal(shape).astype(np.float32) for shape in ((16, 16), (16, 8), (16, 8)))
    x, y = ((v.view(np.uint32) >> 16).astype(np.uint16) for v in (a, b.T.copy()))
    got = launched("product", x.view(np.uint32), y.view(np.uint32), c, True, 32)
    x, y = ((v.astype(np.uint32) << 16).view(np.float32).astype(float) for v in (x, y))
    np.testing.assert_allclose(got, c + x @ y.T, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_lane_gets_a_pair_of_a_row_or_column_of_each_matrix(transposed):
    x = np.arange(32 * 8, dtype=np.uint16).reshape(4, 8, 8)
    pairs = (x.swapaxes(1, 2) if transposed else x).reshape(4, 32, 2)  # lane i: a pair of row i / 4
    got = launched("load", x.reshape(32, 8).view(np.uint32), np.zeros((32, 4), np.uint32), transposed, 0)
    np.testing.assert_array_equal(got.view(np.uint16).reshape(32, 4, 2).swapaxes(0, 1), pairs)


def test_rounding_is_to_nearest_with_ties_to_even():
    special = np.float32(
        [0.0, -0.0, 1e-45, 3.4028235e38, np.inf, -np.inf, np.nan, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8]
    )
    x = np.concatenate([RNG.standard_normal(100).astype(np.float32), special])
    tf32, bf16 = (mg.tensor(np.zeros(x.size, np.uint32), device="sim") for _ in range(2))
    launched("cut", x, tf32, bf16, x.size)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(tf32.numpy().view(np.float32), rounding.rounded(x, "tf32"))
        np.testing.assert_array_equal(bf16.numpy().view(np.float32), rounding.rounded(x, "bf16"))


@pytest.mark.parametrize(("lanes", "block", "absent"), [(32, 31, 1), (20, 32, 12)])
def test_a_product_takes_all_lanes(lanes, block, absent):
    a, b, c = (np.zeros(shape, dtype) for shape, dtype in (((16, 8), "u4"), ((8, 8), "u4"), ((16, 8), "f4")))
    with pytest.raises(KernelError, match=rf"mma takes the 32 lanes of a warp, and {absent} have returned") as caught:
        launched("product", a, b, c, False, lanes, block=block)
    assert (caught.value.kind, caught.value.file) == ("barrier-divergence", "matmul/mma.cuh")


def test_lanes_that_make_other_calls_are_named():
    with pytest.raises(KernelError, match=r"lane 0 waits at mma in line \d+, lane 5 at __syncwarp"):
        launched("other_calls", np.zeros(1, np.float32))


def test_rows_begin_at_multiples_of_16_bytes():
    with pytest.raises(KernelError, match="must begin at a multiple of 16 bytes") as caught:
        launched("load", *np.zeros((2, 32, 4), np.uint32), False, 1)
    assert caught.value.kind == "misaligned"


def test_a_kernel_that_asks_gets_the_shared_memory_of_an_h100():
    kernel, y = Kernel(SOURCE, "roomy"), filled(1)
    kernel.run([y], (3, 1, 1), (1, 1, 1), 227 * 1024 - 4096, {})
    assert y.numpy().tolist() == [3]
    for shared, static in ((227 * 1024 - 4092, 4096), (227 * 1024 + 4, 0)):
        with pytest.raises(
            LaunchError, match=rf"static shared memory of {static} bytes and dynamic of {shared}.*232448"
        ):
            kernel.run([y], (1, 1, 1), (1, 1, 1), shared, {})
    with pytest.raises(LaunchError, match="a block may use 0 to 232448 bytes"):
        kernel(y, grid=1, block=1, shared=232452)
