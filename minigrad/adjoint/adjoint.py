"""`mg.adjoint`: the reverse-mode derivative of a kernel, as CUDA C++, as kernels to launch and as a notebook's page."""

import gc
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minigrad.adjoint import run as launches
from minigrad.adjoint.analyse.activity import chosen, floats_decide, numbers
from minigrad.adjoint.derive import derive
from minigrad.adjoint.emit.assemble import AdjointFile, reading
from minigrad.adjoint.emit.decisions import decisions
from minigrad.adjoint.examine import at_own_line, check_reading, examine, launch_key, types_apart
from minigrad.adjoint.frontend.file import TOO_DEEP, parse
from minigrad.adjoint.language import dataflow
from minigrad.adjoint.language.ast import own_name
from minigrad.display import column
from minigrad.errors import LaunchError, short
from minigrad.kernels.extents import Extent
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.source_kernel import SourceKernel, refuse_names, source_of
from minigrad.kernels.source_kernel import kernel as compiled
from minigrad.kernels.structs import is_private
from minigrad.source import Source
from minigrad.tensor import Tensor

if TYPE_CHECKING:
    from minigrad.microscope import Inspection


@contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's search for cycles, which would go through hundreds of thousands of parts of a tree, often."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class Adjoint:
    """The adjoint of a kernel: given the gradients of its outputs, it adds up those of its inputs.

    source is its CUDA C++, kernels its compiled kernels, decisions the table of the values that are recomputed, saved
    or taped and of the sums of each gradient. outputs and wrt name the parameters whose gradients go in and come out.
    """

    def __init__(self, primal: Kernel, wrt: Sequence[str] | None = None, null: frozenset[str] = frozenset()):
        self.primal, self._examined, self._compared = primal, set[tuple](), False
        self.narrowed, self.null, self._others = wrt is not None, null, dict[frozenset[str], Adjoint]()
        self.slots, self._built = launches.SLOTS, dict[tuple, tuple[Kernel, ...]]()
        tunables = {k: v for k, v in primal.values.items() if k in primal.source.tunables}
        self.defines = {**primal.defines, **tunables}
        with uncollected():
            self._derive(wrt)

    def _derive(self, wrt: Sequence[str] | None) -> None:
        primal, source = self.primal, self.primal.source
        if isinstance(primal, SourceKernel):
            primal.check_types()
        self.file = parse(
            source.device_text, source.name, primal.name, self.defines, source.template_values, self._included,
            [(each.name, each.device_text) for each in source.chain[:-1]], self.null,
        )  # fmt: skip
        kernel = self.file.kernel
        for p in primal.signature.params:
            if is_private(p.members) and p.type.partition("<")[0] not in self.file.definitions:
                why = f"{p.type} has private members in a header; make them public there, or put its text in this file."
                raise self.file.error(kernel.place, why)
        try:
            self._deciding = "iubf" if floats_decide(kernel) else "iub"  # kinds that decide on elements touched
            self.outputs = tuple(dict.fromkeys(map(own_name, dataflow.outputs(kernel))))
            self.idle = bool(self.null) and not self.outputs  # without its arrays the kernel does nothing
            self.wrt = tuple(wrt or ()) if self.idle else chosen(self.file, wrt)
            if self.idle:
                return
            self.derived, self.assembled = derive(self.file, numbers(kernel, self.wrt))
            self.decisions = decisions(self.derived)
        except RecursionError:
            raise self.file.error(kernel.place, TOO_DEEP) from None

    def _included(self, name: str, path: str) -> tuple[str, str] | None:
        """The text and the path of a file that the one at a path, or the kernel's own, includes.

        Of CUDA's only those of complex numbers and of constants are read, which are made of others.
        """
        from minigrad.simulator.translate import NATIVE

        found = self.primal.source.find(name, Path(path).parent if path else self.primal.source.folder)
        if found is None:
            own, read = NATIVE / name, name in ("cuComplex.h", "math_constants.h")
            return (own.read_text() if read else "", name) if own.is_file() else None
        return found.read_text(errors="replace"), str(found)

    @property
    def source(self) -> str:
        """The CUDA C++ of the adjoint, a whole `.cu` file."""
        return self.assembled.text

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the adjoint: one, or several where a gradient needs a grid of its own."""
        return self.built({})

    def built(self, extents: Mapping[str, int], read: bool = False) -> tuple[Kernel, ...]:
        """The kernels for these extents of shared arrays that a launch gives; or the kernel itself as it was read."""
        key = (read, *extents.items())
        if key not in self._built:
            code = self.reading if read else self.assembled
            of, defines = self.primal.source, {**self.defines, **extents}
            ahead = of.before and replace(of.before, text="")  # its folder has files that the head includes
            source = Source(code.text, f"{self.primal.name}_{'read' if read else 'adjoint'}.cu", of.folder, ahead)
            made = SourceKernel if isinstance(self.primal, SourceKernel) else Kernel
            self._built[key] = tuple(
                made(replace(source, kernel=of.kernel and entry.name), entry.name, defines=defines)
                for entry in code.entries
            )
            for kernel in self._built[key]:
                kernel.waits = True
        return self._built[key]

    @cached_property
    def reading(self) -> AdjointFile:
        """The kernel as it was read, from which the adjoint is made."""
        return reading(self.file)

    def given(self, args: Sequence[Any]) -> "Adjoint":
        """The adjoint for a launch with these arguments: where arrays are None, that of the branches which run then."""
        null = launches.absent(self.primal, self.file.kernel, args)
        if null == self.null:
            return self
        if null not in self._others:
            if not (left := [name for name in self.wrt if name not in null]):
                raise TypeError(f"{self.primal.name}: all that wrt names is None and has no gradient; give an array.")
            made = Adjoint(self.primal, left, null)
            made.outputs = () if made.idle else tuple(name for name in self.outputs if name not in null)
            self._others[null] = made
        return self._others[null]

    def _without(self, made: "Adjoint", args: Sequence[Any], dy: Any, **extents: Any) -> list[Any]:
        """The gradients of a launch without some arrays, which have none."""
        if made.idle:
            given = launches.named(self.primal, self.file.kernel, args)
            return [launches.zeros(given[name]) if name in made.wrt else None for name in self.wrt]
        made.prepared(args, **extents)  # what is wrong with the arguments is told ahead of what is wrong with dy
        if isinstance(dy, list | tuple) and len(dy) == len(self.outputs):
            if name := next((n for n, d in zip(self.outputs, dy, strict=True) if d is not None and n in made.null), ""):
                raise LaunchError(f"{self.primal.name}: dy of {name} is given, and {name} is None.")
            dy = [d for n, d in zip(self.outputs, dy, strict=True) if n not in made.null]
        found = dict(zip(made.wrt, made.vjp(*args, dy=dy, **extents), strict=True))
        return [found.get(name) for name in self.wrt]

    def set_constants(self, kernels: Sequence[Kernel]) -> None:
        """Give __constant__ variables of the adjoint the values that the kernel's own have."""
        for name, value in getattr(self.primal, "constants", {}).items():
            for kernel in kernels:
                if isinstance(kernel, SourceKernel) and re.search(rf"\b{name}\b", kernel.source.text):
                    kernel.constants[name] = value  # which has its type already

    def vjp(
        self, *args: Any, dy: Any = None, grid: Extent | None = None, block: Extent | None = None, shared: int = 0,
        **named: Any,
    ) -> list[Any]:  # fmt: skip
        """The gradients of `wrt`, in order: v^T J for v the gradients `dy` of the outputs.

        args are those of the kernel, tensors or arrays, with the values from which it starts; none is changed, and the
        gradients are of the same kind. A number in a tensor has a gradient of that tensor's shape and dtype. dy lists
        the gradient of each of `outputs`; None means zeros. An array x to which a member of a struct d points is d_x
        in `wrt` and `outputs`. grid, block and shared, the bytes of `extern __shared__` memory, are those of the
        kernel's own launch. An array that the kernel asks for, as in `if (w) v *= w[i];`, may be None; then it has no
        gradient, None.

        A kernel in which two threads race for an element has no gradient; the adjoint of one without a race has none
        either: it adds without atomics only where the source proves that an index belongs to one thread, or where the
        kernel itself stores into the element. The data decide whether `y[index[i]] = x[i]` races. A launch on `sim` of
        at most 4096 threads is therefore run under the microscope first, once for each grid, block and content of its
        integer arguments, and of its floating-point ones where these decide which elements are touched, as in
        `if (x[i] > 0) y[0] = x[i]`; a larger launch, or one on `cuda`, is assumed to be free of races.

        That the adjoint is of what the compiler makes of the text is tried, too: the kernel as it was read, `reading`,
        must store the values that the kernel stores, in the first launch and in all that are run under the microscope.

        Raises NotDifferentiable at a race or at such other values, and KernelError where the microscope sees what would
        end a launch, such as an access out of bounds; it warns of a value that nobody has set. Raises TypeError and
        LaunchError for arguments and gradients that do not fit the kernel, as its launch does, and LaunchError where an
        array that is written shares memory with another or where the launch does not have the extents on which the
        adjoint relies.
        """
        refuse_names(self.primal, named)
        if (made := self.given(args)) is not self:
            return self._without(made, args, dy, grid=grid, block=block, shared=shared)
        run = self.prepared(args, grid, block, shared)
        kernels = self.built(run.shared_extents) if run.shared_extents else self.kernels
        self.set_constants(kernels)
        upstream = launches.upstream(run, self.outputs, dy)
        key = launch_key(self.primal, run, self._deciding)
        new = bool(key) and key not in self._examined
        after = examine(self.primal, run) if new else None
        with at_own_line(self.primal, run), types_apart(run, new, self._examined):
            sums, needed = launches.launch(kernels, self.assembled, run, upstream, self.slots)
            while needed is not None and (slots := int(needed.numpy()[0])) > self.slots:
                self.slots = slots  # the tapes were too short: discard this run
                sums, needed = launches.launch(kernels, self.assembled, run, upstream, slots)
        if new or not self._compared:
            self.set_constants(as_read := self.built(run.shared_extents, read=True))
            self._compared |= check_reading(self.primal, as_read[0], self.reading.entries[0], run, after)
        self._examined |= {key} if new else set()  # one that was refused is looked at again
        values = launches.named(self.primal, self.file.kernel, args)
        gradients = [launches.fitted(sums[name], values[name]) for name in self.wrt]
        if any(isinstance(a, Tensor) for a in values.values()):
            return [Tensor(d) for d in gradients]
        return [d.numpy() for d in gradients] if any(isinstance(a, np.ndarray) for a in values.values()) else gradients

    def inspect(
        self, *args: Any, dy: Any = None, grid: Extent | None = None, block: Extent | None = None, shared: int = 0,
        blocks: int = 1,
    ) -> list["Inspection"]:  # fmt: skip
        """The records of `kernels`, in their order, as `mg.inspect` returns them, from a run of `vjp` on `sim`.

        blocks: the number of blocks to count; all are checked. Raises as `vjp` does, and LaunchError for arrays on a
        GPU.
        """
        from minigrad.microscope import on_sim, watching

        with watching(blocks) as report:
            self.vjp(*on_sim(args), dy=dy, grid=grid, block=block, shared=shared)
        made = self.given(args)
        names = [kernel.name for kernel in made.kernels] if not made.idle else []
        return [record for record in report.launches if record.kernel in names][-len(names) :]

    def prepared(
        self, args: Sequence[Any], grid: Extent | None, block: Extent | None, shared: int = 0
    ) -> launches.PrimalLaunch:
        """The kernel's own launch, checked. Raises TypeError or LaunchError."""
        if (made := self.given(args)).idle:
            raise LaunchError(f"{self.primal.name}: without {', '.join(made.null)} it writes to no array of floats.")
        return launches.prepare(self.primal, made.derived, args, grid, block, shared)

    def __repr__(self) -> str:
        return self.source

    def _repr_html_(self) -> str:
        return page(self)


def adjoint(
    source_or_kernel: Kernel | str | Path, name: str | Sequence[str] | None = None, wrt: Sequence[str] | None = None
) -> Adjoint:
    """The reverse-mode adjoint of a kernel: `mg.adjoint("file.cu", "scale<float>", wrt=["x"])`.

    source_or_kernel is a kernel, CUDA C++, or the path of a `.cu` file; `name` chooses one of several kernels, as in
    `mg.kernel`. A kernel has its name, and wrt may come in its place: `mg.adjoint(kernel, ["x"])`. wrt names the
    floating-point parameters to differentiate with respect to; the default is all that reach an output. An output that
    is only written counts where the data decide which of its elements are: with `if (x[i] > 0) y[i] = x[i]`, not with
    `if (i < n) y[i] = x[i]`. For such a y, wrt=["x", "y"] includes its gradient, that of the elements left alone. A
    function `__device__ float detach(float x) { return x; }` of the file stops gradients. Raises NotDifferentiable,
    with line and column, where the kernel is outside the differentiable subset.
    """
    if not isinstance(name, str | None):
        if wrt is not None:
            raise TypeError(f"mg.adjoint: name is a text, and wrt comes once; got {short(name)} and {short(wrt)}.")
        name, wrt = None, name
    if isinstance(source_or_kernel, Kernel):
        if name not in (None, source_or_kernel.name):
            why = f"the kernel given is {source_or_kernel.name}; name={name!r} is for a source, wrt=[{name!r}] for"
            raise ValueError(f"mg.adjoint: {why} a parameter.")
        return Adjoint(source_or_kernel, wrt)
    source_of("mg.adjoint", source_or_kernel)
    return Adjoint(compiled(source_or_kernel, name), wrt)


# The page scrolls within its own height. The kernel stays in sight while its longer adjoint scrolls past it.
PANES = "display:flex;flex-wrap:wrap;gap:8px;align-items:flex-start;max-height:440px;overflow-y:auto;resize:vertical"
SHARES = (  # of the width
    "flex:9 1 25em;min-width:0;position:sticky;top:0;max-height:440px;overflow-y:auto",
    "flex:10 1 28em;min-width:0",
)
REASONS = "max-height:190px;overflow-y:auto"  # under a slider all of it has to fit in a window of 1280 x 800
TINTS = ("#d6e6fa", "#fbe3c8", "#d8efd9", "#ecdcf3", "#f8efb2")  # background colours, in turn
REVERSED = re.compile(r"// adjoint of line (\d+)[:,]")  # of the kernel's own file


def page(made: Adjoint) -> str:
    """HTML without a script: the kernel next to its adjoint, each line in the colour of the comment that names it."""
    source, primal = made.kernels[0].source, made.primal.source
    # the functions and kernels of the adjoint's file, after the head of the primal's file
    begin = source.text.index([*made.assembled.functions, source.kernel_text(made.kernels[0].name)[1]][0])
    first, own = source.text.count("\n", 0, begin) + 1, source.text[begin:].rstrip()
    reverses = {n: int(found[1]) for n, line in enumerate(own.split("\n"), first) if (found := REVERSED.search(line))}
    colours = {line: TINTS[k % len(TINTS)] for k, line in enumerate(sorted(set(reverses.values())))}
    left = [(f.text, f.place.line, f.place.file or primal.name, {} if f.place.file else colours)
            for f in made.file.functions.values()]  # fmt: skip
    line, text = primal.kernel_text(made.primal.name)
    left.append((text, line, primal.name, colours))
    right = [(own, first, source.name, {n: colours[r] for n, r in reverses.items()})]
    columns = "".join(
        f'<div style="{share}">{"".join(column(*text) for text in texts)}</div>'
        for share, texts in zip(SHARES, (left, right), strict=True)
    )
    return f'<div style="{PANES}">{columns}</div><div style="{REASONS}">{made.decisions._repr_html_()}</div>'
