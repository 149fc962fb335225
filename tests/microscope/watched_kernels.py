"""Small kernels for the tests of the microscope, and the one problem of each."""

from collections.abc import Iterable

import numpy as np

import minigrad as mg
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source

X = np.arange(1000, dtype=np.float32)
PARAMS = "const float* x, float* y, int n"


def source(body: str, params: str = PARAMS, name: str = "k") -> str:
    return f'extern "C" __global__ void {name}({params}) {{\n{body}\n}}\n'


def kernels(bodies: Iterable[str], params: str = PARAMS) -> list[Kernel]:
    """Kernels of one file, which is compiled once.

    A lock, a fence and a __syncwarp of some lanes change the check or the advice for the whole file that has them:
    bodies with these go into a file of their own.
    """
    bodies = list(bodies)
    file = Source("".join(source(body, params, f"k{i}") for i, body in enumerate(bodies)), "k.cu")
    return [Kernel(file, f"k{i}") for i in range(len(bodies))]


def line_of(text: str, mark: str) -> int:
    """The line that holds the mark."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if mark in line)


def look(body: str | Kernel, *args, params: str = PARAMS, block=64, grid=1, **named):
    """The one problem of a kernel, and its text."""
    kernel = source(body, params) if isinstance(body, str) else body
    text = kernel if isinstance(kernel, str) else kernel.source.text
    given = args or (X, np.zeros_like(X), 1000)
    record = mg.inspect(kernel, *given, grid=grid, block=block, **named)
    assert len(record.problems) == 1, record
    problem = record.problems[0]
    assert problem.text and problem.text in text
    return problem, text
