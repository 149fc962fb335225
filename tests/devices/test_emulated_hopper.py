"""The kernels of wgmma on the simulator, their PTX emulated in CUDA C++: boxes, swizzle, stages, tiles, the store."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.devices.tensor_map import TensorMap
from minigrad.kernels.extents import Span
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import View, broadcast
from minigrad.lab.show.matmul_ladder import by_wgmma
from minigrad.ops.matmul.strategies import BOXES
from minigrad.source import CUDA, Source

EMULATED = Path(__file__).with_name("emulated_hopper.cuh").read_text()
STAGES = "extern __shared__ __align__(1024) unsigned char memory[];"  # 192 KiB; the simulator has 48
ROOM = "unsigned char* memory = (unsigned char*)(a.word[7] + blockIdx.x * 200704);"
INSTEAD = {STAGES: ROOM}
BLOCKS = 2
SIM = get("sim")


def emulated(name: str) -> Kernel:
    """The kernel with its instructions emulated, on two blocks, its stages in memory that the map of a names."""
    product = (CUDA / "matmul/wgmma.cuh").read_text().replace('#include "matmul/hopper.cuh"', EMULATED)
    for text, other in INSTEAD.items():
        assert text in product
        product = product.replace(text, other)
    kernel = mg.matmul[name]
    text = kernel.source.text.replace('#include "matmul/wgmma.cuh"', product)
    made = Kernel(Source(text, "emulated.cu", CUDA), kernel.name, sizes="m n k batch=1")
    made.grid, made.block = (Span(str(BLOCKS)),), kernel.block
    return made


def described(array: Array, rows: int, columns: int, tall: int, room: int) -> TensorMap:
    """The map of an array of matrices for the emulated copy engine."""
    shape = (array.size // (rows * columns), rows, columns)
    given = TensorMap(array, shape, (1, tall, 64))
    given.rest[:] = [*shape, *given.box, room, *[0] * 8]
    return given


def product_of(name: str, x: np.ndarray, y: np.ndarray, shape: tuple, sizes: tuple, views: tuple) -> np.ndarray:
    """The kernel's result for two batches of matrices."""
    memory = ctypes.create_string_buffer(BLOCKS * 200704 + 1024)
    room = -(-ctypes.addressof(memory) // 1024) * 1024
    m, n, k, count = sizes
    extents = {"m": m, "n": n, "k": k}
    given = [Array.upload(SIM, x), Array.upload(SIM, y)]
    boxes = BOXES[f"matmul_{name}"]
    maps = [
        described(array, extents[rows], extents[columns], tall, room)
        for array, (rows, columns, tall) in zip(given, boxes, strict=True)
    ]
    out = Array.empty(SIM, shape, x.dtype)
    emulated(name).launch(m, n, k, count)(*maps, out, m, n, k, count, *views)
    return out.numpy().astype(np.float64)


@pytest.mark.parametrize("sizes", [(1, 8, 8), (130, 264, 72), (200, 72, 328)])
@pytest.mark.parametrize("end", ["", "_backward_a", "_backward_b"])
def test_the_product_and_its_gradients(end, sizes):
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    m, n, k = sizes
    rng = np.random.default_rng(0)
    a, b, dy = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
    x, y, exact = {
        "": (a, b, a.astype(float) @ b.astype(float)),
        "_backward_a": (dy, b, dy.astype(float) @ b.astype(float).T),
        "_backward_b": (a, dy, a.astype(float).T @ dy.astype(float)),
    }[end]
    one = View.of((), ())
    got = product_of(f"wgmma{end}", x, y, exact.shape, (m, n, k, 1), (one, one))
    np.testing.assert_allclose(got, exact, rtol=2**-8, atol=1e-4)


def test_a_batch_with_a_broadcast_factor():
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((3, 40, 16), (2, 1, 16, 24)))
    views = broadcast((3,), (2, 3)), broadcast((2, 1), (2, 3))
    got = product_of("wgmma", a, b, (2, 3, 40, 24), (40, 24, 16, 6), views)
    np.testing.assert_allclose(got, a.astype(float) @ b.astype(float), rtol=2**-8, atol=1e-4)


NUMBERED = {
    "uint4 eight = exchange(pair, lane);": "unsigned two = threadIdx.x * 65537; uint4 eight = {two, two, two, two};",
    "make_float2(sum[i * 2], sum[i * 2 + 1])": "make_float2(threadIdx.x, threadIdx.x)",
    "wgmma_tf32(sum, A::slice(a_tile, i), B::slice(b_tile, i))": "",
}


@pytest.mark.parametrize("name", ["wgmma", "wgmma_tf32"])
def test_a_thread_stores_the_elements_in_its_picture(monkeypatch, name):
    """Each thread stores its number, and bfloat16's smallest numbers are whole multiples of 2**-133."""
    dtype = np.float32 if "tf32" in name else pytest.importorskip("ml_dtypes").bfloat16
    for text, other in NUMBERED.items():
        monkeypatch.setitem(INSTEAD, text, other)
    one = View.of((), ())
    got = product_of(name, np.ones((128, 8), dtype), np.ones((8, 256), dtype), (128, 256), (128, 256, 8, 1), (one, one))
    thread = got if "tf32" in name else got * 2.0**133
    assert set(thread.ravel()) == set(range(256))
    assert (by_wgmma(name) == 1 + (thread < 32) + (thread == 0)).all()
