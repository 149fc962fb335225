"""Handwritten digits: those of scikit-learn, and idx files that the tests write, sound and damaged."""

import gzip
import struct

import numpy as np
import pytest

import minigrad as mg

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8)
LABELS = np.array([3, 0, 9, 1, 3], np.uint8)


def idx(array, magic=None):
    """The bytes of an idx file."""
    return struct.pack(f">{1 + array.ndim}I", magic or 0x800 + array.ndim, *array.shape) + array.tobytes()


def write(folder, images=idx(PIXELS), labels=idx(LABELS), part="train", middle="-", ending=""):  # noqa: B008
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in ((f"{part}-images{middle}idx3", images), (f"{part}-labels{middle}idx1", labels)):
        (folder / f"{name}-ubyte{ending}").write_bytes(content)
    return folder


def test_digits_are_1797_and_the_parts_share_none():
    digits = mg.data.digits()
    assert (len(digits.train.images), len(digits.test.images)) == (1437, 360)
    assert digits.train.images.dtype == np.float32
    assert digits.train.images.min() >= 0 and digits.train.images.max() <= 1
    assert set(digits.test.labels) == set(range(10))


def test_more_digits_than_there_are_are_refused():
    pytest.importorskip("sklearn")
    with pytest.raises(ValueError, match="digits: test=5000 must be at most 1797"):
        mg.data.digits(test=5000)


@pytest.mark.parametrize("where", ["", "raw", "MNIST/raw"])
@pytest.mark.parametrize(("middle", "ending"), [("-", ""), ("-", ".gz"), (".", "")])
def test_idx_files_are_read_where_people_have_them(tmp_path, where, middle, ending):
    pack = gzip.compress if ending else bytes
    write(tmp_path / where, pack(idx(PIXELS)), pack(idx(LABELS)), "train", middle, ending)
    write(tmp_path / where, pack(idx(PIXELS[:2])), pack(idx(LABELS[:2])), "t10k", middle, ending)
    train, test = mg.data.mnist(tmp_path), mg.data.mnist(str(tmp_path), train=False)
    assert train.images.dtype == np.float32 and train.labels.dtype == np.int64
    np.testing.assert_array_equal(train.images, PIXELS[:, None].astype(np.float32) / 255)
    np.testing.assert_array_equal(train.labels, LABELS)
    assert test.images.shape == (2, 1, 4, 3) and test.labels.tolist() == [3, 0]


def test_a_compressed_file_is_known_by_its_bytes(tmp_path):
    write(tmp_path, gzip.compress(idx(PIXELS)), gzip.compress(idx(LABELS)))
    assert mg.data.mnist(tmp_path).labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"images": idx(PIXELS)[:-1]}, r"train-images-idx3-ubyte holds 59 bytes after its header, .* 5 x 4 x 3 = 60"),
        ({"images": idx(PIXELS) + b"x"}, "holds 61 bytes after its header"),
        ({"images": idx(PIXELS)[:9]}, "ends after 9 bytes, within its header of 16"),
        ({"images": b""}, "ends after 0 bytes"),
        ({"images": idx(LABELS)}, "begins with the number 2049; a file of images begins with 2051"),
        ({"images": b"<!DOCTYPE html><html>"}, "begins with the number 1008813135; a file of images"),
        ({"labels": idx(PIXELS)}, "labels-idx1-ubyte begins with the number 2051; a file of labels begins with 2049"),
        ({"images": idx(PIXELS, 0x1000803)}, "begins with the number 16779267"),
        ({"images": idx(PIXELS.astype(">i4"), 0xC03)}, "begins with the number 3075"),
        ({"labels": idx(LABELS[:4])}, r"has 4 labels, and train-images-idx3-ubyte has 5 images\. Fetch both files"),
        ({"labels": idx(LABELS + 8)}, r"has the label 11 at place 0; labels are 0 to 9\. Fetch the file again"),
        ({"images": idx(PIXELS[:0]), "labels": idx(LABELS[:0])}, "is empty: its header announces 0 x 4 x 3 bytes"),
        ({"images": gzip.compress(idx(PIXELS))[:30]}, r"cannot be decompressed \("),
        ({"images": gzip.compress(idx(PIXELS))[:-9] + b"123456789"}, r"cannot be decompressed \("),
        ({"images": b"\x1f\x8b words"}, r"cannot be decompressed \("),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_with_its_fault(tmp_path, files, message):
    write(tmp_path, **files)
    with pytest.raises(ValueError, match=rf"mnist: {tmp_path}/.*{message}"):
        mg.data.mnist(tmp_path)


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"mnist: .* has no train-images-idx3-ubyte, plain or \.gz\. Put MNIST's"
    ):
        mg.data.mnist(tmp_path)
    write(tmp_path, part="t10k")
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no t10k-labels-idx1-ubyte"):
        mg.data.mnist(tmp_path, train=False)
    with pytest.raises(FileNotFoundError, match=r"mnist: .*/nowhere does not exist; name the folder"):
        mg.data.mnist(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"t10k-images-idx3-ubyte is a file; name the folder"):
        mg.data.mnist(tmp_path / "t10k-images-idx3-ubyte")
    with pytest.raises(TypeError, match=r"mnist takes the path of a folder; got int 3"):
        mg.data.mnist(3)
    with pytest.raises(TypeError, match=r"mnist: train takes True or False; got str 'test'"):
        mg.data.mnist(tmp_path, "test")
