"""Find the CUDA compiler, its headers and the NVIDIA driver. Looks at files; starts no GPU."""

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

DRIVER_FOLDERS = (
    "/usr/lib/wsl/lib",  # Windows' own driver, as WSL shows it
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib64-nvidia",  # Colab
    "/usr/local/nvidia/lib64",  # containers
    "/run/opengl-driver/lib",  # NixOS
)


def find_nvcc() -> Path | None:
    """The CUDA compiler: $CUDA_HOME, $CUDA_PATH, PATH, the usual folders, then the one that pip installed."""
    named = [Path(os.environ[key]) for key in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(key)]
    roots = sorted(Path("/usr/local").glob("cuda-*"), key=release, reverse=True)
    usual = [Path("/usr/local/cuda"), *roots, Path("/opt/cuda"), Path("/usr/lib/nvidia-cuda-toolkit")]
    on_path = [Path(found) for found in [shutil.which("nvcc")] if found]
    places = [[home / "bin/nvcc" for home in named], on_path, [home / "bin/nvcc" for home in [*usual, *wheels()]]]
    return first_file(nvcc for place in places for nvcc in place)


def find_driver() -> Path | None:
    """The driver's library, `libcuda.so.1`. A toolkit's stub of it does not count: it runs nothing."""
    searched = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    return first_file(Path(folder) / "libcuda.so.1" for folder in (*searched, *DRIVER_FOLDERS))


def find_headers(nvcc: Path) -> Path | None:
    """The folder of `cuda.h` that belongs to this nvcc. nvcc may be a link or a script, so nvcc itself is asked."""
    plan = output([nvcc, "--dryrun", "-x", "cu", os.devnull])
    named = re.findall(r'"-I([^"]+)"', plan)
    homes = [Path(home) for home in re.findall(r"_HERE_=(.+)", plan)] + [nvcc.resolve().parent]
    folders = [*map(Path, named), *(home.parent / "include" for home in homes), Path("/usr/include")]
    header = first_file(folder / "cuda.h" for folder in folders)
    return header.parent.resolve() if header else None


def headers_without_nvcc() -> list[Path]:
    """The folders of `cuda_fp16.h` and of C++'s library for a compiler that knows of none, as far as they are here."""
    header = first_file(home / "include/cuda_fp16.h" for home in (Path("/usr/local/cuda"), *wheels()))
    return [folder for folder in (header.parent, header.parent / "cccl") if folder.is_dir()] if header else []


def nvcc_version(nvcc: Path) -> str:
    """The release of a CUDA compiler, "13.0", or "" if its output names none."""
    found = re.search(r"release (\d+\.\d+)", output([nvcc, "--version"]))
    return found[1] if found else ""


def driver_version(driver: Path) -> str:
    """The newest CUDA version that the driver supports, "13.0"."""
    number = ctypes.c_int()
    check(ctypes.CDLL(str(driver)).cuDriverGetVersion(ctypes.byref(number)), "cuDriverGetVersion")
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


def gpu_names(driver: Path) -> list[str]:
    """The names of the GPUs, "NVIDIA H200". Makes no context. Raises OSError where the driver does not start."""
    library, count, names = ctypes.CDLL(str(driver)), ctypes.c_int(), []
    if (code := library.cuInit(0)) == 100:  # CUDA_ERROR_NO_DEVICE
        return []
    check(code, "cuInit")
    check(library.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount")
    for index in range(count.value):
        text = ctypes.create_string_buffer(256)
        check(library.cuDeviceGetName(text, len(text), index), "cuDeviceGetName")
        names.append(text.value.decode())
    return names


def check(code: int, call: str) -> None:
    """Raise OSError for a driver call that failed."""
    if code:
        raise OSError(f"{call} returned {code}")


def wheels() -> Iterator[Path]:
    """The CUDA folders that pip installed, `nvidia/cu13`, the newest first."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(Path(folder).glob("cu[0-9]*"), key=release, reverse=True)


def release(folder: Path) -> list[int]:
    """The numbers in a folder's name, by which cuda-12.10 comes after cuda-12.9."""
    return [int(number) for number in re.findall(r"\d+", folder.name)]


def first_file(candidates: Iterable[Path]) -> Path | None:
    return next((path for path in candidates if path.is_file()), None)


def output(command: Sequence[str | Path]) -> str:
    """The text that a program prints, errors included."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout
