"""Listing: a piece of CUDA C++ with its file and line numbers, as a region under a mark `// [title]`."""

import re

MARK = re.compile(r"^[ \t]*//[ \t]*\[([^\]]+)\]", re.M)


class Listing:
    """Numbered lines of a file; shows itself highlighted in a notebook."""

    def __init__(self, file: str, first: int, text: str):
        self.file, self.first, self.text = file, first, text

    def __repr__(self) -> str:
        lines = self.text.splitlines()
        numbered = (f"{number:4d}  {line}" for number, line in enumerate(lines, self.first))
        return "\n".join([f"{self.file}:{self.first}", *numbered])

    def _repr_html_(self) -> str:
        from minigrad.show.code import highlight

        return highlight(self.text, self.first, self.file)


def regions(file: str, first: int, text: str) -> dict[str, Listing]:
    """What stands under each mark, up to the next one or the last brace."""
    marks = list(MARK.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [text.rfind("}")] * bool(marks)
    return {
        mark.group(1): Listing(file, first + text.count("\n", 0, mark.start()), text[mark.start() : end].rstrip())
        for mark, end in zip(marks, ends, strict=True)
    }
