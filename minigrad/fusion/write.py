"""Generate code from a trace: its formula for the card, and the CUDA C++ of its kernels."""

import re
from collections.abc import Iterable, Sequence
from textwrap import fill

import numpy as np

from minigrad.fusion.trace import WORDS, Constant, Step, Trace, Value

LONGEST = 60  # characters; a longer part of the formula is replaced by the name of its step in the kernel


def formula(trace: Trace) -> str:
    """y = the sum of log((x * x) + 1) * exp(x)"""
    texts = {id(x): x.name for x in trace.inputs}
    whole = trace.output.name
    for step in trace.steps:
        whole = _put(step, texts)
        texts[id(step)] = whole if len(whole) <= LONGEST else step.name
    return f"y = the {trace.closing.op.name} of {whole}" if trace.closing is not None else f"y = {whole}"


def _put(step: Step, texts: dict[int, str]) -> str:
    """A step's CUDA C++ with the texts of its inputs; an op with a condition is written as a call of the op."""
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
    """A name, a number or a call needs no brackets."""
    calls = 1
    while calls:  # a name in place of each call and bracket, from the inside out
        text, calls = re.subn(r"\w*\([^()]*\)", "x", text)
    return re.fullmatch(r"[\w.]+", text) is not None


FOURS = "thread -> four elements."
CHUNKS = "block -> one chunk of a row; thread -> four neighbors, then four that are BLOCK * 4 further, and so on."
RECOMPUTED = " It recomputes the values of the forward pass: registers are faster than memory."
NULL = " A null pointer marks a gradient that is not wanted."
KERNEL = """\
{comment}
extern "C" __global__ void {name}({params}) {{
    {owner}({extent}, [](wide {reals}) {{
{body}
    }}, {inputs});
}}
"""


class FusedSource:
    """The file with the kernels `<name>_forward` and, if an input gets a gradient, `<name>_backward`."""

    def __init__(self, name: str, trace: Trace, formula: str):
        self.name, self.trace, self.formula = name, trace, formula
        self.closes = trace.closing is not None
        self.rules, gradients = rules(trace)
        self.wanted = [x for x in trace.inputs if id(x) in gradients]  # inputs that a gradient reaches
        self.gradients = [gradients[id(x)] for x in self.wanted]
        self.recomputed = needed(trace.steps, self.rules)
        named = words([*self.rules, *map(line, self.recomputed)])
        self.reread = [x for x in trace.inputs if x.name in named]  # inputs that the gradient reads

    @property
    def gradient(self) -> str:
        """The formula of the backward kernel."""
        found = ", ".join(f"d{x.name}" for x in self.wanted)
        return f"{found} by the chain rule, with the values of the forward pass recomputed"

    @property
    def text(self) -> str:
        kernels = [self._forward(), *([self._backward()] if self.wanted else [])]
        return "\n".join(['#include "fused.cuh"\n', *kernels])

    def _forward(self) -> str:
        trace = self.trace
        sums = ": one for each chunk, which the kernel of sum adds up" if self.closes else ""
        body = [*map(line, trace.steps), f"return {trace.output.name};"]
        owner = "sum_pieces" if self.closes else "map"
        return self._kernel("forward", f"{self.formula}{sums}.", owner, [], trace.inputs, ["y"], "y", body)

    def _backward(self) -> str:
        outputs = [f"d{x.name}" for x in self.wanted]
        recomputed = ["// [recompute values]", *map(line, self.recomputed)] if self.recomputed else []
        body = [*recomputed, "// [rules in reverse]", *self.rules, f"return Reals{{{', '.join(self.gradients)}}};"]
        owner, target = "map_pieces" if self.closes else "map", f"Outputs{{{', '.join(outputs)}}}"
        formula = f"{', '.join(outputs)} by the chain rule.{RECOMPUTED if self.recomputed else ''}"
        return self._kernel("backward", formula, owner, ["dy"], self.reread, outputs, target, body)

    def _kernel(
        self, way: str, formula: str, owner: str, first: list[str], inputs: Sequence[Value], outputs: Sequence[str],
        target: str, body: Iterable[str],
    ) -> str:  # fmt: skip
        """One kernel. first: inputs without a view; target: the argument of the helper for the outputs."""
        views = [f"{x.name}_at" for x in inputs] if len(self.trace.inputs) > 1 else []  # one has the output's shape
        names, extent = [*first, *(x.name for x in inputs)], ["n", *(["chunk"] if self.closes else [])]
        kind = "wide" if owner == "sum_pieces" else "real"
        params = [*(f"const real* {name}" for name in names), *(f"{kind}* {name}" for name in outputs)]
        params += [*(f"View {view}" for view in views), *(f"int {size}" for size in extent)]
        ownership = f"{CHUNKS if self.closes else FOURS}{NULL if len(outputs) > 1 else ''}"
        found = [f"Viewed{{{view[:-3]}, {view}}}" for view in views] or [x.name for x in inputs]
        return KERNEL.format(
            comment=comment(formula, ownership),
            name=f"{self.name}_{way}",
            params=listed(params, len(f"{self.name}_{way}")),
            owner=owner,
            extent=", ".join([target, *extent]),
            reals=", wide ".join(names),
            body="\n".join(f"        {text}" for text in body),
            inputs=", ".join([*first, *found]),
        )


def rules(trace: Trace) -> tuple[list[str], dict[int, str]]:
    """The lines of the chain rule, from the last step to the first, and the gradient of each value by its id."""
    lines: list[str] = []
    gradients = {id(trace.output): "dy"}
    for step in reversed(trace.steps):
        dy = gradients.get(id(step))
        for text, x in zip(step.op.cuda[1:], step.inputs, strict=False) if dy else ():
            if text is None or isinstance(x, Constant):
                continue
            name, part = f"d{x.name}", step.cuda(text, str(dy))
            lines.append(f"{name} += {part};" if id(x) in gradients else f"wide {name} = {part};")
            gradients[id(x)] = name
    return lines, gradients


def needed(steps: Sequence[Step], lines: Iterable[str]) -> list[Step]:
    """The steps whose values these lines use, directly or through other steps."""
    names, used = words(lines), []
    for step in reversed(steps):
        if step.name in names:
            names |= words([line(step)])
            used.append(step)
    return used[::-1]


def line(step: Step) -> str:
    """wide t2 = t1 + wide(1);"""
    return f"{'bool' if step.sample.dtype == np.bool_ else 'wide'} {step.name} = {step.cuda(str(step.op.cuda[0]))};"


def words(lines: Iterable[str]) -> set[str]:
    """The names in some lines."""
    return {word for text in lines for word in WORDS.findall(text)}


def listed(params: Sequence[str], before: int) -> str:
    """The parameters of a kernel, on separate lines if they are long."""
    text = ", ".join(param.replace(" ", "~") for param in params)  # no line break within a parameter
    if len(text) + before >= 76:
        text = "\n" + fill(text, 112, initial_indent="    ", subsequent_indent="    ")
    return text.replace("~", " ")


def comment(*sentences: str) -> str:
    """Each sentence begins a new line."""
    return "\n".join(fill(text, 120, initial_indent="// ", subsequent_indent="// ") for text in sentences)
