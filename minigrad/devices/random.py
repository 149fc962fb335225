"""Random numbers: the generator that `manual_seed` sets, and its state."""

import json
from typing import Any

import numpy as np

from minigrad.errors import require_int


class Generator:
    """The random numbers of `randn`, `uniform` and new layers: made on the host, so every device gets the same."""

    rng = np.random.default_rng()


def manual_seed(seed: int) -> None:
    """Seed the random numbers: the same seed gives the same tensors, on every device."""
    Generator.rng = np.random.default_rng(require_int("manual_seed", "seed", seed))


def random_state() -> np.ndarray:
    """The state of the random numbers as bytes, to be saved."""
    return np.frombuffer(json.dumps(Generator.rng.bit_generator.state).encode(), np.uint8)


def set_random_state(state: Any) -> None:
    """Go on with the random numbers from the state that `random_state` gave."""
    rng = np.random.default_rng()
    rng.bit_generator.state = json.loads(bytes(state))
    Generator.rng = rng
