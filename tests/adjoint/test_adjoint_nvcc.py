"""nvcc accepts every adjoint, without a warning, in float and in double."""

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from adjoint_rungs import RUNGS

import minigrad as mg
from minigrad.devices.cuda.toolkit import find_nvcc

CUDA = Path(__file__).parents[2] / "cuda"
NVCC = find_nvcc()
KERNELS = {(k.name, *k.defines.items()): rung for rung, (k, *_) in RUNGS.items()}  # rungs may share a kernel
CASES = [(rung, real) for rung in KERNELS.values() for real in ("float", "double")]

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc on this machine")


@pytest.fixture(scope="module")
def builds(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[dict[tuple[str, str], Future]]:
    """The builds of all selected tests, started together over the cores."""
    chosen = [item.callspec.params["case"] for item in request.session.items if item.path == request.path]
    folder = tmp_path_factory.mktemp("adjoints")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {case: pool.submit(build, folder, *case) for case in chosen}


def build(folder: Path, rung: str, real: str) -> subprocess.CompletedProcess[str]:
    made = mg.adjoint(RUNGS[rung][0])
    file = folder / f"{rung.replace(' ', '_')}_{real}.cu"
    file.write_text(made.source)
    defines = [f"-D{name}={value}" for name, value in made.defines.items()]
    options = ["-std=c++17", "-cubin", "-arch=sm_90", "-Werror", "all-warnings", f"-I{CUDA}", "-o", os.devnull]
    command = [NVCC, *options, f"-Dreal={real}", *defines, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_adjoints_compile(builds, case):
    done = builds[case].result()
    assert done.returncode == 0, done.stdout + done.stderr
