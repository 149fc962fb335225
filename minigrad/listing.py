"""Listing: a piece of CUDA C++ with its file and line numbers."""


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
