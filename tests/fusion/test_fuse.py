"""mg.fuse: the written kernels do what the ops do one by one, and what cannot be fused is refused."""

import importlib.util
import subprocess

import numpy as np
import pytest

import minigrad as mg
from minigrad import check
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.devices.cuda.toolkit import find_nvcc
from minigrad.microscope import watching
from minigrad.op import OPS
from minigrad.source import CUDA

nan, inf = np.nan, np.inf
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}  # of the largest element
ELEMENTWISE = [op for op in OPS.values() if op.cuda and op.backward and op.name != "where"]
STEPS = [op for op in OPS.values() if op.cuda and not op.backward]
EDGES = np.array([0.0, -0.0, 1.0, -2.0, 3.0, inf, -inf, nan])


def chain(x):
    return ((x * x + 1).log() * x.exp()).sum()


def squashed(x, w, b, scale=0.5):
    chosen = mg.where(x > w, (x - w) * b, w - x)  # no jump at x = w
    return (chosen.sigmoid() * scale + mg.maximum(w, 2 * b) ** 2).mean(axis=-1)


def mixed(x, y):
    return x.tanh() * y + (x - y) / (1 + y * y)


def results(fn, hosts, device, dtype):
    """The value and the gradients, from the same upstream gradient."""
    xs = [mg.tensor(np.asarray(h, dtype), requires_grad=True, device=device) for h in hosts]
    y = fn(*xs)
    y.backward(mg.tensor(np.cos(np.arange(y.size, dtype=dtype)).reshape(y.shape), device=device))
    return [y.numpy(), *(None if x.grad is None else x.grad.numpy() for x in xs)]


def same(fn, hosts, device, dtype, fused=None):
    """Fused and op by op give the same."""
    for mine, theirs in zip(
        results(fused or mg.fuse(fn), hosts, device, dtype), results(fn, hosts, device, dtype), strict=True
    ):
        if mine is None or theirs is None:  # an input that only a condition reads
            assert mine is None or not mine.any()
            continue
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        size = np.abs(theirs[np.isfinite(theirs)]).max(initial=1)
        np.testing.assert_allclose(mine, theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * size)


# --- right ---


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_every_elementwise_op_alone(op, dtype, kernel_device):
    fused = mg.fuse(op)
    for case in op.cases:
        same(op, case.arrays(dtype), kernel_device, dtype, fused)


@pytest.mark.parametrize("op", STEPS, ids=lambda op: op.name)
def test_every_comparison_as_a_condition(op, kernel_device):
    def fn(a, b):
        return mg.where(op(a, b), a * 2.0, b)

    for case in op.cases:
        if case.inputs[0] is not None and not any(
            getattr(x, "dtype", np.dtype(float)).kind != "f" for x in case.inputs
        ):
            same(fn, case.arrays("float64"), kernel_device, "float64")


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_edges_are_those_of_the_op(op, kernel_device):
    several = len(op.inputs.names) > 1
    hosts = [EDGES[:, None], EDGES] if several else [EDGES]
    for mine, theirs in zip(
        results(mg.fuse(op), hosts, kernel_device, "float64"), results(op, hosts, kernel_device, "float64"), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def random_chain(seed):
    """A function of three inputs, made of any ops, each of which keeps numbers within bounds."""
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


@pytest.mark.parametrize("seed", range(8))
def test_random_chains(seed, kernel_device):
    fn, rng = random_chain(seed), np.random.default_rng(100 + seed)
    fused = mg.fuse(fn)
    for dtype in ("float32", "float64"):
        for shapes in SHAPES:
            same(fn, [rng.standard_normal(shape) for shape in shapes], kernel_device, dtype, fused)


def average(x):
    return (x - 0.5).tanh().mean()


@pytest.mark.parametrize("fn", [chain, squashed, mixed, average], ids=lambda fn: fn.__name__)
def test_value_gradient_and_bounds_at_every_block(fn, kernel_device):
    assert fn.__name__ in repr(check.op(mg.fuse(fn), kernel_device))


def test_sizes_of_a_sum(kernel_device):
    fused = mg.fuse(chain)
    for n in (0, 1, 2, 3, 4, 5, 31, 33, 1023, 1025, 8191, 8193, 3 * 8192 + 1, 100_003):
        x = np.random.default_rng(n).standard_normal(n)
        same(chain, [x], kernel_device, "float64", fused)


def test_the_last_axes_are_summed_and_others_refused(device):
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


def test_numbers_are_those_of_python(device):
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


MACROS = [
    "M_PI M_PIf EOF NULL INT_MAX BLOCK", "CHUNK LANES MAX_DIMS HUGE_VALF P_tmpdir", "cudaStreamDefault stdin errno",
    "threadIdx blockDim warpSize rsqrt", "printf linux _x __expf _ A I W_q xHat",
]  # fmt: skip


def of_macros(closing, names):
    product = " + ".join(f"{name} * {name}" for name in names)
    return mg.fuse(eval(f"lambda {', '.join(names)}: ({product}){closing}"))


NVCC = find_nvcc()


@pytest.mark.skipif(NVCC is None, reason="no nvcc on this machine")
@pytest.mark.parametrize("real", ["float", "double"])
def test_nvcc_compiles_what_is_written(real, tmp_path):
    functions = [chain, squashed, lambda x: x, of_macros("", ["M_PI", "BLOCK", "threadIdx"]).fn]
    file = tmp_path / "fused.cu"
    fused = [mg.fuse(fn) for fn in functions]
    file.write_text("\n".join(f.source.text.replace(f" {f.name}_", f" f{i}_") for i, f in enumerate(fused)))
    command = [NVCC, "-std=c++17", "-cubin", "-arch=sm_90", "-Werror", "all-warnings", f"-I{CUDA}"]
    command += [f"-Dreal={real}", "-DBLOCK=64", "-DCHUNK=256"]
    done = subprocess.run([*command, "-o", tmp_path / "fused", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# --- on the tape ---


def test_it_is_recorded_as_any_op(device):
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
    with pytest.raises(RuntimeError, match="the graph behind chain was freed"):
        y.backward()


def test_an_input_that_changed_is_noticed_where_the_gradient_reads_it(device):
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


def test_a_gradient_that_is_not_wanted_is_not_made(device):
    for wanted in (0, 1):
        x, w = (mg.randn(2, 3, device=device, requires_grad=i == wanted) for i in range(2))
        y = mg.fuse(mixed)(x, w)
        grads = y.node.pull(mg.ones(2, 3, device=device).array)
        assert [grad is not None for grad in grads] == [i == wanted for i in range(2)]


def test_no_gradient_reaches_what_only_a_condition_reads(device):
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
def test_its_block_is_tuned_and_it_is_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    fused = mg.fuse(chain)
    assert set(mg.tune(fused, (2**20,)).choice) == {"BLOCK", "CHUNK"}
    assert mg.tune.auto() >= 0
    mg.tune.auto(False)
    for way in ("forward", "backward"):
        rivals = ["torch"] if importlib.util.find_spec("torch") else []
        assert mg.bench.measure(fused, (2**20,), way=way, against=rivals).timing.seconds < 1e-3


# --- shown ---


def test_the_card_shows_formula_and_both_kernels():
    fused = mg.fuse(chain)
    said = repr(fused)
    assert said.startswith("chain: y = the sum of log((x * x) + 1) * exp(x)\n  gradient  dx by the chain rule")
    assert "real t3 = log(t2);" in said and "real dt2 = dt3 / t2;" in said
    assert fused["backward"].parts == ("recompute values", "rules in reverse")
    assert "chain_backward" in fused._repr_html_() and "chain" not in mg.OPS
    assert mg.fuse(lambda x: (x - 1) / (2 - x)).forward.__doc__ == "y = (x - 1) / (2 - x)"
    long = mg.fuse(lambda x: x.exp() * x.tanh() * x.sigmoid() * x.relu() * x.log() * x.sqrt() * (x + 1) * (x + 2))
    assert len(long.forward.__doc__) < 160


def test_names_that_are_taken_get_another():
    fused = mg.fuse(lambda y, n, exp, t1, double: y * n + exp.exp() * t1 - double)
    assert fused.inputs.names == ["y_", "n_", "exp_", "t1_", "double_"]
    same(fused.fn, [np.arange(3.0)] * 5, "sim", "float64", fused)


def test_names_of_the_functions_that_sum_are_taken():
    fused = mg.fuse(lambda map_pieces, needs, shapes: (map_pieces * needs - shapes).sum())
    same(fused.fn, [np.arange(3.0)] * 3, "sim", "float64", fused)


@pytest.mark.parametrize("names", MACROS)
def test_names_of_macros_and_of_the_builtins_of_cuda_are_no_trouble(names):
    fused = of_macros(".sum()", names.split())
    same(fused.fn, [np.arange(3.0) + i for i in range(len(fused.inputs.names))], "sim", "float64", fused)


def test_names_that_are_no_macros_stay():
    fused = of_macros("", ["M_PI", "xHat", "_", "A", "W_q"])
    assert fused.inputs.names == ["M_PI_", "xHat", "_", "A", "W_q_"]


@pytest.mark.parametrize("fn", [np.exp, lambda x: np.exp(x), lambda x: np.multiply(np.float32(2), x) - np.sqrt(x)])
def test_functions_of_numpy_are_the_ops_of_their_names(fn):
    x, y = mg.ones(3, device="sim"), np.ones(3, np.float32)
    np.testing.assert_allclose(mg.fuse(fn)(x).numpy(), fn(y), rtol=1e-6)


@pytest.mark.parametrize("number", [np.float32(1), np.array(1.0), np.int64(1)])
def test_numbers_of_numpy_stand_on_either_side(number):
    def fn(x):
        return mg.where(number < x, x, 0.0) + mg.where(x >= number, number / x, 0.0)

    x = mg.tensor(np.array([0.5, 1, 2], np.float32), device="sim")
    assert mg.fuse(fn)(x).numpy().tolist() == [0, 1, 2.5]


def test_sums_and_conditions_of_numpy_are_ops():
    x = np.array([[-1, 2], [3, -4]], np.float32)
    for fn in (lambda x: np.sum(np.where(x > 0, x, 0.0), axis=1), lambda x: np.mean(x)):
        np.testing.assert_array_equal(mg.fuse(fn)(mg.tensor(x, device="sim")).numpy(), fn(x))


def test_the_bytes_op_by_op_and_fused():
    moved = mg.fuse(chain).traffic(2**20)
    array = 4 * 2**20
    assert sum(m.read + m.written for m in moved.op_by_op) // array == 34
    assert sum(m.read + m.written for m in moved.fused) // array == 3
    assert [m.kernel for m in moved.fused] == ["chain_forward", "sum_vectorized", "chain_backward"]
    nothing = mg.fuse(lambda x: x.exp()).traffic(0)
    assert nothing.times == 1 and "0 MB op by op, 0 MB fused" in repr(nothing)
    assert 11 < moved.times < 12 and "times less" in repr(moved)
    flops, nbytes = mg.fuse(chain).cost(np.ones(1000, np.float32))
    assert (flops, nbytes) == (6 * 1000, 4004)


# --- refused ---


def in_place(x):
    x += 1
    return x


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x: x @ x, "matmul cannot be fused"),
        (lambda x: x.T * x, "call transpose outside"),
        (lambda x: mg.softmax(x), "softmax cannot be fused"),
        (lambda x: x.max(), "max cannot be fused"),
        (lambda x: x.sum() + 1, "add comes after sum, and a sum comes last. Return the sum"),
        (lambda x: x / x.mean(), "divide comes after mean"),
        (lambda x: x if x > 0 else -x, "asks for the number in a value.*mg.where"),
        (lambda x: x * float(x), "asks for the number in a value"),
        (lambda x: x * mg.ones(3), "multiply takes Tensor .*Pass a tensor as an argument, and random numbers too"),
        (lambda x: x * x.shape[0], "a value has no .shape while its function is traced"),
        (lambda x: x > 0, "the function returned bool; return mg.where"),
        (lambda x: (x > 0) * x, "multiply takes floats; got bool"),
        (lambda x: mg.where(x > 0, 1, 0) * x, "multiply takes floats; got int64. Write 1.0 for 1"),
        (lambda x: 3.0, "the function returned float 3.0"),
        (lambda x: (x, x), "the function returned tuple"),
        (lambda x, w: x + 1, "does not depend on w"),
        (lambda x, y: x + 1, "does not depend on y; leave"),
        (lambda *xs: xs[0], r"the function takes \*xs; name each input"),
        (lambda: 1.0, "the function takes no input"),
        (lambda x: x * 10**400, "multiply: 10+ does not fit into float64"),
        (max, "builtin_function_or_method <built-in function max> does not say by which names.*lambda x: x.exp"),
        (int, "does not say by which names"),
        (lambda x: np.sin(x), "np.sin of a tensor: no op has that name; there is add"),
        (lambda x: np.add.reduce(x), "np.add.reduce of a tensor: no op has that name"),
        (lambda x: np.linalg.norm(x), "np.norm of a tensor: no op has that name"),
        (in_place, "in-place add of a value.*write x = x"),
        (3, "mg.fuse takes a function of tensors; got int 3"),
    ],
)
def test_what_cannot_be_fused_is_refused_by_name(fn, message):
    with pytest.raises((TypeError, ValueError, AttributeError), match=message):
        mg.fuse(fn)
    assert mg.exp(mg.ones(1)).item() > 2, "a refused trace has ended"


def test_a_value_of_another_trace_is_refused():
    leaked = []
    mg.fuse(lambda x: leaked.append(x) or x.exp())
    with pytest.raises(TypeError, match="which is no value of the function"):
        mg.fuse(lambda x: x * leaked[0])
    with pytest.raises(TypeError, match="exp takes tensors; got Value"):
        mg.exp(leaked[0])


def test_inputs_that_do_not_go_together(kernel_device):
    fused = mg.fuse(mixed)
    with pytest.raises(TypeError, match="mixed: one input is float32, another float64"):
        fused(mg.ones(3, device=kernel_device), mg.ones(3, dtype="float64", device=kernel_device))
    with pytest.raises(TypeError, match="mixed takes float32 or float64; got int64"):
        fused(mg.tensor([1, 2], device=kernel_device), mg.tensor([1, 2], device=kernel_device))
    with pytest.raises(TypeError, match=r"exp takes \(x\); got 0 arguments, x\. Give inputs by their place"):
        mg.exp(x=mg.ones(2, device=kernel_device))
    with pytest.raises(TypeError, match=r"mixed takes \(x, y_\); got 1 arguments"):
        fused(mg.ones(3, device=kernel_device))
