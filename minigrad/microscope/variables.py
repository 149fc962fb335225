"""The variables of a launch: names, shapes and elements for addresses."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from minigrad.devices.array import Array
from minigrad.microscope import native


@dataclass(frozen=True)
class Variable:
    """An array argument, a shared array, or a __device__ variable."""

    name: str
    space: str  # "global" or "shared"
    shape: tuple[int, ...]
    itemsize: int
    dtype: np.dtype | None = None  # of arguments only

    @property
    def single(self) -> bool:
        """True for a value or a struct that is no array; an argument is always an array."""
        return not self.shape and self.dtype is None

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def subscript(self, element: int) -> str:
        """The element in C: arguments have a flat index, others one for each extent. Behind the end also the row, which
        for an array of float4 is the index.
        """
        if self.dtype is not None or not 0 <= element < self.size:
            behind = len(self.shape) > 1 and 0 < self.size <= element < 2**31
            row = f" (row {element // self.shape[-1]})" if behind else ""
            return f"{self.name}[{signed(element)}]{as_unsigned(element)}{row}"
        return self.name + "".join(f"[{int(i)}]" for i in np.unravel_index(element, self.shape))


def signed(index: int) -> int:
    """An index; one just below 2^32 is taken for a negative index that wrapped as unsigned."""
    return index - 2**32 if 3 * 2**30 <= index < 2**32 else index


def as_unsigned(index: int) -> str:
    """The wrapped value of such an index, in brackets; else empty."""
    return f" ({index} as unsigned)" * (signed(index) != index)


_FITS = -(2**31), 2**32  # an int, or an unsigned one

Groups = Sequence[Sequence[tuple[str, Array]]]  # the array parameters of a launch, by buffer


class Variables:
    """The variables of a launch by the runtime's numbers: buffers, then __device__ variables, then shared ones.

    groups: the parameters of each buffer, as one array may be passed twice.
    """

    def __init__(self, groups: Groups, seen: Sequence[native.ShadowedVariable]):
        self._by_number = [
            [Variable(name, "global", array.spec.stored, array.dtype.itemsize, array.dtype) for name, array in group]
            for group in groups
        ]
        self._by_number += [[_declared(one)] for one in seen[len(groups) :]]
        self._extents = [(one.start, one.bytes) for one in seen]
        self.itemsize = np.array([candidates[0].itemsize for candidates in self._by_number] or [1], np.int64)
        self.by_name = {variable.name: variable for candidates in self._by_number for variable in candidates}

    def at(self, address: int) -> tuple[Variable, int] | None:
        """The variable at an address, and the element."""
        for number, (start, size) in enumerate(self._extents):
            if 0 <= address - start < size:
                variable = self._by_number[number][0]
                return variable, (address - start) // variable.itemsize
        return None

    def located(self, number: int, offset: int, text: str) -> tuple[Variable | None, int]:
        """The variable and the element at an offset from it, or at an address in none. An index can be so wrong that
        the address is next to another array, or in no array: where it is no index of 32 bits, those of an array of
        which it is, and which the text names, with brackets where there is no variable.
        """
        variable = self.find(number, text)
        address = offset + (self._extents[number][0] if variable else 0)
        element = offset // variable.itemsize if variable else offset
        if variable and _FITS[0] <= element < _FITS[1]:
            return variable, element
        names = set(re.findall(r"\w+" if variable else r"\w+(?=\s*\[)", text))
        for candidates, (start, _) in zip(self._by_number, self._extents, strict=True):
            other = (address - start) // candidates[0].itemsize
            if _FITS[0] <= other < _FITS[1] and candidates[0].name in names:
                return candidates[0], other
        return variable, element

    def find(self, number: int, text: str = "", column: int = 0) -> Variable | None:
        """The variable; of parameters that share a buffer the one named in the text, best just before the column."""
        if not 0 <= number < len(self._by_number):
            return None
        candidates = self._by_number[number]
        if len(candidates) == 1:
            return candidates[0]
        named = {v.name: v for v in candidates}
        named_at = [match for match in re.finditer(r"[A-Za-z_]\w*", text) if match[0] in named]
        # Clang's column is that of the name, GCC's that of the closing bracket.
        before = [match for match in named_at if match.start() < column]
        chosen = before[-1] if before else named_at[0] if named_at else None
        return named[chosen[0]] if chosen else candidates[0]


def _declared(one: native.ShadowedVariable) -> Variable:
    shape = tuple(one.extent[: one.dims]) or ((one.bytes // one.element,) if one.bytes != one.element else ())
    return Variable(one.name.decode(), "shared" if one.shared else "global", shape, one.element)
