"""The runners: each gives the module's numbers, in every cell, layer and direction, for any lengths."""

import re
from functools import partial
from types import SimpleNamespace

import pytest
from recurrent_runs import MAKERS, compare

import minigrad as mg
from minigrad import nn
from minigrad.recurrent import CUDA, MPI, NumPy, OpenMP, cuda, openmp

RAGGED = [(1, 1, 1), (31, 3, 2), (33, 1, 100), (513, 3, 2)]  # hidden, batch, steps


WAYS = [pytest.param(NumPy, "numpy", id="numpy")]
WAYS += [pytest.param(partial(OpenMP, rung=rung, threads=2), "numpy", id=f"openmp-{rung}") for rung in openmp.RUNGS]
for device in ("sim", "cuda"):
    marks = pytest.mark.gpu if device == "cuda" else ()
    WAYS += [pytest.param(partial(CUDA, rung=rung), device, id=f"{device}-{rung}", marks=marks) for rung in cuda.RUNGS]

CUT_OFF = [pytest.param(kind, [3, 7, 1, 5], id=f"{kind}-cut off") for kind in MAKERS]
CUT_OFF += [pytest.param("lstm", None, id="lstm-whole")]


# every cell in float64 is in the tests below this one
RUN = [*((kind, "float32") for kind in MAKERS), ("lstm", "float64")]


# every second pair of a cell and a rung; `make soak` has the others
@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "runner, device, kind, dtype",
    [
        pytest.param(
            *way.values, *run, id="-".join((way.id, *run)), marks=[*way.marks, *[pytest.mark.soak] * ((i + j) % 2)]
        )
        for i, way in enumerate(WAYS)
        for j, run in enumerate(RUN)
    ],
)
def test_ragged_sizes(runner, device, kind, dtype):
    mg.manual_seed(0)
    cluster = isinstance(runner, partial) and runner.keywords["rung"] == "cluster"
    small = device == "sim" and dtype == "float64"
    most = 65 if cluster else 257 if small else 513  # units that 8 blocks, or all that `sim` runs at once, hold
    for hidden, batch, steps in RAGGED:
        module = MAKERS[kind](7, min(hidden, most), device=device, dtype=dtype)
        compare(runner(module), module, batch, steps)


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind, lengths", CUT_OFF)
@pytest.mark.parametrize("runner, device", WAYS)
def test_layers_and_lengths(runner, device, kind, lengths):
    mg.manual_seed(0)
    module = MAKERS[kind](3, 17, 3, bias=False, device=device, dtype="float64")
    compare(runner(module), module, 4, 7, lengths, start=False)


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind, lengths", CUT_OFF)
@pytest.mark.parametrize("runner, device", [way for way in WAYS if way.id not in ("sim-wavefront", "cuda-wavefront")])
def test_both_directions(runner, device, kind, lengths):
    mg.manual_seed(0)
    module = MAKERS[kind](3, 17, 2, bidirectional=True, device=device, dtype="float64")
    compare(runner(module), module, 4, 7, lengths)


@pytest.mark.parametrize(
    "runner, device, other", [(NumPy, "numpy", "sim"), (OpenMP, "numpy", "sim"), (CUDA, "sim", "numpy")]
)
def test_another_device_or_dtype_is_refused(runner, device, other):
    with pytest.raises(ValueError, match=f"{runner.__name__}: the network is on '{other}'; move it: module.to"):
        runner(nn.GRU(3, 4, device=other))
    run, x = runner(nn.LSTM(3, 4, device=device)), mg.zeros((2, 1, 3), device=device)
    with pytest.raises(ValueError, match=f"x is on '{other}', the network on '{device}'; move one"):
        run(x.to(other))
    with pytest.raises(TypeError, match="x is float64, the weights are float32; make them one"):
        run(x.astype("float64"))
    state = mg.zeros((1, 1, 4), device=device)
    with pytest.raises(TypeError, match="c is float64, the weights are float32; make them one"):
        run(x, (state, state.astype("float64")))


WRONG = {"weight_hh_l0": (32, 5), "weight_ih_l1": (8, 8), "bias_hh_l1_reverse": (8,)}


@pytest.mark.parametrize("runner, device", [(NumPy, "numpy"), (OpenMP, "numpy"), (CUDA, "sim"), (MPI, "numpy")])
def test_a_weight_that_does_not_fit_is_named(runner, device):
    comm = {"comm": SimpleNamespace(rank=0, size=1, allgather=lambda part: [part])} if runner is MPI else {}
    right = {"device": device}
    for name, shape in WRONG.items():
        module = nn.LSTM(3, 8, 2, bidirectional=True, **right)
        setattr(module, name, mg.zeros(shape, **right))
        needs = tuple(getattr(nn.LSTM(3, 8, 2, bidirectional=True, **right), name).shape)
        with pytest.raises(ValueError, match=re.escape(f"{runner.__name__}: {name} is {shape} float32 on '{device}'")):
            runner(module, **comm)
        setattr(module, name, mg.zeros(needs, dtype="float64", **right))
        with pytest.raises(TypeError, match=rf"{name} is .* float64 on .* needs {re.escape(str(needs))} float32"):
            runner(module, **comm)
    module = nn.GRU(3, 8, **right)
    module.bias_ih_l0 = mg.zeros(24, device="sim" if device == "numpy" else "numpy")
    with pytest.raises(ValueError, match=f"bias_ih_l0 is .* needs .* on '{device}'"):
        runner(module, **comm)


@pytest.mark.parametrize("runner", [NumPy, CUDA])
def test_refusals_are_the_module_s(runner):
    device = "sim" if runner is CUDA else "numpy"
    run = runner(nn.LSTM(3, 4, device=device))
    with pytest.raises(ValueError, match=r"x is \(5, 2, 4\); it must be \(T, B, 3\)"):
        run(mg.zeros((5, 2, 4), device=device))
    with pytest.raises(ValueError, match="a length is 9"):
        run(mg.zeros((5, 1, 3), device=device), lengths=[9])
    with pytest.raises(TypeError, match=f"{runner.__name__} takes an nn.RNN, nn.LSTM or nn.GRU"):
        runner(nn.Linear(3, 4))


@pytest.mark.parametrize("runner, device", [way for way in WAYS if way.id.split("-")[0] != "cuda"])
def test_a_runner_keeps_the_weights_that_it_was_made_of(runner, device):
    module = nn.LSTM(3, 4, 2, device=device)
    run, x = runner(module), mg.randn(3, 2, 3, device=device)
    before = run(x)[0].numpy()
    with mg.no_grad():
        for weight in module.parameters():
            weight.assign(mg.zeros(weight.shape, device=device))
    assert (run(x)[0].numpy() == before).all() and before.any()


@pytest.mark.parametrize("runner, device", [(NumPy, "numpy"), (OpenMP, "numpy"), (CUDA, "sim")])
def test_other_numbers_than_float32_and_float64_are_refused(runner, device):
    with pytest.raises(TypeError, match="computes in float32 or float64; these weights are bfloat16"):
        runner(nn.RNN(3, 4, dtype="bfloat16", device=device))
