"""A row of a window's taps as the channels of one pixel: the form in which wgmma takes images of few channels."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.devices.layouts import in_layout
from minigrad.devices.tensor_map import ImageMap
from minigrad.kernels.window import Window
from minigrad.op import OPS
from minigrad.ops.conv2d import wgmma
from minigrad.ops.conv2d.channels_last import rows_as_channels

conv2d = OPS["conv2d"]
CASES = [
    ((2, 3, 23, 18), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
    ((1, 1, 9, 8), (128, 1, 3, 3), {"padding": ((0, 2), (1, 0))}),
    ((3, 4, 12, 17), (64, 4, 5, 8), {"stride": (2, 3), "dilation": (2, 1)}),
    ((2, 2, 6, 5), (64, 2, 3, 2), {"padding": (1, 4)}),
]


def drawn(shape, window, params):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(shape, np.float32), rng.standard_normal(window, np.float32)
    params = conv2d.prepare(mg.tensor(x), mg.tensor(w), **params)
    at = Window.over(shape, window[2:], params["stride"], params["padding"], params["dilation"])
    return x, w, params, at


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_same_convolution(case, last):
    """The copy engine's view of the images, in which places overlap, and the windows of one column."""
    x, w, params, at = drawn(*case)
    assert wgmma.takes_rows(x.dtype, at)
    arrays = (in_layout(Array.upload(get("sim"), array), last) for array in (x, w))
    images, windows, rows = rows_as_channels(conv2d.kernels, *arrays, at)
    image_map = ImageMap(images, rows, 32, 128)
    memory = np.moveaxis(images.numpy(), 1, -1).copy()
    assert memory.shape == image_map.stored
    view = as_strided(memory, image_map.shape, memory.strides)
    last_read = sum((n - 1) * step for n, step in zip(view.shape, view.strides, strict=True))
    assert last_read < memory.nbytes, "no place reads behind the images"
    flat = np.moveaxis(windows.numpy(), 1, -1).reshape(len(w), at.rows, 1, 32)
    bottom = (at.out_height - 1) * at.stride_y + (at.rows - 1) * at.dilation_y + 1 - at.top - at.height
    y = conv2d.forward(
        np.moveaxis(view, -1, 1).astype(float), np.moveaxis(flat, -1, 1).astype(float), None,
        (rows.stride_y, rows.stride_x), ((at.top, max(bottom, 0)), (0, 0)), (rows.dilation_y, 1),
    )[:, :, : at.out_height]  # fmt: skip
    wanted = conv2d.forward(x.astype(float), w.astype(float), **params)
    np.testing.assert_allclose(y, wanted, atol=1e-12)


def test_more_channels_or_columns_are_left_to_other_forms():
    at = Window.over((3, 20, 20), (7, 7), (2, 2), ((3, 3), (3, 3)))
    for name, value in (("channels", 5), ("columns", 9), ("dilation_x", 2)):
        other = Window.from_buffer_copy(at)
        setattr(other, name, value)
        assert not wgmma.takes_rows(np.dtype("float32"), other), name


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["tf32", "3xtf32", "bfloat16"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_the_gpu(case, precision):
    x, w, params, _ = drawn(*case)
    dtype, rung = ("bfloat16", "wgmma_bf16") if precision == "bfloat16" else ("float32", f"wgmma_{precision}")
    tensors = [mg.tensor(array, device="cuda").astype(dtype) for array in (x, w)]
    y = mg.conv2d.using(rung)(*tensors, **params | {"precision": "float32" if dtype == "bfloat16" else precision})
    inputs = [t.numpy().astype(np.float32) for t in tensors]
    wanted = conv2d.forward(*inputs, **params | {"precision": "tf32" if precision == "tf32" else "float32"})
    error = np.abs(y.numpy().astype(float) - wanted).max() / np.abs(wanted).max()
    assert error < {"bfloat16": 4e-3, "tf32": 1e-5, "3xtf32": 2e-6}[precision]
