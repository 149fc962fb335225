"""Pictures of an inspected launch agree with the accesses that were executed, and with the profiler's counts."""

import base64
import time
from functools import cache

import numpy as np
import pytest
from show_pictures import fits

import minigrad as mg
from minigrad.lab.show.accesses import request_of, wavefronts

X = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
CLASH = """
extern "C" __global__ void clash(const double* x, double* y, int stride) {
    __shared__ double room[64 * 33];
    room[threadIdx.x * stride] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = room[threadIdx.x * stride];
}
"""
COUNT = """
extern "C" __global__ void count(const float4* x, float* y, int n) {
    __shared__ float bins[40];
    if (threadIdx.x < 40) bins[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x < n) atomicAdd(&bins[threadIdx.x % 3], x[threadIdx.x].x);
    __syncthreads();
    if (threadIdx.x < 3) y[threadIdx.x] = bins[threadIdx.x];
}
"""
SHIFT = """
extern "C" __global__ void shift(float* y) {
    __shared__ float row[32];
    row[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = row[(threadIdx.x + 1) % 32];
}
"""


@cache
def transposed(name, tile=32, blocks=1, rows=64, cols=64):
    x = np.ones((rows, cols), np.float32)
    launch = mg.transpose[name].using(TILE=tile).launch(rows, cols)
    return mg.inspect(launch, x, np.zeros((cols, rows), np.float32), rows, cols, blocks=blocks)


@cache
def summed(name="tree", n=100, block=64):
    launch = mg.sum[name].using(BLOCK=block).launch(1, n)
    return mg.inspect(launch, np.ones(n, np.float32), np.zeros(1, np.float32), 1, n, 1, n, 1.0)


@cache
def relu(n, block, blocks=64):
    return mg.inspect(
        mg.relu["forward"].launch(n, BLOCK=block), X.ravel()[:n], np.zeros(n, np.float32), n, blocks=blocks
    )


@cache
def clash(stride):
    return mg.inspect(CLASH, np.ones(64), np.ones(64), stride, grid=1, block=64)


@cache
def count():
    x = np.ones((40, 4), np.float32)
    return mg.inspect(COUNT, x, np.zeros(3, np.float32), 37, grid=1, block=40)


PICTURES = {
    "32 sectors": lambda: mg.show.sectors(transposed("naive")),
    "4 sectors": lambda: mg.show.sectors(transposed("padded"), "y"),
    "few lanes": lambda: mg.show.sectors(summed(), "x", request=2),
    "16 bytes a lane": lambda: mg.show.sectors(count(), "x"),
    "conflicts": lambda: mg.show.banks(transposed("tiled")),
    "no conflicts": lambda: mg.show.banks(transposed("padded"), "tile"),
    "atomics": lambda: mg.show.banks(count(), "bins"),
    "doubles": lambda: mg.show.banks(clash(33)),
    "tile": lambda: mg.show.phases(transposed("tiled"), "tile"),
    "small tile": lambda: mg.show.phases(transposed("tiled", 8), "tile"),
    "blocks": lambda: mg.show.phases(transposed("tiled", 16, 99, 40, 70), "x", by="block"),
    "tree": lambda: mg.show.phases(summed(), "sums"),
    "one element": lambda: mg.show.phases(summed(n=5, block=32), "y"),
    "race": lambda: mg.show.phases(mg.inspect(SHIFT, np.zeros(32, np.float32), grid=1, block=32), "row"),
    "idle row": lambda: mg.show.idle(relu(1000, 256)),
    "idle corner": lambda: mg.show.idle(transposed("tiled", 16, 64, 40, 70)),
    "one block": lambda: mg.show.idle(relu(1, 32)),
    "branches": lambda: mg.show.divergence(summed()),
    "together": lambda: mg.show.divergence(transposed("tiled")),
}


ONE_OF_EACH = "32 sectors", "conflicts", "tile", "idle row", "branches"


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_fits_and_is_the_same_each_time(name):
    picture, again = PICTURES[name](), PICTURES[name]()
    png = picture.parts[0].png()
    assert repr(picture) == repr(again) and (name not in ONE_OF_EACH or png == again.parts[0].png())
    fits(picture)
    assert png.startswith(base64.b64decode("iVBORw0KGgo=")) and len(png) < 60_000


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["sectors", "banks", "phases", "idle", "divergence"])
def test_a_step_of_a_slider_takes_less_than_a_second(name):
    def draw():
        launch = mg.transpose["tiled"].using(TILE=32).launch(64, 64)
        report = mg.inspect(launch, X, np.zeros_like(X), 64, 64)
        more = ["tile"] if name == "phases" else []
        return getattr(mg.show, name)(report, *more).parts[0].png()

    def seconds():
        start = time.process_time()
        draw()
        return time.process_time() - start

    draw()  # compiled, and fonts loaded
    assert any(seconds() < 1 for _ in range(3))


# --- sectors ---


def test_sectors_agree_with_the_counts_of_the_microscope():
    naive, tiled = (repr(mg.show.sectors(transposed(name), "y")) for name in ("naive", "tiled"))
    assert "32 sectors to write y" in naive and "4096        32768  12.5 %" in naive
    assert "4 sectors to write y" in tiled and "4096         4096  100 %" in tiled
    assert mg.show.sectors(transposed("tiled"), 29).numbers == mg.show.sectors(transposed("tiled"), "x").numbers


def test_accesses_that_are_not_drawn_are_counted_and_a_number_for_several_lanes_is_said():
    text = """extern "C" __global__ void five(const float* a, const float* b, float* y) {
    y[threadIdx.x] = a[threadIdx.x] * a[threadIdx.x + 8] * a[threadIdx.x + 16] + b[threadIdx.x] + b[0];
}"""
    found = mg.inspect(text, X[0, :48].copy(), X[1, :32].copy(), np.zeros(32, "f"), grid=1, block=32)
    four = mg.show.sectors(found)
    assert four.numbers.startswith("Drawn: the 4 costliest of 6 accesses, by sectors in all.\nDark:")
    assert four.title.count("to read a") == 2 and "to read b" in four.title and "to write y" in four.title
    assert mg.show.sectors(found, "y").numbers.startswith("Dark:")
    assert repr(mg.show.sectors(found, "b")).splitlines()[-1].endswith("one number for several lanes")


def test_the_costliest_access_is_that_with_most_sectors_in_all():
    text = """extern "C" __global__ void many(const float* x, float* y) {
    y[threadIdx.x] = 0;
    for (int k = 0; k < 4; k++) {
        y[threadIdx.x] = y[threadIdx.x] * x[threadIdx.x];
    }
}"""
    found = mg.show.costliest(mg.inspect(text, X[0, :32].copy(), np.zeros(32, "f"), grid=1, block=32))
    assert found.title == "many, a warp: 4 sectors to read x, 4 sectors to read y"
    rows = [row.split()[:4] for row in found.numbers.splitlines()[-2:]]
    assert rows == [["4", "read", "x", "4"], ["4", "read", "y", "4"]]


def test_an_unknown_access_is_rejected_with_the_known_ones():
    report = transposed("tiled")
    with pytest.raises(ValueError, match=r"no access to global memory in line 30; it has line 29 \(x\) and line 36"):
        mg.show.sectors(report, 30)
    with pytest.raises(ValueError, match="request=32, and line 29 has 32 requests, from 0"):
        mg.show.sectors(report, "x", request=32)
    with pytest.raises(ValueError, match="no access to shared memory; there is none"):
        mg.show.banks(transposed("naive"))
    with pytest.raises(ValueError, match=r"touched no 'z'.*touched tile, x, y"):
        mg.show.phases(report, "z")
    with pytest.raises(ValueError, match="by='warp' must be"):
        mg.show.phases(report, "x", by="warp")
    with pytest.raises(ValueError, match=r"at most 64 blocks; this record has 65"):
        mg.show.idle(relu(2100, 32, 65))
    with pytest.raises(ValueError, match=r"this record has none. Inspect with blocks=1"):
        mg.show.idle(relu(64, 64, 0))
    with pytest.raises(ValueError, match=r"divergence draws .*this record has none. Inspect with blocks=1"):
        mg.show.divergence(relu(64, 64, 0))
    with pytest.raises(TypeError, match=r"a record of mg.inspect"):
        mg.show.banks("tile")


# --- banks ---


@pytest.mark.parametrize(
    ("inspect", "arguments"),
    [(transposed, (name, tile)) for name in ("tiled", "padded") for tile in (8, 16, 32)]
    + [(clash, (stride,)) for stride in (1, 2, 16, 33)]
    + [(count, ()), (summed, ("warp",))],
)
def test_the_drawn_wavefronts_are_those_that_were_counted(inspect, arguments):
    report = inspect(*arguments)
    for site, line in enumerate(report.lines):
        if line.space == "shared":
            drawn = 0
            for number in range(line.requests):
                lanes = request_of("banks", report, site, number)
                served = wavefronts(lanes, line.kind == "atomic")
                rows = {row for row, _ in served}
                assert rows == set(range(len(rows)))
                assert {thread % 32 for thread in lanes["thread"]} == set().union(*served.values())
                drawn += len(rows)
            assert drawn == line.wavefronts


def test_a_column_lies_in_one_bank_and_a_padded_one_in_all():
    stacks = [repr(mg.show.banks(transposed(name))) for name in ("tiled", "padded")]
    assert "32 wavefronts to read tile" in stacks[0] and "992" in stacks[0]
    assert "1 wavefront to read tile" in stacks[1] and "992" not in stacks[1]


# --- phases ---


def test_a_tile_is_written_along_rows_and_read_down_columns():
    told = mg.show.phases(transposed("tiled"), "tile").numbers.splitlines()
    assert " ".join(told[2].split()) == "0 write 29 1024 1024 0 0: [0][0] 1: [0][1] 2: [0][2]"
    assert " ".join(told[3].split()) == "1 read 36 1024 1024 0 0: [0][0] 1: [1][0] 2: [2][0]"


def test_a_tree_halves_and_nothing_is_contested():
    rows = [line.split()[:6] for line in mg.show.phases(summed(n=64), "sums").numbers.splitlines()[2:]]
    writes = [int(row[3]) for row in rows if row[1] == "write"]
    assert writes == [64, 32, 16, 8, 4, 2, 1] and not any(int(row[-1]) for row in rows if row[2] == "33")


def test_a_missing_barrier_shows_as_elements_of_several_threads():
    report = mg.inspect(SHIFT, np.zeros(32, np.float32), grid=1, block=32)
    assert [problem.kind for problem in report.problems] == ["race"]
    picture = mg.show.phases(report, "row")
    assert picture.title == "shift: row in 1 phase, 32 elements touched by several threads at once"


def test_a_phase_begins_with_what_came_first_and_names_threads_where_there_is_room():
    one, many = (mg.show.phases(summed(n=32, block=block), "sums") for block in (1, 32))
    assert [line.split()[1] for line in one.numbers.splitlines()[2:]] == ["write", "read"]
    assert "31" in {text.get_text() for text in many.figure.axes[0].texts} and "with a +" not in many.numbers
    pairs = 'extern "C" __global__ void pairs(float* x) { float sum = x[threadIdx.x] + x[(threadIdx.x + 1) % 4]; }'
    shared = mg.show.phases(mg.inspect(pairs, np.zeros(4, np.float32), grid=1, block=4), "x")
    assert [text.get_text() for text in shared.figure.axes[0].texts][1:] == ["0+", "0+", "1+", "2+"]
    assert "A number with a +: this thread, and others with higher numbers." in shared.numbers


# --- idle, divergence ---


def test_idle_threads_are_those_of_the_launch():
    assert mg.show.idle(relu(1000, 256)).title == "relu_forward: 24 of 1024 threads idle"
    rows, cols, tile = 40, 70, 16
    report = transposed("naive", tile, 64, rows, cols)
    assert f"{15 * 256 - rows * cols} of {15 * 256} threads idle" in mg.show.idle(report).title
    assert "1 of 4" in mg.show.idle(relu(1000, 256, 1)).numbers


def test_a_tree_loses_lanes_branch_by_branch():
    told = mg.show.divergence(summed(n=64)).numbers
    assert "32 16 8 4 2 1" in told and "if (threadIdx.x < width / 2) sums" in told
    assert mg.show.divergence(transposed("tiled")).title == "transpose_tiled: every warp stays together"


# --- with a slider ---


def test_pictures_follow_a_slider_and_name_the_file_of_a_header():
    slider = mg.show.slider(lambda BLOCK: mg.show.idle(relu(1000, BLOCK)), BLOCK=(32, 64, 256))
    assert [slider.draw(BLOCK=block).numbers.split()[-4:] for block in (32, 64)] == [
        ["32", "1024", "1000", "24"],
        ["64", "1024", "1000", "24"],
    ]
    texts = [text.get_text() for text in mg.show.banks(summed("warp")).figure.axes[0].texts]
    assert any(text.startswith("cuda/reduce.cuh:") and text.endswith(": write warps") for text in texts)


# --- accesses of other sizes than an element ---

HALVES = """extern "C" __global__ void halves(const float* x, float* y) {
    __shared__ float2 s[16];
    int i = threadIdx.x;
    ((float*)s)[i] = x[i];
    __syncthreads();
    if (i < 8) ((float4*)y)[i] = ((float4*)s)[i];
}
"""


def halves():
    return mg.inspect(HALVES, np.arange(32, dtype=np.float32), np.zeros(32, np.float32), grid=1, block=32)


def test_a_vector_touches_all_its_elements_and_a_half_its_own():
    told = repr(mg.show.phases(halves(), "s"))
    assert "0  write      4        16       32          0  0: [0]  1: [0]  2: [1]" in told
    assert "1  read       6        16        8          0  0: [0] [1]  1: [2] [3]  2: [4] [5]" in told
    assert "32        8          0  0: [0] [1] …" in repr(mg.show.phases(halves(), "y"))


def test_the_banks_of_halves_of_elements_are_their_own():
    report = halves()
    stores = next(i for i, line in enumerate(report.lines) if (line.space, line.kind) == ("shared", "write"))
    served = wavefronts(request_of("banks", report, stores, 0), False)
    assert served == {(0, bank): [bank] for bank in range(32)}


def test_sectors_are_drawn_for_a_part_of_an_element():
    text = HALVES[: HALVES.index("{")].replace("float* y", "double* y") + "{ ((float*)y)[threadIdx.x] = x[0]; }"
    report = mg.inspect(text, np.zeros(32, np.float32), np.zeros(16), grid=1, block=32)
    assert repr(mg.show.sectors(report)).startswith("halves, a warp: 1 sector to read x, 4 sectors to write y")
