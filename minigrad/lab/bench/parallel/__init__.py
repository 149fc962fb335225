"""The benchmark of several GPUs: all-reduces between them, and training steps on all of them."""

from minigrad.lab.bench.parallel.report import ParallelReport, parallel_report, recorded_parallel

__all__ = ["ParallelReport", "parallel_report", "recorded_parallel"]
