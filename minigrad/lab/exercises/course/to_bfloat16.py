"""07b: rounding to bfloat16, by the bits of a float32."""

from collections.abc import Callable

import numpy as np

from minigrad.lab.check.answer import Refused
from minigrad.lab.exercises import PythonExercise, Wrong
from minigrad.rounding import rounded

TIES = np.array([1.00390625, 1.01171875, -1.00390625, 2.0078125, 255.5], np.float32)  # halfway between two bfloat16
CARRY = np.array([1.9999, 0.99999, -3.99999, 65535.0], np.float32)  # up to the next power of two
PLAIN = np.array([0.0, 1.0, -2.5, 1 / 3, np.pi, 1e-30, -6.02e23, 1.00390637], np.float32)


def by_bits(function: Callable, x: np.ndarray) -> np.ndarray:
    """The result of the function. Raises Refused where minigrad rounds in its place."""
    if {"mg", "minigrad"} & set(getattr(getattr(function, "__code__", None), "co_names", ())):
        raise Refused("minigrad does the rounding here. Write it yourself, with the bits", "unused")
    return function(x)


to_bfloat16 = PythonExercise(
    "07b",
    task=r"""
**Round to bfloat16.** A bfloat16 is the upper half of a float32. `x.view(np.uint32)` gives the 32 bits of each number
as a whole number, and cutting off the lower 16 bits of it rounds *toward zero*. Twice as good is the *nearest* one:
add half of the last place that stays, 0x8000, then cut. One case is special: a number that lies exactly halfway goes
to the neighbor whose last bit is 0, so that errors do not all go one way.

Whole numbers of the type `np.uint32` know `+`, `&`, `|`, `>>` (a shift to the right) and `<<`. Write the bits of the
nearest bfloat16, with zeros in the lower half.
""",
    solution="""
def to_bfloat16(x):
    bits = x.view(np.uint32)
    #> # <- your code: bits = ...
    last = bits >> np.uint32(16) & np.uint32(1)  # the last bit that stays
    bits = bits + np.uint32(0x7FFF) + last
    bits = bits & np.uint32(0xFFFF0000)
    #<
    return bits.view(np.float32)
""",
    hints=[
        "`bits & np.uint32(0xFFFF0000)` cuts off the lower 16 bits. What has to be added before, so that a lower "
        "half of "
        "0x8000 and more carries into the upper half?",
        "0x8000 is one half of the last place that stays. Adding it rounds to the nearest, and halfway always up.",
        "add 0x7FFF, one less, and the last bit that stays, which is bits >> 16 & 1: then halfway carries only where "
        "that bit is 1.",
    ],
    wrong=[
        Wrong("return bits.view(np.float32)", 'return mg.rounding.rounded(x, "bf16")', "unused",
              "The exercise is what that function does: add to `bits`, cut, and view them as float32."),
        Wrong("    bits = bits + np.uint32(0x7FFF) + last\n", "", "value",
              "This rounds toward zero. Add half of the last place first."),
        Wrong("np.uint32(0x7FFF) + last", "np.uint32(0x8000)", "value",
              "Halfway goes up always. It should go to the neighbor whose last bit is 0."),
        Wrong("np.uint32(0x7FFF) + last", "np.uint32(0x7FFF)", "value",
              "Halfway goes toward zero always. It should go to the neighbor whose last bit is 0."),
        Wrong("np.uint32(0x7FFF) + last", "((bits & np.uint32(0xFFFF)) >> np.uint32(1))", "value",
              "This adds half of the bits that are cut off, which seldom carries. Half of the last place is 0x8000."),
        Wrong("np.uint32(0x7FFF) + last", "np.uint32(0xFFFF)", "value",
              "This rounds away from zero: half of it is enough."),
        Wrong(">> np.uint32(16) &", ">> np.uint32(17) &", "value",
              "The last bit that stays is bit 16: 16 bits are cut off below it."),
        Wrong("np.uint32(0xFFFF0000)", "np.uint32(0xFFFFE000)", "value",
              "This keeps 10 bits after the point: it is TF32."),
        Wrong("    bits = bits & np.uint32(0xFFFF0000)\n", "", "value", "The lower half must be zeros at the end."),
    ],
    call=by_bits,
    truth=lambda x: rounded(x, "bf16"),
    cases=[(PLAIN,), (TIES,), (CARRY,)],
)  # fmt: skip
