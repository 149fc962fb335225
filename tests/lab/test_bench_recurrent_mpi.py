"""The times of recurrent networks on ranks: each split and number of ranks is timed, with the part in messages."""

import pytest

from minigrad.lab.bench.recurrent import rank_times


@pytest.mark.mpi
def test_every_split_is_timed_with_its_messages():
    found = rank_times((1, 2), (16,), (3,), steps=12, repeats=3)
    titles = ["LSTM H16 B3 T12, batch", "LSTM H16 B3 T12, hidden", "LSTM H16 B3 T12, shared"]
    assert [*found.times] == [*titles, "LSTM 2 layers H16 B3 T12, layers"]
    for times in found.times.values():
        assert [*times] == ["1 rank", "1 rank, messages", "2 ranks", "2 ranks, messages"]
        for label in ("1 rank", "2 ranks"):
            assert times[label].repeats == 3 and 0 < times[f"{label}, messages"].fastest < times[label].fastest
    row = found.table().rows[0]
    assert row[:2] == ("LSTM H16 B3 T12, batch", "1 rank") and row[4] == "1.00"
    assert float(row[2]) == pytest.approx(found.times[row[0]]["1 rank"].fastest / 12 * 1e6, abs=0.1)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="rank_times: repeats=0 must be a whole number"):
        rank_times(repeats=0)
