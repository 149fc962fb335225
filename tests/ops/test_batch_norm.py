"""Batch norm: running statistics, digits where the mean is large, layouts, its relu and residual, captured steps."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.devices.dry_run import DryRun

nan = np.nan
BOTH = pytest.mark.parametrize("layout", ["NCHW", "NHWC"])


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def images(host, device, layout="NHWC", grad=False):
    x = mg.tensor(host, device=device).to(layout=layout).detach()
    x.requires_grad = grad
    return x


def per_channel(device, channels, dtype="float64"):
    """running_mean, running_var, weight and bias."""
    hosts = numbers(channels), 0.5 + numbers(channels) ** 2, 1 + numbers(channels, seed=1), numbers(channels, seed=2)
    return [mg.tensor(x.astype(dtype), i > 1, device) for i, x in enumerate(hosts)]


def test_running_statistics_are_kept_as_in_pytorch(device):
    """The mean of 1, 2, 3, 4 is 2.5, and their variance with n - 1 is 5/3: a tenth of each, and 0.9 of 0 and 1."""
    x = mg.tensor(np.array([[1.0], [2], [3], [4]]), device=device)
    mean, var = mg.zeros(1, device=device, dtype="float64"), mg.ones(1, device=device, dtype="float64")
    y = mg.batch_norm(x, mean, var, training=True)
    np.testing.assert_allclose([mean.item(), var.item()], [0.25, 0.9 + 0.5 / 3], rtol=1e-14)
    np.testing.assert_allclose(y.numpy().var(), 1, rtol=1e-4)
    mg.batch_norm(x, mean, var)
    mg.batch_norm(x[:0], mean, var, training=True)
    np.testing.assert_allclose([mean.item(), var.item()], [0.25, 0.9 + 0.5 / 3], rtol=1e-14)


def test_a_constant_batch_has_no_gradient(device):
    x = mg.tensor(np.full((3, 2, 2), 7.0), True, device)
    y = mg.batch_norm(x, *(mg.ones(2, device=device, dtype="float64") for _ in range(2)), training=True)
    assert (y.numpy() == 0).all()
    y.backward(mg.tensor(np.arange(12.0).reshape(3, 2, 2), device=device))
    np.testing.assert_allclose(x.grad.numpy().sum(axis=(0, 2)), 0, atol=1e-9)


@BOTH
@pytest.mark.parametrize("ratio", [1, 10, 100, 1000])
def test_a_large_mean_costs_no_digits(ratio, layout, kernel_device):
    """The mean is `ratio` standard deviations: E[x^2] - mean^2 in float32 would lose ratio^2 times its rounding."""
    host = (ratio + numbers(8, 12, 30, 31)).astype(np.float32)
    mean, var = mg.zeros(12, device=kernel_device), mg.zeros(12, device=kernel_device)
    y = mg.batch_norm(images(host, kernel_device, layout), mean, var, training=True, momentum=1.0)
    x = host.astype(float)
    wanted = x.mean((0, 2, 3)), x.var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(mean.numpy(), wanted[0], rtol=2e-7)
    np.testing.assert_allclose(var.numpy(), wanted[1], rtol=1e-6)
    normal = (x - wanted[0][:, None, None]) / np.sqrt(x.var((0, 2, 3)) + 1e-5)[:, None, None]
    np.testing.assert_allclose(y.numpy(), normal, atol=2e-6 + 1e-7 * ratio)


# --- layouts ---


def kernels_of(op, channels, layout, offset=0):
    """The kernels that a training pass over images launches, and the layouts of y and dx."""
    device = DryRun()
    x, dy = (Array.empty(device, (2, channels, 6, 5), np.dtype("float32"), layout == "NHWC") for _ in range(2))
    if offset:
        x = Array(device, x.shape, x.dtype, x.buffer, x.address + offset, x.channels_last)
    more = [Array.empty(device, (channels,), np.dtype("float32")) for _ in range(4)]
    y, pull = op.pullback([x, *more], {"training": True, "momentum": 0.1, "eps": 1e-5})
    dx = pull(dy)[0]
    return [launch.kernel for launch in device.launches], y.channels_last, dx.channels_last


@pytest.mark.parametrize("op", [mg.batch_norm, mg.batch_norm_relu], ids=lambda op: op.name)
def test_images_are_normalized_where_they_lie(op):
    steps = ["batch_norm_statistics", f"{op.name}_forward", f"{op.name}_sums", f"{op.name}_backward"]
    for layout, end in (("NCHW", ""), ("NHWC", "_nhwc")):
        launched, *last = kernels_of(op, 8, layout)
        assert [name for name in launched if "finish" not in name] == [step + end for step in steps]
        assert last == [layout == "NHWC"] * 2
    for channels, offset in ((6, 0), (8, 4)):  # no fours, or none that begin at a multiple of 16 bytes
        launched, *last = kernels_of(op, channels, "NHWC", offset)
        assert {*steps} <= {*launched} and last == [True, True]


@pytest.mark.parametrize("offset", [4, 8])
def test_images_that_begin_anywhere_are_loaded_right(offset, kernel_device):
    """A layer's input may be a part of an array, and so may dy and the residual."""
    host, dy, residual = (numbers(2, 4, 3, 5, seed=seed).astype(np.float32) for seed in range(3))

    def moved(x):
        """The values in memory that begins `offset` bytes behind a multiple of 16."""
        flat = np.concatenate([np.zeros(offset // 4, np.float32), np.moveaxis(x, 1, -1).ravel()])
        whole = Array.upload(get(kernel_device), flat)
        return Array(whole.device, x.shape, whole.dtype, whole.buffer, whole.address + offset, True)

    more = [x.array for x in per_channel(kernel_device, 4, "float32")]
    hosts = [host, *(x.numpy() for x in more), residual]
    params = {"training": True, "momentum": 0.1, "eps": 1e-5}
    wanted = mg.batch_norm_relu.vjp([x.copy() for x in hosts], dy, params)
    for part in range(3):
        given = [
            moved(x) if i == part else Array.upload(get(kernel_device), x, True)
            for i, x in enumerate((host, residual, dy))
        ]
        inputs = [given[0], *(Array.upload(get(kernel_device), x) for x in hosts[1:5]), given[1]]
        for grad, right in zip(mg.batch_norm_relu.vjp(inputs, given[2], params), wanted, strict=True):
            np.testing.assert_allclose(grad.numpy(), right, rtol=2e-5, atol=2e-5)


@BOTH
def test_many_blocks_share_a_channel(layout, kernel_device):
    """With more pixels than a block takes, and an odd number of them."""
    host, dy = numbers(3, 8, 45, 33), numbers(3, 8, 45, 33, seed=1)
    hosts, params = [host, *(x.numpy() for x in per_channel("numpy", 8))], {"training": True}
    wanted = mg.batch_norm.vjp([x.copy() for x in hosts], dy, params)
    given = [images(x, kernel_device, layout).array for x in (host, dy)]
    inputs = [given[0], *(Array.upload(get(kernel_device), x) for x in hosts[1:])]
    for grad, right in zip(mg.batch_norm.vjp(inputs, given[1], params), wanted, strict=True):
        np.testing.assert_allclose(grad.numpy(), right, atol=1e-11)
    device = DryRun()
    mg.batch_norm.vjp(
        [Array.empty(device, x.shape, x.dtype, x.channels_last) for x in inputs],
        Array.empty(device, dy.shape, dy.dtype),
        params,
    )
    assert sum(max(launch.grid[:2]) > 1 for launch in device.launches if "statistics" in launch.kernel) == 1


# --- with relu ---


@BOTH
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("added", [True, False])
def test_the_fused_op_is_the_ops_one_by_one(added, training, layout, device):
    """To the last bit in y, so that the same elements are cut off; NaN is where it is without fusion."""
    host, residual, dy = (numbers(3, 8, 5, 7, seed=seed).astype(np.float32) for seed in range(3))
    host[1, 2, 3, 4], residual[0, 5, 1, 1] = nan, nan
    results = []
    for fused in (True, False):
        x, other = (images(a, device, layout, grad=True) for a in (host, residual))
        more = per_channel(device, 8, "float32")
        if fused:
            y = mg.batch_norm_relu(x, *more, *[other] * added, training=training)
        else:
            z = mg.batch_norm(x, *more, training=training)
            y = mg.relu(z + other if added else z)
        assert y.layout == layout or device == "numpy"
        y.backward(images(dy, device, layout))
        grads = [x.grad, *(p.grad for p in more[2:]), *[other.grad] * added]
        results.append([y.numpy(), *(p.numpy() for p in (*more[:2], *grads))])
    np.testing.assert_array_equal(results[0][0], results[1][0])
    for got, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=2e-5)


@BOTH
def test_no_gradient_passes_where_the_output_is_cut_off(layout, device):
    """Nor where it is just 0: here x is its own mean in two channels, and one of these has a bias."""
    host = numbers(2, 4, 4, 3)
    host[:, :2] = 7
    x, bias = images(host, device, layout, grad=True), mg.tensor(np.array([0.0, 0.5, 0.0, -0.3]), True, device)
    more = [mg.ones(4, device=device, dtype="float64") for _ in range(3)]
    y = mg.batch_norm_relu(x, *more, bias, training=True)
    assert (y.numpy()[:, 0] == 0).all() and (y.numpy()[:, 1] == 0.5).all()
    y.backward(images(np.ones(host.shape), device, layout))
    np.testing.assert_array_equal(bias.grad.numpy(), (y.numpy() > 0).sum((0, 2, 3)))


def test_the_residual_is_like_x():
    x, more = mg.ones(2, 3, 4, 5), [mg.ones(3) for _ in range(4)]
    with pytest.raises(ValueError, match=r"the residual is float32 \(2, 3, 4, 4\); it must be float32 \(2, 3, 4, 5\)"):
        mg.batch_norm_relu(x, *more, x[..., 1:])
    with pytest.raises(TypeError, match="weight is None, so"):
        mg.batch_norm_relu(x, *more[:2], residual=x)
    with pytest.raises(ValueError, match="more than one value a channel"):
        mg.batch_norm_relu(mg.ones(1, 3), *more, training=True)


# --- running statistics are changed in place ---


def test_an_older_gradient_does_not_use_newer_statistics(device):
    x = mg.tensor(numbers(4, 3), True, device)
    running = per_channel(device, 3)[:2]
    y = mg.batch_norm(x, *running)
    mg.batch_norm(x.detach(), *running, training=True)
    with pytest.raises(RuntimeError, match="batch_norm kept mean at version 0, and it has been changed in place"):
        y.backward(mg.ones(4, 3, device=device, dtype="float64"))


def test_launches_that_are_repeated_keep_running_statistics(repeating):
    hosts = [x.numpy() for x in per_channel("numpy", 8)]
    ours = [mg.Tensor(Array.upload(repeating, x)) for x in hosts]
    for seed in range(3):
        x = numbers(2, 8, 3, 4, seed=seed)
        mg.batch_norm_relu(mg.Tensor(Array.upload(repeating, x, True)), *ours, training=True)
        mg.batch_norm_relu(mg.Tensor(x), *map(mg.Tensor, hosts), training=True)
    assert repeating.repeated == 3 and repeating.single == 0
    for got, wanted in zip(ours, hosts, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_numpys_statistics_are_as_accurate_in_either_layout(layout):
    x = (np.random.default_rng(0).standard_normal((64, 4, 32, 32)) * 0.1 + 10).astype(np.float32)
    exact, over = x.astype(float), {"axis": (0, 2, 3), "keepdims": True}
    wanted = (exact - exact.mean(**over)) / np.sqrt(exact.var(**over) + 1e-5)
    y = mg.nn.BatchNorm2d(4, device="numpy")(mg.tensor(x, device="numpy").to(layout=layout))
    assert np.abs(y.numpy() - wanted).max() < 2e-5


def test_a_batch_that_is_refused_is_not_counted():
    layer, x = mg.nn.BatchNorm2d(4, momentum=None, device="numpy"), mg.randn(3, 4, 3, 2, device="numpy")
    with pytest.raises(ValueError, match="one value"):
        layer(mg.zeros(1, 4, 1, 1, device="numpy"))
    layer(x)
    np.testing.assert_allclose(layer.running_mean.numpy(), x.numpy().mean((0, 2, 3)), atol=1e-6)
