"""Random numbers: the generator that `manual_seed` sets, the masks of dropout, and the state of both."""

from __future__ import annotations  # NumPy imports np.random when it is first named, which takes a while

import json
import os
from typing import Any, ClassVar

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import device_of
from minigrad.errors import require_int


class Generator:
    """The random numbers of `randn`, `uniform` and new layers: made on the host, so every device gets the same.

    Those of dropout are made by kernels, from the seed and a number that grows with each mask, `masks[device]`: both
    lie in the memory of the device, as uint64 (2,), since a captured step goes on by itself.
    """

    made: ClassVar[np.random.Generator | None] = None  # by `rng` at its first use
    seed = int.from_bytes(os.urandom(8), "little")
    masks: ClassVar[dict[str, int]] = {}  # of devices whose state is not made yet, where that is not 0
    states: ClassVar[dict[str, Any]] = {}  # by device: a NumPy array, or an Array

    @classmethod
    def rng(cls) -> np.random.Generator:
        """NumPy's generator."""
        if cls.made is None:
            cls.made = np.random.default_rng()
        return cls.made


def manual_seed(seed: int) -> None:
    """Seed the random numbers: the same seed gives the same tensors, on every device."""
    Generator.made = np.random.default_rng(require_int("manual_seed", "seed", seed))
    _start(seed, {})


def dropout_state(array: Any) -> Any:
    """The seed, and the number of the next mask, on the device of an array."""
    name = device_of(array)
    if name not in Generator.states:
        host = np.array([Generator.seed, Generator.masks.get(name, 0)], np.uint64)
        Generator.states[name] = Array.upload(array.device, host) if isinstance(array, Array) else host
    return Generator.states[name]


def random_state() -> np.ndarray:
    """The state of all random numbers as bytes, to be saved."""
    made = {name: int((x.numpy() if isinstance(x, Array) else x)[1]) for name, x in Generator.states.items()}
    state = {"rng": Generator.rng().bit_generator.state, "seed": Generator.seed, "masks": Generator.masks | made}
    return np.frombuffer(json.dumps(state).encode(), np.uint8)


def set_random_state(state: Any) -> None:
    """Go on with the random numbers from the state that `random_state` gave."""
    found, rng = json.loads(bytes(state)), np.random.default_rng()
    rng.bit_generator.state, Generator.made = found["rng"], rng
    _start(found["seed"], found["masks"])


def _start(seed: int, masks: dict[str, int]) -> None:
    """Write the seed and the numbers of the next masks where they are: a captured step reads them there."""
    Generator.seed, Generator.masks = seed % 2**64, masks
    for name, state in Generator.states.items():
        host = np.array([Generator.seed, masks.get(name, 0)], np.uint64)
        if isinstance(state, Array):
            state.device.upload(state.address, host)
        else:
            state[:] = host
