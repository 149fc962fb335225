"""Every op of the registry: its rule agrees with central differences, its kernels with NumPy at every block size."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import check
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.errors import LaunchError
from minigrad.lab.bench.work import work_of
from minigrad.op import OPS, Case
from minigrad.ops.matmul.shapes import ENDS

nan, inf = np.nan, np.inf
# Kernels that take some of the cases alone, which have tests of their own, and some that are steps of others.
ELSEWHERE = {"register_tile", "halo_tile", "recount", "turn", "rest", "finish"}
RARE = ("batch_norm", "batch_norm_relu", "cross_entropy")  # a kernel of theirs is launched in one or two cases alone
EACH = pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))  # with all of its cases, as most take milliseconds


@EACH
def test_rule_agrees_with_central_differences(op):
    for case in op.cases:
        check.rule(op, case)


@pytest.mark.soak
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@EACH
def test_kernels_agree_with_numpy(op, dtype, kernel_device):
    for case in op.cases:
        check.every_block(op, case, kernel_device, dtype)


@pytest.mark.usefixtures("small_files_at_once")
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.soak)])
@EACH
def test_every_kernel_agrees_with_numpy(op, dtype, kernel_device):
    """Each with its own block."""
    kernels = [("", op), *((name, op.using(name)) for name in check.variants(op))]
    for case in op.cases:
        check.every_block(op, case, kernel_device, dtype, kernels)


@pytest.mark.sample(8)
@pytest.mark.usefixtures("small_files_at_once")
@EACH
def test_every_block_agrees_with_numpy(op, kernel_device):
    """Each block in a third of the cases: neighboring blocks take different ones; the test above has all."""
    blocks = [(name, chosen) for name, chosen in check.settings(op) if "=" in name]
    every = 1 if op.name in RARE else 3
    for number, case in enumerate(op.cases):
        check.every_block(op, case, kernel_device, chosen=blocks[number % every :: every])


@EACH
def test_every_op_has_a_formula_a_cost_and_cases(op):
    assert op.cases and op.forward.__doc__ and (op.backward is None or op.backward.__doc__)
    assert len(op.cost(*op.cases[0].arrays("float32"), **op.cases[0].params)) == 2


@pytest.mark.parametrize(
    ("name", "shapes", "params", "flops", "elements"),
    [
        ("relu", [(3,)], {}, 3, 3 + 3),
        ("add", [(33, 1), (1, 65)], {}, 33 * 65, 33 + 65 + 33 * 65),
        ("less", [(2, 4), (4,)], {}, 8, 8 + 4 + 8 / 4),  # a bool is a quarter of a float
        ("sum", [(4, 5)], {"axis": 1}, 20, 20 + 4),
        ("mean", [(4, 5)], {}, 20, 20 + 1),
        ("softmax", [(2, 10)], {}, 5 * 20, 20 + 20),
        ("matmul", [(2, 3), (3, 4)], {}, 2 * 2 * 3 * 4, 6 + 12 + 8),
        ("matmul", [(5, 2, 3), (3,)], {}, 2 * 5 * 2 * 3, 30 + 3 + 10),
        ("transpose", [(2, 3)], {}, 0, 6 + 6),
        ("concatenate", [(2, 3), (4, 3)], {}, 0, 18 + 18),
        ("getitem", [(5, 4)], {"key": (slice(None, None, 2), 1)}, 0, 3 + 3),
        ("pad", [(4, 5)], {"pad": (1, 0, 0, 3)}, 0, 4 * 5 + 7 * 6),
        ("reshape", [(2, 3)], {"shape": (6,)}, 0, 0),
    ],
)
def test_costs_computed_by_hand(name, shapes, params, flops, elements):
    assert OPS[name].cost(*(np.ones(shape, "float32") for shape in shapes), **params) == (flops, 4 * elements)


def test_the_costs_of_inputs_of_two_dtypes():
    logits, labels = np.ones((3, 2), "float32"), np.zeros(3, int)
    assert OPS["cross_entropy"].cost(logits, labels) == (4 * 6, (6 + 1) * 4 + 3 * 8)
    assert OPS["where"].cost(logits > 0, logits, logits) == (0, 6 + 3 * 6 * 4)


@EACH
def test_every_kernel_by_name_is_right_or_rejected(op, kernel_device):
    others = check.variants(op)  # in every case, above
    for name in (name for name in op.kernels if name not in ELSEWHERE):
        if "backward" in name:
            with pytest.raises(ValueError, match=f"{op.name}: {name} is a kernel of the gradient"):
                op.using(name)
        elif name.startswith("forward_"):
            with pytest.raises(ValueError, match=f"{op.name}: {name} is a part of the forward pass"):
                op.using(name)
        elif name not in others and not name.startswith(("mma_", "wgmma", "winograd")):  # these have their own files
            for case in op.cases:
                check.value(op.using(name), case, kernel_device)


@pytest.mark.sample(3)
@EACH
def test_a_gradient_is_the_same_without_the_others(op, device):
    def gradients(wanted):
        xs = [mg.tensor(x, i in wanted, device) for i, x in enumerate(case.arrays("float64"))]
        y = op(*xs, **case.params)
        y.backward(mg.tensor(np.cos(np.arange(y.size)).reshape(y.shape), device=device))
        return [x.grad for x in xs]

    for case in op.cases if op.backward else ():
        floats = [i for i, x in enumerate(case.arrays("float64")) if x.dtype.kind == "f"]
        together = gradients(floats) if len(case.inputs) > 1 else ()
        for i in floats if together else ():
            alone = gradients([i])
            assert [j for j, grad in enumerate(alone) if grad is not None] == [i]
            np.testing.assert_array_equal(alone[i].numpy(), together[i].numpy(), err_msg=str(case))


# --- reductions ---


def reduced(name, x, device, **params):
    """An op's value and gradient for an upstream gradient of ones, in float64."""
    x = mg.tensor(np.asarray(x, float), requires_grad=True, device=device)
    y = OPS[name](x, **params)
    y.backward(mg.ones(y.shape, dtype="float64", device=device))
    return y.numpy(), x.grad.numpy()


def test_sum_of_many(kernel_device):
    x = np.random.default_rng(0).standard_normal(1_000_003).astype(np.float32)
    y = mg.tensor(x, device=kernel_device).sum()
    assert abs(y.item() - x.sum(dtype=np.float64)) < 1e-2
    assert y.item() == mg.tensor(x, device=kernel_device).sum().item(), "the order of additions is fixed"


def test_mean_over_a_long_first_axis(kernel_device):
    x = np.random.default_rng(0).standard_normal((70_001, 3))
    np.testing.assert_allclose(mg.tensor(x, device=kernel_device).mean(axis=0).numpy(), x.mean(axis=0), atol=1e-14)


def test_reductions_of_nothing(device):
    for shape, axis in (((0,), None), ((0, 3), 0), ((3, 0), 0), ((3, 0), 1), ((0, 0), (0, 1))):
        y, dx = reduced("sum", np.zeros(shape), device, axis=axis)
        np.testing.assert_array_equal(y, np.zeros(shape).sum(axis=axis))
        assert dx.shape == shape
    assert np.isnan(mg.tensor(np.zeros((0, 3)), device=device).mean().item())
    assert mg.tensor(np.zeros((0, 3)), device=device).max(axis=1).shape == (0,)
    for shape in ((0, 3), (0, 0)):
        with pytest.raises(ValueError, match="no elements along axis"):
            mg.tensor(np.zeros(shape), device=device).max(axis=0)


def test_ties_share_the_gradient_of_max(device):
    y, dx = reduced("max", [[1, 3, 3], [2, 2, 2], [5, 4, -inf]], device, axis=1)
    np.testing.assert_array_equal(y, [3, 2, 5])
    np.testing.assert_allclose(dx, [[0, 0.5, 0.5], [1 / 3] * 3, [1, 0, 0]])


def test_an_infinite_gradient_of_max_reaches_the_maximum_alone(device):
    x = mg.tensor([1.0, 2.0, 2.0], requires_grad=True, device=device)
    x.max().backward(mg.tensor(inf, device=device))
    np.testing.assert_array_equal(x.grad.numpy(), [0, inf, inf])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_mean_of_ones_is_one(dtype, device):
    assert {mg.ones(n, device=device, dtype=dtype).mean().item() for n in range(1, 2001)} == {1.0}
    logits, labels = mg.zeros(41, 2, device=device, dtype=dtype), mg.tensor(np.zeros(41, int), device=device)
    loss, losses = (mg.cross_entropy(logits, labels, how) for how in ("mean", "none"))
    assert loss.item() == losses.mean().item()


def test_a_parameter_is_given_once():
    with pytest.raises(TypeError, match="sum: axis is given twice, by position and by name"):
        mg.sum(mg.ones(2, 3), 0, axis=1)


@pytest.mark.parametrize("at", [0, 1, 40, 4999])
def test_nan_wins_in_max(at, device):
    x = np.arange(5000.0)
    x[at] = nan
    assert np.isnan(mg.tensor(x, device=device).max().item())
    assert np.isnan(mg.tensor(x.reshape(2500, 2), device=device).max(axis=0).numpy()).sum() == 1


def test_max_of_minus_infinity_alone(device):
    assert mg.tensor([-inf, -inf], device=device).max().item() == -inf


@pytest.mark.parametrize("name", ["sum", "mean", "max"])
def test_axes_that_do_not_exist(name):
    x = mg.ones(2, 3)
    with pytest.raises(ValueError, match=f"{name}: axis 2 does not exist; the tensor has 2 axes, -2 to 1"):
        OPS[name](x, axis=2)
    with pytest.raises(ValueError, match="names one axis twice"):
        OPS[name](x, axis=(1, -1))
    with pytest.raises(TypeError, match="a whole number, a tuple of them, or None"):
        OPS[name](x, axis=0.5)
    with pytest.raises(TypeError, match="takes float32 or float64; got int64"):
        OPS[name](mg.tensor([1, 2]))


# --- matmul ---


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ((2, 3), (4, 5), r"a is \(2, 3\) and b is \(4, 5\): the inner extents 3 and 4 differ\.$"),
        ((2, 3), (5, 3), "extents 3 and 5 differ. Did you mean a @ b.T?"),
        ((3, 2), (3, 5), "Did you mean a.T @ b?"),
        ((2, 3), (5, 2), "Did you mean b @ a?"),
        ((3,), (4,), "extents 3 and 4 differ"),
        ((), (3,), "Write a \\* b"),
        ((2, 2, 3), (5, 3, 4), r"the batch axes \(2,\) and \(5,\) do not broadcast"),
    ],
)
def test_shapes_that_do_not_multiply(a, b, message):
    with pytest.raises(ValueError, match=message):
        mg.ones(a) @ mg.ones(b)


def test_a_batch_beyond_the_grid(kernel_device):
    a, b = mg.ones(65536, 1, 1, device=kernel_device), mg.ones(65536, 1, 1, device=kernel_device)
    with pytest.raises(ValueError, match="65536 matrices in a batch; a launch takes 65535"):
        a @ b


@pytest.mark.parametrize("wanted", [0, 1])
def test_only_the_gradient_that_is_wanted_is_computed(wanted, device):
    a, b = (mg.ones(2, 2, requires_grad=i == wanted, device=device) for i in range(2))
    c = a @ b
    grads = c.node.vjp(mg.ones(2, 2, device=device).array)
    assert [grad is not None for grad in grads] == [i == wanted for i in range(2)]


TILES = [
    *(("warp_tiled", {"ROWS": rows, "COLUMNS": columns}) for rows, columns in ((128, 128), (64, 128), (64, 64))),
    *(("split_k", {"ROWS": rows, "WARPS": warps}) for rows in (16, 32) for warps in (8, 16)),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize("rung, tiles", TILES)
@pytest.mark.parametrize(
    "shapes", [((70, 100), (100, 132)), ((33, 65), (65, 35)), ((2, 5, 7), (2, 7, 3)), ((4, 0), (0, 8))]
)
def test_fast_products_with_every_tile(rung, tiles, shapes, kernel_device):
    """The sizes decide which fast kernel runs, and these are small: here each kernel runs, backward too."""
    op = OPS["matmul"]
    kernels = {name: k.using(**tiles) if name.startswith(rung) else k for name, k in op.kernels.items()}
    op = op.with_kernels(kernels, {f"{way}_small": f"{rung}{end}" for way, end in ENDS.items()})
    assert work_of(op, shapes).dry().launches[0].kernel == f"matmul_{rung}"
    check.bounds(op, Case(shapes), kernel_device)


# --- softmax and cross entropy ---


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_axes(name, device):
    with pytest.raises(ValueError, match="axis 2 does not exist"):
        OPS[name](mg.ones(2, 3, device=device), axis=2)
    with pytest.raises(TypeError, match="one whole number"):
        OPS[name](mg.ones(2, 3, device=device), axis=None)


def test_cross_entropy_is_nll_of_log_softmax(device):
    logits, labels = np.random.default_rng(0).standard_normal((5, 4)), np.array([3, 0, 0, 2, 1])
    expected = -np.log(np.exp(logits) / np.exp(logits).sum(1, keepdims=True))[range(5), labels]
    for reduction, value in (("none", expected), ("sum", expected.sum()), ("mean", expected.mean())):
        loss = mg.cross_entropy(mg.tensor(logits, device=device), mg.tensor(labels, device=device), reduction)
        np.testing.assert_allclose(loss.numpy(), value, rtol=1e-12)


def test_smoothed_labels_are_targets_of_every_class(device):
    logits, labels = np.random.default_rng(0).standard_normal((5, 4)), np.array([3, 0, 0, 2, 1])
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    expected = -((0.7 * np.eye(4)[labels] + 0.3 / 4) * logs).sum(axis=1).mean()
    on = {"device": device}
    loss = mg.cross_entropy(mg.tensor(logits, **on), mg.tensor(labels, **on), label_smoothing=0.3)
    np.testing.assert_allclose(loss.item(), expected, rtol=1e-12)
    never = mg.tensor([[0.0, 0.0, -np.inf]], **on), mg.tensor([0], **on)
    assert mg.cross_entropy(*never).item() == pytest.approx(np.log(2))
    assert mg.cross_entropy(*never, label_smoothing=0.1).item() == np.inf
    with pytest.raises(ValueError, match=r"label_smoothing=1\.5 must be a number from 0"):
        mg.cross_entropy(*never, label_smoothing=1.5)


def test_labels_that_are_no_class(device):
    for labels in ([0, 3], [0, -1]):
        logits, labels = mg.zeros(2, 3, device=device), mg.tensor(labels, device=device)
        if device == "cuda":  # not looked at before the launch
            assert np.isnan(mg.cross_entropy(logits, labels).item())
        else:
            with pytest.raises(ValueError, match=r"label (3|-1) in row 1 is not a class; 3 classes are 0 to 2"):
                mg.cross_entropy(logits, labels)


def test_a_row_with_a_wrong_label_is_nan(kernel_device):
    op, gpu = OPS["cross_entropy"], get(kernel_device)
    logits, labels = Array.upload(gpu, np.zeros((3, 2))), Array.upload(gpu, np.array([0, 2, 1]))
    losses, *kept = op.launch(op.kernels, logits, labels, "none", 0.1)
    np.testing.assert_array_equal(np.isnan(losses.numpy()), [False, True, False])
    dx, _ = op.launch_backward(op.kernels, (True, False), losses, logits, labels, *kept, "none", 0.1)
    np.testing.assert_array_equal(np.isnan(dx.numpy()).all(axis=1), [False, True, False])


@pytest.mark.parametrize(
    ("logits", "labels", "error", "message"),
    [
        (np.zeros((2, 3), int), [0, 1], TypeError, "logits are int64; they must be floats"),
        (np.zeros((2, 3)), [0.0, 1.0], TypeError, r"labels are float32; .* labels.astype\('int64'\)"),
        (np.zeros((2, 3)), 1, ValueError, r"got \(2, 3\) and \(\)"),
        (np.zeros((2, 3)), [0, 1, 2], ValueError, r"got \(2, 3\) and \(3,\)"),
        (np.zeros((2, 3, 4)), [0, 1], ValueError, "Reshape further axes into the rows"),
    ],
)
def test_cross_entropy_rejects_other_inputs(logits, labels, error, message):
    with pytest.raises(error, match=message):
        mg.cross_entropy(mg.tensor(logits), mg.tensor(labels))


def test_an_unknown_reduction():
    with pytest.raises(ValueError, match="reduction='median' is not one of mean, sum, none"):
        mg.cross_entropy(mg.zeros(1, 2), mg.tensor([0]), reduction="median")


# --- errors of every op ---


def test_shapes_dtypes_and_devices_must_fit(kernel_device):
    a = mg.ones(2, 3)
    with pytest.raises(ValueError, match=r"add: shapes \(2, 3\) and \(4,\) do not broadcast"):
        a + mg.ones(4)
    with pytest.raises(TypeError, match="add: one input is float32, another float64"):
        a + mg.ones(3, dtype="float64")
    with pytest.raises(ValueError, match=r"add: one input is on .*, another on .*; move one"):
        mg.ones(3, device="numpy") + mg.ones(3, device=kernel_device)


def test_unknown_kernels_and_blocks(kernel_device):
    with pytest.raises(KeyError, match="matmul has no kernel 'fast'; it has naive, coalesced, tiled"):
        mg.matmul["fast"]
    with pytest.raises(ValueError, match="relu has no tunable TILE; it has BLOCK"):
        mg.relu.using(TILE=8)
    x = mg.ones(10, device=kernel_device)
    with pytest.raises(LaunchError, match="BLOCK=2048 needs 2048 threads in a block; a device allows 1024"):
        mg.relu.using(BLOCK=2048)(x)
    with pytest.raises(LaunchError, match=r"TILE=48 needs 2304 threads.*TILE in \[4, 8, 16, 32\]"):
        mg.matmul["tiled"].launch(2, 2, 2, TILE=48)
