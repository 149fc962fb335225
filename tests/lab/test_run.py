"""`make notebooks` runs a notebook and stores it without widgets and times."""

import runpy
from pathlib import Path

import pytest
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

run = runpy.run_path(str(Path(__file__).parents[2] / "tools/notebooks.py"))["run"]


def notebook(*cells):
    described = {
        "kernelspec": {"name": "python3", "display_name": "Python 3"},
        "language_info": {"name": "python", "version": "3.11.7"},
    }
    return new_notebook(cells=[new_code_cell(source) for source in cells], metadata=described)


def test_stored_notebooks_have_no_widgets_no_times_and_keep_their_metadata():
    given = notebook("from ipywidgets import IntSlider\nprint(1)\nprint(2)\nIntSlider()", "1 + 1")
    before = dict(given.metadata)
    run(given)
    said, shown = given.cells[0].outputs
    assert said.text == "1\n2\n" and set(shown.data) == {"text/plain"}
    assert [cell.execution_count for cell in given.cells] == [1, 2]
    assert given.cells[1].outputs[0].data == {"text/plain": "2"}
    assert given.metadata == before and not any(cell.metadata for cell in given.cells)


def test_a_cell_that_fails_ends_the_run():
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        run(notebook("1 / 0"))
