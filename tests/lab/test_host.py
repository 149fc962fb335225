"""What a call costs the host: the results that are compared before, and the clock. The times themselves need a GPU."""

import pytest

import minigrad as mg
from minigrad.lab.bench import host
from minigrad.lab.bench.timer import Timing
from minigrad.lab.check import ValueMismatch


def test_the_works_give_the_same_on_sim_and_numpy():
    host.must_agree({"minigrad": host.ours("sim")}, host.ours("numpy"))


def test_a_wrong_result_is_not_timed():
    works = host.ours("numpy")
    with pytest.raises(ValueMismatch, match=r"exp by minigrad is off by .*; it is not timed"):
        host.must_agree({"minigrad": works | {"exp": works["add"]}}, works)


def test_the_device_is_waited_for_outside_of_the_time():
    order = []
    host.timed({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, lambda: order.append("wait"), 2)
    assert order == 2 * ["wait", *"a" * host.CALLS, "wait", *"b" * host.CALLS]


def test_costs_are_kept_in_a_record(tmp_path):
    times = {"add": {"minigrad": Timing(4e-6, 3e-6, 5e-6, 9, True), "PyTorch": Timing(5e-6, 4e-6, 6e-6, 9, True)}}
    record = mg.bench.Record("Some GPU", "2026-11-21", "minigrad bench --host", {}, host=times)
    assert mg.bench.load(record.save(tmp_path)).host == times
    assert repr(host.HostCost("Some GPU", "2026-11-21", times)).splitlines()[2].split() == ["add", "4.00", "5.00"]


def test_what_cannot_be_timed_is_refused():
    with pytest.raises(ValueError, match=r"mg\.bench\.host_cost: against='numpy' must be among torch"):
        mg.bench.host_cost(against=("numpy",))
    with pytest.raises(ValueError, match="training_step: against='nope' must be among torch, numpy"):
        mg.bench.training_step(against=["nope"])
    with pytest.raises(TypeError, match=r"mg\.bench\.time takes a function that launches kernels; got int 3"):
        mg.bench.time(3)


@pytest.mark.gpu
def test_a_call_is_timed_beside_pytorch():
    pytest.importorskip("torch")
    times = mg.bench.host_cost(against=("torch",), repeats=3).times
    assert tuple(times) == host.TITLES
    assert all(0 < t.seconds < 0.1 for each in times.values() for t in each.values())
