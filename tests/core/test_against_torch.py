"""Random expressions in minigrad and in PyTorch: the same values, the same gradients."""

import numpy as np
import pytest

import minigrad as mg

torch = pytest.importorskip("torch")

UNARY = {
    "tanh": (lambda x: x.tanh(), torch.tanh),
    "relu": (lambda x: x.relu(), torch.relu),
    "sigmoid": (lambda x: x.sigmoid(), torch.sigmoid),
    "gelu": (mg.gelu, torch.nn.functional.gelu),
    "gelu_tanh": (mg.gelu_tanh, lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    "silu": (mg.silu, torch.nn.functional.silu),
    "exp": (lambda x: x.tanh().exp(), lambda x: torch.tanh(x).exp()),
    "log": (lambda x: (x * x + 1.0).log(), lambda x: (x * x + 1).log()),
    "sqrt": (lambda x: (x * x + 1.0).sqrt(), lambda x: (x * x + 1).sqrt()),
    "power": (lambda x: (x * x + 0.5) ** 1.5, lambda x: (x * x + 0.5) ** 1.5),
    "negative": (lambda x: -x, lambda x: -x),
    "transpose": (lambda x: x.T, lambda x: x.permute(*range(x.ndim)[::-1])),
    "flatten": (lambda x: x.reshape(-1), lambda x: x.reshape(-1)),
    "last": (lambda x: x[..., -1:], lambda x: x[..., -1:]),
}
BINARY = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "subtract": (lambda a, b: a - b, lambda a, b: a - b),
    "multiply": (lambda a, b: a * b, lambda a, b: a * b),
    "divide": (lambda a, b: a / (b * b + 1.0), lambda a, b: a / (b * b + 1)),
    "maximum": (mg.maximum, torch.maximum),
    "where": (lambda a, b: mg.where(a > b, a, b * 2.0), lambda a, b: torch.where(a > b, a, b * 2)),
}
REDUCE = {
    "sum": (lambda x, axis, keep: x.sum(axis, keep), lambda x, axis, keep: x.sum(axis, keepdim=keep)),
    "mean": (lambda x, axis, keep: x.mean(axis, keep), lambda x, axis, keep: x.mean(axis, keepdim=keep)),
    "max": (lambda x, axis, keep: x.max(axis, keep), lambda x, axis, keep: x.amax(axis, keepdim=keep)),
    "softmax": (lambda x, axis, keep: mg.softmax(x, axis=axis), lambda x, axis, keep: x.softmax(axis)),
    "log_softmax": (lambda x, axis, keep: mg.log_softmax(x, axis=axis), lambda x, axis, keep: x.log_softmax(axis)),
}


class Expression:
    """The same random expression twice: pairs of a minigrad tensor and a PyTorch tensor."""

    def __init__(self, seed, device):
        self.rng = np.random.default_rng(seed)
        self.device = device
        self.leaves = [self.leaf(shape) for shape in ((3, 4), (4,), (2, 3, 4), (4, 5), (3, 1), ())]
        self.pairs = list(self.leaves)
        self.names = []

    def leaf(self, shape):
        values = self.rng.standard_normal(shape)
        return mg.tensor(values, requires_grad=True, device=self.device), torch.tensor(values, requires_grad=True)

    def pick(self, fits=lambda t: True):
        fitting = [pair for pair in self.pairs if fits(pair[1])]
        return fitting[self.rng.integers(len(fitting))] if fitting else None

    def grow(self):
        """Apply one random operation to pairs that it fits."""
        kind = self.rng.choice(["unary", "binary", "reduce", "matmul", "concatenate"])
        grown = getattr(self, kind)()
        if grown is not None:
            self.pairs.append(grown)

    def named(self, table):
        name = str(self.rng.choice(list(table)))
        self.names.append(name)
        return table[name]

    def unary(self):
        mine, theirs = self.named(UNARY)
        a = self.pick(lambda t: t.ndim)
        return mine(a[0]), theirs(a[1])

    def binary(self):
        a = self.pick()
        b = self.pick(lambda t: broadcasts(t.shape, a[1].shape))
        mine, theirs = self.named(BINARY)
        return mine(a[0], b[0]), theirs(a[1], b[1])

    def reduce(self):
        a = self.pick(lambda t: t.ndim)
        axis, keep = int(self.rng.integers(-a[1].ndim, a[1].ndim)), bool(self.rng.integers(2))
        mine, theirs = self.named(REDUCE)
        return mine(a[0], axis, keep), theirs(a[1], axis, keep)

    def matmul(self):
        a = self.pick(lambda t: t.ndim)
        b = self.pick(lambda t: t.ndim and multiplies(a[1].shape, t.shape))
        self.names.append("matmul")
        return b and ((a[0] @ b[0]).tanh(), (a[1] @ b[1]).tanh())

    def concatenate(self):
        a = self.pick(lambda t: t.ndim)
        b = self.pick(lambda t: t.shape == a[1].shape)
        self.names.append("concatenate")
        return mg.concatenate([a[0], b[0]], axis=0), torch.cat([a[1], b[1]])

    def loss(self):
        """All that was made, in one number."""
        mine = sum((m.mean() for m, _ in self.pairs), mg.tensor(np.float64(0), device=self.device))
        return mine, sum(t.mean() for _, t in self.pairs)


def broadcasts(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1], strict=False))


def multiplies(a, b):
    return a[-1] == (b[-2] if len(b) > 1 else b[0]) and broadcasts(a[:-2], b[:-2])


@pytest.mark.parametrize("seed", range(30))
def test_random_expressions(seed, device):
    expression = Expression(seed, device)
    for _ in range(25):
        expression.grow()
    mine, theirs = expression.loss()
    mine.backward()
    theirs.backward()
    context = " ".join(expression.names)
    np.testing.assert_allclose(mine.item(), theirs.item(), rtol=1e-9, err_msg=context)
    for m, t in expression.leaves:
        np.testing.assert_allclose(m.grad.numpy(), t.grad.numpy(), rtol=1e-8, atol=1e-10, err_msg=context)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(reduction, smoothing, device):
    values, labels = np.random.default_rng(0).standard_normal((7, 5)) * 3, np.arange(7) % 5
    m, t = mg.tensor(values, requires_grad=True, device=device), torch.tensor(values, requires_grad=True)
    mine = mg.cross_entropy(m, mg.tensor(labels, device=device), reduction, smoothing)
    more = {"reduction": reduction, "label_smoothing": smoothing}
    theirs = torch.nn.functional.cross_entropy(t, torch.tensor(labels), **more)
    upstream = np.random.default_rng(1).standard_normal(theirs.shape)
    mine.backward(mg.tensor(upstream, device=device))
    theirs.backward(torch.tensor(upstream))
    np.testing.assert_allclose(mine.numpy(), theirs.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(m.grad.numpy(), t.grad.numpy(), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_ties_in_max(axis, device):
    values = np.array([[1.0, 3.0, 3.0], [3.0, 2.0, 2.0]])
    m, t = mg.tensor(values, requires_grad=True, device=device), torch.tensor(values, requires_grad=True)
    m.max(axis).sum().backward()
    t.amax(() if axis is None else axis).sum().backward()
    np.testing.assert_allclose(m.grad.numpy(), t.grad.numpy(), rtol=1e-15)
