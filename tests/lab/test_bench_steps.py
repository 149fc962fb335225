"""The training-step benchmark: losses are compared first, then steps take turns. The times themselves need a GPU."""

import sys
from types import SimpleNamespace

import pytest

import minigrad as mg
from minigrad.devices import why_not
from minigrad.errors import DeviceError
from minigrad.lab import cli as command_line
from minigrad.lab.bench import record as dated
from minigrad.lab.bench import steps
from minigrad.lab.bench.timer import Timing
from minigrad.lab.check import ValueMismatch


@pytest.mark.parametrize("optimizer", steps.OPTIMIZERS)
def test_the_step_is_the_same_on_sim_and_numpy(optimizer, monkeypatch):
    monkeypatch.setattr(steps, "WIDTHS", (9, 8, 5))
    monkeypatch.setattr(steps, "BATCH", 6)
    images, labels = steps.batch()
    works = {"eager": steps.ours(optimizer, "sim", images, labels)}
    works["graph"] = steps.ours(optimizer, "sim", images, labels, mg.graph)
    steps.must_agree(works, steps.ours(optimizer, "numpy", images, labels))


def test_a_wrong_loss_is_not_timed():
    right, wrong = mg.tensor(2.0, device="numpy"), mg.tensor(float("nan"), device="numpy")
    with pytest.raises(ValueMismatch, match=r"other: the loss of step 1 is nan, on numpy 2.0; not timed"):
        steps.must_agree({"ours": lambda: right, "other": lambda: wrong}, lambda: right)


def test_works_take_turns():
    order = []
    works = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    times = steps.timed(works, lambda: order.append("wait"), 3)
    first = ["wait", "a", "wait", "wait", "b", "wait"]  # one step of each, for the number of calls
    turn = ["wait", *"a" * steps.CALLS, "wait", "wait", *"b" * steps.CALLS, "wait"]
    assert order == first + 3 * turn and times["a"].repeats == 3 and times["a"].host


@pytest.fixture
def small(monkeypatch):
    """A network that trains in no time."""
    monkeypatch.setattr(steps, "WIDTHS", (9, 8, 5))
    monkeypatch.setattr(steps, "BATCH", 6)
    monkeypatch.setattr(steps, "CALLS", 4)


def test_the_clock_stops_when_the_work_of_other_streams_is_done(small, gpu, driver, monkeypatch):
    """PyTorch queues on its own streams: minigrad's stream is empty while they are not."""
    right, read = steps.ours("SGD", "numpy", *steps.batch()), []

    def rival(*given):
        return {"elsewhere": lambda: (driver.elsewhere.append(lambda: None), right())[1]}

    def clock():
        read.append(len(driver.elsewhere))
        return float(len(read))

    monkeypatch.setattr(steps, "check", lambda name: name)
    monkeypatch.setattr(steps, "get", lambda name: gpu)
    monkeypatch.setattr(
        steps, "ours", lambda optimizer, device, *given, plain=steps.ours: plain(optimizer, "numpy", *given)
    )
    monkeypatch.setitem(sys.modules, "minigrad.lab.bench.rivals.pytorch", SimpleNamespace(steps=rival))
    monkeypatch.setattr("minigrad.lab.bench.timer.perf_counter", clock)
    times = steps.training_step("SGD", against=("torch",), repeats=2).times
    assert len(read) == 3 * 2 * 3 and set(read) == {0}, "something was still queued when the clock was read"
    assert list(times) == ["minigrad", "minigrad, graph", "elsewhere"]


@pytest.mark.parametrize("optimizer", steps.OPTIMIZERS)
def test_a_step_by_hand_in_numpy_is_timed_without_a_gpu(optimizer, small, monkeypatch):
    monkeypatch.setattr(steps, "why_not", lambda name: "there is none")
    step = steps.training_step(optimizer, against=("numpy",), repeats=2)
    assert list(step.times) == ["minigrad on numpy", "NumPy by hand"] and "processors" in step.device


def test_the_steps_of_a_record_are_found_again(tmp_path, monkeypatch):
    monkeypatch.setattr(dated, "FOLDERS", (tmp_path,))
    with pytest.raises(ValueError, match=r"no record has times of an SGD step.* minigrad bench --step"):
        mg.bench.recorded_step()
    times = {"minigrad": Timing(2e-4, 1e-4, 3e-4, 5, True)}
    made = mg.bench.Record("Some GPU", "2026-11-21", "minigrad bench", {"python": "3.12"}, copy=4e12)
    made.save()
    later = mg.bench.Record("Some GPU", "2026-11-21", "minigrad bench --step", {}, steps={steps.title("SGD"): times})
    later.save()
    assert mg.bench.recorded_step("SGD") == steps.TrainingStep(steps.title("SGD"), "Some GPU", "2026-11-21", times)
    kept = mg.bench.newest()
    assert kept.copy == 4e12 and kept.versions == {"python": "3.12"}
    assert kept.command == "minigrad bench; minigrad bench --step"


def test_it_is_a_table():
    record = steps.TrainingStep("SGD step", "Some GPU", "2026-11-21", {"minigrad": Timing(2e-4, 1e-4, 3e-4, 5)})
    assert repr(record).splitlines()[0] == "SGD step, on Some GPU, 2026-11-21" and "200.0" in repr(record)
    assert "<table>" in record._repr_html_()


MADE = steps.TrainingStep("SGD step", "Some GPU", "2026-11-21", {"minigrad": Timing(2e-4, 1e-4, 3e-4, 5, True)})


@pytest.fixture
def command(tmp_path, monkeypatch):
    """The command line with a fake step: the test is of its record."""
    monkeypatch.setattr(dated, "FOLDERS", (tmp_path,))
    monkeypatch.setattr(steps, "OPTIMIZERS", ("SGD",))
    monkeypatch.setattr(mg.bench, "training_step", lambda optimizer, against: MADE)
    monkeypatch.setattr(
        dated,
        "todays_record",
        lambda command, **tables: mg.bench.Record("Some GPU", "2026-11-21", command, {}, **tables),
    )
    return command_line.main


def test_steps_are_written_to_the_record(command, monkeypatch, capsys):
    monkeypatch.setattr(command_line, "why_not", lambda name: "")
    assert command(["bench", "--step", "--against", "torch"]) == 0
    assert mg.bench.newest().steps == {"SGD step": MADE.times}
    assert mg.bench.newest().command == "minigrad bench --step --against torch"
    assert "200.0" in (said := capsys.readouterr().out) and "some-gpu-2026-11-21.json" in said


def test_without_a_gpu_steps_of_the_host_are_shown_and_no_record_is_written(command, monkeypatch, capsys):
    monkeypatch.setattr(command_line, "why_not", lambda name: "no GPU.")
    assert command(["bench", "--step", "--against", "numpy"]) == 0
    assert "200.0" in capsys.readouterr().out and mg.bench.newest() is None


def test_without_a_gpu_the_recorded_steps_are_shown(command, monkeypatch, capsys):
    monkeypatch.setattr(command_line, "why_not", lambda name: "no GPU.")
    mg.bench.Record("Some GPU", "2026-11-21", "c", {}, steps={steps.title("SGD"): dict(MADE.times)}).save()
    assert command(["bench", "--step"]) == 0
    assert steps.title("SGD") in (said := capsys.readouterr().out) and "Speed cannot be measured here" in said


def test_a_wrong_step_is_a_sentence_of_the_command(command, monkeypatch, capsys):
    def refuse(optimizer, against):
        raise ValueMismatch("PyTorch: the loss of step 4 is 1, on numpy 2; not timed.")

    monkeypatch.setattr(command_line, "why_not", lambda name: "")
    monkeypatch.setattr(mg.bench, "training_step", refuse)
    assert command(["bench", "--step"]) == 2
    assert "minigrad bench: PyTorch: the loss of step 4" in capsys.readouterr().err and mg.bench.newest() is None


def test_random_numbers_of_the_user_go_on_behind_a_step():
    mg.manual_seed(7)
    wanted = [mg.randn(3, device="numpy").numpy().tolist() for _ in range(2)]
    mg.manual_seed(7)
    found = [mg.randn(3, device="numpy").numpy().tolist()]
    steps.network("numpy")
    assert [*found, mg.randn(3, device="numpy").numpy().tolist()] == wanted


@pytest.mark.skipif(not why_not("cuda"), reason="there is a GPU")
def test_without_a_gpu_nothing_is_timed():
    with pytest.raises(DeviceError, match="cuda"):
        mg.bench.training_step()
    with pytest.raises(ValueError, match="must be one of SGD, Adam"):
        mg.bench.training_step("sgd")
    with pytest.raises(ValueError, match="must be one of SGD, Adam"):
        mg.bench.recorded_step("sgd")
    with pytest.raises(DeviceError, match="ernels run on 'sim'"):  # not a hint to time it there
        mg.bench.measure(mg.relu, (8,))


@pytest.mark.gpu
@pytest.mark.parametrize("optimizer", steps.OPTIMIZERS)
def test_a_step_is_timed_beside_pytorch(optimizer):
    pytest.importorskip("torch")
    times = mg.bench.training_step(optimizer, against=("torch",), repeats=3).times
    assert list(times) == ["minigrad", "minigrad, graph", "PyTorch", "PyTorch, graph"]
    assert all(0 < timing.seconds < 0.1 for timing in times.values())
    assert times["minigrad, graph"].seconds < times["minigrad"].seconds
