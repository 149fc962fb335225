"""Pictures of recurrent networks: their steps, their shares, and speed-ups from records."""

import pytest

import minigrad as mg
from minigrad.display import Text
from minigrad.lab.bench import recurrent
from minigrad.lab.bench.record import RECURRENT, Record
from minigrad.lab.bench.recurrent import RecurrentReport
from minigrad.lab.bench.timer import Timing
from minigrad.lab.show.draw.picture import Picture
from minigrad.recurrent.openmp import groups_of

US = 1e-6


def report(steps):
    """A record with these microseconds."""
    times = {title: {by: Timing.of([us * US]) for by, us in row.items()} for title, row in steps.items()}
    return RecurrentReport(Record("a machine", "2026-11-24", "", {}, folder=RECURRENT, steps=times))


THREADS = {
    "packed, 1 thread": 100.0, "units, 1 thread": 110.0, "units, 2 threads": 40.0, "torch, 1 thread": 120.0,
    "torch, 2 threads": 80.0, "limit, 1 thread": 60.0, "limit, 2 threads": 30.0, "barrier, 1 thread": 0.0,
    "barrier, 2 threads": 10.0, "units close, 2 threads": 20.0,
}  # fmt: skip
RECORD = {
    "lstm 256, batch 1, float32": {name: us / 4 for name, us in THREADS.items()},
    "lstm 512, batch 1, float32": THREADS,
    "lstm 512, batch 32, float32": {name: us * 10 for name, us in THREADS.items()},
    "lstm 512, 4 layers, batch 1, float32": THREADS,
    "gru 512, batch 1, float32": THREADS,
    "LSTM H512 B32 T64, batch": {"1 rank": 900, "1 rank, messages": 9, "2 ranks": 450, "2 ranks, messages": 9},
    "LSTM H512 B32 T64, hidden": {"1 rank": 900, "1 rank, messages": 9, "2 ranks": 600, "2 ranks, messages": 90},
    "RNN H512 B32 T512, float32": {"steps": 4000, "steps, graph": 2000, "persistent": 900, "PyTorch, float32": 7700},
}  # fmt: skip


def rows(picture):
    """The numbers of a picture: cells by the first one."""
    assert isinstance(picture, Picture) and picture.parts[0].png()
    lines = (line.rsplit(maxsplit=2) for line in picture.numbers.splitlines())
    return {line[0].strip(): line[1:] for line in lines}


# --- steps ---


@pytest.mark.parametrize(("steps", "layers", "turn", "said"), [
    (6, 1, None, "6 boxes, one function f"),
    (8, 3, None, "as soon as possible: 24 boxes in 10 turns, at most 3 at once"),
    (8, 3, 1, "at turn 1: 1 box at once"),
    (8, 3, 4, "at turn 4: 3 boxes at once"),
    (2, 5, 6, "at turn 6: 1 box at once"),
    (2, 5, 3, "at most 2 at once"),
])  # fmt: skip
def test_an_unrolled_network_counts_its_turns(steps, layers, turn, said):
    picture = mg.show.unrolled(steps, layers, turn)
    assert said in picture.numbers and picture.parts[0].png()


def test_a_turn_is_one_of_the_schedule():
    with pytest.raises(ValueError, match="turn=11 must be from 1 to 10: 8 steps and 3 layers"):
        mg.show.unrolled(8, 3, 11)


# --- shares ---


@pytest.mark.parametrize(("rung", "workers", "said"), [
    ("units", 4, ("128 of 512 units, 32 of 32 sequences", "256 KiB of 1024", "3 other threads at a barrier")),
    ("units", 1, ("512 of 512 units, 32 of 32 sequences", "1024 KiB of 1024", "nobody")),
    ("batch", 4, ("512 of 512 units, 8 of 32 sequences", "1024 KiB of 1024", "nobody")),
    ("both", 4, ("256 of 512 units, 16 of 32 sequences", "512 KiB of 1024", "1 other thread at a barrier")),
    ("both", 3, ("170 of 512 units, 32 of 32 sequences", "340 KiB of 1024", "2 other threads at a barrier")),
    ("hidden", 2, ("256 of 512 units, 32 of 32 sequences", "512 KiB of 1024", "1 other rank, by an all-gather")),
])  # fmt: skip
def test_a_share_of_a_step(rung, workers, said):
    picture = mg.show.shares(rung, workers)
    assert all(words in picture.numbers for words in said) and picture.parts[0].png()


def test_shares_are_those_of_the_runner():
    for batch, units in ((32, 32), (15, 16), (1, 16)):
        assert f"{units} of 64 units" in mg.show.shares("both", 4, 64, batch).numbers
        assert units == 64 * groups_of(4, batch) // 4
    with pytest.raises(ValueError, match="shares: rung='formula' must be among units, batch, both, hidden"):
        mg.show.shares("formula", 2)


# --- records ---


def test_the_speed_up_of_a_rung_is_over_the_best_program_of_one_thread():
    found = rows(mg.show.thread_speedups("lstm", 512, 1, report(RECORD)))
    assert found["units"] == ["0.909", "2.5"], "over packed, 100 us"
    assert found["PyTorch"] == ["1", "1.5"], "over itself"
    assert found["limit"] == ["1.67", "3.33"] and found["ideal"] == ["1", "2"]
    assert found["limit and barrier"] == ["1.67", "2.5"] and "units close" not in found


def test_the_time_of_a_step_over_its_size():
    found = rows(mg.show.step_times("hidden", "lstm", 1, report(RECORD)))
    assert found == {
        "units": ["256", "512"], "fastest rung": ["10", "40"], "PyTorch": ["20", "80"], "limit": ["7.5", "30"],
        "limit and barrier": ["10", "40"],
    }  # fmt: skip
    assert rows(mg.show.step_times("batch", "lstm", 512, report(RECORD)))["PyTorch"] == ["80", "800"]
    assert "has no times of gru with 32 sequences" in repr(mg.show.step_times("hidden", "gru", 32, report(RECORD)))


def test_the_speed_up_over_ranks():
    found = rows(mg.show.rank_speedups(512, 32, report(RECORD)))
    assert found["batch"] == ["1", "2"] and found["hidden"] == ["1", "1.5"]
    assert found["hidden, of it in messages"] == ["1%", "15%"]
    assert found["hidden, model"] == ["0.99", "1.67"], "900 / (450 + 90)"
    assert found["PyTorch, threads"] == ["0.0117", "0.0176"], "900 us of 64 steps over 1200 and 800 of one"
    assert "has no times of ranks with H1024 B32" in repr(mg.show.rank_speedups(1024, 32, report(RECORD)))


def test_the_rungs_of_a_sequence_next_to_models():
    picture = mg.show.sequence_rungs("RNN H512 B32 T512, float32", {"barriers": 500 * US}, report(RECORD))
    assert "persistent takes 900 us on a machine" in picture.title and picture.parts[0].png()
    assert [line.split()[-1] for line in picture.numbers.splitlines()[1:]] == ["4000", "2000", "900", "7700", "500"]
    with pytest.raises(ValueError, match="has no times of 'RNN H1'; it has LSTM H512"):
        mg.show.sequence_rungs("RNN H1", {}, report(RECORD))


def test_without_a_record_there_is_a_sentence(monkeypatch):
    monkeypatch.setattr(recurrent.report, "records", lambda folder: iter(()))
    shown = [mg.show.thread_speedups(), mg.show.step_times(), mg.show.rank_speedups(), mg.show.sequence_rungs("any")]
    assert all(isinstance(text, Text) and "minigrad bench --rnn" in text for text in shown)
