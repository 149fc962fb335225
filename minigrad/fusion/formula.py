"""The formula of a trace, as a person would write it."""

import re

from minigrad.fusion.trace import Trace
from minigrad.fusion.values import WORDS, Step

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
