"""The trace of a fused function: names of inputs, the card, functions of NumPy, and errors."""

import numpy as np
import pytest
from fused_functions import chain, mixed, of_macros, same

import minigrad as mg

MACROS = [
    "M_PI M_PIf EOF NULL INT_MAX BLOCK", "CHUNK LANES MAX_DIMS HUGE_VALF P_tmpdir", "cudaStreamDefault stdin errno",
    "threadIdx blockDim warpSize rsqrt", "printf linux _x __expf _ A I W_q xHat",
]  # fmt: skip


# --- names and the card ---


def test_the_card_shows_formula_and_both_kernels():
    fused = mg.fuse(chain)
    said = repr(fused)
    assert said.startswith("chain: y = the sum of log((x * x) + 1) * exp(x)\n  gradient  dx by the chain rule")
    assert "wide t3 = log(t2);" in said and "wide dt2 = dt3 / t2;" in said
    assert fused["backward"].parts == ("recompute values", "rules in reverse")
    assert "chain_backward" in fused._repr_html_() and "chain" not in mg.OPS
    assert mg.fuse(lambda x: (x - 1) / (2 - x)).forward.__doc__ == "y = (x - 1) / (2 - x)"
    long = mg.fuse(lambda x: x.exp() * x.tanh() * x.sigmoid() * x.relu() * x.log() * x.sqrt() * (x + 1) * (x + 2))
    assert len(long.forward.__doc__) < 160


def test_reserved_names_are_replaced():
    fused = mg.fuse(lambda y, n, exp, t1, double: y * n + exp.exp() * t1 - double)
    assert fused.inputs.names == ["y_", "n_", "exp_", "t1_", "double_"]
    same(fused.fn, [np.arange(3.0)] * 5, "sim", "float64", fused)


def test_names_of_the_summing_functions_are_reserved():
    fused = mg.fuse(lambda map_pieces, needs, shapes: (map_pieces * needs - shapes).sum())
    same(fused.fn, [np.arange(3.0)] * 3, "sim", "float64", fused)


@pytest.mark.parametrize("names", MACROS)
def test_names_of_macros_and_of_cuda_builtins_work(names):
    fused = of_macros(".sum()", names.split())
    same(fused.fn, [np.arange(3.0) + i for i in range(len(fused.inputs.names))], "sim", "float64", fused)


def test_other_names_stay():
    fused = of_macros("", ["M_PI", "xHat", "_", "A", "W_q"])
    assert fused.inputs.names == ["M_PI_", "xHat", "_", "A", "W_q_"]


@pytest.mark.parametrize("fn", [np.exp, lambda x: np.exp(x), lambda x: np.multiply(np.float32(2), x) - np.sqrt(x)])
def test_functions_of_numpy_are_the_ops_of_their_names(fn):
    x, y = mg.ones(3, device="sim"), np.ones(3, np.float32)
    np.testing.assert_allclose(mg.fuse(fn)(x).numpy(), fn(y), rtol=1e-6)


@pytest.mark.parametrize("number", [np.float32(1), np.array(1.0), np.int64(1)])
def test_numpy_numbers_on_either_side(number):
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
    assert 11 < moved.times < 12 and "fused: 8.8% of them." in repr(moved)
    flops, nbytes = mg.fuse(chain).cost(np.ones(1000, np.float32))
    assert (flops, nbytes) == (6 * 1000, 4004)


# --- errors ---


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
def test_other_operations_are_rejected_by_name(fn, message):
    with pytest.raises((TypeError, ValueError, AttributeError), match=message):
        mg.fuse(fn)
    assert mg.exp(mg.ones(1)).item() > 2, "a failed trace has ended"


def test_a_value_of_another_trace_is_rejected():
    leaked = []
    mg.fuse(lambda x: leaked.append(x) or x.exp())
    with pytest.raises(TypeError, match="which is no value of the function"):
        mg.fuse(lambda x: x * leaked[0])
    with pytest.raises(TypeError, match="exp takes tensors; got Value"):
        mg.exp(leaked[0])


def test_inputs_that_do_not_fit(kernel_device):
    fused = mg.fuse(mixed)
    with pytest.raises(TypeError, match="mixed: one input is float32, another float64"):
        fused(mg.ones(3, device=kernel_device), mg.ones(3, dtype="float64", device=kernel_device))
    with pytest.raises(TypeError, match="mixed takes float32 or float64; got int64"):
        fused(mg.tensor([1, 2], device=kernel_device), mg.tensor([1, 2], device=kernel_device))
    with pytest.raises(TypeError, match=r"exp takes \(x\); got 0 arguments, x\. Give inputs by position"):
        mg.exp(x=mg.ones(2, device=kernel_device))
    with pytest.raises(TypeError, match=r"mixed takes \(x, y_\); got 1 arguments"):
        fused(mg.ones(3, device=kernel_device))
