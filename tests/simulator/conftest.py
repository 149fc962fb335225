"""Kernels without arrays run on `sim` here, on a machine with a GPU too."""

import pytest


@pytest.fixture(autouse=True)
def on_sim(monkeypatch):
    """`sim` is the device of every test."""
    monkeypatch.setenv("MINIGRAD_DEVICE", "sim")
