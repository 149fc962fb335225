"""Transformers: names, causality, text continued with and without a cache, and training."""

from weakref import ref

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

SMALL = {"words": 11, "length": 12, "width": 16, "heads": 2, "layers": 2}


def small(device="numpy", **how):
    mg.manual_seed(0)
    return nn.gpt(**SMALL | how, device=device)


def text(*shape, device="numpy", seed=0):
    return mg.tensor(np.random.default_rng(seed).integers(0, 11, shape), device=device)


def test_names_and_shapes_are_those_of_gpt_2():
    state = small().state_dict()
    assert state["wte.weight"].shape == (11, 16) and state["wpe.weight"].shape == (12, 16)
    assert state["h.1.attn.c_attn.weight"].shape == (16, 48) and state["h.0.mlp.c_fc.weight"].shape == (16, 64)
    block = ["ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"]
    each = [f"{name}.{part}" for name in block for part in ("weight", "bias")]
    wanted = ["wte.weight", "wpe.weight", *(f"h.{i}.{name}" for i in range(2) for name in each)]
    assert [*state] == [*wanted, "ln_f.weight", "ln_f.bias"]


def test_a_state_is_loaded_again(tmp_path):
    model, other = small(), small(width=16)
    mg.save(tmp_path / "gpt.safetensors", model.state_dict())
    other.load_state_dict(mg.load(tmp_path / "gpt.safetensors"))
    np.testing.assert_array_equal(other(text(2, 5)).numpy(), model(text(2, 5)).numpy())


def test_a_published_file_of_gpt_2_is_loaded(tmp_path):
    """With the masks of its attention, a prefix, and the table of words once more, as its last layer."""
    model, other, path = small(), nn.gpt(**SMALL, device="numpy"), tmp_path / "gpt2.safetensors"
    state = model.state_dict()
    for i in range(2):
        state |= {f"h.{i}.attn.bias": np.tri(12)[None, None], f"h.{i}.attn.masked_bias": np.float32(-1e4)}
    whole = {f"transformer.{name}": x for name, x in state.items()} | {"lm_head.weight": state["wte.weight"]}
    for published in (state, whole):
        with mg.no_grad():
            for p in other.parameters():
                p.assign(np.zeros(p.shape, p.dtype))
        mg.save(path, published)
        mg.load(path, other)
        np.testing.assert_array_equal(other(text(2, 5)).numpy(), model(text(2, 5)).numpy())
    with pytest.raises(KeyError, match=r"missing: none; unexpected: lm_head\.weight"):
        other.load_state_dict(whole | {"lm_head.weight": state["wte.weight"] + 1})


def test_a_word_sees_only_those_before(device):
    model, first = small(device), text(1, 9, device=device)
    changed = first.numpy().copy()
    changed[0, 6] = (changed[0, 6] + 1) % 11
    with mg.no_grad():
        a, b = (model(mg.tensor(x, device=device)).numpy()[0] for x in (first.numpy(), changed))
    np.testing.assert_array_equal(a[:6], b[:6])
    assert np.abs(a[6:] - b[6:]).max(axis=1).min() > 0


def test_heads_are_attentions_of_their_own():
    mg.manual_seed(0)
    layer = nn.MultiHeadAttention(12, 3, dtype="float64", device="numpy")
    x = mg.tensor(np.random.default_rng(0).standard_normal((2, 5, 12)), device="numpy")
    q, k, v = np.split((x @ layer.c_attn.weight + layer.c_attn.bias).numpy(), 3, axis=2)
    heads = []
    for h in range(3):
        own = [mg.tensor(part[:, None, :, 4 * h : 4 * h + 4].copy(), device="numpy") for part in (q, k, v)]
        heads.append(mg.attention(*own).numpy()[:, 0])
    wanted = np.concatenate(heads, axis=2) @ layer.c_proj.weight.numpy() + layer.c_proj.bias.numpy()
    np.testing.assert_allclose(layer(x).numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("how", [{"temperature": 0}, {"seed": 3}, {"top_k": 2, "temperature": 0.7}])
def test_the_cache_changes_no_word(how, device):
    model = small(device)
    start = text(3, 2).numpy()
    with_cache, without = (model.generate(start, 9, cached=cached, **how) for cached in (True, False))
    np.testing.assert_array_equal(with_cache, without)
    assert with_cache.shape == (3, 11) and (with_cache[:, :2] == start).all() and model.training


def test_the_step_of_a_word_follows_other_weights_and_texts(device):
    """It is kept from call to call, with its memory; a model that nobody has is freed at once."""
    model, other = small(device), small(device, width=16)
    first = model.generate(text(2, 3).numpy(), 5, seed=1)
    with mg.no_grad():
        for p in model.parameters():
            p.assign(p.numpy() * 1.5)
    step = model.word_step
    for start in (text(2, 4).numpy(), text(1, 2).numpy()):
        cached, plain = (model.generate(start, 6, seed=2, cached=how) for how in (True, False))
        np.testing.assert_array_equal(cached, plain)
        assert (model.word_step is step) == (len(start) == 2)
    np.testing.assert_array_equal(other.generate(text(2, 3).numpy(), 5, seed=1), first)
    gone = ref(model)
    del model
    assert gone() is None


def test_the_likeliest_word_and_few_of_them():
    model, start = small(), text(1, 3).numpy()
    with mg.no_grad():
        logits = model(mg.tensor(start, device="numpy")).numpy()[0, -1]
    assert model.generate(start, 1, temperature=0)[0, -1] == logits.argmax()
    drawn = {int(model.generate(start, 1, top_k=3, seed=seed)[0, -1]) for seed in range(40)}
    assert drawn == {*np.argsort(logits)[-3:].tolist()}


def test_generate_leaves_the_model_and_the_start_as_they_were():
    model, start = small(dropout=0.5), text(2, 3).numpy()
    model.h.eval()
    whole = model.generate(start, 0)
    whole[:] = 0
    assert (start == text(2, 3).numpy()).all() and model.generate(start[:0], 2).shape == (0, 5)
    assert model.training and model.dropout.training
    assert not any(module.training for _, module in model.h.named_modules())


def losses(device, steps):
    """The model of notebook 13 learns to sort eight digits: the loss of each step."""
    mg.manual_seed(0)
    model = nn.gpt(words=10, length=16, width=32, heads=4, layers=1, device=device)
    optimizer, found = mg.optim.AdamW(model.parameters(), lr=1e-2), []
    for rows in mg.data.sorting(8 * steps).reshape(steps, 8, 16):
        logits = model(mg.tensor(rows[:, :-1], device=device))[:, 7:]
        labels = mg.tensor(rows[:, 8:].ravel(), device=device)
        loss = mg.cross_entropy(logits.reshape(-1, 10), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.soak  # notebook 13 compares the losses, too
def test_it_learns_and_kernels_train_as_numpy_does(kernel_device):
    by_numpy = losses("numpy", 60)
    assert np.mean(by_numpy[-5:]) < 0.75 * np.mean(by_numpy[:5])
    np.testing.assert_allclose(losses(kernel_device, 30), by_numpy[:30], atol=1e-4)


def test_refusals():
    with pytest.raises(ValueError, match="MultiHeadAttention: width=10 must be a multiple of heads=3"):
        nn.MultiHeadAttention(10, 3)
    with pytest.raises(ValueError, match="GPT: 13 places are more than its length of 12"):
        small()(text(1, 13))
    with pytest.raises(ValueError, match="GPT: 13 places are more than its length of 12"):
        small().generate(text(1, 3).numpy(), 11)
    with pytest.raises(ValueError, match=r"GPT: indices are \(3,\); they must be \(batch, length\)"):
        small()(text(3))
    with pytest.raises(ValueError, match=r"MultiHeadAttention: x is \(3, 4\); it must be \(batch, length, width\)"):
        nn.MultiHeadAttention(4, 2, device="numpy")(mg.zeros(3, 4, device="numpy"))
    with pytest.raises(TypeError, match="MultiHeadAttention: causal takes True or False; got str 'no'"):
        nn.MultiHeadAttention(4, 2, "no")
    with pytest.raises(ValueError, match=r"generate: indices are \(2, 0\); a text begins with one word at least"):
        small().generate(text(2, 0), 1)
    with pytest.raises(ValueError, match="generate: top_k=0 must be a whole number of at least 1"):
        small().generate(text(1, 3), 1, temperature=0, top_k=0)
