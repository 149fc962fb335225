"""The devices by name: `numpy` (the references), `sim` (kernels on the CPU), `cuda` (kernels on the GPU).

Where there are several GPUs, `cuda:0`, `cuda:1`, ... name them by number. `cuda` is the current one, number CUDA_DEVICE
or 0: the same object as its `cuda:N`, and always printed as `cuda`.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from threading import RLock, local

from minigrad.devices.device import Device, Launcher
from minigrad.errors import DeviceError

NAMES = ("numpy", "sim", "cuda")
_GPU = re.compile(r"cuda:(0|[1-9]\d{0,8})")
_made: dict[str, Device] = {}
_lock = RLock()  # without it two threads could make a device at the same time


def current_gpu() -> int:
    """The number of the GPU that is called `cuda`: CUDA_DEVICE, or 0."""
    number = os.environ.get("CUDA_DEVICE") or "0"
    if not number.isdecimal():
        raise DeviceError(f"CUDA_DEVICE={number!r} is not the number of a GPU; set it to 0, 1, ...")
    return int(number)


def gpu_name(number: int) -> str:
    """The canonical name of a GPU: `cuda` for the current one, `cuda:N` for another."""
    return "cuda" if number == current_gpu() else f"cuda:{number}"


def canonical(name: str) -> str:
    """The canonical name of a device: `cuda` for the current GPU, `cuda:N` for another. Raises ValueError."""
    if isinstance(name, str):
        if name in NAMES:
            return name
        if found := _GPU.fullmatch(name):
            return gpu_name(int(found[1]))
    raise ValueError(
        f"device {name!r:.60} does not exist; the devices are {', '.join(NAMES)}, and cuda:1 for a second GPU."
    )


def get(name: str) -> Device:
    """The device of that name, made at its first use. Raises ValueError, or DeviceError where it is not available."""
    own = canonical(name)
    if own == "numpy":
        raise ValueError("device 'numpy' runs no kernels; choose 'sim' or 'cuda'.")
    with _lock:
        if own not in _made:  # modules are loaded by name, so that this one imports no device
            if own == "sim":
                _made[own] = import_module("minigrad.simulator").Simulator()
            else:
                number = int(own[len("cuda:") :] or current_gpu())
                _made[own] = import_module("minigrad.devices.cuda.gpu").GPU(number)
        return _made[own]


def in_use() -> list[Device]:
    """The devices that have been used so far, except `numpy`."""
    return list(_made.values())


@cache
def why_not(name: str) -> str:
    """Empty where the device works, else a sentence with the reason and the way out. Raises ValueError."""
    try:
        if canonical(name) != "numpy":
            get(name)
    except DeviceError as error:
        return str(error)
    return ""


def check(name: str) -> str:
    """The canonical name of a device that works here. Raises ValueError or DeviceError with the way out."""
    own = canonical(name)
    if reason := why_not(own):
        raise DeviceError(reason)
    return own


def devices() -> tuple[str, ...]:
    """The names of this machine's devices. `numpy` is always there; GPUs other than `cuda` are not started."""
    names = tuple(name for name in NAMES if not why_not(name))
    others = range(get("cuda").count) if "cuda" in names else ()  # type: ignore[attr-defined]
    return *names, *(gpu_name(number) for number in others if number != current_gpu())


def gpus() -> int:
    """The number of GPUs that work here; none is started."""
    try:
        return import_module("minigrad.devices.cuda.gpu").count()
    except DeviceError:
        return 0


def is_gpu(name: str) -> bool:
    """True for the name of a GPU, whether this machine has it or not."""
    return canonical(name) not in ("numpy", "sim")


@cache
def default_device() -> str:
    """The device of new tensors: MINIGRAD_DEVICE, or `cuda` where there is a GPU, else `numpy`."""
    wanted = os.environ.get("MINIGRAD_DEVICE")
    return check(wanted) if wanted else ("numpy" if why_not("cuda") else "cuda")


def kernel_device() -> str:
    """The device of kernels: MINIGRAD_DEVICE if that runs kernels, or `cuda` where there is a GPU, else `sim`."""
    wanted = os.environ.get("MINIGRAD_DEVICE")
    if wanted and canonical(wanted) != "numpy":
        return check(wanted)
    return "sim" if why_not("cuda") else "cuda"


class _Replacement(local):
    """The launcher that replaces `sim` on this thread."""

    launcher: Launcher | None = None


_replacement = _Replacement()


def for_launch(device: Device | None) -> Launcher:
    """The device for a launch with arrays on this one, or without arrays; a microscope in use replaces `sim`."""
    if _replacement.launcher and (device is None or device.name == "sim"):
        return _replacement.launcher
    return device or get(check(kernel_device()))


@contextmanager
def through(launcher: Launcher) -> Iterator[None]:
    """Send every launch that this thread makes on `sim` to a microscope, or to a `sim.using(...)`."""
    before, _replacement.launcher = _replacement.launcher, launcher
    try:
        yield
    finally:
        _replacement.launcher = before
