"""Optimizers, SGD with momentum, Adam and AdamW, schedules of their learning rate, and clipping of gradients."""

from minigrad.optim.adam import Adam, AdamW
from minigrad.optim.clipping import clip_grad_norm
from minigrad.optim.optimizer import SGD, SGD_STEP, Optimizer
from minigrad.optim.schedules import CosineAnnealingLR, Schedule, StepLR

__all__ = [
    "SGD", "SGD_STEP", "Adam", "AdamW", "CosineAnnealingLR", "Optimizer", "Schedule", "StepLR", "clip_grad_norm",
]  # fmt: skip
