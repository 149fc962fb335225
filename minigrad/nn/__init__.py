"""Parts of networks: modules with parameters and buffers by name. They compute with ops, so the tape records them."""

from typing import Any

import numpy as np

from minigrad.devices.dtypes import to_host
from minigrad.errors import require
from minigrad.nn.conv import Conv2d
from minigrad.nn.dropout import Dropout
from minigrad.nn.embedding import Embedding
from minigrad.nn.fold import folded
from minigrad.nn.linear import Linear
from minigrad.nn.module import Module, Sequential
from minigrad.nn.normalization import BatchNorm2d, LayerNorm, RMSNorm
from minigrad.nn.pool import AvgPool2d, Flatten, GlobalAvgPool2d, MaxPool2d
from minigrad.nn.recurrent import GRU, LSTM, RNN
from minigrad.nn.resnet import Residual, ResNet, resnet18
from minigrad.nn.transformer import GPT, MultiHeadAttention, TransformerBlock, gpt
from minigrad.ops.cross_entropy import check_labels
from minigrad.tensor import Tensor

__all__ = [
    "GPT", "GRU", "LSTM", "RNN", "AvgPool2d", "BatchNorm2d", "Conv2d", "Dropout", "Embedding", "Flatten",
    "GlobalAvgPool2d", "LayerNorm", "Linear", "MaxPool2d", "Module", "MultiHeadAttention", "RMSNorm", "ResNet",
    "Residual", "Sequential", "TransformerBlock", "accuracy", "folded", "gpt", "resnet18",
]  # fmt: skip


def accuracy(logits: Tensor, labels: Any) -> float:
    """The fraction of rows whose largest logit is at the label, from 0 to 1."""
    require("accuracy", logits, Tensor, "logits as a tensor")
    labels = to_host(labels, who="accuracy: labels")
    if logits.ndim != 2 or not logits.size or labels.shape != logits.shape[:1]:
        raise ValueError(
            f"accuracy: logits {logits.shape} and labels {labels.shape}; give (rows, classes) and (rows,)."
        )
    check_labels("accuracy", labels, logits.shape[1])
    scores = logits.numpy()
    if lost := np.flatnonzero(np.isnan(scores).any(axis=1)).tolist():
        raise ValueError(f"accuracy: the logits of {len(lost)} rows hold NaN, row {lost[0]} first; nothing is largest.")
    return float((scores.argmax(axis=1) == labels).mean())
