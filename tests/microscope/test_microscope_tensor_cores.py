"""Kernels for tensor cores under the microscope: their reads are seen, their owners, and what is wrong in mutants."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import View
from minigrad.lab.show.matmul_ladder import owners
from minigrad.microscope import watching
from minigrad.source import CUDA, Source

SIM, ONE = get("sim"), View.of((), ())
SIZES = 128, 256, 192  # one block; three stages of bfloat16, six of TF32


def numbers(name, *shapes):
    """Small whole numbers, whose product is exact."""
    dtype = np.float32 if "tf32" in name else pytest.importorskip("ml_dtypes").bfloat16
    rng = np.random.default_rng(0)
    return [rng.integers(-2, 3, shape).astype(dtype) for shape in shapes]


def inlined(text):
    """The text with the headers of products in it."""
    return re.sub(r'#include "(matmul/\w+\.cuh)"', lambda found: inlined((CUDA / found[1]).read_text()), text)


def mutant(name, *change):
    """The kernel of that name alone, with a change in its text or in the headers of products."""
    kernel = mg.matmul[name]
    text = inlined('#include "matmul/tensor_cores.cuh"\n') + kernel.text
    assert text.count(change[0]) == 1
    made = Kernel(Source(text.replace(*change), "mutant.cu", CUDA), kernel.name, shared=kernel.shared)
    made.grid, made.block, made.sizes = kernel.grid, kernel.block, kernel.sizes
    return made


def run(kernel):
    """The record of a kernel's launch, and the number of wrong elements."""
    m, n, k = SIZES
    a, b = numbers(kernel.name, (m, k), (k, n))
    out = Array.empty(SIM, (m, n), a.dtype)
    with watching(blocks=1) as report:
        kernel.launch(*SIZES)(*(Array.upload(SIM, x) for x in (a, b)), out, *SIZES, ONE, ONE)
    wrong = out.numpy() != (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)
    return report.launches[0], np.count_nonzero(wrong)


IN_THE_LOOP = "                copy_wait<STAGES - 2>();\n                __syncthreads();\n"
BEFORE_IT = "    copy_wait<STAGES - 2>();\n    __syncthreads();\n    fetch"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("place", "lost"),
    [(IN_THE_LOOP, "__syncthreads();"), (BEFORE_IT, "__syncthreads();"), (IN_THE_LOOP, "copy_wait<STAGES - 2>();")],
    ids=["barrier", "first barrier", "wait"],
)
def test_what_orders_the_stages_is_missed(place, lost):
    record, _ = run(mutant("mma_bf16", place, place.replace(lost, "")))
    assert {problem.kind for problem in record.problems} == {"race"}
    assert any("minigrad::load" in problem.text for problem in record.problems)


@pytest.mark.parametrize("name", ["mma_bf16", "mma_tf32"])
def test_exchanged_registers_make_a_wrong_product(name):
    record, wrong = run(mutant(name, f"minigrad::{name}(c, a, b0, b1)", f"minigrad::{name}(c, a, b1, b0)"))
    assert record.problems == [] and wrong > 128 * 256 / 2


def shared_reads(record):
    return [line for line in record.lines if (line.space, line.kind) == ("shared", "read")]


def test_a_lane_reads_the_row_that_it_gives():
    record, wrong = run(mg.matmul["mma_bf16"])
    assert record.problems == [] and wrong == 0
    fetched = 8 * 4 * (1 + 192 // 16)  # by eight warps, four of each factor, once ahead
    found = [(line.file, line.requests, line.bytes, line.bank_conflicts) for line in shared_reads(record)]
    assert found == [("cuda/matmul/mma.cuh", fetched, fetched * 32 * 16, 0)] * 2


def test_rows_without_padding_lie_in_the_same_banks():
    record, wrong = run(mutant("mma_bf16", "PITCH = WIDTH + (WAY == ALONG ? RUN : 8)", "PITCH = WIDTH"))
    assert record.problems == [] and wrong == 0
    assert [line.wavefronts / line.requests for line in shared_reads(record)] == [32, 32]


@pytest.mark.parametrize(("name", "wide"), [("mma_tf32", 64), ("mma_3xtf32", 32), ("mma_bf16", 64)])
def test_a_thread_owns_the_elements_that_its_instructions_give_it(name, wide):
    """A lane holds pairs in two rows of each piece of 16 x 8; the kernels of float32 compute the transpose."""
    a, b = (mg.tensor(x, device="sim") for x in numbers(name, (128, 8), (8, 128)))
    with watching(blocks=1) as report:
        mg.matmul.using(name)(a, b)
    row, column = np.mgrid[:128, :128]
    lane = (row % 8 < 2) & (column % 16 < 2) if "tf32" in name else (row % 8 == 0) & (column % 8 < 2)
    warp = (row < 64) & (column < wide)
    assert (owners(report.launches[0]) == 1 + warp + (warp & lane)).all()
