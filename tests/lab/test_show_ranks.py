"""Pictures of ranks: the time line of a step, and the pieces of a ring all-reduce."""

import pytest

import minigrad as mg
from minigrad.lab.bench import record as records
from minigrad.lab.bench.record import PARALLEL, RankSpan, Record

STEP = [
    RankSpan("compute", "forward", 0, 3e-3), RankSpan("compute", "backward", 3e-3, 10e-3),
    RankSpan("compute", "wait", 10e-3, 11e-3), RankSpan("compute", "update", 11e-3, 12e-3),
    RankSpan("messages", "25 MB", 6e-3, 8e-3), RankSpan("messages", "20 MB", 9e-3, 11e-3),
]  # fmt: skip


def test_a_time_line_says_how_much_of_the_messages_is_hidden(tmp_path, monkeypatch):
    picture = mg.show.rank_timeline([STEP, STEP], "two machines")
    assert picture.title == "2 ranks: 75% of the messages' time is behind the computation, on two machines"
    assert picture.parts[0].png()
    rows = [line.split(maxsplit=2) for line in picture.numbers.splitlines()]
    assert rows[0][:2] == ["rank", "lane"] and rows[6] == ["0", "messages", "20 MB        9.00      2.00"]
    assert [row[0] for row in rows[1:]] == ["0"] * 6 + ["1"] * 6
    assert mg.show.rank_timeline([STEP[:4]]).title.startswith("1 rank: 100%")
    monkeypatch.setattr(records, "FOLDERS", (tmp_path,))
    assert "no record has a time line of ranks" in repr(mg.show.rank_timeline())
    Record("H", "2026-01-02", "", {"gpus": "2"}, spans={"a step": [STEP] * 2}, folder=PARALLEL).save(tmp_path)
    assert mg.show.rank_timeline().title.endswith("on 2 GPUs, H, 2026-01-02")


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_a_ring_has_all_sums_after_its_last_turn_and_not_before(ranks):
    last = 2 * (ranks - 1)
    complete = [mg.show.ring(ranks, turn).numbers.splitlines()[-1] for turn in range(last + 1)]
    counts = [0] * (ranks - 1) + [ranks * turn for turn in range(1, ranks + 1)]
    assert complete == [f"complete: {count} of {ranks**2} pieces" for count in counts]
    assert mg.show.ring(ranks, last).parts[0].png()
    with pytest.raises(ValueError, match=f"ring: turn={last + 1} must be from 0 to {last}"):
        mg.show.ring(ranks, last + 1)


def test_a_piece_goes_around_the_ring():
    assert mg.show.ring(3, 1).numbers.startswith("arrived in this turn: piece 2 to rank 0, piece 0 to rank 1 and piece")
    assert mg.show.ring(3, 1).title == "3 ranks in a ring, turn 1 of 4: the reduce-scatter adds up"
    assert mg.show.ring(3, 3).title.endswith("the all-gather hands on")


def test_curves_over_sizes_have_their_numbers():
    picture = mg.show.scaling("Times", "KiB", "us", {"measured": {1: 7.0, 4: 9.5}, "model": {1: 7.0}}, log=True)
    assert picture.parts[0].png() and picture.numbers.splitlines()[1].split() == ["measured", "7", "9.5"]
