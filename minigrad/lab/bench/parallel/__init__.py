"""The benchmark of several GPUs: all-reduces between them, and training steps on all of them."""

from minigrad.lab.bench.parallel.report import ParallelReport, parallel_report, recorded_parallel
from minigrad.lab.bench.parallel.timeline import RankWatch

__all__ = ["ParallelReport", "RankWatch", "parallel_report", "recorded_parallel"]
