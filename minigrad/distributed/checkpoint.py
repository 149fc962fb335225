"""Checkpoints of a job: rank 0 writes the file, and every rank goes on from it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from minigrad.devices.random import random_state, set_random_state
from minigrad.distributed.world import init
from minigrad.nn import checkpoint
from minigrad.nn.module import Module

RANKS = "random numbers of rank"  # those of rank 0 are the ones that mg.save itself keeps
Result = TypeVar("Result")


def save(path: str | Path, state: Any = None, /, **parts: Any) -> None:
    """`mg.save` for a job: all ranks call it, rank 0 writes the file, whole or not at all, and the others wait for it.

    It holds the parameters, buffers and numbers of rank 0, the states of a `ZeroRedundancyOptimizer` from all ranks,
    and with parts the random numbers of every rank. Where rank 0 cannot write it, all ranks raise ValueError.
    """

    def write() -> None:
        named = {name: _state_of(value) for name, value in parts.items()}  # a collective for split states
        if parts and world.size > 1:
            every = world.comm.allgather(random_state())
            named[RANKS] = {str(rank): numbers for rank, numbers in enumerate(every) if rank}
        if world.rank == 0:
            checkpoint.save(path, state, **named)

    world = init()
    world.agree("save", *parts)
    _together("save", write)


def load(path: str | Path, model: Module | None = None, /, **parts: Any) -> dict[str, np.ndarray]:
    """`mg.load` for a job: each rank reads the file and goes on from it, with its own random numbers and split states.

    The job may have another number of ranks than the one that saved; a rank that was not there keeps its random
    numbers. Where one cannot read the file, all ranks raise.
    """

    def read() -> dict[str, np.ndarray]:
        before = random_state()
        rest = checkpoint.load(path, model, **parts)
        others = {name: rest.pop(name) for name in [*rest] if name.startswith(RANKS)}
        if parts and world.rank:
            set_random_state(others.get(f"{RANKS}.{world.rank}", before))
        return rest

    world = init()
    world.agree("load", *parts)
    return _together("load", read)


def _together(call: str, work: Callable[[], Result]) -> Result:
    """The result of the work, once every rank has done it. Raises on every rank where one could not."""
    try:
        result = work()
    except Exception as error:  # of the file, or of a part
        init().agree(f"an error in {call}: {error}".rstrip("."))
        raise
    init().agree(f"the end of {call}")
    return result


def _state_of(value: Any) -> Any:
    return value.state_dict() if hasattr(value, "state_dict") else value
