"""The devices by name: `numpy` (the references), `sim` (the kernels on the CPU), `cuda` (the kernels on the GPU)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from threading import get_ident

from minigrad.devices.caches import once
from minigrad.devices.device import Device, Launcher
from minigrad.errors import DeviceError

NAMES = ("numpy", "sim", "cuda")


# Where the device of each name is made: loaded by name, so that this module imports no device.
_MAKERS = {"sim": ("minigrad.simulator", "Simulator"), "cuda": ("minigrad.devices.cuda.gpu", "GPU")}


@once
def get(name: str) -> Device:
    """The device `sim` or `cuda`, made at its first use. Raises DeviceError where it is not available."""
    if name in _MAKERS:
        module, maker = _MAKERS[name]
        return getattr(import_module(module), maker)()
    if name == "numpy":
        raise ValueError("device 'numpy' runs no kernels; choose 'sim' or 'cuda'.")
    raise ValueError(f"device {name!r} does not exist; the devices are {', '.join(NAMES)}.")


@cache
def why_not(name: str) -> str:
    """Empty where the device works, else the sentence that says why not and what to do."""
    if name != "numpy":
        try:
            get(name)
        except DeviceError as error:
            return str(error)
    return ""


def devices() -> tuple[str, ...]:
    """The names of the devices that this machine has; `numpy` is always there."""
    return tuple(name for name in NAMES if not why_not(name))


@cache
def default_device() -> str:
    """`cuda` where there is a GPU, else `numpy`; the environment variable MINIGRAD_DEVICE decides otherwise."""
    asked = os.environ.get("MINIGRAD_DEVICE")
    return check(asked) if asked else ("numpy" if why_not("cuda") else "cuda")


def kernel_device() -> str:
    """The device to run kernels on: `cuda` where there is a GPU, else `sim`; MINIGRAD_DEVICE may name the other."""
    asked = os.environ.get("MINIGRAD_DEVICE")
    if asked in ("sim", "cuda"):
        return check(asked)
    return "sim" if why_not("cuda") else "cuda"


_instead: list[tuple[int, Launcher]] = []  # by thread, what takes the place of `sim`, the innermost last


def for_launch(device: Device | None) -> Launcher:
    """The device for a launch with arrays on this one, or without; a microscope in use takes the place of `sim`."""
    if _instead and (device is None or device.name == "sim"):
        mine = [other for thread, other in _instead if thread == get_ident()]
        if mine:
            return mine[-1]
    return device or get(check(kernel_device()))


@contextmanager
def through(launcher: Launcher) -> Iterator[None]:
    """Send every launch that this thread makes on `sim` to a microscope, or to a `sim.using(...)`."""
    entry = get_ident(), launcher
    _instead.append(entry)
    try:
        yield
    finally:
        _instead.remove(entry)


def check(name: str) -> str:
    """The name itself where that device works. Raises ValueError or DeviceError with the way out."""
    if not isinstance(name, str) or name not in NAMES:
        raise ValueError(f"device {name!r} does not exist; the devices are {', '.join(NAMES)}.")
    if reason := why_not(name):
        raise DeviceError(reason)
    return name
