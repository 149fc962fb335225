"""PyTorch's training step in strict float32, on streams of its own: eager and as a CUDA graph."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

Step = Callable[[], Any]


def steps(optimizer: str, start: Sequence[np.ndarray], images: np.ndarray, labels: np.ndarray) -> dict[str, Step]:
    """Steps from these weights and biases, on this batch: eager, and as a CUDA graph. Each returns its loss."""
    torch.backends.cuda.matmul.allow_tf32 = False
    x, y = torch.tensor(images, device="cuda"), torch.tensor(labels, device="cuda")

    def made() -> Step:
        layers: list[Any] = []
        for w, b in zip(start[::2], start[1::2], strict=True):
            layers += [torch.nn.Linear(*w.shape, device="cuda"), torch.nn.ReLU()]
            layers[-2].weight.data = torch.tensor(w.T, device="cuda").contiguous()
            layers[-2].bias.data = torch.tensor(b, device="cuda")
        model = torch.nn.Sequential(*layers[:-1])
        weights = model.parameters()
        adam = optimizer == "Adam"
        optim = torch.optim.Adam(weights, 1e-3, capturable=True) if adam else torch.optim.SGD(weights, 0.05, 0.9)

        def step() -> Any:
            optim.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optim.step()
            return loss

        return step

    return {"PyTorch": made(), "PyTorch, graph": replayed(made())}


def replayed(step: Step, first: int = 3) -> Step:
    """PyTorch's step as a CUDA graph. As its documentation asks, the first steps run, on another stream."""
    captured, side, taken, loss = torch.cuda.CUDAGraph(), torch.cuda.Stream(), 0, None

    def take() -> Any:
        nonlocal taken, loss
        taken += 1
        if taken <= first:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                result = step()
            torch.cuda.current_stream().wait_stream(side)
            return result
        if loss is None:
            with torch.cuda.graph(captured):
                loss = step()
        captured.replay()
        return loss  # the same tensor each time, with the loss of this step

    return take
