"""The benchmark of recurrent networks as a whole: its parts, its record, its goals, and what the command shows."""

import pytest

import minigrad as mg
from minigrad.lab import cli
from minigrad.lab.bench import record as records
from minigrad.lab.bench.record import RECURRENT, Record
from minigrad.lab.bench.recurrent import RecurrentReport, gpu, processor, ranks, report
from minigrad.lab.bench.timer import Timing


def times(**seconds):
    return {label.replace("__", ", ").replace("_", " "): Timing(s, s, s, 3) for label, s in seconds.items()}


def measured(device="NVIDIA H200"):
    """A record whose works just reach their goals, or do not."""
    steps = {work.title: {"persistent": Timing(1e-3, 1e-3, 1e-3, 3), "PyTorch, float32": Timing(8e-3, 8e-3, 8e-3, 3),
                          "PyTorch, tf32": Timing(4e-3, 4e-3, 4e-3, 3)} for work in gpu.WORKS}  # fmt: skip
    steps["lstm 512, batch 32, float32"] = {
        label: Timing(us * 1e-6, us * 1e-6, us * 1e-6, 3, True)
        for label, us in {"packed, 1 thread": 100, "units, 2 threads": 60, "torch, 2 threads": 90,
                          "limit, 2 threads": 24}.items()
    }  # fmt: skip
    steps["LSTM H1024 B32 T64, batch"] = {
        label: Timing(ms * 1e-3, ms * 1e-3, ms * 1e-3, 3, True)
        for label, ms in {"1 rank": 8, "1 rank, messages": 0.1, "4 ranks": 2, "4 ranks, messages": 0.5}.items()
    }
    steps["cores at once"] = times(
        multiplies__1_thread=1e-5, reads_1_MiB__1_thread=1e-5, reads_16_MiB__1_thread=1e-3,
        multiplies__4_threads=2e-5, reads_1_MiB__4_threads=1e-5, reads_16_MiB__4_threads=4e-3,
    )  # fmt: skip
    steps["barriers"] = times(a_block=2e-8, a_grid_of_8_blocks=6e-7)
    return Record(device, "2026-01-01", "minigrad bench --rnn", {}, steps=steps, folder=RECURRENT)


def test_goals_are_upper_limits_of_time_and_lower_limits_of_ratios():
    rows = {row[0]: row[1:] for row in RecurrentReport(measured()).table().rows}
    assert rows["RNN H512 B32 T512, float32"] == ("1000 us", "8000 us", "1350 us", "750 us", "must")
    assert rows["RNN H1024 B64 T512, float32"][-1] == "hope"
    assert rows["LSTM H1024 B64 T512, tf32"][1] == "4000 us"  # cuDNN's faster mode of at least this precision
    title = "lstm 512, batch 32, float32, 2 threads"
    assert rows[f"{title}: of PyTorch"] == ("1.50 x", "90.0 us a step", "1.00 x", "1.50 x", "hope")
    assert rows[f"{title}: of the limit"][-1] == "no" and rows[f"{title}: efficiency"][-1] == "must"
    assert rows["LSTM H1024 B32 T64, batch: speed-up of 4 ranks"][::4] == ("4.00 x", "hope")


def test_limits_in_microseconds_are_for_their_gpu_alone():
    other = RecurrentReport(measured("NVIDIA A100")).table()
    assert not any("T512" in row[0] for row in other.rows) and other.rows


def test_tables_by_part():
    found = RecurrentReport(measured())
    assert [len(found.tables(part)) for part in (None, *report.PARTS)] == [6, 2, 2, 3, 2]
    assert found.barriers.rows == (("a block", "0.020", "10"), ("a grid of 8 blocks", "0.600", "307"))
    assert found.gpu.rows[0] == ("RNN H512 B32 T512, float32", "persistent", "1000", "1.95", "0.12")
    assert found.cores.rows[1] == ("4 threads", "200", "2.0", "419", "17")
    assert len(found.processor.rows) == 3 and [row[:2] for row in found.ranks.rows][1] == (
        "LSTM H1024 B32 T64, batch", "4 ranks",
    )  # fmt: skip


def test_a_record_is_written_read_and_found(tmp_path, monkeypatch):
    path = measured().save(tmp_path)
    assert path == tmp_path / "recurrent" / "nvidia-h200-2026-01-01.json"
    again = records.load(path)
    assert again.folder == RECURRENT and again.json() == measured().json()
    monkeypatch.setattr(records, "FOLDERS", (tmp_path,))
    for part in report.PARTS:
        assert mg.bench.recorded_recurrent(part).record.device == "NVIDIA H200"
    (tmp_path / "recurrent" / path.name).unlink()
    with pytest.raises(ValueError, match=r"no record has the part gpu of recurrent networks. `minigrad bench --rnn`"):
        mg.bench.recorded_recurrent("gpu")


def test_the_command_measures_and_records_without_a_gpu(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "why_not", lambda device: "none here")
    monkeypatch.setattr(report, "HIDDEN", (8,))
    monkeypatch.setattr(report, "LAYERS", 2)
    monkeypatch.setattr(report, "BATCHES", (2,))
    monkeypatch.setattr(processor, "fastest", lambda call: (call(), 1e-4)[1])
    monkeypatch.setattr(ranks, "rank_times", lambda **sizes: ranks.RankTimes({f"{sizes}": times(rank=1)}))
    assert cli.main(["bench", "--rnn", "--only", "processor", "--save", str(tmp_path)]) == 0
    (path,) = (tmp_path / "recurrent").glob("*.json")
    found = records.load(path)
    one = [f"{cell} 8, batch 2, float32" for cell in ("tanh", "lstm", "gru")]
    assert [*found.steps] == ["cores at once", *one, "lstm 8, 2 layers, batch 2, float32"]
    assert "wavefront, 1 thread" in found.steps["lstm 8, 2 layers, batch 2, float32"] and not found.refused
    assert "units close, 1 thread" in found.steps["lstm 8, batch 2, float32"]
    assert "processor" in found.device and {"load", "processors"} <= found.versions.keys()
    assert "A step, the fastest of some runs" in capsys.readouterr().out


def test_a_slow_spell_of_the_machine_spoils_one_sweep_alone(monkeypatch):
    """Every sweep measures the limits and the networks; a label keeps the times of the sweep with its fastest run."""
    sweeps = iter([4e-6, 1e-6, 2e-6])
    monkeypatch.setattr(report, "core_times", lambda threads: times(multiplies__1_thread=next(sweeps)))
    found = Record("", "2026-01-01", "", {}, folder=RECURRENT)
    measures = [job for title, job in report.jobs("processor", ()).items() if title.startswith("cores at once")]
    assert len(measures) == report.SWEEPS
    for measure in measures:
        report._add(found, measure)
    assert found.steps["cores at once"] == times(multiplies__1_thread=1e-6)
    report._add(found, lambda: {"tanh": times(units__1_thread=3e-6)})
    report._add(found, lambda: {"tanh": times(units__1_thread=5e-6, torch__1_thread=7e-6)})
    assert found.steps["tanh"] == times(units__1_thread=3e-6, torch__1_thread=7e-6)


def test_parts_and_rivals_are_checked(capsys):
    with pytest.raises(
        ValueError, match="only='cpu' is not a part of the benchmark; the parts are gpu, barriers, proc"
    ):
        mg.bench.recurrent_report("cpu")
    with pytest.raises(ValueError, match="against='jax' must be among torch"):
        mg.bench.recurrent_report(against=["jax"])
    assert cli.main(["bench", "--rnn", "--only", "cpu"]) == 2 and "the parts are gpu" in capsys.readouterr().err
