"""A chip, a record, a tiny residual network and its devices, which several tests of the benchmarks share."""

import sys

from minigrad import bench
from minigrad.devices.cuda.chip import Chip
from minigrad.lab.bench.resnet import network

H200 = Chip("NVIDIA H200", (9, 0), 132, 1.98e9, 4.9e12, 62914560, 65536, 233472, 1024, 2048, 32)


def example(date="2026-01-02"):
    made = bench.Record("NVIDIA H200", date, "minigrad bench", {"python": "3.12"}, H200, 4e12)
    times = {"torch": bench.Timing(1e-3, 1e-3, 1e-3, 20)}
    timing = bench.Timing(5e-4, 4e-4, 6e-4, 20)
    made.measurements["matmul of 2 x 2"] = bench.Measurement(
        "matmul of 2 x 2", ("matmul_tiled",), timing, 16 * 10**9, 10**9, "float32", times
    )
    made.sweeps["relu forward of 8"] = {"BLOCK=32": timing, "BLOCK=64": bench.Timing(1e-4, 1e-4, 1e-4, 20, host=True)}
    made.resources["relu_forward BLOCK=32"] = (16, 0, 0)
    made.choices["relu forward of 8"] = {"search": "BLOCK=64", "default": "BLOCK=32"}
    return made


def make_tiny(monkeypatch):
    """One residual block on images of 8 x 8 in place of ResNet-18."""
    for name, value in {"SIZE": 8, "CLASSES": 3, "STEM": "small", "WIDTHS": (8,), "BLOCKS": 1}.items():
        monkeypatch.setattr(network, name, value)


def find_gpu(monkeypatch):
    """Let `cuda` be found by its name, where a test has put a fake driver below it."""
    monkeypatch.setattr(sys.modules["minigrad.devices"], "why_not", lambda name: "")


def tick(gpu, monkeypatch):
    """Give a GPU a clock that shows a microsecond more at each event."""
    clock = iter(range(10**6))
    for name, method in {
        "mark": lambda: next(clock), "passed": lambda event: False, "between": lambda a, b: (b - a) * 1e-6,
    }.items():  # fmt: skip
        monkeypatch.setattr(gpu, name, method)
