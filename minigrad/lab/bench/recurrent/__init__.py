"""The benchmark of recurrent networks: sequences on the GPU, steps on the processor's threads and on ranks of MPI."""

from minigrad.lab.bench.recurrent.processor import RecurrentTimes, recurrent_times
from minigrad.lab.bench.recurrent.ranks import RankTimes, rank_times
from minigrad.lab.bench.recurrent.report import RecurrentReport, recorded_recurrent, recurrent_report

__all__ = [
    "RankTimes", "RecurrentReport", "RecurrentTimes", "rank_times", "recorded_recurrent", "recurrent_report",
    "recurrent_times",
]  # fmt: skip
