"""Convolution on tensor cores: values and gradients at odd shapes, races, and what is rejected."""

from itertools import product

import numpy as np
import pytest

import minigrad as mg
from minigrad import rounding
from minigrad.errors import CompileError, LaunchError
from minigrad.kernels.window import Window
from minigrad.lab.bench.sweeps import settings
from minigrad.lab.bench.work import work_of
from minigrad.ops.conv2d import backward, forward, prepare
from minigrad.ops.conv2d.kernels import TENSOR_CORES, WAYS, kernels
from minigrad.ops.conv2d.rungs import HOPPER

ODD = {"stride": (2, 3), "padding": ((0, 2), (1, 0)), "dilation": (2, 1)}
SHAPES = [
    ((2, 8, 9, 11), (12, 8, 3, 2), ODD),
    ((3, 16, 7, 6), (64, 16, 3, 3), {"padding": 1}),
    ((2, 3, 17, 13), (8, 3, 7, 7), {"stride": 2, "padding": 3}),
    ((4, 20, 7, 5), (32, 20, 1, 1), {"stride": 2}),
    ((1, 8, 5, 4), (8, 8, 5, 4), {"stride": 3, "padding": (0, 2)}),
    ((1, 4, 1, 1), (4, 4, 1, 1), {}),
    ((0, 8, 6, 5), (12, 8, 3, 2), ODD),
]  # fmt: skip
# The precision of factors, the dtype, and the allowed error of a result, as a part of the largest. Tensor cores on a
# GPU round their sums toward zero.
KINDS = {
    "tf32": ("tf32", "float32", {"sim": 2e-6, "cuda": 1e-5}),
    "bf16": ("bf16", "bfloat16", {"sim": 4e-3, "cuda": 4e-3}),
    "3xtf32": ("float32", "float32", {"sim": 2e-6, "cuda": 5e-6}),
}
RUNGS = {"mma_tf32": ("tf32", {"sim": 1e-6, "cuda": 1e-5}), "mma_3xtf32": ("float32", KINDS["3xtf32"][2])}


def drawn(image, window, how, precision="float32"):
    """Inputs, an upstream gradient, and complete parameters. Random: a sum as the loss hides a wrong place."""
    rng = np.random.default_rng(sum(image) + sum(window))
    x, w = rng.standard_normal(image).astype(np.float32), rng.standard_normal(window).astype(np.float32)
    params = prepare(x, w, **how, precision=precision)
    return x, w, rng.standard_normal(forward(x, w, **params).shape).astype(np.float32), params


def close(got, wanted, allowed):
    assert got.shape == wanted.shape
    assert (np.isnan(got) == np.isnan(wanted)).all()
    got, wanted = np.nan_to_num(got), np.nan_to_num(wanted)
    assert np.abs(got - wanted).max(initial=0) <= allowed * np.abs(wanted).max(initial=1e-30)


@pytest.mark.sample(3)
@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_values_and_gradients_are_those_of_the_rounded_factors(case, rung, kernel_device):
    image, window, how = case
    precision, allowed = RUNGS[rung]
    x, w, dy, params = drawn(*case, precision)
    layout = "NHWC" if sum(image) % 2 else "NCHW"
    wanted = forward(x, w, **params)
    dx, dw = backward(dy, x, w, (image, window), (True, True), **params)
    a, b = (mg.tensor(v, device=kernel_device).to(layout=layout).detach() for v in (x, w))
    a.requires_grad = b.requires_grad = True
    y = mg.conv2d.using(rung)(a, b, **how)
    y.backward(mg.tensor(dy, device=kernel_device))
    assert y.layout == layout or y.shape[1] == 1 or y.shape[2:] == (1, 1)
    for got, true in ((y, wanted), (a.grad, dx), (b.grad, dw)):
        close(got.numpy(), true, allowed[kernel_device])


NAN = [(rung, "sim") for rung in TENSOR_CORES]
NAN += [pytest.param(rung, "cuda", marks=pytest.mark.gpu) for rung in (*TENSOR_CORES, *HOPPER)]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("rung", "device"), NAN)
@pytest.mark.parametrize("stride", [1, (2, 3)])
def test_nan_reaches_the_windows_over_it_and_no_others(rung, device, stride):
    image, window, how = (2, 64, 9, 11), (64, 64, 3, 2), {"padding": ((2, 0), (0, 1)), "stride": stride}
    given, _, dtype, allowed = inputs(image, window, rung, **how)
    given[0][0, 1, :2, 1] = np.nan
    exact, params = [v.astype(float) for v in given], prepare(*given[:2], **how)
    wanted = [forward(*exact[:2], **params), *backward(exact[2], *exact[:2], (image, window), (True, True), **params)]
    for got, true in zip(results(mg.conv2d.using(rung), *given, dtype, device, **how), wanted, strict=True):
        close(got, true, allowed[device])
    assert 0 < np.isnan(wanted[0]).sum() < wanted[0].size


def test_bfloat16():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    image, window, how = (2, 8, 6, 7), (16, 8, 3, 3), {"padding": 1, "stride": (1, 2)}
    *arrays, params = drawn(image, window, how)
    x, w, dy = (v.astype(bfloat16) for v in arrays)
    exact = mg.conv2d.backward(dy, x, w, (image, window), (True, True), **params)
    wanted = [mg.conv2d.forward(x, w, **params), *exact]
    a, b = (mg.tensor(v, device="sim", requires_grad=True) for v in (x, w))
    y = mg.conv2d.using("mma_bf16")(a.to(layout="NHWC"), b, **how)
    y.backward(mg.tensor(dy, device="sim"))
    for got, true in zip((y, a.grad, b.grad), wanted, strict=True):
        assert got.dtype == true.dtype
        close(got.numpy().astype(np.float32), true.astype(np.float32), 1e-2)


def tiles():
    """The tiles of every kernel with 2 or 4 to 8 warps; all but those of the first rung under the `soak` mark."""
    for rung, way in product(TENSOR_CORES, WAYS):
        values = kernels[f"{rung}{way}"].tunables
        for tile in product(values["ROWS"], values["COLUMNS"]):
            if (2 if way == "_backward_w" else 4) <= tile[0] * tile[1] // (64 * values["WIDE"][0]) <= 8:
                marks = [] if rung == "mma_tf32" else pytest.mark.soak
                yield pytest.param(rung, way, tile, marks=marks, id=f"{rung}{way} {tile[0]} x {tile[1]}")


def with_tile(rung, way, **tunables):
    """conv2d by a rung, one of whose kernels has these tunables."""
    name = f"{rung}{way}"
    tuned = {**kernels, name: kernels[name].using(**tunables)}
    return mg.conv2d.with_kernels({**tuned, "forward": tuned[rung]}, {})


def results(op, x, w, dy, dtype="float32", device="sim", **how):
    """y, dx and dw, in float64."""
    a, b, upstream = (mg.tensor(v, device=device).astype(dtype).detach() for v in (x, w, dy))
    a.requires_grad = b.requires_grad = True
    y = op(a, b, **how)
    y.backward(upstream)
    return [t.numpy().astype(float) for t in (y, a.grad, b.grad)]


def inputs(image, window, rung, **how):
    """x, w and dy as the rung rounds them, then y, dx and dw in float64; and what is allowed to differ."""
    x, w, dy, params = drawn(image, window, how)
    precision, dtype, allowed = KINDS[rung.rpartition("mma_")[2]]
    x, w, dy = given = [rounding.rounded(v, precision) for v in (x, w, dy)]
    exact = [v.astype(float) for v in (dy, x, w)]
    wanted = [forward(*exact[1:], **params), *backward(*exact, (image, window), (True, True), **params)]
    return given, wanted, dtype, allowed


@pytest.mark.sample(3)
@pytest.mark.parametrize(("rung", "way", "tile"), list(tiles()))
def test_every_tile_gives_the_same(rung, way, tile):
    given, wanted, dtype, allowed = inputs((1, 8, 9, 16), (136, 8, 3, 3), rung, padding=1)
    got = results(with_tile(rung, way, ROWS=tile[0], COLUMNS=tile[1]), *given, dtype, padding=1)
    close(got[WAYS.index(way)], wanted[WAYS.index(way)], allowed["sim"])


SETTINGS = [
    (rung, way, values)
    for rung, way in product(HOPPER, WAYS[:2])
    for values in product(*kernels[rung].tunables.values())
]


@pytest.mark.gpu
@pytest.mark.parametrize(("rung", "way", "values"), SETTINGS)
def test_every_setting_of_wgmma_gives_the_same(rung, way, values):
    """Tiles of 64 or 128 kernels and so many pixels; of 36 or 72 stages each part has some."""
    given, wanted, dtype, allowed = inputs((1, 256, 7, 5), (128, 256, 3, 3), rung, padding=1)
    op = with_tile(rung, way, **dict(zip(kernels[rung].tunables, values, strict=True)))
    got = results(op, *given, dtype, "cuda", padding=1)
    close(got[WAYS.index(way)], wanted[WAYS.index(way)], allowed["cuda"])


@pytest.mark.sample(3)
@pytest.mark.parametrize("count", kernels["mma_tf32_backward_w"].tunables["SPLIT"])
def test_every_number_of_parts_gives_the_same(count):
    """Of 2400 pixels 38 parts hold some."""
    given, wanted, dtype, allowed = inputs((4, 8, 24, 25), (8, 8, 3, 3), "mma_tf32", padding=1)
    close(
        results(with_tile("mma_tf32", "_backward_w", SPLIT=count), *given, dtype, padding=1)[2],
        wanted[2],
        allowed["sim"],
    )


@pytest.mark.parametrize(
    ("way", "tile", "warps"), [("", (128, 64), 2), ("_backward_w", (64, 64), 1), ("_backward_w", (256, 256), 16)]
)
def test_tiles_that_do_not_fit_are_rejected(way, tile, warps):
    """And no sweep offers them."""
    x, w, dy, _ = drawn((1, 8, 5, 4), (8, 8, 3, 3), {})
    with pytest.raises(LaunchError, match=f"a tile of {tile[0]} x {tile[1]} has {warps} warps. {2 if way else 4} to 8"):
        results(with_tile("mma_tf32", way, ROWS=tile[0], COLUMNS=tile[1]), x, w, dy)
    direction = "backward" if way else "forward"
    work = work_of("conv2d", ((4, 64, 28, 28), (64, 64, 3, 3)), direction, "mma_tf32", True, padding=1)
    found = {(s.values["ROWS"], s.values["COLUMNS"]) for s in settings(work)}
    assert len(found) == 3 + 3 * bool(way) and tile not in found


def test_a_tile_of_one_stage_does_not_compile():
    x, dw = mg.zeros(4096, device="sim"), mg.zeros(4096, device="sim")
    at, kernel = Window(8, 3, 3, 1, 1, 3, 3, 1, 1, 0, 0, 1, 1), kernels["mma_tf32_backward_w"]
    with pytest.raises(CompileError, match="take a tile with more warps"):
        kernel.using(ROWS=64, COLUMNS=64)(x, x, dw, at, 8, 1, 64, grid=1, block=32)


@pytest.mark.parametrize("way", ["", "_backward_x", "_backward_w"])
def test_the_microscope_finds_nothing(way):
    x, w, dy, _ = drawn((1, 8, 6, 5), (8, 8, 3, 3), {"padding": 1, "stride": 2})
    a, b = mg.tensor(x, device="sim", requires_grad=True), mg.tensor(w, device="sim", requires_grad=True)
    gradient = {"dy": mg.tensor(dy, device="sim")} if way else {}
    report = mg.inspect(mg.conv2d[f"mma_tf32{way}"], a, b, padding=1, stride=2, **gradient)
    assert report.problems == []


def test_what_the_rungs_reject():
    x, w = mg.ones(1, 8, 6, 6, device="sim"), mg.ones(8, 4, 3, 3, device="sim")
    with pytest.raises(LaunchError, match="groups=1"):
        mg.conv2d.using("mma_tf32")(x, w, groups=2)
    with pytest.raises(LaunchError, match="multiples of 4"):
        mg.conv2d.using("mma_tf32")(x, mg.ones(3, 8, 3, 3, device="sim"))
    with pytest.raises(LaunchError, match="at most 15 x 15"):
        mg.conv2d.using("mma_tf32")(mg.ones(1, 4, 20, 20, device="sim"), mg.ones(4, 4, 17, 1, device="sim"))
    with pytest.raises(LaunchError, match="float32"):
        mg.conv2d.using("mma_tf32")(*(mg.ones(*s, device="sim", dtype="float64") for s in ((1, 4, 3, 3), (4, 4, 1, 1))))
