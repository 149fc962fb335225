"""dropout: the same random numbers on every device, new ones at each call and each replay, and the mask made again."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.devices.random import Generator, random_state, set_random_state
from minigrad.ops.dropout import philox

SHAPE = (17, 11)


def masks(device, count, p=0.5, shape=SHAPE):
    """What dropout makes of ones, several times."""
    return [mg.dropout(mg.ones(shape, device=device), p).numpy() for _ in range(count)]


@pytest.mark.parametrize(
    ("key", "low", "high", "words"),
    [
        (0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (2**64 - 1, 2**64 - 1, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (0x299F31D0A4093822, 0x85A308D3243F6A88, 0x0370734413198A2E, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_has_the_words_that_its_authors_publish(key, low, high, words):
    """The known answers of the Random123 library for philox4x32 with 10 rounds."""
    assert [f"{word:08x}" for word in philox(key, np.array(low, np.uint64), high)] == words.split()


def test_masks_follow_from_the_seed_and_differ_from_call_to_call(device):
    mg.manual_seed(5)
    first = masks("numpy", 3)
    mg.manual_seed(5)
    again = masks(device, 3)
    mg.manual_seed(6)
    other = masks(device, 3)
    for mask, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(mask, same)
    different = [*first, *other]
    assert all((a != b).any() for i, a in enumerate(different) for b in different[:i])


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_as_many_numbers_are_dropped_as_p_says_and_the_mean_stays(p):
    mg.manual_seed(0)
    (mask,) = masks("numpy", 1, p, (1000, 1000))
    assert abs((mask == 0).mean() - p) < 4 * np.sqrt(p * (1 - p) / 1e6)
    np.testing.assert_allclose(mask[mask > 0], 1 / (1 - p), rtol=1e-6)
    rows = (mask == 0).astype(float)
    for shift in (1, 2, 3, 4, 1000):  # neighbors are independent
        assert abs(np.corrcoef(rows.ravel()[:-shift], rows.ravel()[shift:])[0, 1]) < 4e-3


def test_the_gradient_has_the_mask_of_its_own_forward_pass(device):
    x = mg.ones(SHAPE, requires_grad=True, device=device)
    ys = [mg.dropout(x, 0.25) for _ in range(3)]
    for y in ys[::-1]:
        x.grad = None
        dy = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
        y.backward(mg.tensor(dy, device=device))
        np.testing.assert_array_equal(x.grad.numpy(), dy * y.numpy())


def test_without_training_and_at_the_ends_of_p(device):
    x = mg.ones(SHAPE, device=device)
    assert mg.dropout(x, 0.5, False) is x and mg.dropout(x, training=False) is x
    assert (mg.dropout(x, 0.0).numpy() == 1).all() and (mg.dropout(x, 1.0).numpy() == 0).all()
    assert mg.dropout(mg.zeros(0, 3, device=device)).shape == (0, 3)
    layer = nn.Dropout(0.5)
    assert layer.eval()(x) is x and (layer.train()(x).numpy() == 0).any() and repr(layer) == "Dropout(0.5)"


def test_an_empty_batch_counts_as_a_mask(device):
    mg.manual_seed(1)
    wanted = masks(device, 2)[1]
    mg.manual_seed(1)
    mg.dropout(mg.zeros(0, 3, device=device))
    np.testing.assert_array_equal(masks(device, 1)[0], wanted)


def test_a_state_of_ones_own_is_counted_up_in_place(device):
    state = mg.tensor(np.array([7, 3], np.uint64), device=device)
    x = mg.ones(SHAPE, device=device)
    y = mg.dropout(x, state, 0.5)
    assert state.numpy().tolist() == [7, 4]
    with mg.no_grad():
        state.assign(np.array([7, 3], np.uint64))
    np.testing.assert_array_equal(mg.dropout(x, state).numpy(), y.numpy())


def test_a_saved_state_goes_on_where_no_mask_has_been_made_yet(device, monkeypatch):
    mg.manual_seed(2)
    masks(device, 2)
    state, wanted = random_state(), masks(device, 1)[0]
    monkeypatch.setattr(Generator, "states", {})  # as in a new process
    set_random_state(state)
    np.testing.assert_array_equal(masks(device, 1)[0], wanted)
    set_random_state(state)
    np.testing.assert_array_equal(masks(device, 1)[0], wanted)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: mg.dropout(x, 1.5), ValueError, r"dropout: p=1\.5 must be a number from 0"),
        (lambda x: mg.dropout(x, training="no"), TypeError, "dropout: training takes True or False"),
        (lambda x: mg.dropout(x.numpy()), TypeError, "dropout takes a tensor; got ndarray"),
        (lambda x: mg.dropout(x > 0), TypeError, "dropout takes float32 or float64; got bool"),
        (lambda x: mg.dropout(x, x), TypeError, r"the state is float32 \(3,\); it must be uint64 \(2,\)"),
        (lambda x: nn.Dropout(-1), ValueError, "Dropout: p=-1 must be a number from 0"),
        (lambda x: mg.fuse(lambda x: mg.dropout(x) * 2.0)(x), TypeError, "mg.fuse: dropout cannot be fused"),
    ],
)
def test_other_arguments_are_refused(call, error, message, device):
    with pytest.raises(error, match=message):
        call(mg.ones(3, device=device))
