"""The benchmark of attention and of GPTs: ops, whole training steps and generation next to PyTorch's."""

from minigrad.lab.bench.transformer.report import TransformerReport, recorded_transformer, transformer_report

__all__ = ["TransformerReport", "recorded_transformer", "transformer_report"]
