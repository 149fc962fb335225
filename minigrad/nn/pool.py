"""Layers without parameters that make images smaller, and in the end a row of numbers of each."""

from typing import Any

from minigrad.kernels.window import pair
from minigrad.nn.module import Module
from minigrad.operators import OPS
from minigrad.tensor import Tensor


class MaxPool2d(Module):
    """The largest number under each place of a window: `mg.max_pool2d(x, size, stride, padding, dilation)`."""

    def __init__(self, size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, **like: Any):
        super().__init__(**like)
        for name, value in (("size", size), ("stride", size if stride is None else stride), ("dilation", dilation)):
            pair("MaxPool2d", name, value, 1)
        self.size, self.stride, self.padding, self.dilation = size, stride, padding, dilation

    def forward(self, x: Tensor) -> Tensor:
        """max_pool2d of x (N, C, H, W)."""
        params = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}
        return OPS["max_pool2d"](x, size=self.size, **params)

    def __repr__(self) -> str:
        dilation = f", dilation={self.dilation}" * (self.dilation != 1)
        return f"MaxPool2d({self.size}{dilation})"


class AvgPool2d(Module):
    """The mean under each place of a window: `mg.avg_pool2d(x, size, stride, padding)`."""

    def __init__(self, size: Any, stride: Any = None, padding: Any = 0, *, count_include_pad: bool = True, **like: Any):
        super().__init__(**like)
        for name, value in (("size", size), ("stride", size if stride is None else stride)):
            pair("AvgPool2d", name, value, 1)
        self.size, self.stride, self.padding, self.count_include_pad = size, stride, padding, count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        """avg_pool2d of x (N, C, H, W)."""
        params = {"stride": self.stride, "padding": self.padding, "count_include_pad": self.count_include_pad}
        return OPS["avg_pool2d"](x, size=self.size, **params)

    def __repr__(self) -> str:
        return f"AvgPool2d({self.size})"


class GlobalAvgPool2d(Module):
    """The mean of each channel: (N, C, H, W) -> (N, C)."""

    def forward(self, x: Tensor) -> Tensor:
        """The mean over height and width."""
        return OPS["mean"](x, axis=(2, 3))


class Flatten(Module):
    """All axes but the first as one: (N, C, H, W) -> (N, C H W)."""

    def forward(self, x: Tensor) -> Tensor:
        """flatten(x, 1)."""
        return OPS["flatten"](x, start_dim=1)
