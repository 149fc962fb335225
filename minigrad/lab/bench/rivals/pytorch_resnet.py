"""torchvision's ResNet-18 in the modes of PyTorch, and single layers on minigrad's arrays and stream."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from minigrad.devices.array import Array
from minigrad.lab.bench.resnet.modes import Mode
from minigrad.lab.bench.resnet.network import CLASSES, MOMENTUM, RATE, Task
from minigrad.lab.bench.rivals.pytorch import Shared, replayed
from minigrad.lab.bench.timer import Call, Wrap, as_it_is

DEVICE = "cuda"
FORMATS = {"NHWC": torch.channels_last, "NCHW": torch.contiguous_format}


def network(state: Mapping[str, np.ndarray], layout: str = "NHWC") -> Any:
    """torchvision's network with this state."""
    from torchvision.models import resnet18

    model = resnet18(num_classes=CLASSES)
    model.load_state_dict({name: torch.from_numpy(np.array(x)) for name, x in state.items()})
    return model.to(DEVICE, memory_format=FORMATS[layout])


def folded(model: Any) -> Any:
    """The network with every batch norm in the weights of the convolution before it; evaluation only."""
    parts = [model, *(block for i in range(1, 5) for block in getattr(model, f"layer{i}"))]
    pairs = [(part, f"conv{i}", f"bn{i}") for part in parts for i in (1, 2) if hasattr(part, f"bn{i}")]
    pairs += [(part.downsample, "0", "1") for part in parts if getattr(part, "downsample", None)]
    for owner, conv, norm in pairs:
        setattr(owner, conv, fuse_conv_bn_eval(getattr(owner, conv), getattr(owner, norm)))
        setattr(owner, norm, torch.nn.Identity())
    return model


@contextmanager
def within(mode: Mode) -> Iterator[None]:
    """PyTorch computes in this mode, with the fastest algorithms that cuDNN finds."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode.tf32
    torch.backends.cudnn.benchmark = True
    with torch.autocast(DEVICE, torch.bfloat16) if mode.autocast else nullcontext():
        yield


# --- whole steps ---


def training(task: Task, mode: Mode, layout: str = "NHWC", graph: bool = False, wrap: Wrap = as_it_is) -> Call:
    """Steps on this batch, eager or as a CUDA graph; each call takes one and returns its loss. wrap: of the model."""
    model, (x, y) = wrap(network(task.state, layout).train()), batch(task, layout)
    updates = torch.optim.SGD(model.parameters(), RATE, MOMENTUM, fused=True)

    def step() -> Any:
        updates.zero_grad(set_to_none=True)
        with within(mode):
            loss = functional.cross_entropy(model(x), y)
        loss.backward()
        updates.step()
        return loss.detach()

    return replayed(step) if graph else step


def inference(task: Task, mode: Mode, layout: str = "NHWC", graph: bool = False, fold: bool = False) -> Call:
    """The logits of these images in evaluation, eager or as a CUDA graph."""
    model, (x, _) = network(task.state, layout).eval(), batch(task, layout)
    model = folded(model).to(memory_format=FORMATS[layout]) if fold else model

    def logits() -> Any:
        with torch.no_grad(), within(mode):
            return model(x)

    return replayed(logits) if graph else logits


def batch(task: Task, layout: str) -> tuple[Any, Any]:
    """Images and labels on the device."""
    images = torch.from_numpy(task.images).to(DEVICE).to(memory_format=FORMATS[layout])
    return images, torch.from_numpy(task.labels).to(DEVICE)


class PeakOfTorch:
    """The most bytes that PyTorch's tensors occupy, and those that it takes from the driver, without those before."""

    def __init__(self) -> None:
        gc.collect()
        torch.cuda.empty_cache()
        self._before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()

    def warm(self) -> None:
        """Forget the peak of the first calls: cuDNN tries algorithms in them, some with large workspaces."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def bytes(self) -> tuple[int, int]:
        """Both peaks since then."""
        peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        return peaks[0] - self._before[0], peaks[1] - self._before[1]


# --- single layers ---


def tensor_of(array: Array) -> Any:
    """PyTorch's view of an array, in the array's own layout."""
    x = torch.as_tensor(Shared(array.reshape(array.spec.stored)), device=DEVICE)
    x = x.view(torch.bfloat16) if array.dtype.name == "bfloat16" else x
    return x.permute(0, 3, 1, 2) if array.channels_last else x


def run(links: Sequence[Any], x: Any, further: Sequence[Sequence[Any]]) -> Any:
    """The ops of a layer in their order, each with its further inputs."""
    for link, more in zip(links, further, strict=True):
        params = dict(link.params)
        match link.op:
            case "conv2d":
                x = functional.conv2d(x, *more, **params)
            case "batch_norm" | "batch_norm_relu":
                x = functional.batch_norm(x, *more, **params)
            case "max_pool2d":
                x = functional.max_pool2d(x, params.pop("size"), **params)
        if link.op.endswith("relu"):
            x = functional.relu(x, inplace=True)  # as in torchvision's network
    return x


def layer(links: Sequence[Any], needs: Any, sets: Sequence[Any], mode: Mode, stream: Any, layout: str) -> Call:
    """A function that runs a layer one way on the next set of inputs at each call, and returns its results."""

    def queued(call: Call) -> Any:
        with torch.cuda.stream(stream), within(mode):
            return call()

    each = cycle([queued(partial(_layer, links, needs, inputs, FORMATS[layout])) for inputs in sets])
    return lambda: queued(next(each))


def _layer(links: Sequence[Any], needs: Any, inputs: Any, form: Any) -> Callable[[], Any]:
    def own(array: Array) -> Any:
        x = tensor_of(array)
        return x.contiguous(memory_format=form) if x.ndim == 4 else x

    x, dy, further = own(inputs.x), own(inputs.dy), [[own(array) for array in more] for more in inputs.further]
    if not needs:

        def forward() -> list[Any]:
            with torch.no_grad():
                return [run(links, x, further)]

        return forward
    wanted = [x] if needs[0][0] else []
    for tensors, need in zip(further, needs, strict=True):
        wanted += [tensor for tensor, own_need in zip(tensors, need[1:], strict=True) if own_need]
    for tensor in wanted:
        tensor.requires_grad_()
    y = run(links, x, further)
    return lambda: list(torch.autograd.grad(y, wanted, dy, retain_graph=True))


def contiguous(call: Call, stream: Any) -> list[Any]:
    """The results of a call in C order, made on its stream."""
    with torch.cuda.stream(stream):
        return [x.contiguous() for x in call()]


# --- small calls ---


def small_call(op: str, host: np.ndarray) -> Call:
    """A call of "sum", over axis 0, or of "softmax" on a tensor of these numbers."""
    x = torch.from_numpy(host).to(DEVICE)
    return {"sum": lambda: torch.sum(x, 0), "softmax": lambda: torch.softmax(x, -1)}[op]
