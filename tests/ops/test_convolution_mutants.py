"""Each classic mistake in a kernel of convolution, pooling or batch norm is found by the op's own cases."""

import re

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
    "channels last from 0": ("max_pool2d", "forward_nhwc", "{-INFINITY, -INFINITY, -INFINITY, -INFINITY}", "{}"),
    "channels last, NaN loses": ("max_pool2d", "forward_nhwc", " || value != value", ""),
    "channels last, the last of equals": ("max_pool2d", "forward_nhwc", "value > largest.at[lane]",
                       "value >= largest.at[lane]"),
    "unbiased variance in y": ("batch_norm", "forward_finish", "spread / terms;", "spread / (terms - 1);"),
    "biased variance in running": ("batch_norm", "forward_finish", "(spread / (terms - 1))", "(spread / terms)"),
    "momentum swapped": ("batch_norm", "forward_finish", "(1 - momentum) * running_mean[c] + momentum * center",
                       "momentum * running_mean[c] + (1 - momentum) * center"),
    "border counted": ("avg_pool2d", "backward", "/ terms(at, p, q, padded)", "/ (at.rows * at.columns)"),
}  # fmt: skip
WINDOW, POOLING, TAPS, NORM = "window.cuh", "pooling.cuh", "conv2d/taps.cuh", "batch_norm.cuh"
HEADERS = {
    "padding added": (WINDOW, "p * stride_y - top", "p * stride_y + top"),
    "stride on r": (WINDOW, "p * stride_y - top + r * dilation_y", "(p + r * dilation_y) * stride_y - top"),
    "dilation lost": (WINDOW, "+ s * dilation_x", "+ s"),
    "a row that wraps": (WINDOW, "&& 0 <= v && v < width", "&& h * width + v >= 0"),
    "one side only": (WINDOW, "0 <= h && h < height && 0 <= v && v < width", "h < height && v < width"),
    "no remainder": (WINDOW, "steps % stride == 0 && ", ""),
    "an output too many": (WINDOW, "steps / stride < extent", "steps / stride <= extent"),
    "rows on one side only": (POOLING, "if (h < 0 || h >= at.height) continue;", "if (h >= at.height) continue;"),
    "columns on one side only": (POOLING, "0 <= v && v < at.width;", "v < at.width;"),
    "padding of taps added": (TAPS, "-at.top, -at.left, at.dilation", "at.top, at.left, at.dilation"),
    "taps that wrap": (TAPS, "(unsigned)(v + t * at.step_x) < at.width ? 1u", "true ? 1u"),
    "no remainder in a parity": (TAPS, "(parity + before - first * dilation) % stride) ++first", "false) ++first"),
    "a window of the first column": (TAPS, "+ across) * at.channels", "+ 0) * at.channels"),
    "flipped taps of dx": (TAPS, "int r = y.first + t * y.every", "int r = rows - 1 - y.first - t * y.every"),
    "pixels of the next part": (TAPS, "pixel < stop && ", ""),
    "dx without the mean of dy": (NORM, "dz - share - (", "dz - ("),
    "dx without gamma": (NORM, "scale(of[c].scale), share", "scale(of.inverse(c)), share"),
    "dx without the slope": (NORM, "(slope == 0 ? wide(0) : slope * (x - mean))", "wide(0)"),
    "eps outside the root": (NORM, "rsqrt(var[c] + eps); }", "1 / (sqrt(var[c]) + eps); }"),
}
OF_HEADER = {WINDOW: mg.conv2d, POOLING: mg.max_pool2d, TAPS: mg.conv2d.using("register_tile"), NORM: mg.batch_norm}
EQUAL = [  # ties are rare among random numbers
    Case((np.ones((1, channels, 4, 4)),), {"size": 2}, channels_last=channels > 1) for channels in (1, 4)
]


def every_second(mistakes):
    """Their names; the others are for `make soak`."""
    return [pytest.param(name, marks=[pytest.mark.soak] * (i % 2)) for i, name in enumerate(mistakes)]


def caught(op, change):
    """True if one of the op's cases finds a fault in its kernels, where `change` gives other texts to their files."""
    copies = {}
    for kernel in op.kernels.values():
        if (text := change(kernel.source.text)) != kernel.source.text:
            copies[id(kernel)] = changed(kernel, Source(text, kernel.source.name, CUDA))
    assert copies
    mutant = op.with_kernels({role: copies.get(id(kernel), kernel) for role, kernel in op.kernels.items()})
    tiles = op["forward"].name == "conv2d_register_tile"  # which take one group
    for case in (*op.cases, *EQUAL * (op.name == "max_pool2d")):
        try:
            if not tiles or case.params.get("groups", 1) == 1:
                check.bounds(mutant, case)
        except (check.ValueMismatch, check.KernelError):
            return True
    return False


def with_header(text, header, body, seen=None):
    """The text with this body in place of a header, and with the headers that include it."""
    seen = set() if seen is None else seen

    def content(match):
        own = (CUDA / match[1]).read_text()
        new = body if match[1] == header else with_header(own, header, body, seen)
        if new == own:
            return match[0]
        first, _ = match[1] not in seen, seen.add(match[1])
        return new.replace("#pragma once", "") if first else ""

    return re.sub(r'#include "([\w/]+\.cuh)"', content, text)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", every_second(MUTANTS))
def test_a_mutant_of_a_kernel_is_killed(name):
    op, kernel, old, new = MUTANTS[name]
    op = mg.OPS[op]
    text = op[kernel].source.text
    start = text.index(f"{op[kernel].name}(")
    assert old in text[start:]
    mutant = text[:start] + text[start:].replace(old, new, 1)
    assert caught(op, lambda other: mutant if other == text else other)


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", every_second(HEADERS))
def test_a_mutant_of_a_header_is_killed(name):
    header, old, new = HEADERS[name]
    text = (CUDA / header).read_text()
    assert text.count(old) == 1
    assert caught(OF_HEADER[header], lambda file: with_header(file, header, text.replace(old, new)))


@pytest.mark.sample(2)
@pytest.mark.parametrize("header", OF_HEADER)
def test_the_kernels_as_they_are_live(header):
    text = (CUDA / header).read_text()
    for op in {OF_HEADER[header], mg.avg_pool2d} if header == POOLING else [OF_HEADER[header]]:
        assert not caught(op, lambda file: with_header(file, header, f"{text}\n// the same"))


def changed(kernel, source):
    """The kernel with another text."""
    made = Kernel(source, kernel.name, sizes=" ".join(kernel.sizes), **kernel.tunables)
    made.grid, made.block, made.sizes = kernel.grid, kernel.block, kernel.sizes
    return made
