"""Arrays of bfloat16: numbers of two bytes, with arithmetic in float and one rounding, the same in NumPy and kernels."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.errors import CompileError
from minigrad.op import OPS

ml_dtypes = pytest.importorskip("ml_dtypes")
BFLOAT16, STEP = np.dtype(ml_dtypes.bfloat16), 2.0**-7  # the relative distance of neighbors, at most
LATER = ("batch_norm", "max_pool2d", "avg_pool2d")
OF_FLOATS = [op for op in OPS.values() if op.kernels and op.name not in LATER]


def cases(op):
    """The largest case of an op, where kernels take their vectorized ways, and one with NaN."""
    largest = max(op.cases, key=lambda case: sum(x.size for x in case.arrays()))
    return [largest, *[case for case in op.cases if case.nan][:1]]


def results(op, arrays, dy, params, put):
    """The output and the gradients in bfloat16."""
    y, pull = op.pullback(list(map(put, arrays)), params)
    grads = pull(put(dy)) if op.backward else ()
    host = lambda x: x.numpy() if isinstance(x, Array) else x  # noqa: E731
    return [host(x) for x in (y, *grads) if x is not None]


@pytest.mark.parametrize("op", OF_FLOATS, ids=lambda op: op.name)
def test_kernels_agree_with_numpy_to_one_rounding(op, kernel_device):
    for case in cases(op):
        params = {**case.params, **({"dtype": "bfloat16"} if op.name == "astype" else {})}
        arrays = case.arrays(BFLOAT16)
        exact = [x.astype(np.float64) if x.dtype == BFLOAT16 else x for x in arrays]
        truth = op.forward(*exact, **(op.prepare(*exact, **params) if op.prepare else params))
        dy = np.asarray(np.random.default_rng(1).standard_normal(truth.shape)).astype(BFLOAT16)
        wanted = results(op, arrays, dy, params, lambda x: x)
        got = results(op, arrays, dy, params, lambda x: Array.upload(get(kernel_device), x))
        assert {x.dtype for x in got} <= {BFLOAT16, np.dtype(bool)} and len(got) == len(wanted)
        for found, reference in zip(got, wanted, strict=True):
            assert found.dtype == reference.dtype and found.shape == reference.shape
            np.testing.assert_allclose(found.astype(float), reference.astype(float), rtol=STEP, atol=1e-5)
        np.testing.assert_allclose(got[0].astype(float), truth.astype(float), rtol=0.51 * STEP, atol=1e-5)
