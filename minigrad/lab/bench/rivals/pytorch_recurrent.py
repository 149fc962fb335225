"""PyTorch's RNN, LSTM and GRU on the processor, with the weights of minigrad's."""

from typing import Any

import numpy as np
import torch

from minigrad.lab.bench.timer import Call
from minigrad.nn.recurrent import RNN, Recurrent


def inference(module: Recurrent, x: np.ndarray, threads: int) -> Call:
    """A function that gives y of all steps, by this many threads."""
    how: Any = {"nonlinearity": module.kind} if isinstance(module, RNN) else {}
    other = getattr(torch.nn, type(module).__name__)(module.input_size, module.hidden_size, **how).eval()
    other.load_state_dict({name: torch.from_numpy(w.numpy().copy()) for name, w in module.named_parameters()})
    sequence = torch.from_numpy(x)

    def call() -> Any:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            return other(sequence)[0]

    return call
