"""ResNet-18: four stages of residual blocks, each half as wide and high as the one before, with twice the channels.

He, Zhang, Ren and Sun, "Deep residual learning for image recognition", CVPR 2016.
"""

from typing import Any

from minigrad.nn.conv import Conv2d
from minigrad.nn.fold import convolved
from minigrad.nn.linear import Linear
from minigrad.nn.module import Module, Sequential
from minigrad.nn.normalization import BatchNorm2d
from minigrad.nn.pool import GlobalAvgPool2d, MaxPool2d
from minigrad.tensor import Tensor


class Residual(Module):
    """relu(body(x) + x), the body two convolutions of 3 x 3, each with a batch norm.

    Where the body changes the shape, x goes through a convolution of 1 x 1 instead, `downsample`. The sum is what makes
    deep networks train: its gradient reaches x undiminished.
    """

    norms = (("conv1", "bn1"), ("conv2", "bn2"))

    def __init__(self, inputs: int, outputs: int, stride: int = 1, **like: Any):
        self.conv1 = Conv2d(inputs, outputs, 3, stride, 1, bias=False, **like)
        self.bn1 = BatchNorm2d(outputs, **like)
        self.conv2 = Conv2d(outputs, outputs, 3, 1, 1, bias=False, **like)
        self.bn2 = BatchNorm2d(outputs, **like)
        if stride != 1 or inputs != outputs:
            self.downsample = Sequential(
                Conv2d(inputs, outputs, 1, stride, bias=False, **like), BatchNorm2d(outputs, **like)
            )

    def forward(self, x: Tensor) -> Tensor:
        """relu(bn2(conv2(relu(bn1(conv1(x))))) + x)."""
        y = convolved(x, self.conv1, self.bn1)
        return convolved(y, self.conv2, self.bn2, self.downsample(x) if hasattr(self, "downsample") else x)


class ResNet(Module):
    """A stem, stages of residual blocks, the mean of each channel, and a linear layer. Names are those of torchvision.

    widths gives the channels of each stage, blocks its number of blocks. stem: "imagenet" for large images, a strided
    convolution of 7 x 7 and a pooling; "small" for images of 8 to 64 pixels, a convolution of 3 x 3.
    """

    norms = (("conv1", "bn1"),)

    def __init__(
        self, classes: int, stem: str = "imagenet", channels: int = 3, widths: tuple[int, ...] = (64, 128, 256, 512),
        blocks: int = 2, **like: Any,
    ):  # fmt: skip
        if stem not in ("imagenet", "small"):
            raise ValueError(f"resnet: stem={stem!r} is not one of imagenet, small.")
        size, stride, padding = (7, 2, 3) if stem == "imagenet" else (3, 1, 1)
        self.conv1 = Conv2d(channels, widths[0], size, stride, padding, bias=False, **like)
        self.bn1 = BatchNorm2d(widths[0], **like)
        self._pool = MaxPool2d(3, 2, 1) if stem == "imagenet" else None
        inputs = widths[0]
        for number, width in enumerate(widths, 1):
            steps = [1 if number == 1 else 2, *[1] * (blocks - 1)]
            parts = [Residual(width if i else inputs, width, step, **like) for i, step in enumerate(steps)]
            setattr(self, f"layer{number}", Sequential(*parts))
            inputs = width
        self._stages, self._mean = len(widths), GlobalAvgPool2d()
        self.fc = Linear(inputs, classes, **like)

    def forward(self, x: Tensor) -> Tensor:
        """The logits (N, classes) of images (N, channels, H, W)."""
        x = convolved(x, self.conv1, self.bn1)
        x = x if self._pool is None else self._pool(x)
        for number in range(1, self._stages + 1):
            x = getattr(self, f"layer{number}")(x)
        return self.fc(self._mean(x))


def resnet18(classes: int = 1000, stem: str = "imagenet", channels: int = 3, **like: Any) -> ResNet:
    """ResNet-18, with device= and dtype= for its parameters."""
    return ResNet(classes, stem, channels, **like)
