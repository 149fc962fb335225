"""The kernels of a trace as CUDA C++: the chain of operations, and the chain again with its rules in reverse."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill

import numpy as np

from minigrad.fusion.trace import Trace
from minigrad.fusion.values import WORDS, Constant, Step, Value

FOURS = "thread -> four elements."
PIECES = "block -> one piece of a row; thread -> every BLOCK-th four elements of it."
AGAIN = "by the chain rule. The values of the forward pass are worked out again: registers are nearer than memory."
NULL = " A null pointer: that one is not wanted."
FORWARD = """\
{comment}
extern "C" __global__ void {name}_forward({params}) {{
    {over}, [](real {reals}) {{
{lines}
        return {result};
    }}, {inputs});
}}
"""
BACKWARD = """\
{comment}
extern "C" __global__ void {name}_backward({params}) {{
    {over}, [](real {reals}) {{
        // [values again]
{lines}
        // [rules in reverse]
{rules}
        return {result};
    }}, {inputs});
}}
"""


class Written:
    """The file with the kernels `<name>_forward` and, where a gradient flows, `<name>_backward`."""

    def __init__(self, name: str, trace: Trace, formula: str):
        self.name, self.trace, self.formula = name, trace, formula
        self.closes = trace.closing is not None
        self.extent = ["n", "chunk"] if self.closes else ["n"]
        self.sizes = [f"int {size}" for size in self.extent]
        self.owner = PIECES if self.closes else FOURS
        self.rules, arrived = rules(trace)
        self.wanted = [x for x in trace.inputs if id(x) in arrived]  # inputs that a gradient reaches
        self.gradients = [arrived[id(x)] for x in self.wanted]
        self.again = needed(trace.steps, self.rules)
        named = words([*self.rules, *map(line, self.again)])
        self.reread = [x for x in trace.inputs if x.name in named]  # inputs that the gradient reads

    @property
    def gradient(self) -> str:
        """What the backward kernel does."""
        found = ", ".join(f"d{x.name}" for x in self.wanted)
        return f"{found} by the chain rule, the values of the forward pass worked out again"

    @property
    def text(self) -> str:
        """The file."""
        kernels = [self._forward(), *([self._backward()] if self.wanted else [])]
        return "\n".join(['#include "fused.cuh"\n', *kernels])

    def _forward(self) -> str:
        trace, views = self.trace, self.viewed(self.trace.inputs)
        sums = ", as sums over pieces of rows, which the kernel of sum adds up" if self.closes else ""
        params = [*pointers(trace.inputs), "real* y", *views.values(), *self.sizes]
        return FORWARD.format(
            comment=comment(f"{self.formula}{sums}.", self.owner),
            name=self.name,
            params=listed(params, len(f"{self.name}_forward")),
            over="sum_pieces(y, n, chunk" if self.closes else "map(y, n",
            reals=", real ".join(x.name for x in trace.inputs),
            lines=indented(map(line, trace.steps)),
            result=trace.output.name,
            inputs=", ".join(found(x.name, views) for x in trace.inputs),
        )

    def _backward(self) -> str:
        views, outputs = self.viewed(self.reread), [f"d{x.name}" for x in self.wanted]
        params = ["const real* dy", *pointers(self.reread), *(f"real* {name}" for name in outputs), *views.values()]
        names = ["dy", *(x.name for x in self.reread)]
        return BACKWARD.format(
            comment=comment(f"{', '.join(outputs)} {AGAIN}", f"{self.owner}{NULL if len(outputs) > 1 else ''}"),
            name=self.name,
            params=listed([*params, *self.sizes], len(f"{self.name}_backward")),
            over=f"{'map_pieces' if self.closes else 'map'}(Outputs{{{', '.join(outputs)}}}, {', '.join(self.extent)}",
            reals=", real ".join(names),
            lines=indented(map(line, self.again)),
            rules=indented(self.rules),
            result=f"Reals{{{', '.join(self.gradients)}}}",
            inputs=", ".join(found(name, views) for name in names),
        )

    def viewed(self, inputs: Sequence[Value]) -> dict[str, str]:
        """The views that inputs are found through; where there is one input, it has the shape of the output."""
        return {x.name: f"View {x.name}_at" for x in inputs} if len(self.trace.inputs) > 1 else {}


def rules(trace: Trace) -> tuple[list[str], dict[int, str]]:
    """The lines of the chain rule, from the last step to the first, and the gradient of each value by its id."""
    lines: list[str] = []
    arrived = {id(trace.output): "dy"}
    for step in reversed(trace.steps):
        dy = arrived.get(id(step))
        for text, x in zip(step.op.cuda[1:], step.inputs, strict=False) if dy else ():
            if text is None or isinstance(x, Constant):
                continue
            name, part = f"d{x.name}", step.cuda(text, str(dy))
            lines.append(f"{name} += {part};" if id(x) in arrived else f"real {name} = {part};")
            arrived[id(x)] = name
    return lines, arrived


def needed(steps: Sequence[Step], lines: Iterable[str]) -> list[Step]:
    """The steps whose values these lines name, and those behind them."""
    names, kept = words(lines), []
    for step in reversed(steps):
        if step.name in names:
            names |= words([line(step)])
            kept.append(step)
    return kept[::-1]


def line(step: Step) -> str:
    """real t2 = t1 + real(1);"""
    return f"{'bool' if step.sample.dtype == np.bool_ else 'real'} {step.name} = {step.cuda(str(step.op.cuda[0]))};"


def words(lines: Iterable[str]) -> set[str]:
    """The names in some lines."""
    return {word for text in lines for word in WORDS.findall(text)}


def pointers(inputs: Iterable[Value]) -> Iterator[str]:
    """The inputs as parameters of a kernel."""
    return (f"const real* {x.name}" for x in inputs)


def found(name: str, views: dict[str, str]) -> str:
    """An array as `map` takes it, with its view if it has one."""
    return f"Viewed{{{name}, {name}_at}}" if name in views else name


def listed(params: Sequence[str], before: int) -> str:
    """The parameters of a kernel, on lines of their own where they are long."""
    text = ", ".join(param.replace(" ", "~") for param in params)  # a line does not end within one
    if len(text) + before >= 76:
        text = "\n" + fill(text, 112, initial_indent="    ", subsequent_indent="    ")
    return text.replace("~", " ")


def comment(*sentences: str) -> str:
    """Each sentence on lines of its own."""
    return "\n".join(fill(text, 120, initial_indent="// ", subsequent_indent="// ") for text in sentences)


def indented(lines: Iterable[str]) -> str:
    """Lines of the inner function."""
    return "\n".join(f"        {text}" for text in lines)
