"""The README's examples run, and print the numbers in their comments."""

import contextlib
import io
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
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
    assert runpy.run_path(str(ROOT / "tools/readme.py"))["with_tables"](README) == README, "run: make notebooks"
