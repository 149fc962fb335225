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
from minigrad.devices.random import random_state, set_random_state
from minigrad.errors import require
from minigrad.nn.module import Module

RANDOM = "random numbers"  # the name of their state, which no part can have


def save(path: str | Path, state: Module | Mapping[str, Any] | None = None, /, **parts: Any) -> None:
    """Write a state to a file `.npz` or `.safetensors`, whole or not at all.

    `save("weights.npz", model)`: the state of a module, or arrays by name. `save("run.npz", model=model,
    optimizer=optimizer, epoch=3)`: a checkpoint of everything with a `state_dict`, of numbers and arrays, and of the
    random numbers. bfloat16 is stored as float32, which has the same values. Raises ValueError for another kind of
    file, OSError where it cannot be written.
    """
    named = dict(require("save", _state_of(state), Mapping, "a module or arrays by name") if state is not None else {})
    if bool(parts) == (state is not None):
        raise TypeError("save takes a path, and either a module or parts by name: model=model, optimizer=optimizer.")
    for part, value in parts.items():
        own = _state_of(value)
        named |= {f"{part}.{name}": x for name, x in own.items()} if isinstance(own, Mapping) else {part: own}
    named |= {RANDOM: random_state()} if parts else {}
    arrays = {name: _plain(to_host(np.asarray(x), who=f"save: {name}")) for name, x in named.items()}
    path, pack = _format("save", path, WRITERS)
    write(path, pack(arrays))


def load(path: str | Path, model: Module | None = None, /, **parts: Any) -> dict[str, np.ndarray]:
    """The arrays of a file by name. What is given as in `save` goes on with them.

    `load("weights.npz", model)` gives them to `model.load_state_dict`. `load("run.npz", model=model,
    optimizer=optimizer)["epoch"]` resumes a run: each part takes its own, the random numbers go on, and the rest is
    returned; where a part raises, none has changed. The end of the path names the kind of file: `.npz`, `.safetensors`,
    or `.pth` and `.pt` of PyTorch. Nothing but arrays is unpickled. Raises ValueError for another kind and for a
    damaged file, ImportError where safetensors or torch is missing.
    """
    path, unpack = _format("load", path, READERS)
    content = path.read_bytes()
    try:
        arrays: dict[str, np.ndarray] = unpack(content)
    except ImportError:
        raise
    except Exception as error:  # each library has errors of its own for damaged bytes
        raise ValueError(f"load: {path} is damaged, or no {path.suffix} of arrays by name: {error}") from error
    if model is not None:
        require("load", model, Module, "a path and a module").load_state_dict(arrays)
    return _resume(arrays, parts) if parts else arrays


def _resume(arrays: dict[str, np.ndarray], parts: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Give each part its state, and return what is left. Where one raises, those before it are as they were."""
    if other := next((part for part, value in parts.items() if not hasattr(value, "load_state_dict")), ""):
        raise TypeError(f"load: {other} takes no state; leave it out, and it is in what load returns.")
    before = []
    try:
        for part, value in parts.items():
            own = {name: arrays.pop(name) for name in [*arrays] if name.startswith(f"{part}.")}
            before.append((value, value.state_dict()))
            value.load_state_dict({name.removeprefix(f"{part}."): x for name, x in own.items()})
    except Exception:
        for value, state in before:
            value.load_state_dict(state)
        raise
    if RANDOM in arrays:
        set_random_state(arrays.pop(RANDOM))
    return arrays


def _state_of(value: Any) -> Any:
    return value.state_dict() if hasattr(value, "state_dict") else value


def _format(who: str, path: str | Path, known: Mapping[str, Any]) -> tuple[Path, Any]:
    """The path, and what belongs to its end. Raises ValueError."""
    path = Path(require(who, path, str | Path, "a path first")).expanduser()
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
