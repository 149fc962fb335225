"""The benchmark of several GPUs: its goals, its tables, its record, and a part of it on ranks with fake GPUs."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

import minigrad as mg
from minigrad.distributed import launch
from minigrad.lab import cli
from minigrad.lab.bench import record as records
from minigrad.lab.bench.parallel import ParallelReport, messages, report, training
from minigrad.lab.bench.record import PARALLEL, RankSpan, Record
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
    for n in messages.SIZES:
        steps[messages.size_title(n)] = times(minigrad=100, NCCL=90 if n == 2**28 else 98, PyTorch=95)
    versions = {"gpus": "2", "nccl": "2.28.9"}
    host = {report.CALLS: times(minigrad=8.5, PyTorch=20)}
    spans = {
        "time line of a step": [[RankSpan("compute", "forward", 0, 1e-3)], [RankSpan("messages", "25 MB", 5e-4, 2e-3)]]
    }
    return Record(
        "NVIDIA H200", "2026-01-01", "minigrad bench --gpus", versions, steps=steps, host=host, spans=spans,
        folder=PARALLEL,
    )  # fmt: skip


def test_goals_are_efficiencies_times_and_bandwidths():
    rows = {row[0]: row[1:] for row in ParallelReport(measured()).table().rows}
    assert rows["ResNet-18 tf32, batch 128 a GPU: efficiency"] == ("0.970", "0.500", "0.97", "must")
    assert len([title for title in rows if "efficiency" in title]) == 3
    assert rows["MLP 784-512-256-10 float32, batch 128 a GPU"] == ("100.0 us", "144.0 us", "120 us", "must")
    assert rows[report.CALLS] == ("8.5 us", "20.0 us", "8 us", "no")
    assert rows["all-reduce of 16 MiB: bus bandwidth"] == ("168 GB/s", "177 GB/s", "0.97 of NCCL's 171", "must")
    assert rows["all-reduce of 256 MiB: bus bandwidth"][-1] == "no" and "all-reduce of 4 MiB: bus bandwidth" not in rows


def test_the_bus_carries_twice_the_message_but_for_the_own_part():
    assert messages.bus_bandwidth(1000, 2, 1.0) == 1000 and messages.bus_bandwidth(1000, 4, 1.0) == 1500


def test_tables_by_part():
    found = ParallelReport(measured())
    assert [len(found.tables(part)) for part in (None, *report.PARTS)] == [5, 2, 2, 2, 2]
    assert found.messages.rows[0] == ("all-reduce of 1 KiB", "minigrad", "100.0", "0.0")
    assert found.timeline.rows[1] == ("1", "messages", "25 MB", "500.0", "2000.0")
    assert len(found.training.rows) == 20 and found.calls.rows[0] == ("minigrad", "8.5")
    assert "2 GPUs, NVIDIA H200, 2026-01-01" in repr(found)


def test_a_record_is_written_read_and_found(tmp_path, monkeypatch):
    path = measured().save(tmp_path)
    assert path == tmp_path / "parallel" / "nvidia-h200-2026-01-01.json"
    again = records.load(path)
    assert again.folder == PARALLEL and again.json() == measured().json() and again.spans == measured().spans
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
    assert [*report.jobs("timeline")] == ["time line of ResNet-18 tf32, batch 128 a GPU"]


FAKE = f"import sys; sys.path.append({str(Path(__file__).parents[1])!r}); import fake_nccl; fake_nccl.install()\n"


@pytest.mark.mpi
def test_calls_are_timed_on_all_ranks():
    head = "from minigrad.lab.bench.parallel import messages\nmessages.CALLS = messages.REPEATS = 2\n"
    done = launch(2, FAKE + head + report.CODE, [json.dumps(["calls", 0, []])], get=["found", "library"])
    first, second = done["found"]
    assert first == second and [*first] == [report.CALLS] and done["library"] == ["2.28.9"] * 2
    assert {name: len(runs) for name, runs in first[report.CALLS].items()} == {
        "minigrad": 2, "minigrad, without the comparison": 2, "NCCL": 2,
    }  # fmt: skip


WATCHED = """
import minigrad as mg
from minigrad import distributed as dist, nn
dist.init()
device = "cuda" if "fake_nccl" in sys.modules else "numpy"
inner = nn.Sequential(nn.Linear(4, 8, device=device), nn.Linear(8, 2, device=device))
model, watch = dist.DataParallel(inner, bucket_mb=1.5e-4), mg.bench.RankWatch(device)
optimizer, before = mg.optim.SGD(model.parameters(), 0.1), len(mg.tape.FOLLOWERS)
for _ in range(2):
    with watch:
        model(mg.ones(3, 4, device=device)).sum().backward()
        optimizer.step()
assert len(mg.tape.FOLLOWERS) == before and "all_reduce" not in vars(watch._backend)
spans = watch.spans
"""


@pytest.mark.mpi
@pytest.mark.parametrize("device", ["numpy", "fake GPUs"])
def test_messages_travel_in_the_backward_pass_of_a_gpu_and_after_that_of_the_host(device):
    for spans in launch(2, (FAKE if device != "numpy" else "import sys\n") + WATCHED, get="spans")["spans"]:
        compute, messages = spans[:4], spans[4:]
        assert [span.name for span in compute] == ["forward", "backward", "wait", "update"]
        assert compute[0].start == 0 and all(a.stop == b.start for a, b in pairwise(compute))
        assert [span.name for span in messages] == ["0.104 kB", "0.128 kB"]
        _, backward, wait, _ = compute
        for span in messages:
            assert backward.start < span.start < span.stop <= wait.stop
            assert (span.start < backward.stop) == (device != "numpy")
