"""Mixed precision: products in bfloat16, of parameters, gradients, statistics and losses in float32."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.rounding import autocast

BFLOAT16 = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
FLOAT32 = np.dtype(np.float32)


def network(device):
    """ResNet-8: four convolutions of 3 x 3, with batch norm, in two residual blocks, and a linear layer."""
    mg.manual_seed(0)
    return nn.ResNet(10, "small", 1, (8, 16), 1, device=device)


def batch(device, start=0):
    images, labels = mg.data.digits().train
    rows = slice(start, start + 32)
    return mg.tensor(images[rows].reshape(-1, 1, 8, 8), device=device), mg.tensor(labels[rows], device=device)


def train(device, steps, dtype):
    net = network(device)
    optimizer, losses = mg.optim.SGD(net.parameters(), lr=0.05, momentum=0.9), []
    for step in range(steps):
        x, labels = batch(device, 32 * step)
        optimizer.zero_grad()
        with mg.autocast(dtype):
            loss = mg.cross_entropy(net(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, net, optimizer


def test_it_learns_as_in_float32():
    (exact, *_), (losses, net, optimizer) = (train("numpy", 12, dtype) for dtype in ("float32", "bfloat16"))
    np.testing.assert_allclose(losses, exact, rtol=0.005)
    assert losses[-1] < 0.9 * losses[0] and losses != exact
    states = [x for name, x in net.state_dict().items() if "num_batches" not in name]
    states += [x for name, x in optimizer.state_dict().items() if name.endswith(".v")]
    assert {x.dtype for x in (*states, *(p.grad.numpy() for p in net.parameters()))} == {FLOAT32}
    with mg.autocast():
        logits = net.eval()(batch("numpy")[0])
    assert logits.dtype == BFLOAT16


def test_kernels_learn_as_numpy(kernel_device):
    (wanted, truth, _), (losses, net, _) = (train(name, 3, "bfloat16") for name in ("numpy", kernel_device))
    np.testing.assert_allclose(losses, wanted, rtol=0.002)
    for name, value in net.state_dict().items():
        np.testing.assert_allclose(value, truth.state_dict()[name], rtol=0.02, atol=0.002, err_msg=name)


def test_every_op_gets_the_dtype_that_it_is_made_in(device):
    w, x = (mg.tensor(np.float32([[1, 2], [3, 1 / 3]]), need, device) for need in (True, False))
    with mg.autocast("bfloat16"):
        y = x @ w
        assert y.dtype == y.relu().dtype == (y + y).dtype == (y * 2).dtype == y.mean().dtype == BFLOAT16
        assert {z.dtype for z in (y.exp(), y.sum(), mg.softmax(y), y**2, y + x, mg.where(y > x, y, x))} == {FLOAT32}
        assert mg.conv2d(x.reshape(1, 1, 2, 2), w.reshape(1, 1, 2, 2), bias=mg.ones(1, device=device)).dtype == BFLOAT16
        assert mg.concatenate([x, y]).dtype == FLOAT32 and mg.concatenate([y, y]).dtype == BFLOAT16
        assert (x + x).dtype == FLOAT32 and (x @ w.astype("float32")).dtype == BFLOAT16
        wide = x.astype("float64")
        assert (wide @ wide).dtype == np.float64
        with mg.autocast("float32"):
            assert (x @ w).dtype == FLOAT32
        assert (x @ w).dtype == BFLOAT16
    assert (x @ w).dtype == FLOAT32 and autocast.current() is None
    y.backward(mg.ones(2, 2, device=device).astype("bfloat16"))
    third = 2 + float(np.float32(1 / 3).astype(BFLOAT16))  # tensor cores do not round it again, NumPy does
    third = 2.328125 if device == "numpy" else third
    assert w.grad.dtype == FLOAT32 and w.grad.numpy().tolist() == [[4, 4], [third, third]]


def test_a_parameter_is_rounded_once_until_it_changes(monkeypatch):
    rounded = []
    astype = mg.Tensor.astype
    monkeypatch.setattr(mg.Tensor, "astype", lambda x, dtype: (rounded.append(x), astype(x, dtype))[1])
    w, x = (mg.tensor(np.eye(2, dtype=np.float32), need, "numpy") for need in (True, False))

    def times():
        """How often the parameter has been rounded since the last time."""
        count = sum(each is w for each in rounded)
        rounded.clear()
        return count

    with mg.autocast():
        y = (x @ w) @ w
        assert times() == 1
        y.backward(mg.ones(2, 2, device="numpy").astype("bfloat16"))
        assert w.grad.numpy().tolist() == [[2, 2], [2, 2]]
        x @ w  # the tape behind the first copy is gone
        assert times() == 1
        with mg.no_grad():
            assert not (x @ w).requires_grad and not (x @ w).requires_grad
            assert times() == 1
            w -= 0.5
        assert (x @ w).numpy().tolist() == [[0.5, -0.5], [-0.5, 0.5]] and times() == 1
        w.requires_grad = False
        assert not (x @ w).requires_grad
    times()
    with mg.autocast():
        x @ x, x @ x
        assert times() == 0 and len(rounded) == 0  # `times` has cleared the list
        x @ w
    with mg.autocast():
        x @ w
    assert times() == 2


def test_names_that_are_none():
    for name in ("float16", "bf16", None, np.float32):
        with pytest.raises(ValueError, match="is not one of bfloat16, float32"), mg.autocast(name):
            pass


@pytest.mark.gpu
def test_a_captured_step_rounds_the_new_parameters():
    losses = []
    for capture in (False, True):
        net = network("cuda")
        optimizer = mg.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

        def step(x, labels, net=net, optimizer=optimizer):
            optimizer.zero_grad()
            with mg.autocast("bfloat16"):
                loss = mg.cross_entropy(net(x), labels)
            loss.backward()
            optimizer.step()
            return loss

        run = mg.graph(step) if capture else step
        losses.append([run(*batch("cuda", 32 * i)).item() for i in range(8)])
        assert {p.grad.dtype for p in net.parameters()} == {FLOAT32}
    assert losses[0] == losses[1] and run.replays == 7


@pytest.mark.gpu
def test_a_graph_is_captured_for_each_dtype():
    w, x = mg.ones(64, 64, device="cuda", requires_grad=True), mg.ones(64, 64, device="cuda")
    run = mg.graph(lambda x: x @ w)
    for dtype in ("float32", "bfloat16") * 3:
        with mg.autocast(dtype):
            assert run(x).dtype.name == dtype
    with mg.no_grad():
        w += 1
    with mg.autocast():
        assert run(x).numpy().max() == 128
