"""attention: what a query sees, what hidden keys cannot do, and what is refused."""

from weakref import finalize

import numpy as np
import pytest

import minigrad as mg
from minigrad import rounding
from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.devices.dry_run import DryRun, dry_run
from minigrad.devices.dtypes import dtype_of as dtype_named
from minigrad.errors import LaunchError
from minigrad.ops import attention
from minigrad.ops.attention import flash


def made(*shapes, seed=0, device="numpy", grad=False):
    rng = np.random.default_rng(seed)
    return [mg.tensor(rng.standard_normal(shape), grad, device) for shape in shapes]


def test_equal_keys_give_the_mean_of_the_values(device):
    q, v = made((1, 2, 3, 5), (1, 2, 7, 5), device=device)
    k = mg.tensor(np.ones((1, 2, 7, 5)), device=device)
    mean = v.numpy().mean(2, keepdims=True)
    np.testing.assert_allclose(mg.attention(q, k, v).numpy(), np.broadcast_to(mean, q.shape), atol=1e-12)


def test_the_order_of_keys_does_not_matter(device):
    q, k, v = made((1, 2, 3, 5), (1, 2, 40, 5), (1, 2, 40, 5), device=device)
    turned = [mg.tensor(x.numpy()[:, :, ::-1].copy(), device=device) for x in (k, v)]
    np.testing.assert_allclose(mg.attention(q, *turned).numpy(), mg.attention(q, k, v).numpy(), atol=1e-12)


@pytest.mark.parametrize("queries, keys", [(4, 4), (2, 5), (5, 2)])
def test_a_causal_query_sees_as_far_as_its_place_from_the_end(queries, keys, device):
    """The last query sees all keys; with more queries than keys the first ones see none."""
    q, k, v = made((1, 1, queries, 3), (1, 1, keys, 3), (1, 1, keys, 3), device=device)
    y = mg.attention(q, k, v, causal=True).numpy()[0, 0]
    for i in range(queries):
        seen = max(0, i + 1 + keys - queries)
        few = [mg.tensor(x.numpy()[:, :, :seen], device=device) for x in (k, v)]
        wanted = mg.attention(mg.tensor(q.numpy()[:, :, i : i + 1], device=device), *few).numpy()[0, 0, 0]
        np.testing.assert_allclose(y[i], wanted if seen else 0, atol=1e-12)


def test_a_query_that_sees_no_key_gives_0_and_gets_no_gradient(device):
    q, k, v = made((1, 1, 2, 4), (1, 1, 3, 4), (1, 1, 3, 4), device=device, grad=True)
    mask = mg.tensor(np.array([[False] * 3, [True, True, False]]), device=device)
    y = mg.attention(q, k, v, mask)
    y.backward(mg.tensor(np.ones(y.shape), device=device))
    assert (y.numpy()[0, 0, 0] == 0).all() and (q.grad.numpy()[0, 0, 0] == 0).all()
    assert (k.grad.numpy()[0, 0, 2] == 0).all() and (v.grad.numpy()[0, 0, 2] == 0).all()
    assert np.abs(q.grad.numpy()[0, 0, 1]).min() > 0


@pytest.mark.parametrize("strange", [np.nan, np.inf])
def test_what_is_hidden_cannot_leak(strange, device):
    """A hidden key and value may be NaN: neither the output nor a gradient of others is."""
    q, k, v = made((1, 2, 3, 5), (1, 2, 4, 5), (1, 2, 4, 5), device=device, grad=True)
    spoiled = [mg.tensor(np.where(np.arange(4)[:, None] == 2, strange, x.numpy()), True, device) for x in (k, v)]
    mask, dy = mg.tensor(np.arange(4) != 2, device=device), made((1, 2, 3, 5), seed=1, device=device)[0]
    results = []
    for keys, values in ((k, v), spoiled):
        q.grad = None
        y = mg.attention(q, keys, values, mask)
        y.backward(dy)
        results.append([x.numpy() for x in (y, q.grad, keys.grad, values.grad)])
    for clean, found in zip(*results, strict=True):
        np.testing.assert_array_equal(found, clean)


def test_what_is_seen_shows(device):
    q, k, v = made((1, 1, 2, 3), (1, 1, 3, 3), (1, 1, 3, 3), device=device)
    spoiled = mg.tensor(np.where(np.arange(3)[:, None] == 2, np.nan, v.numpy()), device=device)
    y = mg.attention(q, k, spoiled, mg.tensor(np.array([[True, True, False], [True] * 3]), device=device)).numpy()
    assert np.isfinite(y[0, 0, 0]).all() and np.isnan(y[0, 0, 1]).all()


def test_large_scores_do_not_overflow(device):
    q, k, v = (mg.tensor(x.numpy() * 1e4, device=device) for x in made((1, 1, 3, 8), (1, 1, 40, 8), (1, 1, 40, 8)))
    y = mg.attention(q, k, v).numpy()[0, 0]
    best = (q.numpy() @ k.numpy().swapaxes(-1, -2))[0, 0].argmax(-1)
    np.testing.assert_allclose(y, v.numpy()[0, 0, best], rtol=1e-9)


def test_three_ops_with_the_scores_in_memory_agree(device):
    """The first rung: each op writes what the next one reads. Its gradients are those of three ops, too."""
    *tensors, dy = made((2, 2, 33, 8), (2, 2, 45, 8), (2, 2, 45, 8), (2, 2, 33, 8), device=device, grad=True)
    found = []
    for op in (mg.attention, lambda q, k, v: mg.softmax(q @ k.transpose(0, 1, 3, 2) * 8**-0.5) @ v):
        y = op(*(leaves := [mg.tensor(x.numpy(), True, device) for x in tensors]))
        y.backward(dy)
        found.append([x.numpy() for x in (y, *(x.grad for x in leaves))])
    for one, three in zip(*found, strict=True):
        np.testing.assert_allclose(three, one, atol=1e-12)


def test_refusals():
    q, k = made((1, 4, 3, 5), (1, 4, 6, 5))
    with pytest.raises(ValueError, match=r"q is \(4, 3, 5\).*each must be \(batch, heads, length, width\)"):
        mg.attention(q[0], k, k)
    with pytest.raises(ValueError, match="k and v must have one shape, and the batch and the width of q"):
        mg.attention(q, k, k[:, :, :5])
    with pytest.raises(ValueError, match="q has 4 heads, k 3; the first must be a multiple of these"):
        mg.attention(q, k[:, :3], k[:, :3])
    with pytest.raises(TypeError, match="mask is float64; it must be bool, True where a query sees a key"):
        mg.attention(q, k, k, mg.tensor(np.ones((3, 6)), device="numpy"))
    with pytest.raises(TypeError, match=r"True where a query sees a key\. causal is given by name: causal=True"):
        mg.attention(q, k, k, True)
    takes = r"attention takes \(q, k, v, mask, causal, scale, precision, dropout\); got"
    with pytest.raises(TypeError, match=f"{takes} 2 arguments. v is missing"):
        mg.attention(q, k)
    with pytest.raises(TypeError, match=f"{takes} 3 arguments, is_causal"):
        mg.attention(q, k, k, is_causal=True, dropout=0.5)
    with pytest.raises(
        ValueError, match=r"mask \(6, 3\) does not broadcast to \(batch, heads, queries, keys\) \(1, 4, 3"
    ):
        mg.attention(q, k, k, mg.tensor(np.ones((6, 3), bool), device="numpy"))
    with pytest.raises(ValueError, match="width 257 is more than the 256 that a kernel takes"):
        mg.attention(*(mg.zeros(1, 1, 2, 257, device="sim") for _ in range(3)))


def test_keys_without_a_query_get_a_gradient_of_0(device):
    q, k, v = made((2, 0, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4), device=device, grad=True)
    mg.attention(q, k, v).backward(mg.tensor(np.ones((2, 0, 3, 4)), device=device))
    assert q.grad.shape == q.shape and all((x.grad.numpy() == 0).all() for x in (k, v))


def test_without_a_mask_there_may_be_more_scores_than_an_array_has_elements():
    q = Array.empty(get("sim"), (1, 1, 2**16, 1), np.dtype(np.float32))
    assert attention.extents(q, q, None, False, None)[1:8] == (1.0, 1, 1, 2**16, 2**16, 1, 0)


# --- in tiles ---

PRECISIONS = {"register_tile": "float32", "mma_3xtf32": "float32", "mma_tf32": "tf32", "mma_bf16": "bf16"}
PRECISIONS |= {"wgmma_bf16": "bf16"}
# batch, heads, queries, width, keys, heads of keys, causal: tiles that divide nothing, queries that see nothing, one
# key, and rows that are too wide for tiles
SIZES = [
    (1, 2, 127, 64, 127, 2, True), (1, 4, 33, 40, 129, 2, True), (1, 2, 70, 64, 31, 1, True),
    (2, 1, 1, 64, 1000, 1, False), (1, 2, 2, 64, 300, 2, False), (1, 1, 31, 5, 2, 1, False), (1, 1, 3, 64, 0, 1, False),
    (1, 1, 300, 16, 300, 1, True), (1, 1, 31, 128, 33, 1, False), (1, 2, 31, 64, 1, 1, False),
    (1, 2, 31, 192, 33, 2, False), (1, 2, 33, 256, 31, 1, False), (1, 1, 127, 256, 127, 1, True),
]  # fmt: skip
OF_HOPPER = [(1, 4, 333, 128, 200, 2, True), (2, 2, 130, 72, 390, 2, False), (1, 2, 400, 24, 400, 1, True)]


def takes(rung, size):
    """Of few queries or keys float32 takes no tensor cores; wgmma takes runs of 16 bytes, and at least one key."""
    if rung != "forward" and size[3] > max(flash.WIDTHS):
        return False
    if rung == "wgmma_bf16":
        return size[3] % 8 == 0 and size[4] > 0
    return size not in OF_HOPPER and not (rung == "mma_3xtf32" and min(size[2], size[4]) < flash.FEW)


def on_devices(*rungs):
    """Each rung with each device that runs it: that of wgmma is emulated elsewhere."""
    on_sim = [pytest.param(rung, "sim") for rung in rungs if rung != "wgmma_bf16"]
    return on_sim + [pytest.param(rung, "cuda", marks=pytest.mark.gpu) for rung in rungs]


# The rung without tiles has two kernels. With tiles, sizes take them and the single one in turn; `make soak` has both.
RULED = [
    pytest.param(
        *pair.values,
        size,
        one,
        marks=[*pair.marks, *[pytest.mark.soak] * (pair.values[0] != "forward" and i % 2 != one)],
    )
    for pair in on_devices("forward", *PRECISIONS)
    for i, size in enumerate(SIZES + OF_HOPPER)
    for one in (False, True)
    if takes(pair.values[0], size) and not (one and pair.values[0] == "forward")
]


def in_tiles(rung, one=False):
    """attention by that rung; one: a single kernel for all gradients."""
    op = mg.attention.using(rung)
    return op.with_kernels(op.kernels, {f"all_{rung}": f"{rung}_backward_all"} if one else {})


def results(op, hosts, dy, device, **params):
    """y, dq, dk and dv as float64."""
    xs = [mg.tensor(x, True, device) for x in hosts]
    y = op(*xs, **params)
    y.backward(mg.tensor(dy, device=device))
    return [x.numpy().astype(float) for x in (y, *(x.grad for x in xs))]


def dtype_of(rung):
    return pytest.importorskip("ml_dtypes").bfloat16 if PRECISIONS.get(rung) == "bf16" else np.float32


def naive(hosts, dy, causal, precision):
    """Three ops and their gradients: sums in float32, factors rounded, and what an op gives in its dtype."""
    r = lambda x: rounding.rounded(x.astype(np.float32), precision)  # noqa: E731
    given = lambda x: x.astype(hosts[0].dtype).astype(np.float32)  # noqa: E731
    group = hosts[0].shape[1] // hosts[1].shape[1]
    q, k, v = (r(np.repeat(x, n, 1)) for x, n in zip(hosts, (1, group, group), strict=True))
    seen, dy = np.tril(np.ones((*q.shape[:3], k.shape[2]), bool), k.shape[2] - q.shape[2] if causal else 10**6), r(dy)
    scale = np.float32(q.shape[3] ** -0.5)
    s = np.where(seen, given(q @ k.swapaxes(2, 3) * scale), -np.inf)
    e = np.exp(s - np.maximum(s.max(-1, keepdims=True, initial=-np.inf), np.float32(-1e30)))
    p = given(e / np.maximum(e.sum(-1, keepdims=True), np.float32(1e-30)))
    ds = given(p * (dp := given(dy @ v.swapaxes(2, 3))) - p * (p * dp).sum(-1, keepdims=True))
    dk, dv = (r(ds).swapaxes(2, 3) @ q * scale, r(p).swapaxes(2, 3) @ dy)
    dk, dv = (x.reshape(len(x), hosts[1].shape[1], group, *x.shape[2:]).sum(2) for x in (dk, dv))
    return [given(x).astype(float) for x in (r(p) @ v, r(ds) @ k * scale, dk, dv)]


@pytest.mark.sample(5)
@pytest.mark.parametrize("rung, on, size, one", RULED, ids=str)
def test_attention_is_as_exact_as_three_products(rung, on, size, one):
    """At most twice, gradients three times, their error, and half of a last bit.

    With a single key dq and dk are exactly 0, and so is the error of three products: see `noise`.
    """
    batch, heads, queries, width, keys, shared, causal = size
    dtype, bit = dtype_of(rung), 2.0**-9 if PRECISIONS.get(rung) == "bf16" else 2.0**-24
    rng, many, few = np.random.default_rng(0), (batch, heads, queries, width), (batch, shared, keys, width)
    *hosts, dy = (rng.standard_normal(shape).astype(dtype) for shape in (many, few, few, many))
    exact = results(mg.attention, [x.astype(float) for x in hosts], dy.astype(float), "numpy", causal=causal)
    found = results(in_tiles(rung, one), hosts, dy, check(on), causal=causal)
    wanted = naive(hosts, dy, causal, PRECISIONS.get(rung, "float32"))
    least = noise(hosts, dy, 2.0**-11 if rung == "mma_tf32" else 2.0**-24) if keys == 1 else (0, 0, 0, 0)
    for got, right, other, times, floor in zip(found, exact, wanted, (2, 3, 3, 3), least, strict=True):
        limit = times * np.abs(other - right).max(initial=0) + bit * np.abs(right).max(initial=0) + floor
        assert np.abs(got - right).max(initial=0) <= limit


def noise(hosts, dy, unit):
    """What a single key leaves of y, dq, dk and dv: ds is dy v - dy y, two sums of the same terms in another order."""
    q, k, v, dy = (np.asarray(x, float) for x in (*hosts, dy))
    ds = 2 * unit * np.linalg.norm(dy, axis=-1, keepdims=True) * np.linalg.norm(v, axis=-1)[..., None]
    dq, dk = (ds * np.abs(x) * q.shape[3] ** -0.5 for x in (k, q))
    return 0, dq.max(), dk.sum((1, 2)).max(), 0


@pytest.mark.sample(3)
@pytest.mark.parametrize("one", [False, True], ids=["two kernels", "one kernel"])
@pytest.mark.parametrize("rung, on", on_devices(*PRECISIONS))
def test_what_is_hidden_cannot_leak_in_tiles(rung, one, on):
    """With causal the last keys may be NaN for all but the last queries, and the first query for other keys."""
    rng, dtype, first = np.random.default_rng(0), dtype_of(rung), np.arange(75)[:, None] < 70
    hosts = [rng.standard_normal((1, 1, 75, 8)).astype(dtype) for _ in range(4)]
    late = [np.where(first, x, dtype(np.nan)) for x in hosts[1:3]]
    begin = np.where(np.arange(75)[:, None] < 1, dtype(np.nan), hosts[0])
    clean, spoiled, other = (
        results(in_tiles(rung, one), each, hosts[3], check(on), causal=True)
        for each in (hosts[:3], [hosts[0], *late], [begin, *hosts[1:3]])
    )
    unit = 2**-7 if dtype is not np.float32 else 2**-10 if rung == "mma_tf32" else 2**-18
    for i, (found, rows) in enumerate([(spoiled, slice(70))] * 2 + [(other, slice(1, None))] * 2):
        np.testing.assert_allclose(found[i][0, 0, rows], clean[i][0, 0, rows], atol=4 * unit)
    assert all(np.isnan(x[0, 0, 70:]).all() for x in spoiled[:2]) and np.isnan(other[2][0, 0, 0]).all()


def test_blocks_of_many_pairs_do_each_their_own_rows(kernel_device):
    """With causal the longest rows of some pairs come first; here are more pairs, and two blocks of each."""
    rng = np.random.default_rng(0)
    *hosts, dy = (rng.standard_normal((2, 11, 140, 4)).astype(np.float32) for _ in range(4))
    wanted = results(mg.attention, hosts, dy, "numpy", causal=True)
    for found, right in zip(
        results(in_tiles("register_tile", True), hosts, dy, kernel_device, causal=True), wanted, strict=True
    ):
        np.testing.assert_allclose(found, right, atol=1e-5)


@pytest.mark.parametrize("rung, on", on_devices(*PRECISIONS))
def test_large_scores_do_not_overflow_in_tiles(rung, on):
    """Also where a maximum grows from tile to tile, and where all scores are far below 0."""
    dtype = dtype_of(rung)
    k, v = np.zeros((1, 1, 200, 8), dtype), np.random.default_rng(0).standard_normal((1, 1, 200, 8)).astype(dtype)
    k[..., 0] = np.arange(200)
    for sign in (1, -1):
        q = np.full((1, 1, 3, 8), sign * 100, dtype)
        y = in_tiles(rung)(*(mg.tensor(x, device=check(on)) for x in (q, k, v)), scale=1.0).numpy()
        np.testing.assert_allclose(y.astype(float)[0, 0, 0], v.astype(float)[0, 0, -1 if sign > 0 else 0], rtol=1e-2)


def test_a_rung_in_tiles_refuses_what_it_cannot_do():
    q = mg.ones(1, 1, 2, 8, device="sim")
    for args, params in (((q, q, q, mg.ones(2, 2, device="sim") == 1), {}), ((q, q, q), {"scale": 0.0})):
        with pytest.raises(
            LaunchError, match="register_tile takes float32, no mask, a positive scale, and widths up to"
        ):
            mg.attention.using("register_tile")(*args, **params)
    with pytest.raises(
        LaunchError, match=r"mma_bf16 takes bfloat16.*q is float32 \(1, 1, 2, 8\).*finds a kernel itself"
    ):
        mg.attention.using("mma_bf16")(q, q, q)


def test_the_choice_follows_dtype_precision_mask_and_width():
    device = dry_run()

    def chosen(dtype="float32", precision="float32", mask=None, width=64, op=mg.attention, queries=300):
        q = Array.empty(device, (2, 4, queries, width), mg.tensor([], dtype=dtype, device="numpy").dtype)
        rung = flash.choose(op.running, q, q, q, mask, 0.1, precision)
        return rung and rung.name

    pytest.importorskip("ml_dtypes")
    assert [chosen(precision=p) for p in ("float32", "3xtf32", "tf32", "bf16")] == [
        "register_tile", "mma_3xtf32", "mma_tf32", "mma_tf32",
    ]  # fmt: skip
    assert chosen("bfloat16") == "wgmma_bf16" and chosen("bfloat16", width=60) == "mma_bf16"
    assert chosen("bfloat16", width=136) is None and chosen(width=129) is None and chosen("float64") is None
    assert chosen(mask=True) is None and chosen(op=mg.attention.using("forward")) is None
    assert chosen(precision="3xtf32", queries=flash.FEW - 1) == "register_tile"


def test_memory_grows_with_the_length_and_not_with_its_square():
    for length in (1024, 65536):
        for name, rung in flash.RUNGS.items():
            for way in flash.WAYS:
                launch = rung.launch(mg.attention.kernels, way, length, 1, 64)
                assert launch.shared <= 227 * 1024 and launch.blocks <= length, name
    pytest.importorskip("ml_dtypes")
    for how in (("float32", "float32"), ("float32", "3xtf32"), ("float32", "tf32"), ("bfloat16", "float32")):
        for causal in (False, True):
            assert highest(65536, causal, *how) == pytest.approx(64 * highest(1024, causal, *how), rel=1e-4)


def highest(length, causal, dtype, precision):
    """The most bytes that a forward and a backward pass hold at once, besides their inputs."""
    device, held = dry_run(), [0, 0]

    def allocate(nbytes):
        buffer = DryRun.allocate(device, nbytes)
        finalize(buffer, count, -nbytes)
        count(nbytes)
        return buffer

    def count(nbytes):
        held[:] = held[0] + nbytes, max(held[1], held[0] + nbytes)

    q, k, v, dy = (Array.empty(device, (1, 1, length, 64), dtype_named(dtype)) for _ in range(4))
    device.allocate = allocate
    _, pull = mg.attention.pullback([q, k, v], {"causal": causal, "precision": precision})
    pull(dy)
    return held[1]
