"""Network parts, optimizers and data: what they compute, and the digits learned alike on every device."""

import copy
import pickle

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.lab.bench.timer import SPIN
from minigrad.source import CUDA, Source

DEVICES = [name for name in mg.devices() if name != "numpy"]


def mlp(device, dtype="float32"):
    mg.manual_seed(0)
    first = mg.nn.Linear(64, 128, device=device, dtype=dtype)
    return mg.nn.Sequential(first, mg.relu, mg.nn.Linear(128, 10, device=device, dtype=dtype))


def train(device, epochs, make_optimizer):
    model, digits = mlp(device), mg.data.digits()
    optimizer, losses = make_optimizer(model.parameters()), []
    for epoch in range(epochs):
        for x, labels in mg.data.batches(*digits.train, size=64, seed=epoch, device=device):
            optimizer.zero_grad()
            loss = mg.cross_entropy(model(x), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    accuracy = mg.nn.accuracy(model(mg.tensor(digits.test.images, device=device)), digits.test.labels)
    return losses, accuracy


def sgd(parameters):
    return mg.optim.SGD(parameters, lr=0.2, momentum=0.9)


def test_digits_reach_97_percent_with_the_same_losses_on_every_device():
    losses, accuracy = train("numpy", 15, sgd)
    assert accuracy >= 0.97
    for device in DEVICES:
        others, accuracy = train(device, 15, sgd)
        assert accuracy >= 0.97
        np.testing.assert_allclose(others, losses, atol=1e-4)


@pytest.mark.parametrize("device", mg.devices())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sgd_and_adam_take_the_steps_of_their_formulas(device, dtype):
    start, gradients = np.array([1.0, -2.0, 3.0], dtype), np.array([[0.5, -1.0, 0.0], [0.25, 2.0, 1e-3]], dtype)
    p, v = start.copy(), np.zeros(3, dtype)
    q, m, s = start.copy(), np.zeros(3, dtype), np.zeros(3, dtype)
    stepped, adapted = (mg.tensor(start, requires_grad=True, device=device) for _ in range(2))
    optimizers = [mg.optim.SGD([stepped], lr=0.1, momentum=0.9), mg.optim.Adam([adapted], lr=0.1)]
    for t, g in enumerate(gradients, 1):
        v = 0.9 * v + g
        p = p - 0.1 * v
        m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g * g
        q = q - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(s / (1 - 0.999**t)) + 1e-8)
        stepped.grad = mg.tensor(g, device=device)
        adapted.grad = mg.tensor(g, device=device)
        for optimizer in optimizers:
            optimizer.step()
    rtol = {"float32": 5e-7, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(stepped.numpy(), p, rtol=rtol)
    np.testing.assert_allclose(adapted.numpy(), q, rtol=rtol)


@pytest.mark.parametrize("device", mg.devices())
@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_many_parameters_of_any_size_and_dtype_step_as_on_numpy(name, device):
    """More than a launch takes, some empty, some longer than a block, of two dtypes, some without a gradient."""
    sizes, rng = [3, 0, 256, 257, 1, 1025, 31, 2, 513, 5, 7, 600, 8, 9, 10, 11, 12, 13, 14], np.random.default_rng(0)
    starts = [rng.standard_normal(n).astype("float64" if i % 3 == 1 else "float32") for i, n in enumerate(sizes)]
    grads = [rng.standard_normal(n).astype(x.dtype) for n, x in zip(sizes, starts, strict=True)]
    tolerance = {"float32": {"rtol": 1e-6, "atol": 1e-7}, "float64": {"rtol": 1e-13}}
    stepped = {}
    for place in ("numpy", device):
        xs = [mg.tensor(x, requires_grad=True, device=place) for x in starts]
        optimizer = getattr(mg.optim, name)(xs, lr=0.1)
        for step in range(2):
            for i, (x, g) in enumerate(zip(xs, grads, strict=True)):
                x.grad = mg.tensor(g, device=place) if i % 5 or step else None
            optimizer.step()
        stepped[place] = [x.numpy() for x in xs]
    for i, (got, wanted) in enumerate(zip(stepped[device], stepped["numpy"], strict=True)):
        np.testing.assert_allclose(got, wanted, **tolerance[wanted.dtype.name])
        assert got.size == 0 or np.abs(got - starts[i]).min() > 0


@pytest.mark.parametrize("device", mg.devices())
def test_adam_counts_the_steps_of_each_parameter(device):
    often, late = (mg.ones(1, requires_grad=True, device=device) for _ in range(2))
    optimizer = mg.optim.Adam([often, late], lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        (often * often).sum().backward()
        optimizer.step()
    (late * 1.0).sum().backward()
    optimizer.step()
    np.testing.assert_allclose(late.numpy(), [0.9], rtol=1e-6)  # a first step is as long as lr


def test_a_layer_used_twice_is_one_layer():
    layer = mg.nn.Linear(2, 2)
    model = mg.nn.Sequential(layer, layer)
    assert [id(p) for p in model.parameters()] == [id(layer.weight), id(layer.bias)]
    model(mg.ones(1, 2)).sum().backward()
    mg.optim.SGD(model.parameters(), lr=0.1).step()
    model.load_state_dict(model.state_dict())
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_parameters_have_names_and_can_be_saved_and_loaded():
    model, other = mlp("numpy"), mg.nn.Sequential(mg.nn.Linear(64, 128), mg.relu, mg.nn.Linear(128, 10))
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    other.load_state_dict(model.state_dict())
    for mine, yours in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(mine.numpy(), yours.numpy())
    with pytest.raises(KeyError, match=r"2\.weight"):
        mg.nn.Sequential(mg.nn.Linear(64, 64)).load_state_dict(model.state_dict())


def test_a_module_of_ones_own_finds_parameters_in_its_attributes():
    class Scaled(mg.nn.Module):
        def __init__(self):
            self.scale = mg.ones(3, requires_grad=True)
            self.inner = mg.nn.Linear(3, 2)
            self.constant = mg.ones(3)

        def forward(self, x):
            return self.inner(x * self.scale + self.constant)

    model = Scaled()
    model(mg.ones(4, 3)).sum().backward()
    assert [name for name, _ in model.named_parameters()] == ["scale", "inner.weight", "inner.bias"]
    assert all(p.grad is not None for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("device", DEVICES)
def test_a_model_moves_and_its_optimizer_follows(device):
    model = mlp("numpy")
    optimizer = mg.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for where in ("numpy", device, "numpy"):
        model.to(where)
        model(mg.ones(2, 64, device=where)).sum().backward()
        optimizer.step()
        assert {p.device for p in model.parameters()} == {where}


def test_an_optimizer_refuses_nonsense():
    with pytest.raises(ValueError, match="no parameters"):
        mg.optim.SGD([], lr=0.1)
    with pytest.raises(ValueError, match="lr=nan"):
        mg.optim.Adam([mg.ones(1, requires_grad=True)], lr=float("nan"))


def test_an_optimizer_says_what_it_does():
    w, b = (mg.ones(2, requires_grad=True, device="numpy") for _ in range(2))
    assert repr(mg.optim.SGD([w, b], lr=0.1, momentum=0.9)) == "SGD of 2 parameters: lr=0.1, momentum=0.9"
    assert repr(mg.optim.Adam([w])) == "Adam of 1 parameter: lr=0.001, betas=(0.9, 0.999), eps=1e-08"


def test_batches_cover_every_row_once():
    x, y = np.arange(10.0).reshape(10, 1), np.arange(10)
    pieces = list(mg.data.batches(x, y, size=4, seed=3))
    assert [len(labels) for _, labels in pieces] == [4, 4, 2]
    assert sorted(np.concatenate([labels.numpy() for _, labels in pieces])) == list(range(10))
    for images, labels in pieces:
        np.testing.assert_array_equal(images.numpy()[:, 0], labels.numpy())
    with pytest.raises(ValueError, match=r"images \(10, 1\) and labels \(9,\)"):
        mg.data.batches(x, y[:9])
    for late in (lambda: mg.data.batches(x, y, device="gpu"), lambda: mg.data.prefetch([], "gpu")):
        with pytest.raises(ValueError, match="device 'gpu' does not exist"):
            late()


def test_digits_are_1797_and_the_parts_share_none():
    digits = mg.data.digits()
    assert (len(digits.train.images), len(digits.test.images)) == (1437, 360)
    assert digits.train.images.dtype == np.float32
    assert digits.train.images.min() >= 0 and digits.train.images.max() <= 1
    assert set(digits.test.labels) == set(range(10))


def test_optimizers_refuse_what_cannot_train():
    p = mg.ones(3, requires_grad=True)
    for wrong in (p, [p * 2], [mg.ones(3)], [3]):
        with pytest.raises(TypeError, match=r"model\.parameters\(\)"):
            mg.optim.SGD(wrong, lr=0.1)
    with pytest.raises(ValueError, match="twice"):
        mg.optim.SGD([p, p], lr=0.1)


def test_numpy_numbers_are_numbers_to_an_optimizer():
    assert mg.optim.SGD([mg.ones(1, requires_grad=True)], lr=np.float32(0.5), momentum=np.float16(0.25)).lr == 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: mg.nn.Linear(0, 3), "Linear: inputs=0 must be a whole number of at least 1"),
        (lambda p: mg.nn.Linear(3, 1.5), "Linear: outputs=1.5 must be a whole number"),
        (lambda p: mg.nn.Linear(3, 3, "sim"), "Linear: bias takes True or False; got str 'sim'"),
        (lambda p: mg.nn.Sequential(1), "Sequential takes modules and functions of a tensor; got int 1"),
        (lambda p: mg.optim.SGD([p]), "SGD takes a learning rate: lr=0.1, for example."),
        (lambda p: mg.tensor([1, 2], requires_grad=True), "not int64: write 1.0."),
        (lambda p: mg.optim.SGD([p], lr="a"), "SGD: lr='a' must be a number of at least 0"),
        (lambda p: mg.optim.SGD([p], 0.1, momentum=-1), "SGD: momentum=-1 must be a number of at least 0"),
        (lambda p: mg.optim.Adam([p], betas=(1.0, 2.0)), r"Adam: betas\[0\]=1.0 must be a number from 0 to below 1"),
        (lambda p: mg.optim.Adam([p], betas=(0.9,)), r"betas=\(0.9,\) must be two numbers"),
        (lambda p: mg.optim.Adam([p], eps=float("nan")), "Adam: eps=nan must be a number of at least 0"),
        (lambda p: list(mg.data.batches([[1.0]], [1], size=1.5)), "batches: size=1.5 must be a whole number"),
        (lambda p: list(mg.data.batches([[1.0]], [1], seed=-1)), "batches: seed=-1 must be a whole number"),
        (lambda p: mg.data.digits(test="a"), "digits: test='a' must be a whole number"),
        (lambda p: mg.nn.accuracy(None, [1]), "accuracy takes logits as a tensor; got NoneType None"),
    ],
)
def test_arguments_of_the_wrong_kind(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make(mg.ones(2, requires_grad=True))


def test_a_state_that_does_not_fit_changes_nothing():
    model = mg.nn.Sequential(mg.nn.Linear(2, 3), mg.nn.Linear(3, 1))
    before, other = model.state_dict(), {name: value + 1 for name, value in model.state_dict().items()}
    for wrong, message in (
        (np.ones(2), r"1\.bias: what is assigned is float32 \(2,\)"),
        ("a", "cannot make numbers of str"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            model.load_state_dict(other | {"1.bias": wrong})
        for name, value in model.state_dict().items():
            np.testing.assert_array_equal(value, before[name])
    with pytest.raises(TypeError, match="load_state_dict takes what state_dict"):
        model.load_state_dict(None)


def test_accuracy_wants_one_label_for_each_row():
    with pytest.raises(ValueError, match=r"logits \(4, 3\) and labels \(1,\)"):
        mg.nn.accuracy(mg.ones(4, 3), [0])
    with pytest.raises(ValueError, match=r"accuracy: label 5 in row 1 is not a class; 2 classes are 0 to 1"):
        mg.nn.accuracy(mg.ones(2, 2), [0, 5])
    with pytest.raises(ValueError, match="the logits of 1 rows hold NaN, row 1 first"):
        mg.nn.accuracy(mg.tensor([[1.0, 0.0], [float("nan"), 1.0]]), [0, 0])


def test_a_model_can_be_copied_and_pickled(device):
    model = mg.nn.Sequential(mg.nn.Linear(2, 1, device=device), mg.relu)
    for other in (copy.deepcopy(model.parts[0]), pickle.loads(pickle.dumps(model.parts[0]))):
        assert other.weight.requires_grad and other.weight.device == device
        with mg.no_grad():
            other.weight.assign(np.zeros((2, 1), "float32"))
        assert model.parts[0].weight.numpy().any(), "the copy has memory of its own"
    with pytest.raises(RuntimeError, match=r"was computed, and a tape is not copied. Use \.detach\(\)"):
        copy.deepcopy(model(mg.ones(1, 2, device=device)))


def test_numpy_scalars_are_numbers(kernel_device):
    assert (mg.ones(2, device=kernel_device) + np.float64(1)).numpy().tolist() == [2, 2]


def test_sizes_of_a_launch_are_whole_numbers():
    for wrong in (-1, 1.5, "a"):
        with pytest.raises(ValueError, match="must be a whole number of at least 0"):
            mg.matmul["tiled"].launch(wrong, 2, 3)
    with pytest.raises(ValueError, match=r"grid=1\.5 must be"):
        mg.relu["forward"](grid=1.5, block=16)


def host_batches(count):
    rng = np.random.default_rng(1)
    return [
        (rng.standard_normal((8 if i < count - 1 else 3, 4)).astype(np.float32), np.arange(8)) for i in range(count)
    ]


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_prefetched_batches_are_the_batches(device, count):
    given = host_batches(count)
    got = list(mg.data.prefetch(given, device))
    assert len(got) == count
    for (x, y), (x_host, y_host) in zip(got, given, strict=True):
        assert x.device == device and np.array_equal(x.numpy(), x_host) and np.array_equal(y.numpy(), y_host)


def test_the_next_batch_travels_while_the_step_runs(gpu, monkeypatch):
    monkeypatch.setattr(mg.data, "check", lambda name: name)
    monkeypatch.setattr(mg.data, "get", lambda name: gpu)
    given = host_batches(6)
    total, w = 0.0, mg.Tensor(Array.upload(gpu, np.ones((4, 1), np.float32)))
    for i, (x, _) in enumerate(mg.data.prefetch(given, "cuda")):
        assert len(gpu.sender._stream.waiting) == 0  # every copy has its event
        total += (x @ w).sum().item()
        if i == 4:
            break  # the copy that is on its way ends before its memory is used again
    assert np.isclose(total, sum(x.sum() for x, _ in given[:5]), atol=1e-4)
    assert all(not piece.sent.todo for pieces in gpu.sender._locked.values() for piece in pieces)


def test_an_optimizer_that_is_not_made_yet_has_no_settings():
    assert not hasattr(mg.optim.SGD.__new__(mg.optim.SGD), "lr")


@pytest.mark.parametrize("count", [2, 4])
def test_a_step_that_is_captured_takes_no_batch_itself(gpu, driver, monkeypatch, count):
    monkeypatch.setattr(mg.data, "check", lambda name: name)
    monkeypatch.setattr(mg.data, "get", lambda name: gpu)
    batches = mg.data.prefetch(((np.full((2, 2), i, np.float32),) for i in range(count)), "cuda")
    fast, x = mg.graph(lambda x: x + next(batches)[0]), mg.Tensor(Array.upload(gpu, np.ones((2, 2), np.float32)))
    assert fast(x).numpy().tolist() == [[1, 1], [1, 1]]  # it runs, with the first of them
    with pytest.raises(RuntimeError, match=r"the step (takes|sends) a batch while it is captured.*before the step\."):
        fast(x)
    assert driver.noted is None and (x + x).numpy().tolist() == [[2, 2], [2, 2]]
    assert all(not piece.sent.todo for pieces in gpu.sender._locked.values() for piece in pieces)


def test_memory_for_batches_of_ever_new_shapes_is_bounded(gpu):
    for n in range(1, 100):
        array, sent = gpu.sender.send(np.full(n, n, np.float32))
        gpu.sender.arrive([sent])
        assert array.numpy().tolist() == [n] * n
    assert len(gpu.sender._locked) == 16


def test_memory_for_batches_that_are_still_sent_is_kept(gpu, driver):
    taken = []
    driver.pagelocked_empty = lambda shape, dtype: taken.append(shape) or np.empty(shape, dtype)
    for n in range(100, 130):
        for size in (7, n):
            _, sent = gpu.sender.send(np.ones(size, np.float32))
            gpu.sender.arrive([sent])
    assert taken.count((7,)) == 2 and len(gpu.sender._locked) == 16


@pytest.mark.parametrize("fails", ["converts", "sends"])
def test_a_batch_of_which_a_part_is_refused_is_not_let_go_of_in_flight(gpu, driver, monkeypatch, fails):
    monkeypatch.setattr(mg.data, "check", lambda name: name)
    monkeypatch.setattr(mg.data, "get", lambda name: gpu)
    good = np.ones((512, 512), np.float32)
    batches = [(good,), (good, "words" if fails == "converts" else np.ones((1024, 1024), np.float32))]
    if fails == "sends":
        plain = driver.mem_alloc
        driver.mem_alloc = lambda n: plain(n) if n < 4 << 20 else (_ for _ in ()).throw(driver.MemoryError("full"))
        driver.mem_get_info = lambda: (0, 0)
    with pytest.raises((TypeError, MemoryError)):
        list(mg.data.prefetch(batches, "cuda"))
    pieces = [piece for kept in gpu.sender._locked.values() for piece in kept]
    assert pieces and all(not piece.sent.todo for piece in pieces)


@pytest.mark.gpu
def test_the_copy_of_a_batch_ends_while_a_step_runs(monkeypatch):
    gpu = get("cuda")
    spin, ended = Kernel(Source(SPIN, "spin.cu", CUDA), "spin"), Array.zeros(gpu, (1,), np.dtype(np.int64))
    copies, steps, send = [], [], gpu.sender.send

    def watched(host):
        array, sent = send(host)
        copies.append(sent)
        return array, sent

    monkeypatch.setattr(gpu.sender, "send", watched)
    given = [(np.full((1024, 1024), i, np.float32),) for i in range(6)]
    for i, (x,) in enumerate(mg.data.prefetch(given, "cuda")):
        start = gpu.mark()
        spin(ended, int(1e8), grid=1, block=1)  # a step of 100 ms, for a GPU that others use at the same time
        assert x[0, 0].shape == ()
        steps.append((start, gpu.mark()))
        total = x.sum().item() if i == len(given) - 1 else None
    assert total == 5 * 1024 * 1024
    for sent, (start, stop) in list(zip(copies[2:], steps[1:], strict=False))[2:]:
        assert gpu.between(start, sent) > 0 and gpu.between(sent, stop) > 0


@pytest.mark.parametrize(
    ("make", "name", "value", "message"),
    [
        (mg.optim.SGD, "lr", np.array([0.1, 0.2]), r"SGD: lr=array\(\[0.1, 0.2\]\) must be a number of at least 0"),
        (mg.optim.SGD, "lr", np.nan, "SGD: lr=nan must be a number of at least 0"),
        (mg.optim.SGD, "momentum", "0.9", "SGD: momentum='0.9' must be a number"),
        (mg.optim.Adam, "eps", -1e-8, "Adam: eps=-1e-08 must be a number of at least 0"),
        (mg.optim.Adam, "betas", (0.9, 1.0), r"Adam: betas\[1\]=1.0 must be a number from 0 to below 1"),
        (mg.optim.Adam, "betas", (0.9,), r"Adam: betas=\(0.9,\) must be two numbers"),
    ],
)
def test_a_number_of_an_optimizer_that_is_set_later_is_checked_as_well(device, make, name, value, message):
    w = mg.ones(2, requires_grad=True, device=device)
    optimizer = make([w], lr=0.5)
    before = optimizer.settings
    with pytest.raises((TypeError, ValueError), match=message):
        setattr(optimizer, name, value)
    assert optimizer.settings == before
    optimizer.lr = np.float32(0.25)
    w.grad = mg.ones(2, device=device)
    optimizer.step()
    assert type(optimizer.lr) is float and w.numpy().tolist() == pytest.approx([0.75, 0.75])


@pytest.mark.parametrize("batch", [np.ones((2, 3)), mg.ones(2, 3, device="numpy"), "ab", 3, {"x": np.ones(2)}])
def test_a_batch_that_is_prefetched_is_a_tuple(batch):
    with pytest.raises(
        TypeError, match=r"prefetch takes batches that are tuples of arrays, of a single array \(x,\); got"
    ):
        list(mg.data.prefetch([batch], "numpy"))
    with pytest.raises(TypeError, match=r"prefetch takes batches, e\.g\. data\.batches"):
        mg.data.prefetch(3, "numpy")


def test_more_digits_than_there_are_are_refused():
    pytest.importorskip("sklearn")
    with pytest.raises(ValueError, match="digits: test=5000 must be at most 1797"):
        mg.data.digits(test=5000)
