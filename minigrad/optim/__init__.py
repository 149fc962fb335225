"""Optimizers, SGD with momentum and Adam, and schedules of their learning rate."""

from minigrad.optim.adam import Adam
from minigrad.optim.optimizer import SGD, SGD_STEP, Optimizer
from minigrad.optim.schedules import CosineAnnealingLR, Schedule, StepLR

__all__ = ["SGD", "SGD_STEP", "Adam", "CosineAnnealingLR", "Optimizer", "Schedule", "StepLR"]
