"""mg.fuse: the generated kernels agree with the ops one by one, and other operations are rejected."""

import importlib.util
import subprocess

import numpy as np
import pytest
from fused_functions import chain, mixed, of_macros, results, same, squashed

import minigrad as mg
from minigrad import check
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.devices.cuda.toolkit import find_nvcc
from minigrad.microscope import watching
from minigrad.op import OPS
from minigrad.source import CUDA

nan, inf = np.nan, np.inf
ELEMENTWISE = [op for op in OPS.values() if op.cuda and op.backward and op.name != "where"]
STEPS = [op for op in OPS.values() if op.cuda and not op.backward]
EDGES = np.array([0.0, -0.0, 1.0, -2.0, 3.0, inf, -inf, nan])


# --- values ---


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        pytest.param(op, dtype, id=f"{op.name}-{dtype}", marks=[pytest.mark.soak] * ((i + j) % 2))
        for i, op in enumerate(ELEMENTWISE)
        for j, dtype in enumerate(("float32", "float64"))
    ],
)
def test_every_elementwise_op_alone(op, dtype, kernel_device):
    fused = mg.fuse(op)
    for case in op.cases:
        same(op, case.arrays(dtype), kernel_device, dtype, fused)


@pytest.mark.sample(3)
@pytest.mark.parametrize("op", STEPS, ids=lambda op: op.name)
def test_every_comparison_as_a_condition(op, kernel_device):
    def fn(a, b):
        return mg.where(op(a, b), a * 2.0, b)

    for case in op.cases:
        if case.inputs[0] is not None and not any(
            getattr(x, "dtype", np.dtype(float)).kind != "f" for x in case.inputs
        ):
            same(fn, case.arrays("float64"), kernel_device, "float64")


@pytest.mark.sample(3)
@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_edge_cases_are_those_of_the_op(op, kernel_device):
    several = len(op.inputs.names) > 1
    hosts = [EDGES[:, None], EDGES] if several else [EDGES]
    for mine, theirs in zip(
        results(mg.fuse(op), hosts, kernel_device, "float64"), results(op, hosts, kernel_device, "float64"), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def random_chain(seed):
    """A function of three inputs made of random ops, each of which keeps numbers within bounds."""
    rng = np.random.default_rng(seed)
    unary = [
        lambda a: a.tanh(), lambda a: a.sigmoid(), lambda a: a.relu(), lambda a: -a, lambda a: (a * a + 1).log(),
        lambda a: a.tanh().exp(), lambda a: (mg.square(a) + 0.5).sqrt(), lambda a: 1 - a.relu() * 0.5,
    ]  # fmt: skip
    binary = [
        lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a.tanh() * b, lambda a, b: a / (b * b + 1),
        mg.maximum, mg.minimum, lambda a, b: mg.where(a > b, a, 0.5), lambda a, b: (a * a + 1) ** b.tanh(),
    ]  # fmt: skip
    picks = [(int(rng.integers(16)), rng.random(2)) for _ in range(8)]
    closing = int(rng.integers(4))

    def fn(a, b, c):
        values = [a, b, c]
        for number, places in picks:
            first, second = (values[int(place * len(values))] for place in places)
            values.append(unary[number](first) if number < 8 else binary[number - 8](first, second))
        y = (values[-1] + values[-2] * 0.25 - 1.5 * values[-3]) * (a + b * c)
        return [lambda: y, y.sum, y.mean, lambda: y.sum(axis=-1, keepdims=True)][closing]()

    return fn


SHAPES = [((33, 65), (65,), (33, 1)), ((), (3,), (2, 3)), ((1025,), (1025,), ()), ((2, 3, 4), (3, 1), (0, 3, 4)[1:])]


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("seed", "dtype"),
    [
        pytest.param(seed, dtype, marks=[pytest.mark.soak] * ((seed + j) % 2))
        for seed in range(8)
        for j, dtype in enumerate(("float32", "float64"))
    ],
)
def test_random_chains(seed, dtype, kernel_device):
    fn, rng = random_chain(seed), np.random.default_rng(100 + seed)
    fused = mg.fuse(fn)
    for shapes in SHAPES:
        same(fn, [rng.standard_normal(shape) for shape in shapes], kernel_device, dtype, fused)


def average(x):
    return (x - 0.5).tanh().mean()


@pytest.mark.sample(3)
@pytest.mark.parametrize("fn", [chain, squashed, mixed, average], ids=lambda fn: fn.__name__)
def test_value_gradient_and_bounds_at_every_block(fn, kernel_device):
    assert fn.__name__ in repr(check.op(mg.fuse(fn), kernel_device))


def test_sizes_of_a_sum(kernel_device):
    fused = mg.fuse(chain)
    for n in (0, 1, 2, 3, 4, 5, 31, 33, 1023, 1025, 8191, 8193, 3 * 8192 + 1, 100_003):
        x = np.random.default_rng(n).standard_normal(n)
        same(chain, [x], kernel_device, "float64", fused)


def test_the_last_axes_are_summed_and_others_rejected(device):
    fn = mg.fuse(lambda x, w: (x * w).sum(axis=(1, 2)))
    x, w = mg.ones(2, 3, 5, device=device), mg.ones(3, 1, device=device)
    assert fn(x, w).numpy().tolist() == [15, 15]
    with pytest.raises(ValueError, match=r"fused sum takes the last axes, and axis \(1, 2\) of shape \(2, 3, 5, 7\)"):
        fn(mg.ones(2, 3, 5, 7, device=device), mg.ones(1, device=device))
    with pytest.raises(ValueError, match="axis 2 does not exist"):
        fn(mg.ones(2, 3, device=device), mg.ones(1, device=device))
    with pytest.raises(ValueError, match="do not broadcast"):
        fn(mg.ones(2, 3, device=device), mg.ones(2, device=device))


def test_the_mean_of_nothing_is_nan_and_the_sum_is_zero(device):
    x = mg.zeros(0, device=device)
    assert np.isnan(mg.fuse(lambda x: (x + 1).mean())(x).item()) and mg.fuse(lambda x: (x + 1).sum())(x).item() == 0


def test_python_numbers_are_exact(device):
    x = mg.tensor([1.5, -2.0], device=device, dtype="float64")

    def fn(x, power=3, third=1 / 3):
        return (x**power) * third + np.float64(0.1) - 2e-20 + 3_000_000_000 * x + mg.where(x > inf, x, -0.0)

    np.testing.assert_allclose(mg.fuse(fn)(x).numpy(), fn(x).numpy(), rtol=1e-15)
    assert mg.fuse(lambda x: x * inf)(x).numpy().tolist() == [inf, -inf]
    assert mg.fuse(lambda x: mg.maximum(x, nan))(x).numpy()[0] != 0


def test_a_sum_has_a_fixed_order(kernel_device):
    x = mg.randn(100_003, device=kernel_device)
    assert len({mg.fuse(chain)(x).item() for _ in range(5)}) == 1


def test_a_fused_function_within_another(device):
    inner = mg.fuse(lambda x: (x * x + 1).log())
    fn = mg.fuse(lambda x: (inner(x) * x.exp()).sum())
    x = mg.randn(100, device=device)
    np.testing.assert_allclose(fn(x).item(), chain(x).item(), rtol=1e-5)
    assert [step.op.name for step in fn.trace.steps] == ["multiply", "add", "log", "exp", "multiply"]


@pytest.mark.parametrize("fn", [chain, squashed, mixed], ids=lambda fn: fn.__name__)
def test_the_microscope_finds_nothing(fn):
    fused = mg.fuse(fn)
    with watching() as report:
        for case in fused.cases:
            for chosen in (fused, fused.using(BLOCK=32)):
                xs = [Array.upload(get("sim"), x) for x in case.arrays("float32")]
                y = chosen.run(xs, {})
                chosen.vjp(xs, Array.upload(get("sim"), np.ones(y.shape, np.float32)), {})
    assert {record.kernel for record in report.launches} >= {f"{fn.__name__}_forward", f"{fn.__name__}_backward"}
    assert report.problems == []


NVCC = find_nvcc()


@pytest.mark.sample(2)
@pytest.mark.skipif(NVCC is None, reason="no nvcc on this machine")
@pytest.mark.parametrize("real", ["float", "double"])
def test_nvcc_compiles_the_generated_code(real, tmp_path):
    functions = [chain, squashed, lambda x: x, of_macros("", ["M_PI", "BLOCK", "threadIdx"]).fn]
    file = tmp_path / "fused.cu"
    fused = [mg.fuse(fn) for fn in functions]
    file.write_text("\n".join(f.source.text.replace(f" {f.name}_", f" f{i}_") for i, f in enumerate(fused)))
    command = [NVCC, "-std=c++17", "-cubin", "-arch=sm_90", "-Werror", "all-warnings", f"-I{CUDA}"]
    command += [f"-Dreal={real}", "-DBLOCK=64", "-DCHUNK=256"]
    done = subprocess.run([*command, "-o", tmp_path / "fused", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# --- on the tape ---


def test_it_is_recorded_like_any_op(device):
    fused = mg.fuse(chain)
    x = mg.randn(50, device=device, requires_grad=True)
    y = fused(x)
    assert y.node.op == "chain" and not fused(x.detach()).requires_grad
    with mg.no_grad():
        assert not fused(x).requires_grad
    y.backward()
    first = x.grad.numpy()
    fused(x * 1).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * first, rtol=1e-6)
    with pytest.raises(RuntimeError, match="the tape behind chain was freed"):
        y.backward()


def test_a_changed_input_is_noticed_if_the_gradient_reads_it(device):
    x, w = (mg.ones(3, device=device, requires_grad=True) for _ in range(2))
    for fn, kept in ((lambda x, w: (x * w).sum(), True), (lambda x, w: (x + w).sum(), False)):
        y = mg.fuse(fn)(x, w)
        with mg.no_grad():
            w.assign(w + 1)
        if kept:
            with pytest.raises(RuntimeError, match="fused kept w at version"):
                y.backward()
        else:
            y.backward()
            assert x.grad.numpy().tolist() == [1, 1, 1]


def test_a_gradient_that_is_not_wanted_is_not_computed(device):
    for wanted in (0, 1):
        x, w = (mg.randn(2, 3, device=device, requires_grad=i == wanted) for i in range(2))
        y = mg.fuse(mixed)(x, w)
        grads = y.node.vjp(mg.ones(2, 3, device=device).array)
        assert [grad is not None for grad in grads] == [i == wanted for i in range(2)]


def test_no_gradient_reaches_an_input_of_conditions_alone(device):
    fn = mg.fuse(lambda x, w: mg.where(x > 0, w, -w).sum())
    x, w = mg.tensor([1.0, -1.0], True, device), mg.tensor([3.0, 4.0], True, device)
    fn(x, w).backward()
    assert x.grad is None and w.grad.numpy().tolist() == [1, -1]
    alone = mg.tensor([1.0, -1.0], True, device)
    fn(alone, mg.tensor([3.0, 4.0], device=device)).backward()
    assert alone.grad is None
    assert mg.fuse(lambda x: mg.where(x > 0, 1.0, 0.0)).backward is None


def test_central_differences_confirm_it(device):
    x = mg.randn(40, device=device, dtype="float64")
    assert "right" in repr(check.gradient(mg.fuse(chain), x))


@pytest.mark.gpu
def test_a_graph_replays_it():
    fused = mg.fuse(chain)
    w = mg.randn(1000, device="cuda", requires_grad=True)

    def step(x):
        w.grad = None
        loss = fused(w * x)
        loss.backward()
        return loss

    fast = mg.graph(step)
    for _ in range(4):
        x = mg.randn(1000, device="cuda")
        loss = fast(x).item()
        truth = mg.tensor(w.numpy(), True, "numpy")
        expected = chain(truth * mg.tensor(x.numpy(), device="numpy"))
        expected.backward()
        np.testing.assert_allclose(loss, expected.item(), rtol=1e-4)
        np.testing.assert_allclose(w.grad.numpy(), truth.grad.numpy(), rtol=1e-3, atol=1e-3)
    assert fast.replays == 3


@pytest.mark.gpu
def test_it_is_tuned_and_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    fused = mg.fuse(chain)
    assert set(mg.tune(fused, (2**20,)).choice) == {"BLOCK", "CHUNK"}
    assert mg.tune.auto() >= 0
    mg.tune.auto(False)
    for way in ("forward", "backward"):
        rivals = ["torch"] if importlib.util.find_spec("torch") else []
        assert mg.bench.measure(fused, (2**20,), way=way, against=rivals).timing.seconds < 1e-3
