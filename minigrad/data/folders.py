"""Folders of images, one for each class, decoded by Pillow when a batch asks for them."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigrad.data.split import damaged, folder_of
from minigrad.errors import require_int

FORMATS = {
    "BMP": (".bmp",), "GIF": (".gif",), "JPEG": (".jpg", ".jpeg"), "PNG": (".png",), "PPM": (".ppm", ".pgm", ".pbm"),
    "TIFF": (".tif", ".tiff"), "WEBP": (".webp",),
}  # fmt: skip
ENDINGS = tuple(ending for endings in FORMATS.values() for ending in endings)


class ImageFiles:
    """Images in files: to a Loader an array of float32 (count, 3, size, size); `images[rows]` decodes these rows.

    paths: the files. classes: the names of the classes.
    """

    ndim, dtype = 4, np.dtype(np.float32)

    def __init__(self, paths: Sequence[Path], classes: Sequence[str], size: int, resize: int):
        self.paths, self.classes, self.shape = tuple(paths), tuple(classes), (len(paths), 3, size, size)
        self._resize = resize

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, rows: Any) -> np.ndarray:
        """The images of a row, a slice or an array of rows. Raises ValueError for a file that is no image."""
        chosen = np.arange(len(self))[rows]
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # Pillow decodes without Python's lock
            decoded = list(pool.map(self._decode, chosen.ravel().tolist()))
        pixels = np.array(decoded, np.uint8).reshape(*chosen.shape, *self.shape[2:], 3)
        return np.moveaxis(pixels, -1, -3) / np.float32(255)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All images at once."""
        return self[:].astype(dtype or self.dtype, copy=False)

    def __repr__(self) -> str:
        return f"ImageFiles(shape={self.shape}, classes={self.classes})"

    def _decode(self, row: int) -> np.ndarray:
        """The pixels (size, size, 3): the middle of the image, its shorter side resized."""
        from PIL import Image, ImageOps

        path, size = self.paths[row], self.shape[-1]
        try:
            with Image.open(path, formats=tuple(FORMATS)) as file:
                file.draft(None, (self._resize, self._resize))  # a JPEG much larger than that is decoded smaller
                ImageOps.exif_transpose(file, in_place=True)
                image = _in_colors(file)
        except Exception as error:  # each format has its own errors for damage
            why = f"cannot be read as an image ({type(error).__name__}: {str(error) or 'no reason given'})"
            raise damaged("image_folder", path, why, "Fetch it again, or remove it.") from error
        side = min(image.size) * size / self._resize
        left, top = ((extent - side) / 2 for extent in image.size)
        box = (left, top, left + side, top + side)
        return np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box))


class ImageFolder(NamedTuple):
    """A folder of images: the images, decoded when they are asked for, and int64 labels (count,)."""

    images: ImageFiles
    labels: np.ndarray

    @property
    def classes(self) -> tuple[str, ...]:
        """The name of the class of each label: its folder's."""
        return self.images.classes


def image_folder(folder: str | Path, size: int = 224, resize: int | None = None) -> ImageFolder:
    """The images in the folders of a folder, a class each: `cats/1.jpg`, `dogs/old/2.png`; labels by order of name.

    An image is turned upright as its camera noted and converted to RGB; its shorter side is resized to `resize` pixels,
    `size` if that is not given, and the middle, size x size, is cut out. Hidden files are left out. Raises
    FileNotFoundError where a folder holds no image, ValueError for a file that is none.
    """
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise ImportError("data.image_folder needs Pillow: pip install 'minigrad-cuda[data]'.") from error
    path, size = folder_of("image_folder", folder), require_int("image_folder", "size", size, 1)
    resize = size if resize is None else require_int("image_folder", "resize", resize, size)
    inside = sorted(each for each in path.iterdir() if not each.name.startswith("."))
    for each in inside:
        if each.suffix.lower() in ENDINGS and each.is_file():
            raise damaged("image_folder", each, "lies in no folder of a class", "Move it into the folder of its class.")
    classes = [each for each in inside if each.is_dir()]
    if not classes:
        raise FileNotFoundError(f"image_folder: {path} holds no folder; it needs one for each class, with its images.")
    files = [_images_in(each) for each in classes]
    labels = np.repeat(np.arange(len(classes)), [len(found) for found in files])
    images = ImageFiles([file for found in files for file in found], [each.name for each in classes], size, resize)
    return ImageFolder(images, labels)


def _images_in(folder: Path) -> list[Path]:
    """The images of a class, sorted by path. Raises FileNotFoundError for none, ValueError for other files."""
    found = sorted(
        file for file in folder.rglob("*")
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )  # fmt: skip
    for file in found:
        if file.suffix.lower() not in ENDINGS:
            fault = f"is no image by its name, which ends in none of {' '.join(ENDINGS)}"
            raise damaged("image_folder", file, fault, "Move it out of the folder, or rename it.")
    if not found:
        raise FileNotFoundError(
            f"image_folder: {folder} holds no image. Put the images of its class there, or remove it."
        )
    return found


def _in_colors(image: Any) -> Any:
    """The image in RGB, 8 bits a channel. Raises ValueError for pixels of 32 bits, whose range is not known."""
    from PIL import Image

    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of 32 bits, mode {image.mode}; save it with 8 or 16 bits")
    if image.mode.startswith("I;16"):  # Pillow would make 255 of every larger number
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image if image.mode == "RGB" else image.convert("RGB")
