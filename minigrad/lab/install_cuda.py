"""Adds the GPU part to an environment: `python -m minigrad.lab.install_cuda` builds PyCUDA, which has no wheel.

Does nothing without an NVIDIA driver. If the build fails, it prints the reason and the path of the log, and minigrad
continues with `sim`. Run by `make lab` and `make test`.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from importlib import metadata, util
from pathlib import Path

from minigrad.devices.cuda.toolkit import driver_version, find_driver, find_headers, find_nvcc, first_file, nvcc_version

LOG = Path(sys.prefix) / "pycuda-build.log"  # left by a failed build; `--once` then does not try again
WHEELS = 13  # the CUDA whose nvcc pip can install

REASONS = (
    (r"fatal error: Python\.h", "Python's headers are missing (Debian and Ubuntu: sudo apt install python3-dev)"),
    (r"fatal error: \S+\.h", "the CUDA toolkit lacks headers (install the whole toolkit, or hide its nvcc)"),
    (r"cannot find -lcuda", "the driver's library cannot be linked"),
    (
        r"command '\S*(g\+\+|gcc|cc|c\+\+)' failed: No such file",
        "no C++ compiler (Debian and Ubuntu: sudo apt install g++)",
    ),
    (r"No matching distribution|ConnectionError|NewConnectionError", "the package index cannot be reached"),
    (r"No space left on device", "the disk is full"),
)


# PyCUDA compiles some forty files one after another, in two minutes. Its settings file is Python that the build runs,
# so it can distribute them over all cores.
PARALLEL = """
from distutils.ccompiler import CCompiler
from multiprocessing.pool import ThreadPool

def compile(self, sources, output_dir=None, macros=None, include_dirs=None, debug=0,
            extra_preargs=None, extra_postargs=None, depends=None):
    macros, objects, extra, flags, build = self._setup_compile(
        output_dir, macros, include_dirs, sources, depends, extra_postargs)
    before = self._get_cc_args(flags, debug, extra_preargs)
    ThreadPool().map(lambda obj: self._compile(obj, *build[obj], before, extra, flags), objects, 1)
    return objects

CCompiler.compile = compile
"""


class InstallError(RuntimeError):
    """PyCUDA cannot be installed; the text gives the reason."""


def main() -> None:
    """Install PyCUDA if there is a driver; a failure is only printed, since minigrad works without it."""
    parser = argparse.ArgumentParser(prog="python -m minigrad.lab.install_cuda", description=__doc__.splitlines()[0])
    parser.add_argument("--once", action="store_true", help="do not try again where it failed before")
    parser.add_argument("--force", action="store_true", help="build without a driver too, against a toolkit's stub")
    options = parser.parse_args()
    driver = find_driver()
    if driver is None and not options.force:
        say("No NVIDIA driver here: the kernels run on the CPU, on device `sim`.")
    elif util.find_spec("pycuda"):
        return
    elif options.once and LOG.exists():
        say(f"PyCUDA could not be built before, see {LOG}; `make cuda` tries again. Going on with `sim`.")
    else:
        try:
            install(driver)
        except (InstallError, OSError) as error:
            log = f" The log is {LOG}." if LOG.exists() else ""
            say(f"The GPU stays unused: {error}.{log} Going on with `sim`.")


def install(driver: Path | None) -> None:
    """Install nvcc unless it is there, then build PyCUDA. Raises InstallError."""
    if driver:
        say(f"NVIDIA driver found ({driver}), which runs CUDA {driver_version(driver)}.")
    start = time.monotonic()
    LOG.unlink(missing_ok=True)
    nvcc = find_nvcc() or install_nvcc(driver)
    headers = find_headers(nvcc)
    if headers is None:
        raise InstallError(f"{nvcc} has no cuda.h")
    library = driver or first_file(headers.parent / folder / "stubs/libcuda.so" for folder in ("lib64", "lib"))
    if library is None:
        raise InstallError("there is neither a driver nor a stub of it to link with")
    say(f"Building PyCUDA with {nvcc} (CUDA {nvcc_version(nvcc)}): a minute or two, once. Log: {LOG}")
    build_pycuda(headers, library)
    try_import()
    LOG.unlink()
    say(f"PyCUDA is installed ({time.monotonic() - start:.0f} s): device `cuda` is ready.")


def install_nvcc(driver: Path | None) -> Path:
    """Install nvcc and its headers from the package index. Raises InstallError for a driver that is older than them."""
    if driver and int((version := driver_version(driver)).split(".")[0]) < WHEELS:
        raise InstallError(
            f"no nvcc here, and the driver runs CUDA {version} where pip brings CUDA {WHEELS}; "
            f"install the CUDA {version} toolkit or update the driver"
        )
    say(f"There is no nvcc: installing that of CUDA {WHEELS}, about 200 MB, once.")
    pip(extra("ctk"), dict(os.environ))
    nvcc = find_nvcc()
    if nvcc is None:
        raise InstallError("pip installed no nvcc")
    return nvcc


def build_pycuda(headers: Path, library: Path) -> None:
    """Compile PyCUDA against these headers and this libcuda.

    Its build reads settings only from ~/.aksetup-defaults.py (and waits ten seconds if there are none), so it gets a
    temporary home; pip still finds the user's settings and cache. curand is left out: minigrad does not use it, and
    with it PyCUDA can be imported only next to the same version of libcurand.
    """
    home = Path(os.path.expanduser("~"))
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(library, Path(folder) / "libcuda.so")  # the driver is libcuda.so.1, ld looks for libcuda.so
        settings = {"CUDA_INC_DIR": [str(headers)], "CUDADRV_LIB_DIR": [folder], "CUDA_ENABLE_CURAND": False}
        lines = [f"{key} = {value!r}\n" for key, value in settings.items()]
        (Path(folder) / ".aksetup-defaults.py").write_text("".join(lines) + PARALLEL)
        users = {"XDG_CONFIG_HOME": str(home / ".config"), "XDG_CACHE_HOME": str(home / ".cache")}
        # A wheel in pip's cache may have been built for another toolkit.
        pip(["--no-cache-dir", *extra("cuda")], {**users, **os.environ, "HOME": folder})


def pip(arguments: list[str], environment: dict[str, str]) -> None:
    """Run `pip install` with its output in the log. Raises InstallError with the reason found in it."""
    with LOG.open("a") as log:
        command = [sys.executable, "-m", "pip", "install", *arguments]
        done = subprocess.run(command, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        text = LOG.read_text(errors="replace")
        raise InstallError(next((why for pattern, why in REASONS if re.search(pattern, text)), "pip install failed"))


def try_import() -> None:
    """Import PyCUDA in a separate process. Raises InstallError."""
    command = [sys.executable, "-c", "import pycuda.driver, pycuda.compiler"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        with LOG.open("a") as log:
            log.write(done.stderr)
        raise InstallError(f"PyCUDA was built and cannot be imported ({done.stderr.strip().splitlines()[-1]})")


def extra(name: str) -> list[str]:
    """The requirements of an extra of this installation, from its metadata."""
    named = (line.split(";") for line in metadata.requires("minigrad-cuda") or [] if ";" in line)
    return [requirement.strip() for requirement, marker in named if re.search(rf"extra == ['\"]{name}['\"]", marker)]


def say(sentence: str) -> None:
    print(f"minigrad: {sentence}", flush=True)


if __name__ == "__main__":
    main()
