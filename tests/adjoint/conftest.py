"""Kernels of NumPy arrays run on `sim` here, also where there is a GPU: what is tested is what is looked at there."""

import pytest


@pytest.fixture(autouse=True)
def numpy_on_sim(request, monkeypatch):
    if not request.node.get_closest_marker("gpu"):
        monkeypatch.setenv("MINIGRAD_DEVICE", "sim")
