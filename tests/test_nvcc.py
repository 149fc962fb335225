"""Every `.cu` compiles with the real nvcc, without a warning, for every GPU since 2018, in float and in double."""

import os
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from minigrad.devices.toolkit import find_nvcc

CUDA = Path(__file__).parent.parent / "cuda"
NVCC = find_nvcc()
CASES = [(path.name, real) for path in sorted(CUDA.glob("*.cu")) for real in ("float", "double")]
OPTIONS = ["-std=c++17", "--fatbin", "-Werror", "all-warnings", "-o", os.devnull]
TARGETS = [f"-gencode=arch=compute_{sm},code=sm_{sm}" for sm in (75, 80, 90, 100)]

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc on this machine")


@pytest.fixture(scope="module")
def builds() -> dict[tuple[str, str], Future]:
    """All builds, started together over the cores."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {case: pool.submit(build, *case) for case in CASES}


def build(name: str, real: str) -> subprocess.CompletedProcess[str]:
    command = [NVCC, *OPTIONS, *TARGETS, f"-Dreal={real}", name]
    return subprocess.run(command, cwd=CUDA, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_kernels_compile(builds, case):
    done = builds[case].result()
    assert done.returncode == 0, done.stdout + done.stderr
