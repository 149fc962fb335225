"""Intrinsics on the lanes of a word, four bytes, two shorts or two halves, against NumPy; on `sim` and a GPU."""

import os
import subprocess

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.cuda.toolkit import find_nvcc

COUNT = 256
# x and y are the lanes of two words, each as a wider integer; of the kinds s and u the lanes are signed and unsigned.
LANES = {
    "add": ("s", lambda x, y: x + y), "sub": ("s", lambda x, y: x - y),
    "maxs": ("s", np.maximum), "maxu": ("u", np.maximum), "mins": ("s", np.minimum), "minu": ("u", np.minimum),
    "avgs": ("s", lambda x, y: np.sign(x + y) * ((np.abs(x + y) + 1) // 2)), "avgu": ("u", lambda x, y: (x + y + 1) // 2),
    "haddu": ("u", lambda x, y: (x + y) // 2),
    "absdiffs": ("s", lambda x, y: np.abs(x - y)), "absdiffu": ("u", lambda x, y: np.abs(x - y)),
    "cmpeq": ("s", lambda x, y: -1 * (x == y)), "cmpne": ("s", lambda x, y: -1 * (x != y)),
    "cmpgts": ("s", lambda x, y: -1 * (x > y)), "cmpgtu": ("u", lambda x, y: -1 * (x > y)),
    "cmples": ("s", lambda x, y: -1 * (x <= y)), "cmpleu": ("u", lambda x, y: -1 * (x <= y)),
    "seteq": ("s", lambda x, y: x == y), "setges": ("s", lambda x, y: x >= y), "setltu": ("u", lambda x, y: x < y),
    "abs": ("s", lambda x, y: np.abs(x)), "neg": ("s", lambda x, y: -x),
}  # fmt: skip
SATURATED = {"addss": ("s", np.add), "addus": ("u", np.add), "subss": ("s", np.subtract), "subus": ("u", np.subtract)}
TYPES = {(4, "s"): np.int8, (4, "u"): np.uint8, (2, "s"): np.int16, (2, "u"): np.uint16}
WORDS = [*LANES, *SATURATED, "sads", "sadu"]


def words(lanes):
    calls = [f"__v{name}{lanes}({'x' if name in ('abs', 'neg') else 'x, y'})" for name in WORDS]
    body = "".join(f"    out[{i} * n + t] = {call};\n" for i, call in enumerate(calls))
    head = f"__global__ void lanes{lanes}(const unsigned* xs, const unsigned* ys, unsigned* out, int n)"
    return f"{head} {{\n    int t = threadIdx.x;\n    unsigned x = xs[t], y = ys[t];\n{body}}}\n"


HALVES = {  # of two halves each: the NumPy function
    "__hadd2(x, y)": np.add, "__hsub2(x, y)": np.subtract, "__hmul2(x, y)": np.multiply, "__h2div(x, y)": np.divide,
    "__hfma2(x, y, x)": lambda x, y: (x.astype("f8") * y + x).astype("f2"),
    "__hmin2(x, y)": np.fmin, "__hmax2(x, y)": np.fmax, "__hneg2(x)": lambda x, y: -x, "__habs2(x)": lambda x, y: np.abs(x),
    "__hgt2(x, y)": np.greater, "__hle2(x, y)": np.less_equal, "__heq2(x, y)": np.equal, "__hne2(x, y)": np.not_equal,
    "__low2half2(x)": lambda x, y: x[:, [0, 0]], "__high2half2(x)": lambda x, y: x[:, [1, 1]],
    "__lows2half2(x, y)": lambda x, y: np.stack([x[:, 0], y[:, 0]], 1),
    "__highs2half2(x, y)": lambda x, y: np.stack([x[:, 1], y[:, 1]], 1),
    "__float22half2_rn(__half22float2(x))": lambda x, y: x,
    "__floats2half2_rn(__low2float(x), __high2float(y))": lambda x, y: np.stack([x[:, 0], y[:, 1]], 1),
    "__halves2half2(__high2half(x), __low2half(y))": lambda x, y: np.stack([x[:, 1], y[:, 0]], 1),
    "__float2half2_rn(__half2float(__low2half(y)))": lambda x, y: y[:, [0, 0]],
}  # fmt: skip
BODY = "".join(f"    out[{i} * n + t] = {call};\n" for i, call in enumerate(HALVES))
TEXT = f"""#include <cuda_fp16.h>
{words(4)}{words(2)}__global__ void halves(const half2* xs, const half2* ys, half2* out, int n) {{
    int t = threadIdx.x;
    half2 x = xs[t], y = ys[t];
{BODY}}}
__global__ void narrow(const double* xs, half* out, int n) {{ out[threadIdx.x] = __double2half(xs[threadIdx.x]); }}
"""


def run(name, inputs, out, device):
    *given, out = (mg.tensor(each, device=device) for each in (*inputs, out))
    mg.kernel(TEXT, name)(*given, out, COUNT, grid=1, block=COUNT)
    return out.numpy()


def drawn(dtype):
    """Words whose lanes are often the ends of their range, or equal."""
    rng, ends = np.random.default_rng(0), np.iinfo(dtype)
    x, y = rng.integers(ends.min, ends.max + 1, (2, COUNT * 4 // np.dtype(dtype).itemsize)).astype(dtype)
    x[:8], y[:8] = [ends.min] * 4 + [ends.max] * 4, [ends.min, ends.max, 0, 1] * 2
    y[40:80] = x[40:80]
    return x.view(np.uint32), y.view(np.uint32)


@pytest.mark.parametrize("lanes", [4, 2])
def test_lanes_of_a_word(lanes, kernel_device):
    x, y = drawn(TYPES[lanes, "s"])
    out = run(f"lanes{lanes}", (x, y), np.zeros(len(WORDS) * COUNT, np.uint32), kernel_device).reshape(-1, COUNT)
    for name, seen in zip(WORDS, out, strict=True):
        kind, function = (LANES | SATURATED).get(name, (name[-1], lambda a, b: np.abs(a - b)))
        dtype = TYPES[lanes, kind]
        wanted = function(*(each.view(dtype).astype(np.int64) for each in (x, y)))
        if name in SATURATED:
            wanted = wanted.clip(np.iinfo(dtype).min, np.iinfo(dtype).max)
        if name.startswith("sad"):
            wanted = wanted.reshape(COUNT, lanes).sum(1).astype(np.uint32)
        np.testing.assert_array_equal(
            seen, wanted.astype(TYPES[lanes, "u"]).view(np.uint32) if name[:3] != "sad" else wanted, name
        )


def test_two_halves(kernel_device):
    x, y = np.random.default_rng(1).normal(size=(2, COUNT, 2)).astype(np.float16)
    y[:40] = x[:40]
    out = run("halves", (x.ravel(), y.ravel()), np.zeros(len(HALVES) * COUNT * 2, np.float16), kernel_device)
    for (call, function), seen in zip(HALVES.items(), out.reshape(-1, COUNT, 2), strict=True):
        np.testing.assert_array_equal(seen, function(x, y).astype(np.float16), call)


def test_a_double_is_rounded_to_half_once(kernel_device):
    rng = np.random.default_rng(2)
    middle = 1 + (2 * rng.integers(0, 1024, COUNT) + 1) * 2.0**-11  # half way between two halves
    x = middle + rng.choice([0, 1, -1], COUNT) * 2.0**-40  # which a float does not hold
    out = run("narrow", (x,), np.zeros(COUNT, np.float16), kernel_device)
    np.testing.assert_array_equal(out, x.astype(np.float16))


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc on this machine")
def test_the_kernels_are_cuda(tmp_path):
    (tmp_path / "packed.cu").write_text(TEXT)
    options = "-std=c++17", "-arch=sm_80", "-ptx", "-o", os.devnull
    done = subprocess.run([find_nvcc(), *options, tmp_path / "packed.cu"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
