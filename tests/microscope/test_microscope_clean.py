"""The microscope reports nothing in the kernels of the package."""

import re
from contextlib import contextmanager

import numpy as np
import pytest
from adjoint_rungs import RUNGS

import minigrad as mg
from minigrad import check, recurrent
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.devices.dtypes import is_last
from minigrad.errors import CompileError
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.window import Window
from minigrad.lab.bench.levels import places
from minigrad.lab.bench.measure import Draw, Reference
from minigrad.lab.bench.paper import inputs
from minigrad.microscope import watching
from minigrad.op import Op
from minigrad.ops.add_layer_norm import add_layer_norm
from minigrad.ops.attention.flash import RUNGS as RUNGS_IN_TILES
from minigrad.ops.matmul.shapes import ENDS
from minigrad.rounding import rounded
from minigrad.source import CUDA, Source

RAN: set[str] = set()
SIM = get("sim")


@contextmanager
def clean():
    """Remembers the kernels that are launched within, none of which has a problem."""
    with watching() as report:
        yield report
    RAN.update(record.kernel for record in report.launches)
    assert report.problems == []


def run(op: Op, case) -> None:
    """Run the forward and backward kernels of an op."""
    hosts = case.arrays("float32")
    params = op.prepare(*hosts, **case.params) if op.prepare else case.params
    y = op.run(uploaded(hosts), params)
    if op.backward and y.dtype.kind == "f":
        dy = case.laid_out(np.random.default_rng(1).standard_normal(y.shape).astype("float32"))
        op.vjp(uploaded(hosts), uploaded([dy])[0], case.params)


def uploaded(hosts) -> list[Array]:
    """The arrays on `sim`, each in its layout."""
    return [Array.upload(SIM, x, is_last(x)) for x in hosts]


FAMILIES = (  # an op of each: one of those whose kernels are alike
    "relu", "add", "where", "sum", "softmax", "layer_norm", "batch_norm", "cross_entropy", "matmul", "transpose",
    "conv2d", "max_pool2d", "embedding", "attention", "getitem", "concatenate",
)  # fmt: skip
WATCHED = [pytest.param(mg.OPS[name], 3, id=name) for name in FAMILIES]
WATCHED += [pytest.param(op, 1, id=f"{name}-1", marks=pytest.mark.soak) for name, op in mg.OPS.items()]


@pytest.mark.parametrize("op, every", WATCHED)
def test_no_kernel_of_the_package_has_a_problem(op, every):
    """The op as it is in each case; its other kernels in every third one, or in all and with its smallest blocks."""
    smallest = {key: min(legal) for kernel in op.kernels.values() for key, legal in kernel.tunables.items()}
    others = [*map(op.using, check.variants(op)), *([op.using(**smallest)] if every == 1 else [])]
    with clean() as report:
        for number, case in enumerate(op.cases):
            for chosen in (op, *others[number % every :: every]):
                run(chosen, case)
    assert report.launches or op.shares


def test_the_fast_products_of_large_matrices_have_no_problem():
    op = mg.matmul.with_kernels(mg.matmul.kernels, {f"{way}_small": f"warp_tiled{end}" for way, end in ENDS.items()})
    with clean():
        for case in op.cases:
            run(op, case)
            run(mg.matmul.using("packed"), case)
            with mg.precision("tf32"):
                run(mg.matmul, case)


@pytest.mark.parametrize("rung", ["mma_tf32", "mma_bf16"])
def test_the_products_on_tensor_cores_have_no_problem(rung):
    dtype = np.float32 if "tf32" in rung else pytest.importorskip("ml_dtypes").bfloat16
    with clean():
        for m, k, n in ((1, 1, 1), (33, 70, 65), (130, 72, 264)):
            a, b = (mg.tensor(np.ones(shape, dtype), True, "sim") for shape in ((m, k), (k, n)))
            mg.matmul.using(rung)(a, b).backward(mg.tensor(np.ones((m, n), dtype), device="sim"))


@pytest.mark.sample(2)
@pytest.mark.parametrize("rung", [rung for rung in RUNGS_IN_TILES if "wgmma" not in rung])
def test_attention_in_tiles_has_no_problem(rung):
    """Blocks whose warps see different numbers of tiles, and two tiles; gradients by two kernels and by one."""
    dtype = np.float32 if "bf16" not in rung else pytest.importorskip("ml_dtypes").bfloat16
    chosen = mg.attention.using(rung)
    for op in (chosen, chosen.with_kernels(chosen.kernels, {f"all_{rung}": f"{rung}_backward_all"})):
        q, k, v = (mg.tensor(np.ones(shape, dtype), True, "sim") for shape in ((1, 2, 33, 20), *[(1, 1, 70, 20)] * 2))
        with clean():
            op(q, k, v, causal=True).backward(mg.tensor(np.ones(q.shape, dtype), device="sim"))


def test_the_sums_of_a_residual_stream_and_their_norms_have_no_problem():
    for op in (add_layer_norm, add_layer_norm.using(WARPS=4)):
        x, y, *columns = (
            mg.randn(*shape, device="sim", requires_grad=True) for shape in ((19, 36),) * 2 + ((36,),) * 3
        )
        with clean():
            h, n = op(x, y, *columns)
            (h.sum() + n.sum()).backward()


@pytest.mark.sample(3)
@pytest.mark.parametrize("m, k, n", [(5, 4200, 12), (4200, 5, 12), (12, 5, 4200)])
def test_the_parts_of_a_long_sum_have_no_problem(m, k, n):
    a, b = (mg.randn(*shape, device="sim", requires_grad=True) for shape in ((m, k), (k, n)))
    with clean():
        (a @ b).sum().backward()


def test_the_parts_of_a_dot_product_have_no_problem():
    x, y = (mg.randn(*shape, device="sim") for shape in ((1, 49200), (49200, 1)))
    with clean():
        dot = x @ y
    np.testing.assert_allclose(dot.numpy(), x.numpy() @ y.numpy(), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize(("rung", "how"), [("register_tile", {"stride": (2, 3)}), ("halo_tile", {})])
@pytest.mark.parametrize("channels", [4, 5])
def test_convolution_with_the_channels_last_has_no_problem(rung, how, channels):
    """Four neighbors are copied at once where channels and kernels are multiples of four."""
    x, w = (mg.randn(*shape, device="sim", requires_grad=True) for shape in ((1, channels, 6, 7), (8, channels, 3, 2)))
    with clean():
        mg.conv2d.using(rung)(x, w, padding=1, **how).sum().backward()


@pytest.mark.parametrize("rung", ["im2col", "implicit"])
def test_no_way_of_convolution_has_a_problem(rung):
    with clean():
        for case in mg.conv2d.cases:
            inputs = [mg.tensor(x, requires_grad=True, device="sim") for x in case.arrays("float32")]
            mg.conv2d.using(rung)(*inputs, **case.params).sum().backward()


@pytest.mark.parametrize("padding", [1, ((0, 2), (3, 1))])
def test_the_transforms_of_winograd_have_no_problem(padding):
    inputs = [mg.randn(*shape, device="sim", requires_grad=True) for shape in ((2, 4, 6, 9), (6, 2, 3, 3), (6,))]
    with clean():
        mg.conv2d.using("winograd")(*inputs, padding=padding, groups=2).sum().backward()


def test_the_optimizers_have_no_problem():
    with clean():
        p, g, v = (mg.randn(1025, device="sim") for _ in range(3))
        mg.optim.SGD_STEP.launch(1025)(p, g, v, 0.1, 0.9, 1025)
        for make in (mg.optim.SGD, mg.optim.Adam):
            for n in (1, 31, 1025, 9):  # and n % 10 parameters: 8 fit into a launch
                xs = [mg.randn(n, device="sim", requires_grad=True) for _ in range(n % 10)]
                optimizer = make(xs, lr=0.1)
                for x in xs:
                    (x * x).sum().backward()
                optimizer.step()


def test_the_loss_of_a_readers_own_softmax_has_no_problem():
    own = mg.softmax.with_kernel("forward", mg.softmax["forward"])
    logits = mg.randn(33, 5, device="sim", requires_grad=True)
    labels = mg.tensor(np.arange(33) % 5, device="sim")
    with clean() as report, mg.using(own):
        mg.cross_entropy(logits, labels).backward()
    names = {record.kernel for record in report.launches}
    assert {"cross_entropy_of_softmax", "cross_entropy_of_softmax_backward"} <= names


@pytest.mark.sample(2)
@pytest.mark.parametrize("rung", RUNGS)
def test_no_kernel_of_the_ladder_has_a_problem(rung):
    kernel, arguments, grid, block = RUNGS[rung]
    record = mg.inspect(kernel, *arguments, grid=grid, block=block, blocks=0)
    RAN.add(record.kernel)
    assert record.problems == []


def test_the_kernels_of_benchmarks_have_no_problem():
    draw, host = Draw(SIM), np.arange(1000, dtype=np.float32)
    with clean():
        draw.real(1000)
        draw.whole(1000, -3, 7)
        assert Reference(SIM, host).error(Array.upload(SIM, host)) == 0
        x, sums, last = mg.ones(256, device="sim"), mg.zeros(32, device="sim"), mg.zeros(1, device="sim", dtype="int32")
        following = mg.tensor(places(256), device="sim", dtype="int32")
        arrived = mg.zeros(1, device="sim", dtype="uint32")
        for file, name, grid, block, *args in (
            ("levels", "stream", 2, 16, x, sums, 64, 4), ("levels", "stream_shared", 2, 16, sums, 4),
            ("levels", "chase", 1, 1, following, last, 9), ("levels", "chase_shared", 1, 1, last, 9),
            ("barriers", "meet_in_blocks", 2, 40, 3), ("barriers", "meet_in_the_grid", 2, 40, arrived, 3),
        ):  # fmt: skip
            Kernel(f"bench/{file}.cu", name, cooperative=file == "barriers")(*args, grid=grid, block=block)
        assert arrived.item() == 2 * 3


@pytest.mark.sample(3)
@pytest.mark.parametrize("rung", ["mma_3xtf32", "mma_tf32", "mma_bf16"])
def test_the_rungs_on_tensor_cores_have_no_problem(rung):
    """And the conversions between the dtypes of arrays, which the smallest of them take."""
    dtype = "bfloat16" if rung == "mma_bf16" else "float32"
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    with clean():
        for op, shapes in ((mg.conv2d, ((1, 6, 5, 4), (8, 6, 3, 3))), (mg.matmul, ((17, 24), (24, 40)))):
            a, b = (mg.ones(*shape, device="sim").astype(dtype) for shape in shapes)
            a.requires_grad = b.requires_grad = True
            op.using(rung)(a, b).astype("float64").astype("float32").sum().backward()


def test_the_kernels_around_wgmma_have_no_problem():
    """They turn the windows of a convolution, and split floats into TF32 and a rest."""
    w = mg.randn(4, 8, 3, 2, device="sim").to(layout="NHWC")
    turned, rest = mg.zeros(8, 4, 3, 2, device="sim").to(layout="NHWC"), mg.zeros(w.size, device="sim")
    with clean():
        mg.conv2d["turn"].launch(w.size)(w, turned, Window.over((8, 9, 9), (3, 2), (1, 1), ((0, 0), (0, 0))), 4, w.size)
        mg.conv2d["rest"].launch(w.size)(w.reshape(-1), rest, w.size)
    host = w.numpy()
    np.testing.assert_array_equal(turned.numpy(), host[:, :, ::-1, ::-1].swapaxes(0, 1))
    np.testing.assert_array_equal(rest.numpy(), (host - rounded(host, "tf32")).reshape(-1))


def test_adding_up_the_parts_of_a_convolution_has_no_problem():
    parts, bias, residual = (mg.randn(*shape, device="sim") for shape in ((3, 5, 8), (8,), (5, 8)))
    y = mg.zeros(5, 8, device="sim")
    with clean():
        mg.conv2d["finish"].launch(40)(parts, bias, residual, y, 8, 3, True, 40)
    expected = np.maximum(sum(parts.numpy()) + bias.numpy() + residual.numpy(), 0)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("cell", "rung"),
    [
        pytest.param(cell, rung, marks=[pytest.mark.soak] * ((i + j) % 3 > 0))
        for i, cell in enumerate((mg.nn.RNN, mg.nn.LSTM, mg.nn.GRU))
        for j, rung in enumerate(recurrent.cuda.RUNGS)
    ],
)
def test_recurrent_networks_have_no_problem(cell, rung):
    for precision in ("float32", "tf32"):
        with clean(), mg.precision(precision):
            recurrent.CUDA(cell(3, 20, 2, device="sim"), rung)(mg.randn(3, 3, 3, device="sim"), lengths=[1, 3, 2])


HYDRODYNAMICS = (
    "stress_force", "hourglass_force", "node_motion", "kinematics", "viscosity_gradient", "viscosity", "material",
    "time_constraint",
)  # fmt: skip
LONGER = ("hourglass_force", "kinematics", "viscosity_gradient")  # for a compiler


def applications():
    """The kernels of the Enzyme paper: their files, names, arguments, grids and blocks."""
    rng = np.random.default_rng(5)
    yield "xsbench", "lookup", inputs.lookup(rng, 40, 6, 9, 4, 1), 2, 32
    yield "rsbench", "lookup", inputs.multipole(rng, 40, 3, 4, 3, 3, 1), 2, 32
    yield "lbm", "stream_collide", inputs.lattice(rng, 24), 1, 32
    yield "dg", "volume_term", inputs.elements(rng, 2), 2, (5, 5)
    for name in HYDRODYNAMICS:
        yield "lulesh", name, inputs.hydrodynamics(rng, 2, name), 1, 128


def application(file, name):
    return mg.kernel(CUDA / f"adjoint/paper/{file}.cu", name, {"NX": 4, "NY": 3, "NZ": 2} if file == "lbm" else {})


def test_the_applications_of_the_paper_have_no_problem():
    for file, name, args, grid, block in applications():
        with clean():
            on_sim = (mg.tensor(x, device="sim") if np.ndim(x) else x for x in args)
            application(file, name)(*on_sim, grid=grid, block=block)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "work",
    [pytest.param(w, id=f"{w[0]} {w[1]}", marks=[pytest.mark.soak] * (w[1] in LONGER)) for w in applications()],
)
def test_the_adjoints_of_the_applications_have_no_problem(work):
    file, name, args, grid, block = work
    made = mg.adjoint(application(file, name))
    names = [p.name for p in made.file.kernel.own]
    dy = [np.ones_like(args[names.index(output)]) for output in made.outputs]
    assert not [r.problems for r in made.inspect(*args, dy=dy, grid=grid, block=block) if r.problems]


def runs_here(file: Source) -> bool:
    """True if the file compiles for the simulator: PTX, as of wgmma, runs only on a GPU."""
    try:
        SIM.build(file, {"real": "float"}, "")
    except CompileError as error:
        if "inline PTX" in str(error):
            return False
        raise
    return True


def test_the_conversions_of_halves_have_no_problem():
    with clean():
        mg.tensor(np.ones(1025, np.float16), device="sim").astype("float32").astype("float16")


@pytest.mark.soak
def test_every_kernel_was_looked_at():
    """Runs after all other tests of this file: of a file with kernels that none of them launched, PTX is the reason."""
    files = [Source.read(path.relative_to(CUDA).as_posix()) for path in CUDA.rglob("*.cu")]
    missed = {file.name: missing for file in files if (missing := file.kernels.keys() - RAN) and runs_here(file)}
    assert RAN and not missed


BARRIERS = [
    pytest.param(op, at.start(), marks=[pytest.mark.soak] * (number % 3 > 0))
    for op in ("transpose", "matmul", "sum")
    for number, at in enumerate(re.finditer(r"__syncthreads\(\);", (CUDA / f"{op}.cu").read_text()))
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name, at", BARRIERS)
def test_every_barrier_is_missed(name, at):
    """A kernel without one of its barriers has a race, whatever the order of its threads."""
    op = mg.OPS[name]
    text = (CUDA / f"{name}.cu").read_text()
    without = Source(text[:at] + text[at:].replace("__syncthreads();", "", 1), f"cuda/{name}.cu")
    same = {key: kernel for key, kernel in op.kernels.items() if kernel.source.text == text}
    op = op.with_kernels(op.kernels | {key: changed(kernel, without) for key, kernel in same.items()})
    with watching() as report:
        for case in op.cases:
            for chosen in (op, *map(op.using, check.variants(op))):
                run(chosen, case)
            if report.problems:
                break
    assert {problem.kind for problem in report.problems} == {"race"}


def changed(kernel: Kernel, source: Source) -> Kernel:
    """The kernel with another text."""
    made = Kernel(source, kernel.name, sizes=" ".join(kernel.sizes), **kernel.tunables)
    made.grid, made.block, made.sizes, made.defines = kernel.grid, kernel.block, kernel.sizes, kernel.defines
    return made
