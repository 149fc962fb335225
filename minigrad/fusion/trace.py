"""The trace of a function to fuse: its inputs, by names that are legal in CUDA C++, and its operations as steps."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from minigrad import tape
from minigrad.call import NUMBERS
from minigrad.devices.dtypes import FLOATS, number
from minigrad.errors import short
from minigrad.op import OPS, Op
from minigrad.operators import Operators

# Names that the generated kernels, the headers that they include or C++ itself use.
RESERVED = """
    y dy n chunk real wide Vec View Viewed Add Max Reals Outputs map some one vec each_lane sum_pieces
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
WORDS = re.compile(r"[A-Za-z_]\w*")
MACRO = re.compile(r"_\w*|[A-Z][A-Z0-9]*_\w*|[A-Z][A-Z0-9]+|cuda\w*")  # M_PI, M_PIf, EOF, BLOCK, __expf


def inputs_of(fn: Callable) -> dict[str, str]:
    """The arguments without a default, and their names in the kernels: a reserved one gets a `_`, `y` is `y_`."""
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
    reserved = set(RESERVED.split()) | functions - {name for op in OPS.values() for name in op.inputs.names}
    names: dict[str, str] = {}
    for place, argument in enumerate(free, 1):
        name = argument.name if argument.name.isascii() else f"x{place}"
        name = f"{name.strip('_')}_" if MACRO.fullmatch(name) else name
        while not reserved.isdisjoint(_uses(name)) or STEP.fullmatch(name):
            name += "_"
        reserved |= set(_uses(name))
        names[argument.name] = name
    return names


def _uses(name: str) -> tuple[str, str, str]:
    """The names of an input, its gradient and its view in the kernels."""
    return name, f"d{name}", f"{name}_at"


class Value(Operators):
    """A symbolic value: an input of the function, or the result of a step. `sample` is a number of its type."""

    def __init__(self, name: str, sample: np.ndarray):
        self.name, self.sample = name, sample

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"mg.fuse: a value has no .{name} while its function is traced: it stands for arrays of any shape and for "
            f"float32 and float64. Compute what depends on .{name} outside, and pass it as an argument."
        )

    def _has_no_number(self, *_: Any) -> NoReturn:
        raise TypeError(
            "mg.fuse: the function asks for the number in a value, as `if x > 0` or float(x) do; it is traced once, "
            "for all numbers, and a value holds none. Choose element by element: mg.where(x > 0, a, b)."
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
        """The number in a formula: 1, 0.5, true."""
        value = self.sample.item()
        if isinstance(value, bool):
            return str(value).lower()
        if not np.isfinite(value):
            return "NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY"
        exact = float(str(self.sample))  # of float32 and float64 alike, the fewest digits
        return str(int(exact)) if exact.is_integer() and abs(exact) < 2**31 else repr(exact)

    @property
    def name(self) -> str:
        """The number in CUDA C++, as a `wide`: 1 is an int there, and pow(float, int) a double."""
        return self.text if self.sample.dtype == np.bool_ else f"wide({self.text})"


class Step(Value):
    """The result of one operation."""

    def __init__(self, op: Op, inputs: Sequence[Value | Constant], params: Mapping[str, Any], sample: np.ndarray):
        super().__init__("", sample)
        self.op, self.inputs, self.params = op, tuple(inputs), params

    def cuda(self, text: str, dy: str = "dy") -> str:
        """The op's CUDA C++ with the names of this step: "dy / x" becomes "dt3 / t2"."""
        names = dict(zip(self.op.inputs.names, (x.name for x in self.inputs), strict=True))
        names |= {"y": self.name, "dy": dy}
        return WORDS.sub(lambda word: names.get(word[0], word[0]), text)


CLOSING = ("sum", "mean")  # the operations that may come last


class Trace:
    """The steps from the inputs to the output, and the closing sum or mean, if there is one.

    Raises TypeError or ValueError for an operation that cannot be fused.
    """

    def __init__(self, fn: Callable):
        self.own = inputs_of(fn)
        self.inputs = [Value(name, np.array(1.0)) for name in self.own.values()]
        self._recorded: dict[int, Value] = {id(x): x for x in self.inputs}
        with tape.tracing(self):
            self.result = output = self._checked(fn(*self.inputs))
        self.closing = output if isinstance(output, Step) and output.op.name in CLOSING else None
        self.output = self.closing.inputs[0] if self.closing is not None else output
        self.steps = self._ancestors(self.output)
        for place, step in enumerate(self.steps, 1):
            step.name = f"t{place}"

    def trace(self, op: Op, inputs: Sequence[Any], params: Mapping[str, Any]) -> Any:
        """Record an operation of the function."""
        if fn := getattr(op, "fn", None):
            return fn(*inputs)  # a fused function within another
        if not op.cuda and op.name not in CLOSING:
            raise TypeError(
                f"mg.fuse: {op.name} cannot be fused: it does not make each element from one element of each input. "
                f"Fuse what is elementwise, and call {op.name} outside, before or after."
            )
        operands = self._operands(op, inputs)
        samples = [x.sample for x in operands]
        if not op.integers and (wrong := [x.dtype for x in samples if x.dtype not in FLOATS]):
            raise TypeError(
                f"mg.fuse: {op.name} takes floats; got {wrong[0]}. Write 1.0 for 1, and mg.where(x > 0, 1.0, 0.0) "
                "for the numbers of a condition."
            )
        if op.cuda:
            sample = op.run(samples, op.prepare(*samples, **params) if op.prepare else params)
        step = Step(op, operands, params, np.asarray(sample if op.cuda else samples[0]))
        self._recorded[id(step)] = step
        return step

    def _operands(self, op: Op, inputs: Sequence[Any]) -> list[Value | Constant]:
        """The inputs of an operation, with numbers in the dtype that they would take next to tensors."""
        plain = [x.item() if isinstance(x, np.generic | np.ndarray) and not x.ndim else x for x in inputs]
        values = [x for x in plain if id(x) in self._recorded]
        for x in plain:
            if id(x) not in self._recorded and (type(x) not in NUMBERS or not values):
                raise TypeError(
                    f"mg.fuse: {op.name} takes {short(x)}, which is no value of the function. Pass a tensor as an "
                    "argument, and random numbers too: here they would be drawn only once."
                )
        for x in values:
            if isinstance(x, Step) and x.op.name in CLOSING:
                raise TypeError(
                    f"mg.fuse: {op.name} comes after {x.op.name}, and a {x.op.name} comes last. "
                    f"Return the {x.op.name}, and call {op.name} on the result."
                )
        kind = values[-1].sample.dtype

        def constant(x: bool | int | float) -> Constant:
            return Constant(number(op.name, x, FLOATS[1] if type(x) is float else kind, "numpy"))

        return [constant(x) if type(x) in NUMBERS else x for x in plain]

    def _checked(self, output: Any) -> Value:
        """The output. Raises TypeError where no kernel can compute it."""
        if id(output) not in self._recorded:
            raise TypeError(
                f"mg.fuse: the function returned {short(output)}; return one value made from its arguments."
            )
        if output.sample.dtype not in FLOATS:
            raise TypeError(f"mg.fuse: the function returned {output.sample.dtype}; return mg.where(x > 0, 1.0, 0.0).")
        used = {id(x) for step in self._ancestors(output) for x in step.inputs} | {id(output)}
        if unused := [own for own, x in zip(self.own, self.inputs, strict=True) if id(x) not in used]:
            raise TypeError(f"mg.fuse: the result does not depend on {unused[0]}; leave that argument out.")
        return output

    def _ancestors(self, output: Any) -> list[Step]:
        """The steps that a value depends on, itself included, in order."""
        needed = {id(output)}
        for value in reversed(self._recorded.values()):
            if id(value) in needed and isinstance(value, Step):
                needed |= {id(x) for x in value.inputs}
        return [x for x in self._recorded.values() if id(x) in needed and isinstance(x, Step)]
