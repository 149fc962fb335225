"""What a problem means and what usually mends it, in a sentence or two."""

from typing import TYPE_CHECKING

from minigrad.microscope.variables import Variable

if TYPE_CHECKING:
    from minigrad.microscope.problems import Access

_DOES = {"read": "reads", "write": "writes", "atomic": "changes by an atomic"}


def race(me: "Access", other: "Access", at: str, space: str, apart: bool, one_warp: bool) -> str:
    """Two threads, one element, and no order between them; apart: in the text a barrier stands between the two."""
    same_line = (me.file, me.line) == (other.file, other.line)
    what = f"{_who(me, other)} {_DOES[me.kind]} {at}, which {_who(other, me)} {_DOES[other.kind]} in line {other.line}"
    if me.kind == "write" or (space == "global" and same_line and "+=" in me.text):
        mend = "Let one thread own each element, or add to it with atomicAdd."
    elif space == "global" and same_line:
        mend = "Read from one array and write to another."
    elif me.block != other.block:
        mend = "Blocks run in any order: let one block own each element, use an atomic, or launch two kernels."
    elif apart:
        first, last = sorted((me.line, other.line))
        mend = f"Line {first} is in the next turn of the loop: put a __syncthreads() between line {last} and its end."
    else:
        mend = "Put a __syncthreads() between the two, which every thread of the block reaches."
        if one_warp:
            mend += " Where only one warp comes, as inside if (t < 32), that is a __syncwarp()."
        if same_line:
            mend += " Within one line: read into a variable, wait, then write, and wait before the loop's next turn."
    return f"{what}. Nothing orders the two, so the result depends on chance. {mend}"


def _who(one: "Access", other: "Access") -> str:
    return f"thread {one.thread}" + (f" of block {one.block}" if one.block != other.block else "")


def outside(access: str, at: str, variable: Variable | None) -> str:
    """An access beside an array."""
    if variable is None:
        return f"{_DOES[access]} {at}, where no array is. Check the pointer and the index."
    has = f"{_DOES[access]} {at}, and {variable.name} has {variable.size} element{'s' * (variable.size != 1)}"
    if variable.space == "shared":
        shape = " x ".join(map(str, variable.shape))
        extents = f" ({shape})" if len(variable.shape) > 1 else ""
        return f"{has}{extents}. Check the index, and the size of the array or the shared= of the launch."
    return f"{has}. Guard the access, as in if (i < n); look for a negative index, or for two that are swapped."


def index(value: int, array: str, variable: Variable | None) -> str:
    """An index that its array's type does not have."""
    of = f" of {variable.name}" if variable else ""
    return (
        f"index {value} is outside an extent{of}, which is {array}: it lands in the next row, or beside the array. "
        "Check which index goes with which extent."
    )


def uninitialised(at: str) -> str:
    """Shared memory that nobody wrote."""
    return (
        f"reads {at}, which no thread of the block has written. Shared memory begins undefined in every block: "
        "fill it first, at the edges too, as in s[i] = i < n ? x[i] : 0."
    )


def never_written(at: str, count: int, size: int) -> str:
    """An output with holes."""
    more = f" and {count - 1} more of its {size} elements" if count > 1 else f", one of its {size} elements,"
    verb = "are" if count > 1 else "is"
    return (
        f"{at}{more} {verb} never written. Look for too few blocks, a guard that lets too few threads through, "
        "or an index that skips."
    )


def nan(at: str, count: int) -> str:
    """An output that is no number."""
    more = f" ({count} elements are)" if count > 1 else ""
    return (
        f"{at} is NaN{more} after the launch. It comes from 0/0, inf - inf, the root or log of a negative number, "
        "from a NaN in an input or memory that was never written, or from a shuffle from a lane that has returned."
    )
