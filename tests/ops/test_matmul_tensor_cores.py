"""Products on tensor cores: right on a GPU that has them and on the simulator, where else they are rejected."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import minigrad as mg
from minigrad import rounding
from minigrad.devices import dry_run as dry
from minigrad.devices import get
from minigrad.devices.array import Array, spec_of
from minigrad.devices.cuda import compiler as nvcc
from minigrad.devices.cuda.toolkit import find_nvcc
from minigrad.devices.dry_run import DryRun
from minigrad.errors import CompileError, LaunchError
from minigrad.lab.bench.workloads import suite
from minigrad.ops.matmul.kernels import TENSOR_CORES
from minigrad.ops.matmul.shapes import products
from minigrad.ops.matmul.strategies import choose

SIZES = [
    (1, 1, 1),
    (3, 5, 7),
    (64, 128, 32),
    (70, 136, 40),
    (65, 129, 33),
    (130, 260, 100),
    (300, 700, 1025),
    (16, 8, 0),
]
GRADIENTS = [
    *(("sim", kernel, sizes) for kernel in ("mma_tf32", "mma_bf16") for sizes in (*SIZES[1:6], (136, 264, 72))),
    *(
        pytest.param("cuda", kernel, sizes, marks=pytest.mark.gpu)
        for kernel in ("mma_tf32", "mma_bf16", "wgmma")
        for sizes in (*SIZES[:-1], (8, 16, 24), (128, 256, 64), (264, 520, 1032), (512, 384, 320))
    ),
]


def tf32(x):
    """Rounded to the 10 bits after the point of TF32."""
    return ((x.view(np.int32) + 0x1000) & ~0x1FFF).view(np.float32)


def numbers(dtype, *shape):
    """Random numbers without ties between two TF32 neighbors, whose rounding depends on the GPU."""
    drawn = np.random.default_rng(0).standard_normal(shape, np.float32)
    drawn.view(np.int32)[drawn.view(np.int32) & 0x1FFF == 0x1000] += 1
    return drawn.astype(dtype)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_tf32_rounds_the_factors_and_nothing_else(m, n, k, kernel_device):
    a, b = numbers(np.float32, m, k), numbers(np.float32, k, n)
    c = mg.matmul.using("mma_tf32")(mg.tensor(a, device=kernel_device), mg.tensor(b, device=kernel_device))
    exact = tf32(a).astype(np.float64) @ tf32(b).astype(np.float64)
    np.testing.assert_allclose(c.numpy(), exact, rtol=1e-5, atol=1e-5 * max(k, 1) ** 0.5)


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_bfloat16_is_summed_in_float32(m, n, k, kernel_device):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    a, b = numbers(bfloat16, m, k), numbers(bfloat16, k, n)
    c = mg.tensor(a, device=kernel_device) @ mg.tensor(b, device=kernel_device)
    assert c.dtype == bfloat16
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c.numpy().astype(np.float64), exact, rtol=2**-8, atol=1e-5 * max(k, 1) ** 0.5)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["mma_bf16", "wgmma"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [*SIZES, (1, 8, 8), (128, 256, 64), (129, 264, 72), (384, 512, 320), (2000, 1032, 520)]
)
def test_bfloat16_by_each_kernel(kernel, m, n, k):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    a, b = numbers(bfloat16, m, k), numbers(bfloat16, k, n)
    c = mg.matmul.using(kernel)(mg.tensor(a, device="cuda"), mg.tensor(b, device="cuda"))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c.numpy().astype(np.float64), exact, rtol=2**-8, atol=1e-5 * max(k, 1) ** 0.5)


@pytest.mark.sample(5)
@pytest.mark.parametrize(("device", "kernel", "sizes"), GRADIENTS)
def test_gradients_go_through_the_same_tensor_cores(device, kernel, sizes):
    m, n, k = sizes
    bfloat16 = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    dtype = np.dtype(np.float32) if "tf32" in kernel else bfloat16
    a, b, dy = (numbers(dtype, *shape) for shape in ((m, k), (k, n), (m, n)))
    op, given = mg.matmul.using(kernel), [mg.tensor(x, True, device) for x in (a, b)]
    op(*given).backward(mg.tensor(dy, device=device))
    factors = [tf32(x) if dtype == np.float32 else x for x in (a, b, dy)]
    a, b, dy = (x.astype(np.float64) for x in factors)
    rtol, atol = (1e-5, 1e-5) if dtype == np.float32 else (2**-8, 1e-5)
    for x, exact, length in ((given[0], dy @ b.T, n), (given[1], a.T @ dy, m)):
        assert x.grad.dtype == dtype
        np.testing.assert_allclose(x.grad.numpy().astype(np.float64), exact, rtol=rtol, atol=atol * length**0.5)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["mma_tf32", "mma_bf16", "wgmma"])
@pytest.mark.parametrize("shapes", [((3, 20, 24), (3, 24, 40)), ((3, 1, 20, 24), (2, 24, 40)), ((3, 20, 24), (24, 40))])
def test_a_batch_goes_through_tensor_cores(kernel, shapes):
    dtype = np.float32 if "tf32" in kernel else pytest.importorskip("ml_dtypes").bfloat16
    a, b = (numbers(dtype, *shape) for shape in shapes)
    c = mg.matmul.using(kernel)(mg.tensor(a, device="cuda"), mg.tensor(b, device="cuda"))
    np.testing.assert_allclose(c.numpy().astype(float), a.astype(float) @ b.astype(float), rtol=0.02, atol=0.05)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("m", "n", "k"), [(3, 5, 7), (65, 129, 33), (70, 136, 1025), (136, 264, 72)])
def test_3xtf32_has_the_error_of_float32(m, n, k, kernel_device):
    """Of products and their gradients, as a part of the largest; a factor in TF32 alone would make it 3e-4."""
    a, b, dy = (numbers(np.float32, *shape) for shape in ((m, k), (k, n), (m, n)))
    given = [mg.tensor(x, True, kernel_device) for x in (a, b)]
    c = mg.matmul.using("mma_3xtf32")(*given)
    c.backward(mg.tensor(dy, device=kernel_device))
    a, b, dy = (x.astype(np.float64) for x in (a, b, dy))
    for got, exact in ((c, a @ b), (given[0].grad, dy @ b.T), (given[1].grad, a.T @ dy)):
        assert np.abs(got.numpy() - exact).max() <= 2e-6 * np.abs(exact).max()


def test_3xtf32_makes_nan_of_what_is_infinite(kernel_device):
    """inf - inf is the part of it that TF32 leaves out. float32 and TF32 give inf."""
    a, b = np.ones((4, 8), np.float32), np.ones((8, 4), np.float32)
    a[1, 2], a[2, 3] = np.inf, np.nan
    x, y = (mg.tensor(v, device=kernel_device) for v in (a, b))
    wanted = np.repeat([8, np.inf, np.nan, 8], 4).reshape(4, 4)
    for rung in ("tiled", "mma_tf32"):
        np.testing.assert_array_equal(mg.matmul.using(rung)(x, y).numpy(), wanted)
    wanted[1] = np.nan
    np.testing.assert_array_equal(mg.matmul.using("mma_3xtf32")(x, y).numpy(), wanted)


@pytest.mark.gpu
def test_wgmma_is_repeated_and_replayed_on_other_arrays():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    replay = mg.graph(lambda a, b: a @ b)
    for i in range(4):
        a, b = (np.full((64, 64), value, bfloat16) for value in (i, 2))
        x, y = (mg.tensor(array, device="cuda") for array in (a, b))
        for multiply in (mg.matmul.using("wgmma"), mg.matmul, replay):
            np.testing.assert_array_equal(multiply(x, y).numpy().astype(float), i * 2 * 64)


@pytest.mark.parametrize("name", TENSOR_CORES)
def test_their_shared_memory_is_more_than_some_gpus_have(name):
    kernel = mg.matmul[name]
    assert 48 * 1024 < kernel.shared <= 227 * 1024
    text = "".join(path.read_text() for path in kernel.source.included)
    warps, found = kernel.launch(256, 256, 256).block[0] // 32, re.search(r"SHARED = (\d+)( \* WARPS)?[;,]", text)
    assert int(found[1]) * (warps if found[2] else 1) == kernel.shared, "the kernel and its launch say the same"


@pytest.mark.parametrize("rung", ["mma_tf32", "mma_bf16"])
@pytest.mark.parametrize("case", mg.matmul.cases, ids=str)
def test_every_case_and_its_gradients_on_the_simulator(rung, case):
    dtype = np.dtype(np.float32 if "tf32" in rung else pytest.importorskip("ml_dtypes").bfloat16)
    hosts = [x.astype(dtype) for x in case.arrays("float32")]
    given = [mg.tensor(x, True, "sim") for x in hosts]
    exact = [mg.tensor(rounding.rounded(x, "tf32").astype(float), True, "numpy") for x in hosts]
    pairs = [(mg.matmul.using(rung)(*given), mg.matmul(*exact))]
    s, dy = products(*(x.shape for x in hosts)), numbers(dtype, *pairs[0][1].shape)
    if "tf32" in rung or (s.da, s.db) == tuple(x.shape for x in hosts):  # bfloat16 has no sum over what was broadcast
        pairs[0][0].backward(mg.tensor(dy, device="sim"))
        pairs[0][1].backward(mg.tensor(rounding.rounded(dy, "tf32").astype(float), device="numpy"))
        pairs += [(x.grad, z.grad) for x, z in zip(given, exact, strict=True)]
    rtol, atol = (1e-6, 5e-6) if "tf32" in rung else (2**-8, 5e-6)
    for got, true in pairs:
        assert got.dtype == dtype and got.shape == true.shape
        np.testing.assert_allclose(got.numpy().astype(float), true.numpy(), rtol=rtol, atol=atol)


def test_the_simulator_rejects_wgmma_in_a_sentence():
    a = mg.tensor(np.ones((8, 8), pytest.importorskip("ml_dtypes").bfloat16), device="sim")
    with pytest.raises(CompileError, match=r"cuda/matmul/hopper.cuh.* runs only on a GPU; the simulator cannot run it"):
        mg.matmul.using("wgmma")(a, a)


def test_the_simulator_rounds_only_where_it_is_asked_to():
    specs = [spec_of(get("sim"), (2048, 2048), np.dtype(np.float32)) for _ in range(2)]
    for precision in ("float32", "tf32"):
        found = choose(mg.matmul.running, "forward", products((2048, 2048), (2048, 2048)), *specs, precision)
        assert "mma" not in found.kernel.name


def test_a_product_in_bfloat16_between_float32(device):
    """Mixed precision: weights and losses in float32, products in bfloat16."""
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    hosts = [numbers(np.float32, *shape) for shape in ((16, 24), (24, 8))]
    a, b = (mg.tensor(host, True, device) for host in hosts)
    y = (a.astype(bfloat16) @ b.astype(bfloat16)).astype("float32")
    (y * y).sum().backward()
    x, w = (host.astype(bfloat16).astype(np.float64) for host in hosts)
    assert a.grad.dtype == b.grad.dtype == np.float32
    np.testing.assert_allclose(a.grad.numpy(), 2 * (x @ w) @ w.T, rtol=0.02, atol=0.5)
    np.testing.assert_allclose(b.grad.numpy(), x.T @ (2 * (x @ w)), rtol=0.02, atol=0.5)


def test_wgmma_has_a_block_for_each_multiprocessor_of_its_gpu():
    bfloat16 = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    for processors in (114, 132):  # of an H100 as a PCIe card, and of others
        device = DryRun()
        device.processors = processors
        mg.matmul.run([Array.empty(device, (1024, 1024), bfloat16) for _ in range(2)], {})
        assert [launch.grid for launch in device.launches] == [(processors, 1, 1)]


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_120a"])
def test_gpus_without_the_shared_memory_reject_them_before_compilation(arch):
    device = DryRun(SimpleNamespace(arch=arch, processors=80))
    arrays = [Array.empty(device, (16, 16), np.dtype(np.float32)) for _ in range(2)]
    with pytest.raises(LaunchError, match=rf"221184 bytes of shared memory, which GPUs of {arch} do not.*float32"):
        mg.matmul.using("mma_tf32").run(arrays, {})
    mg.matmul.run(arrays, {})
    bfloat16 = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    with pytest.raises(LaunchError, match=r"astype\('float32'\)"):
        mg.matmul.run([Array.empty(device, (16, 16), bfloat16) for _ in range(2)], {})


def test_benchmarks_leave_out_kernels_without_room(monkeypatch):
    pytest.importorskip("ml_dtypes")
    assert {"mma_tf32", "mma_bf16", "wgmma"} <= {work.variant for work in suite("matmul")}
    monkeypatch.setattr(dry, "why_not", lambda name: "")
    monkeypatch.setattr(dry, "get", lambda name: SimpleNamespace(arch="sm_86", processors=82))
    found = {work.variant for work in suite("matmul")}
    assert "naive" in found and not {"mma_tf32", "mma_bf16", "wgmma"} & found


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc on this machine")
@pytest.mark.parametrize(
    ("rung", "arch", "text"),
    [
        ("wgmma", "sm_80", "Hopper GPUs .sm_90a. alone.*mma_bf16.*is sm_80"),
        ("mma_bf16", "sm_86", "GPUs before sm_90.*is sm_86"),
        ("mma_tf32", "sm_75", "GPUs before sm_90.*is sm_75"),
    ],
)
def test_other_gpus_reject_them_in_a_sentence(rung, arch, text):
    with pytest.raises(CompileError, match=text):
        nvcc.cubin(mg.matmul[rung].source, {"real": "float"}, arch)


def test_other_dtypes_are_rejected():
    a = mg.ones(4, 4, device="sim")
    with pytest.raises(TypeError, match=r"takes bfloat16; got float32\. Use \.astype\('bfloat16'\)"):
        mg.matmul.using("mma_bf16")(a, a)
    with pytest.raises(TypeError, match="float32"):
        mg.matmul.using("mma_tf32")(a.astype("float64"), a.astype("float64"))


def test_bfloat16_is_multiplied_by_bfloat16_alone():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    a = mg.tensor(numbers(bfloat16, 3, 4), device="numpy")
    b = mg.tensor(numbers(bfloat16, 4, 2), device="numpy")
    exact = a.numpy().astype(np.float64) @ b.numpy().astype(np.float64)
    np.testing.assert_allclose((a @ b).numpy().astype(np.float64), exact, rtol=2**-8, atol=1e-6)
    with pytest.raises(TypeError, match=r"matmul: one input is bfloat16, another float32; .*\.astype\('bfloat16'\)"):
        a @ mg.ones(4, 2, device="numpy")
