"""The kernels for tensor cores on the simulator, their PTX emulated in CUDA C++: the data of each lane, and no race."""

from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.devices.dtypes import is_bfloat16
from minigrad.kernels.extents import Span
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import View
from minigrad.lab.show.matmul_ladder import on_tensor_cores, owners
from minigrad.microscope import watching
from minigrad.source import CUDA, Source

EMULATED = Path(__file__).with_name("emulated_mma.cuh").read_text()
SMALLER = {  # the simulator has 48 KiB of shared memory for a block
    "ROWS = 128, COLUMNS = 256, WARP = 64, THREADS = 256": "ROWS = 32, COLUMNS = 64, WARP = 32, THREADS = 64",
    "DEPTH = 32, STAGES = 4": "DEPTH = 32, STAGES = 3",
    "SHARED = 221184": "SHARED = 49152",
}
SIZES = [(1, 1, 1), (8, 8, 8), (40, 72, 136), (33, 65, 70)]
SIM = get("sim")


def emulated(name: str) -> Kernel:
    """The kernel with smaller tiles, and its instructions emulated."""
    kernel = mg.matmul[name]
    product = (CUDA / "matmul/tensor_cores.cuh").read_text().replace('#include "matmul/mma.cuh"', EMULATED)
    for constants, smaller in SMALLER.items():
        assert constants in product
        product = product.replace(constants, smaller)
    text = kernel.source.text.replace('#include "matmul/tensor_cores.cuh"', product)
    made = Kernel(Source(text, "emulated.cu", CUDA), kernel.name, sizes="m n k batch=1", shared=49152)
    made.grid = tuple(Span(span.size, {"256": "64", "128": "32"}.get(span.piece, "")) for span in kernel.grid)
    made.block = (Span("64"),)
    return made


def numbers(dtype, *shape):
    """Random numbers that are exact in TF32, and in bfloat16 if that is the dtype."""
    drawn = np.random.default_rng(0).standard_normal(shape, np.float32)
    return (drawn.view(np.int32) & ~0x1FFF).view(np.float32).astype(dtype)


def product_of(name: str, x: np.ndarray, y: np.ndarray, shape: tuple, sizes: tuple) -> np.ndarray:
    """The kernel's result for two matrices."""
    out, one = Array.empty(SIM, shape, x.dtype), View.of((), ())
    emulated(name).launch(*sizes)(Array.upload(SIM, x), Array.upload(SIM, y), out, *sizes, one, one)
    return out.numpy().astype(np.float64)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("unit", ["tf32", "bf16"])
def test_every_lane_has_the_operands_of_its_instruction(unit, sizes):
    m, n, k = sizes
    dtype = np.float32 if unit == "tf32" else pytest.importorskip("ml_dtypes").bfloat16
    a, b, dy = (numbers(dtype, *shape) for shape in ((m, k), (k, n), (m, n)))
    ways = {
        "": (a, b, a.astype(float) @ b.astype(float)),
        "_backward_a": (dy, b, dy.astype(float) @ b.astype(float).T),
        "_backward_b": (a, dy, a.astype(float).T @ dy.astype(float)),
    }
    for end, (x, y, exact) in ways.items():
        got = product_of(f"mma_{unit}{end}", x, y, exact.shape, sizes)
        rtol = 2**-8 if is_bfloat16(x.dtype) else 1e-5
        np.testing.assert_allclose(got, exact, rtol=rtol, atol=1e-4, err_msg=end)


def test_tf32_rounds_to_nearest():
    a = np.float32([[1 + 3 * 2**-12, 1 + 2**-12, 1 + 2**-11 + 2**-20]])
    got = product_of("mma_tf32", a, np.eye(3, dtype=np.float32), (1, 3), (1, 3, 3))
    assert got.tolist() == [[1 + 2**-10, 1, 1 + 2**-10]]


def test_there_is_no_race():
    a, b = numbers(np.float32, 33, 100), numbers(np.float32, 100, 65)
    with watching() as report:
        product_of("mma_tf32", a, b, (33, 65), (33, 65, 100))
    assert report.problems == [] and [record.kernel for record in report.launches] == ["matmul_mma_tf32"]


@pytest.mark.parametrize("unit", ["tf32", "bf16"])
def test_a_thread_owns_the_elements_in_its_picture(unit):
    dtype = np.float32 if unit == "tf32" else pytest.importorskip("ml_dtypes").bfloat16
    a, b = numbers(dtype, 128, 8), numbers(dtype, 8, 128)
    with watching(blocks=1) as report:
        product_of(f"mma_{unit}", a, b, (128, 128), (128, 128, 8))
    found, drawn = owners(report.launches[0], 128)[:32, :32], on_tensor_cores(f"mma_{unit}")[:32, :32]
    assert ((found == 3) == (drawn == 3)).all() and (found >= 2).all() and (drawn >= 2).all()
