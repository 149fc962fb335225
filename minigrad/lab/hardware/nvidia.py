"""The kernels of `counters` and `races` on a GPU under NVIDIA's tools: a record of its counts and hazards.

`python -m minigrad.lab.hardware.nvidia` runs them under ncu and compute-sanitizer, which are part of the CUDA toolkit,
and writes `notebooks/records/counters/<device>-<date>.json`.
"""

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from minigrad.devices import check, get
from minigrad.devices.cuda import toolkit
from minigrad.errors import DeviceError
from minigrad.lab.hardware import counters, races
from minigrad.lab.hardware.counters import FOLDERS, METRICS, RUNG_METRICS, RUNGS, Counts
from minigrad.source import PACKAGE


def profiled(option: str = "--launch", metrics: Sequence[str] = tuple(METRICS.values())) -> Counts:
    """The GPU's counts from ncu, of this module run with an option. Raises DeviceError with its message."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        options = ["--csv", "--page", "raw", "--clock-control", "none", "--log-file", str(log)]
        done = _run("ncu", *options, "--metrics", ",".join(metrics), option=option)
        logged = log.read_text() if log.is_file() else ""
        if done.returncode or not log.is_file():
            text = (logged + done.stdout + done.stderr).strip()[-1500:]
            raise DeviceError(f"{done.args[0]} ended with {done.returncode}: {text}")
        return read(logged, metrics)


def rungs() -> dict[str, dict[str, float]]:
    """The metrics of each rung of the matmul ladder, by its name."""
    found = profiled("--climb", RUNG_METRICS)
    return {rung: dict(found[f"matmul_{rung}"]) for rung in RUNGS}


def read(text: str, metrics: Sequence[str] = tuple(METRICS.values())) -> Counts:
    """The counts in the output of ncu: a CSV table between other lines."""
    rows = text.splitlines()
    start = next((i for i, row in enumerate(rows) if row.startswith('"ID"')), None)
    if start is None:
        raise DeviceError(f"ncu wrote no table: {text.strip()[-800:]}")
    counts: Counts = defaultdict(Counter)
    for row in csv.DictReader(rows[start:]):
        if row["ID"]:  # the row of units has none
            numbers: Any = {name: float(row[name].replace(",", "")) for name in metrics}
            counts[row["Kernel Name"].partition("(")[0]].update(numbers)  # which adds
    return counts


def raced() -> dict[str, bool]:
    """By kernel of `races`: True if compute-sanitizer's racecheck finds a hazard on the GPU."""
    return {name: _hazards(name) > 0 for name in races.KERNELS}


def _hazards(name: str) -> int:
    done = _run("compute-sanitizer", "--tool", "racecheck", option=f"--race={name}")
    text = done.stdout + done.stderr
    if not (found := re.search(r"RACECHECK SUMMARY: (\d+) hazard", text)):
        raise DeviceError(f"compute-sanitizer gave no summary of {name}: {text.strip()[-800:]}")
    return int(found[1])


def _run(tool: str, *options: str, option: str) -> subprocess.CompletedProcess[str]:
    """Run this module with an option in another process, under a tool with its options."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), *sys.path])}
    command = [_tool(tool), *options, sys.executable, "-m", "minigrad.lab.hardware.nvidia", option]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def _tool(name: str) -> str:
    """The path of a tool: from PATH, from the folder of nvcc, or from that of Nsight Compute."""
    nvcc = toolkit.find_nvcc()
    homes = [nvcc.resolve().parent] if nvcc else []
    homes += sorted(Path("/opt/nvidia/nsight-compute").glob("*"), reverse=True)
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *map(str, homes)]))
    if not found:
        raise DeviceError(f"{name} is not here; it comes with the CUDA toolkit. Put its folder on PATH.")
    return found


def measure(folder: Path) -> Path:
    """Write the record of this machine's GPU. Raises DeviceError without a GPU, or without the tools."""
    check("cuda")
    driver = toolkit.find_driver()
    device = toolkit.gpu_names(driver)[0] if driver else "GPU"
    today = date.today().isoformat()
    path = folder / f"{device.lower().replace(' ', '-')}-{today}.json"
    version = toolkit.output([_tool("ncu"), "--version"]).strip().splitlines()[-1]
    command = "python -m minigrad.lab.hardware.nvidia"
    record = {"device": device, "date": today, "command": command, "ncu": version, "kernels": profiled()}
    folder.mkdir(parents=True, exist_ok=True)
    record |= {"rungs": rungs()}
    path.write_text(json.dumps(record, indent=1) + "\n")  # first without races, which can fail
    path.write_text(json.dumps(record | {"races": raced()}, indent=1) + "\n")
    return path


def main() -> int:
    """The command line. --launch and --race are used by the processes under the tools."""
    parser = argparse.ArgumentParser("python -m minigrad.lab.hardware.nvidia", description=__doc__)
    parser.add_argument("--save", type=Path, default=FOLDERS[0], metavar="FOLDER", help="write the record there")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--climb", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--race", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        if options.launch or options.race or options.climb:
            if options.race:
                races.run(options.race, "cuda")
            else:
                counters.climb() if options.climb else counters.launch("cuda")
            get("cuda").synchronize()
        else:
            path = measure(options.save)
            print(f"Written to {path}.", flush=True)
            print(counters.compare(json.loads(path.read_text())))
    except DeviceError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
