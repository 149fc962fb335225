"""The benchmark of ResNet-18: contestants have to agree, one job's failure costs no other, and records are shown."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from bench_examples import H200, find_gpu, make_tiny

import minigrad as mg
from minigrad import bench
from minigrad.devices import get, why_not
from minigrad.devices.array import Array
from minigrad.errors import DeviceError, KernelError, LaunchError
from minigrad.lab import cli as command_line
from minigrad.lab.bench import record as dated
from minigrad.lab.bench.resnet import calls, goals, layers, network, run, sweep, whole_steps
from minigrad.lab.bench.resnet.modes import ASKED, MODES, STEPS
from minigrad.lab.bench.resnet.report import ResNetReport
from minigrad.lab.bench.resnet.whole_steps import WholeStep
from minigrad.lab.bench.timer import Timing
from minigrad.lab.check import ValueMismatch

STEP = WholeStep("training", 128, MODES["tf32"])
TOOK = Timing(9e-3, 8e-3, 1e-2, 9, True)


def timing(seconds):
    return Timing(seconds, seconds, seconds, 9)


@pytest.fixture
def tiny(monkeypatch):
    """A tiny network on `numpy` in place of the GPU; contestants run, and no time is taken."""
    make_tiny(monkeypatch)
    monkeypatch.setattr(whole_steps, "DEVICE", "numpy")
    monkeypatch.setattr(whole_steps, "get", lambda name: SimpleNamespace(finish=lambda: None))
    monkeypatch.setattr(whole_steps, "PeakOfPool", lambda gpu: SimpleNamespace(warm=lambda: None, bytes=lambda: (7, 8)))
    monkeypatch.setattr(whole_steps, "timed", lambda works, wait, repeats: dict.fromkeys(works, TOOK))


class Rival:
    """A rival in place of PyTorch, which computes with minigrad; it notes how it is set up."""

    def __init__(self, monkeypatch, off=0.0):
        self.made, self.off = [], off
        monkeypatch.setattr(whole_steps, "rival", lambda: self)

    def _made(self, kind, task, mode, layout="NHWC", **how):
        self.made.append((kind, mode.name, layout, *how))
        call = getattr(network, kind)(task, mode, "numpy")
        return lambda: mg.tensor(call().numpy() * (1 + self.off * bool(how)), device="numpy")

    def training(self, *args, **how):
        return self._made("training", *args, **how)

    def inference(self, *args, **how):
        return self._made("inference", *args, **how)

    def PeakOfTorch(self):
        return SimpleNamespace(warm=lambda: None, bytes=lambda: (9, 10))


# --- whole steps ---


@pytest.mark.parametrize("mode", ["float32", "tf32"])
def test_a_step_on_sim_is_that_on_numpy(tiny, mode):
    given, chosen = network.task(2), MODES[mode]
    wanted, found = (network.training(given, chosen, device)().item() for device in ("numpy", "sim"))
    assert found == pytest.approx(wanted, rel=chosen.loss / 100)


def test_all_contestants_begin_alike_and_are_timed(tiny, monkeypatch):
    rival = Rival(monkeypatch)
    times, peaks = WholeStep("training", 4, MODES["3xtf32"]).measured(("torch",))
    assert list(times) == ["minigrad", "minigrad, graph", "PyTorch", "PyTorch, graph", "PyTorch, graph, NCHW"]
    assert peaks == {name: (7, 8) if name.startswith("minigrad") else (9, 10) for name in times}
    assert rival.made == [
        ("inference", "float32", "NCHW"), ("training", "float32", "NCHW"), ("training", "3xtf32", "NHWC"),
        ("training", "3xtf32", "NHWC", "graph"), ("training", "3xtf32", "NCHW", "graph"),
    ]  # fmt: skip
    times, peaks = WholeStep("inference", 4, MODES["tf32"]).measured(("torch",))
    assert list(times)[2:] == ["PyTorch", "PyTorch, graph", "PyTorch, folded, graph"] and not peaks
    assert list(WholeStep("inference", 4, MODES["tf32"]).measured(())[0]) == ["minigrad", "minigrad, graph"]


@pytest.mark.parametrize(("kind", "mode"), [("training", "tf32"), ("inference", "tf32"), ("training", "3xtf32")])
def test_a_contestant_that_disagrees_is_named_and_nothing_is_timed(tiny, monkeypatch, kind, mode):
    allowed = MODES[mode].loss if kind == "training" else MODES[mode].logits
    Rival(monkeypatch, off=2 * allowed)
    with pytest.raises(
        ValueMismatch, match=rf"batch 4, {mode}: call 1 of PyTorch, graph is off by .*It is not timed\."
    ):
        WholeStep(kind, 4, MODES[mode]).measured(("torch",))
    Rival(monkeypatch, off=0.3 * allowed)
    assert WholeStep(kind, 4, MODES[mode]).measured(("torch",))[0]


def test_nan_disagrees(tiny):
    nan, right = [np.full((2, 3), np.nan)], [np.ones((2, 3))]
    with pytest.raises(ValueMismatch, match=r"call 1 of it is off by nan of the largest logit in float32"):
        whole_steps.must_agree(WholeStep("inference", 2, MODES["tf32"]), "it", nan, right)


def test_evaluation_depends_on_the_running_statistics(tiny):
    given = network.task(2)
    plain = {
        name: np.float32(name.endswith("var")) + 0 * x if "running" in name else x for name, x in given.state.items()
    }
    right, wrong = (
        network.inference(each, MODES["float32"], "numpy")().numpy() for each in (given, replace(given, state=plain))
    )
    assert np.abs(right - wrong).max() > 10 * MODES["tf32"].logits * np.abs(right).max()


def test_random_numbers_of_the_user_go_on_behind_a_network(tiny):
    mg.manual_seed(7)
    wanted = [mg.randn(3, device="numpy").numpy().tolist() for _ in range(2)]
    mg.manual_seed(7)
    found = [mg.randn(3, device="numpy").numpy().tolist()]
    states = [network.task(2).state for _ in range(2)]
    assert [*found, mg.randn(3, device="numpy").numpy().tolist()] == wanted
    assert all((x == states[1][name]).all() for name, x in states[0].items()), "a run begins as every other"


def test_a_replayed_step_takes_the_steps_of_an_eager_one(gpu, monkeypatch):
    make_tiny(monkeypatch)
    find_gpu(monkeypatch)
    given, mode = network.task(2), MODES["float32"]
    eager, replayed = (network.training(given, mode, "cuda", replayed) for replayed in (False, True))
    assert [replayed().item() for _ in range(4)] == [eager().item() for _ in range(4)]


def test_the_peak_is_the_memory_of_arrays_and_that_taken_since_the_start(gpu):
    kept, freed = (Array.empty(gpu, (2**20,), np.dtype(np.float32)) for _ in range(2))
    del freed
    peak = whole_steps.PeakOfPool(gpu)
    assert gpu.memory.usage == (kept.nbytes, 0), "what was free is no part of it"
    for size in (2**18, 2**19):  # one after the other
        array = Array.empty(gpu, (size,), np.dtype(np.float32))
        del array
    assert peak.bytes() == (2**21, 2**20 + 2**21), "what a step has freed again is"
    assert gpu.memory.usage == (kept.nbytes + 2**20 + 2**21, 2**20 + 2**21)


# --- the run ---


@pytest.fixture
def pretended(tmp_path, monkeypatch):
    """A run on a pretended GPU: jobs that only note their titles."""
    monkeypatch.setattr(dated, "FOLDERS", (tmp_path,))
    monkeypatch.setattr(command_line, "why_not", lambda name: "")
    monkeypatch.setattr(run, "check", lambda name: name)
    monkeypatch.setattr(run, "find_spec", lambda name: True)
    monkeypatch.setattr(run, "copy_bandwidth", lambda: 4e12)
    monkeypatch.setattr(
        run, "todays_record", lambda command, **more: bench.Record(H200.name, "2026-01-02", command, {}, H200, **more)
    )
    layer = bench.Measurement("l", ("k",), timing(1e-4), 10**9, 10**6, "tf32", {"torch": timing(2e-4)})
    made = [
        run.Job(
            STEP.title,
            lambda against: {"steps": times_of_a_step(against), "peaks": {"minigrad": (8 * 10**9, 9 * 10**9)}},
        ),
        run.Job("l", lambda against: {"layers": layer}),
        run.Job("t", lambda against: {"timelines": {"conv1, conv2d, forward": layer}}),
    ]
    monkeypatch.setattr(run, "jobs", lambda only=None: made)
    return made


def times_of_a_step(against):
    """20 and 12 ms, and 14.4 by PyTorch if it is asked for."""
    times = {"minigrad": timing(0.02), "minigrad, graph": timing(0.012), "PyTorch, graph": timing(0.0144)}
    return times if against else dict(list(times.items())[:2])


def shown(capsys, words):
    """The rows that begin with these words, with single spaces."""
    lines = capsys.readouterr().out.splitlines()
    return [" ".join(line.split()).removeprefix(words).strip() for line in lines if line.startswith(words)]


def test_the_command_writes_a_record_that_is_shown_without_a_gpu(pretended, monkeypatch, capsys):
    goal, command = "us 12000.0 14400.0 0.83 13000.0 9500.0 must", ["bench", "--resnet", "--against", "torch"]
    assert command_line.main(command) == 0
    assert shown(capsys, STEP.title)[:2] == [goal, "minigrad 20000.0 20000.0 8000 9000"]
    record = bench.newest()
    assert record.command == "minigrad bench --resnet --against torch"
    assert record.peaks == {STEP.title: {"minigrad": (8 * 10**9, 9 * 10**9)}}
    assert list(record.layers) == ["l"] and list(record.timelines) == ["t"]
    assert bench.load(record.save()) == record, "it comes back as it was"
    monkeypatch.setattr(command_line, "why_not", lambda name: "no GPU.")
    assert command_line.main(["bench", "--resnet"]) == 0
    assert shown(capsys, STEP.title)[0] == goal
    command_line.main(["bench", "--resnet", "--only", "timeline"])
    assert shown(capsys, "conv1, conv2d, forward") == ["100.0 1.000 1.9 0.02 k"]
    command_line.main(["bench", "--resnet", "--only", "layers"])
    assert shown(capsys, "l ") == ["100.0 1.9 0.02 tf32 200.0 0.50"]
    assert "<table>" in bench.recorded_resnet()._repr_html_() and "13000.0" in repr(bench.recorded_resnet())


def test_without_a_record_the_command_says_how_to_make_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dated, "FOLDERS", (tmp_path,))
    monkeypatch.setattr(command_line, "why_not", lambda name: "no GPU.")
    assert command_line.main(["bench", "--resnet"]) == 2
    assert (
        "no record has times of ResNet-18. On a GPU: minigrad bench --resnet --against torch."
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--only tf23", "only='tf23' is not a part of the benchmark; the parts are training, 3xtf32, tf32, "),
        ("--against numpy", "minigrad bench --resnet: --against='numpy' must be among torch"),
    ],
)
def test_options_of_the_command(pretended, words, said, capsys):
    assert command_line.main(["bench", "--resnet", *words.split()]) == 2
    assert said in capsys.readouterr().err


def test_pytorch_and_torchvision_are_both_needed(pretended, monkeypatch, capsys):
    monkeypatch.setattr(run, "find_spec", lambda name: name == "torch")
    assert command_line.main(["bench", "--resnet", "--against", "torch"]) == 2
    assert "--against torch needs torchvision: pip install torch torchvision." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueMismatch("l by torch is off. It is not timed."), "l by torch is off. It is not timed."),
        (MemoryError("12 bytes asked for"), "l: 12 bytes asked for"),
        (RuntimeError("out of memory"), "l: out of memory"),
    ],
)
def test_a_job_that_fails_is_not_timed_and_the_others_are(pretended, error, said, capsys):
    def fail(against):
        raise error

    pretended[1] = run.Job("l", fail)
    assert command_line.main(["bench", "--resnet"]) == 1
    assert said in capsys.readouterr().err
    record = bench.newest()
    assert record.refused == {"l": said} and list(record.steps) == [STEP.title] and list(record.timelines) == ["t"]


@pytest.mark.parametrize(
    ("error", "refused"), [(KernelError("lost", "k", "x"), {"l": "lost"}), (KeyboardInterrupt, {})]
)
def test_a_run_that_ends_early_keeps_what_it_has(pretended, error, refused):
    def fail(against):
        raise error

    pretended[1] = run.Job("l", fail)
    record = bench.resnet_report().record
    assert record.refused == refused and list(record.steps) == [STEP.title] and not record.timelines


def test_a_part_of_the_run():
    every = [job.title for job in run.jobs()]
    assert len(every) == len(set(every)) and f"{STEP.title}, eager" in every
    assert [job.title for job in run.jobs("float32")] == [
        f"ResNet-18 training step, batch {batch}, float32" for batch in whole_steps.TRAINED
    ]
    assert len(run.jobs("layers")) == len(layers.works()) and len(run.jobs("timeline")) == 1
    assert len(run.jobs("sweep")) == len(sweep.works()), "measured only where one asks for it"
    parts = [part for part in run.PARTS if part not in (*STEPS, *ASKED, "sweep")]
    assert every == [job.title for part in parts for job in run.jobs(part)]


# --- the goals ---


def test_a_goal_is_a_multiple_of_pytorch_of_the_floor_or_a_time_on_one_gpu():
    norm = layers.norm_relu(64, 112).title("forward", MODES["float32"])
    m = bench.Measurement(norm, ("k",), timing(2.2e-4), 0, 800 * 10**6, "float32", {"torch": timing(1e-3)})
    record = bench.Record(H200.name, "2026-01-02", "c", {}, H200, 4e12, layers={norm: m})
    record.steps[STEP.title] = times_of_a_step(["torch"])
    record.peaks[STEP.title] = {"minigrad": (9 * 10**9, 0), "PyTorch": (8 * 10**9, 0), "PyTorch, graph": (10**9, 0)}
    record.refused["softmax of 512 x 64, eager"] = "it is off"
    rows = {row[0]: row[1:] for row in goals.goals_table(record).rows}
    assert rows[norm] == ("us", "220.0", "1000.0", "0.22", "500.0", "240.0", "hope")
    assert rows[STEP.title] == ("us", "12000.0", "14400.0", "0.83", "13000.0", "9500.0", "must")
    assert rows[f"memory of a {STEP.title}"] == ("MB", "9000.0", "8000.0", "1.12", "8000.0", "6400.0", "no")
    assert rows["softmax of 512 x 64, eager"] == ("us", "", "", "", "", "", "not timed")
    elsewhere = {row[0]: row[1:] for row in goals.goals_table(replace(record, device="another")).rows}
    assert elsewhere[STEP.title] == ("us", "12000.0", "14400.0", "0.83", "", "", "") and elsewhere[norm] == rows[norm]


def test_every_goal_is_measured():
    known = {job.title for job in run.jobs()}
    missing = {goal.title for goal in goals.goals()} - known
    assert missing == (set() if "bf16" in STEPS else {WholeStep("training", 128, MODES["bf16"]).title})


def test_a_floor_is_that_of_the_arithmetic_or_of_the_memory():
    record = bench.Record(H200.name, "2026-01-02", "c", {}, H200, 4e12)
    one = bench.Measurement("m", ("k",), timing(1e-3), 10**12, 10**9, "3xtf32")
    assert record.floor(one) == pytest.approx(1e12 / (132 * 2048 / 3 * 1.98e9))
    assert record.floor(replace(one, flops=0)) == pytest.approx(2.5e-4)
    assert record.floor(replace(one, unit="tf32")) == pytest.approx(1e12 / (132 * 2048 * 1.98e9))
    assert replace(record, copy=None).floor(one) is None


def test_small_calls_and_products(monkeypatch):
    monkeypatch.setattr(calls, "DEVICE", "sim")
    monkeypatch.setattr(calls, "get", lambda name: SimpleNamespace(finish=lambda: None))
    monkeypatch.setattr(calls, "timed", lambda works, wait, repeats: dict.fromkeys(works, TOOK))
    assert [list(calls.small_call(title, ())) for title in calls.SMALL] == 2 * [["minigrad"]]
    assert [work.unit for work in calls.products()] == ["tf32", "tf32", "bfloat16", "bfloat16"]
    assert all(work.dry().flops for work in calls.products())


# --- PyTorch ---


def test_torchvisions_network_is_the_same(monkeypatch):
    """On the host: the state is loaded, folding changes nothing, and the first losses are those of minigrad."""
    pytest.importorskip("torchvision")
    from minigrad.lab.bench.rivals import pytorch_resnet

    monkeypatch.setattr(pytorch_resnet, "DEVICE", "cpu")
    monkeypatch.setattr(network, "SIZE", 32)
    given, mode = network.task(4), MODES["float32"]
    ours = network.inference(given, mode, "numpy")().numpy()
    for fold in (False, True):
        theirs = pytorch_resnet.inference(given, mode, fold=fold)().numpy()
        assert np.abs(ours - theirs).max() <= mode.logits * np.abs(ours).max()
    step, rival = network.training(given, mode, "numpy"), pytorch_resnet.training(given, mode)
    np.testing.assert_allclose([step().item() for _ in range(2)], [rival().item() for _ in range(2)], rtol=1e-4)


@pytest.mark.skipif(not why_not("cuda"), reason="there is a GPU")
def test_without_a_gpu_nothing_is_measured():
    with pytest.raises(DeviceError, match="cuda"):
        bench.resnet_report()


@pytest.mark.gpu
def test_an_inference_and_a_layer_are_timed_beside_pytorch(monkeypatch):
    pytest.importorskip("torchvision")
    monkeypatch.setattr(whole_steps, "REPEATS", 2)
    times, _ = WholeStep("inference", 1, MODES["tf32"]).measured(("torch",))
    assert len(times) == 5 and all(0 < timing.seconds < 0.1 for timing in times.values())
    layer = layers.convolution(*layers.CONVOLUTIONS[-1])
    m = layers.stage(layer, "float32").measured("gradient of w", MODES["tf32"], ("torch",))
    assert 0 < m.timing.seconds < 0.1 and list(m.rivals) == ["torch"]


# --- the choice of conv2d ---


def test_a_sweep_has_each_rung_with_all_its_settings():
    (layer, way, mode), *_ = (w for w in sweep.works() if w[2].name == "tf32")
    listed = list(sweep.settings(way, mode))
    found = dict(listed)
    assert {name.split()[0] for name in found} == {"mma_tf32", "wgmma_tf32"} and len(found) == len(listed) > 30
    for name in ("wgmma_tf32 DOWN=1 PIXELS=128 SPLIT=4", "mma_tf32 COLUMNS=64 ROWS=256 WIDE=64"):
        assert f"conv2d_{name.split()[0]}" in layers.launched(layer, way, mode, found[name])
    kernel = found["wgmma_tf32 DOWN=1 PIXELS=128 SPLIT=4"].kernels["forward"]
    assert kernel.values == {"DOWN": 1, "PIXELS": 128, "SPLIT": 4}


def test_a_sweep_of_dx_has_the_kernel_that_the_stride_needs():
    found, mode = dict(sweep.settings("gradient of x", MODES["tf32"])), MODES["tf32"]
    plain, strided = (layers.convolution(64, 128, 3, stride, 56) for stride in (1, 2))
    for layer, key in ((plain, "wgmma_tf32"), (strided, "wgmma_tf32_backward_x")):
        name = f"{key} DOWN=1 PIXELS=128 SPLIT=1"
        assert f"conv2d_{key}" in layers.launched(layer, "gradient of x", mode, found[name])


def test_tensor_cores_add_up_no_more_pixels_than_their_rounding_allows():
    (layer, *_), mode, way = layers.layers(), MODES["tf32"], "gradient of w"
    found = dict(sweep.settings(way, mode))
    layers.launched(layer, way, mode, found["mma_tf32_backward_w COLUMNS=256 ROWS=64 SPLIT=4 WIDE=64"])
    with pytest.raises(LaunchError, match=r"SPLIT=2 tensor cores add up 802816 pixels .*Choose SPLIT >= 4"):
        layers.launched(layer, way, mode, found["mma_tf32_backward_w COLUMNS=256 ROWS=64 SPLIT=2 WIDE=64"])


@pytest.mark.parametrize("path", sorted(dated.FOLDERS[0].glob("*.json")), ids=lambda path: path.stem)
def test_recorded_choices_of_conv2d_are_within_5_percent_of_the_best(path):
    sweeps = {title: times for title, times in dated.load(path).sweeps.items() if sweep.CHOSEN in times}
    late = {title: sweep.lost(times) for title, times in sweeps.items()}
    assert not {title: share for title, share in late.items() if share > 0.05}
    if sweeps:
        assert "lost" in repr(ResNetReport(dated.load(path)).sweep)


@pytest.mark.gpu
def test_a_small_convolution_is_swept(monkeypatch):
    monkeypatch.setattr(layers, "BATCH", 2)
    layer, mode = layers.convolution(64, 64, 3, 1, 8), MODES["tf32"]
    times = sweep.swept(layers.Stage(layer, mode.dtype, get("cuda")), "gradient of w", mode)
    assert sweep.CHOSEN in times and len(times) > 10
