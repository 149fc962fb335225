"""Each classic mistake in a kernel of convolution or pooling is found by the op's own cases."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import check
from minigrad.kernels.kernel import Kernel
from minigrad.op import Case
from minigrad.source import CUDA, Source

MUTANTS = {
    "flipped kernel": ("conv2d", "naive", "w[((k * each + c) * at.rows + r) * at.columns + s]",
                       "w[((k * each + c) * at.rows + at.rows - 1 - r) * at.columns + at.columns - 1 - s]"),
    "h and w swapped": ("conv2d", "naive", "x[row * at.width + v]", "x[(row - h + v) * at.width + h]"),
    "rows and columns swapped": ("conv2d", "backward_x", "at.rows + r) * at.columns + s",
                       "at.columns + s) * at.rows + r"),
    "flipped in the gradient": ("conv2d", "backward_x", "* at.columns + s];", "* at.columns + at.columns - 1 - s];"),
    "group offset": ("conv2d", "naive", "k / (kernels / groups) * each", "0"),
    "group offset of dx": ("conv2d", "backward_x", "channel / each * share", "0"),
    "group offset of dw": ("conv2d", "backward_w", "k / (kernels / groups) * each + c", "c"),
    "dy of the first image": ("conv2d", "backward_w", "dy[(n * kernels + k)", "dy[k"),
    "padding with 0": ("max_pool2d", "forward",
                       "if (!at.inside(h, v)) continue;\n            wide value = x[h * at.width + v]",
                       "wide value = at.inside(h, v) ? wide(x[h * at.width + v]) : wide(0)"),
    "NaN loses": ("max_pool2d", "forward", " || value != value", ""),
    "the last of equals": ("max_pool2d", "forward", "value > largest", "value >= largest"),
    "border counted": ("avg_pool2d", "backward", "/ terms(at, p, q, padded)", "/ (at.rows * at.columns)"),
}  # fmt: skip
GEOMETRY = {
    "padding added": ("p * stride_y - top", "p * stride_y + top"),
    "stride on r": ("p * stride_y - top + r * dilation_y", "(p + r * dilation_y) * stride_y - top"),
    "dilation lost": ("+ s * dilation_x", "+ s"),
    "a row that wraps": ("&& 0 <= v && v < width", "&& h * width + v >= 0"),
    "one side only": ("0 <= h && h < height && 0 <= v && v < width", "h < height && v < width"),
    "no remainder": ("steps % stride == 0 && ", ""),
    "an output too many": ("steps / stride < extent", "steps / stride <= extent"),
}
EQUAL = Case((np.ones((1, 1, 4, 4)),), {"size": 2})  # ties are rare among random numbers


def caught(op, text):
    """True if one of the op's cases finds a fault in its kernels of one file with another text of that file."""
    file = op["backward_x" if op.name == "conv2d" else "backward"].source
    source = Source(text, file.name, CUDA)
    same = {name: changed(kernel, source) for name, kernel in op.kernels.items() if kernel.source is file}
    mutant = op.with_kernels({**op.kernels, **same})
    for case in (*op.cases, *[EQUAL] * (op.name == "max_pool2d")):
        try:
            check.bounds(mutant, case)
        except (check.ValueMismatch, check.KernelError):
            return True
    return False


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_of_a_kernel_is_killed(name):
    op, kernel, old, new = MUTANTS[name]
    op = mg.OPS[op]
    text = op[kernel].source.text
    start = text.index(f"{op[kernel].name}(")
    assert old in text[start:]
    assert caught(op, text[:start] + text[start:].replace(old, new, 1))


@pytest.mark.parametrize("name", GEOMETRY)
def test_a_mutant_of_the_geometry_is_killed(name):
    old, new = GEOMETRY[name]
    header = (CUDA / "window.cuh").read_text()
    assert header.count(old) == 1
    changed_header = header.replace(old, new).replace("#pragma once", "")
    text = mg.conv2d["naive"].source.text
    assert caught(mg.conv2d, text.replace('#include "window.cuh"', changed_header))


def test_the_kernels_as_they_are_live():
    for name in ("conv2d", "max_pool2d", "avg_pool2d"):
        assert not caught(mg.OPS[name], mg.OPS[name]["backward_x" if name == "conv2d" else "backward"].source.text)


def changed(kernel, source):
    """The kernel with another text."""
    made = Kernel(source, kernel.name, sizes=" ".join(kernel.sizes), **kernel.tunables)
    made.grid, made.block, made.sizes = kernel.grid, kernel.block, kernel.sizes
    return made
