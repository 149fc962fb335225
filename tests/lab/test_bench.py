"""Measuring: costs are counted right, wrong results are not timed, the host is not in a time, records come back."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import minigrad as mg
from minigrad import bench
from minigrad.devices import dry_run as dry
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.devices.cuda.chip import Chip
from minigrad.devices.dry_run import DryRun
from minigrad.errors import CompileError, DeviceError, KernelError, LaunchError
from minigrad.lab import cli as command_line
from minigrad.lab.bench import chain
from minigrad.lab.bench import record as dated
from minigrad.lab.bench.measure import Experiment, Reference, verified
from minigrad.lab.bench.sweeps import settings
from minigrad.lab.bench.timer import SHORTEST, Timer
from minigrad.lab.bench.work import Work, work_of
from minigrad.lab.bench.workloads import rivals
from minigrad.lab.check import ValueMismatch
from minigrad.op import OPS

H200 = Chip("NVIDIA H200", (9, 0), 132, 1.98e9, 4.9e12, 62914560, 65536, 233472, 1024, 2048, 32)
COSTS = [pytest.param(op, case, id=f"{op.name} {case}") for op in OPS.values() for case in op.cases]


# --- what is counted ---


@pytest.mark.parametrize(("op", "case"), COSTS)
def test_an_op_costs_the_bytes_of_the_arrays_that_its_kernels_read_and_write(op, case):
    device = DryRun()
    inputs = [Array.empty(device, x.shape, x.dtype) for x in case.arrays("float32")]
    params = op.prepare(*inputs, **case.params) if op.prepare else case.params
    y = op.run(inputs, params)
    read, written = set(), set()
    for launch in device.launches:
        pointers = {p.name: p.const for p in launch.source.signature(launch.kernel).params if p.pointer}
        for name, array in launch.arrays:
            (read if pointers[name] else written).add(array.address)
    inside = sum({x.address: x.nbytes for x in inputs if x.address in read}.values())
    if op.name == "getitem":
        inside = y.nbytes  # of x it reads what the key names
    outside = y.nbytes if y.address in written else 0
    flops, nbytes = op.cost(*inputs, **case.params)
    assert flops >= 0
    if y.size:
        assert nbytes == inside + outside


def test_a_work_knows_what_it_moves_and_computes():
    product = work_of("matmul", [(64, 32), (32, 16)]).dry()
    assert (product.flops, product.nbytes) == (2 * 64 * 32 * 16, 4 * (64 * 32 + 32 * 16 + 64 * 16))
    back = work_of("matmul", [(64, 32), (32, 16)], "backward", "tiled").dry()
    assert [run.kernel for run in back.launches] == ["matmul_backward_a", "matmul_backward_b"]
    assert back.flops == 2 * product.flops
    assert back.nbytes == 4 * (64 * 16 + 2 * (64 * 32 + 32 * 16))
    assert work_of("relu", [(1000,)], "backward").dry().nbytes == 3 * 4000
    with pytest.raises(ValueError, match="less has no gradient"):
        work_of("less", [(3,), (3,)], "backward")
    with pytest.raises(ValueError, match="'sideways' must be"):
        work_of("relu", [(3,)], "sideways")


def test_a_work_is_planned_for_the_gpu_that_is_there(monkeypatch):
    work = work_of("matmul", [(64, 65536), (65536, 64)])
    parts = [run.grid[2] for run in work.dry().launches if "parts" in run.kernel]
    monkeypatch.setattr(dry, "why_not", lambda name: "")
    monkeypatch.setattr(dry, "get", lambda name: SimpleNamespace(arch="sm_90a", processors=24))
    here = [run.grid[2] for run in work.dry().launches if "parts" in run.kernel]
    assert 0 < here[0] < parts[0]


def test_the_set_holds_every_op_that_launches_a_kernel():
    measured = {work.op.name for work in bench.suite()}
    assert measured == {op.name for op in OPS.values() if op.kernels}
    assert len({work.title for work in bench.suite()}) == len(bench.suite())
    assert {work.op.name for work in bench.suite("softmax")} == {"softmax"}
    with pytest.raises(ValueError, match="only='sofmax' is no op; there is add, "):
        bench.suite("sofmax")


# --- right first ---

SMALL = {
    "transpose": ((33, 65),), "matmul": ((33, 65), (65, 31)), "softmax": ((5, 100),), "log_softmax": ((5, 100),),
    "getitem": ((33, 5),), "concatenate": ((3, 4), (5, 4)), "where": (np.arange(99) % 3 == 0, (99,), (99,)),
    "cross_entropy": ((7, 10), np.arange(7)),
}  # fmt: skip
PARAMS = {"getitem": {"key": (slice(None, None, 2), 1)}}


def small(op, way):
    return work_of(op, SMALL.get(op.name, ((1000,),) * len(op.inputs.names)), way, **PARAMS.get(op.name, {}))


@pytest.mark.parametrize("way", ["forward", "backward"])
@pytest.mark.parametrize("op", [op for op in OPS.values() if op.kernels], ids=lambda op: op.name)
def test_every_op_is_right_on_every_set_of_inputs(op, way, kernel_device):
    if way == "backward" and op.backward is None:
        return
    stage = Experiment(small(op, way), get(kernel_device), cache=40_000)
    assert stage.windows > 1 and len({row[0].address for row in stage.inputs}) in (1, stage.windows)
    call = verified(stage)["minigrad"]
    for _ in range(stage.windows):
        call()
    stage.check(call(), "the first set again")


def test_a_wrong_result_is_not_timed():
    def launch(kernels, x):
        y = mg.relu.launch(kernels, x)
        y.device.zero(y.address, 4)
        return y

    wrong = mg.relu.using()
    wrong.launch = launch
    (reference,) = Experiment(work_of(mg.relu, [(100,)]), get("sim")).wanted
    assert reference.host[0] > 0
    with pytest.raises(ValueMismatch, match=r"relu of 100 by minigrad is off by .* It is not timed"):
        verified(Experiment(work_of(wrong, [(100,)]), get("sim")))


def test_a_chain_is_compared_with_numpy_before_it_is_timed(kernel_device):
    device, host = get(kernel_device), np.linspace(-2, 2, 10_001, dtype=np.float32)
    fused, x = mg.fuse(chain.chain), Array.upload(device, host)
    calls = {"op by op": chain.passes(chain.chain, x), "fused": chain.passes(fused, x)}
    chain.must_agree(calls, fused, host, device)
    with pytest.raises(ValueMismatch, match=r"chain: the gradient of other is off by 0\.\d+ of the largest; not timed"):
        chain.must_agree({"other": lambda: (calls["fused"]()[0], x)}, fused, host, device)


def test_nan_is_wrong():
    stage = Experiment(work_of(mg.relu, [(100,)]), get("sim"))
    with pytest.raises(ValueMismatch, match="off by inf"):
        stage.check([Array.upload(get("sim"), np.full(100, np.nan, np.float32))], "nobody")
    with pytest.raises(ValueMismatch, match="off by inf"):
        stage.check([Array.zeros(get("sim"), (99,), np.dtype(np.float32))], "nobody")


@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_the_error_is_that_of_the_worst_element(dtype, kernel_device):
    host = (np.arange(3000) % 4).astype(dtype)
    reference, other = Reference(get(kernel_device), host), host.copy()
    assert reference.error(Array.upload(get(kernel_device), host)) == 0
    other[2999] = not host[2999] if dtype == "bool" else 2.5
    assert reference.error(Array.upload(get(kernel_device), other)) == pytest.approx(1 if dtype == "bool" else 0.5 / 3)


def test_tensor_cores_are_compared_with_tensor_cores_and_measured_by_their_own_peak():
    exact, tf32 = work_of("matmul", [(8, 8), (8, 8)]), work_of("matmul", [(8, 8), (8, 8)], variant="mma_tf32")
    bfloat16, taught = replace(exact, dtype="bfloat16"), work_of("matmul", [(8, 8), (8, 8)], variant="naive")
    assert [w.unit for w in (exact, tf32, bfloat16, taught)] == ["float32", "tf32", "bfloat16", "float32"]
    both = ("torch", "numpy")
    assert [list(rivals(w, both)) for w in (exact, tf32, bfloat16, taught)] == [list(both), ["torch"], ["torch"], []]
    assert bfloat16.title == "matmul of 8 x 8, 8 x 8, bfloat16"


def test_bfloat16_is_checked_and_measured_in_two_bytes():
    pytest.importorskip("ml_dtypes")
    dry = replace(work_of("matmul", [(64, 64), (64, 64)]), dtype="bfloat16").dry()
    assert [run.kernel for run in dry.launches] == ["matmul_wgmma"] and dry.nbytes == 3 * 64 * 64 * 2
    given = work_of("matmul", [mg.ones(64, 64, device="numpy").astype("bfloat16")] * 2)
    assert (given.title, given.unit) == ("matmul of 64 x 64, 64 x 64, bfloat16", "bfloat16")


def test_an_unknown_rival():
    for measure in (partial(bench.measure, mg.relu, (100,)), bench.run, bench.training_step):
        with pytest.raises(ValueError, match=r"mg\.bench\.\w+: against='cupy' must be among torch, numpy"):
            measure(against="cupy")
    with pytest.raises(TypeError, match=r"mg\.bench\.run: against takes a list of torch, numpy; got int 3"):
        bench.run(against=3)


def test_what_launches_nothing_is_not_timed():
    with pytest.raises(
        ValueError, match=r"reshape of 4, shape=\(2, 2\) launches no kernel, so there is nothing to time"
    ):
        bench.measure(mg.reshape, (4,), shape=(2, 2))
    with pytest.raises(ValueError, match="relu backward of 0 launches no kernel"):
        bench.measure("relu", (0,), way="backward")


@pytest.mark.parametrize("repeats", [0, "many"])
def test_a_time_has_a_repeat_at_least(repeats):
    for measure in (bench.training_step, bench.host_cost, partial(bench.time, print)):
        with pytest.raises((ValueError, TypeError), match=r"repeats=.* must be a whole number of at least 1"):
            measure(repeats=repeats)


# --- the timer, on a GPU of pencil and paper ---


class Paper:
    """A queue with a clock: the host needs `host` seconds for a launch, the GPU `kernel` seconds to run it."""

    name = "paper"
    chip = H200

    def __init__(self, host, kernel):
        self.host, self.kernel, self.now, self.free = host, kernel, 0.0, 0.0

    def allocate(self, nbytes):
        return SimpleNamespace(address=256, nbytes=nbytes)

    def zero(self, address, nbytes):
        self.queue(0.0)

    def build(self, source, defines):
        return None

    def launch(self, module, name, grid, block, shared, arguments):
        self.queue(arguments.packed.p1 * 1e-9)  # spin

    def queue(self, seconds):
        self.now += self.host
        self.free = max(self.free, self.now) + seconds

    def mark(self):
        self.free = max(self.free, self.now)
        return self.free

    def passed(self, event):
        return self.now >= event

    def between(self, start, stop):
        self.now = max(self.now, stop)
        return stop - start


@pytest.mark.parametrize("host", [1e-6, 2e-5, 3e-4])
def test_the_time_of_the_host_is_not_in_a_time(host):
    paper = Paper(host, 3e-6)
    (timing,) = Timer(paper).interleaved([lambda: paper.queue(3e-6)], repeats=5, seconds=1e-4)
    assert not timing.host and np.allclose((timing.fastest, timing.slowest), 3e-6) and timing.repeats == 5


def test_work_that_waits_for_the_gpu_says_that_the_host_is_in_its_time():
    paper = Paper(1e-5, 3e-6)

    def work():
        paper.queue(3e-6)
        paper.now = paper.free  # as .item() does

    (timing,) = Timer(paper).interleaved([work], repeats=3, seconds=1e-4)
    assert timing.host and timing.seconds > 3e-6 and "the host's time included" in repr(timing)


def test_works_take_turns():
    paper, order = Paper(1e-6, 0), []

    def work(name, seconds):
        order.append(name)
        paper.queue(seconds)

    times = Timer(paper).interleaved([lambda: work("a", 1e-3), lambda: work("b", 2e-3)], repeats=3, seconds=1e-6)
    assert "".join(order).endswith("ababab")
    assert [timing.seconds for timing in times] == pytest.approx([1e-3, 2e-3])
    assert SHORTEST > 0


def test_a_timing_is_median_and_spread():
    timing = bench.Timing.of([3e-6, 1e-6, 2e-6])
    assert repr(timing) == "2.0 us (median of 3; 1.0 to 3.0)"


# --- records ---


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(dated, "FOLDERS", (tmp_path,))
    return tmp_path


def example(date="2026-01-02"):
    made = bench.Record("NVIDIA H200", date, "minigrad bench", {"python": "3.12"}, H200, 4e12)
    times = {"torch": bench.Timing(1e-3, 1e-3, 1e-3, 20)}
    timing = bench.Timing(5e-4, 4e-4, 6e-4, 20)
    made.measurements["matmul of 2 x 2"] = bench.Measurement(
        "matmul of 2 x 2", ("matmul_tiled",), timing, 16 * 10**9, 10**9, "float32", times
    )
    made.sweeps["relu forward of 8"] = {"BLOCK=32": timing, "BLOCK=64": bench.Timing(1e-4, 1e-4, 1e-4, 20, host=True)}
    made.resources["relu_forward BLOCK=32"] = (16, 0, 0)
    made.choices["relu forward of 8"] = {"search": "BLOCK=64", "default": "BLOCK=32"}
    return made


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
    with pytest.raises(ValueError, match=r"x\.json is no record"):
        bench.load(tmp_path / "x.json")
    path = example().save(tmp_path)
    text = path.read_text()
    for old, new in (('"unit": "float32"', '"united": 1'), ('"sms": 132,', ""), ("[500.0, 400.0, 600.0, 20]", '["a"]')):
        (tmp_path / "x.json").write_text(text.replace(old, new))
        with pytest.raises(ValueError, match=r"x\.json is a damaged record \(\w+Error: "):
            bench.load(tmp_path / "x.json")
    with pytest.raises(ValueError, match="is no record: it needs device, date, command, versions, costs"):
        (tmp_path / "adjoint").mkdir()
        mg.bench.load(path.rename(tmp_path / "adjoint" / path.name))


@pytest.mark.parametrize("path", sorted(dated.FOLDERS[0].glob("*.json")), ids=lambda path: path.stem)
def test_the_records_of_the_project_can_be_read(path):
    record = bench.load(path)
    assert path.stem == record.name and record.command and record.versions
    assert all(times for times in record.sweeps.values())
    for m in record.measurements.values():
        assert m.timing.fastest <= m.timing.seconds <= m.timing.slowest and m.nbytes > 0


# --- sweeps ---


def test_settings_are_the_legal_values_that_make_a_difference():
    alone = settings(work_of("relu", [(100,)], variant="forward"))
    assert [s.label for s in alone] == [f"BLOCK={2**i}" for i in range(5, 11)]
    both = [s.label for s in settings(work_of("sum", [(10**6,)], variant="warp"))]
    assert "BLOCK=64 CHUNK=100" in both and "BLOCK=64 CHUNK=8192" in both
    alone = settings(work_of("sum", [(10,)], variant="warp"), BLOCK=64)
    assert [s.values["BLOCK"] for s in alone] == [64], "with 10 elements no CHUNK makes a difference"


def test_a_sweep_without_a_gpu_is_the_recorded_one(folder, monkeypatch):
    monkeypatch.setattr("minigrad.lab.bench.sweeps.why_not", lambda name: "no GPU")
    example().save()
    sweep = mg.bench.sweep(mg.relu, (8,), variant="forward")
    assert list(sweep.recorded) == [32, 64] and not sweep.live
    told = sweep.at(32)
    assert told.startswith(
        "500.0 us (median of 20; 400.0 to 600.0) recorded on NVIDIA H200, 2026-01-02, for relu forward of 8"
    )
    assert "live: no GPU here  recorded on NVIDIA H200, 2026-01-02" in repr(sweep)
    assert "live: no GPU here  recorded: never" in repr(mg.bench.sweep(mg.relu, (9,)))
    with pytest.raises(ValueError, match="no kernel with a tunable TILE; there is BLOCK=256"):
        mg.bench.sweep(mg.relu, (8,), tunable="TILE", variant="forward")


# --- the command line ---


def test_without_a_gpu_nothing_is_measured(folder, monkeypatch, capsys):
    monkeypatch.setattr(command_line, "why_not", lambda name: "device 'cuda': no GPU.")
    assert command_line.main(["bench"]) == 0
    assert "Speed cannot be measured here: device 'cuda': no GPU." in (said := capsys.readouterr().out)
    assert "There is no record yet." in said
    example().save()
    command_line.main(["bench", "--only", "matmul"])
    assert "NVIDIA H200, 2026-01-02" in (said := capsys.readouterr().out) and "matmul of 2 x 2" in said
    assert command_line.main(["bench", "--only", "relu"]) == 2
    assert "matmul of 2 x 2" not in (said := capsys.readouterr()).out
    assert "minigrad bench: NVIDIA H200, 2026-01-02 has no measurement of relu; it has of matmul" in said.err
    command_line.main(["bench", "--sweep"])
    assert "Choices against the best of a full sweep" in capsys.readouterr().out
    assert command_line.main(["bench", "--host"]) == 2 and "no record has what a call costs" in capsys.readouterr().err
    times = {"add": {"minigrad": bench.Timing(1e-6, 1e-6, 1e-6, 20)}}
    replace(example(), host=times).save()
    assert command_line.main(["bench", "--host"]) == 0
    assert "add           1.00" in (said := capsys.readouterr().out) and "matmul of 2 x 2" not in said


@pytest.mark.parametrize("why", ["no GPU", ""])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--only sofmax", "only='sofmax' is no op; there is add, "),
        ("--adjoint --only relu", "only='relu' is no rung; there are axpy"),
        ("--step --only relu", "--only relu: minigrad bench --step measures one thing"),
        ("--host --only chain", "--only chain: minigrad bench --host measures one thing"),
        ("--against warp", "minigrad bench: --against='warp' must be among torch, numpy"),
        ("--host --against numpy", "minigrad bench --host: --against='numpy' must be among torch"),
        ("--adjoint --against torch", "minigrad bench --adjoint: --against='torch' must be among warp"),
    ],
)
def test_options_that_do_not_go_together(why, words, said, monkeypatch, capsys):
    monkeypatch.setattr(command_line, "why_not", lambda name: why)
    assert command_line.main(["bench", *words.split()]) == 2
    found = capsys.readouterr()
    assert said in found.err and not found.out and "bench: minigrad bench" not in found.err


@pytest.mark.parametrize("words", ["--step --host", "--adjoint --sweep", "--host --sweep"])
def test_one_thing_is_measured_at_a_time(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        command_line.main(["bench", *words.split()])
    assert "not allowed with argument" in capsys.readouterr().err


@pytest.fixture
def pretended(folder, monkeypatch):
    """A run whose GPU, copy and times are made up here; what is tested is what becomes of them."""
    took = bench.Timing(1e-4, 1e-4, 1e-4, 20)
    asked = []

    def timed(stage, against):
        asked.append((stage.title, tuple(against)))
        return bench.Measurement(stage.title, ("k",), took, 0, 1000)

    monkeypatch.setattr("minigrad.lab.bench.workloads.set_up", lambda work: work)
    monkeypatch.setattr("minigrad.lab.bench.workloads.timed", timed)
    monkeypatch.setattr("minigrad.lab.bench.workloads.copy_bandwidth", lambda: 4e12)
    monkeypatch.setattr(
        "minigrad.lab.bench.workloads.todays_record",
        lambda command, **tables: bench.Record("Some GPU", "2026-01-02", command, {}, H200, **tables),
    )
    monkeypatch.setattr(command_line, "why_not", lambda name: "")
    return asked


def test_a_run_measures_the_set_and_is_written(pretended, folder, capsys):
    assert command_line.main(["bench", "--only", "matmul", "--against", "numpy"]) == 0
    record = bench.load(folder / "some-gpu-2026-01-02.json")
    assert list(record.measurements) == [work.title for work in bench.suite("matmul")] and record.copy == 4e12
    assert record.command == "minigrad bench --only matmul --against numpy"
    assert {against for title, against in pretended if title.startswith("matmul naive")} == {()}
    assert {against for title, against in pretended if "8192 x 8192, 8192 x 8192" in title} >= {("numpy",)}
    said = capsys.readouterr().out
    assert "matmul naive of 1024 x 1024" in said and "some-gpu-2026-01-02.json" in said
    assert command_line.main(["bench", "--only", "sofmax"]) == 2
    assert "only='sofmax' is no op" in capsys.readouterr().err


def test_a_wrong_result_is_refused_and_the_run_goes_on(pretended, folder, monkeypatch, capsys):
    def timed(stage, against):
        if "naive" in stage.title:
            raise ValueMismatch(f"{stage.title} is off")
        return bench.Measurement(stage.title, ("k",), bench.Timing(1e-4, 1e-4, 1e-4, 20), 0, 1000)

    monkeypatch.setattr("minigrad.lab.bench.workloads.timed", timed)
    assert command_line.main(["bench", "--only", "matmul"]) == 1
    assert "matmul naive of 1024 x 1024, 1024 x 1024 is off" in capsys.readouterr().err
    record = bench.load(folder / "some-gpu-2026-01-02.json")
    assert all("naive" in title for title in record.refused) and len(record.refused) == 2
    assert len(record.measurements) == len(bench.suite("matmul")) - 2


def test_a_folder_that_takes_no_file_is_refused_before_anything_is_measured(pretended, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert command_line.main(["bench", "--only", "relu", "--save", str(tmp_path / "file")]) == 2
    said = capsys.readouterr().err
    assert f"no record can be written to {tmp_path / 'file'}: File exists. Name another: --save FOLDER." in said
    assert not pretended


@pytest.mark.parametrize("error", [MemoryError("12 bytes asked for"), LaunchError("no room"), CompileError("a.cu(3)")])
def test_a_work_that_the_gpu_has_no_room_for_is_refused_and_the_run_goes_on(pretended, monkeypatch, error):
    def set_up(work):
        if "268435456" in work.title:
            raise error
        return work

    monkeypatch.setattr("minigrad.lab.bench.workloads.set_up", set_up)
    record = bench.run("relu")
    assert record.refused == {"relu of 268435456": str(error)} and len(record.measurements) == 3


def test_a_kernel_that_goes_wrong_ends_the_run_and_what_was_measured_is_kept(pretended, monkeypatch):
    def set_up(work):
        if "268435456" in work.title:
            raise KernelError("illegal address", "relu_vectorized", "illegal-access")
        return work

    monkeypatch.setattr("minigrad.lab.bench.workloads.set_up", set_up)
    record = bench.run("relu")
    assert record.refused == {"relu of 268435456": "illegal address"}
    assert list(record.measurements) == ["relu of 67108864", "relu backward of 67108864"]


def test_a_work_with_a_setting_that_is_wrong_has_no_times(pretended, folder):
    def more(record, stage):
        record.choices[stage.title] = {"search": "BLOCK=64", "default": "BLOCK=64"}
        raise ValueMismatch("BLOCK=64 is wrong")

    record = bench.run("relu", more=more)
    assert record.refused and not record.measurements and not record.choices
    assert bench.load(record.save(folder)).refused == bench.load(record.save(folder)).refused == record.refused


def test_a_run_that_is_interrupted_keeps_what_it_has(pretended):
    def track(works):
        yield works[0]
        raise KeyboardInterrupt

    seen = []
    record = bench.run("matmul", track=track, more=lambda record, stage: seen.append(stage.title))
    assert list(record.measurements) == seen == [bench.suite("matmul")[0].title]


def test_inputs_are_given_as_shapes_arrays_or_tensors():
    labels = mg.tensor(np.array([0, 1]), device="sim")
    work = work_of("cross_entropy", [mg.zeros(2, 3, device="sim"), labels])
    assert work.shapes() == [((2, 3), np.dtype("float32")), ((2,), np.dtype("int64"))]
    assert work.title == "cross_entropy of 2 x 3, 2 int64"
    assert work_of(mg.relu, [8]).title == work_of(mg.relu, [np.zeros(8)]).title == "relu of 8"


def test_no_time_of_sim(monkeypatch):
    if mg.bench.newest() is None or "cuda" in mg.devices():
        pytest.skip("for a machine without a GPU")
    for call in (lambda: mg.bench.measure(mg.relu, (8,)), lambda: mg.bench.time(print), mg.bench.run):
        with pytest.raises(DeviceError, match="device 'cuda'"):
            call()


def test_the_doctor_on_the_command_line(capsys):
    assert command_line.main(["doctor"]) == 0 and "C++ compiler" in capsys.readouterr().out
    done = subprocess.run([sys.executable, "-m", "minigrad", "--help"], capture_output=True, text=True, check=True)
    assert "bench" in done.stdout and "doctor" in done.stdout


# --- on a GPU ---


@pytest.mark.gpu
def test_a_memory_bound_kernel_takes_as_long_as_its_bytes():
    fast = mg.bench.measure(mg.relu, (2**26,), against=["numpy"])
    assert not fast.timing.host and fast.against("numpy") > 1
    assert fast.bytes_per_second < get("cuda").chip.bandwidth
    tiny = mg.bench.measure(mg.relu, (32,))
    assert 1e-7 < tiny.timing.seconds < 2e-5, "the launch takes the host longer than this"


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile, about parts of its own
def test_a_chain_takes_its_turn_with_pytorch():
    pytest.importorskip("torch")
    by_op, fused = chain.measured(["torch"], 2**20, 3)
    assert by_op.rivals == fused.rivals and "torch" in fused.rivals
    assert (by_op.title, fused.title) == ("chain op by op of 1048576", "chain fused of 1048576")


@pytest.mark.gpu
def test_pytorch_does_the_same_on_the_same_arrays():
    pytest.importorskip("torch")
    for op in OPS.values():
        for way in ("forward", "backward") if op.backward else ("forward",):
            if op.kernels:
                verified(Experiment(small(op, way), get("cuda"), cache=40_000), ["torch"])


@pytest.mark.gpu
def test_the_chip_is_what_the_driver_says():
    chip = get("cuda").chip
    assert chip.sms > 0 and chip.threads % 32 == 0 and chip.l2 > 0 and 1e11 < chip.bandwidth < 1e14
    assert isinstance(small(mg.relu, "forward"), Work)
