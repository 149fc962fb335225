"""Records: saving and loading, merging with the file of the day, and sweeps without a GPU."""

import json
from dataclasses import replace

import pytest
from bench_examples import H200, example

import minigrad as mg
from minigrad import bench
from minigrad.lab.bench import record as dated


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(dated, "FOLDERS", (tmp_path,))
    return tmp_path


def test_a_record_comes_back_as_it_was(folder):
    path = example().save()
    assert path == folder / "nvidia-h200-2026-01-02.json"
    back = bench.load(path)
    assert back == example() and bench.newest() == example()
    assert '"BLOCK=32": [500.0, 400.0, 600.0, 20]' in path.read_text(), "a list of numbers stands on one line"


def test_a_record_of_a_wheel_joins_those_of_the_wheel(tmp_path, monkeypatch):
    (tmp_path / "wheel").mkdir()
    monkeypatch.setattr(dated, "FOLDERS", (tmp_path / "checkout", tmp_path / "wheel"))
    assert example().save().parent == tmp_path / "wheel" and bench.newest() == example()


def test_a_record_keeps_what_was_measured_before_on_that_day(folder):
    example().save()
    later = example()
    later.sweeps = {"add of 8, 8": {"BLOCK=32": bench.Timing(1e-6, 1e-6, 1e-6, 20)}}
    later.save()
    assert set(bench.newest().sweeps) == {"relu forward of 8", "add of 8, 8"}
    example("2026-01-03").save()
    assert [r.date for r in bench.record.records()] == ["2026-01-03", "2026-01-02"]
    assert bench.newest("NVIDIA A100") is None
    for device in ("NVIDIA H100", "NVIDIA H200", "NVIDIA A100"):  # of one day the last by name
        replace(example("2026-01-03"), device=device).save()
    assert [r.device for r in bench.record.records()][:3] == ["NVIDIA H200", "NVIDIA H100", "NVIDIA A100"]


def test_a_newer_record_without_ops_does_not_hide_those_of_an_older_one(folder):
    replace(example("2026-01-03"), measurements={}).save()
    assert bench.newest().date == "2026-01-03"
    example().save()
    assert bench.newest() == example() and bench.newest("NVIDIA A100") is None


def test_a_record_that_is_saved_again_stays_what_it_was(folder):
    example().save()
    later = replace(example(), command="minigrad bench --host")
    later.save()
    once = bench.newest()
    once.save()
    assert bench.newest() == once and once.command == "minigrad bench; minigrad bench --host"
    assert [path.suffix for path in folder.iterdir()] == [".json"]


def test_a_sweep_of_kernels_that_run_no_longer_is_dropped(folder):
    title = "relu forward of 8"

    def measured(kernel):
        one = bench.Measurement(title, (kernel,), bench.Timing(1e-4, 1e-4, 1e-4, 20), 0, 64)
        return replace(example(), measurements={title: one})

    measured("relu_forward").save()
    again = replace(measured("relu_forward"), sweeps={}, choices={})
    again.save()
    assert bench.newest().sweeps and bench.newest().choices
    replace(measured("relu_vectorized"), sweeps={}, choices={}).save()
    assert not bench.newest().sweeps and not bench.newest().choices
    measured("relu_forward").save()
    assert title in bench.newest().sweeps, "swept anew"


def test_the_part_of_a_record():
    record = example()
    record.sweeps["matmul of 2 x 2"] = record.sweeps["relu forward of 8"]
    part = record.only(mg.matmul, "2 x 2")
    assert list(part.measurements) == list(part.sweeps) == ["matmul of 2 x 2"] and not part.choices
    assert record.only(None).measurements == record.measurements
    for wrong, said in ((("relu",), "of relu"), (("matmul", "3 x 3"), "of matmul of 3 x 3")):
        with pytest.raises(ValueError, match=f"2026-01-02 has no measurement {said}; it has of matmul"):
            record.only(*wrong)
    with pytest.raises(TypeError, match=r"Record\.only takes ops and words of a title"):
        record.only("matmul", 2)


def test_a_record_says_what_was_refused_before_until_it_is_measured(folder):
    first = example()
    first.refused = {"add of 8, 8": "wrong", "exp of 8": "wrong"}
    first.save()
    later = bench.Record("NVIDIA H200", "2026-01-02", "later", {}, refused={"matmul of 2 x 2": "wrong now"})
    later.sweeps = {"exp of 8": {"BLOCK=32": bench.Timing(1e-6, 1e-6, 1e-6, 20)}}
    later.save()
    found = bench.newest()
    assert found.refused == {"add of 8, 8": "wrong", "matmul of 2 x 2": "wrong now"}
    assert not found.measurements and set(found.sweeps) == {"relu forward of 8", "exp of 8"}
    assert found.command == "minigrad bench; later" and later.refused == {"matmul of 2 x 2": "wrong now"}


def test_a_record_shows_shares_of_copy_peak_and_rival():
    (row,) = example().table().rows
    assert row == ("matmul of 2 x 2", "500.0", "2000", "0.50", "32.00", "0.48", "2.00", "")
    assert "A copy moves 4000 GB/s" in repr(example()) and "matmul of 2 x 2" in example()._repr_html_()
    assert H200.peak() == 132 * 256 * 1.98e9 and H200.peak("bfloat16") == 16 * H200.peak()


def test_a_file_that_is_no_record(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps({"device": "a"}))
    with pytest.raises(ValueError, match=r"x\.json is not a record"):
        bench.load(tmp_path / "x.json")
    path = example().save(tmp_path)
    text = path.read_text()
    for old, new in (('"unit": "float32"', '"united": 1'), ('"sms": 132,', ""), ("[500.0, 400.0, 600.0, 20]", '["a"]')):
        (tmp_path / "x.json").write_text(text.replace(old, new))
        with pytest.raises(ValueError, match=r"x\.json is a damaged record \(\w+Error: "):
            bench.load(tmp_path / "x.json")
    with pytest.raises(ValueError, match="is not a record: it needs device, date, command, versions, costs"):
        (tmp_path / "adjoint").mkdir()
        mg.bench.load(path.rename(tmp_path / "adjoint" / path.name))


@pytest.mark.parametrize("path", sorted(dated.FOLDERS[0].glob("*.json")), ids=lambda path: path.stem)
def test_the_records_of_the_project_can_be_read(path):
    record = bench.load(path)
    assert path.stem == record.name and record.command and record.versions
    assert all(times for times in record.sweeps.values())
    for m in record.measurements.values():
        assert m.timing.fastest <= m.timing.seconds <= m.timing.slowest and m.nbytes > 0


def test_a_sweep_without_a_gpu_is_the_recorded_one(folder, monkeypatch):
    monkeypatch.setattr("minigrad.lab.bench.sweeps.why_not", lambda name: "no GPU")
    example().save()
    sweep = mg.bench.sweep(mg.relu, (8,), variant="forward")
    assert list(sweep.recorded) == [32, 64] and not sweep.live
    told = sweep.at(32)
    assert told.startswith(
        "for relu forward of 8, by BLOCK: 500.0 us (median of 20; 400.0 to 600.0) recorded on NVIDIA H200, 2026-01-02"
    )
    assert "BLOCK  recorded on NVIDIA H200, 2026-01-02" in repr(sweep)
    assert "BLOCK  recorded: never" in repr(mg.bench.sweep(mg.relu, (9,)))
    with pytest.raises(ValueError, match="no kernel with a tunable TILE; the tunables are BLOCK=256"):
        mg.bench.sweep(mg.relu, (8,), tunable="TILE", variant="forward")
