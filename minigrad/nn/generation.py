"""Text that grows word by word: the step of a decoder for one word, which keeps the keys and values of all before."""

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import ref

import numpy as np

from minigrad import create
from minigrad.devices.dtypes import to_host
from minigrad.errors import require_int, require_number
from minigrad.operators import OPS
from minigrad.replay.graph import graph
from minigrad.tape import no_grad
from minigrad.tensor import Tensor


class WordStep:
    """Logits of a GPT's next word, from the newest word of each text, (batch, 1), and its place.

    Keys and values lie in memory for the longest text, and kernels read the place on the device. So all steps launch
    the same kernels, and on a GPU a step is one graph. The layers of a block are four kernels, its attention the fifth.
    """

    def __init__(self, model: Any, batch: int):
        self.parameters = [p.array for p in model.parameters()]
        like: dict[str, Any] = {"device": model.wte.weight.device, "dtype": model.wte.weight.dtype}
        width, heads = model.wte.weight.shape[1], model.h.parts[0].attn.heads
        shape = batch, heads, model.length, width // heads
        self.caches = [[create.zeros(*shape, **like) for _ in range(2)] for _ in model.h.parts]
        self._run = graph(partial(word_step, ref(model), self.caches))  # weak: a model that nobody has is freed at once

    def fits(self, model: Any, batch: int) -> bool:
        """True for the same texts at a time, and parameters that lie where they did."""
        arrays = [p.array for p in model.parameters()]
        return len(self.caches[0][0]) == batch and all(a is b for a, b in zip(arrays, self.parameters, strict=True))

    def begin(self, past: list[list[Tensor]]) -> None:
        """Go on from the keys and values of the places so far."""
        for own, cache in zip(past, self.caches, strict=True):
            for x, kept in zip(own, cache, strict=True):
                kept.assign(OPS["pad"](x, (0, 0, 0, kept.shape[2] - x.shape[2])))

    def logits(self, words: np.ndarray, place: int) -> Tensor:
        """Logits (batch, 1, words of the table)."""
        sent = np.append(words, [[place]], axis=0)  # together, by one copy
        return self._run(create.tensor(sent, device=self.caches[0][0].device))


def word_step(model: Callable[[], Any], caches: list[list[Tensor]], sent: Tensor) -> Tensor:
    """The logits for words, and behind them their place. Each block's cache gets the keys and values of the place."""
    m, place = model(), sent[-1:]
    x = m.wte(sent[:-1]) + m.wpe(place)
    for block, cache in zip(m.h.parts, caches, strict=True):
        attn, mlp = block.attn, block.mlp
        heads = OPS["norm_linear"](x, *affine(block.ln_1), *affine(attn.c_attn), eps=block.ln_1.eps)
        y = OPS["cached_attention"](heads, *cache, place, heads=attn.heads)
        x = OPS["linear_add"](y, *affine(attn.c_proj), x)
        y = OPS["norm_linear"](x, *affine(block.ln_2), *affine(mlp.c_fc), eps=block.ln_2.eps, gelu=True)
        x = OPS["linear_add"](y, *affine(mlp.c_proj), x)
    return OPS["norm_linear"](x, *affine(m.ln_f), m.wte.weight, eps=m.ln_f.eps, transposed=True)


def affine(layer: Any) -> tuple[Tensor, Tensor]:
    """Weight and bias."""
    return layer.weight, layer.bias


def generate(
    model: Any, indices: Any, count: int, temperature: float, top_k: int | None, seed: int, cached: bool
) -> np.ndarray:
    """See `GPT.generate`."""
    text = np.array(to_host(indices, who="generate: indices"), ndmin=2)
    if not text.shape[-1]:
        raise ValueError(f"generate: indices are {text.shape}; a text begins with one word at least.")
    require_number("generate", "temperature", temperature)
    if top_k is not None:
        require_int("generate", "top_k", top_k, 1)
    rng, modes = np.random.default_rng(seed), [(module, module.training) for _, module in model.named_modules()]
    model.eval()
    try:
        with no_grad():
            for i in range(require_int("generate", "count", count)):
                logits = following(model, text, cached, first=i == 0).numpy()[:, -1].astype(np.float64)
                word = np.array([drawn(row, temperature, top_k, rng) for row in logits], np.int64)[:, None]
                text = np.concatenate([text, word], axis=1)
    finally:
        for module, training in modes:
            module.training = training
    return text


def following(model: Any, text: np.ndarray, cached: bool, first: bool) -> Tensor:
    """Logits (batch, 1, words) of the word after the text; cached: by its last word alone."""
    device = model.wte.weight.device
    if cached and not first:
        model.has_place(text.shape[1])
        return model.word_step.logits(text[:, -1:], text.shape[1] - 1)
    past: list[list[Tensor]] | None = [[] for _ in model.h.parts] if cached else None
    logits = model(create.tensor(text, device=device), past)
    if past:
        if model.word_step is None or not model.word_step.fits(model, len(text)):
            model.word_step = WordStep(model, len(text))
        model.word_step.begin(past)
    return logits[:, -1:]


def drawn(logits: np.ndarray, temperature: float, top_k: int | None, rng: np.random.Generator) -> int:
    """The number of a word, drawn by its logit."""
    if temperature == 0:
        return int(logits.argmax())
    if top_k is not None:
        least = np.sort(logits)[-min(top_k, len(logits))]
        logits = np.where(logits >= least, logits, -np.inf)
    weights = np.exp((logits - logits.max()) / temperature)
    return int(rng.choice(len(weights), p=weights / weights.sum()))
