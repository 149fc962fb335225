"""Messages of problems: what a finding means and what usually mends it, in a sentence or two."""

import re
from dataclasses import dataclass

from minigrad.devices.device import Dim3
from minigrad.microscope.problem import Access
from minigrad.microscope.variables import Variable, as_unsigned, signed

_DOES = {"read": "reads{}", "write": "writes{}", "atomic": "changes{} by an atomic"}


@dataclass(frozen=True)
class Scene:
    """The circumstances of a race."""

    space: str  # "global" or "shared"
    barrier: int  # the line of a barrier between the two in the text; 0: none
    in_one_loop: bool  # a loop contains the two
    one_warp: bool
    overwrites: bool  # at the same lines two threads also write one element
    fenced: bool  # the kernel uses fences
    meets: bool  # its blocks meet at a word, by atomics or volatile accesses
    groups: bool  # it uses cooperative groups
    cooperative: bool  # its blocks run at once
    locks: bool  # it may take a lock
    bytes: int  # of the element


def race(me: Access, other: Access, at: str, scene: Scene, harmless: bool) -> str:
    what = f"{_who(me, other)} {_does(me.kind, at)}, which {_who(other, me)} {_does(other.kind)} in line {other.line}"
    chance = "Nothing orders the two, so the result depends on chance."
    same = "Both write the same value: harmless, where that is so for every input."
    return f"{what}. {same if harmless else chance} {_mend(me, other, at, scene)}"


def early(me: Access, other: Access, at: str) -> str:
    """An access to what an asynchronous copy has not brought yet."""
    who = "it" if (me.block, me.thread) == (other.block, other.thread) else _who(other, me)
    file = f" of {other.file}" if me.file != other.file else ""
    return (
        f"{_who(me, other)} {_does(me.kind, at)}, to which {who} copies asynchronously in line {other.line}{file}. "
        "That copy may still be under way. Let each thread wait for its own copies by copy_wait; its number says how "
        "many groups it leaves under way. A __syncthreads() must follow. Where the old number is meant, a barrier must "
        "come before the copy begins."
    )


def _mend(me: Access, other: Access, at: str, scene: Scene) -> str:
    if "atomic" in (me.kind, other.kind):
        return _atomic(me, other, at, scene)
    written = me.kind == "write" or scene.overwrites or (scene.space == "global" and "+=" in me.text)
    if written and _same_line(me, other):  # threads update, or only write, the same element
        return _own(me, other, scene)
    return _between_blocks(me, other, scene) if me.block != other.block else _in_block(me, other, scene)


_LOCKED = (
    " If a lock is meant to order the two, each thread needs a __threadfence() after the atomic that takes it, and one "
    "before the atomicExch() that gives it back."
)
_HANDED_OVER = (
    " A counter or a flag that both sides touch by atomics or as volatile hands over what its own thread did before "
    "a __threadfence(), and what other threads did before a __syncthreads() ahead of that fence."
)


def _atomic(me: Access, other: Access, at: str, scene: Scene) -> str:
    """At least one of the two is an atomic."""
    kinds, blocks = {me.kind, other.kind}, me.block != other.block
    plain, atomic = (other, me) if me.kind == "atomic" else (me, other)
    if kinds == {"atomic"}:
        return "One of them is for its own block alone: use the atomic without _block."
    name = re.escape(at.partition("[")[0])
    if re.search(rf"\b{name}\b[^;=<>]*[-+*/]=", plain.text) and len(re.findall(rf"\b{name}\b", plain.text)) == 1:
        return "What atomics add between its read and its write is lost: let the plain update be an atomicAdd, too."
    if kinds == {"write", "atomic"}:
        first = "before the launch" if blocks else "first, with a __syncthreads() before the atomics"
        return f"A plain write can undo what atomics have added: write {first}, or write by atomicExch."
    end = "in a second kernel, or in the last block to count itself" if blocks else "after a __syncthreads()"
    mend = f"Read what all have added {end}."
    if "CAS" in atomic.text:
        mend += " Ahead of a loop of atomicCAS, which checks the value, read through a volatile pointer."
    return mend + _HANDED_OVER * (blocks and scene.fenced)


def _same_line(me: Access, other: Access) -> bool:
    return (me.file, me.line) == (other.file, other.line)


def _own(me: Access, other: Access, scene: Scene) -> str:
    """Advice to give the element to one thread or to use an atomic, of which bool has none."""
    if scene.bytes > 1:
        serial = scene.space == "shared" and scene.in_one_loop and not re.search(r"[-+*/]=|\+\+|--", me.text)
        wait = " If they take turns, put a __syncthreads() into the loop." * serial
        return "Let one thread own each element, or add to it with atomicAdd." + wait + _LOCKED * scene.locks
    if me.block == other.block:
        return "Let one thread write it, or ask all threads of the block by __syncthreads_or()."
    return "Let one thread write it, or make it an int and change it by atomicOr()."


_BARRIER_OF_THE_GRID = (
    "At a barrier of the grid the threads of a block meet by __syncthreads(); then one of them calls __threadfence(), "
    "arrives by an atomicAdd, waits by atomics until all blocks have arrived, and calls __threadfence() again; then "
    "the threads meet once more. The counter begins at 0. grid_barrier of grid_barrier.cuh does this."
)


def _between_blocks(me: Access, other: Access, scene: Scene) -> str:
    if scene.cooperative:
        sync = "Let all threads of the grid call cooperative_groups::this_grid().sync() between the two."
        return sync if scene.groups else _BARRIER_OF_THE_GRID
    mend = "Blocks run in any order: let one block own each element, use an atomic, or launch two kernels."
    if _same_line(me, other) and not scene.fenced:
        mend = "Read from one array and write to another."
    return mend + (_LOCKED if scene.locks else _HANDED_OVER * (scene.fenced or scene.meets))


def _in_block(me: Access, other: Access, scene: Scene) -> str:
    if scene.space == "global" and _same_line(me, other):
        return "Read from one array and write to another."
    if scene.barrier and scene.in_one_loop:
        first, last = sorted((me.line, other.line))
        where = f"between line {last} and its end"
        return f"Line {first} is in the next iteration of the loop: put a __syncthreads() {where}."
    if scene.barrier:
        return (
            f"The __syncthreads() in line {scene.barrier} does not come between the two. Is one of these lines "
            "reached on its other side, as by another call, in the next turn of a loop, or past a branch or an #if? "
            "Move that line or the barrier, or wait there once more."
        )
    wait = "a __syncthreads() between the two"
    if scene.one_warp:
        wait = "a __syncwarp() between the two where only one warp comes, as inside if (t < 32), else a __syncthreads()"
    mend = f"Put {wait}, which every thread of the block reaches."
    if me.kind == "write":
        mend = f"Let one thread own each element, or put {wait}: then the later value stays."
    if _same_line(me, other):
        mend += " Within one line: read into a variable, wait, then write, and wait before the loop's next iteration."
    elif scene.in_one_loop:
        mend += " Wait before the loop's next iteration, too."
    return mend + _LOCKED * scene.locks


def _does(access: str, at: str = "") -> str:
    return _DOES[access].format(at and f" {at}")


def _who(one: Access, other: Access) -> str:
    return f"thread {one.thread}" + (f" of block {one.block}" if one.block != other.block else "")


def outside(access: str, at: str, variable: Variable | None) -> str:
    if variable is None:
        return f"{_does(access, at)}, which is in no array. Check the pointer and the index."
    count = f"{variable.size} element{'s' * (variable.size != 1)}"
    size = f"{variable.itemsize} bytes" if variable.single else count
    has = f"{_does(access, at)}, and {variable.name} has {size}"
    if variable.space == "shared" and not variable.size:
        return f"{has}: the launch gives it no memory. Say how many bytes the block needs: shared= of the launch."
    has += f" ({' x '.join(map(str, variable.shape))})" * (len(variable.shape) > 1)
    if variable.space == "shared":
        return f"{has}. Check the index, and the size of the array or the shared= of the launch."
    return f"{has}. Guard the access, as in if (i < n); look for a negative index, or for two that are swapped."


def index(value: int, array: str, name: str) -> str:
    """An index outside an extent of its array's type."""
    of = f" of {name}" if name else ""
    return (
        f"index {signed(value)}{as_unsigned(value)} is outside an extent{of}, which is {array}: it lands next to the "
        "array, or in another row. Guard the access, or make the array longer; of several indices, check which goes "
        "with which extent."
    )


def uninitialised(at: str) -> str:
    return (
        f"reads {at}, which no thread of the block has written. Shared memory begins undefined in every block: "
        "fill it first, at the edges too, as in s[i] = i < n ? x[i] : 0."
    )


def undefined(access: str, at: str) -> str:
    """An update of global memory as it was allocated."""
    does = "reads and changes" if access == "read" else "changes by an atomic"
    return (
        f"{does} {at}, and nobody has written it: neither a thread, nor whoever made the array. Memory of mg.empty or "
        "cudaMalloc begins undefined. Let the kernel write it first (y[i] = sum for y[i] += sum), or begin with zeros, "
        "by mg.zeros or cudaMemset, where threads add to it."
    )


def unset(place: str, name: str) -> str:
    """An update of a thread's own variable."""
    return (
        f"reads and changes {place}, which nothing has set: a local variable begins undefined. Give {name} its first "
        "value where it is declared, as in float sum = 0, or float v[4] = {} for an array."
    )


def unset_element(place: str) -> str:
    """A read of an element of a thread's own array."""
    return (
        f"reads {place or 'an element of a local array'}, which nothing has set: a local array begins undefined. Set "
        "every element that is read, at the edges too, or all where it is declared, as in float v[4] = {}."
    )


def unset_number(name: str) -> str:
    """A read of a thread's own variable."""
    return (
        f"reads {name or 'a local variable'}, which nothing has set: a local variable begins undefined. Set it on "
        "every way that leads here, or where it is declared, as in float sum = 0."
    )


def unlike(value: float, kind: str, gpu: int, is_shift: bool) -> str:
    """A conversion or a shift that C++ leaves undefined. kind: the type, in quotes; gpu: a GPU's result."""
    kind = re.findall(r"'(.*?)'", kind)[-1]
    if is_shift:
        return (
            f"a shift of {kind} by {value:.0f} bits. A GPU shifts all bits out; this simulator, as x86 does, may take "
            "the lowest bits of the number, and C++ leaves it open. Check the number of bits first."
        )
    result = gpu % 2**64 if "unsigned" in kind else gpu
    return (
        f"{value:g} becomes {kind}, which does not have it. A GPU gives {result}, this simulator another number, and "
        "C++ leaves it open. Bring it into the range of the type first."
    )


def _threads_have(count: int) -> str:
    return f"{count} threads have" if count > 1 else "1 thread has"


def missed_barrier(call: str, count: int, thread: Dim3) -> str:
    return (
        f"{_threads_have(count)} returned without reaching {call}; the first is {thread}. A barrier does not wait for "
        "threads that have returned; but they load nothing for the others. If they should, let no thread return before "
        "it: what it must not touch goes into a guard, as in if (i < n)."
    )


def skipped_barrier(call: str, count: int, thread: Dim3) -> str:
    return (
        f"{_threads_have(count)} gone around {call} to the end of the kernel; the first is {thread}. A barrier that "
        "some threads of the block reach, and others skip, is undefined. Move it out of the condition or the loop, so "
        "that all threads reach it equally often; those with nothing more to do may also return before it."
    )


def skipped_by_lanes(call: str, count: int, thread: Dim3) -> str:
    return (
        f"{_threads_have(count)} gone around {call} to the end of the kernel, though its mask names them; the first is "
        f"{thread}. What the call does is then undefined. Move it out of the condition, so that every lane of the mask "
        "makes it, or give it the mask of those that do: __ballot_sync(0xffffffff, i < n), called ahead of if (i < n)."
    )


def returned_lane(call: str, thread: Dim3, source: Dim3 | None) -> str:
    if source is None:
        return (
            f"thread {thread} takes by {call} a value from a lane that the block does not have: the value is "
            "undefined. Launch blocks of a multiple of 32 threads, with values of the others that change nothing: "
            "v = i < n ? x[i] : 0."
        )
    return (
        f"thread {thread} takes by {call} a value from the lane of thread {source}, which has returned or gone around "
        "this call: the value is undefined. Let every lane of the mask reach the call, outside of a condition, with a "
        "value that changes nothing: v = i < n ? x[i] : 0."
    )


def inactive_lane(call: str, thread: Dim3, lane: int, at: str) -> str:
    return (
        f"thread {thread} takes by {call} a value from lane {lane}, which is not in the mask: the value is undefined, "
        f"and {at} was made of such a value. Name in the mask every lane that is read, and let all of these reach the "
        "call; or read within fewer lanes by the width, as in __shfl_down_sync(0xff, v, 4, 8)."
    )


def never_written(at: str, count: int, size: int) -> str:
    more = f" and {count - 1} more of its {size} elements" if count > 1 else f", one of its {size} elements,"
    verb = "are" if count > 1 else "is"
    return (
        f"{at}{more} {verb} never written. Look for too few blocks, a guard that lets too few threads through, "
        "or an index that skips."
    )


def nan(at: str, count: int) -> str:
    more = f" ({count} elements are)" if count > 1 else ""
    return (
        f"{at} is NaN{more} after the launch. It comes from 0/0, inf - inf, the root or log of a negative number, "
        "from a NaN in an input or memory that was never written, or from a shuffle from a lane that has returned "
        "or is not in the mask."
    )
