"""PyTorch's version of every op, on minigrad's arrays and stream, and of a training step."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import cycle
from typing import Any

import numpy as np
import torch

from minigrad.devices.array import Array
from minigrad.devices.dtypes import dtype_of
from minigrad.lab.bench.timer import Call
from minigrad.op import Op

ROWS = torch.contiguous_format
NAMES = {"power": "pow", "max": "amax", "equal": "eq"}  # where NumPy's name is not PyTorch's


class Shared:
    """An array with `__cuda_array_interface__`, by which other libraries share its memory without a copy."""

    def __init__(self, array: Array):
        kind = "<i2" if array.dtype.name == "bfloat16" else array.dtype.str  # the interface has no name for bfloat16
        self.keep = array
        self.__cuda_array_interface__ = {
            "shape": array.spec.stored, "typestr": kind, "data": (array.address, False), "version": 3, "strides": None,
        }  # fmt: skip


def shared(array: Array) -> Any:
    """The array as a tensor in the same memory, in its layout."""
    x = torch.as_tensor(Shared(array), device="cuda")
    return x.permute(0, 3, 1, 2) if array.channels_last else x


class PyTorch:
    """Results by `torch`, gradients by its autograd."""

    def __init__(self, gpu: Any):
        self.gpu = gpu
        self.stream = torch.cuda.ExternalStream(gpu.stream.handle)

    def calls(self, experiment: Any) -> Call:
        """A function that runs the op on the next set of inputs at each call."""
        work = experiment.work
        with torch.cuda.stream(self.stream):
            each = cycle([self._call(work, arrays) for arrays in experiment.inputs])

        def call() -> Sequence[Any]:
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = work.unit == "tf32"
            torch.backends.cudnn.benchmark = True
            with torch.cuda.stream(self.stream):
                return next(each)()

        return call

    def passes(self, fn: Callable, x: Array) -> dict[str, Call]:
        """Functions that run fn forward and backward, eager and compiled; each call returns the value and gradient."""
        compiled = {"torch.compile": torch.compile(fn)} if find_spec("triton") else {}
        leaf = torch.as_tensor(Shared(x), device="cuda").requires_grad_()

        def call(fn: Callable) -> Sequence[Array]:
            with torch.cuda.stream(self.stream):
                leaf.grad = None
                y = fn(leaf)
                y.backward()
            return self.arrays([y, leaf.grad])

        return {name: partial(call, f) for name, f in ({"torch": fn} | compiled).items()}

    def arrays(self, tensors: Sequence[Any]) -> list[Array]:
        """Results as arrays of minigrad, in PyTorch's memory."""
        return [
            Array(self.gpu, tuple(x.shape), dtype_of(str(x.dtype).removeprefix("torch.")), x, x.data_ptr())
            for x in (tensor.detach().contiguous() for tensor in tensors)
        ]

    def _call(self, work: Any, arrays: Sequence[Array]) -> Call:
        tensors = [shared(array) for array in arrays]
        if work.dtype == "bfloat16":
            tensors = [x.view(torch.bfloat16) for x in tensors]
        inputs = tensors[: len(work.case.inputs)]
        if work.way == "forward":
            return lambda: [self.run(work.op, inputs, **work.case.params)]
        wanted = [x.requires_grad_() for x in inputs if x.dtype.is_floating_point]
        y = self.run(work.op, inputs, **work.case.params)

        def gradients() -> list[Any]:
            grads = torch.autograd.grad(y, wanted, tensors[-1], retain_graph=True, allow_unused=True)
            # contiguous: where PyTorch returns a view of dy, it must write the gradient, too
            formats = [torch.channels_last if work.case.channels_last and x.ndim == 4 else ROWS for x in wanted]
            return [
                torch.zeros_like(x) if grad is None else grad.contiguous(memory_format=memory_format)
                for x, grad, memory_format in zip(wanted, grads, formats, strict=True)
            ]

        return gradients

    def run(self, op: Op, xs: Sequence[Any], **params: Any) -> Any:
        """The op by PyTorch, with the result in new memory."""
        name = op.name
        if fn := getattr(op, "fn", None):
            return fn(*xs)  # the function that was fused takes tensors of PyTorch, too
        match name:
            case "max_pool2d" | "avg_pool2d":
                return getattr(torch.nn.functional, name)(*xs, params.pop("size"), **params)
            case "batch_norm":  # it writes running statistics, and gives them no gradient
                statistics = [x.detach().clone() for x in xs[1:3]]
                return torch.nn.functional.batch_norm(xs[0], *statistics, *xs[3:], **params)
            case "batch_norm_relu":  # as torchvision writes the end of a block
                statistics = [x.detach().clone() for x in xs[1:3]]
                y = torch.nn.functional.batch_norm(xs[0], *statistics, *xs[3:5], **params)
                return torch.relu_(y.add_(xs[5]) if len(xs) > 5 else y)
            case "conv2d":
                return torch.nn.functional.conv2d(*xs, **params)
            case "conv2d_relu":
                return torch.relu_(torch.nn.functional.conv2d(*xs[:3], **params).add_(xs[3]))
            case "attention":
                shown = {"is_causal" if name == "causal" else name: value for name, value in params.items()}
                return torch.nn.functional.scaled_dot_product_attention(*xs, **shown)
            case "self_attention":
                batch, length, size = xs[0].shape
                heads = xs[0].view(batch, length, 3, params.get("heads", 1), -1).permute(2, 0, 3, 1, 4)
                y = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=params.get("causal", False))
                return y.transpose(1, 2).reshape(batch, length, size // 3)
            case "layer_norm" | "rms_norm":
                return getattr(torch.nn.functional, name)(xs[0], xs[0].shape[-1:], *xs[1:], eps=params.get("eps", 1e-5))
            case "gelu_tanh":
                return torch.nn.functional.gelu(*xs, approximate="tanh")
            case "embedding" | "gelu" | "silu":
                return getattr(torch.nn.functional, name)(*xs)
            case "dropout":
                return torch.nn.functional.dropout(xs[0], **params)
            case "pad":
                return torch.nn.functional.pad(*xs, **params)
            case "astype":
                return xs[0].to(getattr(torch, str(params.get("dtype") or xs[0].dtype).removeprefix("torch.")))
            case "transpose":
                return torch.permute(*xs, params.get("axes") or tuple(range(xs[0].ndim))[::-1]).contiguous()
            case "getitem":
                return xs[0][params["key"]].clone(memory_format=torch.contiguous_format)
            case "concatenate":
                return torch.cat(xs, params.get("axis", 0))
            case "reshape":
                return xs[0].reshape(params["shape"])
            case "cross_entropy":
                return torch.nn.functional.cross_entropy(*xs, **params)
            case "softmax" | "log_softmax":
                xs = [*xs, params.get("axis", -1)]
            case "sum" | "mean" | "max":
                axis = params.get("axis")
                xs = [*xs, tuple(range(xs[0].ndim)) if axis is None else axis, params.get("keepdims", False)]
        return getattr(torch, NAMES.get(name, name))(*xs)


def steps(optimizer: str, start: Sequence[np.ndarray], images: np.ndarray, labels: np.ndarray) -> dict[str, Call]:
    """Steps from these weights and biases on this batch, eager and as a CUDA graph. Each call returns its loss."""
    torch.backends.cuda.matmul.allow_tf32 = False
    x, y = torch.tensor(images, device="cuda"), torch.tensor(labels, device="cuda")

    def new_step() -> Call:
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

    return {"PyTorch": new_step(), "PyTorch, graph": replayed(new_step())}


def replayed(step: Call, first: int = 3) -> Call:
    """PyTorch's step as a CUDA graph. As its documentation demands, the first steps run on a side stream."""
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
