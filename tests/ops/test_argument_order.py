"""The arguments of ops have the order, and but for some short names the names, of torch.nn.functional."""

import inspect

import numpy as np
import pytest

import minigrad as mg

TORCH = {
    "conv2d": "input weight bias stride padding dilation groups",
    "max_pool2d": "input kernel_size stride padding dilation ceil_mode return_indices",
    "avg_pool2d": "input kernel_size stride padding ceil_mode count_include_pad divisor_override",
    "batch_norm": "input running_mean running_var weight bias training momentum eps",
    "pad": "input pad mode value",
    "flatten": "input start_dim end_dim",
}
SHORT = {"input": "x", "kernel_size": "size"}
MORE, LESS = {"precision"}, {"return_indices", "divisor_override"}  # on our side, on torch's: both at the end


@pytest.mark.parametrize("name", TORCH)
def test_the_table(name):
    op, short = mg.OPS[name], SHORT | ({"weight": "w"} if name == "conv2d" else {})
    ours, theirs = [*op.inputs.names, *op.inputs.params], [short.get(word, word) for word in TORCH[name].split()]
    assert [word for word in ours if word not in MORE] == [word for word in theirs if word not in LESS]
    assert {*ours[len(theirs) :]} <= MORE and {*theirs[len(ours) :]} <= LESS
    assert list(inspect.signature(op.prepare).parameters) == ours


@pytest.mark.parametrize("name", ["_max_pool2d", "batch_norm", "pad"])
def test_torch_itself(name):
    """Other functions of it show no signature."""
    functional = pytest.importorskip("torch").nn.functional
    assert list(inspect.signature(getattr(functional, name)).parameters) == TORCH[name.lstrip("_")].split()


@pytest.mark.parametrize("op", [mg.max_pool2d, mg.avg_pool2d])
def test_a_flag_by_position_means_what_it_means_there(op):
    x = mg.ones(1, 1, 4, 4, device="numpy")
    before = (1,) if op is mg.max_pool2d else ()  # dilation
    assert op(x, 3, 1, 1, *before, False).numpy()[0, 0, 0, 0] == np.float32(1 if before else 4 / 9)
    advice = r"Pad below .* padding=\(\(0, 1\), \(0, 1\)\)" + ("" if before else ", with count_include_pad=False")
    with pytest.raises(ValueError, match=rf"ceil_mode=True is not known here\. {advice}\.$"):
        op(x, 3, 2, 0, *before, True)
    counted = {} if before else {"count_include_pad": False}
    assert op(x, 3, 2, ((0, 1), (0, 1)), **counted).numpy().tolist() == [[[[1, 1], [1, 1]]]]
    assert mg.avg_pool2d(x, 3, 1, 1, False, False).numpy()[0, 0, 0, 0] == 1
