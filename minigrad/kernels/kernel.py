"""Kernel: one `__global__` function, checked, compiled and launched the same way on `sim` and `cuda`."""

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.devices import for_launch
from minigrad.devices.caches import Cache
from minigrad.devices.device import MAX_BLOCK, MAX_GRID, Dim3
from minigrad.errors import LaunchError
from minigrad.kernels import arguments
from minigrad.kernels.extents import Extent, Span, check_limits, dim3, parse_sizes
from minigrad.kernels.launch import Launch, complete_sizes
from minigrad.source import Listing, Signature, Source

RETUNED: list[Callable[[], Any]] = []  # called after every change of preferred tunables, of any kernel


class Kernel:
    """A kernel of a `.cu` file, with the rule by which its grid and block follow from the sizes of its work.

    grid and block are tuples of words: "n/BLOCK" is ceil(n / BLOCK), "rows" and "BLOCK" are themselves. sizes names the
    arguments of `launch`, e.g. "m n k batch=1". A tunable is a tuple of its legal values, the default first; where the
    `.cu` has a macro of that name, the value is compiled in. fit(sizes by name) chooses values of tunables for a
    launch, unless `using` has set them. shared: bytes of dynamic shared memory per launch, a number or such a word.
    cooperative: its blocks may wait for each other, as at a barrier of the grid, so all of them run at once.
    """

    def __init__(
        self,
        source: Source | str,
        name: str,
        grid: tuple[str, ...] = (),
        block: tuple[str, ...] = (),
        sizes: str = "",
        defines: Mapping[str, Any] | None = None,
        fit: Callable[..., dict[str, int]] | None = None,
        shared: int | str = 0,
        cooperative: bool = False,
        **tunables: tuple[int, ...],
    ):
        self.source = Source.read(source) if isinstance(source, str) else source
        self.name = name
        self.grid, self.block = (tuple(Span(*words.split("/")) for words in extent) for extent in (grid, block))
        self.sizes = parse_sizes(sizes)
        self.tunables, self.fit, self.memory = tunables, fit, Span(*str(shared).split("/"))
        self.values = {key: legal[0] for key, legal in tunables.items()}
        self.defines = {key: str(int(v) if isinstance(v, bool) else v) for key, v in (defines or {}).items()}
        self.cooperative = cooperative
        self.waits = False  # a kernel of the reader's own reports its faults at its own launch
        self._modules = Cache()  # compiled code by device, type and tunables
        self._plans = Cache()  # launches by their sizes
        self._preferred: dict[tuple[int, ...], dict[str, int]] = {}  # values for these sizes, chosen by `tune.auto`

    def using(self, **values: int) -> "Kernel":
        """The same kernel with other values for its tunables."""
        other = copy.copy(self)
        other.values = self.values | self._legal(values)
        other.fit, other._plans, other._preferred = None if values else self.fit, Cache(), {}
        return other

    def prefer(self, sizes: tuple[int, ...], values: Mapping[str, int]) -> None:
        """Use these values for launches of these sizes, and of sizes nearer to these than to other preferred ones."""
        self._preferred[sizes] = self._legal(dict(values))
        self._retuned()

    shared = property(lambda self: self.memory.value(self.values), doc="The bytes of dynamic shared memory.")

    @property
    def planned(self) -> list[Launch]:
        """The launches in the cache."""
        return list(self._plans.values())

    def forget(self) -> None:
        self._preferred.clear()
        self._retuned()

    def _retuned(self) -> None:
        """Drop the planned launches, and call the listeners, which drop the calls that they prepared with them."""
        self._plans.clear()
        for listener in RETUNED:
            listener()

    def preferred(self, *sizes: int) -> dict[str, int]:
        """The preferred values of the nearest sizes: distance = sum of |log2| ratios, in whole doublings."""

        def distance(other: tuple[int, ...]) -> int:
            return sum(abs(a.bit_length() - b.bit_length()) for a, b in zip(sizes, other, strict=False))

        return self._preferred[min(self._preferred, key=distance)] if self._preferred else {}

    def launch(self, *sizes: int, **named: int) -> Launch:
        """The launch for these sizes and tunables: it shows its arithmetic, and runs when it is called."""
        if planned := self._plans.get((*sizes, *named.items())):
            return planned
        chosen = self._legal({key: value for key, value in named.items() if key not in self.sizes})
        work = complete_sizes(self, sizes, {key: named[key] for key in named if key in self.sizes})
        fitted = self.fit(**work) if self.fit else {}
        values = self.values | fitted | self.preferred(*work.values()) | chosen
        return self._plans.keep((*sizes, *named.items()), Launch.plan(self, work, values))

    def __call__(self, *args: Any, grid: Extent | None = None, block: Extent | None = None, shared: int = 0) -> None:
        """Run the kernel over an explicit grid; it writes its outputs in place."""
        self.run(args, *self.extents(grid, block, shared), shared, self.values)

    def extents(self, grid: Extent | None, block: Extent | None, shared: int = 0) -> tuple[Dim3, Dim3]:
        """Grid and block of an explicit launch as (x, y, z). Raises LaunchError beyond CUDA's limits."""
        if grid is None or block is None:
            raise LaunchError(
                f"{self.name}: give grid=, how many blocks, and block=, how many threads in each of them."
            )
        blocks, threads = dim3(self.name, "grid", grid, MAX_GRID), dim3(self.name, "block", block, MAX_BLOCK)
        check_limits(self, blocks, threads, shared, self.values)
        return blocks, threads

    def run(self, args: Sequence[Any], grid: Dim3, block: Dim3, shared: int, values: Mapping[str, int]) -> None:
        """Check the arguments, compile at the first use, launch."""
        bound = arguments.bind(self.name, self.signature.params, args)
        device = for_launch(bound.device)
        key = (device.name, bound.real, tuple(values.items()))
        if not (module := self._modules.get(key)):
            module = self._modules.keep(key, device.build(self.source, self.macros(values, bound.real), self.name))
        for tensor in bound.written:
            tensor.written_by(self.name)
        bound.arguments.cooperative = self.cooperative
        device.launch(module, self.name, grid, block, shared, bound.arguments)
        if self.waits:
            device.synchronize()

    def macros(self, values: Mapping[str, int], real: np.dtype) -> dict[str, str]:
        """The macros of a build: the user's, the tunables that the text contains, and `real` where it is open."""
        known = {key: str(value) for key, value in values.items() if key in self.source.tunables}
        return self.defines | known | {w: arguments.c_type(w, real) for w in self.source.open_types}

    def _legal(self, values: dict[str, int]) -> dict[str, int]:
        for key, value in values.items():
            if key not in self.tunables:
                known = ", ".join([*self.sizes, *self.tunables]) or "no sizes; macros are the defines= of mg.kernel"
                raise LaunchError(f"{self.name} knows no {key}; a launch of it takes {known}.")
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise LaunchError(f"{self.name}: {key}={value!r} must be a whole number of at least 1.")
        return values

    @cached_property
    def signature(self) -> Signature:
        """Its parameters and its place in the text, read at the first use: `import minigrad` parses few files."""
        return self.source.signature(self.name)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The titles of the marked regions of the kernel's text."""
        return tuple(self.source.parts(self.name))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the output parameters: pointers that are not const."""
        return tuple(param.name for param in self.signature.params if param.pointer and not param.const)

    @property
    def text(self) -> str:
        """The CUDA C++ of this kernel alone."""
        return self.source.kernel_text(self.name)[1]

    def part(self, title: str) -> Listing:
        """One marked region, `// [title]` in the `.cu`, with its line numbers."""
        if title not in self.parts:
            raise ValueError(f"{self.name} has no part {title!r}; its parts are {', '.join(self.parts) or 'none'}.")
        return self.source.parts(self.name)[title]

    def standalone(self, path: str | Path, *args: Any, **named: Any) -> Listing:
        """Write a launch as a CUDA C++ program. Arguments: as for a call with grid= and block=, or for `mg.inspect`."""
        return import_module("minigrad.lab.standalone").write(path, self, args, named)

    @property
    def listing(self) -> Listing:
        """The kernel's text with its line numbers in the file."""
        return Listing(self.source.name, *self.source.kernel_text(self.name))

    def __repr__(self) -> str:
        return repr(self.listing)

    def _repr_html_(self) -> str:
        return self.listing._repr_html_()
