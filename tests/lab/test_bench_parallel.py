"""The benchmark of several GPUs: its goals, its tables, its record, and a part of it on ranks with fake GPUs."""

import json
from pathlib import Path

import pytest

import minigrad as mg
from minigrad.distributed import launch
from minigrad.lab import cli
from minigrad.lab.bench import record as records
from minigrad.lab.bench.parallel import ParallelReport, messages, report, training
from minigrad.lab.bench.record import PARALLEL, Record
from minigrad.lab.bench.timer import Timing


def times(**microseconds):
    return {name.replace("_", " "): Timing(us * 1e-6, us * 1e-6, us * 1e-6, 3) for name, us in microseconds.items()}


def measured():
    """A record whose works just reach their goals, or do not."""
    (alone, ours), (theirs_alone, theirs) = training.PAIRS
    steps = {
        step.title: dict(
            zip((alone, ours, theirs_alone, theirs), times(a=97, b=100, c=72, d=144).values(), strict=True)
        )
        for step in training.STEPS
    }
    steps |= {messages.size_title(n): times(minigrad=100, PyTorch=90 if n == 2**28 else 98) for n in messages.SIZES}
    versions = {"gpus": "2", "nccl": "2.28.9"}
    host = {report.CALLS: times(minigrad=8.5, PyTorch=20)}
    return Record(
        "NVIDIA H200", "2026-01-01", "minigrad bench --gpus", versions, steps=steps, host=host, folder=PARALLEL
    )


def test_goals_are_efficiencies_times_and_bandwidths():
    rows = {row[0]: row[1:] for row in ParallelReport(measured()).table().rows}
    assert rows["ResNet-18 tf32, batch 128 a GPU: efficiency"] == ("0.970", "0.500", "0.97", "must")
    assert len([title for title in rows if "efficiency" in title]) == 3
    assert rows["MLP 784-512-256-10 float32, batch 128 a GPU"] == ("100.0 us", "144.0 us", "120 us", "must")
    assert rows[report.CALLS] == ("8.5 us", "20.0 us", "8 us", "no")
    assert rows["all-reduce of 16 MiB: bus bandwidth"] == ("168 GB/s", "171 GB/s", "0.97 of PyTorch's", "must")
    assert rows["all-reduce of 256 MiB: bus bandwidth"][-1] == "no" and "all-reduce of 4 MiB: bus bandwidth" not in rows


def test_the_bus_carries_twice_the_message_but_for_the_own_part():
    assert messages.bus_bandwidth(1000, 2, 1.0) == 1000 and messages.bus_bandwidth(1000, 4, 1.0) == 1500


def test_tables_by_part():
    found = ParallelReport(measured())
    assert [len(found.tables(part)) for part in (None, *report.PARTS)] == [4, 2, 2, 2]
    assert found.messages.rows[0] == ("all-reduce of 1 KiB", "minigrad", "100.0", "0.0")
    assert len(found.training.rows) == 16 and found.calls.rows[0] == ("minigrad", "8.5")
    assert "2 GPUs, NVIDIA H200, 2026-01-01" in repr(found)


def test_a_record_is_written_read_and_found(tmp_path, monkeypatch):
    path = measured().save(tmp_path)
    assert path == tmp_path / "parallel" / "nvidia-h200-2026-01-01.json"
    again = records.load(path)
    assert again.folder == PARALLEL and again.json() == measured().json()
    monkeypatch.setattr(records, "FOLDERS", (tmp_path,))
    assert mg.bench.recorded_parallel().ranks == 2
    path.unlink()
    with pytest.raises(ValueError, match=r"no record has measurements of several GPUs. `minigrad bench --gpus`"):
        mg.bench.recorded_parallel()


def test_parts_and_machines_are_checked(gpu, monkeypatch, capsys):
    monkeypatch.setattr(report, "check", lambda device: device)
    with pytest.raises(ValueError, match="only='cpu' is not a part of the benchmark; the parts are messages, calls, t"):
        mg.bench.parallel_report("cpu")
    with pytest.raises(RuntimeError, match="the benchmark of several GPUs needs two at least; this machine has 1"):
        mg.bench.parallel_report()
    assert cli.main(["bench", "--gpus", "--only", "cpu"]) == 2 and "the parts are messages" in capsys.readouterr().err
    assert [*report.jobs("training")] == [step.title for step in training.STEPS]


@pytest.mark.mpi
def test_calls_are_timed_on_all_ranks():
    fake = f"import sys; sys.path.append({str(Path(__file__).parents[1])!r}); import fake_nccl; fake_nccl.install()\n"
    head = "from minigrad.lab.bench.parallel import messages\nmessages.CALLS = messages.REPEATS = 2\n"
    done = launch(2, fake + head + report.CODE, [json.dumps(["calls", 0, []])], get=["found", "library"])
    first, second = done["found"]
    assert first == second and [*first] == [report.CALLS] and done["library"] == ["2.28.9"] * 2
    assert {name: len(runs) for name, runs in first[report.CALLS].items()} == {
        "minigrad": 2, "minigrad, without the comparison": 2,
    }  # fmt: skip
