"""How fast is it? Every result is checked before it is timed; every time is the GPU's alone, by CUDA events.

`mg.bench.time(work)` times any launches, `mg.bench.measure(mg.relu, (2**26,))` an op with its bytes and FLOPs,
`mg.bench.sweep(...)` every legal block size, and `minigrad bench` on the command line the whole set.
`mg.bench.training_step()` times a whole step, eager and as a graph, with the host's time in it, and `recorded_step()`
is the newest in a record. `minigrad bench --adjoint` times kernels beside their adjoints; `newest_adjoints()` is the
newest record of that. `mg.bench.host_cost()` times what a call costs the host, and `recorded_host()` is the newest.
Nothing is measured on `sim`: it counts and checks, and says nothing about a GPU's speed.
"""

from minigrad.lab.bench.host import HostCost, host_cost, recorded_host
from minigrad.lab.bench.ladder import AdjointRecord
from minigrad.lab.bench.ladder import newest as newest_adjoints
from minigrad.lab.bench.measure import Measurement, measure
from minigrad.lab.bench.record import Record, load, newest
from minigrad.lab.bench.steps import TrainingStep, recorded_step, training_step
from minigrad.lab.bench.sweeps import Sweep, sweep
from minigrad.lab.bench.timer import Timing, time
from minigrad.lab.bench.work import Work
from minigrad.lab.bench.workloads import run, suite

__all__ = ["AdjointRecord", "HostCost", "Measurement", "Record", "Sweep", "Timing", "TrainingStep", "Work",
           "host_cost", "load", "measure", "newest", "newest_adjoints", "recorded_host", "recorded_step", "run",
           "suite", "sweep", "time", "training_step"]  # fmt: skip
