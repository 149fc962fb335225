"""PyTorch's attention by each of its backends, and a GPT with minigrad's parameters: training and generation."""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from minigrad.devices.array import Array
from minigrad.lab.bench.rivals.pytorch import replayed
from minigrad.lab.bench.rivals.pytorch_resnet import tensor_of
from minigrad.lab.bench.timer import Call, Wrap, as_it_is
from minigrad.lab.bench.transformer.models import RATE, WORDS, Model

DEVICE = "cuda"
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH,
}  # fmt: skip
TOO_LONG = 16384  # for the backend that holds all scores


def attention(work: Any, arrays: Sequence[Array], gpu: Any) -> dict[str, tuple[Call, Call]]:
    """Forward and backward by every backend that takes the work, on minigrad's arrays and stream."""
    torch.backends.cuda.matmul.allow_tf32 = False
    stream = torch.cuda.ExternalStream(gpu.stream.handle)
    found = {}
    for name, backend in BACKENDS.items():
        if name == "math" and work.length >= TOO_LONG:
            continue
        try:
            with warnings.catch_warnings(action="ignore"):  # of a backend that does not take the work
                found[f"PyTorch, {name}"] = _attention(work, arrays, backend, stream)
        except RuntimeError as error:  # no kernel for this dtype, or none in this build
            if "kernel" not in str(error):
                raise
    return found


def _attention(work: Any, arrays: Sequence[Array], backend: Any, stream: Any) -> tuple[Call, Call]:
    *inputs, dy = (tensor_of(x) for x in arrays)
    leaves = [x.detach().requires_grad_() for x in inputs]

    def forward(xs: Sequence[Any]) -> Any:
        with torch.cuda.stream(stream), sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(*xs, is_causal=work.causal)

    def plain() -> list[Any]:
        with torch.no_grad():
            return [forward(inputs)]

    y = forward(leaves)

    def gradients() -> list[Any]:
        with torch.cuda.stream(stream):
            return list(torch.autograd.grad(y, leaves, dy, retain_graph=True))

    return plain, gradients


# --- a GPT ---


class Decoder(torch.nn.Module):  # type: ignore[misc]
    """A GPT with the parameters of minigrad's, by their names."""

    def __init__(self, of: Model):
        super().__init__()
        self.of = of
        state = of.build("numpy").state_dict()
        self.names = {name: name.replace(".", "_") for name in state}
        for name, x in state.items():
            self.register_parameter(self.names[name], torch.nn.Parameter(torch.from_numpy(np.array(x))))

    def forward(self, words: Any, past: list[Any] | None = None) -> Any:
        """The logits. past: keys and values of each block for the words before, which grow."""
        start = past[0].shape[3] if past and past[0] is not None else 0
        x = functional.embedding(words, self.at("wte.weight")) + self.at("wpe.weight")[start : start + words.shape[1]]
        for i in range(self.of.layers):
            at = f"h.{i}."
            h = self.affine(self.norm(x, f"{at}ln_1"), f"{at}attn.c_attn")
            q, *both = h.view(*h.shape[:2], 3, self.of.heads, -1).permute(2, 0, 3, 1, 4)
            if past is not None:
                both = torch.stack(both)
                past[i] = both = both if past[i] is None else torch.cat([past[i], both], 3)
            h = functional.scaled_dot_product_attention(q, *both, is_causal=q.shape[2] > 1)
            x = x + self.affine(h.transpose(1, 2).reshape(x.shape), f"{at}attn.c_proj")
            h = functional.gelu(self.affine(self.norm(x, f"{at}ln_2"), f"{at}mlp.c_fc"), approximate="tanh")
            x = x + self.affine(h, f"{at}mlp.c_proj")
        return self.norm(x, "ln_f") @ self.at("wte.weight").T

    def at(self, name: str) -> Any:
        return getattr(self, self.names[name])

    def affine(self, x: Any, name: str) -> Any:
        return torch.addmm(self.at(f"{name}.bias"), x.flatten(0, 1), self.at(f"{name}.weight")).view(*x.shape[:2], -1)

    def norm(self, x: Any, name: str) -> Any:
        return functional.layer_norm(x, x.shape[-1:], self.at(f"{name}.weight"), self.at(f"{name}.bias"))


def training(of: Model, mode: str, graph: bool = False, compiled: bool = False, wrap: Wrap = as_it_is) -> Call:
    """Steps on one batch, eager or as a CUDA graph; each call takes one and returns its loss. wrap: of the model.

    compiled: forward and loss are one graph of torch.compile, which raises an error where it would leave it.
    """
    model = wrap(Decoder(of).to(DEVICE))
    updates = torch.optim.AdamW(model.parameters(), RATE, fused=True, capturable=graph)
    x, y = (torch.from_numpy(part).to(DEVICE) for part in of.batch())

    def loss_of(x: Any, y: Any) -> Any:
        with torch.autocast(DEVICE, torch.bfloat16) if mode == "bf16" else nullcontext():
            return functional.cross_entropy(model(x).view(-1, of.words), y.view(-1))

    forward = torch.compile(loss_of, fullgraph=True, dynamic=False) if compiled else loss_of

    def step() -> Any:
        updates.zero_grad(set_to_none=True)
        torch.backends.cuda.matmul.allow_tf32 = True
        loss = forward(x, y)
        loss.backward()
        updates.step()
        return loss.detach()

    return replayed(step) if graph else step


def every_training(of: Model, mode: str) -> dict[str, Call]:
    """Steps eager and of a compiled model, each also as a CUDA graph."""
    torch.compiler.reset()  # or the extents of the model before would become variables
    calls: dict[str, Call] = {}
    for name, compiled in {"PyTorch": False, "PyTorch, compile": True}.items():
        calls |= {f"{name}{', graph' * graph}": training(of, mode, graph, compiled) for graph in (False, True)}
    return calls


def generation(of: Model) -> Call:
    """The likeliest text after one word, eager, with a cache of keys and values."""
    model = Decoder(of).to(DEVICE)

    def call() -> np.ndarray:
        torch.backends.cuda.matmul.allow_tf32 = False
        past: list[Any] = [None] * of.layers
        text = [torch.zeros((1, 1), dtype=torch.int64, device=DEVICE)]
        with torch.no_grad():
            for _ in range(WORDS):
                text.append(model(text[-1], past)[:, -1].argmax(-1, keepdim=True))
        return torch.cat(text, 1).cpu().numpy()

    return call
