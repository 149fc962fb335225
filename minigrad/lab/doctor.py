"""Diagnosis of this machine: the state of each part, and the next step for the first that is missing.

`mg.doctor()`, `minigrad doctor` or `python -m minigrad.lab.doctor`.
"""

import html
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata

import numpy as np

from minigrad.create import tensor
from minigrad.devices.cuda import libnccl
from minigrad.devices.cuda.toolkit import driver_version, find_driver, find_nvcc, gpu_names, nvcc_version
from minigrad.devices.host_compiler import cores, find_compiler
from minigrad.display import plural
from minigrad.distributed.job import INSTALL, launch, mpiexec
from minigrad.errors import DeviceError
from minigrad.op import OPS
from minigrad.recurrent.openmp import library

HEAD = ("state", "part", "needed for", "found")
LEFT = 'style="text-align:left"'  # JupyterLab aligns the cells of a table to the right
COLOURS = {"ok": "#1a7f37", "missing": "#9a6700", "failed": "#cf222e"}


@dataclass(frozen=True)
class Row:
    """One part: state "ok", "missing" or "failed"; found: its version, or the error."""

    part: str
    state: str
    found: str
    needed_for: str
    step: str


@dataclass(frozen=True)
class Report:
    rows: tuple[Row, ...]

    @property
    def next_step(self) -> str:
        bad = next((row for row in self.rows if row.state != "ok"), None)
        return f"Next, for {bad.part}: {bad.step}" if bad else "Everything is here."

    def __repr__(self) -> str:
        rows = [HEAD, *((row.state, row.part, row.needed_for, row.found) for row in self.rows)]
        lines = ["{:8} {:14} {:12} {}".format(*row) for row in rows]
        return "\n".join([*lines, "", self.next_step])

    def _repr_html_(self) -> str:
        head = "".join(f"<th {LEFT}>{word}</th>" for word in HEAD)
        return f"<table><tr>{head}</tr>{''.join(map(_html, self.rows))}</table><p>{html.escape(self.next_step)}</p>"


def _html(row: Row) -> str:
    state = f'<b style="color:{COLOURS[row.state]}">{row.state}</b>'
    cells = (state, *map(html.escape, (row.part, row.needed_for, row.found)))
    return f"<tr>{''.join(f'<td {LEFT}>{cell}</td>' for cell in cells)}</tr>"


def doctor() -> Report:
    """Try every part; a missing one raises nothing. The GPU is tried in a separate process."""
    return Report(tuple(_row(*check) for check in CHECKS))


def _row(part: str, find: Callable[[], str], needed_for: str, step: str) -> Row:
    try:
        return Row(part, "ok", find(), needed_for, step)
    except metadata.PackageNotFoundError:
        return Row(part, "missing", "not installed", needed_for, step)
    except DeviceError as lack:
        return Row(part, "missing", str(lack), needed_for, step)
    except Exception as error:  # any error of a part is a row of the table
        return Row(part, "failed", f"{type(error).__name__}: {error}", needed_for, step)


def try_kernel(device: str) -> str:
    """Compile and launch a kernel that doubles three numbers. Raises ArithmeticError for a wrong result."""
    x = tensor(np.array([1, 2, 3], np.float32), device=device)
    if (got := OPS["add"](x, x).numpy().tolist()) != [2, 4, 6]:
        raise ArithmeticError(f"2 * [1, 2, 3] came out as {got}")
    return "a kernel compiled and ran"


def _mpi() -> str:
    library = launch(2, "pass", timeout=20).library
    return f"{library}, mpi4py {metadata.version('mpi4py')}, {' '.join(mpiexec())}; 2 ranks ran"


def _openmp() -> str:
    if not library("float32")[1]:
        raise DeviceError("this compiler has no OpenMP: mg.recurrent.OpenMP runs with one thread")
    return plural(len(cores()), "thread")


def _driver() -> str:
    if not (driver := find_driver()):
        raise DeviceError("no libcuda.so.1")
    return f"runs CUDA {driver_version(driver)}"


def _gpu() -> str:
    driver = find_driver()
    if not (driver and (names := gpu_names(driver))):
        raise DeviceError("no GPU")
    return ", ".join(names)


def _nvcc() -> str:
    if nvcc := find_nvcc():
        return f"{nvcc_version(nvcc)} {nvcc}"
    try:
        return f"NVRTC {metadata.version('nvidia-cuda-nvrtc')}, cuda-bindings {metadata.version('cuda-bindings')}"
    except metadata.PackageNotFoundError as error:
        raise DeviceError("neither nvcc nor NVRTC") from error


def _nccl() -> str:
    _gpu()
    return libnccl.version(libnccl.load())


def _cuda_kernel() -> str:
    _gpu()
    code = "from minigrad.lab.doctor import try_kernel; print(try_kernel('cuda'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1])
    return done.stdout.strip()


GCC = "Debian, Ubuntu: sudo apt install g++. macOS: brew install gcc, and name it, as in MINIGRAD_CXX=g++-15."
LAB, CUDA = "pip install 'minigrad-cuda[lab]'", "python -m minigrad.lab.install_cuda"
NO_GPU = "none is needed, kernels run on sim. With an NVIDIA GPU in this machine, install its driver."

CHECKS: tuple[tuple[str, Callable[[], str], str, str], ...] = (
    ("Python", platform.python_version, "everything", "install Python 3.11 or newer."),
    ("NumPy", partial(metadata.version, "numpy"), "everything", "pip install numpy"),
    ("C++ compiler", lambda: find_compiler().version, "device sim", "install g++ or clang++, or: pip install ziglang"),
    ("simulator", lambda: try_kernel("sim"), "device sim", "see the message; the C++ compiler above may be too old."),
    ("OpenMP", _openmp, "CPU threads", GCC),
    ("JupyterLab", partial(metadata.version, "jupyterlab"), "notebooks", LAB),
    ("ipywidgets", partial(metadata.version, "ipywidgets"), "sliders", LAB),
    ("matplotlib", partial(metadata.version, "matplotlib"), "plots", LAB),
    ("scikit-learn", partial(metadata.version, "scikit-learn"), "data.digits", "pip install 'minigrad-cuda[data]'"),
    ("Pillow", partial(metadata.version, "pillow"), "data.image_folder", "pip install 'minigrad-cuda[data]'"),
    ("MPI", _mpi, "%%mpi", f"{INSTALL}; where it is installed, see the message."),
    ("NVIDIA driver", _driver, "device cuda", NO_GPU),
    ("GPU", _gpu, "device cuda", "the driver is there and finds no GPU: see what nvidia-smi says."),
    ("CUDA compiler", _nvcc, "device cuda", CUDA),
    ("PyCUDA", partial(metadata.version, "pycuda"), "device cuda", CUDA),
    ("NCCL", _nccl, "ranks with GPUs", f"only several GPUs need it: {libnccl.INSTALL}"),
    ("CUDA kernel", _cuda_kernel, "device cuda", "see the message above."),
)


if __name__ == "__main__":
    print(doctor())
