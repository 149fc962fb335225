"""Convolution in registers and from a halo: values and gradients at odd shapes, sectors, what is rejected."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.array import spec_of
from minigrad.devices.dry_run import dry_run
from minigrad.errors import LaunchError
from minigrad.kernels.window import Window
from minigrad.ops.conv2d import backward, forward, prepare
from minigrad.ops.conv2d.kernels import FAST, kernels
from minigrad.ops.conv2d.rungs import REGISTERS, REGISTERS_W, RUNGS, choose

ODD = {"stride": (2, 3), "padding": ((0, 2), (1, 0)), "dilation": (2, 1)}
ANY = [
    ((2, 8, 9, 11), (12, 8, 3, 2), ODD),
    ((2, 33, 5, 6), (3, 33, 1, 1), {"stride": 2}),
    ((3, 5, 7, 6), (1, 5, 3, 3), {"stride": 2, "padding": 1}),
    ((1, 1, 3, 2), (1, 1, 1, 1), {"stride": (3, 4), "padding": 1}),  # pixels of dx that no output met
    ((1, 2, 16, 15), (2, 2, 15, 15), {}),
    ((0, 8, 6, 5), (12, 8, 3, 2), ODD),
]
PLAIN = [
    ((2, 9, 18, 19), (70, 9, 3, 3), {"padding": 1}),
    ((1, 20, 17, 33), (36, 20, 3, 2), {"padding": ((2, 0), (0, 3))}),
    ((1, 3, 9, 8), (33, 3, 7, 5), {"padding": (8, 1)}),
    ((0, 8, 6, 5), (12, 8, 3, 2), {"padding": 1}),
]
CASES = [("register_tile", case) for case in [*ANY, *PLAIN]] + [("halo_tile", case) for case in PLAIN]
ALLOWED = {"float32": 3e-6, "float64": 1e-14}


def drawn(image, window, how, dtype="float32", nan=False):
    """Inputs, an upstream gradient, and y, dx and dw. Random: a sum as the loss hides a wrong place."""
    rng = np.random.default_rng(sum(image) + sum(window))
    x, w = (rng.standard_normal(shape).astype(dtype) for shape in (image, window))
    if nan:
        x[0, 1, :2, 1] = np.nan
    params = prepare(x, w, **how)
    y = forward(x, w, **params)
    dy = rng.standard_normal(y.shape).astype(dtype)
    exact = [array.astype(float) for array in (dy, x, w)]
    wanted = [forward(*exact[1:], **params), *backward(*exact, (image, window), (True, True), **params)]
    return x, w, dy, wanted


def close(got, wanted, dtype="float32"):
    assert got.shape == wanted.shape and got.dtype == dtype
    assert (np.isnan(got) == np.isnan(wanted)).all()
    got, wanted = np.nan_to_num(got), np.nan_to_num(wanted)
    assert np.abs(got - wanted).max(initial=0) <= ALLOWED[dtype] * np.abs(wanted).max(initial=1e-30)


def run(op, x, w, dy, how, layout="NHWC", device="sim"):
    """y, dx and dw."""
    a, b = (mg.tensor(v, device=device).to(layout=layout).detach() for v in (x, w))
    a.requires_grad = b.requires_grad = True
    y = op(a, b, **how)
    y.backward(mg.tensor(dy, device=device))
    return y, a.grad, b.grad


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", ALLOWED)
@pytest.mark.parametrize(("rung", "case"), CASES, ids=str)
def test_values_and_gradients(rung, case, dtype, kernel_device):
    x, w, dy, wanted = drawn(*case, dtype)
    layout = "NHWC" if sum(x.shape) % 2 else "NCHW"
    got = run(mg.conv2d.using(rung), x, w, dy, case[2], layout, kernel_device)
    assert got[0].layout == layout or 1 in (got[0].shape[1], np.prod(got[0].shape[2:]))
    for result, true in zip(got, wanted, strict=True):
        close(result.numpy(), true, dtype)


@pytest.mark.parametrize("rung", ["register_tile", "halo_tile"])
def test_nan_reaches_the_windows_over_it_and_no_others(rung, kernel_device):
    how = {"padding": ((2, 0), (0, 1))}
    *given, wanted = drawn((2, 9, 8, 7), (12, 9, 3, 2), how, nan=True)
    for got, true in zip(run(mg.conv2d.using(rung), *given, how, device=kernel_device), wanted, strict=True):
        close(got.numpy(), true)
    assert 0 < np.isnan(wanted[0]).sum() < wanted[0].size


TILES = [("register_tile", {"ROWS": rows, "COLUMNS": columns}) for rows, columns in {**REGISTERS, **REGISTERS_W}]
TILES += [("halo_tile", {"TILE_WIDTH": width}) for width in kernels["halo_tile"].tunables["TILE_WIDTH"]]


@pytest.mark.parametrize(("rung", "tunables"), TILES, ids=str)
@pytest.mark.parametrize("channels", [12, 7])
def test_every_tile_gives_the_same(rung, tunables, channels):
    """The tiles of dw are others than those of y and dx: there the kernel chooses."""
    case = ((1, channels, 9, 35), (130, channels, 3, 3), {"padding": 1})
    tuned = dict(kernels)
    for name in (rung, f"{rung}_backward_x", f"{rung}_backward_w"):
        legal = tuned[name].tunables if name in tuned else {}
        if all(value in legal.get(key, ()) for key, value in tunables.items()):
            tuned[name] = tuned[name].using(**tunables)
    *inputs, wanted = drawn(*case)
    got = run(mg.conv2d.with_kernels({**tuned, "forward": tuned[rung]}, {}), *inputs, case[2])
    for result, true in zip(got, wanted, strict=True):
        close(result.numpy(), true)


@pytest.mark.parametrize("case", [case for case in mg.conv2d.cases if case.params.get("groups", 1) == 1], ids=str)
def test_the_cases_of_the_registry(case, kernel_device):
    hosts = case.arrays("float32")
    params = prepare(*hosts, **case.params)
    y = forward(*hosts, **params)
    dy = np.random.default_rng(0).standard_normal(y.shape).astype(np.float32)
    a = [mg.tensor(host, True, kernel_device) for host in hosts]
    got = mg.conv2d.using("register_tile")(*a, **case.params)
    got.backward(mg.tensor(dy, device=kernel_device))
    np.testing.assert_allclose(got.numpy(), y, rtol=1e-5, atol=1e-5)
    for x, grad in zip(a, mg.conv2d.vjp(hosts, dy, case.params), strict=True):
        np.testing.assert_allclose(x.grad.numpy(), grad, rtol=1e-5, atol=1e-5)


def test_each_rung_reads_less_of_the_image():
    """Sectors of x for an output and 8 channels: naive all taps, tiles a pixel's taps once, a halo a pixel."""
    taps, read = (8 * 3 - 2) * (16 * 3 - 2), {}  # those of all pixels that lie in the image
    rungs = {
        "naive": (4, 8, {}),
        "implicit": (16, 8, {}),
        "register_tile": (64, 16, {"ROWS": 128}),
        "halo_tile": (64, 8, {}),
    }
    for rung, (count, channels, tunables) in rungs.items():
        shapes = (1, channels, 8, 16), (count, channels, 3, 3)
        x, w = (mg.tensor(v, device="sim") for v in drawn(*shapes, {"padding": 1})[:2])
        record = mg.inspect(mg.conv2d[rung], x, w, padding=1, blocks=100, **tunables)
        lines = [line for line in record.lines if (line.space, line.kind, line.variable) == ("global", "read", "x")]
        read[rung] = sum(line.requests * line.sectors_per_request for line in lines) / (128 * count * channels / 8)
    assert read["register_tile"] == taps / 8192 and read["halo_tile"] == 128 / 8192
    assert read["naive"] > 15 * read["implicit"] > 30 * read["register_tile"]


def test_parts_of_a_long_sum_are_added_up():
    case = ((4, 8, 24, 25), (8, 8, 3, 3), {"padding": 1})
    x, w, dy, wanted = drawn(*case)
    assert RUNGS["register_tile"].split(8, 72, 2400, 132)["SPLIT"] > 1
    close(run(mg.conv2d.using("register_tile"), x, w, dy, case[2])[2].numpy(), wanted[2])


def test_what_the_rungs_reject():
    x, w = mg.ones(1, 4, 9, 9, device="sim"), mg.ones(4, 4, 3, 3, device="sim")
    with pytest.raises(LaunchError, match="register_tile takes groups=1"):
        mg.conv2d.using("register_tile")(x, mg.ones(4, 2, 3, 3, device="sim"), groups=2)
    for how in ({"stride": 2}, {"dilation": 2}):
        with pytest.raises(
            LaunchError, match="halo_tile takes groups=1, stride 1, dilation 1, windows of at most 7 x 7"
        ):
            mg.conv2d.using("halo_tile")(x, w, **how)
    with pytest.raises(LaunchError, match="windows of at most 7 x 7"):
        mg.conv2d.using("halo_tile")(x, mg.ones(4, 4, 1, 8, device="sim"))
    with pytest.raises(LaunchError, match="at most 15 x 15"):
        mg.conv2d.using("register_tile")(mg.ones(1, 1, 16, 16, device="sim"), mg.ones(4, 1, 16, 1, device="sim"))


EACH, MIXED = ("register_tile",) * 3, ("wgmma_tf32", "wgmma_tf32", "mma_tf32")
CHOICES = [  # precision, dtype, and what differs from 64 kernels of 3 x 3 over 32 images: the rungs of y, dx and dw
    ("float32", "float32", {}, EACH),
    ("float32", "float64", {}, EACH),
    ("tf32", "float64", {}, EACH),
    ("tf32", "float32", {}, MIXED),
    ("bf16", "float32", {}, MIXED),
    ("3xtf32", "float32", {}, ("wgmma_3xtf32", "wgmma_3xtf32", "mma_3xtf32")),
    ("float32", "bfloat16", {}, ("wgmma_bf16", "wgmma_bf16", "mma_bf16")),
    ("tf32", "float32", {"stride": (2, 2)}, MIXED),
    ("tf32", "float32", {"stride": (3, 3)}, ("wgmma_tf32", "mma_tf32", "mma_tf32")),  # unequal parities of 56
    ("tf32", "float32", {"stride": (9, 9)}, ("mma_tf32",) * 3),  # the copy engine takes strides up to 8
    ("tf32", "float32", {"channels": 20}, ("mma_tf32", "mma_tf32", "mma_tf32")),
    ("tf32", "float32", {"kernels": 63}, EACH),  # tensor cores take multiples of four
    ("float32", "float32", {"kernels": 4}, (None, "register_tile", None)),  # a tile has 64 columns
    ("float32", "float32", {"images": 0}, (None,) * 3),
    ("tf32", "float32", {"images": 0}, ("mma_tf32",) * 3),
    ("tf32", "float32", {"groups": 2}, (None,) * 3),
    ("float32", "bfloat16", {"groups": 64}, (None,) * 3),
]


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80", ""])
@pytest.mark.parametrize(("precision", "dtype", "other", "wanted"), CHOICES)
def test_the_choice(arch, precision, dtype, other, wanted):
    """On Hopper. A GPU without that much shared memory has registers alone; the simulator, of no arch, goes by rows."""
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    of = {"images": 32, "channels": 64, "kernels": 64, "groups": 1, "stride": (1, 1), **other}
    shapes = (of["images"], of["channels"], 56, 56), (of["kernels"], of["channels"] // of["groups"], 3, 3)
    device, at = dry_run(), Window.over(shapes[0], (3, 3), of["stride"], ((1, 1), (1, 1)))
    device.arch = arch
    x, w = (spec_of(device, shape, np.dtype(dtype)) for shape in shapes)
    fast = {**kernels, **{role: kernels[name] for role, name in FAST.items()}}
    for role, name in zip(("forward", "backward_x", "backward_w"), wanted, strict=True):
        rung = choose(fast, role, x, w, at, of["groups"], precision)
        if arch == "sm_90a":
            assert (rung.name if rung else None) == name
        else:
            assert rung is None or (arch and rung.name == "register_tile")
        assert choose(kernels, role, x, w, at, of["groups"], precision) is None, "`using` has selected another one"
