"""pad: PyTorch's order of the widths, cropping, every dtype, and what it refuses."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.array import Array
from minigrad.devices.dry_run import DryRun
from minigrad.kernels.frame import Frame


def test_widths_come_in_pytorchs_order_and_those_below_0_crop(device):
    host = np.arange(24.0).reshape(2, 3, 4)
    x = mg.tensor(host, device=device)
    np.testing.assert_array_equal(mg.pad(x, (1, 2)).numpy(), np.pad(host, ((0, 0), (0, 0), (1, 2))))
    np.testing.assert_array_equal(mg.pad(x, [0, 0, 2, 1]).numpy(), np.pad(host, ((0, 0), (2, 1), (0, 0))))
    cut = np.pad(host[1:, :, :2], ((0, 3), (1, 0), (0, 0)), constant_values=-7.5)
    np.testing.assert_array_equal(mg.pad(x, (0, -2, 1, 0, -1, 3), "constant", -7.5).numpy(), cut)
    assert mg.pad(x, (-2, -2)).shape == (2, 3, 0)


@pytest.mark.parametrize("seed", range(8))
def test_random_widths_are_pytorchs_values_and_gradients(seed, device):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    host = rng.standard_normal(tuple(rng.integers(1, 6, rng.integers(1, 5))))
    axes = int(rng.integers(1, host.ndim + 1))
    padding = tuple(int(rng.integers(-(host.shape[-1 - i // 2] // 2), 4)) for i in range(2 * axes))
    x, t = mg.tensor(host, requires_grad=True, device=device), torch.tensor(host, requires_grad=True)
    y, wanted = mg.pad(x, padding, value=0.5), torch.nn.functional.pad(t, padding, value=0.5)
    dy = rng.standard_normal(wanted.shape)
    np.testing.assert_array_equal(y.numpy(), wanted.detach().numpy())
    y.backward(mg.tensor(dy, device=device))
    (wanted * torch.tensor(dy)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), t.grad.numpy())


def test_the_value_has_the_dtype_of_the_array(device):
    x = mg.tensor(np.array([[1, 2]], np.uint8), device=device)
    assert mg.pad(x, (1, 1), value=255).numpy().tolist() == [[255, 1, 2, 255]] and mg.pad(x, (1, 0)).dtype == np.uint8
    assert mg.pad(x > 1, (1, 0), value=True).numpy().tolist() == [[True, False, True]]
    y = mg.pad(mg.zeros(1, device=device), (1, 1), value=-np.inf).numpy()
    assert y.tolist() == [-np.inf, 0, -np.inf]
    with pytest.raises(ValueError, match=r"pad: value: 256 does not fit into uint8"):
        mg.pad(x, (1, 1), value=256)


@pytest.mark.parametrize(
    ("padding", "more", "message"),
    [
        ((1,), {}, "two widths for each axis to pad, the last axis first; x has 2"),
        ((1,) * 6, {}, "two widths for each axis"),
        ((1.0, 1), {}, "must be whole numbers"),
        (3, {}, "must be whole numbers"),
        ((1, 1), {"mode": "reflect"}, "mode='reflect' is not known here; the one mode is 'constant'"),
        ((1, 1), {"value": "a"}, "pad: value takes a number; got str 'a'"),
        ((-2, -2), {}, "widths -2 and -2 cut more off than the 3 elements of an axis"),
        ((-4, 5), {}, "widths -4 and 5 cut more off"),
        ((2**30, 2**30), {}, "make it at most"),
    ],
)
def test_other_paddings_are_refused(padding, more, message, device):
    with pytest.raises((TypeError, ValueError), match=message):
        mg.pad(mg.ones(2, 3, device=device), padding, **more)


def test_its_kernel_can_be_a_program_of_its_own(tmp_path):
    x, y = mg.ones(2, 3, device="sim"), mg.zeros(2, 5, device="sim")
    frame = Frame.around((2, 3), [(0, 0), (1, 1)])
    mg.pad["forward"].standalone(tmp_path / "pad.cu", x, y, frame, 0.0, 10, grid=1, block=32)
    assert "Frame frame = {2, {5, 2}, {1}, {3, 2}};" in (tmp_path / "pad.cu").read_text()


def test_more_axes_than_a_kernel_walks_are_refused():
    x = mg.ones((1,) * 10, device="sim")
    assert mg.pad(x, (1, 1) * 8).size == 3**8
    with pytest.raises(ValueError, match="a kernel pads at most 8 axes"):
        mg.pad(x, (1, 1) * 9)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_images_keep_their_layout(layout):
    """One launch each way: nothing is copied."""
    device = DryRun()
    x = mg.Tensor(Array.empty(device, (2, 3, 4, 5), np.dtype("float32"), layout == "NHWC"), True)
    y = mg.pad(x, (1, 1))
    y.backward(mg.Tensor(Array.empty(device, y.shape, y.dtype, layout == "NHWC")))
    assert {each.array.channels_last for each in (x, y, x.grad)} == {layout == "NHWC"} and len(device.launches) == 2
