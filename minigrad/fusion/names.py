"""The inputs of a function to fuse, by names that CUDA C++ takes."""

import inspect
import re
from collections.abc import Callable

from minigrad.fusion.values import WORDS
from minigrad.op import OPS
from minigrad.require import short

# What the written kernels, the headers that they include and C++ itself call something else.
TAKEN = """
    y dy n chunk real Vec View Viewed Add Max Reals Outputs map four one vec each_lane sum_pieces
    map_pieces needs shapes
    threadIdx blockIdx blockDim gridDim warpSize stdin stdout stderr errno main min max abs floor
    alignas alignof and and_eq asm auto bitand bitor bool break case
    catch char class compl const constexpr const_cast continue decltype default delete do double dynamic_cast else
    enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast return short signed sizeof
    static static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename
    union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
STEP = re.compile(r"d*t\d+")  # the value of a step, or its gradient
MACRO = re.compile(r"_\w*|[A-Z][A-Z0-9]*_\w*|[A-Z][A-Z0-9]+|cuda\w*")  # M_PI, M_PIf, EOF, BLOCK, __expf


def inputs_of(fn: Callable) -> dict[str, str]:
    """The arguments without a default, and what the kernels call them: one that is taken gets a `_`, `y` is `y_`."""
    try:
        arguments = inspect.signature(getattr(fn, "forward", fn)).parameters.values()  # an op's are its reference's
    except (TypeError, ValueError):
        raise TypeError(
            f"mg.fuse: {short(fn)} does not say by which names it takes its inputs, as functions written in C do not. "
            "Call it in one that does: lambda x: x.exp()."
        ) from None
    free = [p for p in arguments if p.default is p.empty]
    if wrong := [p for p in free if p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]:
        raise TypeError(f"mg.fuse: the function takes {wrong[0]}; name each input: def f(a, b).")
    if not free:
        raise TypeError("mg.fuse: the function takes no input; give it one: lambda x: x.exp().")
    functions = {word for op in OPS.values() for text in op.cuda if text for word in WORDS.findall(text)}
    taken = set(TAKEN.split()) | functions - {name for op in OPS.values() for name in op.inputs.names}
    names: dict[str, str] = {}
    for place, argument in enumerate(free, 1):
        name = argument.name if argument.name.isascii() else f"x{place}"
        name = f"{name.strip('_')}_" if MACRO.fullmatch(name) else name
        while not taken.isdisjoint(_uses(name)) or STEP.fullmatch(name):
            name += "_"
        taken |= set(_uses(name))
        names[argument.name] = name
    return names


def _uses(name: str) -> tuple[str, str, str]:
    """What the kernels call an input, its gradient and its view."""
    return name, f"d{name}", f"{name}_at"
