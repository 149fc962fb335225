"""The formula of a trace, as a person would write it."""

import re
from collections.abc import Iterable, Sequence
from textwrap import fill

import numpy as np

from minigrad.fusion.trace import WORDS, Constant, Step, Trace, Value

LONGEST = 60  # characters; a part that would pass it goes by the name of its step in the kernel


def formula(trace: Trace) -> str:
    """y = the sum of log((x * x) + 1) * exp(x)"""
    texts = {id(x): x.name for x in trace.inputs}
    whole = trace.output.name
    for step in trace.steps:
        whole = _put(step, texts)
        texts[id(step)] = whole if len(whole) <= LONGEST else step.name
    return f"y = the {trace.closing.op.name} of {whole}" if trace.closing is not None else f"y = {whole}"


def _put(step: Step, texts: dict[int, str]) -> str:
    """A step's CUDA C++ with the texts of its inputs in it; what asks a question goes by the name of its op."""
    names = step.op.inputs.names
    text = str(step.op.cuda[0])
    if "?" in text:
        text = f"{step.op.name}({', '.join(names)})"
    inner = dict(zip(names, (texts.get(id(x)) or x.text for x in step.inputs), strict=True))

    def operand(word: re.Match) -> str:
        found = inner.get(word[0], word[0])
        before, after = text[: word.start()].rstrip()[-1:], text[word.end() :][:1]
        alone = before in ("(", ",") and after in (")", ",")  # an argument of a call
        return found if alone or _is_atom(found) else f"({found})"

    return WORDS.sub(operand, text)


def _is_atom(text: str) -> bool:
    """Whether it is a name, a number or a call, which needs no brackets around it."""
    head, bracket, rest = text.partition("(")
    if not re.fullmatch(r"[\w.]+", head):
        return False
    depth = 1
    for place, letter in enumerate(rest, 1):
        depth += (letter == "(") - (letter == ")")
        if bracket and depth == 0:
            return place == len(rest)
    return not bracket


FOURS = "thread -> four elements."
PIECES = "block -> one piece of a row; thread -> every BLOCK-th four elements of it."
AGAIN = " The values of the forward pass are worked out again: registers are nearer than memory."
NULL = " A null pointer: that one is not wanted."
KERNEL = """\
{comment}
extern "C" __global__ void {name}({params}) {{
    {owner}({extent}, [](real {reals}) {{
{body}
    }}, {inputs});
}}
"""


class Written:
    """The file with the kernels `<name>_forward` and, where a gradient flows, `<name>_backward`."""

    def __init__(self, name: str, trace: Trace, formula: str):
        self.name, self.trace, self.formula = name, trace, formula
        self.closes = trace.closing is not None
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
        trace = self.trace
        sums = ", as sums over pieces of rows, which the kernel of sum adds up" if self.closes else ""
        body = [*map(line, trace.steps), f"return {trace.output.name};"]
        owner = "sum_pieces" if self.closes else "map"
        return self._kernel("forward", f"{self.formula}{sums}.", owner, [], trace.inputs, ["y"], "y", body)

    def _backward(self) -> str:
        outputs = [f"d{x.name}" for x in self.wanted]
        again = ["// [values again]", *map(line, self.again)] if self.again else []
        body = [*again, "// [rules in reverse]", *self.rules, f"return Reals{{{', '.join(self.gradients)}}};"]
        owner, made = "map_pieces" if self.closes else "map", f"Outputs{{{', '.join(outputs)}}}"
        does = f"{', '.join(outputs)} by the chain rule.{AGAIN if self.again else ''}"
        return self._kernel("backward", does, owner, ["dy"], self.reread, outputs, made, body)

    def _kernel(
        self, way: str, does: str, owner: str, first: list[str], inputs: Sequence[Value], outputs: Sequence[str],
        made: str, body: Iterable[str],
    ) -> str:  # fmt: skip
        """One kernel. `first` are inputs without a view; `made` is what the helper takes for the outputs."""
        views = [f"{x.name}_at" for x in inputs] if len(self.trace.inputs) > 1 else []  # one has the output's shape
        names, extent = [*first, *(x.name for x in inputs)], ["n", *(["chunk"] if self.closes else [])]
        params = [*(f"const real* {name}" for name in names), *(f"real* {name}" for name in outputs)]
        params += [*(f"View {view}" for view in views), *(f"int {size}" for size in extent)]
        whose = f"{PIECES if self.closes else FOURS}{NULL if len(outputs) > 1 else ''}"
        found = [f"Viewed{{{view[:-3]}, {view}}}" for view in views] or [x.name for x in inputs]
        return KERNEL.format(
            comment=comment(does, whose),
            name=f"{self.name}_{way}",
            params=listed(params, len(f"{self.name}_{way}")),
            owner=owner,
            extent=", ".join([made, *extent]),
            reals=", real ".join(names),
            body="\n".join(f"        {text}" for text in body),
            inputs=", ".join([*first, *found]),
        )


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


def listed(params: Sequence[str], before: int) -> str:
    """The parameters of a kernel, on lines of their own where they are long."""
    text = ", ".join(param.replace(" ", "~") for param in params)  # a line does not end within one
    if len(text) + before >= 76:
        text = "\n" + fill(text, 112, initial_indent="    ", subsequent_indent="    ")
    return text.replace("~", " ")


def comment(*sentences: str) -> str:
    """Each sentence on lines of its own."""
    return "\n".join(fill(text, 120, initial_indent="// ", subsequent_indent="// ") for text in sentences)
