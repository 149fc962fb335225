"""Optimizers: SGD with momentum, Adam."""

from minigrad.optim.adam import Adam
from minigrad.optim.optimizer import SGD, SGD_STEP, Optimizer

__all__ = ["SGD", "SGD_STEP", "Adam", "Optimizer"]
