"""Products with a vector: right in every shape and split into chunks."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import check
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.errors import CompileError
from minigrad.microscope import watching
from minigrad.op import Case
from minigrad.ops.matmul.kernels import HEIGHTS

ROWS, COLUMNS = "vector_rows", "vector_columns"


SETTINGS = [{"SHARE": share} for share in (1, 2, 4, 8, 16, 32, 256)] + [{"HEIGHT": height} for height in HEIGHTS]
SHAPES = [
    *(((m, k), (k,)) for m, k in ((1, 1), (7, 3), (33, 65), (9, 1028), (2, 1025), (0, 3), (3, 0))),
    *(((k,), (k, n)) for k, n in ((1, 1), (3, 7), (65, 33), (1025, 2), (1025, 4), (131, 68), (3, 0), (0, 3))),
    *(((2, 5, 7), (2, 7, 1)), ((3, 1, 7), (7, 9)), ((5,), (2, 5, 3)), ((2, 1, 9), (2, 9, 36)), ((6, 1), (1, 9))),
]


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_sums_by_any_number_of_threads(setting, dtype, kernel_device):
    (name,), kernels = setting, mg.matmul.kernels
    op = mg.matmul.with_kernels({r: k.using(**setting) if name in k.tunables else k for r, k in kernels.items()})
    for shapes in SHAPES:
        check.bounds(op, Case(shapes), kernel_device, dtype)


@pytest.mark.parametrize(
    ("kernel", "given"), [(ROWS, {"SHARE": 3}), (ROWS, {"SHARE": 64}), (COLUMNS, {"HEIGHT": 18})], ids=str
)
def test_threads_that_cannot_share_evenly_are_rejected(kernel, given):
    matrix, vector = mg.ones(5, 5, device="sim"), mg.ones(5, device="sim")
    with pytest.raises(CompileError, match="static assertion failed"):
        mg.matmul.using(kernel, **given)(*((matrix, vector) if kernel == ROWS else (vector, matrix)))


LONG = [
    *(((40961,), (40961,)), ((3, 50001), (50001,)), ((20001,), (20001, 3))),
    *(((2, 1, 40963), (2, 40963, 1)), ((1301,), (3, 1301, 36))),
]


@pytest.mark.parametrize("shapes", LONG, ids=str)
def test_long_sums_are_split_and_the_same_each_time(shapes):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    with watching() as report:
        found, again = (mg.tensor(a, device="sim") @ mg.tensor(b, device="sim") for _ in range(2))
    assert report.problems == [] and report.launches[1].kernel == "matmul_vector_parts"
    np.testing.assert_allclose(found.numpy(), a.astype(float) @ b, rtol=1e-5, atol=1e-3)
    np.testing.assert_array_equal(found.numpy(), again.numpy())


@pytest.mark.sample(3)
@pytest.mark.parametrize("shapes", [*LONG, ((33, 68), (68,)), ((65,), (65, 36)), ((2, 1), (1, 5))], ids=str)
def test_a_sum_of_bfloat16_is_added_in_float32_and_rounded_once(shapes):
    rng = np.random.default_rng(0)
    a, b = (mg.tensor(rng.standard_normal(shape), device="sim").astype("bfloat16") for shape in shapes)
    with watching() as report:
        found = a @ b
    exact = a.numpy().astype(float) @ b.numpy().astype(float)
    assert report.problems == [] and not any("mma" in launch.kernel for launch in report.launches)
    np.testing.assert_allclose(found.numpy().astype(float), exact, rtol=0.51 * 2**-7, atol=2e-3)


def begun_at(skipped, shape, device):
    """Small integers that begin `skipped` numbers behind a multiple of 16 bytes, and the same on the host."""
    size = int(np.prod(shape))
    host = np.arange(skipped + size, dtype=np.float32) * 5 % 7 - 3
    whole = Array.upload(get(device), host)
    moved = Array(whole.device, shape, whole.dtype, whole.buffer, whole.address + 4 * skipped)
    return moved, host[skipped:].reshape(shape)


@pytest.mark.parametrize(
    "shapes", [((3, 64), (64,)), ((2, 3, 64), (64,)), ((70,), (70, 64)), ((70,), (2, 70, 36))], ids=str
)
@pytest.mark.parametrize("skipped", [(1, 0), (0, 1), (2, 3), (4, 1), (3, 3)], ids=str)
def test_misaligned_arrays(skipped, shapes, kernel_device):
    (a, a_host), (b, b_host) = (
        begun_at(first, shape, kernel_device) for first, shape in zip(skipped, shapes, strict=True)
    )
    got = mg.matmul.run([a, b], {})
    np.testing.assert_array_equal(got.numpy(), a_host @ b_host)


def test_the_sums_leave_out_columns_beyond_the_last():
    matrix = np.ones((9, 37), np.float32)
    matrix[4, 36] = np.nan
    found = (mg.tensor(np.ones(9, np.float32), device="sim") @ mg.tensor(matrix, device="sim")).numpy()
    np.testing.assert_array_equal(found, np.append(np.full(36, 9), np.nan))


@pytest.mark.parametrize(
    "seen",
    [lambda a: a.T, lambda a: a[1:], lambda a: a[:, 1:], lambda a: a[::2, ::3]],
    ids=["T", "1:", ":, 1:", "::2, ::3"],
)
def test_views_of_a_matrix(seen):
    host = (np.arange(70 * 36, dtype=np.float32) * 5 % 7).reshape(70, 36)
    matrix, wanted = seen(mg.tensor(host, device="sim")), seen(host)
    left, right = (np.arange(size, dtype=np.float32) % 5 for size in wanted.shape)
    np.testing.assert_array_equal((matrix @ mg.tensor(right, device="sim")).numpy(), wanted @ right)
    np.testing.assert_array_equal((mg.tensor(left, device="sim") @ matrix).numpy(), left @ wanted)
