"""The timer on a fake GPU excludes the host's time, the host's clock includes it. Times themselves need a GPU."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from bench_examples import H200

import minigrad as mg
from minigrad import bench
from minigrad.lab.bench import host
from minigrad.lab.bench.timer import SHORTEST, Timer, Timing, in_turns
from minigrad.lab.check import ValueMismatch


class Paper:
    """A queue with a clock: the host needs `host` seconds for a launch, the GPU `kernel` seconds to run it."""

    name = "paper"
    chip = H200

    def __init__(self, host, kernel):
        self.host, self.kernel, self.now, self.free = host, kernel, 0.0, 0.0

    def allocate(self, nbytes):
        return SimpleNamespace(address=256, nbytes=nbytes)

    def zero(self, address, nbytes):
        self.queue(0.0)

    def build(self, source, defines, kernel):
        return None

    def launch(self, module, name, grid, block, shared, arguments):
        self.queue(arguments.packed.p1 * 1e-9)  # spin

    def queue(self, seconds):
        self.now += self.host
        self.free = max(self.free, self.now) + seconds

    def mark(self):
        self.free = max(self.free, self.now)
        return self.free

    def passed(self, event):
        return self.now >= event

    def between(self, start, stop):
        self.now = max(self.now, stop)
        return stop - start


@pytest.mark.parametrize("host", [1e-6, 2e-5, 3e-4])
def test_the_time_of_the_host_is_not_in_a_time(host):
    paper = Paper(host, 3e-6)
    timing = Timer(paper).interleaved({"a": lambda: paper.queue(3e-6)}, repeats=5, seconds=1e-4)["a"]
    assert not timing.host and np.allclose((timing.fastest, timing.slowest), 3e-6) and timing.repeats == 5


def test_work_that_waits_for_the_gpu_says_that_the_host_is_in_its_time():
    paper = Paper(1e-5, 3e-6)

    def work():
        paper.queue(3e-6)
        paper.now = paper.free  # as .item() does

    timing = Timer(paper).interleaved({"a": work}, repeats=3, seconds=1e-4)["a"]
    assert timing.host and timing.seconds > 3e-6 and "the host's time included" in repr(timing)


def test_queued_works_take_turns():
    paper, order = Paper(1e-6, 0), []

    def work(name, seconds):
        order.append(name)
        paper.queue(seconds)

    works = {"a": lambda: work("a", 1e-3), "b": lambda: work("b", 2e-3)}
    times = Timer(paper).interleaved(works, repeats=3, seconds=1e-6)
    assert "".join(order).endswith("ababab")
    assert {name: t.seconds for name, t in times.items()} == pytest.approx({"a": 1e-3, "b": 2e-3})
    assert SHORTEST > 0


def test_a_timing_is_median_and_spread():
    timing = bench.Timing.of([3e-6, 1e-6, 2e-6])
    assert repr(timing) == "2.0 us (median of 3; 1.0 to 3.0)"


@pytest.mark.parametrize("repeats", [0, "many"])
def test_a_time_has_a_repeat_at_least(repeats):
    for measure in (bench.training_step, bench.host_cost, partial(bench.time, print)):
        with pytest.raises((ValueError, TypeError), match=r"repeats=.* must be a whole number of at least 1"):
            measure(repeats=repeats)


def test_the_works_give_the_same_on_sim_and_numpy():
    host.must_agree({"minigrad": host.ours("sim")}, host.ours("numpy"))


def test_a_wrong_result_of_a_call_is_not_timed():
    works = host.ours("numpy")
    with pytest.raises(ValueMismatch, match=r"exp by minigrad is off by .*; it is not timed"):
        host.must_agree({"minigrad": works | {"exp": works["add"]}}, works)


def test_the_device_is_waited_for_outside_of_the_time():
    order = []
    works = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    in_turns(works, {"a": 50, "b": 20}, 2, before=lambda: order.append("wait"))
    assert order == 2 * ["wait", *"a" * 50, "wait", *"b" * 20]


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
