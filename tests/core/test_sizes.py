"""The largest arrays that kernels can index, on a device that only notes what it is asked to do."""

from math import prod

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.array import MAX_ELEMENTS, Array
from minigrad.devices.caches import Cache
from minigrad.devices.device import MAX_GRID
from minigrad.devices.dry_run import DryRun
from minigrad.kernels.view import View
from minigrad.lab.bench.work import work_of
from minigrad.op import OPS

F4 = np.dtype("float32")


class Counting(DryRun):
    """Looks at the numbers that a kernel is given: all that it indexes must lie within an int."""

    name = "cuda"  # whose labels nobody looks at
    largest = 0

    def launch(self, module, name, grid, block, shared, arguments):
        super().launch(module, name, grid, block, shared, arguments)
        fields = [getattr(arguments.packed, field) for field, *_ in arguments.packed._fields_]
        for view in (field for field in fields if isinstance(field, View)):
            shape, stride = view.shape[: view.ndim], view.stride[: view.ndim]
            assert all(n >= 0 for n in shape)
            if prod(shape):
                ends = [(n - 1) * s for n, s in zip(shape, stride, strict=True)]
                assert view.offset + sum(min(end, 0) for end in ends) >= 0
                assert view.offset + sum(max(end, 0) for end in ends) < MAX_ELEMENTS
        assert all(0 <= extent <= most for extent, most in zip(grid, MAX_GRID, strict=True))


@pytest.fixture
def device(monkeypatch):
    for kernel in {id(kernel): kernel for op in OPS.values() for kernel in op.kernels.values()}.values():
        monkeypatch.setattr(kernel, "_modules", Cache())  # where there is a GPU, what was compiled for it
    return Counting()


def array(device, *shape, dtype="float32"):
    return Array.empty(device, shape, np.dtype(dtype))


def largest(op, device):
    """Inputs of as many elements as there can be, and parameters."""
    n = MAX_ELEMENTS
    match op.name:
        case "softmax" | "log_softmax":
            return [array(device, n // 64, 64)], {"axis": 0}
        case "cross_entropy":
            return [array(device, n // 64, 64), array(device, n // 64, dtype="int64")], {"reduction": "mean"}
        case "layer_norm" | "rms_norm":
            columns = [array(device, 63) for _ in op.inputs.names[1:3]]
            return [array(device, n // 63, 63), *columns[: 2 - (op.name == "rms_norm")]], {}
        case "embedding":
            return [array(device, n // 64, dtype="int64"), array(device, 64, 64)], {}
        case "attention":
            return [array(device, 1, 1, n // 64, 64), *(array(device, 1, 1, 3, 64) for _ in range(2))], {}
        case "attention_dropout":
            few = [array(device, 1, 1, 3, 64) for _ in range(2)]
            return [array(device, 1, 1, n // 64, 64), *few, array(device, 2, dtype="uint64")], {}
        case "matmul_transposed":
            return [array(device, n // 64, 64), array(device, 64, 64)], {}
        case "bias_gelu_tanh":
            return [array(device, n // 64, 64), array(device, 64)], {}
        case "norm_linear":
            return [array(device, 1, 64), *(array(device, 64) for _ in range(2)), array(device, 64, n // 64)], {}
        case "linear_add":
            columns = n // 64
            return [
                array(device, 1, 64),
                array(device, 64, columns),
                array(device, columns),
                array(device, 1, columns),
            ], {}
        case "cached_attention":
            cache = [array(device, 1, 1, n // 64, 64) for _ in range(2)]
            return [array(device, 1, 1, 192), *cache, array(device, 1, dtype="int64")], {}
        case "self_attention":
            return [array(device, n // 192, 1, 192)], {}
        case "batch_norm" | "batch_norm_relu":
            return [array(device, n // 1024, 1, 32, 32), *(array(device, 1) for _ in range(4))], {"training": True}
        case "max_pool2d" | "avg_pool2d":
            return [array(device, n // 1024, 1, 32, 32)], {"size": 3, "stride": 2, "padding": 1}
        case "conv2d" | "conv2d_relu":
            return [array(device, n // 1024, 1, 32, 32), array(device, 1, 1, 3, 3), array(device, 1)], {"padding": 1}
        case "matmul":
            return [array(device, n // 64, 64), array(device, 64, 64)], {}
        case "where":
            return [array(device, n, dtype="bool"), array(device, n), array(device)], {}
        case "concatenate":
            return [array(device, n // 2), array(device, n // 2)], {}
        case "getitem":
            return [array(device, n // 64, 64)], {"key": (slice(None, None, -1), slice(None, None, -1))}
        case "reshape":
            return [array(device, n)], {"shape": (64, -1)}
        case "dropout":
            return [array(device, n), array(device, 2, dtype="uint64")], {}
        case "pad":
            return [array(device, n // 1024 - 2, 1024)], {"pad": (0, 0, 1, 1)}
        case "transpose":
            return [array(device, 1024, n // 1024)], {}
    inputs = op.inputs.names
    return [array(device, n // 64, 64), *(array(device, n // 64, 1) for _ in inputs[1:])], {}


@pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))
def test_the_largest_arrays_are_indexed_within_an_int(op, device):
    arrays, params = largest(op, device)
    complete = op.prepare(*arrays, **params) if op.prepare else params
    made = op.run(arrays, complete)
    y = made if op.outputs == 1 else made[0]
    assert device.launches or op.shares
    if op.backward:
        dy = Array.empty(device, y.shape, y.dtype)
        op.vjp(arrays, dy if op.outputs == 1 else (dy, *[None] * (op.outputs - 1)), params)
    assert max(x.size for x in (*arrays, y)) > MAX_ELEMENTS - 1024


@pytest.mark.parametrize(
    ("name", "shapes", "params"),
    [
        ("add", [(65536, 1), (1, 65536)], {}),
        ("power", [(65536, 1), (1, 65536)], {}),
        ("less", [(65536, 1), (1, 65536)], {}),
        ("matmul", [(65536, 1), (1, 65536)], {}),
        ("matmul", [(3000, 1000, 1), (1, 1, 1000)], {}),
        ("concatenate", [(2**30,), (2**30,)], {}),
    ],
)
def test_an_output_beyond_what_a_kernel_indexes_is_refused(name, shapes, params, device):
    op, arrays = OPS[name], [array(device, *shape) for shape in shapes]
    with pytest.raises(ValueError, match=r"has \d{10} elements; make it at most 2147482624"):
        op.run(arrays, op.prepare(*arrays, **params))
    assert not device.launches


def test_inputs_and_gradients_beyond_what_a_kernel_indexes_are_refused(device):
    for shape in ((40_000, 128_256), (65_536, 65_536), (MAX_ELEMENTS + 1,)):
        with pytest.raises(ValueError, match="make it at most 2147482624"):
            array(device, *shape)
    a, b = array(device, 1, 1000, 1000), array(device, 3000, 1000, 1)  # a's gradient is summed from 3000 of its size
    with pytest.raises(ValueError, match=r"shape \(3000, 1000, 1000\) has 3000000000 elements"):
        mg.matmul.vjp([a, b], array(device, 3000, 1000, 1), {})


# --- more rows than a grid is high ---

HIGH = 4 * MAX_GRID[1] + 3  # at TILE = 4


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("a", "b"), [((HIGH, 2), (2, 3)), ((2, HIGH), (HIGH, 3)), ((2, HIGH), (HIGH,)), ((2, HIGH // 2 + 1, 2), (2,))]
)
def test_a_product_with_more_rows_than_a_grid_is_high(a, b, kernel_device):
    narrow, rng = mg.matmul.using(TILE=4), np.random.default_rng(0)
    hosts = [rng.integers(-3, 4, shape).astype(F4) for shape in (a, b)]  # small whole numbers: all sums are exact
    tensors = [mg.tensor(host, requires_grad=True, device=kernel_device) for host in hosts]
    y = narrow(*tensors)
    np.testing.assert_array_equal(y.numpy(), hosts[0] @ hosts[1])
    dy = rng.integers(-3, 4, y.shape).astype(F4)
    y.backward(mg.tensor(dy, device=kernel_device))
    for tensor, wanted in zip(tensors, mg.matmul.vjp(hosts, dy, {}), strict=True):
        np.testing.assert_array_equal(tensor.grad.numpy(), wanted)


@pytest.mark.parametrize("name", ["naive", "coalesced", "tiled"])
def test_every_kernel_takes_two_million_rows(name, device):
    op, rows = mg.matmul.using(name), 2_000_000
    a, b = array(device, rows, 10), array(device, 10, 5)
    c = op.run([a, b], {})
    assert c.shape == (rows, 5)
    most = rows if name == "naive" else 16 * MAX_GRID[1]  # the naive kernel has the rows along x
    given = [dict(launched.arrays) for launched in device.launches]
    for way, whole in (("a", a), ("c", c)):
        starts = [(arrays[way].address - whole.address) // (4 * whole.shape[1]) for arrays in given]
        assert starts == list(range(0, rows, most))
        assert [arrays[way].shape[0] for arrays in given] == [min(most, rows - start) for start in starts]


def test_a_product_whose_copies_would_be_too_large_goes_without():
    """2050000 x 1025 elements are few enough, and rows of 1056 are not."""
    dry = work_of("matmul", [(1025, 2_050_000), (2_050_000, 1040)]).dry()
    assert [run.kernel for run in dry.launches] == ["matmul_warp_tiled"]


def test_a_batch_of_products_with_very_many_rows_is_refused(device):
    op, a, b = mg.matmul.using("tiled"), array(device, 2, 2_000_000, 3), array(device, 2, 3, 4)
    with pytest.raises(ValueError, match="a batch of 2 products with 2000000 rows each; a launch takes 1048560 rows"):
        op.run([a, b], {})
    a, b = array(device, 2, 3, 2_000_000), array(device, 2, 2_000_000, 4)
    with pytest.raises(ValueError, match="one by one"):
        op.vjp([a, b], array(device, 2, 3, 4), {})
