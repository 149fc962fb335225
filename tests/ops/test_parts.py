"""Products with a long sum and a small result, whose parts are worked out by blocks of their own."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.array import Array
from minigrad.devices.dry_run import DryRun
from minigrad.microscope import watching
from minigrad.ops.matmul.parts import shared_by


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ((64, 64, 16384), 16),  # 8 tiles of 16 x 32
        ((64, 64, 4096), 4),
        ((64, 64, 4095), 1),  # as fast by one launch
        ((16, 4096, 4096), 1),  # 128 tiles are a block for nearly each multiprocessor
        ((512, 256, 784), 1),
        ((1, 1, 2**20), 132),
        ((2048, 2048, 8192), 1),
    ],
)
def test_so_many_blocks_share_a_tile(sizes, parts):
    assert shared_by(*sizes, 132) == parts


def test_only_long_sums_of_small_results_are_shared():
    def kernels(m, k, n):
        device = DryRun()
        a, b, dy = (Array.empty(device, shape, np.dtype(np.float32)) for shape in ((m, k), (k, n), (m, n)))
        mg.matmul.vjp([a, b], dy, {})
        return [launch.kernel.removeprefix("matmul_") for launch in device.launches]

    assert kernels(64, 16384, 64)[:2] == ["split_k_parts", "sum_strips"]
    assert kernels(16384, 64, 64)[-2:] == ["split_k_parts_backward_b", "sum_strips"]
    assert "split_k_parts_backward_a" in kernels(64, 64, 16384)
    assert not any("parts" in name for name in kernels(64, 4095, 64))


def test_parts_of_a_result_too_large_for_two_are_none():
    device = DryRun()
    x, y = (Array.empty(device, shape, np.dtype(np.float32)) for shape in ((2**15, 64), (64, 2**15 + 16)))
    mg.matmul.using("split_k_parts").run([x, y], {})
    assert [launch.kernel for launch in device.launches] == ["matmul_split_k"]


def test_the_parts_are_added_up_at_once_whatever_sum_prefers():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 40960), (40960, 2)))
    mg.sum["strips"].prefer((4, 40), {"CHUNK": 32})
    try:
        found = (mg.tensor(a, device="sim") @ mg.tensor(b, device="sim")).numpy()
    finally:
        mg.sum["strips"].forget()
    np.testing.assert_allclose(found, a @ b, rtol=1e-3)


@pytest.mark.parametrize("sizes", [(20, 4200, 40), (4200, 20, 40), (40, 20, 4200), (2, 4096, 3)])
def test_the_parts_are_the_product(sizes):
    m, k, n = sizes
    rng = np.random.default_rng(0)
    a, b, dy = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
    x, y = (mg.tensor(given, requires_grad=True, device="sim") for given in (a, b))
    with watching() as report:
        z = x @ y
        z.backward(mg.tensor(dy, device="sim"))
    assert report.problems == [] and any("split_k_parts" in launch.kernel for launch in report.launches)
    for got, exact in ((z, a.astype(float) @ b), (x.grad, dy.astype(float) @ b.T), (y.grad, a.T.astype(float) @ dy)):
        np.testing.assert_allclose(got.numpy(), exact, rtol=1e-5, atol=1e-3)


def test_a_kernel_that_is_asked_for_takes_any_sizes():
    rng = np.random.default_rng(1)
    op = mg.matmul.using("split_k_parts")
    for m, k, n in ((3, 5, 7), (33, 129, 65), (2, 0, 3), (70, 200, 40)):
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        got = op(mg.tensor(a, device="sim"), mg.tensor(b, device="sim"))
        np.testing.assert_allclose(got.numpy(), a @ b, rtol=1e-12, atol=1e-12)
