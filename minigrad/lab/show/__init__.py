"""Pictures, tables and sliders for a notebook: the only folder that imports matplotlib and ipywidgets.

Every function returns a record that a cell displays when it is the last line, and that prints its numbers as text.
"""

from importlib import import_module
from typing import Any

_HOMES = {  # a public function must not have the name of a module here: importing the module would replace it
    ".tape": ("TapeDrawing", "graph"),
    ".launch": ("block_slider", "threads", "matmul", "step_slider"),
    ".sliders": ("Slider", "slider"),
    ".output": ("progress", "mistake"),
    ".tunables": ("tuning", "tuning_slider", "regret"),
    ".rooflines": ("roofline",),
    ".matmul_ladder": ("loads", "ladder", "rung", "rung_slider"),
    ".clock": ("clock_under_load",),
    ".broadcasting": ("broadcast",),
    ".memory_order": ("row_major",),
    ".accesses": ("banks", "costliest", "sectors"),
    ".warps": ("divergence", "idle"),
    ".processor": ("chip",),
    ".barriers": ("phases",),
    ".history": ("timeline",),
    ".adjoint": ("adjoint_costs", "adjoint_growth"),
    ".training": ("memory", "confusion", "images", "loss_curve", "step_time", "wrong_predictions"),
    ".maps": ("fields", "lines", "photos"),
    ".convolution_ladder": ("convolutions",),
    ".index_maps": ("terms",),
    ".layers": ("layer_times",),
    ".recurrent": ("shares", "unrolled"),
    ".ranks": ("rank_timeline", "ring"),
    ".speedups": ("rank_speedups", "scaling", "sequence_rungs", "step_times", "thread_speedups"),
    ".draw.picture": ("Picture",),
    "minigrad.display": ("Table", "highlight", "table"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)  # imported at first use, so that a kernel's listing needs no matplotlib


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"minigrad.lab.show has no {name!r}; it has {', '.join(__all__)}.")
    try:
        found = getattr(import_module(_HOME[name], __name__), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("minigrad"):
            raise
        raise ImportError(f"show.{name} needs {error.name}: pip install 'minigrad-cuda[lab]'.") from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
