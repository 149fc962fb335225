"""Schedules: the learning rate of an optimizer from step to step, with a linear warm-up."""

from math import cos, pi
from typing import Any

import numpy as np

from minigrad.devices.state import fitting
from minigrad.errors import require, require_int, require_number
from minigrad.optim.optimizer import Optimizer
from minigrad.tape import mode


class Schedule:
    """lr = rate(number of steps so far), from the optimizer's lr, `base`, on.

    Call `step()` after each `optimizer.step()`, or after each epoch if the schedule counts epochs; in a step of
    `mg.graph`, too. In the first `warmup` steps lr rises to base in a line: base / (warmup + 1), 2 base / (warmup + 1),
    and so on; then the schedule begins.
    """

    def __init__(self, optimizer: Optimizer, warmup: int = 0):
        who = type(self).__name__
        self.optimizer = require(who, optimizer, Optimizer, "an optimizer")
        self.base, self.steps, self.warmup = optimizer.lr, 0, require_int(who, "warmup", warmup)
        self._set()

    def rate(self, t: int) -> float:
        """lr after t steps, not counting the warm-up."""
        raise NotImplementedError

    def step(self) -> None:
        """Go on to the rate of the next step."""
        if mode.recorder:
            mode.recorder.repeats(self.step, sets_rates=True)
        else:
            self.steps += 1
            self._set()

    def _set(self) -> None:
        rising = self.base * (self.steps + 1) / (self.warmup + 1)
        self.optimizer.lr = rising if self.steps < self.warmup else self.rate(self.steps - self.warmup)

    def state_dict(self) -> dict[str, np.ndarray]:
        """base and the number of steps, to be saved."""
        return {"base": np.array(self.base), "steps": np.array(self.steps)}

    def load_state_dict(self, state: Any) -> None:
        """Go on as the schedule with this `state_dict()`. Raises KeyError or ValueError; then nothing has changed."""
        new = fitting(f"{type(self).__name__}.load_state_dict", state, self.state_dict())
        self.base, self.steps = new["base"].item(), new["steps"].item()
        self._set()

    def __repr__(self) -> str:
        return f"{type(self).__name__}: lr={self.optimizer.lr:g} after {self.steps} step{'s' * (self.steps != 1)}"


class StepLR(Schedule):
    """lr = base gamma^(t // step_size): it falls by a factor of gamma every step_size steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, warmup: int = 0):
        self.step_size = require_int("StepLR", "step_size", step_size, 1)
        self.gamma = require_number("StepLR", "gamma", gamma)
        super().__init__(optimizer, warmup)

    def rate(self, t: int) -> float:
        """base gamma^(t // step_size)."""
        return self.base * self.gamma ** (t // self.step_size)


class CosineAnnealingLR(Schedule):
    """lr = eta_min + (base - eta_min) (1 + cos(pi t / T)) / 2: from base to eta_min in half a wave.

    T is T_max less the warm-up: so eta_min is reached after T_max steps. Later the rate would rise again. Source:
    Loshchilov and Hutter, SGDR: stochastic gradient descent with warm restarts, 2017.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, warmup: int = 0):
        self.length = require_int("CosineAnnealingLR", "T_max", T_max, 1) - warmup
        if self.length < 1:
            raise ValueError(f"CosineAnnealingLR: warmup={warmup} must be shorter than T_max={T_max}.")
        self.eta_min = require_number("CosineAnnealingLR", "eta_min", eta_min)
        super().__init__(optimizer, warmup)

    def rate(self, t: int) -> float:
        """eta_min + (base - eta_min) (1 + cos(pi t / T)) / 2."""
        return self.eta_min + (self.base - self.eta_min) * (1 + cos(pi * t / self.length)) / 2
