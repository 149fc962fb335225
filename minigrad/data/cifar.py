"""CIFAR-10 from its files: the python version, a pickle that is read by a restricted unpickler, and the binary one.

A pickle is a program: it may name any function of any module, and call it. The unpickler here knows four names, those
that the pickle of a NumPy array uses, and has a stand-in for each, which only keeps what it is given.
"""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.data.split import Split, check_labels, damaged, folder_of, split_of
from minigrad.errors import require_bool, short

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")  # by label
PIXELS = 3 * 32 * 32  # the red plane, the green one, the blue one, each row by row
RECORD = 1 + PIXELS  # bytes of the binary version: a label, and the image


def cifar10(folder: str | Path, train: bool = True) -> Split:
    """CIFAR-10: 50,000 images (3, 32, 32) for training, or 10,000 for testing; `CIFAR10` has the names of the classes.

    folder holds `data_batch_1` to `data_batch_5` and `test_batch`, or the same with `.bin`, itself or in
    `cifar-10-batches-py` or `cifar-10-batches-bin`. The images for training take 614 MB as float32. Raises
    FileNotFoundError for a missing file, ValueError for a damaged one.

    Source of the formats: Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
    """
    names = [f"data_batch_{n}" for n in range(1, 6)] if require_bool("cifar10", "train", train) else ["test_batch"]
    paths = _find(folder_of("cifar10", folder), names)
    parts = [_read_binary(path) if path.suffix else _read_pickle(path) for path in paths]
    for path, (_, labels) in zip(paths, parts, strict=True):
        check_labels("cifar10", path, labels, len(CIFAR10))
    images, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return split_of(images.reshape(-1, 3, 32, 32), labels)


def _find(folder: Path, names: list[str]) -> list[Path]:
    """The files of these names, all of one version. Raises FileNotFoundError."""
    places = (folder, folder / "cifar-10-batches-py", folder / "cifar-10-batches-bin")
    versions = [[place / f"{name}{ending}" for name in names] for place in places for ending in ("", ".bin")]
    paths = max(versions, key=lambda paths: sum(path.is_file() for path in paths))  # the first of equals
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"cifar10: {paths[0].parent} has no {', '.join(missing)}. Unpack cifar-10-python.tar.gz or "
            "cifar-10-binary.tar.gz there, or name the folder that holds its files."
        )
    return paths


def _read_binary(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3072) and labels (n,) of a file of records: a byte for the label, 3072 for the image."""
    raw = np.frombuffer(path.read_bytes(), np.uint8)
    if not len(raw) or len(raw) % RECORD:
        fault = f"has {len(raw)} bytes, which is no whole number of records of 1 + {PIXELS}"
        raise damaged("cifar10", path, fault if len(raw) else "is empty")
    records = raw.reshape(-1, RECORD)
    return records[:, 1:], records[:, 0]


def _read_pickle(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3072) and labels (n,) of a pickled dict with `data` and `labels`."""
    try:
        found = ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    except ForbiddenName as error:
        way_out = "It was not loaded, since a pickle may run any program. Fetch the file from its own site."
        raise damaged("cifar10", path, f"asks for {error}, which no dict of arrays needs", way_out) from error
    except Exception as error:  # a damaged pickle fails in many ways
        raise damaged("cifar10", path, f"is no sound pickle ({type(error).__name__}: {error})") from error
    if not isinstance(found, dict):
        raise damaged("cifar10", path, f"holds {short(found)}, no dict")
    fields = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in found.items()}
    images, labels = fields.get("data"), fields.get("labels")
    if not isinstance(images, PickledArray) or not isinstance(labels, list):
        raise damaged("cifar10", path, f"has no array `data` with a list `labels`, but {sorted(map(str, fields))}")
    pixels = _pixels(path, images)
    if len(pixels) != len(labels) or not labels:
        raise damaged("cifar10", path, f"has {len(pixels)} images and {len(labels)} labels")
    check_labels("cifar10", path, labels, len(CIFAR10))
    return pixels, np.array(labels)


def _pixels(path: Path, pickled: "PickledArray") -> np.ndarray:
    """The images (n, 3072) of a pickled array. Raises ValueError where it is another array, or its bytes do not fit."""
    shape, dtype, raw = pickled.shape, pickled.dtype, pickled.raw
    count = shape[0] if isinstance(shape, tuple) and shape else None
    if not isinstance(dtype, PickledType) or dtype.name != "u1" or shape != (count, PIXELS):
        raise damaged("cifar10", path, f"has data of shape {shape!r:.60}, no bytes (n, {PIXELS})")
    if not isinstance(raw, bytes | bytearray) or len(raw) != count * PIXELS:
        raise damaged("cifar10", path, f"announces {count} images of {PIXELS} bytes; its data are others")
    return np.frombuffer(raw, np.uint8).reshape(shape, order="F" if pickled.fortran else "C")


class ForbiddenName(pickle.UnpicklingError):
    """A pickle names a function or a class that the pickle of arrays does not."""


class PickledType:
    """The stand-in for `numpy.dtype`: its name, `u1` for bytes."""

    def __init__(self, name: Any, *ignored: Any):
        self.name = name.decode("latin1") if isinstance(name, bytes) else name

    def __setstate__(self, state: Any) -> None:
        """Byte order and fields, which bytes do not have."""


class PickledArray:
    """The stand-in for `numpy.ndarray`: shape, dtype, order and bytes as the pickle gives them, unchecked."""

    def __init__(self, *ignored: Any):
        self.shape = self.dtype = self.fortran = self.raw = None

    def __setstate__(self, state: Any) -> None:
        _, self.shape, self.dtype, self.fortran, self.raw = state


def _of_buffer(raw: Any, dtype: Any, shape: Any, order: Any) -> PickledArray:
    """The stand-in for the function that protocol 5 names."""
    made = PickledArray()
    made.__setstate__((1, shape, dtype, order == "F", raw))
    return made


def _encoded(text: Any, encoding: Any) -> bytes:
    """The stand-in for `_codecs.encode`, by which protocol 2 writes bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes in the encoding {encoding!r:.40}")
    return str(text).encode("latin1")


class ArrayUnpickler(pickle.Unpickler):
    """Reads numbers, strings, tuples, lists, dicts and NumPy arrays; every other name raises ForbiddenName."""

    STAND_INS = {  # noqa: RUF012
        ("numpy", "ndarray"): PickledArray,
        ("numpy", "dtype"): PickledType,
        ("multiarray", "_reconstruct"): PickledArray,
        ("numeric", "_frombuffer"): _of_buffer,
        ("_codecs", "encode"): _encoded,
    }

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a name. Raises ForbiddenName."""
        own = module.removeprefix("numpy.core.").removeprefix("numpy._core.")  # before NumPy 2, and since
        if (own, name) not in self.STAND_INS:
            raise ForbiddenName(f"{module}.{name}")
        return self.STAND_INS[own, name]
