"""The microscope: a kernel in its checking build, observed access by access. Needs no GPU.

`mg.inspect` looks at one launch; `watching` at all launches within it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.devices import check, get, through
from minigrad.devices.array import Array
from minigrad.errors import LaunchError, a
from minigrad.kernels.kernel import Kernel, source_of
from minigrad.kernels.kernel import kernel as compiled
from minigrad.kernels.launch import Extent, Launch
from minigrad.microscope.counts import Branch, Line
from minigrad.microscope.problem import Access, Problem
from minigrad.microscope.record import Inspection
from minigrad.microscope.variables import Variable
from minigrad.microscope.watch import Microscope
from minigrad.source import Source

__all__ = ["Access", "Branch", "Inspection", "Line", "Microscope", "Problem", "Variable", "inspect", "watching"]


@contextmanager
def watching(blocks: int = 0) -> Iterator[Microscope]:
    """Watch every launch of this thread on `sim`: `with watching() as report: mg.matmul(a, b)`, then `report.problems`.

    report.launches has a record for each launch, as `mg.inspect` returns it. The first `blocks` blocks of each are
    counted; the checks are made in all blocks. What a kernel does wrong does not raise here.
    """
    microscope = Microscope(blocks)
    with through(microscope):
        yield microscope


def inspect(
    kernel: Kernel | Launch | str | Path,
    *args: Any,
    grid: Extent | None = None,
    block: Extent | None = None,
    shared: int = 0,
    blocks: int = 1,
    outputs: Sequence[str] = (),
    name: str | None = None,
    defines: Mapping[str, Any] | None = None,
) -> Inspection:
    """Run a kernel on `sim` and return what it did: problems, counts of each line, traffic of each thread.

    kernel is one of the package, `mg.transpose["tiled"]`; a planned launch of it, `.launch(64, 64)`, which brings its
    grid and block; or CUDA C++ with one kernel, else `name` says which. args are as for a launch; NumPy arrays are
    uploaded, and what the kernel wrote is copied back into them. The first `blocks` blocks are counted, all are
    checked. outputs names parameters of which every element must be written, and none with NaN. __device__ variables
    begin as the file sets them, whatever an earlier call has left there.

    A race is two accesses of one element, one of them a write, that nothing orders however the threads are scheduled.
    Orders are made by __syncthreads, for the lanes of its mask by __syncwarp, and by a release: what a thread did, and
    what barriers and releases had ordered before, comes before its __threadfence; an atomic or volatile write after it
    releases that, and a thread that finds it there, by an atomic or a volatile read of the same word, has acquired it.
    __threadfence_block and atomics as atomicAdd_block do so within a block alone. A fence behind the acquiring read is
    not asked for. Where blocks meet at a word, by atomics or volatile accesses, or an order hangs on a release, the
    launch is watched a second time, the last block and the last thread first: what was in order by luck is not, and
    who found nothing at the word may now find it. In between, a thread hands over to others at each atomic only, and a
    block runs after the other: two blocks that change an element between two atomics each, and wait for nobody, are
    not seen. Atomics do not race, nor in global memory does one thread's volatile write with volatile reads.

    Not seen: an index outside its row but inside the array, where the row was taken as a pointer (float* row = s[r]),
    or one behind it by a reference (float& v = s[r][n]), or outside a thread's own array by a pointer; one that
    leaves a part of a dynamic shared array (`b = s + n`) for the next, as no part has an extent in the source; one
    that leaves a __device__ array by a pointer for the next of the same declaration, or where the array is static or
    const; a member that nobody set, of a shared struct that is copied whole and has others that are set; two calls of
    one function that has a barrier, in both branches of an if; different masks that lanes give to one shuffle, where
    none is left to wait for; a whole number that a shuffle brings from a lane that has returned or is not in the
    mask, as what it brings may be left unused; of a float it is NaN. To Clang, who sets a bit-field reads it first:
    in shared memory that was not filled before, this is a finding.

    Counted is the text as it stands, with the lanes together again behind each branch and turn. nvcc may make of it
    another: one load of two branches, one of neighbouring members, an unrolled loop that lanes leave apart. Of 116
    counts of small kernels with branches, loops, structs and calls, 97 were those of an H200 (nvcc 13.0, 2026-11-21),
    and 19 differed by that.

    Not counted: accesses outside an array, which are problems instead, and those of constants and of a thread's own
    arrays. Neither counted nor checked where the compiler is g++: what a whole number cannot depend on, as p[i] & 0 and
    p[i] * 0; and of equal reads at a constant index or by a pointer, as p[0] + p[0] or *p - *p, all or all but one. A
    GPU does not read them either, as nvcc leaves them out, and x[i] + x[i] it reads once; with clang++
    (MINIGRAD_CXX=clang++) each is there. In assert(s[p[i]] > 0) g++ may read p twice.

    Raises LaunchError, TypeError and CompileError as a launch does; what the kernel does wrong is in `.problems`.
    """
    a("mg.inspect", kernel, Kernel | Launch | str | Path, "a kernel, a planned launch, CUDA C++ or a .cu file's path")
    a("mg.inspect: outputs", outputs, str | Sequence, "a parameter's name or several")
    planned, launch = _launch(kernel, name, defines, grid, block, shared)
    microscope = Microscope(blocks, _names((outputs,) if isinstance(outputs, str) else outputs, planned), reset=True)
    _check_outputs(args, planned)
    uploaded = _on_sim(args)
    with through(microscope):
        launch(uploaded)
    if not microscope.launches:
        raise LaunchError("nothing to see: the launch has no blocks, as one of its sizes is 0.")
    record = microscope.launches[-1]
    _keep_outputs(args, uploaded, record)
    return record


def _launch(
    kernel: Kernel | Launch | str | Path, name: str | None, defines: Mapping[str, Any] | None,
    grid: Extent | None, block: Extent | None, shared: int,
) -> tuple[Kernel, Callable[[Sequence[Any]], None]]:  # fmt: skip
    """The kernel, and what runs it with its arguments."""
    if isinstance(kernel, Launch):
        planned = kernel
        if grid is not None or block is not None or shared:
            raise LaunchError(f"{planned.kernel.name}: a planned launch has its grid and block; give none here.")
        return planned.kernel, lambda args: planned(*args)
    if not isinstance(kernel, Kernel):
        kernel = compiled(kernel, name or _only_kernel(source_of("mg.inspect", kernel)), defines)
    if grid is None or block is None:
        raise LaunchError(f"{kernel.name}: give grid= and block=, or a planned launch: inspect(k.launch(...), ...).")
    return kernel, partial(_run, kernel, grid, block, shared)


def _run(kernel: Kernel, grid: Extent, block: Extent, shared: int, args: Sequence[Any]) -> None:
    kernel(*args, grid=grid, block=block, shared=shared)


def _only_kernel(source: Source) -> str:
    """The name of the one kernel."""
    if not source.kernels:
        raise LaunchError('the source has no kernel: extern "C" __global__ void name(...) { ... }.')
    if len(source.kernels) > 1:
        raise LaunchError(f"the source has {len(source.kernels)} kernels ({', '.join(source.kernels)}); say name=.")
    return next(iter(source.kernels))


def _names(outputs: Sequence[Any], kernel: Kernel) -> tuple[str, ...]:
    """The names of outputs. Raises TypeError and LaunchError for what names no array that the kernel may write."""
    written = [param.name for param in kernel.signature.params if param.pointer and not param.const]
    for name in outputs:
        a("mg.inspect: outputs", name, str, "a parameter's name or several")
        if name not in written:
            raise LaunchError(
                f"outputs={name!r} is no array that {kernel.name} may write; those are {', '.join(written) or 'none'}."
            )
    return tuple(outputs)


def _check_outputs(args: Sequence[Any], kernel: Kernel) -> None:
    """Raises LaunchError for a NumPy array that the kernel may write and that is read-only, or shares memory: each
    array is uploaded for itself, and what one has of another would be lost.
    """
    given = [(arg, param) for arg, param in zip(args, kernel.signature.params, strict=False) if _is_array(arg)]
    for arg, param in given:  # the launch counts them
        if not param.pointer or param.const:
            continue
        if not arg.flags.writeable:
            raise LaunchError(
                f"{kernel.name} writes {param.name}, and the NumPy array given for it is read-only; give x.copy()."
            )
        for other, its in given:
            if other is not arg and np.shares_memory(arg, other):
                raise LaunchError(
                    f"{kernel.name} writes {param.name}, which shares memory with {its.name}; give one array for both, "
                    "or x.copy()."
                )


def _is_array(arg: Any) -> bool:
    return isinstance(arg, np.ndarray) and arg.ndim > 0


def _on_sim(args: Sequence[Any]) -> list[Any]:
    """The arguments with NumPy arrays uploaded; one that is given twice stays one. Raises LaunchError for a GPU's."""
    sim, given = get(check("sim")), {}
    for arg in args:
        device = getattr(getattr(arg, "array", arg), "device", None)
        if getattr(device, "name", "sim") == "cuda":
            raise LaunchError("the microscope looks at kernels on sim, and an array is on cuda. Use x.to('sim').")
        if _is_array(arg) and id(arg) not in given:
            given[id(arg)] = Array.upload(sim, arg)
    return [given.get(id(arg), arg) for arg in args]


def _keep_outputs(args: Sequence[Any], uploaded: Sequence[Any], record: Inspection) -> None:
    """What the kernel may have written, in the record and in the NumPy arrays that it came from."""
    for arg, device, param in zip(args, uploaded, record.source.kernels[record.kernel].params, strict=True):
        if param.pointer and not param.const and device is not None:
            record.outputs[param.name] = getattr(device, "array", device).numpy()
            if device is not arg:
                arg[...] = record.outputs[param.name]
