"""Attention in tiles with one error in its text: each makes a wrong result."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad.ops.attention import flash
from minigrad.source import CUDA, Source

RUNG = flash.RUNGS["register_tile"]
# The kernel's way, and what is written for what.
MUTANTS = {
    "the maximum begins at 0": ("", "most[i] = -INFINITY;", "most[i] = 0;"),
    "the sum is not rescaled": ("", "sum(i, j) *= kept;", ";"),
    "the total is not rescaled": ("", ", total[i] *= kept;", ";"),
    "causal is off by one": ("", "key > query + keys - queries", "key >= query + keys - queries"),
    "causal begins at the top left": ("", "key > query + keys - queries", "key > query"),
    "the last keys are not hidden": ("", "key >= keys || ", ""),
    "gradients begin from another maximum": ("", "none ? 0 : most[i] * LN_2", "0"),
    "gradients lack the total": ("", "/ total[i];", ";"),
    "dots are left out of dq": ("_backward_queries", "(slope(i, j) - dot[i])", "slope(i, j)"),
    "dots are left out of dk": ("_backward_keys", "s *= slope(i, j) - dot[W::column(j)];", "s *= slope(i, j);"),
    "the scale is missing in dk": ("_backward_keys", "key_sum, i, of.width, scale", "key_sum, i, of.width, 1"),
    "one head of a group is left out": ("_backward_keys", "number < tiles * of.group", "number < tiles"),
}


def mutant(way, old, new):
    """The kernel with its headers in its text, and the change in these."""
    kernel = RUNG.kernel(way)

    def inlined(text):
        return re.sub(r'#include "(attention/\w+\.cuh)"', lambda found: inlined((CUDA / found[1]).read_text()), text)

    text = inlined((CUDA / kernel.source.name.removeprefix("cuda/")).read_text()).replace("#pragma once\n", "")
    assert text.count(old) == 1 or not old
    kernel.source = Source(text.replace(old, new) if old else text, "mutant.cu", CUDA)
    return kernel


def errors(op, device, causal=True):
    """The largest errors of y, dq, dk and dv: scores far below 0, growing maxima, grouped heads, ragged tiles."""
    rng = np.random.default_rng(0)
    q, k, v, dy = (
        rng.standard_normal(size).astype("f") for size in ((1, 2, 70, 8), *[(1, 1, 133, 8)] * 2, (1, 2, 70, 8))
    )
    q[..., 0], k[..., 0] = 8, -60 + np.arange(133)[:, None].T / 8
    found = []
    for on, dtype in ((device, "float32"), ("numpy", "float64")):
        xs = [mg.tensor(x, True, on, dtype) for x in (q, k, v)]
        y = (op if on != "numpy" else mg.attention)(*xs, causal=causal)
        y.backward(mg.tensor(dy, device=on, dtype=dtype))
        found.append([x.numpy() for x in (y, *(x.grad for x in xs))])
    return [np.abs(a - b).max() / np.abs(b).max() for a, b in zip(*found, strict=True)]


def test_the_text_as_it_is_makes_no_error():
    op = mg.attention
    for way in flash.WAYS[:3]:
        op = op.with_kernel(f"register_tile{way}", mutant(way, "", ""))
    assert max(errors(op.using("register_tile"), "sim")) < 1e-4


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", MUTANTS)
def test_an_error_shows(name):
    way, old, new = MUTANTS[name]
    op = mg.attention.with_kernel(f"register_tile{way}", mutant(way, old, new)).using("register_tile")
    assert not all(error < 1e-2 for error in errors(op, "sim", causal="causal" in name))
