"""relu(conv2d + residual) by one op: every rung, its gradients, and sums that several blocks share on Hopper."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.microscope import watching
from minigrad.ops import conv2d_relu
from minigrad.ops.conv2d import prepare, wgmma

ODD = {"stride": (2, 3), "padding": ((0, 2), (1, 0)), "dilation": (2, 1)}
SHAPES = [((2, 8, 9, 11), (12, 8, 3, 2), ODD), ((3, 16, 7, 6), (64, 16, 3, 3), {"padding": 1}),
          ((4, 20, 7, 5), (32, 20, 1, 1), {"stride": 2})]  # fmt: skip
RUNGS = {"naive": "float32", "register_tile": "float32", "mma_3xtf32": "float32", "mma_tf32": "tf32"}


def drawn(image, window, how, dtype="float32", added=True):
    """The inputs, with a bias, and a random upstream gradient. A residual has NaN in one place."""
    rng = np.random.default_rng(sum(image) + sum(window))
    params = prepare(np.zeros(image), np.zeros(window), **how)
    shape = mg.conv2d.forward(np.zeros(image), np.zeros(window), **params).shape
    shapes = (image, window, window[:1], *[shape] * added)
    inputs, dy = [rng.standard_normal(s).astype(dtype) for s in shapes], rng.standard_normal(shape).astype(dtype)
    if added:
        inputs[3][:1, 1, 0, 0] = np.nan
    return inputs, dy


def close(got, wanted, allowed):
    assert got.shape == wanted.shape and (np.isnan(got) == np.isnan(wanted)).all()
    got, wanted = np.nan_to_num(got), np.nan_to_num(wanted)
    assert np.abs(got - wanted).max(initial=0) <= allowed * np.abs(wanted).max(initial=1e-30)


def exact(inputs, dy, how, precision):
    """The value and the gradients in float64, or in float32 of factors that are rounded."""
    arrays = [x.astype("float64" if precision == "float32" else "float32") for x in (*inputs, dy)]
    *arrays, dy = arrays
    params = conv2d_relu.prepare(*inputs, **how, precision=precision)
    y = conv2d_relu.forward(*arrays, **params)
    shapes, needs = tuple(x.shape for x in inputs), (True,) * len(inputs)
    return [y, *conv2d_relu.backward(dy, *arrays[:2], y, shapes, needs, **params)]


@pytest.mark.sample(3)
@pytest.mark.parametrize("added", [True, False])
@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_values_and_gradients(case, rung, added):
    inputs, dy = drawn(*case, added=added)
    tensors = [mg.tensor(x, device="sim", requires_grad=True) for x in inputs]
    last = [t.to(layout="NHWC") if t.ndim == 4 else t for t in tensors]
    with watching() as report:
        y = mg.conv2d_relu.using(rung)(*last, **case[2])
    y.backward(mg.tensor(dy, device="sim"))
    assert report.problems == [] and (len(report.launches) == 1 or not rung.startswith("mma"))
    for got, wanted in zip((y, *(t.grad for t in tensors)), exact(inputs, dy, case[2], RUNGS[rung]), strict=True):
        close(got.numpy(), wanted, 3e-6)


@pytest.mark.parametrize("added", [True, False])
def test_bfloat16_is_rounded_once(added):
    pytest.importorskip("ml_dtypes")
    inputs, _ = drawn(*SHAPES[1], added=added)
    tensors = [mg.tensor(x, device="sim").astype("bfloat16") for x in inputs]
    wanted = conv2d_relu.forward(*(t.numpy().astype(float) for t in tensors), **prepare(*tensors[:2], padding=1))
    for rung in ("mma_bf16", "naive"):
        y = mg.conv2d_relu.using(rung)(*tensors, padding=1).numpy().astype(float)
        np.testing.assert_allclose(y, wanted, rtol=0.51 * 2**-7, atol=1e-4)


def test_a_residual_of_another_shape_is_rejected():
    x, w, bias = mg.ones(1, 3, 5, 5), mg.ones(4, 3, 3, 3), mg.ones(4)
    with pytest.raises(ValueError, match=r"the residual is float32 \(1, 4, 5, 5\); it must be float32 \(1, 4, 3, 3\)"):
        mg.conv2d_relu(x, w, bias, mg.ones(1, 4, 5, 5))


@pytest.mark.parametrize("name", wgmma.STAGE)
def test_a_sum_is_split_where_there_are_few_tiles(name):
    """Of one image all multiprocessors have a part; with hundreds of tiles no sum is split."""
    few, many = wgmma.plan(name, 512, 49, 144, 132), wgmma.plan(name, 512, 49 * 128, 144, 132)
    assert 16 <= few.parts <= 64 and many.parts <= 2
    for stages, parts in ((144, few.parts), (18, wgmma.plan(name, 64, 3136, 18, 132).parts)):
        assert -(-stages // -(-stages // parts)) == parts, "no part is empty"


HOPPER = [
    ((2, 64, 7, 9), (64, 64, 3, 3), {"padding": 1}), ((1, 256, 7, 7), (128, 256, 3, 3), {"padding": 1}),
    ((1, 128, 14, 13), (256, 128, 3, 3), {"padding": 1, "stride": 2}),
    ((40, 64, 28, 28), (64, 64, 3, 3), {"padding": 1}),
    ((3, 64, 9, 8), (192, 64, 1, 1), {"stride": 2}), ((1, 64, 11, 5), (128, 64, 3, 2), {"dilation": (2, 1)}),
    ((2, 64, 9, 8), (64, 64, 3, 2), {"padding": ((0, 2), (1, 0)), "stride": (2, 3)}),
    ((2, 64, 9, 8), (64, 64, 3, 2), {"padding": ((2, 0), (0, 1))}), ((0, 64, 7, 9), (64, 64, 3, 3), {"padding": 1}),
]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("added", [True, False])
@pytest.mark.parametrize("precision", ["tf32", "3xtf32", "bfloat16"])
@pytest.mark.parametrize("case", HOPPER, ids=str)
def test_on_tensor_cores_of_the_gpu(case, precision, added):
    """On Hopper by wgmma, with and without parts. Where relu has its kink, rounding decides: there dy is 0."""
    inputs, dy = drawn(*case, added=added)
    z = mg.conv2d.forward(*inputs[:3], **prepare(*inputs[:3], **case[2])) + sum(inputs[3:])
    dy[np.abs(z) < 1e-2] = 0
    half = precision == "bfloat16"
    tensors = [mg.tensor(x, device="cuda").to(layout="NHWC" if x.ndim == 4 else None) for x in inputs]
    tensors = [t.astype("bfloat16" if half else "float32").detach() for t in tensors]
    for t in tensors:
        t.requires_grad = True
    with mg.precision("float32" if half else precision):
        y = mg.conv2d_relu(*tensors, **case[2])
        y.backward(mg.tensor(dy, device="cuda").astype(y.dtype))
    wanted = exact(
        [t.numpy().astype(np.float32) for t in tensors], dy, case[2], "tf32" if precision == "tf32" else "float32"
    )
    for got, true in zip((y, *(t.grad for t in tensors)), wanted, strict=True):
        close(got.numpy().astype(float), true, {"bfloat16": 2e-2, "tf32": 1e-5, "3xtf32": 5e-6}[precision])
