"""The README's examples run, and print the numbers in their comments."""

import contextlib
import io
import re
import runpy
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TOOL = runpy.run_path(str(ROOT / "tests/tools/readme.py"))
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.fixture(scope="module")
def names():
    """The names that earlier examples have defined."""
    return {}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.splitlines()[0])
def test_an_example_prints_what_it_says(example, names):
    said = [line.split("# ", 1)[1] for line in example.splitlines() if line.startswith("print(")]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(example, names)
    assert len(printed.getvalue().splitlines()) == len(said)
    for line, comment in zip(printed.getvalue().splitlines(), said, strict=True):
        assert comment.startswith(line)


def test_the_tables_are_those_of_the_newest_records():
    assert TOOL["with_tables"](README) == README, "run: make notebooks"


@pytest.mark.parametrize("place", ["README.md", "notebooks/00_start_here.ipynb"])
def test_the_course_is_listed_with_the_titles_and_times_of_its_pages(place):
    text = (ROOT / place).read_text()
    if place.endswith("ipynb"):
        text = "\n".join(cell.source for cell in nbformat.reads(text, as_version=4).cells)
    rows = [row[3] for row in TOOL["ROW"].findall(text)]
    course = sorted(path.name for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
    assert rows == course[place != "README.md" :], "00 lists all that follow it"
    assert TOOL["with_course"](text) == text, "run: make notebooks"
