"""Layers of vision networks, and residual networks: names, shapes, training and evaluation, on every device."""

import inspect
import resource
from collections import Counter

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.devices.cuda.prefetch import SPARE
from minigrad.devices.dry_run import DryRun


def small(device, dtype="float32"):
    mg.manual_seed(0)
    return nn.ResNet(10, "small", 1, (8, 16), 1, device=device, dtype=dtype)


def digits(count):
    images, labels = mg.data.digits().train
    return images[:count].reshape(-1, 1, 8, 8), labels[:count]


def train(device, steps, dtype="float32"):
    """The losses, and the network."""
    net, (images, labels) = small(device, dtype), digits(32 * steps)
    optimizer, losses = mg.optim.SGD(net.parameters(), lr=0.05, momentum=0.9), []
    for start in range(0, len(images), 32):
        rows = slice(start, start + 32)
        optimizer.zero_grad()
        loss = mg.cross_entropy(
            net(mg.tensor(images[rows], device=device, dtype=dtype)), mg.tensor(labels[rows], device=device)
        )
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, net


def test_resnet18_has_the_names_and_the_sizes_of_torchvisions():
    net = nn.resnet18(1000, device="numpy")
    state = net.state_dict()
    assert len(state) == 122 and sum(x.size for x in net.parameters()) == 11_689_512
    assert sum(x.size for name, x in state.items() if "running" in name) == 9600
    assert state["conv1.weight"].shape == (64, 3, 7, 7) and state["layer4.1.bn2.running_var"].shape == (512,)
    assert state["layer3.0.downsample.0.weight"].shape == (256, 128, 1, 1)
    assert {name for name in state if name.startswith("layer1.0.")} == {
        *(f"layer1.0.conv{i}.weight" for i in (1, 2)),
        *(f"layer1.0.bn{i}.{name}" for i in (1, 2) for name in (
            "weight", "bias", "running_mean", "running_var", "num_batches_tracked")),
    }  # fmt: skip


def test_resnet18_is_less_than_60_lines():
    texts = map(inspect.getsource, (nn.Residual, nn.ResNet, nn.resnet18))
    assert 40 < sum(bool(line.strip()) for text in texts for line in text.splitlines()) < 60


@pytest.mark.parametrize(("stem", "shape"), [("imagenet", (2, 3, 65, 47)), ("small", (2, 3, 9, 12))])
def test_resnet18_takes_images_of_any_size(stem, shape):
    net = nn.resnet18(7, stem, device="numpy")
    assert net(mg.zeros(shape, device="numpy")).shape == (2, 7)
    with pytest.raises(ValueError, match="stem='huge' is not one of"):
        nn.resnet18(7, "huge")


def test_training_is_the_same_on_every_device(kernel_device):
    wanted, truth = train("numpy", 3, "float64")
    losses, net = train(kernel_device, 3, "float64")
    np.testing.assert_allclose(losses, wanted, rtol=1e-10)
    for name, value in net.state_dict().items():
        np.testing.assert_allclose(value, truth.state_dict()[name], rtol=1e-8, atol=1e-10, err_msg=name)


def test_a_small_residual_network_learns_the_digits():
    losses, net = train("numpy", 40)
    assert losses[-1] < losses[0] / 2
    images, labels = mg.data.digits().test
    trained = nn.accuracy(net.eval()(mg.tensor(images.reshape(-1, 1, 8, 8), device="numpy")), labels)
    assert trained > 0.6
    before = net.state_dict()
    net(mg.tensor(images[:5].reshape(-1, 1, 8, 8), device="numpy"))
    assert all((before[name] == value).all() for name, value in net.state_dict().items()), "evaluation changes nothing"
    other = small("numpy").eval()
    other.load_state_dict(before)
    x = mg.tensor(images[:9].reshape(-1, 1, 8, 8), device="numpy")
    assert (other(x).numpy() == net(x).numpy()).all()
    assert int(before["bn1.num_batches_tracked"]) == 40


def test_a_mean_over_all_batches_is_kept_without_a_momentum():
    layer, rng = nn.BatchNorm2d(3, momentum=None, device="numpy", dtype="float64"), np.random.default_rng(0)
    xs = rng.standard_normal((4, 2, 3, 5, 5))
    for x in xs:
        layer(mg.tensor(x, device="numpy"))
    np.testing.assert_allclose(layer.running_mean.numpy(), xs.mean(axis=(0, 1, 3, 4)), rtol=1e-12)
    np.testing.assert_allclose(layer.running_var.numpy(), xs.var(axis=(1, 3, 4), ddof=1).mean(axis=0), rtol=1e-12)


@pytest.mark.gpu
@pytest.mark.soak
def test_20_000_steps_of_training_leak_no_memory():
    """Half of them eager, half replayed; the host grows by less than a kilobyte a step.

    The GPU keeps batches that are under way: after a long run at most SPARE more than after a short one.
    """
    net, (images, labels) = small("cuda").to(layout="NHWC"), digits(32)
    optimizer = mg.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = mg.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    replayed = mg.graph(step)

    def memory(steps):
        for x, y in mg.data.prefetch(((images, labels) for _ in range(steps)), "cuda"):
            eager, fast = step(x, y), replayed(x, y)
        assert np.isfinite(eager.item()) and np.isfinite(fast.item())
        return get("cuda").memory.usage[0], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    (of_gpu, of_host), (later, kilobytes) = memory(500), memory(9_500)
    assert later - of_gpu <= SPARE * sum(-(-x.nbytes // 512) * 512 for x in (images, labels))
    assert kilobytes - of_host < 19_000


def test_layers_say_what_they_are_and_refuse_what_does_not_fit():
    layers = (
        nn.Conv2d(4, 6, (3, 2), stride=2, groups=2, bias=False), nn.BatchNorm2d(6), nn.MaxPool2d(2),
        nn.MaxPool2d(2, dilation=3), nn.AvgPool2d((1, 2)), nn.GlobalAvgPool2d(), nn.Flatten(),
    )  # fmt: skip
    assert [repr(layer) for layer in layers] == [
        "Conv2d(4 -> 6, 3 x 2, stride=2, groups=2, no bias)", "BatchNorm2d(6)", "MaxPool2d(2)",
        "MaxPool2d(2, dilation=3)", "AvgPool2d((1, 2))", "GlobalAvgPool2d()", "Flatten()",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="divisible by groups=2"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ValueError, match=r"it must be \(N, C, H, W\)"):
        nn.BatchNorm2d(3, device="numpy")(mg.zeros(4, 3, device="numpy"))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_an_empty_batch_gives_no_logits_and_gradients_of_0(layout, device):
    net = small(device).to(layout=layout)
    y = net(mg.zeros(0, 1, 8, 8, device=device))
    y.backward(mg.zeros(0, 10, device=device))
    assert y.shape == (0, 10) and not any(p.grad.numpy().any() for p in net.parameters())


@pytest.mark.parametrize("precision", ["float32", "tf32", "3xtf32", "bfloat16"])
def test_with_channels_last_a_step_on_hopper_copies_nothing_between_convolutions(precision):
    """The images alone are filled up to four channels, for tensor cores."""
    device, net = DryRun(), nn.resnet18(device="numpy")
    for tensor in (*net.parameters(), *(x for x in net.buffers() if x.ndim)):
        tensor.array = Array.empty(device, tensor.shape, np.dtype("float32"), tensor.ndim == 4)
    x = mg.Tensor(Array.empty(device, (4, 3, 224, 224), np.dtype("float32"), True))
    with mg.autocast("bfloat16") if precision == "bfloat16" else mg.precision(precision):
        y = net(x)
        y.backward(mg.Tensor(Array.empty(device, y.shape, y.dtype)))
    names = Counter(launch.kernel for launch in device.launches)
    assert not [name for name in names if "transpose" in name or name.startswith("copy")]
    assert names["conv2d_recount"] == (0 if precision == "float32" else 4)  # x and w for y, x and dw for dw
    assert sum(count for name, count in names.items() if name.endswith("_backward_w")) == 20


LAYERS = {
    nn.Conv2d: (4, 6, 3), nn.BatchNorm2d: (4,), nn.MaxPool2d: (2,), nn.AvgPool2d: (2,), nn.GlobalAvgPool2d: (),
    nn.Flatten: (), nn.Dropout: (0.5,), nn.Residual: (4, 6, 2),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)
def test_every_layer_takes_a_device_and_a_dtype(layer, dtype, device):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    made = layer(*LAYERS[layer], device=device, dtype=dtype)
    x = mg.ones(2, 4, 6, 5, device=device).astype(dtype)
    for mode in (True, False):
        assert made.train(mode)(x).dtype == x.dtype
    with pytest.raises(TypeError, match="strides"):
        layer(*LAYERS[layer], strides=1)
    with pytest.raises(ValueError, match="device 'zzz' does not exist"):
        layer(*LAYERS[layer], device="zzz")
    with pytest.raises(TypeError, match="dtype 'abc' is not one of"):
        layer(*LAYERS[layer], dtype="abc")


def test_a_dilated_pooling_is_that_of_the_function(device):
    x = mg.tensor(np.random.default_rng(0).standard_normal((2, 3, 7, 6)).astype("float32"), device=device)
    wanted = mg.max_pool2d(x, 2, 1, 1, (3, 2)).numpy()
    np.testing.assert_array_equal(nn.MaxPool2d(2, 1, 1, (3, 2))(x).numpy(), wanted)
    assert wanted.shape == (2, 3, 6, 6)


def test_a_network_in_bfloat16_has_the_numbers_of_channels_in_float32():
    pytest.importorskip("ml_dtypes")
    net = small("sim", "bfloat16")
    x = mg.ones(2, 1, 8, 8, device="sim").astype("bfloat16")
    net(x).sum().backward()
    assert {(name.split(".")[-2][:2], p.grad.dtype.name) for name, p in net.named_parameters()} == {
        ("co", "bfloat16"), ("bn", "float32"), ("0", "bfloat16"), ("1", "float32"), ("fc", "bfloat16"),
    }  # fmt: skip


def test_a_network_of_layers_ends_in_a_row_of_numbers(device):
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding="same", device=device), nn.MaxPool2d(2), nn.AvgPool2d(2), nn.Flatten()
    )
    assert net(mg.ones(3, 1, 8, 9, device=device)).shape == (3, 2 * 2 * 2)
