"""The arithmetics that the benchmark of ResNet-18 compares, with the errors that each allows."""

from contextlib import AbstractContextManager
from dataclasses import dataclass

from minigrad import rounding
from minigrad.rounding.autocast import autocast


@dataclass(frozen=True)
class Mode:
    """An arithmetic of the products: that of `mg.precision`, and the same one of PyTorch.

    unit: the rate that bounds it (see `Chip.peak`). logits: the error allowed in evaluation, as a part of the largest
    logit; loss: that of the first losses, relative; layer: that of a single layer, as a part of the largest element.
    layouts: those in which PyTorch is tried. dtype: of the arrays where a single layer is measured.
    """

    name: str
    precision: str
    unit: str
    logits: float
    loss: float
    layer: float
    layouts: tuple[str, ...] = ("NHWC",)
    dtype: str = "float32"
    tf32: bool = False  # PyTorch may round to TF32
    autocast: bool = False  # both compute in bfloat16 where their autocasts do

    def within(self) -> AbstractContextManager:
        """minigrad computes in this mode."""
        return autocast("bfloat16") if self.autocast else rounding.precision(self.precision)


# float32 has the error of float32 by either way: three products of TF32, or the exact one, which is slower.
MODES = {
    mode.name: mode
    for mode in (
        Mode("3xtf32", "3xtf32", "3xtf32", 5e-6, 1e-3, 1e-4, ("NHWC", "NCHW")),
        Mode("tf32", "tf32", "tf32", 2e-3, 2e-2, 2e-3, tf32=True),
        Mode("float32", "float32", "float32", 5e-6, 1e-3, 1e-4, ("NHWC", "NCHW")),
        Mode("bf16", "bf16", "bfloat16", 2e-2, 5e-2, 1e-2, dtype="bfloat16", autocast=True),
    )
}
STEPS = LAYERS = ("3xtf32", "tf32", "bf16")  # modes of whole training steps, and of single layers
ASKED = ("float32",)  # modes whose steps are measured only where one asks for them
