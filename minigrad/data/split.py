"""Split: images and their labels; and the checks that the readers of files share."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigrad.errors import require


class Split(NamedTuple):
    """float32 images in [0, 1], and int64 labels (count,).

    Images are (count, channels, height, width); those of `digits` are rows of 64 pixels.
    """

    images: np.ndarray
    labels: np.ndarray


def split_of(images: np.ndarray, labels: np.ndarray) -> Split:
    """The split of images and labels that are bytes: pixels from 0 to 255 become numbers from 0 to 1."""
    return Split(images / np.float32(255), labels.astype(np.int64))


def folder_of(who: str, folder: Any) -> Path:
    """The folder as a path. Raises TypeError, or FileNotFoundError where there is none."""
    path = Path(require(who, folder, str | Path, "the path of a folder")).expanduser()
    if not path.is_dir():
        there = "is a file" if path.exists() else "does not exist"
        raise FileNotFoundError(f"{who}: {path} {there}; name the folder that holds the data.")
    return path


def damaged(who: str, path: Path, fault: str, way_out: str = "Fetch the file again.") -> ValueError:
    """The error for a file: its name, its fault, and the way out."""
    return ValueError(f"{who}: {path} {fault}. {way_out}")


def check_labels(who: str, path: Path, labels: Any, classes: int) -> None:
    """Raise ValueError where a label is not a whole number from 0 to below `classes`; the message gives its place."""
    for place, label in enumerate(labels.tolist() if isinstance(labels, np.ndarray) else labels):
        if not (isinstance(label, int) and 0 <= label < classes):
            fault = f"has the label {label!r:.40} at place {place}; labels are 0 to {classes - 1}"
            raise damaged(who, path, fault)
