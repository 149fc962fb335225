"""nvcc accepts every adjoint, without a warning, in float and in double."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from adjoint_rungs import RUNGS

import minigrad as mg
from minigrad.devices.cuda.toolkit import find_nvcc

CUDA = Path(__file__).parents[2] / "cuda"
NVCC = find_nvcc()
KERNELS = {(k.name, *k.defines.items()): rung for rung, (k, *_) in RUNGS.items()}  # rungs may share a kernel


def unit():
    """The adjoints as one file, each in a namespace, with its macros: most of the time goes into CUDA's headers."""
    parts = ['#include "common.cuh"']
    for n, rung in enumerate(KERNELS.values()):
        made = mg.adjoint(RUNGS[rung][0])
        defines = [f"#define {name} {value}" for name, value in made.defines.items()]
        names = {*made.defines, *re.findall(r"^#define (\w+)", made.source, re.M)}
        parts += [*defines, f"namespace adjoint_{n} {{", f'#line 1 "{rung}.cu"', made.source, "}"]
        parts += [f"#undef {name}" for name in sorted(names)]
    return "\n".join(parts)


@pytest.mark.sample(2)
@pytest.mark.skipif(NVCC is None, reason="no nvcc on this machine")
@pytest.mark.parametrize("real", ["float", "double"])
def test_adjoints_compile(real, tmp_path):
    file = tmp_path / "adjoints.cu"
    file.write_text(unit())
    options = ["-std=c++17", "-cubin", "-arch=sm_90", "-Werror", "all-warnings", f"-I{CUDA}", "-o", os.devnull]
    done = subprocess.run([NVCC, *options, f"-Dreal={real}", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
