"""Clock and power under matmul: the sensors, the record, its tables and its picture; a GPU is not needed for them."""

import ctypes
import json

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import DeviceError
from minigrad.lab.hardware import counters, nvml, power
from minigrad.lab.hardware import nvidia as hardware
from minigrad.lab.hardware.nvml import Sample, Sensors, summary
from minigrad.lab.show.clock import nearest

RECORD = power.newest()


class Library:
    """NVML with one GPU, whose energy grows by a joule at each reading."""

    def __init__(self, code=0, fails=None):
        self.code, self.joules, self.fails = code, 0, fails  # fails: the number of a reading of the energy

    def __getattr__(self, name):
        def call(*args):
            found = args[-1]._obj if args else None
            if name.endswith("TotalEnergyConsumption"):
                self.joules += 1
                found.value = 1000 * self.joules
                if self.joules == self.fails:
                    return 999
            elif name.endswith("ClockInfo"):
                assert args[1] == nvml.SM
                found.value = 1500
            elif name.endswith("Reasons"):
                found.value = 0x4 | 0x20
            elif name.endswith("PowerLimit"):
                found.value = 700_000
            return self.code

        return call


def test_sensors_are_read_while_a_block_runs(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    sensors = Sensors()
    assert sensors.limit == 700
    with sensors.watching(every=0.001) as samples:
        while len(samples) < 5:
            pass
    assert [sample.joules for sample in samples] == list(range(1, len(samples) + 1))
    assert summary(samples)["mhz"] == 1500 and summary(samples)["reasons"] == ["power", "temperature"]


def test_a_sensor_that_fails_is_named(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library(code=999))
    with pytest.raises(DeviceError, match="nvmlInit_v2 returned 999"):
        Sensors()


def test_a_sensor_that_fails_while_a_block_runs_is_named(monkeypatch):
    library = Library(fails=3)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    with pytest.raises(DeviceError, match="returned 999"), Sensors().watching(every=0.001):
        while library.joules < library.fails:
            pass


def test_power_is_energy_over_time():
    samples = [Sample(at, mhz, 600 * at, set()) for at, mhz in ((0.0, 1000), (0.5, 1200), (1.0, 1200))]
    assert summary(samples) == {"mhz": 1200, "watts": 600, "reasons": []}


def test_the_time_of_a_call_is_that_after_the_warm_up(monkeypatch):
    monkeypatch.setattr(power, "SECONDS", 0.01)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    calls = []
    found = power.sustained(Sensors(), lambda: calls.append(1), lambda: None)
    assert calls and found["us"] > 0 and found["mhz"] == 1500


def test_a_burst_keeps_all_of_the_first_launches_and_few_of_the_last(monkeypatch):
    ticks = np.arange(power.BURST) + 1
    monkeypatch.setattr(power, "SECONDS", 0)
    monkeypatch.setattr(power, "SIDE", 2)
    series = {"us": np.full(power.BURST, 100.0), "mhz": ticks, "ticks": ticks}
    monkeypatch.setattr(power, "clocked", lambda factors, n: {key: values[:n] for key, values in series.items()})
    found = power.burst("zeros")
    assert found["launch"][:3] == [1, 2, 3] and found["launch"][-1] == power.BURST and found["ticks"] == found["launch"]
    assert found["ms"][2] == 0.2


def test_the_parts_of_the_peak_multiply_to_the_speed_that_was_measured():
    for row in power.account(RECORD).rows:
        *parts, product, measured = (float(cell.strip("%")) for cell in row[1:6])
        assert np.prod([part / 100 for part in parts]) == pytest.approx(product / 100, rel=2e-3)
        assert product == pytest.approx(measured, rel=0.02), row  # ticks / clock is the time


def test_energy_is_power_times_time():
    rows = {row[0]: row for row in power.watts(RECORD).rows}
    seen = RECORD["sustained"]["wgmma random"]
    assert float(rows["wgmma random"][4]) == pytest.approx(seen["watts"] * seen["us"] * 1e6 / (2 * 4096**3), rel=0.01)


@pytest.mark.parametrize("show", [power.account, power.watts])
def test_without_a_record_there_is_nothing_to_show(show, monkeypatch, tmp_path):
    monkeypatch.setattr(power, "FOLDERS", (tmp_path,))
    for arguments in ((), ({},)):
        with pytest.raises(ValueError, match="there is no record of a clock"):
            show(*arguments)


def test_the_clock_is_drawn_from_the_record():
    picture = mg.show.clock_under_load(RECORD)
    mhz, us, ticks = nearest(RECORD["bursts"]["random"], 1000)
    rows = [line.split() for line in picture.numbers.splitlines()]
    assert [f"{mhz:.0f}", f"{us:.1f}", f"{ticks:.0f}"] == next(row[1:4] for row in rows if row[0] == "1000")
    assert f"{RECORD['bursts']['zeros']['mhz'][-1]:.0f} MHz for zeros" in picture.title
    with pytest.raises(ValueError, match="there is no record of a clock"):
        mg.show.clock_under_load({})


def test_the_metrics_of_the_rungs_are_read_and_shown():
    names = ["ID", "Kernel Name", *counters.RUNG_METRICS]
    values = dict.fromkeys(counters.RUNG_METRICS, 2.0) | {counters.LATENCY: 20.0}
    lines = [names, ["", "", *["%"] * len(counters.RUNG_METRICS)], ["0", "matmul_naive", *map(str, values.values())]]
    text = "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines)
    found = {"rungs": {"naive": dict(hardware.read(text, counters.RUNG_METRICS)["matmul_naive"])}}
    assert list(counters.busy(found).rows) == [("naive", *["2 %"] * len(counters.BUSY))]
    shares = [float(cell.strip("% ")) for cell in counters.waits(found).rows[0][1:]]
    assert shares == [20, 20, 10, 10, 20, 20]


def test_the_record_of_counters_has_every_rung():
    record = counters.newest()
    assert list(record["rungs"]) == list(counters.RUNGS)
    for row in counters.waits(record).rows:
        assert sum(float(cell.strip("% ")) for cell in row[1:]) == pytest.approx(100, abs=3)


def test_a_record_is_written(tmp_path, monkeypatch, capsys):
    def no_gpu(name):
        raise DeviceError(f"device {name!r}: none here")

    monkeypatch.setattr("sys.argv", ["power", "--save", str(tmp_path)])
    monkeypatch.setattr(power, "check", no_gpu)
    assert power.main() == 2 and "none here" in capsys.readouterr().err
    tables = {key: RECORD[key] for key in ("limit", "bursts", "ticks", "sustained")}
    monkeypatch.setattr(power, "measured", lambda: tables)
    monkeypatch.setattr(power, "check", lambda name: name)
    monkeypatch.setattr(power, "get", lambda name: type("Gpu", (), {"label": "Some GPU"}))
    assert power.main() == 0
    (path,) = tmp_path.glob("some-gpu-*.json")
    written = json.loads(path.read_text())
    assert written["device"] == "Some GPU" and written["bursts"] == tables["bursts"] and "versions" in written
