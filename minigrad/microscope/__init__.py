"""The microscope: runs kernels in a checking build and observes every access. Needs no GPU.

`mg.inspect` observes one launch, `watching` all launches within it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.devices import check, get, through
from minigrad.devices.array import Array
from minigrad.errors import LaunchError, require
from minigrad.kernels.extents import Extent
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.kernels.source_kernel import kernel as compiled
from minigrad.kernels.source_kernel import refuse_names, source_of
from minigrad.microscope.counts import Branch, Line
from minigrad.microscope.op_kernel import FirstLaunch, OpKernel, not_on_gpu
from minigrad.microscope.problem import Access, Problem
from minigrad.microscope.record import Inspection
from minigrad.microscope.variables import Variable
from minigrad.microscope.watch import Microscope

__all__ = ["Access", "Branch", "Inspection", "Line", "Microscope", "Problem", "Variable", "inspect", "watching"]


@contextmanager
def watching(blocks: int = 0) -> Iterator[Microscope]:
    """Watch every launch of this thread on `sim`: `with watching() as report: mg.matmul(a, b)`, then `report.problems`.

    report.launches has a record for each launch, as `mg.inspect` returns it. The first `blocks` blocks of each are
    counted; all blocks are checked. A kernel's faults do not raise here.
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
    dy: Any = None,
    **named: Any,
) -> Inspection:
    """Run a kernel on `sim` and return the record: problems, counts of each line, traffic of each thread.

    A kernel of an op takes the op's inputs, parameters and its own tunables, `mg.inspect(mg.sum["tree"], x, axis=0,
    BLOCK=16)`: the op runs by this kernel, and the record is that of its first launch. For a kernel of the gradient the
    op runs forward, then backward from dy, the gradient of the output, by default ones.

    Any kernel also takes its own arguments, with grid= and block=: one of the package; a planned launch of it,
    `.launch(64, 64)`, which brings its grid and block; or CUDA C++ with one kernel, or with several and `name`. args
    are then as for a launch, and results are copied back into NumPy arrays.

    Inputs are NumPy arrays or tensors of a CPU device. The record's `outputs` has the results by the names of the
    kernel's parameters. blocks: the number of blocks to count; all are checked. outputs: names of parameters of which
    every element must be written, and none with NaN. __device__ variables start as the file sets them in each call.

    A race is two accesses of one element, at least one of them a write, with no happens-before order between them
    under any schedule of the threads. Such an order comes from __syncthreads, from __syncwarp for the lanes of its
    mask, from the sync of a cooperative group for its threads, and from release and acquire: a __threadfence covers
    what its thread did, and what barriers and releases had ordered before it; a later atomic or volatile write of the
    thread releases that, and a thread that finds the value, by an atomic or a volatile read of the same word, acquires
    it. __threadfence_block and atomics such as atomicAdd_block do so within a block. No fence is required after the
    acquiring read, except in a cooperative launch for what other blocks have released: there a block reads again what
    it has read in an earlier step, and its L1 cache may hold the old value. Atomics do not race with each other, nor in
    global memory one thread's volatile write with volatile reads.

    Problems that are `.harmless` come behind others of their kind: races of writes that all write the same value, and
    barriers that threads miss by a `return`, which no barrier waits for (`missed-barrier`); one that threads go around,
    in a condition, is a fault, as is a __syncwarp, a vote or a reduction that lanes of its mask go around. Of a shuffle
    only a read from such a lane is a problem (`returned-lane`).

    The accesses of a function of CUDA's or C++'s headers have the reader's line that calls it, as have those of a copy
    constructor or an assignment of a struct.

    Where blocks meet at a word, by atomics or volatile accesses, or an order depends on a release, the launch runs a
    second time, with the last block and the last thread first: accesses that were ordered by luck no longer are, and a
    thread that found nothing at the word may now find the value. Within a run a thread yields at atomics only, and
    blocks run one after the other; those of a cooperative launch take turns, where all threads of one wait. So this is
    not seen: two blocks that both change an element between two of their atomics, and wait for nobody.

    Where C++ leaves a result open, and this processor's is not a GPU's, the launch goes on with the processor's and the
    problem is `unlike-gpu`: a float converted to an integer that cannot hold it, and a shift by all bits or more.

    Not seen: an index outside its row but inside the array, where the row was taken as a pointer (float* row = s[r]) or
    the element as a reference (float& v = s[r][n]), or outside a thread's own array by a pointer; one past a member of
    length 1 at the end of a struct that is reached by a pointer (there in C the length is open); one that leaves a part
    of a dynamic shared array (`b = s + n`) for the next, as parts have no extent in the source; one that leaves a
    __device__ array by a pointer for the next of the same declaration, or where the array is static or const; an unset
    member of a shared struct that is copied whole and has other members set, and unset bytes of a shared array of bytes
    that is read as another type; two calls of one function with a barrier, in both branches of an if; different masks
    of the lanes of one shuffle, where no lane is left to wait for; a value that a shuffle reads from a lane that is not
    in the mask, as it may remain unused, except where a float or double that was computed from it by arithmetic is
    written to an array (`inactive-lane`): fmaxf and fminf drop it, and halves are not seen. Of a thread's own
    variables, declared by a statement and never set, each read of a number or pointer is seen if nowhere in the file a
    function is handed its name, or a caller gets it (f(s), {s}, return s); of such a number and of a struct, as __half
    is one here, only statements that read and change it are (s += x, s = f(s, x), s++, if (x > s) s = x); and of arrays
    each read, of fewer than four bytes while nobody has set any of its word. Not seen is a value that is handed on: by
    a shuffle or a function or macro that leads to one, by a lambda that takes copies, or to another of the thread's
    variables by a whole statement on one line, as a shift register does (t = a[i]; or T t = a[i];), whatever is made of
    t later, and if t stands for memory by a reference or a pointer (t[i] = a[i]). Of an array of undefined memory
    (mg.empty) only elements of at least four bytes are seen that are read and changed (y[i] += x, atomicAdd). Not seen
    are bounds, races and first values of memory that a kernel takes by malloc or new. With g++, in a file with a
    destructor the read of a struct that is handed over by value is not seen. With Clang, an index right behind its row
    is not seen where a whole struct is read or written there; and setting a bit-field reads it first: in undefined
    shared memory that is reported.

    Counts are of the text as written, with lanes reconverged after each branch and iteration. nvcc may merge loads
    of two branches or of adjacent members, or unroll a loop whose lanes stay diverged. Of 116 counts of small kernels
    with branches, loops, structs and calls, 97 were those of an H200 (nvcc 13.0, 2026-11-21); the other 19 differed for
    these reasons.

    Not counted: accesses outside an array, which are problems instead, and those of constants and of a thread's own
    arrays. Neither counted nor checked with g++: operands that cannot affect an integer result, as in p[i] & 0 and
    p[i] * 0; and of equal reads at a constant index or by a pointer, as in p[0] + p[0] or *p - *p, all or all but one.
    A GPU does not read them either, as nvcc drops them, and reads x[i] + x[i] once; clang++ (MINIGRAD_CXX=clang++)
    keeps each. In assert(s[p[i]] > 0) g++ may read p twice. A read by a pointer to const that is converted to an
    integer, or is a shift's number of bits, at a constant index, as in (int)*p, is counted up to four times.

    Raises LaunchError, TypeError and CompileError as a launch does; the kernel's faults are in `.problems`.
    """
    require(
        "mg.inspect", kernel, Kernel | Launch | str | Path, "a kernel, a planned launch, CUDA C++ or a .cu file's path"
    )
    require("mg.inspect: outputs", outputs, str | Sequence, "a parameter's name or several")
    outputs = (outputs,) if isinstance(outputs, str) else outputs
    own = kernel.kernel if isinstance(kernel, Launch) else kernel
    explicit = grid is not None or block is not None or bool(shared)
    if not isinstance(own, Kernel):
        source_of("mg.inspect", own)  # whose sentences name this call
        own = compiled(own, name, defines)
    elif defines is not None or name not in (None, own.name):
        raise TypeError(f"mg.inspect: {own.name} is a kernel already; name= and defines= go with CUDA C++ or its file.")
    elif own is kernel and not explicit and (found := OpKernel.find(own)):
        return found.inspect(FirstLaunch(own, blocks, _names(outputs, own)), args, named, dy)
    if isinstance(kernel, Launch) and explicit:
        raise LaunchError(f"{own.name}: a planned launch has its grid and block; give none here.")
    if not isinstance(kernel, Launch) and (grid is None or block is None):
        raise LaunchError(f"{own.name}: give grid= and block=, or a planned launch: inspect(k.launch(...), ...).")
    launch = kernel if isinstance(kernel, Launch) else partial(own, grid=grid, block=block, shared=shared)
    refuse_names(own, named)
    if dy is not None:
        raise TypeError("mg.inspect: dy= goes with a kernel of an op and the op's inputs, without a grid.")
    microscope = Microscope(blocks, _names(outputs, own), reset=True)
    _check_outputs(args, own)
    uploaded = on_sim(args)
    with through(microscope):
        launch(*uploaded)
    if not microscope.launches:
        raise LaunchError("nothing to see: the launch has no blocks, as one of its sizes is 0.")
    record = microscope.launches[-1]
    _keep_outputs(args, uploaded, record)
    return record


def _names(outputs: Sequence[Any], kernel: Kernel) -> tuple[str, ...]:
    """The outputs. Raises TypeError and LaunchError for a name that is no array the kernel may write."""
    for name in outputs:
        if require("mg.inspect: outputs", name, str, "a parameter's name or several") not in kernel.outputs:
            known = ", ".join(kernel.outputs) or "none"
            raise LaunchError(f"outputs={name!r} is no array that {kernel.name} may write; those are {known}.")
    return tuple(outputs)


def _check_outputs(args: Sequence[Any], kernel: Kernel) -> None:
    """Raises LaunchError for a NumPy array that the kernel may write and that is read-only, or shares memory with
    another: each array is uploaded on its own, so a write to one would not reach the other.
    """
    given = [(arg, param) for arg, param in zip(args, kernel.signature.params, strict=False) if _is_array(arg)]
    for arg, param in given:  # the launch checks their number
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


def on_sim(args: Sequence[Any], given: dict[int, Any] | None = None) -> list[Any]:
    """The arguments with NumPy arrays uploaded, each once. Raises LaunchError for an array on a GPU.

    given: what has been uploaded, by the `id` of an argument.
    """
    sim, given = get(check("sim")), {} if given is None else given
    for arg in args:
        not_on_gpu(getattr(arg, "array", arg))
        if isinstance(arg, Mapping):  # a struct by its members
            given[id(arg)] = dict(zip(arg, on_sim([*arg.values()], given), strict=True))
        if isinstance(arg, list | tuple):  # several
            given[id(arg)] = on_sim(arg, given)
        if _is_array(arg) and id(arg) not in given:
            given[id(arg)] = Array.upload(sim, arg)
    return [given.get(id(arg), arg) for arg in args]


def _keep_outputs(args: Sequence[Any], uploaded: Sequence[Any], record: Inspection) -> None:
    """Copy the arrays that the kernel may have written into the record and into the caller's NumPy arrays."""
    for arg, device, param in zip(args, uploaded, record.source.kernels[record.kernel].params, strict=True):
        if isinstance(device, Mapping | list) or not (param.pointer and param.const):
            _keep(param.name, arg, device, record)


def _keep(name: str, arg: Any, device: Any, record: Inspection) -> None:
    """Copy an array, or those to which structs point. A member may be a read-only array of NumPy: its content stays."""
    if isinstance(device, Mapping | list):
        for key in device if isinstance(device, Mapping) else range(len(device)):
            _keep(f"{name}.{key}" if isinstance(device, Mapping) else f"{name}[{key}]", arg[key], device[key], record)
    elif isinstance(array := getattr(device, "array", device), Array):
        record.outputs[name] = array.numpy()
        if device is not arg and arg.flags.writeable:
            arg[...] = record.outputs[name]
