"""Adjoints of kernels of half and bfloat16: gradients are added up in float, and have the dtype of their array."""

import re
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad.adjoint import NotDifferentiable
from minigrad.devices.dtypes import dtype_of

HEADERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
# As people write it, in both types of 16 bits: names of one type and the other, and of float.
NAMES = {
    "half": {"H": "half", "H2": "half2", "h2": "half2", "of_float": "__float2half", "to_float": "__half2float",
             "spread": "__half2half2", "pair": "__floats2half2_rn", "floats": "__half22float2"},
    "bfloat16": {"H": "__nv_bfloat16", "H2": "__nv_bfloat162", "h2": "bfloat162", "of_float": "__float2bfloat16",
                 "to_float": "__bfloat162float", "spread": "__bfloat162bfloat162",
                 "pair": "__floats2bfloat162_rn", "floats": "__bfloat1622float2"},
}  # fmt: skip
WIDE = {"H": "float", "H2": "float2", "of_float": "", "to_float": "", "spread": "both", "pair": "make_float2",
        "floats": ""}  # fmt: skip
CALLS = {
    "__hmul2": "times",
    "__hadd": "add",
    "__hmax": "fmaxf",
    "__hfma": "fmaf",
    "hexp": "expf",
    "hrcp": "inverse",
    "__hgt": "greater",
}
OF_FLOAT = """
__device__ float2 operator*(float2 a, float2 b) { return make_float2(a.x * b.x, a.y * b.y); }
__device__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ float2 both(float a) { return make_float2(a, a); }
__device__ float2 times(float2 a, float2 b) { return a * b; }
__device__ float add(float a, float b) { return a + b; }
__device__ float inverse(float a) { return 1 / a; }
__device__ bool greater(float a, float b) { return a > b; }
"""
KERNELS = {
    "intrinsics": """
__global__ void k(const H* x, const H* w, H* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        H a = __hadd(x[i], w[0]);
        H b = __hgt(a, of_float(0.25f)) ? hexp(a) : a * a + hrcp(a - of_float(2.0f));
        y[i] = of_float(to_float(b) * 0.5f) + x[i];
    }
}""",
    "pairs": """
__device__ H twice(H v) { return v + v; }
__global__ void k(const H2* x, const H* z, H2* y, H* out, float* sums, int n) {
    __shared__ H tile[8];
    int i = threadIdx.x;
    H2 v = __hmul2(x[i], spread(z[0]));
    v = v * v + x[i];
    v.y = __hmax(v.y, z[1]);
    float2 f = floats(v);
    tile[i] = of_float(f.x * f.y);
    __syncthreads();
    H total = 0;
    for (int j = 0; j < n; j++) { total = __hfma(tile[j], of_float(0.5f), total); }
    y[i] = pair(f.x, to_float(total));
    out[i] = twice((H)((float)z[i] * f.y));
    atomicAdd(sums, to_float(z[i]) * f.x);
}""",
    "taped": """
__global__ void k(const H* x, H* y, const int* rounds, int n) {
    int i = threadIdx.x;
    H v = x[i];
    for (int r = 0; r < rounds[i]; ++r) v = v * v + of_float(0.25f);
    float other = __shfl_xor_sync(0xffffffffu, to_float(v), 1);
    v += __shfl_down_sync(0xffffffffu, v, 2);
    y[i] = v * of_float(other);
}""",
}
CASES = {"intrinsics": ((32,), (1,), (32,)), "pairs": ((4, 2), (4,), (4, 2), (4,), None),
         "taped": ((32,), (32,), "rounds")}  # fmt: skip


def written(kernel, names):
    text = re.sub(r"\b(H2|H|of_float|to_float|spread|pair|floats)\b", lambda m: names[m[1]], KERNELS[kernel])
    if names is not WIDE:
        return HEADERS + text
    return OF_FLOAT + re.sub(r"\b(__hmul2|__hadd|__hmax|__hfma|hexp|hrcp|__hgt)\b", lambda m: CALLS[m[1]], text)


def arguments(kernel, dtype):
    rng = np.random.default_rng(3)
    arrays = []
    for shape in CASES[kernel]:
        if shape == "rounds":
            arrays.append(rng.integers(0, 4, 32).astype(np.int32))
        else:
            values = rng.integers(-12, 13, shape or (1,)) / 16  # exact in every type
            arrays.append(values.astype(dtype if shape else np.float32))
    return [*arrays, len(arrays[0])]


def gradients(kernel, names, dtype, device):
    made, args = mg.adjoint(written(kernel, names)), arguments(kernel, dtype)
    params = [p.name for p in made.primal.signature.params]
    rng = np.random.default_rng(4)
    dy = []
    for name in made.outputs:
        like = args[params.index(name)]
        dy.append(mg.tensor(rng.integers(-2, 3, like.shape).astype(like.dtype), device=device))
    args = [mg.tensor(a, device=device) if isinstance(a, np.ndarray) else a for a in args]
    found = made.vjp(*args, dy=dy, grid=1, block=len(args[0]))
    assert [d.dtype for d in found] == [args[params.index(name)].dtype for name in made.wrt]
    return dict(zip(made.wrt, [d.numpy().astype(np.float64) for d in found], strict=True))


@pytest.mark.sample(3)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("kind", "error"), [("half", 2e-3), ("bfloat16", 2e-2)])
def test_gradients_are_those_of_the_kernel_in_float(kernel, kind, error, kernel_device):
    dtype = dtype_of("float16" if kind == "half" else kind)
    found = gradients(kernel, NAMES[kind], dtype, kernel_device)
    expected = gradients(kernel, WIDE, np.float32, kernel_device)
    assert found.keys() == expected.keys()
    for name, d in expected.items():
        assert np.any(d), name
        assert np.abs(found[name] - d).max() < error * np.abs(d).max(), name


def test_a_sum_of_halves_is_added_up_in_float(kernel_device):
    """2049 ones: in half 2048 + 1 is 2048, and halves of each warp would be lost long before."""
    text = HEADERS + "__global__ void k(const half* x, half* y) { y[threadIdx.x + blockIdx.x * 683] = x[0]; }"
    x, y, dy = (mg.tensor(np.ones(n, np.float16), device=kernel_device) for n in (1, 2049, 2049))
    made = mg.adjoint(text)
    assert "float* __restrict__ d_x" in made.source
    (d,) = made.vjp(x, y, dy=dy, grid=3, block=683)
    assert d.dtype == np.float16
    assert d.item() == np.float16(2049)


def test_what_is_not_read_is_told(kernel_device):
    with pytest.raises(NotDifferentiable, match="P holds a half; pass it as float, or in an array of its own"):
        mg.adjoint(HEADERS + "struct P { half x; };\n__global__ void k(const P* p, float* y) { y[0] = (float)p[0].x; }")
    with pytest.raises(NotDifferentiable, match="__hadd2 takes pairs of halves; got half"):
        mg.adjoint(HEADERS + "__global__ void k(const half* x, half2* y) { y[0] = __hadd2(x[0], x[1]); }")
    made = mg.adjoint(HEADERS + "__global__ void k(const half* x, half* y) { y[0] = x[0] * x[0]; }")
    x, y = (mg.tensor(np.ones(1, np.float16), device=kernel_device) for _ in range(2))
    with pytest.raises(TypeError, match="dy of y is float32; it must be float16"):
        made.vjp(x, y, dy=mg.tensor([1.0], device=kernel_device), grid=1, block=1)


def test_the_device_converts(kernel_device, monkeypatch):
    """Each value of half is exact in float, and back; the nearest half of others."""
    half = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    half = half[~np.isnan(half)]
    near = half.astype(np.float32) * np.float32(1.0003)
    x, y = (mg.tensor(v, device=kernel_device) for v in (half, near))
    monkeypatch.setattr(sys.modules["minigrad.devices.dtypes"], "convert", None)
    wide, narrow = x.astype("float32"), y.astype("float16")
    assert (wide.dtype, narrow.dtype) == (np.float32, np.float16)
    np.testing.assert_array_equal(wide.numpy(), half.astype(np.float32))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(narrow.numpy(), near.astype(np.float16))
