"""Elementwise ops at their edges: ties, zeros, negative bases, NaN, plain numbers. The values are PyTorch's."""

from types import SimpleNamespace

import numpy as np
import pytest

import minigrad as mg
from minigrad.ops.elementwise import must_match

nan, inf = np.nan, np.inf


def gradients(op, *inputs, device, dtype="float64"):
    """The output and the gradients for an upstream gradient of 1."""
    xs = [mg.tensor(np.asarray(x, dtype), requires_grad=True, device=device) for x in inputs]
    y = op(*xs)
    y.backward(mg.ones(y.shape, dtype=dtype, device=device))
    return [y.numpy(), *(x.grad.numpy() for x in xs)]


def test_power_at_zero_and_negative_bases(device):
    a = [0.0, 0.0, 0.0, 0.0, -2.0, -2.0, -2.0]
    b = [0.0, 0.5, 2.0, -1.0, 2.0, 3.0, 0.5]
    y, da, db = gradients(mg.power, a, b, device=device)
    np.testing.assert_allclose(y, [1, 0, 0, inf, 4, -8, nan], rtol=1e-12)
    np.testing.assert_allclose(da, [0, inf, 0, -inf, -4, 12, nan], rtol=1e-12)
    np.testing.assert_allclose(db, [0, 0, 0, -inf, nan, nan, nan], rtol=1e-12)


def test_power_with_a_number_on_either_side(device):
    x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
    y = x**2 + 2**x
    y.backward(mg.ones(3, device=device))
    np.testing.assert_allclose(y.numpy(), [3, 8, 17], rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy() + np.log(2) * 2 ** x.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_ties_share_the_gradient_and_nan_comes_through(name, device):
    a, b = [1.0, 1.0, 2.0, nan, 0.0], [1.0, 2.0, 1.0, 0.0, nan]
    y, da, db = gradients(getattr(mg, name), a, b, device=device)
    np.testing.assert_array_equal(y, getattr(np, name)(a, b))
    ours = [0.5, 0, 1, 1, 1] if name == "maximum" else [0.5, 1, 0, 1, 1]
    np.testing.assert_array_equal(da, ours)
    np.testing.assert_array_equal(db[:3], 1 - np.array(ours[:3]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sigmoid_of_large_numbers(dtype, device):
    y, dx = gradients(mg.sigmoid, [-1000.0, -80.0, 0.0, 80.0, 1000.0, nan], device=device, dtype=dtype)
    np.testing.assert_allclose(y, [0, np.exp(-80), 0.5, 1, 1, nan], rtol=1e-5, atol=0)
    np.testing.assert_allclose(dx, [0, np.exp(-80), 0.25, 0, 0, nan], rtol=1e-5, atol=1e-30)


def test_divide_by_large_numbers_does_not_overflow(device):
    _, da, db = gradients(mg.divide, [1e30], [1e25], device=device, dtype="float32")
    np.testing.assert_allclose([da[0], db[0]], [1e-25, -1e-20], rtol=1e-5)


def test_relu_of_an_infinite_gradient(device):
    x = mg.tensor([-1.0, nan, 1.0], requires_grad=True, device=device)
    y = mg.relu(x)
    y.backward(mg.tensor([inf, 1.0, inf], device=device))
    np.testing.assert_array_equal(y.numpy(), [0, nan, 1])
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0, inf])


def test_where_sends_gradients_to_the_chosen_input(device):
    cond = mg.tensor([[True], [False]], device=device)
    a = mg.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
    b = mg.tensor(5.0, requires_grad=True, device=device)
    y = mg.where(cond, a, b)
    y.backward(mg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=device))
    np.testing.assert_array_equal(y.numpy(), [[1, 2, 3], [5, 5, 5]])
    np.testing.assert_array_equal(a.grad.numpy(), [1, 2, 3])
    assert b.grad.item() == 15 and cond.grad is None


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint32", "int64", "uint64", "uint8", "bool"])
def test_where_takes_any_dtype_and_numbers_take_it_too(dtype, device):
    x = mg.tensor(np.array([0, 1, 1], dtype), device=device)
    cond = mg.tensor([True, False, True], device=device)
    zero = np.zeros((), dtype).item()  # False, 0 or 0.0
    np.testing.assert_array_equal(mg.where(cond, x, zero).numpy(), [0, 0, 1])
    assert mg.where(cond, zero, x).dtype == np.dtype(dtype)


def test_where_of_two_numbers_has_their_dtype(device):
    cond = mg.tensor([True, False], device=device)
    assert mg.where(cond, 1, 0).numpy().tolist() == [1, 0]
    assert mg.where(cond, 1, 0).dtype == np.int64
    assert mg.where(cond, 0.5, -1.0).dtype == np.float32


@pytest.mark.parametrize("bool_", [bool, np.bool_])
@pytest.mark.parametrize("cond", [True, False])
def test_where_takes_a_single_condition_as_numpy_does(cond, bool_, device):
    x = mg.tensor([1.0, 2.0], requires_grad=True, device=device)
    y = mg.where(bool_(cond), x, 0.0)
    y.backward(mg.ones(2, device=device))
    np.testing.assert_array_equal(y.numpy(), np.where(cond, [1, 2], 0))
    np.testing.assert_array_equal(x.grad.numpy(), [cond, cond])
    assert mg.where(bool_(cond), 1, mg.tensor(0, device=device)).item() == cond


def test_the_error_suggests_a_dtype_that_holds_both():
    whole, real = mg.tensor([1, 2]), mg.tensor([1.5, 2.5])
    for left, right, dtype in ((whole, real, "float32"), (real, whole, "float32"), (whole, 1.5, "float32"),
                               (mg.tensor([True]), 1, "int64"),
                               (mg.tensor([1], dtype="int32"), mg.tensor([1], dtype="uint8"), "int32"),
                               (mg.tensor([True]), mg.tensor([1], dtype="uint8"), "uint8"),
                               (real, real.astype("float64"), "float64")):  # fmt: skip
        with pytest.raises(TypeError, match=rf"make them one with \.astype\('{dtype}'\)"):
            mg.less(left, right)
    bfloat16 = SimpleNamespace(dtype=np.dtype("V2"))  # the kind of that of ml_dtypes
    with pytest.raises(TypeError, match=r"make them one with \.astype\('float32'\)"):
        must_match("less", bfloat16, real)


def test_where_needs_a_condition():
    x = mg.tensor([1.0])
    with pytest.raises(
        TypeError, match=r"cond is float32 \(a number takes the dtype of the other inputs\); it must be"
    ):
        mg.where(1, x, x)
    with pytest.raises(TypeError, match="got bool True and float"):
        mg.where(True, 1.0, 2)
    with pytest.raises(TypeError, match=r"cond is float32; it must be bool, e\.g\. x > 0"):
        mg.where(x, x, x)
    with pytest.raises(TypeError, match="one input is float32, another float64"):
        mg.where(x > 0, x, x.astype("float64"))


SIGNS = ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", SIGNS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint32", "int64", "uint64", "uint8", "bool"])
def test_comparisons_of_every_dtype(name, dtype, device):
    a, b = np.array([[0, 1, 1, 0]], dtype), np.array([[0], [1]], dtype)
    y = getattr(mg, name)(mg.tensor(a, device=device), mg.tensor(b, device=device))
    assert y.dtype == np.bool_
    np.testing.assert_array_equal(y.numpy(), getattr(np, name)(a, b))


@pytest.mark.parametrize("name", SIGNS)
def test_comparisons_with_nan_and_without_gradient(name, device):
    a, b = np.array([nan, nan, 1.0, -0.0]), np.array([nan, 1.0, nan, 0.0])
    y = getattr(mg, name)(mg.tensor(a, requires_grad=True, device=device), mg.tensor(b, device=device))
    np.testing.assert_array_equal(y.numpy(), getattr(np, name)(a, b))
    assert not y.requires_grad


def test_operators_compare_with_numbers(device):
    x = mg.tensor([1.0, 2.0, 3.0], device=device)
    for y, expected in ((x > 2, [0, 0, 1]), (x <= 2, [1, 1, 0]), (x == 2, [0, 1, 0]), (x != 2, [1, 0, 1])):
        np.testing.assert_array_equal(y.numpy(), np.array(expected, bool))


def test_different_dtypes_and_shapes_are_rejected():
    x, i = mg.tensor([1.0, 2.0]), mg.tensor([1, 2])
    with pytest.raises(TypeError, match="less: one input is float32, another int64"):
        mg.less(x, i)
    with pytest.raises(TypeError, match="exp takes float32 or float64; got int64"):
        mg.exp(i)
    with pytest.raises(ValueError, match=r"divide: shapes \(2,\) and \(3,\) do not broadcast"):
        mg.divide(x, mg.ones(3))
    with pytest.raises(TypeError, match=r"subtract takes \(a, b\); got 1 argument"):
        mg.subtract(x)


def test_a_gradient_without_axes_is_an_array(device):
    _, dx = gradients(mg.sqrt, 4.0, device=device)
    assert dx.shape == () and dx.item() == 0.25
