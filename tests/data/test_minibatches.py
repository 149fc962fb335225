"""Mini-batches: every row once, orders that follow from a seed, augmentation that leaves labels right."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.random import random_state, set_random_state

X, Y = np.arange(10.0).reshape(10, 1), np.arange(10)
IMAGES = np.arange(6 * 3 * 5 * 7, dtype=np.float32).reshape(6, 3, 5, 7) + 1


def labels_of(loader):
    return [y.numpy().tolist() for _, y in loader]


def test_batches_cover_every_row_once():
    pieces = list(mg.data.batches(X, Y, size=4, seed=3))
    assert [len(labels) for _, labels in pieces] == [4, 4, 2]
    assert sorted(np.concatenate([labels.numpy() for _, labels in pieces])) == list(range(10))
    for images, labels in pieces:
        np.testing.assert_array_equal(images.numpy()[:, 0], labels.numpy())
    with pytest.raises(ValueError, match=r"images \(10, 1\) and labels \(9,\)"):
        mg.data.batches(X, Y[:9])
    for late in (lambda: mg.data.batches(X, Y, device="gpu"), lambda: mg.data.prefetch([], "gpu")):
        with pytest.raises(ValueError, match="device 'gpu' does not exist"):
            late()


def test_an_epoch_of_a_loader_has_every_row_once(device):
    loader = mg.data.Loader(X, Y, batch_size=4, shuffle=True, seed=1, device=device)
    for _ in range(2):
        epoch = list(loader)
        assert len(epoch) == len(loader) == 3 and [len(y.numpy()) for _, y in epoch] == [4, 4, 2]
        assert all(x.device == device and np.array_equal(x.numpy()[:, 0], y.numpy()) for x, y in epoch)
        assert sorted(label for _, y in epoch for label in y.numpy()) == list(range(10))


def test_the_last_batch_is_kept_or_dropped():
    assert labels_of(mg.data.Loader(X, Y, 4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    short = mg.data.Loader(X, Y, 4, drop_last=True)
    assert labels_of(short) == [[0, 1, 2, 3], [4, 5, 6, 7]] and len(short) == 2
    even = mg.data.Loader(X[:8], Y[:8], 4, drop_last=True)
    assert labels_of(even) == labels_of(mg.data.Loader(X[:8], Y[:8], 4)) and len(even) == 2
    assert labels_of(mg.data.Loader(X[:0], Y[:0], drop_last=True)) == []


def test_each_epoch_has_an_order_of_its_own_that_follows_from_the_seed():
    first, second, other = (mg.data.Loader(X, Y, 5, shuffle=True, seed=seed) for seed in (7, 7, 8))
    orders = [labels_of(first) for _ in range(3)]
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert [labels_of(second) for _ in range(3)] == orders and labels_of(other) != orders[0]
    resumed = mg.data.Loader(X, Y, 5, shuffle=True, seed=7)
    resumed.epoch = 2
    assert labels_of(resumed) == orders[2] and resumed.epoch == 3


def test_without_a_seed_orders_follow_from_manual_seed():
    def run():
        mg.manual_seed(3)
        loader = mg.data.Loader(IMAGES, np.arange(6), 4, shuffle=True, augment=mg.data.RandomHorizontalFlip())
        seen = []
        for x, y in loader:
            seen += [x.numpy().tolist(), y.numpy().tolist(), mg.randn(2).numpy().tolist()]  # as dropout draws meanwhile
        return seen, labels_of(loader)

    assert run() == run() and run()[1] != run()[0][1::3]
    mg.manual_seed(3)
    plain = mg.randn(3).numpy().tolist()
    mg.manual_seed(3)
    labels_of(mg.data.Loader(X, Y, 4))
    assert mg.randn(3).numpy().tolist() == plain, "an evaluation draws nothing, and changes no training"


@pytest.mark.parametrize("seed", [7, None])
@pytest.mark.parametrize("stop", [1, 2, 3, 4, 7])
def test_a_loader_goes_on_where_the_loop_was(seed, stop):
    def make():
        augment = lambda x, rng: x + rng.standard_normal(x.shape)  # noqa: E731
        return mg.data.Loader(X, Y, 4, shuffle=True, augment=augment, seed=seed, device="numpy", ahead=3)

    def steps(loader, count):
        seen = []
        while True:
            for x, y in loader:
                seen.append((x.numpy().tolist(), y.numpy().tolist()))
                if len(seen) == count:
                    return seen

    mg.manual_seed(0)
    wanted = steps(make(), 9)
    mg.manual_seed(0)
    loader = make()
    assert steps(loader, stop) == wanted[:stop]
    state, numbers = loader.state_dict(), random_state()
    other = make()
    steps(other, 2)
    other.load_state_dict(state)
    set_random_state(numbers)
    assert {name: x.item() for name, x in other.state_dict().items()} == {k: x.item() for k, x in state.items()}
    assert steps(other, 9 - stop) == wanted[stop:]
    steps(other, 1)
    assert len(list(other)) == 3, "without a state a loop begins a new epoch"


def test_a_state_of_another_loader_is_rejected():
    state = {"epoch": np.array(2), "row": np.array(8), "drawn": np.array(0)}
    with pytest.raises(ValueError, match="row 8 was reached, and an epoch has 8 rows"):
        mg.data.Loader(X, Y, 4, drop_last=True).load_state_dict(state)
    with pytest.raises(KeyError, match=r"missing: drawn; unexpected: none\."):
        mg.data.Loader(X, Y, 4).load_state_dict({name: state[name] for name in ("epoch", "row")})


def test_a_crop_is_a_window_of_the_padded_image():
    crop, padded = mg.data.RandomCrop(5, padding=2), np.pad(IMAGES, ((0, 0), (0, 0), (2, 2), (2, 2)))
    seen = set()
    for seed in range(30):
        made = crop(IMAGES, np.random.default_rng(seed))
        assert made.shape == (6, 3, 5, 5) and made.dtype == np.float32
        for image, whole in zip(made, padded, strict=True):
            places = [
                (i, j) for i in range(5) for j in range(7) if np.array_equal(image, whole[:, i : i + 5, j : j + 5])
            ]
            assert len(places) == 1
            seen |= {*places}
    assert seen == {(i, j) for i in range(5) for j in range(7)}, "every place occurs"


def test_a_flip_exchanges_left_and_right_of_half_of_the_images():
    flip, many = mg.data.RandomHorizontalFlip(), np.repeat(IMAGES, 50, axis=0)
    made = flip(many, np.random.default_rng(0))
    same, turned = ((made == other).all(axis=(1, 2, 3)) for other in (many, many[..., ::-1]))
    assert (same ^ turned).all() and 120 < turned.sum() < 180
    assert np.array_equal(mg.data.RandomHorizontalFlip(p=0)(IMAGES), IMAGES)
    assert np.array_equal(mg.data.RandomHorizontalFlip(p=1)(IMAGES), IMAGES[..., ::-1])
    mg.manual_seed(1)
    once = flip(many)
    mg.manual_seed(1)
    assert np.array_equal(flip(many), once), "alone it draws from the generator of manual_seed"


def test_augmentation_is_made_anew_in_every_epoch_and_the_images_stay():
    before = IMAGES.copy()
    steps = [mg.data.RandomCrop(4, 1), mg.data.RandomHorizontalFlip(), lambda images, rng: (images - 100) / 50]
    loader = mg.data.Loader(IMAGES, np.arange(6), 3, augment=steps, seed=0)
    first, second = ([x.numpy() for x, _ in loader] for _ in range(2))
    assert first[0].shape == (3, 3, 4, 4) and not np.array_equal(first, second)
    again = mg.data.Loader(IMAGES, np.arange(6), 3, augment=steps, seed=0)
    assert np.array_equal([x.numpy() for x, _ in again], first) and np.array_equal(IMAGES, before)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mg.data.Loader(X, Y[:9]), r"Loader: images \(10, 1\) and labels \(9,\); there must be a row"),
        (lambda: mg.data.Loader(X, Y, 11, drop_last=True), r"no batch of 11 from 10 images; choose batch_size <= 10"),
        (lambda: mg.data.Loader(X, Y, 0), "Loader: batch_size=0 must be a whole number of at least 1"),
        (lambda: mg.data.Loader(X, Y, ahead=0), "Loader: ahead=0 must be"),
        (lambda: mg.data.Loader(X, Y, rank=2, ranks=2), "Loader: rank=2 must be below ranks=2"),
        (lambda: mg.data.Loader(X, Y, shuffle=True, ranks=2), "Loader: each rank would shuffle in an order of its own"),
        (lambda: mg.data.Loader(X, Y, seed=-1), "Loader: seed=-1 must be"),
        (lambda: mg.data.Loader(X, Y, shuffle="no"), "Loader: shuffle takes True or False; got str 'no'"),
        (lambda: mg.data.Loader(X, Y, drop_last=1), "Loader: drop_last takes True or False"),
        (lambda: mg.data.Loader(X, Y, augment=[3]), "Loader: augment takes a function of images .*; got int 3"),
        (lambda: mg.data.Loader(X, Y, augment=3), "Loader: augment takes a function .*, or a list of such; got int 3"),
        (lambda: mg.data.Loader(X, Y, device="tpu"), "device 'tpu' does not exist"),
        (lambda: list(mg.data.Loader(X, Y, augment=lambda x, rng: x[1:])), r"array of shape \(9, 1\) of 10 images"),
        (lambda: mg.data.RandomCrop(0), "RandomCrop: size=0 must be"),
        (lambda: mg.data.RandomCrop(4, -1), "RandomCrop: padding=-1 must be"),
        (lambda: mg.data.RandomCrop(8, 1)(IMAGES), r"\(6, 3, 5, 7\) with padding=1 hold no window of 8 x 8 pixels"),
        (lambda: mg.data.RandomCrop(1)(X), r"images \(10, 1\) .* Images are \(n, \.\.\., height, width\)"),
        (lambda: mg.data.RandomHorizontalFlip(1.5), "p=1.5 is a probability; it must be at most 1"),
    ],
)
def test_wrong_arguments_are_rejected(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
