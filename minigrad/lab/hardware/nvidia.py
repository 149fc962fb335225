"""The kernels of `counters` and `races` on a GPU under NVIDIA's tools: a record of its counts and hazards.

`python -m minigrad.lab.hardware.nvidia` runs them under ncu and compute-sanitizer, which are part of the CUDA toolkit,
and writes `notebooks/records/counters/<device>-<date>.json`.
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

from minigrad.devices import check, get
from minigrad.devices.cuda import toolkit
from minigrad.errors import DeviceError
from minigrad.lab.hardware import counters, races
from minigrad.lab.hardware.counters import FOLDERS, METRICS, Counts, add
from minigrad.source import PACKAGE


def profiled() -> Counts:
    """The GPU's counts from ncu. Raises DeviceError with its message."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        options = ["--csv", "--page", "raw", "--clock-control", "none", "--log-file", str(log)]
        _run([_tool("ncu"), *options, "--metrics", ",".join(METRICS.values())], "--launch", log)
        return read(log.read_text())


def read(text: str) -> Counts:
    """The counts in the output of ncu: a CSV table between other lines."""
    rows = text.splitlines()
    start = next((i for i, row in enumerate(rows) if row.startswith('"ID"')), None)
    if start is None:
        raise DeviceError(f"ncu wrote no table: {text.strip()[-800:]}")
    counts: Counts = {}
    for row in csv.DictReader(rows[start:]):
        if row["ID"]:  # the row of units has none
            numbers = {name: float(row[name].replace(",", "")) for name in METRICS.values()}
            add(counts, row["Kernel Name"].partition("(")[0], numbers)
    return counts


def raced() -> dict[str, bool]:
    """By kernel of `races`: True if compute-sanitizer's racecheck finds a hazard on the GPU."""
    return {name: _hazards(name) > 0 for name in races.KERNELS}


def _hazards(name: str) -> int:
    done = _run([_tool("compute-sanitizer"), "--tool", "racecheck"], f"--race={name}", None)
    found = re.search(r"RACECHECK SUMMARY: (\d+) hazard", done)
    if not found:
        raise DeviceError(f"compute-sanitizer gave no summary of {name}: {done.strip()[-800:]}")
    return int(found[1])


def _run(tool: list[str], option: str, log: Path | None) -> str:
    """Run this module with an option in another process, under a tool. Returns the output."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE.parent), *sys.path])}
    command = [*tool, sys.executable, "-m", "minigrad.lab.hardware.nvidia", option]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if log is not None and (done.returncode or not log.is_file()):
        logged = log.read_text() if log.is_file() else ""
        raise DeviceError(
            f"{tool[0]} ended with {done.returncode}: {(logged + done.stdout + done.stderr).strip()[-1500:]}"
        )
    return done.stdout + done.stderr


def _tool(name: str) -> str:
    nvcc = toolkit.find_nvcc()
    homes = [nvcc.resolve().parent] if nvcc else []
    deep = sorted(Path("/opt/nvidia/nsight-compute").glob("*"), reverse=True)
    path = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    found = toolkit.first_file(folder / name for folder in (*path, *homes, *deep))
    if not found:
        raise DeviceError(f"{name} is not here; it comes with the CUDA toolkit. Put its folder on PATH.")
    return str(found)


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
    _write(path, record)
    _write(path, {**record, "races": raced()})
    return path


def _write(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def main() -> int:
    """The command line. --launch and --race are used by the processes under the tools."""
    parser = argparse.ArgumentParser("python -m minigrad.lab.hardware.nvidia", description=__doc__)
    parser.add_argument("--save", type=Path, default=FOLDERS[0], metavar="FOLDER", help="write the record there")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--race", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        if options.launch or options.race:
            races.run(options.race, "cuda") if options.race else counters.launch("cuda")
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
