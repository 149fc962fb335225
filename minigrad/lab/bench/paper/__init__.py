"""The benchmark of the Enzyme paper's applications in full: each kernel and its adjoint, at the paper's sizes."""

from minigrad.lab.bench.paper.report import PaperReport, paper_report, recorded_paper

__all__ = ["PaperReport", "paper_report", "recorded_paper"]
