"""Every `.cu` compiles with the real nvcc, without a warning, for GPUs since 2018: float here, all types in a soak."""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from minigrad.devices.cuda.toolkit import find_nvcc

CUDA = Path(__file__).parents[2] / "cuda"
NVCC = find_nvcc()
# Most of a small file's time goes into CUDA's own headers, so those are compiled as one: their helpers need names of
# their own, and a missing #include shows on `sim` only, which compiles each file alone. The others are large.
FILES = [
    path.relative_to(CUDA).as_posix()
    for folder in ("", "attention/", "conv2d/", "bench/", "matmul/", "recurrent/")
    for path in sorted(CUDA.glob(f"{folder}*.cu"))
]
PTX = [name for name in FILES if re.search("tensor_cores|wgmma|cluster", name)]  # of types or GPUs of their own
TOGETHER = [name for name in FILES if name not in PTX and not name.startswith(("attention/", "matmul/"))]
# not of bfloat16
EXACT = ("matmul", "optim", "recurrent", "conv2d/register_tile", "conv2d/halo_tile", "conv2d/winograd")
OPTIONS = ["-I.", "-std=c++17", "--fatbin", "-Werror", "all-warnings", "-o", os.devnull]
FEW = ("-gencode=arch=compute_75,code=sm_75", "-gencode=arch=compute_90,code=sm_90")
PTX_ALONE = tuple(f"-gencode=arch=compute_{arch},code=compute_{arch}" for arch in (75, 90))
ALL = ("-gencode=arch=compute_75,code=[sm_75,sm_80]", "-gencode=arch=compute_90,code=[sm_90,sm_100]")
TENSOR_CORES = FEW[1:]  # of sm_80 and later: earlier ones have no bfloat16
# All errors and warnings of the language come before the optimizer, whose own are for `make soak`, as are other types,
# machine code of small files, and newer GPUs for a large file that needs none. PTX in a text needs constants, which
# only the optimizer finds.
UNOPTIMIZED = ("-Xptxas", "-O0")
HOPPER = ["-gencode=arch=compute_90a,code=sm_90a"]
CASES = [
    pytest.param(
        (tuple(files), real, FEW if not flags else PTX_ALONE if len(files) > 1 else FEW[:1], flags),
        id=f"{files[0] if len(files) == 1 else 'small files'}-{real}{'' if flags else '-optimized'}",
        marks=() if flags and real == "float" else pytest.mark.soak,
    )
    for files in (TOGETHER, *([name] for name in FILES if name not in TOGETHER))
    for real, flags in (("float", UNOPTIMIZED), ("float", ()), ("double", UNOPTIMIZED))
    if real == "float" or files[0] not in PTX or "cluster" in files[0]
]
HALVES = ("recurrent/persistent_tensor_cores.cu",), "float", FEW, ("-DARITHMETIC=Half3", "-DCELL=2", *UNOPTIMIZED)
CASES.append(pytest.param(HALVES, id="recurrent/persistent_tensor_cores.cu-Half3"))
NARROW = tuple(name for name in TOGETHER if not name.startswith(EXACT))
CASES += [
    pytest.param((files, *how), id=f"small files-{name}", marks=pytest.mark.soak)
    for name, files, *how in (
        ("bfloat16", NARROW, "bfloat16", FEW, UNOPTIMIZED), ("four generations", tuple(TOGETHER), "float", ALL, ()),
    )
]  # fmt: skip

pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc on this machine")


@pytest.fixture(scope="module")
def builds(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[dict[tuple, Future]]:
    """The builds of all tests that were asked for, started together over the cores."""
    chosen = [item.callspec.params["case"] for item in request.session.items if item.path == request.path]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {case: pool.submit(build, *case, tmp_path_factory.mktemp("nvcc")) for case in chosen}


def build(
    files: tuple[str, ...], real: str, targets: Sequence[str], flags: Sequence[str], folder: Path
) -> subprocess.CompletedProcess[str]:
    name = files[0]
    targets = HOPPER if "wgmma" in name or "cluster" in name else TENSOR_CORES if "tensor" in name else targets
    unit = folder / "unit.cu"
    unit.write_text("".join(f'#include "{name}"\n' for name in files))
    level = ("-Xcicc", "-O1" if name in PTX else "-O0") if set(UNOPTIMIZED) <= set(flags) else ()
    command = [NVCC, *OPTIONS, *targets, *flags, *level, f"-Dreal={real}", str(unit)]
    return subprocess.run(command, cwd=CUDA, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("case", CASES)
def test_kernels_compile(builds, case):
    done = builds[case].result()
    assert done.returncode == 0, done.stdout + done.stderr
