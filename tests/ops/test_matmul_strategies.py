"""The strategy of each product: which one, by which kernel, and that its launches are those that run."""

from types import SimpleNamespace

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.array import Array, spec_of
from minigrad.devices.dry_run import DryRun
from minigrad.ops.matmul.packing import TALLEST
from minigrad.ops.matmul.shapes import products
from minigrad.ops.matmul.strategies import STRATEGIES, choose, split_chunks, vector_chunks

ROWS, COLUMNS, PAIRS = "vector_rows", "vector_columns", "multiply_vectorized"
LONG = 65535 * 128 + 1  # rows: one more than a grid takes in tiles of 128
# Shapes of a and b -> for c, da and db the strategy, its kernel and the number of chunks where there are several.
CHOICES = {
    # products with a vector
    ((512, 4096), (4096, 1)): f"rows_sum {ROWS}, outer {PAIRS}, columns_sum {COLUMNS}",
    ((512, 4096), (4096,)): f"rows_sum {ROWS}, outer {PAIRS}, columns_sum {COLUMNS}",
    ((512,), (512, 4096)): f"columns_sum {COLUMNS}, rows_sum {ROWS}, outer {PAIRS}",
    ((1, 4096), (4096, 1)): f"rows_sum {ROWS}, outer {PAIRS}, outer {PAIRS}",
    ((70, 1), (1, 90)): f"outer {PAIRS}, rows_sum {ROWS}, columns_sum {COLUMNS}",
    ((1024, 1), (1, 1024)): f"packed packed, rows_sum {ROWS}, columns_sum {COLUMNS}",
    ((2**20,), (2**20,)): f"rows_sum {ROWS} 128, outer {PAIRS}, outer {PAIRS}",
    ((1, 65536), (65536, 64)): f"columns_sum {COLUMNS} 132, rows_sum {ROWS}, outer {PAIRS}",
    ((2, 5, 7), (2, 7, 1)): f"rows_sum {ROWS}, tiles split_k_backward_a, columns_sum {COLUMNS}",
    ((0, 3), (3, 4)): f"columns_sum {COLUMNS}, rows_sum {ROWS}, tiles split_k_backward_b",
    # batches; a single matrix b takes the rows of the whole batch
    ((2, 3, 4), (4, 5)): "tiles split_k, tiles split_k_backward_a, tiles split_k_backward_b",
    ((8, 512, 512), (8, 512, 512)): "tiles warp_tiled, tiles warp_tiled_backward_a, tiles warp_tiled_backward_b",
    ((8, 512, 512), (512, 512)): "tiles warp_tiled, tiles warp_tiled_backward_a, tiles split_k_backward_b",
    # long sums
    ((64, 16384), (16384, 64)): "split_sum split_k_parts 16, tiles warp_tiled_backward_a, packed packed",
    ((16384, 64), (64, 64)): "tiles warp_tiled, tiles warp_tiled_backward_a, split_sum split_k_parts_backward_b 16",
    ((64, 64), (64, 16384)): "packed packed, split_sum split_k_parts_backward_a 16, packed packed",
    ((64, 4095), (4095, 64)): "tiles split_k, tiles split_k_backward_a, tiles split_k_backward_b",
    # large, odd and usual
    ((4096, 4096), (4096, 4096)): "packed packed, packed packed, packed packed",
    ((2049, 2047), (2047, 2045)): "packed packed, packed packed, packed packed",
    ((2, 4096), (4096, 2)): "split_sum split_k_parts 4, tiles split_k_backward_a, tiles split_k_backward_b",
    ((512, 784), (784, 256)): "tiles split_k, tiles warp_tiled_backward_a, tiles split_k_backward_b",
    # longer than a grid
    ((LONG, 2), (2, 3)): "slabs warp_tiled, slabs warp_tiled_backward_a, split_sum split_k_parts_backward_b 132",
    ((2, LONG), (LONG, 3)): "split_sum split_k_parts 132, tiles split_k_backward_a, transposed warp_tiled_backward_b",
}
TF32 = {
    ((4096, 4096), (4096, 4096)): "turned wgmma_tf32, turned wgmma_tf32, turned wgmma_tf32",
    ((2048, 2048), (2048, 2048)): "turned wgmma_tf32, turned wgmma_tf32, tiles mma_tf32_backward_b",
    ((16384, 384), (384, 1536)): "turned wgmma_tf32, turned wgmma_tf32, sum_in_parts mma_tf32_backward_b 16",
    ((4096, 4094), (4094, 4096)): "tiles mma_tf32, turned wgmma_tf32, turned wgmma_tf32",
}
TENSOR_CORES = {
    ((5, 16), (16, 24)): "wgmma",
    ((4096, 4096), (4096, 4096)): "wgmma",
    ((3, 5, 16), (3, 16, 24)): "wgmma",
    ((5, 24), (24, 15)): "mma_bf16",
}
WAYS = ("forward", "backward_a", "backward_b")


def chosen(op, a, b, dtype="float32"):
    """The strategies of c, da and db, and a word for each with its kernel and chunks."""
    found = [op.strategy(a, b, dtype, way) for way in WAYS]
    chunks = [f" {s.chunks}" if s.chunks > 1 else "" for s in found]
    return found, [f"{s.name} {s.kernel.name.removeprefix('matmul_')}{n}" for s, n in zip(found, chunks, strict=True)]


def launched(op, a, b, dtype="float32"):
    """The kernels of a product and of its gradients, by a dry run."""
    device, kind = DryRun(), np.dtype(dtype)
    y, pull = op.pullback([Array.empty(device, shape, kind) for shape in (a, b)], {})
    pull(Array.empty(device, y.shape, kind))
    return [launch.kernel for launch in device.launches]


@pytest.mark.parametrize("shapes", CHOICES, ids=str)
def test_the_strategy_of_each_shape(shapes):
    strategies, words = chosen(mg.matmul, *shapes)
    assert ", ".join(words) == CHOICES[shapes]
    ran = iter(launched(mg.matmul, *shapes))
    if 0 not in shapes[0]:  # kernels of nothing are not launched
        assert all(strategy.kernel.name in ran for strategy in strategies), "in this order, with others between them"


def test_every_strategy_is_among_these_shapes():
    lines = [*CHOICES.values(), *TF32.values()]
    assert {words.split()[0] for line in lines for words in line.split(", ")} == set(STRATEGIES)


@pytest.mark.parametrize("shapes", TF32, ids=str)
def test_the_strategy_where_factors_may_be_rounded(shapes):
    with mg.precision("tf32"):
        assert ", ".join(chosen(mg.matmul, *shapes)[1]) == TF32[shapes]


def test_float64_has_the_kernels_for_vectors_and_the_plain_ones():
    def words(*shapes):
        return ", ".join(chosen(mg.matmul, *shapes, "float64")[1])

    for shapes in list(CHOICES)[:5]:
        assert words(*shapes) == CHOICES[shapes]
    assert words((2, 5, 7), (2, 7, 1)) == f"rows_sum {ROWS}, tiles backward_a, columns_sum {COLUMNS}"
    for shapes in (((64, 16384), (16384, 64)), ((4096, 4096), (4096, 4096))):
        assert words(*shapes) == "tiles tiled, tiles backward_a, tiles backward_b"


@pytest.mark.parametrize("shapes", TENSOR_CORES, ids=str)
def test_bfloat16_takes_tensor_cores_and_so_do_its_gradients(shapes):
    """wgmma is for rows that the copy engine takes; `using` asks for the kernel of both passes."""
    bfloat16, name = pytest.importorskip("ml_dtypes").bfloat16, TENSOR_CORES[shapes]

    def ladder(name):
        return [f"tiles {name}{end}" for end in ("", "_backward_a", "_backward_b")]

    for op, kernel in ((mg.matmul, name), (mg.matmul.using("wgmma"), name), (mg.matmul.using("mma_bf16"), "mma_bf16")):
        assert chosen(op, *shapes, bfloat16)[1] == ladder(kernel)
    assert chosen(mg.matmul.using("mma_tf32"), *shapes)[1] == ladder("mma_tf32")


def test_bfloat16_has_the_kernels_for_vectors_too():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    for shapes in (((4096, 4096), (4096,)), ((4096,), (4096, 4096)), ((2**20,), (2**20,)), ((16,), (16, 24))):
        assert chosen(mg.matmul, *shapes, bfloat16)[1][0] == chosen(mg.matmul, *shapes)[1][0]


def test_using_chooses_the_kernel():
    plain = ["tiles tiled", "tiles backward_a", "tiles backward_b"]
    for shapes in (((4096, 4096), (4096, 1)), ((1, 4096), (4096, 4096))):
        assert chosen(mg.matmul.using("tiled"), *shapes)[1] == plain
    assert chosen(mg.matmul.using("vector_rows"), (2, 3), (3, 4))[1] == plain


def test_operands_say_their_shape_dtype_and_device():
    a, b = mg.ones(64, 16384, device="sim"), mg.ones(16384, 64, device="sim")
    found = mg.matmul.strategy(a, b)
    assert repr(found) == (
        "64 x 16384 @ 16384 x 64: `split_sum`, a long sum of a small result in 16 chunks, by matmul_split_k_parts"
    )
    assert found == mg.matmul.strategy(a.shape, b.shape)
    assert repr(mg.matmul.strategy((3, 5, 7), (3, 7, 2))).startswith("3 times 5 x 7 @ 7 x 2: `tiles`")
    host = mg.ones(4, 4, device="numpy").astype("float64")
    assert mg.matmul.strategy(host, host).kernel is mg.matmul["tiled"]
    with pytest.raises(ValueError, match="inner extents 7 and 5 differ"):
        mg.matmul.strategy((5, 7), (5, 7))
    with pytest.raises(ValueError, match="way='back' is not one of forward, backward_a, backward_b"):
        mg.matmul.strategy((5, 7), (7, 5), way="back")


def test_what_does_not_fit_into_a_grid_or_an_array():
    matrix, asked = np.dtype(np.float32), mg.matmul.using("packed")
    assert asked.strategy((TALLEST, 5), (5, 301)).name == "packed"
    assert asked.strategy((TALLEST + 1, 5), (5, 301)).name != "packed"
    shapes = (2**15, 64), (64, 2**15 + 16)  # two partial results are too large for an array
    assert mg.matmul.using("split_k_parts").strategy(*shapes).kernel.name == "matmul_split_k"
    specs = [spec_of(DryRun(), shape, matrix) for shape in ((2, LONG, 3), (2, 3, 4))]
    with pytest.raises(ValueError, match=f"a batch of 2 products with {LONG} rows each; a launch takes 8388480 rows"):
        choose(mg.matmul.running, "forward", products(*(s.shape for s in specs)), *specs)


@pytest.mark.parametrize(
    ("sizes", "chunks"),
    [
        ((64, 64, 16384), 16),  # 8 tiles of 16 x 32
        ((64, 64, 4096), 4),
        ((64, 64, 4095), 1),  # as fast by one launch
        ((16, 4096, 4096), 1),  # 128 tiles are a block for nearly each multiprocessor
        ((512, 256, 784), 1),
        ((1, 1, 2**20), 132),
        ((2048, 2048, 8192), 1),
    ],
)
def test_the_blocks_that_share_a_tile(sizes, chunks):
    assert split_chunks(*sizes, 132) == chunks


@pytest.mark.parametrize(
    ("blocks", "elements", "chunks"),
    [
        (4096, 4096, 1),
        (1, 2**20, 128),
        (1, 2**24, 264),
        (1, 24576, 1),
        (2, 2**19, 64),
        (128, 2**17, 1),
        (0, 2**20, 128),
    ],
)
def test_the_blocks_that_share_a_sum_with_a_vector(blocks, elements, chunks):
    assert vector_chunks(blocks, elements, 132) == chunks


def test_the_chip_decides_too():
    small = DryRun(SimpleNamespace(arch="sm_86", processors=20))
    specs = [spec_of(small, (512, 512), np.dtype(np.float32)) for _ in range(2)]
    shapes = products((512, 512), (512, 512))
    assert choose(mg.matmul.running, "forward", shapes, *specs).kernel.name == "matmul_warp_tiled"
    assert mg.matmul.strategy((512, 512), (512, 512)).kernel.name == "matmul_split_k"
