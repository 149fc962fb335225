"""PyTorch's RNN, LSTM and GRU on the processor, with the weights of minigrad's."""

from typing import Any

import numpy as np
import torch

from minigrad.devices import get
from minigrad.lab.bench.timer import Call
from minigrad.nn.recurrent import RNN, Recurrent


def twin(module: Recurrent) -> Any:
    """PyTorch's module with the same weights."""
    how: Any = {"nonlinearity": module.kind} if isinstance(module, RNN) else {}
    sizes = module.input_size, module.hidden_size, module.num_layers
    other = getattr(torch.nn, type(module).__name__)(*sizes, **how).eval()
    other.load_state_dict({name: torch.from_numpy(w.numpy().copy()) for name, w in module.named_parameters()})
    return other


def inference(module: Recurrent, x: np.ndarray, threads: int) -> Call:
    """A function that gives y of all steps, by this many threads."""
    other, sequence = twin(module), torch.from_numpy(x)

    def call() -> Any:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            return other(sequence)[0]

    return call


def on_gpu(module: Recurrent, x: np.ndarray, mode: str) -> Call:
    """The same by cuDNN, in float32, in tf32, or with weights and x in float16, on minigrad's stream."""
    gpu: Any = get("cuda")
    dtype, stream = torch.float16 if mode == "float16" else torch.float32, torch.cuda.ExternalStream(gpu.stream.handle)
    with torch.cuda.stream(stream):
        other, sequence = twin(module).to("cuda", dtype), torch.from_numpy(x).to("cuda", dtype)
        other.flatten_parameters()

    def call() -> Any:
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"
        with torch.cuda.stream(stream), torch.inference_mode():
            return other(sequence)[0]

    return call
