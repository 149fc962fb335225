"""The ten shapes: the same bits everywhere, one picture at every size, and a network that learns them."""

import hashlib

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import minigrad as mg
from minigrad import nn


def test_the_bits_are_those_of_every_machine():
    drawn = mg.data.shapes(200, size=12, channels=2, seed=5)
    assert drawn.images.shape == (200, 2, 12, 12)
    assert (drawn.images.dtype, drawn.labels.dtype) == (np.float32, np.int64)
    digest = hashlib.sha256(drawn.images.astype("<f4").tobytes() + drawn.labels.astype("<i8").tobytes()).hexdigest()
    assert digest == "5ef6ffa0ad1e762b5a2532bbd7a0551a08fd1a734c7c89420009068e1daeddbd"


def test_sets_of_a_seed_show_the_same_at_any_size_and_count():
    small, large = mg.data.shapes(30, size=16, seed=1), mg.data.shapes(50, size=32, seed=1)
    np.testing.assert_array_equal(mg.data.shapes(30, size=32, seed=1).images, large.images[:30])
    np.testing.assert_array_equal(small.labels, large.labels[:30])
    halved = large.images[:30].reshape(30, 1, 16, 2, 16, 2).mean(axis=(3, 5))
    assert abs(halved - small.images).mean() < 0.06
    other = mg.data.shapes(30, seed=2)
    assert (other.labels != small.labels).any() and abs(other.images - small.images).mean() > 0.1


def test_classes_are_even_and_shapes_brighter_than_the_ground():
    drawn = mg.data.shapes(1000)
    counts = np.bincount(drawn.labels, minlength=10)
    assert len(mg.data.SHAPES) == len(counts) == 10 and counts.min() > 70
    assert drawn.images.min() >= 0 and drawn.images.max() <= 1
    corners = drawn.images[:, 0, ::15, ::15].mean(axis=(1, 2))
    means = drawn.images.mean(axis=(1, 2, 3))
    assert (means > corners).mean() > 0.9
    areas = {name: (means - corners)[drawn.labels == i].mean() for i, name in enumerate(mg.data.SHAPES)}
    assert areas["square"] > areas["frame"] and areas["disc"] > max(areas["ring"], areas["crescent"])


def test_channels_differ_in_noise_alone():
    drawn = mg.data.shapes(20, channels=3, seed=3).images
    apart = abs(drawn[:, 0] - drawn[:, 1])
    assert 0 < apart.mean() < 0.1 and apart.max() <= 0.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": -1}, "count=-1"),
        ({"size": 7}, "size=7 must be a whole number of at least 8"),
        ({"seed": 0.5}, "seed=0.5"),
        ({"channels": 0}, "channels=0"),
    ],
)
def test_wrong_arguments_are_rejected(arguments, message):
    with pytest.raises((TypeError, ValueError), match=f"shapes: {message}"):
        mg.data.shapes(**arguments)


def train(steps, size, widths, seed=0):
    """The losses, and the part of 200 other shapes that the network names rightly."""
    mg.manual_seed(seed)
    net = nn.ResNet(10, "small", 1, widths, 1, device="numpy")
    optimizer, losses = mg.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), []
    drawn, flip = mg.data.shapes(32 * steps, size, seed=seed), mg.data.RandomHorizontalFlip()
    loader = mg.data.Loader(*drawn, 32, shuffle=True, drop_last=True, augment=flip, device="numpy")
    for x, y in mg.show.progress(loader):
        optimizer.lr = 0.1 * (1 - len(losses) / steps)
        optimizer.zero_grad()
        loss = mg.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    test = mg.data.shapes(200, size, seed=seed + 1)
    return losses, nn.accuracy(net.eval()(mg.tensor(test.images, device="numpy")), test.labels)


@pytest.mark.soak
def test_a_small_residual_network_learns_shapes_from_a_loader():
    with threadpool_limits(1):  # of the products of such small matrices, two cores make a race
        losses, accuracy = train(100, 12, (8, 16))
    assert len(losses) == 100 and np.mean(losses[-8:]) < 0.7 * np.mean(losses[:8])
    assert accuracy > 0.4  # 98 % after 250 steps, with 16 pixels and a third stage
