"""The benchmark of ResNet-18: whole steps, single layers and a timeline, next to PyTorch in the same process."""

from minigrad.lab.bench.resnet.report import ResNetReport, recorded_resnet
from minigrad.lab.bench.resnet.run import resnet_report

__all__ = ["ResNetReport", "recorded_resnet", "resnet_report"]
