"""The benchmark of attention and GPTs: its goals, its record, its steps on `sim`, and results that it refuses."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from bench_examples import find_gpu, tick

import minigrad as mg
from minigrad.lab.bench import record as records
from minigrad.lab.bench.record import TRANSFORMER, Record
from minigrad.lab.bench.timer import Timing
from minigrad.lab.bench.transformer import TransformerReport, models, report, works
from minigrad.lab.bench.transformer.models import CHARACTERS, GPT2, Model
from minigrad.lab.check import ValueMismatch

TINY = Model("tiny GPT", 11, 6, 8, 2, 1, 3)


def times(ours, theirs=0.0):
    found = {"minigrad, graph": ours, "minigrad": 2 * ours} | ({"PyTorch, flash": theirs} if theirs else {})
    return {name: Timing(us * 1e-6, us * 1e-6, us * 1e-6, 3) for name, us in found.items()}


def measured():
    steps = {works.WORKS[0].title("forward"): times(500, 800), works.WORKS[0].title("backward"): times(1600, 1900)}
    steps |= {GPT2.step_title("bf16"): times(13000, 13600), CHARACTERS.generation_title: times(100, 600)}
    return Record("NVIDIA H200", "2026-01-01", "minigrad bench --gpt", {}, steps=steps, folder=TRANSFORMER)


def test_goals_are_microseconds_or_as_fast_as_pytorch():
    rows = {row[0]: row[1:] for row in TransformerReport(measured()).table().rows}
    assert rows[works.WORKS[0].title("forward")] == ("500.0", "800.0", "0.63", "600.0", "400.0", "must")
    assert rows[works.WORKS[0].title("backward")][-1] == "no"
    assert rows[GPT2.step_title("bf16")][3:] == ("13600.0", "11000.0", "must")
    assert rows[CHARACTERS.generation_title][3:] == ("120.0", "60.0", "must")
    assert (
        not {*report.MICROSECONDS} - {w.title(way) for w in works.WORKS for way in works.SIDES} - {*report.jobs(None)}
    )


def test_tables_by_part_and_the_record(tmp_path, monkeypatch):
    found = TransformerReport(measured())
    assert [len(x.rows) for part in (None, *report.PARTS) for x in found.tables(part)] == [4, 12, 2, 6, 2, 6]
    path = measured().save(tmp_path)
    assert path.parent.name == TRANSFORMER and records.load(path).json() == measured().json()
    monkeypatch.setattr(records, "FOLDERS", (tmp_path,))
    assert len(mg.bench.recorded_transformer(GPT2.step_title("bf16")).record.steps) == 4
    with pytest.raises(ValueError, match=r"no record has times of attention and GPTs. On a GPU: minigrad bench --att"):
        mg.bench.recorded_transformer("another")


@pytest.mark.parametrize("mode", models.TRAINED)
def test_steps_eager_and_replayed_have_the_losses_of_numpy(mode):
    if mode == "bf16":
        pytest.importorskip("ml_dtypes")
    ways = [("numpy", False), ("sim", False), ("sim", True)]
    calls = [models.training(TINY, mode, device, replayed) for device, replayed in ways]
    for _ in range(3):
        first, *others = (float(call().item()) for call in calls)
        np.testing.assert_allclose(others, first, report.ALLOWED[mode])


@pytest.mark.parametrize("mode", models.TRAINED)
def test_pytorch_compiles_one_graph_of_each_model_and_has_the_same_losses(mode, monkeypatch):
    """Two models in turn, as the benchmark takes them: neither extents nor names of layers compile anything again."""
    torch = pytest.importorskip("torch")
    from torch._dynamo.testing import CompileCounterWithBackend

    graphs, rival = CompileCounterWithBackend("aot_eager"), works.rival()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=graphs))
    monkeypatch.setattr(rival, "DEVICE", "cpu")
    monkeypatch.setattr(rival, "replayed", lambda step: step)  # no CUDA graphs here
    for count, of in enumerate((TINY, Model("another", 13, 7, 16, 2, 9, 2)), 1):
        calls = {"minigrad": models.training(of, mode, "numpy")} | rival.every_training(of, mode)
        assert [*calls][1:] == ["PyTorch", "PyTorch, graph", "PyTorch, compile", "PyTorch, compile, graph"]
        for _ in range(2):
            first, *others = (float(call().item()) for call in calls.values())
            np.testing.assert_allclose(others, first, report.ALLOWED[mode])
        assert graphs.frame_count == count  # which both compiled steps share


def test_parts_of_a_step_by_kind(gpu, monkeypatch, tmp_path):
    """All blocks together, over a fake driver whose clock shows a microsecond more at each event."""
    find_gpu(monkeypatch)
    tick(gpu, monkeypatch)
    two = replace(TINY, layers=2)
    monkeypatch.setattr(report, "timer", lambda: SimpleNamespace(hold=lambda seconds: None))
    found = report.timeline_of(two, "tf32", ())
    record = replace(measured(), timelines={"a step": found}, chip=mg.bench.newest().chip, copy=4e12)
    assert records.load(record.save(tmp_path)).json() == record.json()
    rows = {row[0]: row[1:] for row in TransformerReport(record).parts("a step").rows}
    assert {"attn.c_attn, matmul, forward", "mlp.c_proj, matmul, backward", "AdamW, update", "all"} <= rows.keys()
    product = 2 * (2 * 18 * 8 * 24)  # of both blocks: 18 words, from 8 numbers to 24
    assert found["h.0.attn.c_attn, matmul, forward"].flops == product / 2
    assert rows["add_layer_norm, backward"][0] != "0" and float(rows["all"][2]) == 1
    with pytest.raises(ValueError, match=r"has no parts of 'another'; it has \['a step'\]"):
        TransformerReport(record).parts("another")


def test_a_wrong_result_is_not_timed():
    work = works.Attention(1, 2, 5, 4, True)
    arrays = [mg.tensor(x, device="sim").array for x in work.hosts()]
    truth = works.exact(work, arrays, work.length)
    for call, wanted, last in zip(works.ours(work, arrays), truth, works.exact(work, arrays, 2), strict=True):
        works.must_agree(work, "minigrad", call(), wanted)
        works.must_agree(work, "minigrad", call(), last)
        for whole, rows in zip(wanted, last, strict=True):
            np.testing.assert_allclose(rows, whole[:, :, -2:], atol=1e-12)
    with pytest.raises(ValueMismatch, match="attention minigrad B1 H2 S5 D4, causal, 3xtf32 is off by"):
        works.must_agree(work, "minigrad", [arrays[0]], truth[0])


def test_generation_continues_one_word(monkeypatch):
    monkeypatch.setattr(models, "WORDS", 4)
    text = models.generation(TINY, "numpy")()
    assert text.shape == (1, 5) and text[0, 0] == 0 and text.max() < TINY.words


def test_parts_and_rivals_are_checked():
    with pytest.raises(ValueError, match="only='cpu' is not a part of the benchmark; the parts are attention, gpt"):
        mg.bench.transformer_report("cpu")
    with pytest.raises(ValueError, match="must be among torch"):
        mg.bench.transformer_report(against=["numpy"])
