"""Handwritten digits: the small set that comes with scikit-learn, and MNIST from its idx files."""

import gzip
import struct
import zlib
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minigrad.data.split import Split, check_labels, damaged, folder_of, split_of
from minigrad.errors import require_bool, require_int

GZIP = b"\x1f\x8b"  # the first bytes of a compressed file
UNSIGNED_BYTES = 0x0800  # in the magic number of an idx file; the number of its extents is added


class Digits(NamedTuple):
    """Handwritten digits for training and for testing."""

    train: Split
    test: Split


def digits(test: int = 360, seed: int = 0) -> Digits:
    """1797 handwritten digits of 8 x 8 pixels, shuffled and split in two; no download.

    Source: the UCI optical recognition of handwritten digits set, as packed with scikit-learn.
    """
    if not (package := find_spec("sklearn")) or not package.origin:
        raise ImportError("data.digits needs scikit-learn: pip install 'minigrad-cuda[data]'.")
    # Its file alone: importing scikit-learn takes over a second, in each rank of a job.
    rows = np.loadtxt(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    count = len(rows)
    if require_int("digits", "test", test) > count:
        raise ValueError(f"digits: test={test} must be at most {count}, the number of digits.")
    order = np.random.default_rng(require_int("digits", "seed", seed)).permutation(count)
    images = (rows[order, :-1] / 16).astype(np.float32)
    labels = rows[order, -1].astype(np.int64)
    return Digits(Split(images[test:], labels[test:]), Split(images[:test], labels[:test]))


def mnist(folder: str | Path, train: bool = True) -> Split:
    """MNIST from its idx files, plain or gzip: 60,000 images (1, 28, 28) for training, or 10,000 for testing.

    folder holds `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same with `t10k`, itself or in
    `MNIST/raw`, where torchvision puts them. Sets with these names are read, too: Fashion-MNIST, KMNIST. Raises
    FileNotFoundError for a missing file, ValueError for a damaged one.

    Source of the format: LeCun, Cortes and Burges, "The MNIST database of handwritten digits".
    """
    part = "train" if require_bool("mnist", "train", train) else "t10k"
    path = folder_of("mnist", folder)
    of_images, of_labels = _find(path, f"{part}-images", 3), _find(path, f"{part}-labels", 1)
    images, labels = _read_idx(of_images, 3), _read_idx(of_labels, 1)
    if len(images) != len(labels):
        fault = f"has {len(labels)} labels, and {of_images.name} has {len(images)} images"
        raise damaged("mnist", of_labels, fault, "Fetch both files again, from one place.")
    check_labels("mnist", of_labels, labels, 10)
    return split_of(images[:, None], labels)


def _find(folder: Path, name: str, extents: int) -> Path:
    """The file of that name, with a dot or a hyphen before `idx`, plain or compressed. Raises FileNotFoundError."""
    for place in (folder, folder / "raw", folder / "MNIST" / "raw"):
        for middle in "-.":
            for ending in ("", ".gz"):
                path = place / f"{name}{middle}idx{extents}-ubyte{ending}"
                if path.is_file():
                    return path
    raise FileNotFoundError(
        f"mnist: {folder} has no {name}-idx{extents}-ubyte, plain or .gz. Put MNIST's four files there, or name the "
        "folder that holds them."
    )


def _read_idx(path: Path, extents: int) -> np.ndarray:
    """The array of an idx file: a magic number and the extents, 32 bits each, big-endian, then a byte an element."""
    raw, header, magic = _read(path), 4 + 4 * extents, UNSIGNED_BYTES + extents
    found, holds = int.from_bytes(raw[:4]), "images" if extents == 3 else "labels"
    if len(raw) >= 4 and found != magic:
        raise damaged("mnist", path, f"begins with the number {found}; a file of {holds} begins with {magic}")
    if len(raw) < header:
        raise damaged("mnist", path, f"ends after {len(raw)} bytes, within its header of {header}")
    shape = struct.unpack_from(f">{extents}I", raw, 4)
    if len(raw) - header != prod(shape):
        announced = f"{' x '.join(map(str, shape))} = {prod(shape)} bytes"
        raise damaged("mnist", path, f"holds {len(raw) - header} bytes after its header, which announces {announced}")
    if not prod(shape):
        raise damaged("mnist", path, f"is empty: its header announces {' x '.join(map(str, shape))} bytes")
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)


def _read(path: Path) -> bytes:
    """The bytes of a file, decompressed if they are gzip, whatever its name says."""
    raw = path.read_bytes()
    try:
        return gzip.decompress(raw) if raw.startswith(GZIP) else raw
    except (OSError, EOFError, zlib.error) as error:
        raise damaged("mnist", path, f"cannot be decompressed ({error})") from error
