"""PyTorch on the ranks of MPI: all-reduces by NCCL, and training steps with DistributedDataParallel."""

import os
import socket
from functools import cache
from typing import Any

import torch
from torch import distributed
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from minigrad.devices import get
from minigrad.distributed import init, local_rank, rank, size
from minigrad.lab.bench import steps
from minigrad.lab.bench.resnet import network
from minigrad.lab.bench.resnet.modes import MODES
from minigrad.lab.bench.rivals import pytorch_resnet, pytorch_transformer
from minigrad.lab.bench.timer import Call, as_it_is
from minigrad.lab.bench.transformer.models import CHARACTERS


@cache
def join() -> None:
    """Make the group of all ranks, once."""
    torch.cuda.set_device(local_rank())
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = init().comm.bcast(free.getsockname()[1])
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    distributed.init_process_group("nccl", rank=rank(), world_size=size())


def message(nbytes: int) -> Call:
    """An all-reduce of a tensor of this size, in place."""
    join()
    x = torch.zeros(nbytes // 4, device="cuda")
    return lambda: distributed.all_reduce(x)


def captured_messages(nbytes: int, count: int) -> Call:
    """All-reduces in a row as one graph, on minigrad's stream."""
    gpu: Any = get("cuda")
    send, captured, stream = message(nbytes), torch.cuda.CUDAGraph(), torch.cuda.ExternalStream(gpu.stream.handle)
    send()
    torch.cuda.synchronize()
    with torch.cuda.graph(captured, capture_error_mode="thread_local"):  # PyTorch's own threads go on
        for _ in range(count):
            send()

    def call() -> None:
        with torch.cuda.stream(stream):
            captured.replay()

    return call


def wrapped(model: Any) -> Any:
    return DistributedDataParallel(model, device_ids=[local_rank()])


def resnet(batch: int, parallel: bool) -> Call:
    """A step of ResNet-18."""
    join()
    return pytorch_resnet.training(network.task(batch), MODES["tf32"], wrap=wrapped if parallel else as_it_is)


def mlp(batch: int, parallel: bool) -> Call:
    """A step of the network of `minigrad bench --step`."""
    join()
    torch.backends.cuda.matmul.allow_tf32 = False
    layers: list[Any] = []
    weights = [torch.tensor(x, device="cuda") for x in steps.start()]
    for w, b in zip(weights[::2], weights[1::2], strict=True):
        layers += [torch.nn.Linear(*w.shape, device="cuda"), torch.nn.ReLU()]
        layers[-2].weight.data, layers[-2].bias.data = w.T.contiguous(), b
    model = (wrapped if parallel else as_it_is)(torch.nn.Sequential(*layers[:-1]))
    updates = torch.optim.SGD(model.parameters(), 0.05, 0.9, fused=True)
    x, y = (torch.tensor(part, device="cuda") for part in steps.batch())
    return _step(model, updates, lambda: functional.cross_entropy(model(x), y))


def gpt(batch: int, parallel: bool) -> Call:
    """A step of the character model."""
    join()
    return pytorch_transformer.training(CHARACTERS, "tf32", wrap=wrapped if parallel else as_it_is)


def _step(model: Any, updates: Any, loss: Any) -> Call:
    def step() -> Any:
        updates.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        updates.step()
        return value.detach()

    return step
