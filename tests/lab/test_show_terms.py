"""The pairs of numbers that make an element, read off a run; photographs; the counts of each way to convolve."""

from io import BytesIO

import numpy as np
import PIL.Image
import pytest
from show_pictures import fits

import minigrad as mg
from minigrad.display import WIDTH
from minigrad.lab.show.draw.picture import GRAYS

IMAGE, SIZE = (4, 5), (3, 2)


def inspected(kernel, **params):
    x, w = np.ones((1, 1, *IMAGE), np.float32), np.ones((1, 1, *SIZE), np.float32)
    return mg.inspect(mg.conv2d[kernel], x, w, blocks=99, **params)


def pairs(stride, padding):
    """Every product of a convolution: the indices of its output, of its pixel and of its number of w."""
    out = [(n + 2 * padding - k) // stride + 1 for n, k in zip(IMAGE, SIZE, strict=True)]
    for p, q, r, s in np.ndindex(*out, *SIZE):
        h, v = p * stride - padding + r, q * stride - padding + s
        if 0 <= h < IMAGE[0] and 0 <= v < IMAGE[1]:
            yield {"y": (p, q), "x": (h, v), "w": (r, s)}


@pytest.mark.sample(3)
@pytest.mark.parametrize("stride, padding", [(1, 0), (1, 1), (2, 1)])
@pytest.mark.parametrize(
    "kernel, made, of", [("naive", "y", "xw"), ("backward_x", "x", "yw"), ("backward_w", "w", "xy")]
)
def test_the_terms_of_an_execution_are_those_of_the_formula(kernel, made, of, stride, padding):
    """The gradient of an array has the array's indices; read off the three kernels, the pairs are the same."""
    record = inspected(kernel, stride=stride, padding=padding)
    out = {"y": "y", "x": "dx", "w": "dw"}[made]
    shape = record.variables[out].shape[2:]
    for at in np.ndindex(*shape):
        wanted = {
            frozenset(f"{'d' * (name == 'y')}{name}[{pair[name][0]},{pair[name][1]}]" for name in of)
            for pair in pairs(stride, padding)
            if pair[made] == at
        }
        shown = mg.show.terms(record, int(np.ravel_multi_index(at, shape)))
        first = shown.numbers.replace("\n", " ").partition("without")[0]
        found = first.partition(": ")[2].split(", ")
        named = {frozenset(text.strip().replace("dy", "dy").split("·")) for text in found if "·" in text}
        if made == "y":
            wanted = {frozenset(name.removeprefix("d") for name in pair) for pair in wanted}
        assert named == wanted and shown.title.startswith(f"conv2d_{kernel}: {out}[{at[0]},{at[1]}] comes from ")


def test_numbers_of_the_window_without_a_pixel_are_named():
    shown = mg.show.terms(inspected("naive", padding=1), 0)
    assert shown.title == "conv2d_naive: y[0,0] comes from 2 pairs of x and w"
    assert shown.numbers == "y[0,0]: x[0,0]·w[1,1], x[1,0]·w[2,1]\nwithout a partner: w[0,0], w[0,1], w[1,0], w[2,0]"
    fits(shown)


def test_an_element_of_several_planes_has_all_its_indices():
    x, w = np.ones((2, 2, 3, 3), np.float32), np.ones((1, 2, 2, 2), np.float32)
    shown = mg.show.terms(mg.inspect(mg.conv2d["naive"], x, w, blocks=9), 7)
    assert shown.numbers.startswith("y[1,0,1,1]: x[1,0,1,1]·w[0,0,0], x[1,0,1,2]·w[0,0,1], ")
    assert shown.numbers.count("·") == 8
    fits(shown)


def test_a_pooling_reads_one_array():
    x = np.arange(16.0, dtype="float32").reshape(1, 1, 4, 4)
    shown = mg.show.terms(mg.inspect(mg.max_pool2d["forward"], x, size=2, blocks=9), 3)
    assert shown.title.endswith("y[1,1] comes from 4 numbers of x")
    back = mg.inspect(mg.max_pool2d["backward"], x, size=2, blocks=9)
    assert mg.show.terms(back, 5).numbers == "dx[1,1]: taps[0,0]·dy[0,0]"
    assert mg.show.terms(back, 4).numbers == "dx[1,0]: taps[0,0]", "asked, and nothing was added"


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(ValueError, match=r"no thread of the blocks that were looked at writes y\[99\]"):
        mg.show.terms(inspected("naive"), 99)
    with pytest.raises(TypeError, match="a record of"):
        mg.show.terms("naive")
    wide = mg.inspect(mg.relu["forward"], np.ones(40, np.float32))
    with pytest.raises(ValueError, match="82 cells wide, and 64 can be drawn; take"):
        mg.show.terms(wide, 0)


def test_photographs_are_gray_and_have_their_sizes_below():
    x = np.linspace(0, 1, 48).reshape(6, 8)
    shown = mg.show.photos("two photographs", {"plain": x, "signed": x - 0.5})
    assert [axes.images[0].get_clim() for axes in shown.figure.axes] == [(0, 1), (-0.5, 0.5)]
    part = mg.show.photos("half of one", {"part": np.where(x < 0.5, x, np.nan)})
    assert part.figure.axes[0].images[0].get_clim() == (0, x[x < 0.5].max())
    assert [line.split() for line in shown.numbers.splitlines()][1:] == [["plain", "6", "8"], ["signed", "6", "8"]]
    with pytest.raises(ValueError, match=r"photos draws 1 to 4 photos of shape \(height, width\); got bad"):
        mg.show.photos("none", {"bad": x[0]})
    image = PIL.Image.open(BytesIO(shown.parts[0].png()))
    assert image.mode == "L" and 10 < len(image.getcolors()) <= GRAYS and image.getpixel((0, 0)) == 255


def test_every_way_is_counted():
    x, w = mg.ones(1, 4, 8, 8, device="sim"), mg.ones(2, 4, 3, 3, device="sim")
    found = mg.show.convolutions(["naive", "im2col", "implicit", "winograd"], x, w, padding=1)
    rows = {row[0]: [int(cell.replace(",", "")) for cell in row[1:]] for row in found.rows}
    sums, outputs = 2 * 4 * 9 * 64, 2 * 64
    assert rows["naive"] == [1, sums, 2 * 4 * 9 * 4, rows["naive"][3], 0, 4 * outputs]
    assert rows["im2col"][:2] == [2, sums] and rows["im2col"][5] == 4 * (outputs + 4 * 9 * 64)
    assert rows["implicit"][:2] == [1, sums] and rows["implicit"][5] == 4 * outputs
    tiles = 4
    assert rows["winograd"][:2] == [4, sums // 4]
    assert rows["winograd"][5] == 4 * (outputs + 36 * (2 * 4 + 4 * tiles + 2 * tiles))
    assert max(map(len, repr(found).splitlines())) <= WIDTH
    with pytest.raises(ValueError, match="for windows of 3 x 3 with stride 1"):
        mg.show.convolutions(["winograd"], x, w, stride=2)
    with pytest.raises(KeyError, match="conv2d has no kernel 'fast'"):
        mg.show.convolutions(["fast"], x, w)
