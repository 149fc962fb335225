"""Tests marked `gpu` and notebook cells tagged `gpu` are skipped where there is no CUDA device, and the run says so.

MINIGRAD_REQUIRE_GPU=1 makes the run fail where any of them was skipped. Tests marked `gpus(n)` need n CUDA devices,
tests marked `browser` Chromium, tests and cells marked `mpi` MPI, and some PyTorch; the run says, too, how many were
skipped for lack of them.
"""

import gc
import os
import shutil
from collections import Counter
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest

from minigrad.devices import devices, is_gpu, why_not
from minigrad.distributed.job import mpiexec
from minigrad.errors import DeviceError

NEEDS = {
    "gpus": "several GPUs",
    "browser": "Chromium, and playwright from the test extra",
    "mpi": "MPI: mpi4py and mpich from the mpi extra",
}
# Threads of OpenMP and ranks of MPI let others run while they wait: by default they spin, on cores that tests want.
os.environ |= {"OMP_WAIT_POLICY": "passive", "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"} | os.environ
gc.disable()  # until the tests are collected: what is made by then stays, and looking through it takes a fifth longer
os.environ["MINIGRAD_PROGRESS"] = "off"  # also for the notebooks' kernels: what tests solve is not the user's


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    sample(items)
    for item in items:
        for tag in {"gpu", "mpi"}.intersection(cell_tags(item)):
            item.add_marker(tag)
    needy = [item for item in items if item.get_closest_marker("gpu")]
    if needy and (reason := why_not("cuda")):
        for item in needy:
            item.add_marker(pytest.mark.skip(reason=reason))
    for item in items:
        if marker := item.get_closest_marker("gpus"):
            here = sum(map(is_gpu, devices()))
            reason = f"needs {marker.args[0]} GPUs; this machine has {here}"
            item.add_marker(pytest.mark.skipif(here < marker.args[0], reason=reason))

    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skipif(not chromium(), reason="no Chromium, or no playwright"))
        if item.get_closest_marker("mpi") and (reason := no_mpi()):
            item.add_marker(pytest.mark.skip(reason=reason))


def sample(items: list[pytest.Item]) -> None:
    """Leave to `make soak`, of a test marked `sample(n)`, all but every n-th case, those of a GPU counted apart."""
    numbers: Counter[tuple] = Counter()
    for item in items:
        marker = item.get_closest_marker("sample")
        if marker and not item.get_closest_marker("soak"):
            test = item.nodeid.partition("[")[0], item.get_closest_marker("gpu") is None
            if numbers[test] % marker.args[0]:
                item.add_marker("soak")
            numbers[test] += 1


@cache
def no_mpi() -> str:
    """The reason why no ranks can be started here; empty where they can."""
    try:
        mpiexec()
    except DeviceError as lack:
        return str(lack)
    return ""


@pytest.fixture(scope="session")
def chromium_path() -> str:
    return chromium()


@cache
def chromium() -> str:
    """The path of the system's Chromium; empty where it, or playwright, is not installed."""
    names = ("chromium", "chromium-browser", "google-chrome") if find_spec("playwright") else ()
    return next(filter(None, map(shutil.which, names)), "")


def pytest_collection_finish() -> None:
    """Keep what importing and collecting made, over a million objects, out of every later garbage collection."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(10_000, 10, 10)  # tests make many objects and few cycles: looking is 6 % of their time by default


def cell_tags(item: pytest.Item) -> list[str]:
    """The tags of a notebook's cell; a test function has none."""
    cell = getattr(item, "cell", None)
    return cell.metadata.get("tags", []) if cell else []


def skipped(config: pytest.Config) -> list[Any]:
    """The reports of what was skipped, tests and whole files."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")  # a worker of pytest-xdist has none
    return reporter.stats.get("skipped", []) if reporter else []


def skipped_for(config: pytest.Config, mark: str = "gpu") -> int:
    """The number of tests with this mark that were skipped."""
    return sum(mark in getattr(report, "keywords", ()) for report in skipped(config))


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    for mark, needs in NEEDS.items():
        if (mark != "mpi" or no_mpi()) and (count := skipped_for(config, mark)):
            terminalreporter.write_line(f"{count} tests skipped: they need {needs}", yellow=True, bold=True)
    if count := sum("could not import 'torch" in str(report.longrepr) for report in skipped(config)):
        line = f"{count} tests, or files of them, skipped: they need PyTorch"
        terminalreporter.write_line(line, yellow=True, bold=True)
    if count := skipped_for(config):
        fails = "; MINIGRAD_REQUIRE_GPU=1 makes this run fail" if gpu_required() else ""
        line = f"{count} gpu cells and tests skipped: no CUDA device{fails}"
        terminalreporter.write_line(line, yellow=not fails, red=bool(fails), bold=True)


def gpu_required() -> bool:
    return os.environ.get("MINIGRAD_REQUIRE_GPU") == "1"


def pytest_sessionfinish(session: pytest.Session) -> None:
    if gpu_required() and skipped_for(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
