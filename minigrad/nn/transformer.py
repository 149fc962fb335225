"""Transformer: attention by several heads, a block of a GPT, the whole of it, and text that it continues."""

import re
from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np

from minigrad import create
from minigrad.devices.dtypes import to_host, wide
from minigrad.errors import require, require_bool, require_int
from minigrad.nn.dropout import Dropout
from minigrad.nn.embedding import Embedding
from minigrad.nn.generation import WordStep, generate
from minigrad.nn.linear import Linear
from minigrad.nn.module import Module, Sequential
from minigrad.nn.normalization import LayerNorm
from minigrad.operators import OPS
from minigrad.ops.add_layer_norm import add_layer_norm, takes
from minigrad.tape import no_grad
from minigrad.tensor import Tensor

HEAD = "lm_head.weight"  # of a published model: its last layer, which is the table of words
STD = 0.02  # of the weights at the start, as in GPT-2
Past = list[
    Tensor
]  # keys and values of the places before, (batch, heads, length, width of a head) each; at first empty


class Affine(Linear):
    """Linear whose weight a state holds as GPT-2 does, (inputs, outputs)."""

    transposed = ()

    def forward(self, x: Tensor, add_bias: bool = True) -> Tensor:
        """x @ weight + bias; add_bias=False leaves the sum to another op."""
        return super().forward(x) if add_bias else OPS["matmul"](x, self.weight)


class MultiHeadAttention(Module):
    """Attention of x (batch, length, width) to itself, by heads that each see a part of the numbers.

    c_attn makes the queries, keys and values of all heads, c_proj mixes what they bring. With causal a place sees only
    those before it. In training a part of the weights and of the results is dropped, each with probability `dropout`.
    Source: Vaswani et al., "Attention is all you need", 2017; names as in GPT-2.
    """

    def __init__(
        self, width: int, heads: int, causal: bool = False, dropout: float = 0.0, device: str | None = None,
        dtype: Any = "float32",
    ):  # fmt: skip
        if require_int("MultiHeadAttention", "width", width, 1) % require_int("MultiHeadAttention", "heads", heads, 1):
            raise ValueError(f"MultiHeadAttention: width={width} must be a multiple of heads={heads}.")
        self.heads, self.causal = heads, require_bool("MultiHeadAttention", "causal", causal)
        self.c_attn = Affine(width, 3 * width, device=device, dtype=dtype)
        self.c_proj, self.dropout = Affine(width, width, device=device, dtype=dtype), Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None, past: Past | None = None) -> Tensor:
        """attention(q, k, v, mask), heads side by side, through c_proj. past grows by the keys and values of x."""
        return self.dropout(self.c_proj(self.attended(x, mask, past)))

    def attended(self, x: Tensor, mask: Tensor | None = None, past: Past | None = None) -> Tensor:
        """All of `forward` before c_proj."""
        if x.ndim != 3:
            raise ValueError(f"MultiHeadAttention: x is {x.shape}; it must be (batch, length, width).")
        batch, length, width = x.shape
        together, drop = self.c_attn(x, add_bias=False), self.dropout.p if self.training else 0.0
        bias: Any = self.c_attn.bias
        if mask is None and past is None and not drop and bias.dtype == wide(together.dtype):
            return OPS["self_attention"](together, bias, heads=self.heads, causal=self.causal)
        together = together + bias.astype(together.dtype)
        parts = together.reshape(batch, length, 3, self.heads, width // self.heads).transpose(2, 0, 3, 1, 4)
        q, k, v = (parts[i] for i in range(3))
        if past is not None:
            if past:
                k, v = (OPS["concatenate"]([before, now], axis=2) for before, now in zip(past, (k, v), strict=True))
            past[:] = k, v
        y = OPS["attention"](q, k, v, *(() if mask is None else (mask,)), causal=self.causal, dropout=drop)
        return y.transpose(0, 2, 1, 3).reshape(batch, length, width)

    def __repr__(self) -> str:
        causal = ", causal" if self.causal else ""
        return f"MultiHeadAttention({self.c_proj.weight.shape[0]}, {self.heads} heads{causal})"


class MLP(Module):
    """Two layers with gelu_tanh between them, four times as wide inside."""

    def __init__(self, width: int, dropout: float = 0.0, device: str | None = None, dtype: Any = "float32"):
        self.c_fc = Affine(width, 4 * width, device=device, dtype=dtype)
        self.c_proj, self.dropout = Affine(4 * width, width, device=device, dtype=dtype), Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """c_proj(gelu_tanh(c_fc(x)))."""
        return self.dropout(self.c_proj(self.hidden(x)))

    def hidden(self, x: Tensor) -> Tensor:
        """gelu_tanh(c_fc(x))."""
        bias: Any = self.c_fc.bias
        y = self.c_fc(x, add_bias=False)
        if bias.dtype == wide(y.dtype):
            return OPS["bias_gelu_tanh"](y, bias)
        return OPS["gelu_tanh"](y + bias)


class TransformerBlock(Module):
    """x + attn(ln_1(x)), and of that h + mlp(ln_2(h)): each part adds to what came in, and reads it normalized."""

    def __init__(
        self, width: int, heads: int, causal: bool = True, dropout: float = 0.0, device: str | None = None,
        dtype: Any = "float32",
    ):  # fmt: skip
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        self.ln_1, self.attn = LayerNorm(width, **like), MultiHeadAttention(width, heads, causal, dropout, **like)
        self.ln_2, self.mlp = LayerNorm(width, **like), MLP(width, dropout, **like)

    def forward(self, x: Tensor, past: Past | None = None) -> Tensor:
        """The block's output, of the shape of x."""
        h = x + self.attn(self.ln_1(x), past=past)
        return h + self.mlp(self.ln_2(h))

    def pass_on(self, x: Tensor, n: Tensor, after: LayerNorm, past: Past | None = None) -> tuple[Tensor, Tensor]:
        """The block's output for x and n = ln_1(x), and the norm `after` of it, by which the next block reads it."""
        h, n = added(x, self.attn.attended(n, past=past), self.attn, self.ln_2)
        return added(h, self.mlp.hidden(n), self.mlp, after)


def added(x: Tensor, y: Tensor, part: Any, norm: LayerNorm) -> tuple[Tensor, Tensor]:
    """h = x + dropout(c_proj(y)) of a part of a block, and norm(h): by one op after the product, where it can be."""
    y, bias = part.c_proj(y, add_bias=False), part.c_proj.bias
    if takes(x.shape[-1]) and x.dtype == wide(y.dtype) and not (part.training and part.dropout.p):
        return add_layer_norm(x, y, norm.weight, norm.bias, bias, eps=norm.eps)
    h = x + part.dropout(y + bias.astype(y.dtype))
    return h, norm(h)


class GPT(Module):
    """A decoder: for each place of a text (batch, length) of word numbers the logits of the next word.

    The table of words, wte, makes the logits, too. Source: Radford et al., "Language models are unsupervised multitask
    learners", 2019 (GPT-2), whose names the parameters have.
    """

    def __init__(
        self, words: int, length: int, width: int = 768, heads: int = 12, layers: int = 12, dropout: float = 0.0,
        device: str | None = None, dtype: Any = "float32",
    ):  # fmt: skip
        self.length, layers = require_int("GPT", "length", length, 1), require_int("GPT", "layers", layers, 1)
        self.word_step: WordStep | None = None  # that of `generate`
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        self.wte, self.wpe = Embedding(words, width, **like), Embedding(length, width, **like)
        self.dropout = Dropout(dropout)
        self.h = Sequential(*(TransformerBlock(width, heads, True, dropout, **like) for _ in range(layers)))
        self.ln_f = LayerNorm(width, **like)
        with no_grad():  # what a block adds shrinks with their number, so that their sum does not grow with it
            for name, x in self.named_parameters():
                if x.ndim == 2:
                    std = STD / sqrt(2 * layers) if name.endswith("c_proj.weight") else STD
                    x.assign(create.randn(*x.shape, **like) * std)
                elif name.endswith("bias"):
                    x.assign(np.zeros(x.shape, x.dtype))

    def forward(self, indices: Tensor, past: list[Past] | None = None) -> Tensor:
        """Logits (batch, length, words). past: of each block, after the places that `indices` continue."""
        if indices.ndim != 2:
            raise ValueError(f"GPT: indices are {indices.shape}; they must be (batch, length).")
        start = past[0][0].shape[2] if past and past[0] else 0
        self.has_place(end := start + indices.shape[1])
        places = self.wpe.weight[start:end]  # without indices, which a captured step could not send to the GPU
        x = self.dropout(self.wte(indices) + places)
        blocks: Any = self.h.parts
        each: list[Any] = past or [None] * len(blocks)
        n, norms = blocks[0].ln_1(x), [*(block.ln_1 for block in blocks[1:]), self.ln_f]
        for block, after, own in zip(blocks, norms, each, strict=True):
            x, n = block.pass_on(x, n, after, own)
        return OPS["matmul_transposed"](n, self.wte.weight)

    def generate(
        self, indices: Any, count: int, temperature: float = 1.0, top_k: int | None = None, seed: int = 0,
        cached: bool = True,
    ) -> np.ndarray:  # fmt: skip
        """The text (batch, length) and `count` more words, each drawn from softmax(logits / temperature).

        temperature 0 takes the likeliest word, top_k draws among the k likeliest. Keys and values of the words before
        are kept; without `cached` they are made again for each word, with the same result.
        """
        return generate(self, indices, count, temperature, top_k, seed, cached)

    def load_state_dict(self, state: Any) -> None:
        """As of any module. A file of GPT-2 as it was published is taken, too.

        What such a file has besides is left out: the masks of its attention, and a last layer that is the table of
        words once more. Its names may begin with "transformer.".
        """
        require("load_state_dict", state, Mapping, "what state_dict() gives, arrays by name")
        own = {re.sub(r"^transformer\.", "", str(name)): x for name, x in state.items()}
        own = {name: x for name, x in own.items() if not re.fullmatch(r"h\.\d+\.attn\.(masked_)?bias", name)}
        head, table = (own.get(name) for name in (HEAD, "wte.weight"))
        if head is not None and table is not None and np.array_equal(to_host(head), to_host(table)):
            del own[HEAD]
        super().load_state_dict(own)

    def has_place(self, end: int) -> None:
        """Raise ValueError where a text of so many words is longer than the model takes."""
        if end > self.length:
            raise ValueError(f"GPT: {end} places are more than its length of {self.length}.")


def gpt(words: int, length: int, **how: Any) -> GPT:
    """A GPT; by default of the size of GPT-2 124M, which has words=50257 and length=1024."""
    return GPT(words, length, **how)
