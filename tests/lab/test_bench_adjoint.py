"""Benchmarks of adjoints: every rung is right at the benchmark's inputs, a wrong gradient is not timed."""

from types import SimpleNamespace

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get, why_not
from minigrad.devices.array import Array
from minigrad.lab import cli as command_line
from minigrad.lab.bench import adjoints
from minigrad.lab.bench import record as dated
from minigrad.lab.bench.adjoints import Backward
from minigrad.lab.bench.costs import AdjointCost, Growth, Ratio
from minigrad.lab.bench.ladder import RUNGS
from minigrad.lab.bench.record import ADJOINT, Record
from minigrad.lab.bench.timer import Timing
from minigrad.lab.check import ValueMismatch

SIM = get("sim")


def subject(name):
    return adjoints.Subject(name, SIM)


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", [pytest.param(x, marks=[pytest.mark.soak] * (i % 2)) for i, x in enumerate(RUNGS)])
def test_the_gradient_is_right_at_the_inputs_of_the_benchmark_and_so_is_what_is_timed_each_time(name):
    s = subject(name)
    s.verify()
    (args, grid, block), dy = s.at(s.rung.checked, s.rung.work)
    wanted = [d.numpy() for d in s.adjoint.vjp(*args, dy=dy, grid=grid, block=block)]
    backward = Backward(s.adjoint, [args], dy, grid, block)
    for _ in range(2):
        gradients = backward()
        for wrt, d in zip(s.adjoint.wrt, wanted, strict=True):
            scale = max(1e-30, np.abs(d).max())
            assert np.abs(gradients[wrt].numpy() - d).max() <= 1e-5 * scale, wrt


def test_sizes_and_work_grow_32_fold():
    for name, rung in RUNGS.items():
        assert rung.sizes[-1] == 32 * rung.size, name
        if rung.works and name != "triangular":
            assert rung.works[-1] == 32 * rung.work, name
    rounds = [m * (m + 1) // 2 for m in RUNGS["triangular"].works]
    assert rounds[-1] >= 32 * rounds[0]


def test_what_does_not_saturate_a_gpu_is_measured_and_is_no_part_of_flatness():
    assert RUNGS["product"].works == [8 << k for k in range(10)] and RUNGS["product"].work == 128
    growth = Growth({2: ratio(1, 9), 4: ratio(1, 2), 8: ratio(1, 2), 128: ratio(1, 3)})
    assert growth.spread == 1.5 and Growth({8: ratio(1, 9)}).spread is None


def test_a_wrong_gradient_is_not_timed(monkeypatch):
    s = subject("axpy")
    right = s.adjoint.vjp
    monkeypatch.setattr(s.adjoint, "vjp", lambda a, *args, **named: right(a + 1, *args, **named))
    with pytest.raises(ValueMismatch, match=r"axpy: the gradient of x is off by 0\.67 of its largest element"):
        s.verify()


def test_tapes_are_counted():
    s = subject("product")
    (args, grid, block), dy = s.at(s.rung.checked, 8)
    assert Backward(s.adjoint, [args], dy, grid, block).tape_bytes == (
        0,
        4 * s.rung.checked,
    )  # one of 8 iterations is saved


def test_steps_of_time_are_walked_back_as_the_tape_does_it():
    s = subject("lbm_d2q9")
    (args, grid, block), (dy,) = s.at(s.rung.checked, 1)
    step = mg.differentiable(s.rung.kernel)
    start = mg.tensor(args[0].numpy(), requires_grad=True, device="sim")
    state = start
    for _ in range(4):
        state = step(state, *args[1:], grid=grid, block=block)
    state.backward(mg.tensor(dy.numpy(), device="sim"))
    forward, chain = s.calls(s.rung.checked, 4)
    forward()
    gradients = chain()
    assert np.allclose(chain.runs[0].arrays["g"].numpy(), state.numpy(), rtol=1e-5)
    assert np.allclose(gradients["f"].numpy(), start.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
def test_a_rung_is_measured():
    record = adjoints.run("axpy_strided")
    cost = record.costs["axpy_strided"]
    assert set(cost.sizes) == set(RUNGS["axpy_strided"].sizes) and cost.resources[1][0] > 0
    assert all(r.adjoint.seconds > 0 for r in [*cost.sizes.values(), *cost.works.values()])


# --- the record ---


def ratio(primal, adjoint):
    return Ratio(Timing(primal, primal, primal, 9), Timing(adjoint, adjoint, adjoint, 9))


def made():
    sizes = Growth({1: ratio(1e-6, 2e-6), 32: ratio(1e-5, 3e-5)})
    cost = AdjointCost("axpy", "float32", sizes, Growth(), ((10, 0, 0, 0), (12, 0, 8, 8)), (0, 4), ratio(1e-5, 4e-5))
    none = AdjointCost("product", "float32", sizes, sizes, ((9, 0, 0, 0), (9, 0, 0, 0)), (0, 0), "wrong: off by 0.6")
    return record_of("minigrad bench", {"driver": "580"}, {"a": cost, "p": none})


def record_of(command, versions, costs, **named):
    return Record("NVIDIA H200", "2026-11-21", command, versions, costs=costs, folder=ADJOINT, **named)


def test_a_record_comes_back(tmp_path, monkeypatch):
    record = made()
    path = record.save(tmp_path)
    assert path == tmp_path / "adjoint" / "nvidia-h200-2026-11-21.json"
    assert repr(mg.bench.load(path)) == repr(record)
    assert mg.bench.load(path).costs == record.costs
    monkeypatch.setattr(dated, "FOLDERS", (tmp_path,))
    assert repr(mg.bench.newest_adjoints()) == repr(record)


def test_a_record_keeps_what_is_not_measured_again(tmp_path):
    made().save(tmp_path)
    again = record_of("again", {}, {"a": made().costs["p"]})
    kept = mg.bench.load(again.save(tmp_path)).costs
    assert kept == {"a": made().costs["p"], "p": made().costs["p"]}


def test_the_table_says_ratio_flatness_and_the_rival():
    text = repr(made())
    assert "3.00" in text and "1.50" in text and "4.00" in text and "wrong: off by 0.6" in text
    assert made().median == 3.0 and made().costs["a"].sizes.spread == 1.5 and Growth().spread is None


def test_a_second_run_of_a_day_adds_its_command_and_versions_and_what_it_refused(tmp_path):
    first = made()
    first.refused["gelu"] = first.refused["sum"] = "wrong"
    first.save(tmp_path)
    costs = {"sum": first.costs["a"]}
    again = record_of("again", {"warp": "1.19"}, costs, refused={"p": "wrong now"})
    back = mg.bench.load(again.save(tmp_path))
    assert back.command == "minigrad bench; again" and back.versions == {"driver": "580", "warp": "1.19"}
    assert back.refused == {"gelu": "wrong", "p": "wrong now"} and set(back.costs) == {"a", "sum"}
    assert again.refused == {"p": "wrong now"}, "what this run found is not what the file says"


# --- the rival ---


@pytest.mark.parametrize("place", [0, 1])
def test_nan_in_any_gradient_is_far_off(monkeypatch, place):
    from minigrad.lab.bench.rivals.warp import Warp

    s, rival = subject("multiply_in_place"), Warp.__new__(Warp)
    rival.device = SIM
    (args, grid, block), dy = s.at(s.rung.checked, s.rung.work)
    found = dict(zip(s.adjoint.wrt, s.adjoint.vjp(*args, dy=dy, grid=grid, block=block), strict=True))
    monkeypatch.setattr(Warp, "calls", lambda *given: (lambda: None, lambda: None, found))
    assert len(found) > 1 and rival.error(s) == 0
    name = list(found)[place]
    found[name] = Array.upload(SIM, np.full(found[name].shape, np.nan, np.float32))
    assert rival.error(s) == np.inf


def test_without_warp_a_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "warp", None)
    from minigrad.lab.bench.rivals.warp import Warp

    with pytest.raises(ImportError, match=r"pip install 'minigrad-cuda\[bench\]'"):
        Warp(SimpleNamespace(name="sim"))


def test_warp_is_right_where_it_is_timed_and_wrong_where_a_product_is_carried_by_a_loop():
    pytest.importorskip("warp")
    from minigrad.lab.bench.rivals.warp import TOLERANCE, Warp

    rival = Warp(SIM)
    errors = {name: rival.error(subject(name)) for name in rival.kernels}
    assert {name for name, off in errors.items() if off > TOLERANCE} == {"product"}
    assert rival.ratio(subject("product"), 1, 1).startswith("wrong: off by")
    assert rival.ratio(subject("softmax"), 1, 1) is None


# --- the command ---


@pytest.mark.skipif(not why_not("cuda"), reason="a GPU would be measured")
def test_without_a_gpu_the_command_shows_the_newest_record(capsys, monkeypatch, tmp_path):
    made().save(tmp_path)
    monkeypatch.setattr(dated, "FOLDERS", (tmp_path,))
    assert command_line.main(["bench", "--adjoint"]) == 0
    assert repr(made()) in capsys.readouterr().out


def test_a_rung_that_there_is_not_is_named():
    with pytest.raises(ValueError, match="is not a rung; the rungs are axpy"):
        adjoints.run("nothing")


def test_every_kernel_of_the_ladder_is_measured():
    assert {rung.kernel.name for rung in RUNGS.values()} == set(mg.adjoint.LADDER)
