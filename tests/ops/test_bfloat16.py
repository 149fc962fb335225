"""Arrays of bfloat16: numbers of two bytes, with arithmetic in float and one rounding, in NumPy as in kernels."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.devices.dry_run import dry_run
from minigrad.errors import CompileError
from minigrad.op import OPS

BFLOAT16 = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
STEP = 2.0**-7  # the relative distance of neighbors, at most
EXACT = {"norm_linear": (1, 2), "bias_gelu_tanh": (1,), "self_attention": (1,)}  # inputs in float32
ALIKE = ("exp", "log", "log_softmax", "minimum", "negative", "power", "sqrt", "square", "subtract", "tanh")
OF_FLOATS = [
    pytest.param(op, id=op.name, marks=[pytest.mark.soak] * (op.name in ALIKE)) for op in OPS.values() if op.kernels
]


def on(device, host, requires_grad=False):
    return mg.tensor(host, requires_grad, device)


# --- ops ---


def inputs(op, case):
    """The inputs of a case in bfloat16; the numbers of a norm's channels, and biases of what is fused, are float32."""
    arrays, exact = case.arrays(BFLOAT16), EXACT.get(op.name, range(10 * ("_norm" in op.name)))
    return [x.astype(np.float32) if i in exact and x.ndim == 1 else x for i, x in enumerate(arrays)]


def results(op, arrays, dy, params, put):
    """The outputs and the gradients."""
    y, pull = op.pullback([put(x.copy()) for x in arrays], params)
    outputs = y if isinstance(y, tuple) else (y,)
    upstream = put(dy) if len(outputs) == 1 else (put(dy), *[None] * (len(outputs) - 1))
    grads = pull(upstream) if op.backward else ()
    return [x.numpy() if isinstance(x, Array) else x for x in (*outputs, *grads) if x is not None]


def truth(op, arrays, params):
    """The output in float64."""
    exact = [x.astype(np.float64) if x.dtype.kind in "fV" else x for x in arrays]
    y = op.forward(*exact, **(op.prepare(*exact, **params) if op.prepare else params))
    return y[0] if isinstance(y, tuple) else y


def chosen(op):
    """The largest case of an op, where kernels take their vectorized ways, one with NaN, and images as NHWC."""
    ways = (op.cases, [c for c in op.cases if c.nan], [c for c in op.cases if c.channels_last])
    return [max(cases, key=lambda case: sum(x.size for x in case.arrays())) for cases in ways if cases]


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["attention", "bias_gelu_tanh", "layer_norm", "rms_norm", "self_attention"])
def test_an_upstream_gradient_with_more_digits_is_rounded(name, kernel_device):
    """A product gives its second factor a gradient in float32, on tensor cores of an H100."""
    op = OPS[name]
    case = chosen(op)[0]
    arrays = inputs(op, case)
    y, pull = op.pullback([Array.upload(get(kernel_device), x) for x in arrays], case.params)
    dy = np.random.default_rng(0).standard_normal(y.shape).astype(np.float32)
    wide, rounded = (pull(Array.upload(get(kernel_device), d)) for d in (dy, dy.astype(BFLOAT16)))
    for a, b in zip(wide, rounded, strict=True):
        assert a is b is None or (a.dtype == b.dtype and np.array_equal(a.numpy(), b.numpy()))


@pytest.mark.sample(5)
@pytest.mark.usefixtures("small_files_at_once")
@pytest.mark.parametrize("op", OF_FLOATS)
def test_kernels_agree_with_numpy_to_one_rounding(op, kernel_device, monkeypatch):
    rows = mg.attention.using("forward").running  # tiles round weights, too: see test_attention.py for their errors
    monkeypatch.setattr("minigrad.ops.self_attention.attending", lambda: rows)
    for case in chosen(op):
        arrays, params = inputs(op, case), case.params
        exact = truth(op, arrays, params)
        dy = np.asarray(np.random.default_rng(1).standard_normal(exact.shape)).astype(BFLOAT16)

        def put(x, case=case):
            return Array.upload(get(kernel_device), x, case.channels_last and x.ndim == 4)

        wanted, got = results(op, arrays, dy, params, lambda x: x), results(op, arrays, dy, params, put)
        kinds = (np.float32,) if op.name == "cross_entropy" else (BFLOAT16, bool)
        assert got[0].dtype == wanted[0].dtype and got[0].dtype in kinds
        for found, reference in zip(got, wanted, strict=True):
            unrounded = "matmul" in op.name and found.dtype == np.float32  # the gradient of its second factor, in tiles
            assert found.dtype == reference.dtype or unrounded
            step = STEP if BFLOAT16 in (found.dtype, reference.dtype) else 1e-5
            np.testing.assert_allclose(found.astype(float), reference.astype(float), rtol=step, atol=1e-5)
        np.testing.assert_allclose(got[0].astype(float), exact.astype(float), rtol=0.51 * STEP, atol=1e-5)


def test_sums_are_float_from_the_first_to_the_last(device):
    """In bfloat16, 256 + 1 is 256: a sum or a count made in it would stay there."""
    x = on(device, np.ones(20_000, BFLOAT16), requires_grad=True)
    assert x.sum().item() == 19_968 and x.mean().item() == 1  # 20,000 is between 19,968 and 20,096
    assert x.reshape(2000, 10).sum(axis=0).numpy().tolist() == [2000] * 10
    y = x.max()
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(20_000, np.float32(1 / 20_000)).astype(BFLOAT16))
    losses = mg.cross_entropy(x.reshape(5000, 4), on(device, np.zeros(5000, int)))
    assert losses.dtype == np.float32 and abs(losses.item() - np.log(4)) < 1e-6


def test_numbers_are_taken_and_other_dtypes_are_not(device):
    x = on(device, np.array([1, 2.5, -3], BFLOAT16), requires_grad=True)
    y = (2 * x + 1) / np.float32(4) - x**2
    assert y.dtype == BFLOAT16 and (x > 1).numpy().tolist() == [False, True, False]
    np.testing.assert_allclose(y.numpy().astype(float), [-0.25, -4.75, -10.25])
    y.sum().backward()
    assert x.grad.dtype == BFLOAT16 and x.grad.numpy().tolist() == [-1.5, -4.5, 6.5]
    with pytest.raises(TypeError, match="add: one input is bfloat16, another float32; make them one"):
        x + mg.ones(3, device=device)
    with pytest.raises(TypeError, match="and for bfloat16 see mg"):
        mg.optim.SGD([x], lr=0.1)


def test_a_fused_function_rounds_once(kernel_device):
    fused = mg.fuse(lambda x, w: (x * w + 1.0).relu())
    rng = np.random.default_rng(0)
    hosts = [rng.standard_normal(shape).astype(BFLOAT16) for shape in ((33, 24), (24,))]
    dy = np.ones((33, 24), BFLOAT16)
    got, wanted = ([on(name, x, requires_grad=True) for x in hosts] for name in (kernel_device, "numpy"))
    for inputs in (got, wanted):
        inputs.append(fused(*inputs))
        inputs[-1].backward(on(inputs[0].device, dy))
    x, w = (host.astype(float) for host in hosts)
    np.testing.assert_array_equal(got[2].numpy(), np.maximum(x * w + 1, 0).astype(np.float32).astype(BFLOAT16))
    for a, b in zip(got[:2], wanted[:2], strict=True):
        np.testing.assert_allclose(a.grad.numpy().astype(float), b.grad.numpy().astype(float), rtol=STEP)
    rows = mg.fuse(lambda x: (x * x).sum(axis=-1))(got[0])
    np.testing.assert_array_equal(rows.numpy(), (x * x).sum(axis=-1).astype(np.float32).astype(BFLOAT16))


def test_a_thread_moves_sixteen_bytes():
    device = dry_run()
    for dtype, blocks in ((np.float32, 8), (BFLOAT16, 4)):
        x = Array.empty(device, (8192,), np.dtype(dtype))
        device.launches.clear()
        for op, inputs in (("relu", [x]), ("add", [x, x])):
            OPS[op].run(inputs, {})
        assert [launch.grid for launch in device.launches] == [(blocks, 1, 1)] * 2


# --- astype ---


def test_astype_rounds_to_nearest_and_ties_to_even(device):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 20_000, dtype=np.uint32)  # subnormals, infinities and NaN among them
    ties = (rng.integers(0, 2**16, 5_000, dtype=np.uint32) << 16) + 0x8000
    x = np.concatenate([bits, ties, ties - 1, ties + 1]).view(np.float32)
    x = np.concatenate([x, np.float32([0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-45, 9.2e-41])])
    y = on(device, x).astype("bfloat16")
    with np.errstate(all="ignore"):
        wanted = x.astype(BFLOAT16)
    number = ~np.isnan(x)
    np.testing.assert_array_equal(y.numpy()[number].view(np.uint16), wanted[number].view(np.uint16))
    assert np.isnan(y.numpy()[~number].astype(np.float32)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_astype_back_is_exact(dtype, device):
    every = np.arange(2**16, dtype=np.uint16).view(BFLOAT16)
    wide = on(device, every).astype(dtype)
    assert wide.dtype == dtype
    with np.errstate(all="ignore"):  # of NaN that signals
        np.testing.assert_array_equal(wide.numpy(), every.astype(dtype))
    number = ~np.isnan(every.astype(np.float32))
    again = wide.astype("bfloat16").numpy()
    np.testing.assert_array_equal(again[number].view(np.uint16), every[number].view(np.uint16))


def test_astype_takes_every_dtype_keeps_the_layout_and_passes_gradients(device):
    for dtype in ("bool", "uint8", "int64"):
        x = on(device, np.array([0, 1, 1, 0, 1] if dtype == "bool" else [0, 1, 200, 3, 77], dtype))
        for to in ("bfloat16", "float32", "float64"):
            np.testing.assert_array_equal(x.astype(to).numpy().astype(float), x.numpy().astype(float))
    assert x.astype("int64").dtype == np.int64 and not x.astype("bfloat16").requires_grad
    with pytest.raises(ValueError, match=r"astype: 281\.0 does not fit into uint8"):
        x.astype("float32").sum().astype("uint8")
    images = on(device, np.arange(120.0, dtype=np.float32).reshape(2, 3, 4, 5), requires_grad=True)
    last = images.to(layout="NHWC").astype("bfloat16")
    assert last.layout == "NHWC" and last.astype("float32").layout == "NHWC"
    np.testing.assert_array_equal(last.numpy().astype(np.float32), images.numpy())
    (last.astype("float32") * 3).sum().backward()
    assert images.grad.dtype == np.float32 and images.grad.layout == "NCHW"
    np.testing.assert_array_equal(images.grad.numpy(), np.full(images.shape, 3))


def test_astype_is_replayed(repeating):
    x = Array.upload(repeating, np.arange(5, dtype=np.float32))
    for _ in range(2):
        y = OPS["astype"].run([x], {"dtype": BFLOAT16})
    assert (repeating.prepared, repeating.repeated, repeating.single) == (1, 2, 0) and y.dtype == BFLOAT16


# --- a reader's own kernel ---

OWN = '#include "common.cuh"\nextern "C" __global__ void k(const real* x, real* y, wide a) {{ {} }}'
WRONG = {
    "real sum = 0; sum += x[0]; y[0] = sum;": "a sum above all, is a `wide`",
    "real twice = x[0] * 2; y[0] = twice;": "a number that is computed, a sum above all, is a `wide`",
    "y[0] = x[0] < 0 ? 0 : x[0];": "and 0 is real.0. next to an element",
}


def test_a_kernel_over_real_works_with_numbers_in_float(kernel_device):
    x, y = (on(kernel_device, np.array([1, 2, -3], BFLOAT16)) for _ in range(2))
    body = "wide sum = 0; for (int i = 0; i < 3; ++i) sum += a * x[i]; y[0] = sum; y[1] = x[2] < 0 ? real(0) : x[2];"
    mg.kernel(OWN.format(f"{body} y[2] = 7;"), "k")(x, y, 0.125, grid=1, block=1)
    assert y.numpy().tolist() == [0, 0, 7]
    mg.kernel(OWN.format("y[0] = a;"), "k")(x, y, 1 / 3, grid=1, block=1)
    assert y.numpy()[0] == np.float32(1 / 3).astype(BFLOAT16)
    with pytest.raises(TypeError, match=r"parameter of type bfloat16 is not known here\..*write `wide` for a number"):
        mg.kernel(OWN.replace("wide a", "real a").format("y[0] = a;"), "k")(x, y, 0.1, grid=1, block=1)


@pytest.mark.parametrize("body", WRONG)
def test_a_kernel_that_would_round_on_the_way_does_not_compile(body):
    x = on("sim", np.ones(3, BFLOAT16))
    with pytest.raises(CompileError, match=WRONG[body]):
        mg.kernel(OWN.format(body), "k")(x, x, 0.1, grid=1, block=1)


def test_a_kernel_without_the_header_is_told_its_name():
    x = on("sim", np.ones(3, BFLOAT16))
    with pytest.raises(CompileError, match=r'`real` is bfloat16 here, which #include "common\.cuh"'):
        mg.kernel('extern "C" __global__ void k(real* y) { y[0] = 1; }', "k")(x, grid=1, block=1)
