"""States in files: `.npz` without pickle, `.safetensors`, and PyTorch's `.pth`, which is read only."""

from collections.abc import Mapping
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from minigrad.devices.caches import write
from minigrad.devices.dtypes import is_bfloat16, to_host
from minigrad.errors import require
from minigrad.nn.module import Module


def save(path: str | Path, state: Module | Mapping[str, Any]) -> None:
    """Write the state of a module, or arrays by name, to a file `.npz` or `.safetensors`: whole or not at all.

    Names and shapes are those of `state_dict()`; bfloat16 is stored as float32, which has the same values. Raises
    ValueError for another kind of file and OSError where it cannot be written.
    """
    state = state.state_dict() if isinstance(state, Module) else state
    named = require("save", state, Mapping, "a path, and a module or arrays by name").items()
    arrays = {name: _plain(to_host(x, who=f"save: {name}")) for name, x in named}
    path, pack = _format("save", path, WRITERS)
    write(path, pack(arrays))


def load(path: str | Path, model: Module | None = None) -> dict[str, np.ndarray]:
    """The arrays of a file by name; a model also takes them, by its `load_state_dict`.

    The end of the path names the kind of file: `.npz`, `.safetensors`, or `.pth` and `.pt` of PyTorch. Nothing but
    arrays is unpickled. Raises ValueError for another kind and for a damaged file, ImportError where safetensors or
    torch is missing.
    """
    path, unpack = _format("load", path, READERS)
    content = path.read_bytes()
    try:
        arrays = unpack(content)
    except ImportError:
        raise
    except Exception as error:  # each library has errors of its own for damaged bytes
        raise ValueError(f"load: {path} is damaged, or no {path.suffix} of arrays by name: {error}") from error
    if model is not None:
        require("load", model, Module, "a path and a module").load_state_dict(arrays)
    return arrays


def _format(who: str, path: str | Path, known: Mapping[str, Any]) -> tuple[Path, Any]:
    """The path, and what belongs to its end. Raises ValueError."""
    path = Path(path)
    if path.suffix not in known:
        raise ValueError(
            f"{who}: {path.name} must end in {', '.join(sorted(known))}, which says what kind of file it is."
        )
    return path, known[path.suffix]


def _plain(array: np.ndarray) -> np.ndarray:
    """The array in C order, which safetensors takes for granted, and bfloat16, which NumPy cannot store, as float32."""
    return np.asarray(array, np.float32 if is_bfloat16(array.dtype) else None, order="C")


def _npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    """As np.savez, which takes no array of the name "file"."""
    content = BytesIO()
    with ZipFile(content, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
    return content.getvalue()


def _from_npz(content: bytes) -> dict[str, np.ndarray]:
    return dict(np.load(BytesIO(content), allow_pickle=False))


def _safetensors(arrays: Mapping[str, np.ndarray]) -> bytes:
    return _library("safetensors.numpy").save(dict(arrays))


def _from_safetensors(content: bytes) -> dict[str, np.ndarray]:
    return {name: _array(**view) for name, view in _library("safetensors").deserialize(content)}


def _array(dtype: str, shape: list[int], data: bytes) -> np.ndarray:
    """The array of a tensor that is stored as F32, I64, BOOL; BF16 is the upper half of a float32."""
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    kind = "?" if dtype == "BOOL" else f"<{dtype[0].lower()}{int(dtype[1:]) // 8}"
    return np.frombuffer(data, kind).reshape(shape)


def _from_torch(content: bytes) -> dict[str, np.ndarray]:
    torch = _library("torch")
    state = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    if others := [name for name, x in state.items() if not isinstance(x, torch.Tensor)]:
        raise ValueError(f"{others[0]!r} in it is no tensor; save model.state_dict() alone")
    return {name: (x.float() if x.dtype == torch.bfloat16 else x).detach().numpy() for name, x in state.items()}


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(
            f"this kind of file needs {package}: pip install {package}; .npz needs nothing else."
        ) from error


WRITERS = {".npz": _npz, ".safetensors": _safetensors}
READERS = {".npz": _from_npz, ".safetensors": _from_safetensors, ".pth": _from_torch, ".pt": _from_torch}
