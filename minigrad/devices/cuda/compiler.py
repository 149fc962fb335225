"""CUDA C++ to machine code for one GPU: by nvcc, or by NVRTC, the compiler as a library, where there is no nvcc."""

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from minigrad.devices import caches
from minigrad.devices.cuda.toolkit import find_nvcc
from minigrad.devices.device import MAX_SHARED
from minigrad.devices.hints import meant
from minigrad.errors import CompileError, DeviceError, LaunchError
from minigrad.source import Source


class Unfit(CompileError):
    """A text that says itself, by #error, that it is not for this GPU."""


def cubin(source: Source, defines: Mapping[str, str], arch: str) -> bytes:
    """The compiled image, from the disk cache or new. Raises CompileError, or LaunchError: too much shared memory."""
    options = [f"-arch={arch}", "-std=c++17", "-lineinfo"]
    options += [f"-D{name}={value}" for name, value in defines.items()]
    cached = cached_at(source, options)
    if cached.is_file():
        return cached.read_bytes()
    options.append(f"-I{source.folder}")
    compiler = find_nvcc()
    try:
        image = _by_nvcc(str(compiler), source, options) if compiler else _by_nvrtc(source, options)
    except Unfit as unfit:
        raise CompileError(f"{source.name}: {unfit}. This GPU is {arch}.") from None
    caches.keep(cached, image)
    return image


def cached_at(source: Source, options: list[str]) -> Path:
    """The file of a compiled image; its name holds everything that the image is made of."""
    key = repr([source.texts, options, _version()])
    return caches.folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.cubin"


@cache
def _version() -> str:
    compiler = find_nvcc()
    if not compiler:
        return "nvrtc"
    return subprocess.run([str(compiler), "--version"], capture_output=True, text=True, check=True).stdout


def _by_nvcc(compiler: str, source: Source, options: list[str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file, image = Path(folder, "kernel.cu"), Path(folder, "kernel.cubin")
        file.write_text(source.unit)  # errors name the reader's file
        command = [compiler, "-cubin", *options, str(file), "-o", str(image)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise explain(source, done.stderr + done.stdout)
        return image.read_bytes()


def _by_nvrtc(source: Source, options: list[str]) -> bytes:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise DeviceError(
            "device 'cuda': no nvcc found, and no NVRTC (package cuda-bindings). "
            "python -m minigrad.lab.install_cuda brings one."
        ) from error
    _, program = nvrtc.nvrtcCreateProgram(source.unit.encode(), source.name.encode(), 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
        nvrtc.nvrtcGetProgramLog(program, log)
        raise explain(source, log.decode().rstrip("\0"))
    image = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
    nvrtc.nvrtcGetCUBIN(program, image)
    return image


def explain(source: Source, log: str) -> Exception:
    """The compiler's words as an exception: only its errors, with the source line that each is about."""
    too_much = re.search(r"Entry function '(\w+)' uses too much shared data \(0x([0-9a-f]+)", log)
    if too_much:
        return LaunchError(
            f"{too_much[1]}: static shared memory of {int(too_much[2], 16)} bytes; a block may use {MAX_SHARED}. "
            "Choose a smaller tile."
        )
    if unfit := re.search(r'#error(?: directive:)? "(.+)"', log):
        return Unfit(unfit[1])
    lines = source.text.splitlines()
    errors = []
    for line in log.splitlines():
        found = re.match(r"(.+)\((\d+)\): (?:catastrophic )?error: (.*)", line)
        if found:
            number = int(found[2])
            shown = lines[number - 1].strip() if found[1] == source.name and number <= len(lines) else ""
            errors.append(f"{found[1]}({number}): error: {found[3]}\n    {shown}")
    words = "\n".join(errors) or log.strip()
    return CompileError(words + meant(words))
