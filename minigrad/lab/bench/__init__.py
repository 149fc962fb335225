"""Benchmarks: results are checked before they are timed, by CUDA events that exclude the host.

`mg.bench.time(call)` times any launches, `mg.bench.measure(mg.relu, (2**26,))` an op with its bytes and FLOPs,
`mg.bench.sweep(...)` every legal block size; `minigrad bench` on the command line measures the whole suite.
`mg.bench.training_step()` times a whole training step, eager and as a graph, and `mg.bench.host_cost()` the host's part
of a call; both include the host's time. `mg.bench.memory_levels()` measures each level of memory, and
`mg.bench.resnet_report()` ResNet-18 next to PyTorch: whole steps, single layers, and the timeline of a step.
`mg.bench.recurrent_report()` times recurrent networks on the GPU, on the processor's threads and on ranks of MPI;
`mg.bench.parallel_report()` messages between GPUs, and training on all of them; `mg.bench.RankWatch` notes the spans of
a step on a rank. `mg.bench.transformer_report()` times attention and GPTs, and `mg.bench.paper_report()` the Enzyme
paper's applications with their adjoints. `newest()`, `recorded_step()`, `recorded_host()`, `recorded_levels()`,
`recorded_resnet()`, `recorded_recurrent()`, `recorded_parallel()`, `recorded_transformer()`, `recorded_paper()` and
`newest_adjoints()` read the newest records. `sim` is never timed: it counts and checks, and says nothing about a GPU's
speed.
"""

from minigrad.lab.bench.host import HostCost, host_cost, recorded_host
from minigrad.lab.bench.levels import Levels, memory_levels, recorded_levels
from minigrad.lab.bench.measure import Measurement, measure
from minigrad.lab.bench.paper import PaperReport, paper_report, recorded_paper
from minigrad.lab.bench.parallel import ParallelReport, RankWatch, parallel_report, recorded_parallel
from minigrad.lab.bench.record import Record, load, newest, newest_adjoints
from minigrad.lab.bench.recurrent import RecurrentReport, recorded_recurrent, recurrent_report
from minigrad.lab.bench.resnet import ResNetReport, recorded_resnet, resnet_report
from minigrad.lab.bench.steps import TrainingStep, recorded_step, training_step
from minigrad.lab.bench.sweeps import TunableSweep, sweep
from minigrad.lab.bench.timer import Timing, time
from minigrad.lab.bench.transformer import TransformerReport, recorded_transformer, transformer_report
from minigrad.lab.bench.work import Work
from minigrad.lab.bench.workloads import run, suite

__all__ = [
    "HostCost", "Levels", "Measurement", "PaperReport", "ParallelReport", "RankWatch", "Record", "RecurrentReport",
    "ResNetReport", "Timing", "TrainingStep", "TransformerReport", "TunableSweep", "Work", "host_cost", "load",
    "measure", "memory_levels", "newest", "newest_adjoints", "paper_report", "parallel_report", "recorded_host",
    "recorded_levels", "recorded_paper", "recorded_parallel", "recorded_recurrent", "recorded_resnet", "recorded_step",
    "recorded_transformer", "recurrent_report", "resnet_report", "run", "suite", "sweep", "time", "training_step",
    "transformer_report",
]  # fmt: skip
