"""Movement ops: legal keys, shapes and axes, shared memory, and the choice of the kernel."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.kernels.view import strides_of
from minigrad.ops.transpose import matrices

DTYPES = ["float32", "float64", "int32", "uint32", "int64", "uint64", "uint8", "bool"]


def numbers(*shape, dtype="float32"):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_moves(dtype, device):
    x = numbers(3, 4, dtype=dtype)
    t = mg.tensor(x, device=device)
    for y, expected in (
        (t.T, x.T),
        (t.reshape(2, 6), x.reshape(2, 6)),
        (t[1, ::-1], x[1, ::-1]),
        (mg.concatenate([t, t], axis=1), np.concatenate([x, x], axis=1)),
    ):
        assert y.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(y.numpy(), expected)


# --- transpose ---


@pytest.mark.parametrize("variant", ["naive", "tiled", "padded", "permute"])
@pytest.mark.parametrize("axes", [None, (0, 2, 1), (2, 0, 1), (0, 1, 2), (1, 2, 0)])
def test_every_kernel_does_every_permutation(variant, axes, device):
    x = numbers(3, 33, 17)
    y = mg.transpose.using(variant)(mg.tensor(x, device=device), axes)
    np.testing.assert_array_equal(y.numpy(), np.transpose(x, axes))


@pytest.mark.parametrize(
    "shape, axes, stack",
    [
        ((5, 7), (1, 0), (5, 7, 1)),
        ((2, 5, 7), (0, 2, 1), (5, 7, 2)),
        ((2, 3, 5, 7), (0, 1, 3, 2), (5, 7, 6)),
        ((2, 3, 5, 7), (2, 3, 0, 1), (6, 35, 1)),  # two groups of axes are swapped: a matrix of groups
        ((5, 1, 7), (2, 1, 0), (5, 7, 1)),
        ((5, 7), (0, 1), None),
        ((2, 5, 7), (1, 0, 2), None),
        ((2_000_000, 3), (1, 0), None),  # more rows of tiles than a grid has
    ],
)
def test_permutations_that_swap_matrices(shape, axes, stack):
    strides = strides_of(shape)
    assert matrices(tuple(shape[d] for d in axes), tuple(strides[d] for d in axes)) == stack


def test_a_transpose_is_a_copy(device):
    x = mg.tensor(numbers(3, 1), device=device)
    for y in (x.T, x.transpose(0, 1), x[:], mg.concatenate([x])):
        with mg.no_grad():
            y += 1
    np.testing.assert_array_equal(x.numpy(), numbers(3, 1))


def test_numpy_results_are_contiguous():
    x = mg.tensor(numbers(4, 5, 6), device="numpy")
    for y in (x.T, x.transpose(1, 0, 2), x[::-1, 2], x[..., ::2], mg.concatenate([x, x], axis=2)):
        assert y.array.flags.c_contiguous and y.array.flags.owndata


@pytest.mark.parametrize("axes", [(0, 0), (0,), (0, 2), (0, -3), (0, 1, 2), (), np.array([0, 0])])
def test_axes_must_be_a_permutation(axes, device):
    x = mg.tensor(numbers(2, 3), device=device)
    with pytest.raises(ValueError, match=r"must name each of the 2 axes of shape \(2, 3\) once"):
        x.transpose(axes)


def test_axes_must_be_whole():
    with pytest.raises(TypeError, match=r"transpose: axes=\(0.5, 1\) must be whole numbers"):
        mg.transpose(mg.ones(2, 3), (0.5, 1))


# --- reshape ---


def test_reshape_shares_memory(device):
    x = mg.tensor(numbers(2, 3), device=device)
    y = x.reshape(-1)
    with mg.no_grad():
        y += 1
    np.testing.assert_array_equal(x.numpy(), numbers(2, 3) + 1)


def test_a_write_through_a_reshape_is_noticed(device):
    x = mg.tensor([[1.0, 2.0]], requires_grad=True, device=device)
    y = mg.square(x)
    with mg.no_grad():
        x.reshape(2).assign(mg.zeros(2, device=device))
    with pytest.raises(RuntimeError, match="square kept x at version 0"):
        y.backward(mg.ones(1, 2, device=device))


def test_reshape_gradient_has_memory_of_its_own(device):
    x = mg.tensor(numbers(2, 3), requires_grad=True, device=device)
    dy = mg.ones(6, device=device)
    x.reshape(6).backward(dy)
    with mg.no_grad():
        dy *= 2
    np.testing.assert_array_equal(x.grad.numpy(), np.ones((2, 3)))


@pytest.mark.parametrize("shape", [(4,), (-1, 4), (0, -1), 7, (2, 3, 2)])
def test_reshape_needs_as_many_elements(shape, device):
    with pytest.raises(ValueError, match=r"the 6 elements of shape \(2, 3\) do not fill"):
        mg.reshape(mg.tensor(numbers(2, 3), device=device), shape)


@pytest.mark.parametrize("shape", [(-1, -1), (-2, 3)])
def test_reshape_takes_one_unknown(shape):
    with pytest.raises(ValueError, match="may hold one -1"):
        mg.ones(2, 3).reshape(shape)


def test_reshape_card_has_no_kernel():
    assert repr(mg.reshape).startswith("reshape: y = x") and mg.reshape.kernels == {}


# --- getitem ---

KEYS = [
    np.s_[0], np.s_[-1, -2], np.s_[1, 2, 3], np.s_[:, 1], np.s_[..., 1], np.s_[..., -1, :], np.s_[None], np.s_[...],
    np.s_[::-1, ::2, ::-3], np.s_[3:1:-1], np.s_[1:1], np.s_[-100:100], np.s_[1:, None, ..., None, 2], np.s_[:, :, 3:2],
    np.s_[:, None, 1], np.s_[np.int64(1)], np.s_[()],
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_getitem_follows_numpy(key, device):
    x = numbers(2, 3, 4, dtype="float64")
    t = mg.tensor(x, requires_grad=True, device=device)
    y = t[key]
    np.testing.assert_array_equal(y.numpy(), x[key])
    assert y.shape == x[key].shape
    dx = np.zeros_like(x)
    dx[key] = x[key]
    y.backward(y.detach())
    np.testing.assert_array_equal(t.grad.numpy(), dx)


def test_overlapping_slices_add_up(device):
    x = mg.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
    (x[:2] + x[1:]).backward(mg.tensor([1.0, 10.0], device=device))
    np.testing.assert_array_equal(x.grad.numpy(), [1, 11, 10])


def test_iteration_and_unpacking(device):
    a, b = mg.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    np.testing.assert_array_equal(b.numpy(), [3, 4])
    assert [n.item() for n in a] == [1, 2]


@pytest.mark.parametrize("key", [[0, 1], np.array([0]), np.array([True, False]), True, (0, False), 1.5, "a"], ids=repr)
def test_getitem_rejects_other_indices(key):
    with pytest.raises(TypeError, match=r"is no index here; use whole numbers, slices, \.\.\. and None"):
        mg.ones(2, 3)[key]


@pytest.mark.parametrize(
    "key, words",
    [
        (2, r"index 2 is outside axis 0 of shape \(2, 3\); choose -2 <= i < 2"),
        ((0, -4), r"index -4 is outside axis 1"),
        ((0, 0, 0), r"3 indices for shape \(2, 3\), which has 2 axes"),
        ((..., 0, ...), "2 Ellipses"),
    ],
)
def test_getitem_out_of_range(key, words, device):
    with pytest.raises(IndexError, match=words):
        mg.ones(2, 3, device=device)[key]


@pytest.mark.parametrize(
    ("key", "error"), [(np.s_[::0], ValueError), (np.s_["a":], TypeError), (np.s_[:, 0.5:1], TypeError)]
)
def test_slices_take_whole_numbers(key, error, device):
    with pytest.raises(error, match=r"getitem: slice\(.* on axis [01]: start and stop are whole numbers or None"):
        mg.ones(2, 3, device=device)[key]


def test_a_key_is_required():
    with pytest.raises(TypeError, match=r"getitem takes \(x, key\); got 1 argument"):
        mg.getitem(mg.ones(3))


# --- concatenate ---


def test_concatenate_in_each_way_of_calling(device):
    a, b = mg.tensor(numbers(2, 3), device=device), mg.tensor(numbers(2, 1), device=device)
    expected = np.concatenate([numbers(2, 3), numbers(2, 1)], 1)
    for y in (
        mg.concatenate([a, b], 1), mg.concatenate((a, b), axis=-1), mg.concatenate(a, b, axis=1)
    ):  # fmt: skip
        np.testing.assert_array_equal(y.numpy(), expected)


def test_concatenate_gradients(device):
    xs = [mg.tensor(numbers(*shape), requires_grad=need, device=device)
          for shape, need in (((2, 2), True), ((2, 0), True), ((2, 1), False), ((2, 3), True))]  # fmt: skip
    dy = numbers(2, 6)
    mg.concatenate(xs, axis=1).backward(mg.tensor(dy, device=device))
    np.testing.assert_array_equal(xs[0].grad.numpy(), dy[:, :2])
    assert xs[1].grad.shape == (2, 0) and xs[2].grad is None
    np.testing.assert_array_equal(xs[3].grad.numpy(), dy[:, 3:])


def test_concatenate_the_same_tensor_twice(device):
    x = mg.tensor([1.0, 2.0], requires_grad=True, device=device)
    mg.concatenate([x, x]).backward(mg.tensor([1.0, 2.0, 3.0, 4.0], device=device))
    np.testing.assert_array_equal(x.grad.numpy(), [4, 6])


@pytest.mark.parametrize(
    "shapes, axis, words",
    [
        (((2, 3), (2, 4)), 0, r"shapes \(2, 3\) and \(2, 4\) may differ on axis 0 only"),
        (((2, 3), (2,)), 1, r"shapes \(2, 3\) and \(2,\) may differ"),
        (((2, 3),), 2, r"shape \(2, 3\) has no axis 2; choose -2 <= axis < 2"),
        (((), ()), 0, "no axes"),
    ],
)
def test_concatenate_checks_shapes(shapes, axis, words, device):
    with pytest.raises(ValueError, match=words):
        mg.concatenate([mg.ones(shape, device=device) for shape in shapes], axis=axis)


def test_concatenate_checks_types():
    with pytest.raises(TypeError, match="one input is float32, another int64"):
        mg.concatenate([mg.ones(2), mg.tensor([1, 2])])
    with pytest.raises(TypeError, match="concatenate takes tensors; got none"):
        mg.concatenate([])
    with pytest.raises(TypeError, match="axis=None must be a whole number"):
        mg.concatenate([mg.ones(2)], axis=None)
