"""The CUDA ladder beyond the numbers of its rungs: tensor cores, tiles, graphs, and what is refused."""

import copy
import re
from functools import partial

import numpy as np
import pytest
from recurrent_runs import MAKERS, compare

import minigrad as mg
from minigrad import nn
from minigrad.devices.caches import Cache
from minigrad.errors import LaunchError
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.ops import recurrence
from minigrad.recurrent import CUDA, NumPy, cuda
from minigrad.recurrent.cuda import RUNGS
from minigrad.recurrent.tile import ARITHMETIC, TENSOR_CORES, WARP, Layers, Room, Tile, choose, tiles
from minigrad.rounding import DROPPED, rounded
from minigrad.source import CUDA as CUDA_FILES
from minigrad.source import Source

H200 = Room(132, 132 * 1024, 227 * 1024)
GATES = {"tanh": 1, "lstm": 4, "gru": 3}


def by_rounded_factors(module, from_x, precision):
    """y in NumPy, with W_hh and h rounded at every step. from_x is x W_ih^T + b_ih of all steps."""
    _, w_hh, _, b_hh = (w.numpy() for w in module.weights("_l0"))
    around = partial(rounded, precision=precision)
    state, ys = [np.zeros((from_x.shape[1], module.hidden_size), np.float32)] * module.parts, []
    for sums_x in from_x:
        sums = sums_x, around(state[0]) @ around(w_hh).T + b_hh
        state = recurrence.CELLS[module.kind](*sums, *state)
        ys.append(state[0])
    return np.array(ys)


def compare_rounded(module, precision, batch, steps):
    """The runner by tensor cores, and NumPy with the same roundings."""
    x = mg.randn(steps, batch, 7, device=module.weights("_l0")[0].device)
    w_ih, _, b_ih, _ = module.weights("_l0")
    with mg.precision(precision), mg.no_grad():
        y, _ = CUDA(module)(x)
        from_x = (x.reshape(-1, 7) @ w_ih.T + b_ih).reshape(steps, batch, -1).numpy()
    off = np.abs(y.numpy() - by_rounded_factors(module, from_x, precision))
    most = 2e-3 if DROPPED[precision] else 1e-5  # an h between two roundings may go to the other one
    assert (off < 1e-5).mean() > 0.97 and off.max() < most


def some(firsts, seconds, every):
    """Pairs that hold each first and each second one; the others, which `make soak` adds, are marked."""
    return [
        pytest.param(a, b, marks=[pytest.mark.soak] * ((i + j) % every > 0))
        for i, a in enumerate(firsts)
        for j, b in enumerate(seconds)
    ]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("precision", "kind"), some(ARITHMETIC, MAKERS, 2))
def test_tensor_cores_give_the_numbers_of_rounded_factors(kind, precision, device):
    if device == "numpy":
        pytest.skip("NumPy has no tensor cores")
    mg.manual_seed(0)
    for hidden, batch, steps in [(1, 1, 1), (33, 3, 5), (70, 9, 3)]:
        compare_rounded(MAKERS[kind](7, hidden, device=device), precision, batch, steps)


def with_tile(monkeypatch, *shape):
    """Every launch has a tile of this shape, where small work would choose another one."""
    monkeypatch.setattr(cuda, "choose", lambda work, kind, room: Tile(work, *shape, kind))


# rows, columns of a warp, sequences, lanes that share columns
@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("precision", "shape"),
    some(ARITHMETIC, [(16, 16, 64, 1), (32, 128, 16, 1), (64, 32, 32, 1), (64, 64, 8, 1)], 3),
)
def test_tensor_cores_by_tiles_of_any_shape(monkeypatch, precision, shape, device):
    if device == "numpy":
        pytest.skip("NumPy has no tiles")
    mg.manual_seed(0)
    with_tile(monkeypatch, *shape)
    compare_rounded(nn.GRU(7, 21, device=device), precision, 35, 3)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("rung", "shape"),
    some(
        ("wavefront", "cluster"),
        [(64, 16, 3, 4), (64, 32, 16, 2), (96, 64, 2, 1), (128, 16, 8, 4), (32, 128, 4, 1)],
        2,
    ),
)
def test_tiles_of_any_shape(monkeypatch, rung, shape, device):
    if device == "numpy":
        pytest.skip("NumPy has no tiles")
    mg.manual_seed(0)
    with_tile(monkeypatch, *shape)
    module = nn.GRU(7, 21, 2, device=device, dtype="float64")
    compare(CUDA(module, rung), module, 5, 3, [3, 1, 2, 3, 1])


@pytest.mark.parametrize("precision", ["float32", "3xtf32"])
def test_float32_stays_float32(precision, device):
    if device == "numpy":
        pytest.skip("NumPy has no kernels")
    mg.manual_seed(0)
    module = nn.LSTM(5, 9, device=device)
    with mg.precision(precision):
        compare(CUDA(module), module, 9, 3)


SPLIT = """#include "recurrent/halves.cuh"
extern "C" __global__ void split(const real* x, int* bits, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Halves both;
    if (i < n) both = x[i], bits[i] = both.bits;
}
"""


def test_two_halves_hold_22_digits_of_a_float(device):
    if device == "numpy":
        pytest.skip("NumPy has no kernels")
    x = np.random.default_rng(0).standard_normal(4000) * 2.0 ** np.random.default_rng(1).uniform(-30, 15, 4000)
    edges = [0.0, -0.0, 1.0, -(2.0**-14), 2.0**-24, 2.0**-25, 65519.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11]
    x = np.r_[x, edges, 65520.0, -np.inf, np.nan].astype(np.float32)
    bits = mg.zeros(len(x), dtype="int32", device=device)
    Kernel(Source(SPLIT, "split.cu", CUDA_FILES), "split")(
        mg.tensor(x, device=device), bits, len(x), grid=-(-len(x) // 128), block=128
    )
    big, small = bits.numpy().view(np.float16).reshape(-1, 2).T
    with np.errstate(over="ignore"):
        assert np.array_equal(big, x.astype(np.float16), equal_nan=True)
    found, true, small = (a[:-3].astype(np.float64) for a in (big, x, small))
    assert (np.abs(found + small / 2048 - true) <= 2.0**-23 * np.abs(true) + 2.0**-36).all()


@pytest.mark.parametrize("kind", ["tanh", "gru"])
def test_three_products_have_the_error_of_float32(kind, device):
    if device == "numpy":
        pytest.skip("NumPy has no kernels")
    mg.manual_seed(0)
    module, wide = MAKERS[kind](32, 64, 2, device=device), MAKERS[kind](32, 64, 2, device="numpy", dtype="float64")
    wide.load_state_dict({name: w.numpy().astype(np.float64) for name, w in module.named_parameters()})
    found, x = {}, np.random.default_rng(0).standard_normal((12, 9, 32)).astype(np.float32)
    exact = NumPy(wide)(mg.tensor(x.astype(np.float64), device="numpy"))[0].numpy()
    for precision in ("float32", "3xtf32"):
        with mg.precision(precision):
            y = CUDA(module)(mg.tensor(x, device=device))[0].numpy()
        found[precision] = np.abs(y - exact).mean()
    assert found["3xtf32"] < 2 * found["float32"] < 2e-7


@pytest.mark.parametrize("kind", ["registers", "cluster", *TENSOR_CORES])
@pytest.mark.parametrize("cell", GATES)
def test_a_chosen_tile_covers_the_work_and_fits(cell, kind):
    for hidden in (1, 31, 100, 256, 512, 1024):
        for batch in (1, 3, 32, 64):
            work = Layers(hidden, batch, GATES[cell], 1, 4)
            try:
                tile = choose(work, kind, H200)
            except LaunchError:
                assert hidden * batch >= 1024 * 32 or (kind == "cluster" and hidden * GATES[cell] > 512)
                continue  # more than the chip, or eight blocks, hold
            assert tile in tiles(work, kind) and tile.blocks <= H200.blocks
            assert tile.units * tile.columns >= hidden and tile.seqs * tile.groups >= batch
            assert tile.warps * tile.k >= hidden and tile.warps * WARP >= tile.units * tile.seqs
            others = [t for t in tiles(work, kind) if t.fits(H200) and t.resident(H200)]
            assert tile.cycles == min(other.cycles for other in others)


def test_a_block_holds_twice_as_many_weights_as_halves_and_so_half_as_many_blocks_read_the_same_h():
    whole, halves = (choose(Layers(1024, 64, 4, 1, 4), kind, H200) for kind in ("tf32", "half"))
    assert (halves.rows, halves.seqs) == (2 * whole.rows, whole.seqs // 2)
    assert halves.columns * halves.words * 4 == whole.columns * whole.words  # bytes that all blocks read, twice


def test_work_that_is_not_resident_at_once_is_refused_with_the_numbers():
    with pytest.raises(LaunchError, match="registers: no block holds its share of 8192 units, 4 gates and 1 layer"):
        choose(Layers(8192, 1, 4, 1, 8), "registers", H200)
    module = nn.LSTM(2, 512, device="sim")
    with pytest.raises(LaunchError, match=r"need \d+ blocks of \d+ threads at once, and this device runs 132"):
        CUDA(module)(mg.zeros((1, 64, 2), device="sim"))


@pytest.mark.parametrize("kind", ["registers", "cluster", "tf32"])
@pytest.mark.parametrize("size", ["batch", "hidden"])
def test_a_refusal_names_the_largest_size_that_fits(size, kind):
    work = Layers(100, 10**5, 4, 1, 4) if size == "batch" else Layers(10**4, 1, 4, 1, 4)
    with pytest.raises(LaunchError) as refused:
        choose(work, kind, H200)
    pattern = r"Run (\d+) sequences at a time" if size == "batch" else r"Take (\d+) units"
    most = int(re.search(pattern, str(refused.value))[1])
    choose(work._replace(**{size: most}), kind, H200)
    with pytest.raises(LaunchError):
        choose(work._replace(**{size: most + 1}), kind, H200)


def test_refusals():
    with pytest.raises(ValueError, match="a layer above both directions reads the end of the sequence first"):
        CUDA(nn.GRU(2, 3, 2, bidirectional=True, device="sim"), "wavefront")
    with pytest.raises(ValueError, match="CUDA: rung='fast' must be among steps, projected"):
        CUDA(nn.GRU(2, 3, device="sim"), "fast")
    with pytest.raises(ValueError, match=r"needs clusters of blocks, which GPUs of sm_89 do not have.*'persistent'"):
        cuda.must_have_clusters("sm_89")
    for arch in ("sm_90a", "sm_120", ""):
        cuda.must_have_clusters(arch)


@pytest.mark.gpu
@pytest.mark.parametrize("rung", RUNGS)
def test_a_sequence_is_captured_as_a_graph(rung):
    mg.manual_seed(0)
    module = nn.LSTM(7, 65, 2, device="cuda")
    run = CUDA(module, rung)
    fast, xs = mg.graph(lambda x: run(x)[0]), [mg.randn(9, 3, 7, device="cuda") for _ in range(4)]
    for x in xs:
        with mg.no_grad():
            np.testing.assert_allclose(fast(x).numpy(), module(x)[0].numpy(), 1e-5, 1e-5)
    assert fast.replays >= 2


MEET = "{ grid_wait(arrived + blockIdx.y, gridDim.x * gridDim.z, meeting); }"
LINES = {  # of the persistent kernel, without which its threads race
    "h is read before other blocks have written it": (MEET, "{}"),
    "the write of h is not ordered before the arrival": ("        __threadfence();  // release", ""),
    "h may be read before the wait has ended": ("        __threadfence();  // acquire", ""),
    "the sums of other warps are not ready": ("            __syncthreads();\n            // [the cell]", ""),
    "the copies of a lane have not arrived": ("        copy_wait<0>();\n", ""),
    "those of other lanes may not have": ("        __syncwarp();\n", ""),
}


WATCHED = {"half": "tf32", "bf16": "bf16", "3xtf32": "3xtf32"}  # arithmetics of a GRU on tensor cores: precisions


class SeenError(Exception):
    """Ends a launch that the microscope has watched."""


def inspected(monkeypatch, kind="registers", change=("", "")):
    """The microscope's report on a persistent kernel for two layers of a GRU, with a line of its files replaced."""
    mg.manual_seed(0)
    run = CUDA(nn.GRU(3, 20, 2, device="sim"), "cluster" if kind == "cluster" else "wavefront")
    kernel = copy.copy(run.kernels[kind])
    text = kernel.source.text
    for header in ("recurrent/registers.cuh", "recurrent/persistent.cuh", "grid_barrier.cuh"):
        text = text.replace(f'#include "{header}"', (CUDA_FILES / header).read_text().replace("#pragma once", ""))
    assert change[0] in text
    kernel.source = Source(text.replace(*change), "persistent.cu", CUDA_FILES)
    kernel._modules, kernel._plans, reports = Cache(), Cache(), []
    run.kernels = run.kernels | {kind: kernel}
    launch = Launch.__call__

    def watched(self, *args):
        if self.kernel is not kernel:
            return launch(self, *args)
        monkeypatch.setattr(Launch, "__call__", launch)
        reports.append(mg.inspect(self, *args))
        raise SeenError

    monkeypatch.setattr(Launch, "__call__", watched)
    with pytest.raises(SeenError), mg.precision(WATCHED.get(kind, "float32")):
        run(mg.randn(3, 9 if kind == "3xtf32" else 3, 3, device="sim"))
    return reports[0]


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["registers", "cluster", *WATCHED])
def test_the_microscope_finds_no_problem_in_a_persistent_kernel(monkeypatch, kind):
    assert "no problems" in repr(inspected(monkeypatch, kind))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kind", "missing"),
    [("registers", missing) for missing in LINES]
    + [(kind, missing) for kind in ("cluster", *WATCHED) for missing in [*LINES][:2]],
)
def test_the_microscope_finds_a_lost_barrier_or_fence(monkeypatch, kind, missing):
    problems = inspected(monkeypatch, kind, LINES[missing]).problems
    assert "race" in {problem.kind for problem in problems}


def test_a_launch_of_a_sequence_is_written_as_a_program(tmp_path):
    launch, tile = CUDA(nn.LSTM(3, 20, device="sim")).planned(2, 1)
    weights = [mg.zeros(n, device="sim") for n in (1600, 80, 1600, 80)]
    lengths = mg.tensor(np.full(2, 2, np.int32), device="sim")
    moved, arrived = (mg.tensor(np.zeros(n, np.uint32), device="sim") for n in (tile.words, tile.groups))
    h, c, y = (mg.zeros(n, device="sim") for n in (40, 40, 80))
    given = mg.zeros((4, 80), device="sim"), *weights, lengths, h, c, y, moved, arrived, 2, 0, 2, 20
    program = launch.standalone(tmp_path / "lstm.cu", *given)
    assert "cooperative" in program.text and f"dynamicSmemBytes = {launch.shared}" in program.text
