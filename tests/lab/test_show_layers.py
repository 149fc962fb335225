"""The picture of where a recorded step's time goes."""

from dataclasses import replace

import pytest

import minigrad as mg


def test_the_bars_of_a_step_add_up_to_it():
    report = mg.bench.recorded_resnet()
    picture = mg.show.layer_times(report)
    parts = next(iter(report.record.timelines.values())).values()
    us = sum(m.timing.seconds for m in parts) * 1e6
    floor = sum(report.record.floor(m) for m in parts) * 1e6
    last = picture.numbers.splitlines()[-1].split()
    assert last[:3] == ["all", f"{us:.0f}", "100"] and last[4:] == [f"{floor:.0f}", f"{floor / us:.2f}"]
    assert f"{us:.0f} us on" in picture.title
    forward, backward = picture.figure.axes
    updates = [m for m in parts if m.title.endswith(", update")]
    assert len(updates) == 1
    explained = 6
    assert len(forward.patches) == 2 * sum(m.title.endswith(", forward") for m in parts)
    assert len(backward.patches) == 2 * (len(parts) - len(forward.patches) // 2) + explained
    widths = [bar.get_width() for bar in forward.patches[::2]]
    assert sum(widths) == pytest.approx(sum(m.timing.seconds for m in parts if "forward" in m.title) * 1e6)


def test_a_step_without_times_of_its_layers_is_refused():
    report = mg.bench.recorded_resnet()
    with pytest.raises(ValueError, match="has no times of the layers of a step of mine"):
        mg.show.layer_times(report, "a step of mine")
    with pytest.raises(ValueError, match="has no times of the layers of a step"):
        mg.show.layer_times(replace(report, record=replace(report.record, timelines={})))
