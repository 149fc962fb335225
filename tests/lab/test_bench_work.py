"""Works: bytes and FLOPs are counted, every op is right at the benchmark's inputs, a wrong result is not timed."""

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
from minigrad.devices.dry_run import DryRun
from minigrad.devices.dtypes import is_last
from minigrad.errors import DeviceError
from minigrad.lab.bench import chain
from minigrad.lab.bench.measure import Experiment, Reference, verified
from minigrad.lab.bench.sweeps import settings
from minigrad.lab.bench.work import Work, work_of
from minigrad.lab.bench.workloads import rivals
from minigrad.lab.check import ValueMismatch
from minigrad.lab.show.draw.colours import UNIT
from minigrad.op import OPS


@pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))
def test_an_op_costs_the_bytes_of_the_arrays_that_its_kernels_read_and_write(op):
    for case in op.cases:
        costs_what_it_moves(op, case)


def costs_what_it_moves(op, case):
    device = DryRun()
    inputs = [Array.empty(device, x.shape, x.dtype, is_last(x)) for x in case.arrays("float32")]
    params = op.prepare(*inputs, **case.params) if op.prepare else case.params
    y = op.run(inputs, params)
    read, written = set(), set()
    for launch in device.launches:
        pointers = {p.name: p.const for p in launch.source.signature(launch.kernel).params if p.pointer}
        for name, array in launch.arrays:
            (read if pointers[name] else written).add(array.address)
    inside = sum({x.address: x.nbytes for x in inputs if x.address in read}.values())
    if op.name == "getitem":
        inside = y.nbytes  # it reads only the elements that the key selects
    if op.name == "cached_attention":
        inside += sum(x.nbytes for x in inputs[1:3])  # which it reads, and writes in one place
    outside = y.nbytes if y.address in written else 0
    flops, nbytes = op.cost(*inputs, **case.params)
    assert flops >= 0, case
    if y.size:
        assert nbytes == inside + outside, case


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
    borrows = {"matmul_transposed"}  # the kernels of matmul
    assert measured == borrows | {op.name for op in OPS.values() if op.kernels}
    assert len({work.title for work in bench.suite()}) == len(bench.suite())
    assert {work.op.name for work in bench.suite("softmax")} == {"softmax"}
    with pytest.raises(ValueError, match="only='sofmax' is not an op; the ops are add, "):
        bench.suite("sofmax")


def test_inputs_are_given_as_shapes_arrays_or_tensors():
    labels = mg.tensor(np.array([0, 1]), device="sim")
    work = work_of("cross_entropy", [mg.zeros(2, 3, device="sim"), labels])
    assert work.shapes() == [((2, 3), np.dtype("float32")), ((2,), np.dtype("int64"))]
    assert work.title == "cross_entropy of 2 x 3, 2 int64"
    assert work_of(mg.relu, [8]).title == work_of(mg.relu, [np.zeros(8)]).title == "relu of 8"


def test_settings_are_the_legal_values_that_make_a_difference():
    alone = settings(work_of("relu", [(100,)], variant="forward"))
    assert [s.label for s in alone] == [f"BLOCK={2**i}" for i in range(5, 11)]
    both = [s.label for s in settings(work_of("sum", [(10**6,)], variant="warp"))]
    assert "BLOCK=64 CHUNK=100" in both and "BLOCK=64 CHUNK=8192" in both
    alone = settings(work_of("sum", [(10,)], variant="warp"), BLOCK=64)
    assert [s.values["BLOCK"] for s in alone] == [64], "with 10 elements no CHUNK makes a difference"


SMALL = {
    "transpose": ((33, 65),), "matmul": ((33, 65), (65, 31)), "softmax": ((5, 100),), "log_softmax": ((5, 100),),
    "getitem": ((33, 5),), "concatenate": ((3, 4), (5, 4)), "where": (np.arange(99) % 3 == 0, (99,), (99,)),
    "cross_entropy": ((7, 10), np.arange(7)), "conv2d": ((2, 3, 9, 8), (4, 3, 3, 3)),
    "conv2d_relu": ((2, 3, 9, 8), (4, 3, 3, 3), (4,), (2, 4, 7, 6)),
    "batch_norm": ((9, 3, 8, 7), *((3,),) * 4), "batch_norm_relu": ((2, 8, 4, 7), *((8,),) * 4, (2, 8, 4, 7)),
    "max_pool2d": ((2, 3, 9, 8),), "avg_pool2d": ((2, 3, 9, 8),),
    "layer_norm": ((9, 68), (68,), (68,)), "rms_norm": ((9, 68), (68,)), "attention": ((2, 2, 9, 8),) * 3,
    "norm_linear": ((2, 36), (36,), (36,), (36, 20), (20,)), "linear_add": ((2, 36), (36, 20), (20,), (2, 20)),
    "bias_gelu_tanh": ((33, 36), (36,)), "matmul_transposed": ((33, 65), (31, 65)), "self_attention": ((2, 9, 24),),
    "cached_attention": ((2, 1, 24), *((2, 1, 9, 8),) * 2, np.array([7])),
    "attention_dropout": (*((2, 2, 9, 8),) * 3, np.array([1, 0], np.uint64)),
    "embedding": (np.arange(9) % 5, (7, 36)), "pad": ((3, 4, 5),), "dropout": ((33, 5), np.array([1, 0], np.uint64)),
}  # fmt: skip


POOL = {"size": 3, "stride": 2, "padding": 1}
PARAMS = {
    "pad": {"pad": (1, 2, 0, 3)},
    "getitem": {"key": (slice(None, None, 2), 1)},
    "max_pool2d": POOL,
    "avg_pool2d": POOL,
}
PARAMS |= {name: {"training": True} for name in ("batch_norm", "batch_norm_relu")}


def small(op, way):
    return work_of(op, SMALL.get(op.name, ((1000,),) * len(op.inputs.names)), way, **PARAMS.get(op.name, {}))


@pytest.mark.sample(5)
@pytest.mark.parametrize("way", ["forward", "backward"])
@pytest.mark.parametrize("op", [op for op in OPS.values() if op.kernels], ids=lambda op: op.name)
def test_every_op_is_right_on_every_set_of_inputs(op, way, kernel_device):
    if way == "backward" and op.backward is None:
        return
    experiment = Experiment(small(op, way), get(kernel_device), cache=12_000)
    assert experiment.windows > 1 and len({row[0].address for row in experiment.inputs}) in (1, experiment.windows)
    call = verified(experiment)["minigrad"]
    for _ in range(experiment.windows):
        call()
    experiment.check(call(), "the first set again")


@pytest.mark.parametrize("way", ["forward", "backward"])
@pytest.mark.parametrize("name", ["batch_norm_relu", "max_pool2d"])
def test_images_are_measured_in_either_layout(name, way, kernel_device):
    shapes = [(2, 8, 5, 7), *((8,),) * 4, (2, 8, 5, 7)] if name == "batch_norm_relu" else [(2, 8, 5, 7)]
    work = work_of(name, shapes, way, channels_last=True, **PARAMS[name])
    assert work.title.endswith(" NHWC")
    assert all(run.kernel.endswith("_nhwc") for run in work.dry().launches if "finish" not in run.kernel)
    experiment = Experiment(work, get(kernel_device))
    assert [x.channels_last for x in experiment.inputs[0]] == [len(x.shape) == 4 for x in experiment.inputs[0]]
    assert all(len(x.shape) < 4 or x.channels_last for x in verified(experiment)["minigrad"]())


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


@pytest.mark.parametrize("name", chain.CHAINS)
def test_a_chain_is_compared_with_numpy_before_it_is_timed(kernel_device, name):
    device, host = get(kernel_device), np.linspace(-2, 2, 10_001, dtype=np.float32)
    fused, x = mg.fuse(chain.CHAINS[name]), Array.upload(device, host)
    calls = {"op by op": chain.passes(chain.CHAINS[name], x), "fused": chain.passes(fused, x)}
    chain.must_agree(calls, fused, host, device)
    with pytest.raises(ValueMismatch, match=r"chain: the gradient of other is off by 0\.\d+ of the largest; not timed"):
        chain.must_agree({"other": lambda: (calls["fused"]()[0], x)}, fused, host, device)


def test_both_chains_move_the_same_bytes_when_they_are_fused():
    """So their times differ by their arithmetic alone."""
    traffic = {name: mg.fuse(function).traffic(2**20) for name, function in chain.CHAINS.items()}
    fused = {name: [(run.read, run.written) for run in each.fused] for name, each in traffic.items()}
    assert fused["chain"] == fused["plain chain"]
    assert chain.titles()[1::2] == ["chain fused of 67108864", "plain chain fused of 67108864"]


def test_nan_is_wrong():
    experiment = Experiment(work_of(mg.relu, [(100,)]), get("sim"))
    with pytest.raises(ValueMismatch, match="off by inf"):
        experiment.check([Array.upload(get("sim"), np.full(100, np.nan, np.float32))], "nobody")
    with pytest.raises(ValueMismatch, match="off by inf"):
        experiment.check([Array.zeros(get("sim"), (99,), np.dtype(np.float32))], "nobody")


@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_the_error_is_that_of_the_worst_element(dtype, kernel_device):
    host = (np.arange(3000) % 4).astype(dtype)
    reference, other = Reference(get(kernel_device), host), host.copy()
    assert reference.error(Array.upload(get(kernel_device), host)) == 0
    other[2999] = not host[2999] if dtype == "bool" else 2.5
    assert reference.error(Array.upload(get(kernel_device), other)) == pytest.approx(1 if dtype == "bool" else 0.5 / 3)


def test_tensor_cores_are_compared_with_tensor_cores_and_measured_by_their_own_peak():
    exact, tf32 = work_of("matmul", [(8, 8), (8, 8)]), work_of("matmul", [(8, 8), (8, 8)], variant="mma_tf32")
    three = replace(tf32, variant="mma_3xtf32")
    bfloat16, taught = replace(exact, dtype="bfloat16"), work_of("matmul", [(8, 8), (8, 8)], variant="naive")
    units = [w.unit for w in (exact, three, tf32, bfloat16, taught)]
    assert units == ["float32", "3xtf32", "tf32", "bfloat16", "float32"] and list(UNIT) == units[:4]
    both = ("torch", "numpy")
    assert [list(rivals(w, both)) for w in (exact, three, bfloat16, taught)] == [list(both), ["torch"], ["torch"], []]
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


def test_no_time_of_sim(monkeypatch):
    if mg.bench.newest() is None or "cuda" in mg.devices():
        pytest.skip("for a machine without a GPU")
    for call in (lambda: mg.bench.measure(mg.relu, (8,)), lambda: mg.bench.time(print), mg.bench.run):
        with pytest.raises(DeviceError, match="device 'cuda'"):
            call()


@pytest.mark.gpu
def test_a_memory_bound_kernel_takes_as_long_as_its_bytes():
    fast = mg.bench.measure(mg.relu, (2**26,), against=["numpy"])
    assert not fast.timing.host and fast.against("numpy") > 1
    assert fast.bytes_per_second < get("cuda").chip.bandwidth
    tiny = mg.bench.measure(mg.relu, (32,))
    assert 1e-7 < tiny.timing.seconds < 2e-5, "the launch takes the host longer than this"


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from inside torch.compile
def test_a_chain_takes_its_turn_with_pytorch():
    pytest.importorskip("torch")
    by_op, fused, *plain = chain.measured(["torch"], 2**20, 3)
    assert [m.title for m in plain] == ["plain chain op by op of 1048576", "plain chain fused of 1048576"]
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
