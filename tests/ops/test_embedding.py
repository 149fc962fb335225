"""embedding: one order of the sums of its gradient, and what is refused."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn


def looked_up(words, width, count, device, repeated):
    """The gradient of the table, and NumPy's in the order of the indices."""
    rng = np.random.default_rng(2)
    indices = np.full(count, words - 1) if repeated else rng.integers(0, words, count)
    weight, dy = (rng.standard_normal((n, width)).astype(np.float32) for n in (words, count))
    table = mg.tensor(weight, True, device)
    mg.embedding(mg.tensor(indices, device=device), table).backward(mg.tensor(dy, device=device))
    wanted = np.zeros_like(weight)
    np.add.at(wanted, indices, dy)
    return table.grad.numpy(), wanted


@pytest.mark.parametrize("repeated", [False, True])
def test_the_gradient_is_that_of_numpy_to_the_last_bit(repeated, device):
    found, wanted = looked_up(37, 20, 1500, device, repeated)
    np.testing.assert_array_equal(found, wanted)
    again, _ = looked_up(37, 20, 1500, device, repeated)
    np.testing.assert_array_equal(again, found)


def test_no_rows_and_no_indices(device):
    empty = mg.tensor(np.zeros((2, 0), np.int64), device=device)
    table = mg.tensor(np.ones((3, 4), np.float32), True, device)
    y = mg.embedding(empty, table)
    assert y.shape == (2, 0, 4)
    y.backward(mg.zeros(2, 0, 4, device=device))
    np.testing.assert_array_equal(table.grad.numpy(), np.zeros((3, 4)))
    assert mg.embedding(empty, mg.zeros(0, 4, device=device)).shape == (2, 0, 4)


def test_refusals():
    table = mg.zeros(3, 4, device="numpy")
    for wrong in (-1, 3):
        with pytest.raises(
            IndexError, match=rf"embedding: index {wrong} is no row of weight \(3, 4\); rows are 0 to 2"
        ):
            mg.embedding(mg.tensor(np.array([1, wrong]), device="numpy"), table)
    with pytest.raises(TypeError, match="indices are float32; they must be int64"):
        mg.embedding(mg.zeros(2, device="numpy"), table)
    with pytest.raises(ValueError, match=r"weight is \(3,\); it must be \(rows, width\)"):
        mg.embedding(mg.tensor(np.array([0]), device="numpy"), mg.zeros(3, device="numpy"))


@pytest.mark.gpu
def test_an_index_on_a_gpu_that_is_no_row_gives_nan():
    y = mg.embedding(mg.tensor(np.array([1, 5]), device="cuda"), mg.ones(3, 4, device="cuda")).numpy()
    assert (y[0] == 1).all() and np.isnan(y[1]).all()


def test_the_layer(device):
    mg.manual_seed(0)
    layer = nn.Embedding(50, 12, device=device)
    assert [*layer.state_dict()] == ["weight"] and repr(layer) == "Embedding(50, 12)"
    assert abs(layer.weight.numpy().std() - 1) < 0.1
    y = layer(mg.tensor(np.array([[3, 4], [3, 49]]), device=device))
    np.testing.assert_array_equal(y.numpy(), layer.weight.numpy()[[[3, 4], [3, 49]]])
