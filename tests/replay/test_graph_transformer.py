"""A captured step of a GPT: each replay reads other words, and trains as NumPy does."""

import numpy as np
from graph_steps import on

import minigrad as mg
from minigrad import nn


def made(gpu):
    """A GPT with the same weights on each device, and its training step."""
    mg.manual_seed(0)
    model = nn.gpt(11, 8, width=16, heads=2, layers=2, device="numpy")
    if gpu:
        for p in model.parameters():
            p.array = on(gpu, p.numpy()).array
    optimizer = mg.optim.AdamW(model.parameters(), lr=1e-2)

    def step(words, labels):
        optimizer.zero_grad()
        loss = mg.cross_entropy(model(words).reshape(-1, 11), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_a_gpt_is_captured(gpu):
    fast, truth, rng = mg.graph(made(gpu)), made(None), np.random.default_rng(0)
    for _ in range(5):
        words = rng.integers(0, 11, (3, 7))
        labels = (words.reshape(-1) + 1) % 11
        wanted = truth(mg.Tensor(words), mg.Tensor(labels)).item()
        np.testing.assert_allclose(fast(on(gpu, words), on(gpu, labels)).item(), wanted, rtol=1e-4)
    assert (fast.captures, fast.replays) == (1, 4)
