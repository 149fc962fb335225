"""CIFAR-10: small files of both versions that the tests write, damaged ones, and pickles that would run a program."""

import os
import pickle
import struct

import numpy as np
import pytest

import minigrad as mg

BYTES = np.random.default_rng(0).integers(0, 256, (4, 3072), dtype=np.uint8)
LABELS = [6, 9, 9, 0]


def python2(data, labels):
    """A pickle as Python 2 made the files that people have: protocol 2, and every string is bytes."""

    def text(word):
        return b"U" + bytes([len(word)]) + word

    numbers = b"".join(b"K" + bytes([label]) for label in labels)
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R(K\x01"
        + b"K" + bytes([len(data)]) + b"M\x00\x0c\x86cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03"
        + text(b"|") + b"NNN" + 2 * b"J\xff\xff\xff\xff" + b"K\x00tb\x89T" + struct.pack("<i", data.size)
        + data.tobytes() + b"tb"
    )  # fmt: skip
    items = (b"batch_label", text(b"training batch 1 of 5")), (b"labels", b"](" + numbers + b"e"), (b"data", array)
    return b"\x80\x02}(" + b"".join(text(key) + value for key, value in items) + b"u."


def python3(protocol, data=BYTES, labels=LABELS, **more):
    return pickle.dumps({b"data": data, b"labels": labels, b"filenames": [b"a.png"], **more}, protocol)


def binary(data=BYTES, labels=LABELS):
    return b"".join(bytes([label]) + image.tobytes() for label, image in zip(labels, data, strict=True))


def write(folder, content, name="test_batch"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    return folder


def fails(folder, message, error=ValueError, **which):
    with pytest.raises(error, match=message):
        mg.data.cifar10(folder, **{"train": False, **which})


PICKLES = [python2(BYTES, LABELS), *map(python3, range(6)), *(python3(p, np.asfortranarray(BYTES)) for p in (2, 5))]


def shown(value):
    """Files have no name among the parameters of a test."""
    return "file" if isinstance(value, bytes) else None


@pytest.mark.parametrize("content", PICKLES, ids=shown)
def test_a_pickle_of_any_protocol_gives_the_planes_red_green_and_blue(tmp_path, content):
    found = mg.data.cifar10(write(tmp_path, content), train=False)
    assert found.images.dtype == np.float32 and found.labels.dtype == np.int64 and found.labels.tolist() == LABELS
    np.testing.assert_array_equal(found.images, BYTES.reshape(4, 3, 32, 32).astype(np.float32) / 255)
    assert found.images[1, 2, 3, 4] == np.float32(BYTES[1, 2 * 1024 + 3 * 32 + 4]) / np.float32(255)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("place", "ending", "content"), [("cifar-10-batches-py", "", python2), ("cifar-10-batches-bin", ".bin", binary)]
)
def test_both_versions_are_read_in_the_order_of_their_batches(tmp_path, place, ending, content, inside):
    where = place if inside else ""
    for n in range(1, 6):
        write(tmp_path / where, content(BYTES[:2] // n, [n, n - 1]), f"data_batch_{n}{ending}")
    found = mg.data.cifar10(tmp_path)
    assert found.labels.tolist() == [1, 0, 2, 1, 3, 2, 4, 3, 5, 4]
    np.testing.assert_array_equal(found.images[6:8].reshape(2, -1) * 255, BYTES[:2] // 4)
    (tmp_path / where / f"data_batch_3{ending}").unlink()
    fails(
        tmp_path,
        rf"{where} has no data_batch_3{ending}\. Unpack cifar-10-python\.tar\.gz",
        FileNotFoundError,
        train=True,
    )


class Call:
    """An object whose pickle calls a function."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("function", [os.system, eval, pickle.loads, np.load, getattr], ids=lambda f: f.__name__)
def test_a_pickle_that_would_run_a_program_is_not_loaded(tmp_path, function, protocol):
    mark = tmp_path / "mark"
    write(tmp_path, python3(protocol, extra=Call(function, f"touch {mark}")))
    message = rf"test_batch asks for \S*\.{function.__name__}, which no dict of arrays needs\. It was not loaded"
    fails(tmp_path, message)
    assert not mark.exists()


@pytest.mark.parametrize(
    "name", [b"numpy.core.multiarray\nfromfile", b"numpy\nload", b"os\nndarray", b"numpy.core.\nndarray"]
)
def test_other_names_of_numpys_are_none_of_the_four(tmp_path, name):
    fails(write(tmp_path, b"c" + name + b"\n."), "asks for .* which no dict of arrays needs")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"is no sound pickle \(EOFError"),
        (python2(BYTES, LABELS)[:-500], r"is no sound pickle \(UnpicklingError: pickle data was truncated\)\. Fetch"),
        (b"<!DOCTYPE html>", r"is no sound pickle"),
        (python3(2, extra=3)[:40] + b"\xff" * 40, "is no sound pickle"),
        (pickle.dumps([1, 2]), r"holds list \[1, 2\], no dict"),
        (pickle.dumps({b"data": BYTES, b"fine_labels": LABELS}), r"has no array `data` .* \['data', 'fine_labels'\]"),
        (pickle.dumps({b"data": [1], b"labels": LABELS}), "has no array `data`"),
        (python3(4, labels=LABELS[:3]), "has 4 images and 3 labels"),
        (python3(4, BYTES[:0], []), "has 0 images and 0 labels"),
        (python3(4, labels=[1, 2, 10, 3]), "has the label 10 at place 2; labels are 0 to 9"),
        (python3(4, labels=[1, -1, 1, 3]), "has the label -1 at place 1"),
        (python3(4, labels=[1, 2, 2.5, 3]), "has the label 2.5 at place 2"),
        (python3(4, labels=[1, b"x", 2, 3]), "has the label b'x' at place 1"),
        (python3(4, BYTES[:, :3000]), r"has data of shape \(4, 3000\), no bytes \(n, 3072\)"),
        (python3(4, BYTES.astype(np.float32)), r"has data of shape \(4, 3072\), no bytes"),
        (python2(BYTES, LABELS).replace(b"K\x04M\x00\x0c", b"K\x05M\x00\x0c"), "announces 5 images of 3072 bytes"),
        (python2(BYTES, LABELS).replace(b"\x89T", b"\x89NU\x00T"), "is no sound pickle"),
    ],
    ids=shown,
)  # fmt: skip
def test_a_damaged_pickle_is_named_with_its_fault(tmp_path, content, message):
    fails(write(tmp_path, content), rf"cifar10: {tmp_path}/test_batch ({message})")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"test_batch\.bin is empty\. Fetch the file again"),
        (binary()[:-1], "has 12291 bytes, which is no whole number of records of 1 [+] 3072"),
        (binary(labels=[1, 2, 3, 77]), "has the label 77 at place 3; labels are 0 to 9"),
    ],
    ids=shown,
)
def test_a_damaged_binary_file_is_named_with_its_fault(tmp_path, content, message):
    fails(write(tmp_path, content, "test_batch.bin"), message)


def test_what_is_not_there_is_named(tmp_path):
    fails(tmp_path, "has no test_batch. Unpack cifar-10-python.tar.gz or", FileNotFoundError)
    fails(tmp_path, "has no data_batch_1, data_batch_2, .*, data_batch_5", FileNotFoundError, train=True)
    fails(tmp_path / "nowhere", "nowhere does not exist", FileNotFoundError)
    assert len(mg.data.CIFAR10) == 10 and mg.data.CIFAR10[3] == "cat"


def test_flipped_bits_are_read_or_answered_with_a_sentence(tmp_path):
    whole, rng, answers = bytearray(python2(BYTES, LABELS)), np.random.default_rng(0), 0
    for place in (*range(220), *range(len(whole) - 10, len(whole))):
        content = whole.copy()
        content[place] ^= 1 << rng.integers(8)
        write(tmp_path, content)
        try:
            assert mg.data.cifar10(tmp_path, train=False).images.shape[1:] == (3, 32, 32)
        except ValueError as error:
            assert "test_batch" in str(error) and str(error).startswith("cifar10: ")
            answers += 1
    assert answers > 100
