"""Pictures, tables and sliders for a notebook: the only folder that imports matplotlib and ipywidgets.

Every function returns a record that shows itself when it is the last line of a cell, and prints its numbers as text.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "tape": ("Graph", "graph"),
    "launch": ("block_slider", "threads", "matmul", "step_slider"),
    "widgets": ("Slider", "slider", "progress", "mistake"),
    "tuning": ("tuning", "tuning_slider", "roofline", "regret"),
    "matmul": ("loads", "ladder", "rung", "rung_slider"),
    "broadcast": ("broadcast",),
    "warp": ("banks", "sectors", "divergence", "idle"),
    "phases": ("phases",),
    "adjoint": ("adjoint_costs", "adjoint_growth"),
    "training": ("memory", "confusion", "images", "wrong_predictions"),
    "draw.picture": ("Picture",),
    "draw.curves": ("loss_curve",),
    "draw.maps": ("fields", "lines"),
    "minigrad.display": ("Table", "highlight", "table"),
}
_HOME = {
    name: home if home.startswith("minigrad") else f"{__name__}.{home}"
    for home, names in _HOMES.items()
    for name in names
}
__all__ = sorted(_HOME)  # found at their first use, so that a kernel's listing needs no matplotlib


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"minigrad.lab.show has no {name!r}; it has {', '.join(__all__)}.")
    try:
        found = getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("minigrad"):
            raise
        raise ImportError(f"show.{name} needs {error.name}: pip install 'minigrad-cuda[lab]'.") from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
