"""The ladder of matrix multiplication in pictures: counted in the kernels, timed in a record."""

import dataclasses
import re

import numpy as np
import pytest
from bench_examples import H200
from show_pictures import fits

import minigrad as mg
from minigrad.display import WIDTH, block
from minigrad.lab.bench import Measurement, Record, Timing
from minigrad.lab.show.matmul_ladder import by_wgmma, corner, counted, ladder, rung, rung_slider, rungs, settings
from minigrad.source import Source


def counts(name):
    return counted(name, **settings(name, 4096))


def test_every_rung_is_counted_but_those_of_wgmma():
    pytest.importorskip("ml_dtypes")
    assert rungs()[:3] == ["naive", "coalesced", "tiled"] and "backward_a" not in rungs()
    assert {name for name in rungs() if counts(name) is None} == {"wgmma", "wgmma_tf32"}


@pytest.mark.parametrize(
    ("name", "elements", "loads", "shared"),
    [
        ("naive", 1, 2, 0),
        ("tiled", 1, 2 / 16, 2),
        ("register_tile_1d", 8, 2 / 32, 9 / 8),
        ("register_tile_2d", 64, 2 / 128, 16 / 64),
        ("vectorized", 64, 2 / 128 / 4, 16 / 64 / 4),
        ("warp_tiled", 128, (1 + 1 / 4) / 128, (16 + 8) / 128 / 4),
        ("mma_tf32", 128, (1 / 256 + 1 / 128) / 4, (64 / 4 + 64 / 2) / 64 / 64),
        ("mma_3xtf32", 64, (1 / 128 + 1 / 128) / 4, (64 / 4 + 32 / 2) / 64 / 32),
        ("mma_bf16", 128, (1 / 256 + 1 / 128) / 8, (64 / 8 + 64 / 8) / 64 / 64),
    ],
)
def test_loads_for_a_multiplication_are_those_that_follow_from_the_tiles(name, elements, loads, shared):
    if name == "mma_bf16":
        pytest.importorskip("ml_dtypes")
    seen = counts(name)
    assert seen.elements == elements
    assert seen.global_loads == loads and seen.shared_loads == shared


def test_a_tile_of_e_by_e_gives_a_quarter_of_e_flops_for_a_byte():
    for name in ("tiled", "register_tile_1d", "register_tile_2d", "vectorized", "warp_tiled"):
        assert counts(name).intensity == counts(name).tile[0] / 4


def test_owners_are_the_threads_that_write():
    owners = counted("tiled", TILE=16).owners
    assert (owners > 0).sum() == 256 and owners[0, 0] == 3 and (owners[:2, :16] >= 2).all() and owners[2, 0] == 1
    eight = np.argwhere(counts("register_tile_1d").owners == 3)
    assert eight.tolist() == [[row, 0] for row in range(8)]


def record(n, **speeds):
    """A record with a rung for each name, at these TFLOP/s."""
    made = Record("Some GPU", "2026-01-02", "minigrad bench", {}, H200, 4e12)
    for name, speed in speeds.items():
        seconds = 2 * n**3 / speed / 1e12
        torch = {"torch": Timing(seconds / 2, seconds / 2, seconds / 2, 20)} if name == "warp_tiled" else {}
        title = f"matmul {name} of {n} x {n}, {n} x {n}"
        timing = Timing(seconds, seconds, seconds, 20)
        made.measurements[title] = Measurement(
            title, (f"matmul_{name}",), timing, 2 * n**3, 12 * n**2, "float32", torch
        )
    return made


def test_the_ladder_is_that_of_the_record():
    picture = ladder(4096, record(4096, naive=1, warp_tiled=48))
    assert picture.title.startswith("The ladder at 4096 x 4096: from the foot to the top 48 times faster, on Some GPU")
    cells = [re.split(r"\s{2,}", line) for line in picture.numbers.splitlines()[1:]]
    assert [(row[0], row[3], row[-1]) for row in cells] == [("naive", "1.00", "0.01"), ("warp_tiled", "48.00", "0.50")]
    with pytest.raises(
        ValueError, match=r"no record has the rungs of matmul at 64 x 64\. .* times them at 1024 and 4096"
    ):
        ladder(64, record(4096, naive=1))


def test_the_card_has_a_row_for_each_kernel_of_the_first_file_and_names_the_others():
    rows = [line.split() for line in repr(mg.matmul).splitlines()[2:]]
    assert [row[0] for row in rows[:5]] == ["naive", "coalesced", "tiled", "backward_a", "backward_b"]
    assert rows[5] == ["cuda/matmul/register_tile.cu:", "register_tile_1d,", "register_tile_2d"]
    said = [word.strip(",") for row in rows for word in row]
    html = mg.matmul._repr_html_()
    assert all(said.count(name) == 1 and name in html for name in mg.matmul.kernels if name != "forward")
    assert len(rows) < 20 and html.count("<tr>") < 20 and max(map(len, repr(mg.matmul).splitlines())) <= WIDTH


def test_the_card_counts_the_threads_of_a_block():
    assert block(mg.matmul["register_tile_2d"]) == "16 x 16 (EDGE=128, EACH=8)"
    assert block(mg.matmul["split_k"]) == "256 (ROWS=32, WARPS=8)"
    assert block(mg.softmax["held"]) == "ceil(n / 16)"


def test_some_rungs_alone_are_a_ladder_too():
    made = record(4096, naive=1, double_buffered=24, warp_tiled=48)
    picture = ladder(4096, made, only=("double_buffered", "warp_tiled"))
    assert picture.title.startswith("The ladder at 4096 x 4096: from double_buffered to warp_tiled 2 times faster")
    assert [line.split()[0] for line in picture.numbers.splitlines()] == ["rung", "double_buffered", "warp_tiled"]


def test_single_elements_of_a_thread_are_shown_in_a_corner_of_c():
    for name, shape in (("register_tile_2d", (40, 40)), ("vectorized", (128, 128)), ("naive", (32, 32))):
        assert corner(name, counts(name).owners).shape == shape
    assert corner("wgmma", by_wgmma("wgmma")).shape == (20, 96)


@pytest.mark.parametrize(
    ("name", "size"),
    [("register_tile_2d", "the first 40 x 40 of 128 x 128"), ("naive", "the first 32 x 32 of 128 x 128"),
     ("vectorized", "128 x 128"), *((name, "the first 20 x 96 of 128 x 256") for name in ("wgmma", "wgmma_tf32")),
     *((name, "the first 80 x 96 of 128 x 256") for name in ("mma_tf32", "mma_3xtf32"))],
)  # fmt: skip
def test_a_part_of_c_is_said_to_be_one(name, size):
    picture = rung(name)
    fits(picture)
    (note,) = (text.get_text() for text in picture.figure.axes[0].texts if text.get_text().startswith("c, "))
    assert note.startswith(f"c, {size} elements")


def test_a_measurement_with_pytorch_is_preferred():
    made = record(4096, naive=1, warp_tiled=48)
    (again,) = record(4096, warp_tiled=24).measurements.values()
    made.measurements["matmul warp_tiled of 4096 x 4096, 4096 x 4096"] = dataclasses.replace(again, rivals={})
    made.measurements["matmul of 4096 x 4096, 4096 x 4096"] = again
    assert "24.00" in ladder(4096, made).numbers and "0.50" in ladder(4096, made).numbers
    made.measurements = dict(reversed(made.measurements.items()))
    assert "24.00" in ladder(4096, made).numbers and "0.50" in ladder(4096, made).numbers


def test_pytorch_is_taken_from_products_that_are_no_rung_but_not_from_gradients():
    made = record(4096, naive=1, double_buffered=24)
    (fast,) = record(4096, warp_tiled=48).measurements.values()
    title = "matmul of 4096 x 4096, 4096 x 4096"
    made.measurements[title] = dataclasses.replace(fast, title=title, kernels=("transpose_planes", "matmul_packed"))
    title, seconds = "matmul backward of 4096 x 4096, 4096 x 4096", fast.rivals["torch"].seconds
    slow = {"torch": Timing(3 * seconds, 3 * seconds, 3 * seconds, 20)}
    made.measurements[title] = dataclasses.replace(fast, title=title, kernels=("matmul_backward",), rivals=slow)
    assert [line.split()[-1] for line in ladder(4096, made).numbers.splitlines()[1:]] == ["0.01", "0.25"]


def test_a_rung_says_what_was_counted_and_what_was_timed():
    told = rung("naive", 4096, record(4096, naive=1, warp_tiled=48)).numbers
    assert "2 from global memory and 0 from shared memory" in told and "1.00 TFLOP/s" in told
    assert "Times: recorded on Some GPU, 2026-01-02." in told
    assert "not timed" in rung("tiled", 4096, record(4096, naive=1)).numbers
    assert "wgmma, which only a GPU has" in rung("wgmma", 4096, record(4096, naive=1)).title
    made = record(4096, naive=1, warp_tiled=48)
    assert "x as fast" not in rung("naive", 4096, made).numbers
    assert "48.00 x as fast as naive" in rung("warp_tiled", 4096, made).numbers
    with pytest.raises(ValueError, match="the ladder has no rung 'fast'; it has naive, coalesced"):
        rung("fast")


def test_the_loads_of_a_thread_are_a_table():
    found = mg.show.loads()
    assert len(found.rows) == len([name for name in rungs() if "mma" not in name])
    assert ("tiled", "16 x 16", "1", "0.125", "2", "2", "4") in found.rows


def test_the_slider_goes_over_all_rungs():
    slider = rung_slider(4096, record(4096, naive=1, warp_tiled=48))
    assert list(slider.sliders["rung"].options) == rungs() and slider.value == "tiled"


def test_a_kernel_that_calls_a_function_of_its_file_has_the_regions_of_that():
    assert "multiply" in mg.matmul["warp_tiled"].parts and mg.relu["forward"].parts == ()
    part = repr(mg.matmul["warp_tiled"].part("store"))
    assert "write(c, top + row" in part and "__global__" not in part


def test_a_kernel_that_calls_a_function_of_a_header_has_the_regions_of_that(tmp_path, monkeypatch):
    (tmp_path / "body.cuh").write_text("__device__ void body(float* y) {\n    // [store]\n    y[0] = 1;\n}\n")
    monkeypatch.setattr("minigrad.source.CUDA", tmp_path)
    text = '#include "body.cuh"\nextern "C" __global__ void one(float* y) { body(y); }\n'
    part = Source(text, "one.cu", tmp_path).parts("one")["store"]
    assert repr(part) == "cuda/body.cuh:2\n   2      // [store]\n   3      y[0] = 1;"


def test_a_rung_with_other_values_has_no_time():
    picture = rung("register_tile_2d", EDGE=64, EACH=4)
    assert "not timed" in repr(picture) and "TFLOP/s" not in repr(picture)
    assert "us for 4096 x 4096" in repr(rung("register_tile_2d"))
