"""The OpenMP ladder: every rung gives the module's numbers, and with any threads the same bits."""

import os
from functools import partial
from itertools import product

import numpy as np
import pytest
from recurrent_runs import MAKERS, TOLERANCE, compare, tupled

import minigrad as mg
from minigrad.recurrent import NumPy, OpenMP, openmp

RUNGS = openmp.RUNGS
SHARED = RUNGS[2:]
SIZES = [*product((1, 31, 33, 513), (1, 3), (1, 2, 100))]  # hidden, batch, steps


def network(kind="lstm", inputs=5, hidden=33, layers=1, seed=0, **how):
    mg.manual_seed(seed)
    return MAKERS[kind](inputs, hidden, layers, **how)


def numbers(*shape, dtype="float32"):
    return mg.tensor(np.random.default_rng(0).standard_normal(shape), dtype=dtype)


def results(run, x, *more):
    y, state = run(x, *more)
    return [part.numpy() for part in (y, *tupled(state))]


def same_bits(found, wanted):
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, wanted, strict=True))


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", MAKERS)
def test_every_rung_at_ragged_sizes(kind, dtype):
    for hidden, batch, steps in SIZES:
        module, x = network(kind, 5, hidden, dtype=dtype), numbers(steps, batch, 5, dtype=dtype)
        wanted = results(NumPy(module), x)
        slow = hidden == 513 and steps == 100  # for number by number
        for rung in RUNGS[slow:]:
            for a, b in zip(results(OpenMP(module, rung, threads=2), x), wanted, strict=True):
                np.testing.assert_allclose(a, b, TOLERANCE[dtype], TOLERANCE[dtype], err_msg=f"{rung} {x.shape}")


@pytest.mark.parametrize("kind", MAKERS)
def test_any_threads_and_any_schedule_give_the_same_bits(kind):
    """A sum has one order, in whichever tile and by whichever thread."""
    module, x, lengths = network(kind, hidden=70, layers=2), numbers(9, 14, 5), [9, 3, 1, *[7] * 11]
    wanted = results(OpenMP(module, "packed"), x, None, lengths)
    for rung, threads, schedule in product(SHARED, (1, 2, 3, 5), openmp.SCHEDULES):
        same_bits(results(OpenMP(module, rung, threads, schedule=schedule), x, None, lengths), wanted)
    same_bits(results(OpenMP(module, "both", 6, groups=3), x, None, lengths), wanted)
    module, x = network(kind, hidden=70), numbers(2, 33, 5)  # four groups have a tile of sequences each
    same_bits(results(OpenMP(module, "both", 8), x), results(OpenMP(module, "packed"), x))


@pytest.mark.parametrize(
    "threads, batch, groups", [(16, 32, 4), (16, 31, 2), (6, 32, 3), (7, 99, 1), (2, 32, 1), (8, 0, 1)]
)
def test_a_group_of_threads_has_a_tile_of_sequences(threads, batch, groups):
    assert openmp.groups_of(threads, batch) == groups


@pytest.mark.parametrize("batch", [0, 1, 5, 20])
@pytest.mark.parametrize("steps", [1, 11, 12, 13, 40])
def test_a_wavefront_of_any_length(steps, batch):
    """A layer is behind the one below by more steps than there are, by as many, or by less."""
    module, x = network("gru", layers=3), numbers(steps, batch, 5)
    same_bits(results(OpenMP(module, "wavefront", 2), x), results(OpenMP(module, "packed"), x))


@pytest.mark.parametrize("rung", SHARED)
def test_bound_threads_are_free_afterwards(rung):
    module, x, before = network(), numbers(3, 4, 5), os.sched_getaffinity(0)
    for affinity in openmp.AFFINITIES:
        same_bits(results(OpenMP(module, rung, 4, affinity), x), results(OpenMP(module, "packed"), x))
        assert os.sched_getaffinity(0) == before


def test_processors_of_the_threads(monkeypatch):
    monkeypatch.setattr(openmp, "cores", lambda: [0, 2, 4, 6, 8, 10])
    assert openmp.bound("close", 3).tolist() == [0, 2, 4]
    assert openmp.bound("spread", 3).tolist() == [0, 4, 8]
    assert openmp.bound("spread", 8).tolist() == [0, 2, 4, 6, 8, 10, 0, 2]
    assert OpenMP(network()).threads == 6


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("kind", MAKERS)
def test_large_sums(kind, rung):
    """Gates far beyond where exp overflows."""
    module = network(kind, dtype="float64")
    for each in (module, MAKERS[kind](5, 33)):
        each.load_state_dict(
            {name: 1e4 * w.numpy().astype(each.parameters()[0].dtype) for name, w in module.named_parameters()}
        )
        compare(OpenMP(each, rung), each, 3, 1)


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("kind", MAKERS)
def test_a_nan_stays_one_and_in_its_sequence(kind, rung):
    x = numbers(3, 2, 5).numpy().copy()
    x[1, 0, 2] = np.nan
    y, _ = OpenMP(network(kind), rung)(mg.tensor(x))
    assert np.array_equal(np.isnan(y.numpy()).all(axis=2), [[False, False], [True, False], [True, False]])
    assert np.isnan(y.numpy()).sum() == 2 * 33


def test_arrays_are_not_copied():
    runner, x = OpenMP(network()), numbers(3, 2, 5).numpy()
    state = np.zeros((2, 33), np.float32)
    made = runner._prepared(x, "_l0", (state, state), None)
    assert (made.layer.x, made.layer.h, made.layer.y) == (x.ctypes.data, state.ctypes.data, made.y.ctypes.data)
    assert all(w.ctypes.data % openmp.LINE == 0 for w in runner.weights["_l0"])
    turned = numbers(2, 3, 5).transpose(1, 0, 2)  # its rows have gaps
    same_bits(results(runner, turned), results(runner, mg.tensor(turned.numpy().copy())))


def test_a_state_given_is_not_changed():
    module, state = network(), (numbers(1, 2, 33), numbers(1, 2, 33))
    OpenMP(module)(numbers(3, 2, 5), state)
    same_bits([part.numpy() for part in state], [numbers(1, 2, 33).numpy()] * 2)


# --- a compiler without OpenMP ---


@pytest.fixture
def without(monkeypatch):
    """A compiler that does not know the option."""
    monkeypatch.setattr(openmp, "THREADED", "-fno-such-option")
    openmp.library.cache_clear()
    yield
    openmp.library.cache_clear()


@pytest.mark.sample(3)
@pytest.mark.parametrize("rung", RUNGS)
def test_without_openmp_there_is_one_thread(rung, without):
    module, x = network(layers=2), numbers(9, 14, 5)
    runner = OpenMP(module, rung, threads=3)
    assert runner.threads == 1 and "threads=1" in repr(runner)
    compare(runner, module, 14, 9, [3, 9] * 7)
    same_bits(results(runner, x), results(OpenMP(module, rung), x))


def test_both_builds_give_the_same_bits(monkeypatch):
    module, x = network(), numbers(9, 14, 5)
    wanted = results(OpenMP(module, threads=2), x)
    monkeypatch.setattr(openmp, "library", partial(openmp.library, threaded=False))
    same_bits(results(OpenMP(module, threads=2), x), wanted)


# --- shown, and refused ---


def test_the_ladder_is_shown():
    parts = OpenMP.parts()
    assert set(RUNGS) | {"panels", "tile", "cell", "step", "exp"} <= parts.keys()
    for title in RUNGS:
        assert repr(OpenMP[title]).startswith("cuda/recurrent/openmp.cpp:") and title in OpenMP[title].text
        assert len(OpenMP[title].text.splitlines()) <= 60
    assert "#pragma omp barrier" in OpenMP["units"].text and "barrier" not in OpenMP["batch"].text.split("{")[1]
    assert OpenMP["exp"].text.count("{") == OpenMP["exp"].text.count("}")
    with pytest.raises(KeyError, match="OpenMP has no part 'warp'; its parts are formula, packed"):
        OpenMP["warp"]


@pytest.mark.parametrize(
    "how, error, text",
    [
        ({"rung": "warp"}, ValueError, "rung='warp' must be among formula, packed, units, batch, both, wavefront"),
        ({"rung": 3}, TypeError, "rung=3 must be one of"),
        ({"threads": 0}, ValueError, "threads=0 must be a whole number of at least 1"),
        ({"threads": 2.5}, TypeError, "threads=2.5 must be a whole number"),
        ({"threads": 10**6}, ValueError, "threads=1000000 must be at most 256"),
        ({"affinity": "far"}, ValueError, "affinity='far' must be among none, close, spread"),
        ({"schedule": "guided"}, ValueError, "schedule='guided' must be among static, dynamic"),
        ({"rung": "both", "threads": 3, "groups": 2}, ValueError, "groups=2 must divide threads=3"),
        ({"rung": "both", "threads": 3, "groups": 0}, ValueError, "groups=0 must be a whole number of at least 1"),
    ],
)
def test_wrong_arguments_are_refused(how, error, text):
    with pytest.raises(error, match=f"^OpenMP: {text}"):
        OpenMP(network(), **how)
