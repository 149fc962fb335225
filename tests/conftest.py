"""The devices as fixtures. `cuda` is skipped where there is none; `sim` must be there, or no kernel was tested."""

import pytest

from minigrad.devices import check

CUDA = pytest.param("cuda", marks=pytest.mark.gpu)


@pytest.fixture(params=["numpy", "sim", CUDA])
def device(request):
    """Every device."""
    return check(request.param)


@pytest.fixture(params=["sim", CUDA])
def kernel_device(request):
    """Every device that runs kernels."""
    return check(request.param)
