"""A reader's text in place of a kernel."""

from collections.abc import Mapping, Sequence
from typing import Any

from minigrad.devices import base
from minigrad.kernel import Kernel
from minigrad.launch import Launch
from minigrad.memo import Memo
from minigrad.microscope import Microscope
from minigrad.signature import Param

CELL = "cell.cu"  # what messages call the reader's text


class Endless(Exception):
    """A launch took too long: those that come after it would, too."""


class Written(Kernel):
    """A reader's text in place of a kernel. Raises ValueError where it defines no such kernel."""

    def __init__(self, right: Kernel, text: str):
        vars(self).update(vars(right))
        vars(self).pop("parts", None)
        self.source = right.source.with_kernel(text, CELL)
        self.signature = self.source.signature(right.name)
        self._modules, self._plans = Memo(), Memo()
        self.waits = True
        self.numbers: dict[str, int] = {}  # of the last launch; shared by all that `using` makes of this one
        self.launched: set[base.Dim3] = set()  # the blocks that it was launched with; shared, too
        self.printed = False  # whether the reader has seen what it prints
        self.report: Microscope | None = None  # what watches the launches
        if _types(self.signature.params) != _types(right.signature.params):
            ours, yours = (", ".join(map(str, k.signature.params)) for k in (right, self))
            raise ValueError(f"{self.name} must take ({ours}); yours takes ({yours}).")

    def launch(self, *sizes: int, **named: int) -> Launch:
        """Remember the sizes that are not as they are by default, then plan."""
        planned = super().launch(*sizes, **named)
        self.numbers |= {name: size for name, size in planned.sizes.items() if size != self.sizes[name]}
        return planned

    def run(
        self, args: Sequence[Any], grid: base.Dim3, block: base.Dim3, shared: int, values: Mapping[str, int]
    ) -> None:
        """Remember the launch's numbers, then run. Raises Endless where a watched launch had to be stopped."""
        pairs = zip(self.signature.params, args, strict=False)
        self.numbers |= {param.name: arg for param, arg in pairs if param.type == "int" and not param.pointer}
        self.numbers |= values
        self.launched.add(block)
        super().run(args, grid, block, shared, values)
        if self.report and any(problem.kind == "timeout" for problem in self.report.launches[-1].problems):
            raise Endless


def _types(params: Sequence[Param]) -> list[Param]:
    return [param._replace(name="", const=param.const and param.pointer) for param in params]
