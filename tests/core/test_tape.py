"""The tape behaves as a PyTorch user expects."""

import gc
import operator
import threading
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad import tape


def leaf(*values, device="numpy"):
    return mg.tensor(np.array(values), requires_grad=True, device=device)


# --- gradients ---


def test_gradients_accumulate(device):
    x = leaf(1.0, 2.0, device=device)
    (x * x).sum().backward()
    (x * 3.0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [5, 7])


def test_a_leaf_has_its_gradient_as_soon_as_its_last_consumer_has_been_computed(monkeypatch):
    first, shared, last, order = leaf(2.0), leaf(3.0), leaf(5.0), []
    names = {id(first): "first", id(shared): "shared", id(last): "last"}

    def rule(dy):
        order.append("a rule in the middle")
        return (dy,)

    middle = mg.Tensor((first * shared).array)
    middle.record("middle", (first * shared,), rule, ())
    monkeypatch.setattr(tape, "FOLLOWERS", [lambda: lambda at: order.append(names.get(id(at), "the end"))])
    (last * (shared * middle) * last).sum().backward()
    assert order == ["last", "a rule in the middle", *sorted(order[2:4]), "the end"]
    assert [x.grad.item() for x in (first, shared, last)] == [225, 300, 180]


def test_a_tensor_used_twice_gets_both_parts(device):
    x = leaf(2.0, 3.0, device=device)
    y = x * x
    (y * y + y).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 4 * x.numpy() ** 3 + 2 * x.numpy())


@pytest.mark.parametrize(
    "shapes", [((), (3, 4)), ((4,), (3, 4)), ((3, 1), (1, 4)), ((1, 1), (3, 4)), ((2, 1, 4), (3, 1))]
)
def test_gradients_of_what_was_broadcast_are_summed(shapes, device):
    a, b = (mg.ones(shape, dtype="float64", device=device, requires_grad=True) for shape in shapes)
    y = a + b
    dy = np.arange(float(y.size)).reshape(y.shape)
    y.backward(mg.tensor(dy, device=device))
    for x in (a, b):
        extra = y.ndim - x.ndim
        axes = tuple(i for i in range(y.ndim) if i < extra or x.shape[i - extra] != y.shape[i])
        np.testing.assert_array_equal(x.grad.numpy(), dy.sum(axis=axes, keepdims=True).reshape(x.shape))


def test_each_leaf_gets_memory_of_its_own(device):
    a, b = leaf(1.0, 2.0, device=device), leaf(3.0, 4.0, device=device)
    seed = mg.ones(2, dtype="float64", device=device)
    (a + b).backward(seed)
    a.grad += 1.0
    np.testing.assert_array_equal(b.grad.numpy(), [1, 1])
    np.testing.assert_array_equal(seed.numpy(), [1, 1])


def test_parts_of_one_gradient_get_memory_of_their_own(device):
    a, b, seed = leaf(1.0, device=device), leaf(2.0, 3.0, device=device), mg.ones(3, dtype="float64", device=device)
    mg.concatenate([a, b]).backward(seed)
    b.grad += 1.0
    np.testing.assert_array_equal(seed.numpy(), [1, 1, 1])


def test_a_leaf_is_its_own_gradient_seed():
    x = leaf(2.0)
    x.backward()
    assert x.grad.item() == 1


def test_only_a_scalar_starts_by_itself(device):
    x = leaf(1.0, 2.0, device=device)
    with pytest.raises(RuntimeError, match=r"shape \(2,\), and only a scalar starts by itself"):
        (x * x).backward()
    with pytest.raises(ValueError, match=r"grad is float64 \(3,\) on .*; it must be float64 \(2,\)"):
        (x * x).backward(mg.ones(3, dtype="float64", device=device))
    (x * x).backward(mg.tensor(np.array([1.0, 10.0]), device=device))
    np.testing.assert_array_equal(x.grad.numpy(), [2, 40])


def test_a_graph_of_fifty_thousand_nodes():
    x = leaf(0.0)
    y = x
    for _ in range(50_000):
        y = -y
    y.backward()
    assert x.grad.item() == 1
    del y


def test_a_gradient_that_is_set_must_fit(kernel_device):
    x = mg.ones(2, requires_grad=True, device=kernel_device)
    for wrong in (
        mg.ones(3, device=kernel_device),
        mg.ones(2, dtype="float64", device=kernel_device),
        mg.ones(2, device="numpy"),
    ):
        with pytest.raises(ValueError, match=r"grad is .*; it must be float32 \(2,\) on"):
            x.grad = wrong
    with pytest.raises(TypeError, match=r"grad takes a tensor or None; got float 1\.0"):
        x.grad = 1.0
    x.grad = mg.ones(2, device=kernel_device)
    x.grad = None
    assert x.grad is None


def test_a_gradient_follows_a_leaf_that_has_moved(kernel_device):
    layer = mg.nn.Linear(2, 1, device="numpy")
    loss = layer(mg.ones(3, 2, device="numpy")).sum()
    layer.to(kernel_device)
    loss.backward()
    assert {p.grad.device for p in layer.parameters()} == {kernel_device}
    np.testing.assert_array_equal(layer.weight.grad.numpy(), [[3], [3]])


# --- what is recorded ---


def test_no_grad_records_nothing():
    x = leaf(1.0)
    with mg.no_grad():
        y = x * 2.0
    assert not y.requires_grad and y.is_leaf
    with pytest.raises(RuntimeError, match="nothing here requires a gradient"):
        y.backward()


def test_no_grad_belongs_to_a_thread_and_ends_with_an_error():
    seen = []
    with pytest.raises(ZeroDivisionError), mg.no_grad():
        thread = threading.Thread(target=lambda: seen.append((leaf(1.0) * 2.0).requires_grad))
        thread.start()
        thread.join()
        raise ZeroDivisionError
    assert seen == [True] and (leaf(1.0) * 2.0).requires_grad


@mg.no_grad()
def test_no_grad_is_a_decorator_too():
    assert not (leaf(1.0) * 2.0).requires_grad


def test_detach_cuts_the_tape_and_shares_memory(device):
    x = leaf(1.0, 2.0, device=device)
    y = x.detach()
    (x * y).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 2])
    y += 1.0
    np.testing.assert_array_equal(x.numpy(), [2, 3])


def test_reshape_shares_memory(device):
    x = mg.tensor([[1.0, 2.0]], device=device)
    y = x.reshape(2)
    y += 1.0
    np.testing.assert_array_equal(x.numpy(), [[2, 3]])


def test_requires_grad_is_for_leaves_of_floats():
    with pytest.raises(TypeError, match="only tensors of floats"):
        mg.tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError, match="leaves only"):
        (leaf(1.0) * 2.0).requires_grad = False


# --- the life of a graph ---


def test_a_graph_is_freed_by_backward():
    x = leaf(1.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(
        RuntimeError, match=r"the tape behind .* was freed by an earlier backward. Write backward\(retain"
    ):
        y.backward()


def test_retain_graph_keeps_it():
    x = leaf(3.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 12


def test_memory_is_freed_without_the_collector(device):
    gc.disable()
    try:
        x = leaf(1.0, 2.0, device=device)
        hidden = x.exp()
        y = (hidden * hidden).sum()
        watched = [weakref.ref(t.array) for t in (hidden, y)] + [weakref.ref(y.node)]
        del hidden, y
        assert [ref() for ref in watched] == [None] * 3
        y = (x.exp() * x).sum()
        y.backward()
        node = weakref.ref(y.node)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_what_no_rule_wants_is_freed_in_the_forward_pass():
    hidden = leaf(1.0, 2.0) * 3.0
    array = weakref.ref(hidden.array)
    y = hidden + 1.0
    del hidden
    assert array() is None and y.requires_grad


@pytest.mark.parametrize("name", ["matmul", "multiply", "divide"])
def test_what_no_wanted_gradient_uses_is_not_kept(name, device):
    data, weight = mg.ones(2, 2, device=device), mg.ones(2, 2, requires_grad=True, device=device)
    hidden, scale = weight * 2.0, mg.ones(2, 2, device=device)
    array = weakref.ref(hidden.array)
    y = mg.OPS[name](hidden, scale).sum()
    del hidden
    assert array() is None, "its gradient uses the other input only"
    y.backward()
    if name != "divide":  # d(a / b)/db is made of both
        z = mg.OPS[name](data, weight).sum()
        with mg.no_grad():
            weight *= 3.0
        z.backward()
    np.testing.assert_array_equal(data.numpy(), np.ones((2, 2)))


# --- changing in place ---


def test_a_kept_array_changed_before_backward(device):
    x, w = leaf(1.0, 2.0, device=device), mg.tensor(np.array([3.0, 4.0]), device=device)
    y = (x * w).sum()
    w += 1.0
    with pytest.raises(RuntimeError, match="multiply kept b at version 0, and it has been changed in place since"):
        y.backward()


def test_a_kept_output_changed_before_backward(device):
    y = leaf(1.0, device=device).exp()
    z = y.sum()
    with mg.no_grad():
        y += 1.0
    with pytest.raises(RuntimeError, match="exp kept y"):
        z.backward()


def test_a_change_through_shared_memory_counts(device):
    x = leaf(1.0, 2.0, device=device)
    y = (x * x).sum()
    other = x.detach().reshape(2, 1)
    other += 1.0
    with pytest.raises(RuntimeError, match="multiply kept a"):
        y.backward()


def test_what_no_rule_kept_may_change(device):
    x, w = leaf(1.0, 2.0, device=device), mg.tensor(np.array([3.0, 4.0]), device=device)
    y = (x + w).sum()
    w += 1.0
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 1])


def test_a_refused_backward_has_changed_nothing(device):
    x, w, c = leaf(1.0, device=device), leaf(2.0, device=device), mg.tensor(np.array([3.0]), device=device)
    used = w.exp()
    used.sum().backward()
    y = (x + w * c).sum()
    c += 1.0
    for loss, message in ((y, "multiply kept b at version 0"), ((x + used).sum(), "the tape behind exp was freed")):
        w.grad = None
        for _ in range(2):
            with pytest.raises(RuntimeError, match=message):
                loss.backward()
        assert x.grad is None and w.grad is None


def test_nothing_that_needs_a_gradient_goes_in_place_into_what_needs_none(device):
    w, total = leaf(2.0, device=device), mg.tensor(np.array([0.0]), device=device)
    for in_place in (operator.iadd, operator.isub, operator.imul, operator.itruediv):
        with pytest.raises(RuntimeError, match=r"would lose a gradient.* Write a = a \+ b instead of a \+= b"):
            in_place(total, w * 3.0)
    with pytest.raises(RuntimeError, match="assign would lose a gradient"):
        total.assign(w)
    (total * w).sum().backward()  # nothing was written: the refused ones count as no change
    assert w.grad.item() == 0
    total += (w * 3.0).detach()
    with mg.no_grad():
        total += w
    assert total.item() == 8


def test_parameters_change_under_no_grad_only(device):
    x = leaf(1.0, 2.0, device=device)
    array = x.array
    with pytest.raises(RuntimeError, match=r"with mg\.no_grad"):
        x -= 1.0
    with mg.no_grad():
        x -= 1.0
    assert x.array is array and x.is_leaf and x.requires_grad
    np.testing.assert_array_equal(x.numpy(), [0, 1])


def test_only_what_fits_goes_in_place(device):
    x = mg.ones(2, device=device)
    with pytest.raises(ValueError, match=r"assigned is float32 \(3, 2\) on .*; it must be float32 \(2,\)"):
        x += mg.ones(3, 1, device=device)


def test_numpy_functions_that_would_lose_a_gradient_say_so(device):
    w = mg.tensor([3.0, 4.0], requires_grad=True, device=device)
    with pytest.raises(TypeError, match=r"np\.dot of a tensor that requires a gradient.*a @ b, or np\.dot\(x\.detach"):
        np.dot(w, w)
    assert np.dot(w.detach(), w.detach()) == 25 and np.argmax(w) == 1 and np.allclose(w, [3, 4])
    with mg.no_grad():
        assert np.linalg.norm(w) == 5


def test_retain_graph_is_true_or_false():
    loss = mg.ones(1, requires_grad=True).sum()
    with pytest.raises(TypeError, match="backward: retain_graph takes True or False; got str 'yes'"):
        loss.backward(retain_graph="yes")
    loss.backward()
