"""What a function that is being fused computes with: values that have a name and a type, and no numbers."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from minigrad.operators import Operators

if TYPE_CHECKING:
    from minigrad.op import Op

WORDS = re.compile(r"[A-Za-z_]\w*")


class Value(Operators):
    """An input of the function, or what came of others. `sample` is a number of its type."""

    def __init__(self, name: str, sample: np.ndarray):
        self.name, self.sample = name, sample

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"mg.fuse: a value has no .{name} while its function is traced: it stands for arrays of any shape and for "
            f"float32 and float64. Work out what depends on .{name} outside, and pass it as an argument."
        )

    def _has_no_number(self, *_: Any) -> NoReturn:
        raise TypeError(
            "mg.fuse: the function asks for the number in a value, as `if x > 0` or float(x) do; it is traced once, "
            "for all numbers, and has none. Choose element by element: mg.where(x > 0, a, b)."
        )

    __bool__ = __float__ = __int__ = __index__ = __len__ = __iter__ = __array__ = item = numpy = _has_no_number

    def _in_place(self, op: str, other: Any) -> Any:
        raise TypeError(f"mg.fuse: in-place {op} of a value; a traced function makes new ones: write x = x + 1.")

    def __repr__(self) -> str:
        return f"value {self.name} of a function that is being fused"


class Constant:
    """A Python number of the function; `sample` holds it."""

    def __init__(self, sample: np.ndarray):
        self.sample = sample

    @property
    def text(self) -> str:
        """As a person writes it: 1, 0.5, true."""
        value = self.sample.item()
        if isinstance(value, bool):
            return str(value).lower()
        if not np.isfinite(value):
            return "NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY"
        exact = float(str(self.sample))  # of float32 and float64 alike, the fewest digits
        return str(int(exact)) if exact.is_integer() and abs(exact) < 2**31 else repr(exact)

    @property
    def name(self) -> str:
        """In CUDA C++: 1 is an int there, and pow(float, int) a double."""
        return self.text if self.sample.dtype == np.bool_ else f"real({self.text})"


class Step(Value):
    """What one operation made."""

    def __init__(self, op: "Op", inputs: Sequence[Value | Constant], params: Mapping[str, Any], sample: np.ndarray):
        super().__init__("", sample)
        self.op, self.inputs, self.params = op, tuple(inputs), params

    def cuda(self, text: str, dy: str = "dy") -> str:
        """CUDA C++ of the op's room with the names of this step in it: "dy / x" becomes "dt3 / t2"."""
        names = dict(zip(self.op.inputs.names, (x.name for x in self.inputs), strict=True))
        names |= {"y": self.name, "dy": dy}
        return WORDS.sub(lambda word: names.get(word[0], word[0]), text)
