"""An op from its second call on, on a device that replays launches: here a `sim` that does."""

import gc
from itertools import product

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.array import Array
from minigrad.devices.dtypes import is_last
from minigrad.op import OPS
from minigrad.optim import SGD_STEP
from minigrad.replay.launches import Program, Unrecordable


@pytest.fixture
def device(repeating):
    """The device with replayed launches, under the name that tests of every device use."""
    return repeating


def tensors(device, hosts):
    """The same values where launches are repeated, and on `numpy`."""
    floats = [x.dtype.kind == "f" for x in hosts]
    return (
        [mg.Tensor(Array.upload(device, x, is_last(x)), wanted) for x, wanted in zip(hosts, floats, strict=True)],
        [mg.Tensor(x, wanted) for x, wanted in zip(hosts, floats, strict=True)],
    )


def close(ours, truth):
    np.testing.assert_allclose(ours.numpy(), truth.numpy(), rtol=2e-5, atol=2e-5)


@pytest.mark.sample(3)
@pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))
def test_every_op_repeated_is_as_the_reference(device, op):
    for case, seed in product(op.cases, range(2)):
        hosts = case.arrays("float32", seed)
        ours, truth = tensors(device, hosts)
        y, expected = op(*ours, **case.params), op(*truth, **case.params)
        close(y, expected)
        if y.requires_grad:
            dy = case.laid_out(np.random.default_rng(seed).standard_normal(y.shape).astype(np.float32))
            y.backward(mg.Tensor(Array.upload(device, dy, is_last(dy))))
            expected.backward(mg.Tensor(dy))
            for x, x_truth in zip(ours, truth, strict=True):
                if x.requires_grad:
                    close(x.grad, x_truth.grad)


def test_the_second_call_prepares_nothing(device):
    def call():
        ours, _ = tensors(device, [np.ones((3, 4), np.float32), np.ones(4, np.float32)])
        (ours[0] * ours[1]).sum().backward()

    call()
    prepared, repeated, single = device.prepared, device.repeated, device.single
    call()
    assert (device.prepared, device.single) == (prepared, single) == (prepared, 0)
    assert device.repeated == 2 * repeated


def test_a_fused_function_is_repeated(device):
    fused = mg.fuse(lambda x, w: (x.tanh() * w).mean(axis=-1))
    counts = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        ours, truth = tensors(device, [rng.standard_normal(shape).astype(np.float32) for shape in ((3, 40), (40,))])
        y, expected = fused(*ours), fused(*truth)
        close(y, expected)
        y.sum().backward()
        expected.sum().backward()
        for x, x_truth in zip(ours, truth, strict=True):
            close(x.grad, x_truth.grad)
        counts.append((device.prepared, device.single))
    assert counts[0] == counts[1] == counts[2] and counts[0][1] == 0


def test_the_same_tensor_twice_is_no_rule_for_two(device):
    (a, b), _ = tensors(device, [np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)])
    (a * a).sum().backward()
    assert a.grad.numpy().tolist() == [2, 4, 6]
    a.grad = None
    (a * b).sum().backward()
    assert (a.grad.numpy().tolist(), b.grad.numpy().tolist()) == ([4, 5, 6], [1, 2, 3])


def test_only_wanted_gradients_are_made(device):
    hosts = [np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)]
    for wanted in (0, 1):
        ours, _ = tensors(device, hosts)
        ours[1 - wanted].requires_grad = False
        (ours[0] @ ours[1]).sum().backward()
        assert ours[wanted].grad is not None and ours[1 - wanted].grad is None


def test_a_call_that_is_refused_is_refused_every_time(device):
    (a, b), _ = tensors(device, [np.ones(3, np.float32), np.ones(4, np.float32)])
    for _ in range(2):
        with pytest.raises(ValueError, match="do not broadcast"):
            a + b
        with pytest.raises(TypeError, match="axis=True"):
            mg.sum(a, axis=True)
        assert mg.sum(a, axis=0).item() == 3
    with pytest.raises(TypeError, match="takes"):
        mg.add(a, a, a)


def test_other_kernels_are_planned_anew(device):
    (a, b), _ = tensors(device, [np.ones((5, 5), np.float32)] * 2)
    assert (a @ b).numpy()[0, 0] == 5
    prepared = device.prepared
    mg.matmul.using("naive")(a, b)
    assert device.prepared == prepared + 1
    mg.matmul["tiled"].prefer((5, 5, 5, 1), {"TILE": 4})
    try:
        a @ b
        assert device.prepared == prepared + 2
    finally:
        mg.matmul["tiled"].forget()


def test_a_write_in_place_is_noticed(device):
    (a, b), _ = tensors(device, [np.ones(3, np.float32)] * 2)
    for _ in range(2):
        y = (a * b).sum()
        with mg.no_grad():
            b.assign(b + 1)
        with pytest.raises(RuntimeError, match="multiply kept b at version"):
            y.backward()


def test_a_function_that_looks_at_data_is_not_planned(device):
    x = Array.upload(device, np.ones(3, np.float32))
    with pytest.raises(Unrecordable):
        Program(lambda xs: [xs[0].numpy() and xs[0]], [x.spec])
    with pytest.raises(Unrecordable):
        Program(lambda xs: [Array.upload(xs[0].device, np.ones(3))], [x.spec])


@pytest.mark.parametrize("offset", [4, 8, 16])
def test_a_function_that_returns_a_part_is_not_planned(device, offset):
    x = Array.upload(device, np.arange(8, dtype=np.float32))
    made = Array.empty(device, (8,), np.dtype(np.float32))

    def part(of):
        return Array(of.device, (2,), of.dtype, of.buffer, of.address + offset)

    for function in (lambda xs: [part(xs[0])], lambda xs: [part(Array.empty(xs[0].device, xs[0].shape, xs[0].dtype))]):
        with pytest.raises(Unrecordable):
            Program(function, [x.spec])
    assert Program(lambda xs: [xs[0].reshape((2, 4))], [part(made).spec])([part(x)])[0].address == x.address + offset


def test_arrays_that_start_elsewhere_are_of_another_spec(device):
    whole = Array.upload(device, np.zeros((4, 2), np.float32))
    assert whole.rows(2, 2).spec is Array.upload(device, np.zeros((2, 2), np.float32)).spec
    assert whole.rows(1, 2).spec is not whole.rows(2, 2).spec


def test_a_plan_reads_arrays_where_they_begin(device):
    host = np.arange(13, dtype=np.float32)
    whole = Array.upload(device, host)
    x, y = (Array(device, (2, 3), whole.dtype, whole.buffer, whole.address + 4 * skipped) for skipped in (1, 6))
    second = Program(lambda xs: [OPS["matmul"].run([xs[0], xs[1].rows(1, 1).reshape((3,))], {})], [x.spec, y.spec])
    for _ in range(2):
        assert second([x, y])[0].numpy().tolist() == (host[1:7].reshape(2, 3) @ host[9:12]).tolist()
    assert device.repeated == 2


def test_a_planned_op_names_itself_for_a_number_that_does_not_fit(device):
    x = mg.Tensor(Array.upload(device, np.ones(1, np.float32)))
    for _ in range(2):
        assert (x + 1).item() == 2
        with pytest.raises(ValueError, match=r"add: 10+ does not fit into float32"):
            x + 10**400


class Scaled(mg.optim.SGD):
    """An optimizer with a setting of its own, which the base class does not know."""

    def __init__(self, parameters, scale):
        super().__init__(parameters, lr=1.0)
        self.scale = scale

    def _update(self, p, g, v):
        super()._update(p, g, v) if isinstance(p, np.ndarray) else SGD_STEP.launch(p.size)(
            p, g, v, self.lr * self.scale, self.momentum, p.size
        )


def test_a_number_that_a_users_optimizer_has_is_its_own(device):
    (w,), _ = tensors(device, [np.zeros(3, np.float32)])
    w.grad = mg.Tensor(Array.upload(device, np.ones(3, np.float32)))
    one, two = Scaled([w], 1.0), Scaled([w], 10.0)
    for optimizer in (one, two, one):
        optimizer.step()
    assert w.numpy().tolist() == [-12.0] * 3
    two.scale = 100.0
    two.step()
    assert w.numpy().tolist() == [-112.0] * 3
    two.seen = []  # is no key of a dict, so nothing is planned
    two.scale = 1000.0
    two.step()
    assert w.numpy().tolist() == [-1112.0] * 3


def placed(op):
    """The cases with all parameters in their order."""
    return [case for case in op.cases if case.params and list(case.params) == op.inputs.params]


@pytest.mark.parametrize("op", list(filter(placed, OPS.values())), ids=lambda op: op.name)
def test_parameters_by_their_place(device, op):
    for case, _ in product(placed(op), range(3)):
        given, truth = tensors(device, case.arrays("float32"))
        ours, wanted = ([given], [truth]) if op.inputs.variadic else (given, truth)
        np.testing.assert_allclose(
            op(*ours, *case.params.values()).numpy(), op(*wanted, **case.params).numpy(), rtol=1e-5, atol=1e-5
        )


def test_another_parameter_by_its_place(device):
    x = mg.Tensor(Array.upload(device, np.arange(6, dtype=np.float32).reshape(2, 3)))
    for axis in (0, 1, 0, 1):
        np.testing.assert_array_equal(mg.sum(x, axis).numpy(), x.numpy().sum(axis))


def test_an_op_that_waits_for_its_kernel_is_run_each_time(device):
    """Such is an op with a kernel of the reader's, so that a fault names that kernel."""
    copied = mg.add.using()
    for name in ("forward", "vectorized"):
        kernel = copied.kernels[name].using()
        kernel.waits = True
        copied = copied.with_kernels({**copied.kernels, name: kernel})
    (x, y), (a, b) = tensors(device, [np.ones(5, np.float32), np.arange(5, dtype=np.float32)])
    for _ in range(3):
        close(copied(x, y), a + b)
    assert not device.repeated


def test_a_planned_product_is_that_of_its_precision(device):
    (a, b), hosts = tensors(device, [np.random.default_rng(0).standard_normal((9, 9)).astype(np.float32)] * 2)
    for name in ("float32", "bf16", "tf32", "bf16", "float32"):
        with mg.precision(name):
            found, wanted = a @ b, hosts[0] @ hosts[1]
        close(found, wanted)
        close(mg.matmul(a, b, precision=name), wanted)
        assert np.array_equal(wanted.numpy(), (hosts[0] @ hosts[1]).numpy()) == (name == "float32")
    assert device.repeated


class Peeking(mg.optim.Optimizer):
    """An update that reads values, so that its launches alone are not what it does."""

    states = ()

    def _start(self, p):
        return []

    def _update(self, p, g):
        p.copy_from(Array.upload(p.device, p.numpy() - self.lr * g.numpy()))


def test_an_update_that_cannot_be_recorded_is_that_of_its_own_optimizer(device):
    (a, b), _ = tensors(device, [np.zeros(1, np.float32), np.zeros(1, np.float32)])
    one, other = Peeking([a], 1.0), Peeking([b], 1.0)
    a.grad, b.grad = (mg.Tensor(Array.upload(device, np.ones(1, np.float32))) for _ in range(2))
    one.step()
    one.lr = 100.0
    other.step()
    assert (a.item(), b.item()) == (-1, -1)


def test_other_tunables_reach_every_prepared_call(device):
    (x, y), _ = tensors(device, [np.ones(64, np.float32), np.ones(64, np.float32)])
    copied = mg.add.with_kernels(mg.add.kernels)
    kernel = copied.running["forward"]
    copied(x, y), copied(x, y)
    before = device.prepared
    kernel.prefer((64,), {"BLOCK": 64})
    try:
        copied(x, y)
        assert device.prepared == before + 1
    finally:
        kernel.forget()


def test_the_precision_is_part_of_the_key_of_a_call(device):
    host = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    (a, b), _ = tensors(device, [host, host])
    exact = mg.matmul(a, b, precision=None).numpy()
    with mg.precision("bf16"):
        assert abs(mg.matmul(a, b, precision=None).numpy() - exact).max() > 1e-4
        assert abs(mg.matmul(a, b).numpy() - exact).max() > 1e-4
        assert (mg.matmul(a, b, "float32").numpy() == exact).all()
    assert (mg.matmul(a, b).numpy() == exact).all()


def test_recorded_ops_leave_no_reference_cycles():
    x = mg.ones(3, requires_grad=True, device="numpy")
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(20):
            ((x * 2).tanh() + x).sum().backward()
        assert len(gc.get_objects()) < before + 200
    finally:
        gc.enable()
