"""launch: run code on several ranks under mpiexec, within a time limit; its values and output, or the first failure."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from minigrad.devices.host_compiler import cores
from minigrad.distributed.report import RankReport, failure, reports
from minigrad.errors import DeviceError, require, require_int, require_number

LIMIT = 60  # seconds
MARGIN = 1.0  # seconds in which the ranks write down where they are, after the time limit
GRACE = 3  # seconds for mpiexec to end its ranks after one has failed, and when it is told to; then it is stopped
PAUSE = 0.02  # seconds between two looks at the job
MPIEXEC = "MINIGRAD_MPIEXEC"  # environment: another command to start ranks, e.g. "srun"
INSTALL = "pip install 'minigrad-cuda[mpi]'"
OPEN_MPI = {  # it would refuse root, and more ranks than cores
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_btl": "self,sm",
}
Show = Callable[[int, str], Any]


@dataclass(frozen=True)
class JobResult:
    """A job that has ended well: the values that were asked for, by name, and the output, each one a rank.

    seconds: from its start to its end; library: MPI's name and version.
    """

    values: dict[str, list[Any]]
    outputs: list[str]
    seconds: float
    library: str

    def __getitem__(self, name: str) -> list[Any]:
        """The values of a variable, one a rank."""
        return self.values[name]

    def __repr__(self) -> str:
        return "".join(labelled(rank, text) for rank, text in enumerate(self.outputs)).rstrip()


def labelled(rank: int, text: str) -> str:
    """The lines of a rank, each behind its number: [2] text."""
    return "".join(f"[{rank}] {line}\n" for line in text.splitlines())


def launch(
    ranks: int, code: str | Path, arguments: Sequence[str] = (), *, get: str | Sequence[str] = (),
    timeout: float = LIMIT, threads: int | None = None, show: Show = lambda rank, lines: None,
) -> JobResult:  # fmt: skip
    """Run code, or the script at a Path, on the ranks of MPI.COMM_WORLD, and wait until all have ended.

    get: variables of the code to bring back, one value a rank. threads: of the matrix products of a rank; cores / ranks
    where none are given. show(rank, lines) is called with what a rank prints, as it comes. Raises RankError where a
    rank fails or the time limit is reached, DeviceError where there is no MPI, ValueError or TypeError for arguments.
    """
    ranks = require_int("launch", "ranks", ranks, 1)
    threads = max(1, len(cores()) // ranks) if threads is None else require_int("launch", "threads", threads, 1)
    timeout = require_number("launch", "timeout", timeout)
    names = (get,) if isinstance(get, str) else tuple(get)
    start = mpiexec()
    with TemporaryDirectory(prefix="minigrad-mpi-") as name:
        folder, begun = Path(name), time.time()
        words = [folder, ranks, begun + timeout, " ".join(names), script(code, folder), *arguments]
        command = [*start, "-n", ranks, sys.executable, "-m", "mpi4py", Path(__file__).with_name("rank.py"), *words]
        found, status = _run(list(map(str, command)), folder, timeout, environment(ranks, threads, timeout), show)
        if error := failure(found, ranks, folder, status, begun, timeout):
            raise error
        values = [report.values() for report in found] if names else []
        each = {name: [value[name] for value in values] for name in names}
        outputs, library = [report.output() for report in found], found[0].library
        return JobResult(each, outputs, time.time() - begun, library)


def mpiexec() -> list[str]:
    """The command that starts ranks. Raises DeviceError with what to install."""
    if sys.platform == "win32":
        raise DeviceError("there is no MPI for Windows' Python on the package index; use WSL2.")
    named = shlex.split(os.environ.get(MPIEXEC, ""))
    own = str(Path(sysconfig.get_path("scripts"), "mpiexec"))  # another on the PATH may be of another MPI
    if not find_spec("mpi4py"):
        raise DeviceError(f"MPI is not installed: {INSTALL}")
    if not shutil.which((named or [own])[0]):
        raise DeviceError(f"there is no {(named or [own])[0]}: {INSTALL}, or name another: {MPIEXEC}=srun")
    return named or [own]


def script(code: str | Path, folder: Path) -> Path:
    """The file to run. Raises TypeError or ValueError."""
    require("launch", code, str | Path, "code as text, or the Path of a script")
    if isinstance(code, str):
        (folder / "code.py").write_text(code, encoding="utf-8")
        return folder / "code.py"
    if not code.is_file():
        raise ValueError(f"launch: there is no file {code}.")
    return code.resolve()


def _run(
    command: Sequence[str], folder: Path, timeout: float, variables: dict[str, str], show: Show
) -> tuple[list[RankReport], int | None]:
    """The reports of the ranks, and mpiexec's status; None where they were stopped at the time limit."""
    limit, found = time.monotonic() + timeout + MARGIN, list[RankReport]()
    with (folder / "mpiexec").open("w") as output:
        job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=variables)
    try:
        while (status := job.poll()) is None and time.monotonic() < limit:
            time.sleep(PAUSE)
            found = _shown(folder, found, show)
            if any(report.failure() for report in found):  # at a rank killed by a signal, MPICH's may wait on for ever
                limit = min(limit, time.monotonic() + GRACE)
    finally:
        stop(job)
    return _shown(folder, found, show, ended=True), status


def _shown(folder: Path, known: Sequence[RankReport], show: Show, ended: bool = False) -> list[RankReport]:
    """The reports of the ranks that have begun, with their new lines shown."""
    for report in (found := reports(folder, known)):
        if lines := report.new_lines(ended):
            show(report.rank, lines)
    return found


def stop(job: subprocess.Popen) -> None:
    """Ended by SIGTERM, with which every mpiexec ends its ranks, and by SIGKILL where that takes too long."""
    job.terminate()
    try:
        job.wait(GRACE)
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()


def environment(ranks: int, threads: int, timeout: float) -> dict[str, str]:
    """The environment of the ranks. mpiexec has a time limit of its own, for the case that this process is killed.

    A rank that waits keeps its core busy. Where ranks share cores, MPICH's are made to sleep in between: an all-gather
    of 4 ranks on 2 cores then takes a third of the time; with a core for each it would take several times as long.
    """
    network = {"MPICH_INTERFACE_HOSTNAME": "localhost"} if sys.platform == "darwin" else {}
    sleep = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"} if ranks > len(cores()) else {}
    limits = {key: str(threads) for key in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {**OPEN_MPI, **network, **sleep, **os.environ, **limits, "MPIEXEC_TIMEOUT": str(ceil(timeout + 2 * MARGIN))}
