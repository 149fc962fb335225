"""Pictures, tables and sliders for a notebook: the only folder that imports matplotlib and ipywidgets.

Every function returns a record that shows itself when it is the last line of a cell, and prints its numbers as text.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "code": ("highlight",),
    "tables": ("Table", "table"),
    "picture": ("Picture",),
    "tapes": ("Graph", "graph"),
    "launches": ("block_slider", "threads"),
    "sliders": ("Slider", "slider"),
    "choices": ("tuning", "tuning_slider"),
    "roofs": ("roofline",),
    "regrets": ("regret",),
    "counts": ("loads",),
    "rungs": ("ladder", "rung", "rung_slider"),
    "broadcasting": ("broadcast",),
    "matrices": ("matmul", "step_slider"),
    "lanes": ("banks", "sectors"),
    "phases": ("phases",),
    "warps": ("divergence", "idle"),
    "curves": ("loss_curve",),
    "maps": ("fields", "lines"),
    "adjoints": ("adjoint_costs", "adjoint_growth"),
    "steps": ("memory",),
    "bar": ("progress",),
    "mistakes": ("mistake",),
    "predictions": ("confusion", "images", "wrong_predictions"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)  # found at their first use, so that a kernel's listing needs no matplotlib


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"minigrad.show has no {name!r}; it has {', '.join(__all__)}.")
    try:
        found = getattr(import_module(f"minigrad.show.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("minigrad"):
            raise
        raise ImportError(f"show.{name} needs {error.name}: pip install 'minigrad-cuda[lab]'.") from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
