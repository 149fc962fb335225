"""The benchmark of the paper's applications: gradients are compared before they are timed, records keep all columns."""

from dataclasses import replace

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get
from minigrad.lab.bench.costs import AdjointCost, Growth, Ratio
from minigrad.lab.bench.paper import report
from minigrad.lab.bench.paper.applications import APPLICATIONS
from minigrad.lab.bench.record import ADJOINT, Record, load
from minigrad.lab.bench.timer import Timing
from minigrad.lab.check import ValueMismatch

SIM = get("sim")
NUMBERS = (32, 0, 0, 0)


@pytest.fixture
def subject(monkeypatch):
    """DG at few elements, with the simulator in place of the GPU."""
    monkeypatch.setitem(APPLICATIONS, "DG", replace(APPLICATIONS["DG"], size=4, small=2))
    monkeypatch.setattr(report, "resources", lambda kernel, dtype, gpu: NUMBERS)
    made = report.TimedApplication("DG", SIM)
    made.prepare()
    return made


def test_a_wrong_gradient_is_refused(subject):
    subject.verify()  # float32 against float64
    subject.wanted[0] = mg.tensor(subject.wanted[0].numpy() * 1.001, device="sim").array
    with pytest.raises(ValueMismatch, match=r"DG: the gradient of q is off by 0\.001"):
        subject.verify()


def test_structs_are_compared_member_by_member():
    grid = np.zeros(3, np.dtype([("energy", "<f8"), ("index", "<i4")]))
    grid["energy"] = 1, 2, 4
    other = grid.copy()
    other["energy"][1] += 0.4
    mine, theirs = (mg.tensor(a, device="sim").array for a in (other, grid))
    assert report._error(mine, theirs) == pytest.approx(0.1)


def test_the_record_and_its_table(tmp_path):
    ratio = Ratio(*(Timing(t, t, t, 5) for t in (2e-3, 9e-3)))
    cost = AdjointCost("lookup", "float64", Growth({100: ratio}), Growth(), (NUMBERS, NUMBERS), (0, 0), None, (5, 7))
    record = Record("NVIDIA H200", "2026-11-28", "minigrad bench --paper", {}, folder=ADJOINT)
    record.applications["LBM"] = cost
    kept = load(record.save(tmp_path))
    assert kept.applications == {"LBM": cost} and not kept.costs
    (row,) = report.PaperReport(kept).table().rows
    assert row[:5] == ("LBM", "100 cells", "2.000", "9.000", "4.50")
    kernels, settings = ["LULESH, material", "LULESH, viscosity"], ["XSBench, nuclide grid", "XSBench, unionized grid"]
    kept.applications.clear()
    for first, second in (kernels, settings):
        kept.applications[first] = cost
        kept.applications[second] = replace(cost, sizes=Growth({100: Ratio(ratio.primal, ratio.primal)}))
    program, *alone = report.PaperReport(kept).summary.rows
    assert program == ("LULESH", "2", "4.00", "11.00", "2.75", "4.50", "10")
    assert [row[:2] for row in alone] == [(setting, "1") for setting in settings]


def test_names_of_applications():
    assert len(report.titles(None)) == len(APPLICATIONS) == 14
    assert report.titles("XSBench") == ["XSBench, nuclide grid", "XSBench, unionized grid"]
    with pytest.raises(ValueError, match="only='Clover' is not an application; the applications are XSBench, RSBench"):
        report.titles("Clover")
