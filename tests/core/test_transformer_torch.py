"""Transformers against PyTorch: attention by heads, a whole GPT written with PyTorch's layers, and AdamW."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

torch = pytest.importorskip("torch")
F = torch.nn.functional


def of(x):
    return torch.from_numpy(x.numpy().copy())


@pytest.mark.parametrize("causal", [False, True])
def test_heads(causal, device):
    layer = nn.MultiHeadAttention(12, 3, causal, device=device, dtype="float64")
    other = torch.nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    other.load_state_dict({
        "in_proj_weight": of(layer.c_attn.weight).T, "in_proj_bias": of(layer.c_attn.bias),
        "out_proj.weight": of(layer.c_proj.weight).T, "out_proj.bias": of(layer.c_proj.bias),
    })  # fmt: skip
    x = mg.tensor(np.random.default_rng(0).standard_normal((2, 7, 12)), device=device)
    hidden = torch.triu(torch.ones(7, 7, dtype=torch.bool), 1) if causal else None  # True: not seen
    wanted = other(of(x), of(x), of(x), attn_mask=hidden, need_weights=False)[0]
    np.testing.assert_allclose(layer(x).numpy(), wanted.detach().numpy(), atol=1e-12)


def logits_of(state, indices, heads):
    """The logits of a GPT by PyTorch's functions, from GPT-2's names."""

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"])

    def affine(x, name):
        return x @ state[f"{name}.weight"] + state[f"{name}.bias"]

    x = state["wte.weight"][indices] + state["wpe.weight"][: indices.shape[1]]
    for i in range(sum(name.endswith("ln_1.weight") for name in state)):
        q, k, v = affine(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in (q, k, v))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + affine(seen, f"h.{i}.attn.c_proj")
        inner = F.gelu(affine(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc"), approximate="tanh")
        x = x + affine(inner, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ state["wte.weight"].T


def test_a_gpt_and_its_training(device):
    """Ten steps of AdamW with the same loss."""
    mg.manual_seed(0)
    model = nn.gpt(13, 9, width=16, heads=2, layers=3, device=device, dtype="float64")
    state = {name: torch.tensor(x, requires_grad=True) for name, x in model.state_dict().items()}
    mine = mg.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    theirs = torch.optim.AdamW([*state.values()], lr=1e-2, weight_decay=0.1)
    rng = np.random.default_rng(1)
    for _ in range(10):
        words = rng.integers(0, 13, (4, 9))
        labels = words[:, 1:].reshape(-1).copy()
        loss = mg.cross_entropy(
            model(mg.tensor(words[:, :-1].copy(), device=device)).reshape(-1, 13), mg.tensor(labels, device=device)
        )
        mine.zero_grad()
        loss.backward()
        mine.step()
        other = F.cross_entropy(logits_of(state, torch.tensor(words[:, :-1]), 2).flatten(0, 1), torch.tensor(labels))
        grads = torch.autograd.grad(other, [*state.values()])
        for x, grad in zip(state.values(), grads, strict=True):
            x.grad = grad
        theirs.step()
        assert abs(loss.item() - other.item()) < 1e-9
