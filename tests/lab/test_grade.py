"""`minigrad grade` finds right and wrong cells, in processes that a student's code can neither hold up nor end."""

import json
import time

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from minigrad.lab import cli, grade
from minigrad.lab.exercises.course import all_exercises

BIAS, COUNT = all_exercises()["bias_backward"], all_exercises()["count_blocks"]
RELU = """extern "C" __global__ void relu_forward(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) {
        y[i] = x[i] < 0 ? 0 : x[i];
    }
}"""


@pytest.fixture
def student(tmp_path):
    """A notebook with these code cells."""

    def make(*cells, name="student.ipynb"):
        book = new_notebook(cells=[new_markdown_cell("# Mine"), *map(new_code_cell, cells)])
        nbformat.write(book, tmp_path / name)
        return tmp_path / name

    return make


def test_right_and_wrong_cells_are_found(student, capsys, tmp_path):
    wrong = BIAS.solution().replace("sum +=", "sum =")
    first = student(
        "import minigrad as mg",
        f"%%exercise bias_backward\n{wrong}",
        f"# my second try\n%%exercise bias_backward\n{BIAS.solution()}",
        f"%%kernel relu forward\n{RELU}",
        name="first.ipynb",
    )
    second = student(f"%%exercise count_blocks\n{COUNT.skeleton}", "%%exercise nothing\n1", name="second.ipynb")
    file = tmp_path / "grades.json"
    assert cli.main(["grade", str(first), str(second), "--json", str(file)]) == 0
    printed, saved = capsys.readouterr().out, json.loads(file.read_text())
    assert [(c["exercise"], c["verdict"], c["correct"]) for c in saved["cells"] if c["verdict"] != "missing"] == [
        ("bias_backward", "value", False),
        ("bias_backward", "right", True),
        ("%%kernel relu forward", "never-written", False),
        ("count_blocks", "unfinished", False),
        ("nothing", "unknown", False),
    ]
    assert "db[0] is" in saved["cells"][0]["sentence"] and saved["cells"][1]["sentence"] == "Correct."
    all_of = {number: sum(each.notebook == number for each in all_exercises().values()) for number in ("01", "03")}
    assert saved["totals"] == {
        str(first): {"right": 1, "exercises": all_of["03"]},
        str(second): {"right": 0, "exercises": all_of["01"]},
    }
    assert saved["total"] == {"right": 1, "exercises": all_of["01"] + all_of["03"]}
    assert f"{first}: 1 of {all_of['03']} right" in printed and "never-written" in printed


def test_deleted_exercises_count_and_unknown_names_do_not(student):
    right = f"%%exercise bias_backward\n{BIAS.solution()}"
    counting = f"%%exercise count_blocks\n{COUNT.solution()}"
    found = grade.grade([student(right, counting, "%%exercise nothing\n1", name="ada_03_x.ipynb")])
    full = {name for name, each in all_exercises().items() if each.notebook == "03"}
    assert list(found.totals().values()) == [{"right": 1, "exercises": len(full)}], (
        "of as many cells the name of the file decides"
    )
    assert {cell.exercise for cell in found.cells if cell.verdict == "missing"} == full - {"bias_backward"}
    assert list(grade.grade([student("x = 1", name="notes.ipynb")]).totals().values()) == [{"right": 0, "exercises": 0}]


def test_a_cell_that_needs_another_one_gets_a_sentence(student):
    alone = "%%exercise count_blocks\ndef count_blocks(n, BLOCK):\n    return math.ceil(n / BLOCK)"
    broken = "%%exercise count_blocks\ndef count_blocks(n, BLOCK):\n    return (n"
    first, second, *_ = grade.grade([student("import math", alone, broken)]).cells
    assert (first.verdict, second.verdict) == ("raised", "raised")
    assert "name 'math' is not defined" in first.sentence and first.sentence.endswith(grade.ALONE)
    assert second.sentence == "Python says SyntaxError: '(' was never closed, in line 2, `return (n`."


def test_the_table_has_whole_sentences(student):
    found = grade.grade([student(f"%%exercise bias_backward\n{BIAS.solution().replace('sum +=', 'sum =')}")])
    shown = " ".join(row[3] for row in found.table().rows)
    assert found.cells[0].sentence in shown and len(found.cells[0].sentence) > grade.WIDTH


def test_code_that_never_ends_or_ends_the_process_is_stopped(student):
    endless = "%%exercise count_blocks\ndef count_blocks(n, BLOCK):\n    while True: pass"
    ending = "%%exercise count_blocks\ndef count_blocks(n, BLOCK):\n    import os; os._exit(0)"
    loud = f"%%exercise count_blocks\nprint('heard')\n{COUNT.solution()}"
    found = grade.grade([student(endless, ending, loud)], limit=6)
    assert [cell.verdict for cell in found.cells[:3]] == ["timeout", "crashed", "right"]
    assert found.cells[0].sentence == "It was stopped after 6 s."


def test_a_date_in_the_name_of_a_file_is_no_notebook(student):
    right = f"%%exercise count_blocks\n{COUNT.solution()}"
    cells = list(grade.answers(student(right, name="bob-2025-09-14.ipynb")))
    assert COUNT.name in grade.notebook_of("bob-2025-09-14.ipynb", cells)
    assert {all_exercises()[name].notebook for name in grade.notebook_of("09.ipynb", [])} == {"09"}


def test_no_cell_changes_the_verdict_on_another(student):
    leak = f"%%exercise count_blocks\nimport builtins\nbuiltins.blocks = lambda n, b: -(-n // b)\n{COUNT.solution()}"
    taking = "%%exercise count_blocks\ndef count_blocks(n, BLOCK):\n    return blocks(n, BLOCK)"
    first, second = student(leak, name="ada.ipynb"), student(taking, name="bob.ipynb")
    verdicts = [cell.verdict for cell in grade.grade([first, second]).cells if cell.verdict != "missing"]
    assert verdicts == ["right", "raised"]


def test_what_a_stopped_cell_started_is_ended_too(student, tmp_path):
    file = tmp_path / "beats"
    script = f"import time\nwhile True:\n    open({str(file)!r}, 'a').write('x')\n    time.sleep(0.1)"
    start = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {script!r}])"
    cell = f"%%exercise count_blocks\n{start}\ndef count_blocks(n, BLOCK):\n    while True: pass"
    assert grade.grade([student(cell)], limit=3).cells[0].verdict == "timeout"
    size = file.stat().st_size
    time.sleep(1)
    assert 0 < size == file.stat().st_size


def test_a_process_that_does_not_start_gives_a_sentence(student, monkeypatch):
    monkeypatch.setattr(grade, "START", 0.0)
    found = grade.grade([student(f"%%exercise count_blocks\n{COUNT.solution()}")])
    assert (found.cells[0].verdict, found.cells[0].sentence[-25:]) == ("crashed", "did not start within 0 s.")


def test_a_function_that_a_later_cell_checks_is_graded(student):
    path = student("x = 1", COUNT.solution(), 'mg.exercise("count_blocks").check(count_blocks)')
    assert grade.grade([path]).cells[0].verdict == "right"


def test_nothing_of_it_is_the_teachers_progress(student, monkeypatch, tmp_path):
    monkeypatch.setenv("MINIGRAD_PROGRESS", str(tmp_path / "progress.json"))
    assert grade.grade([student(f"%%exercise count_blocks\n{COUNT.solution()}")]).cells[0].correct
    assert not (tmp_path / "progress.json").exists()


def test_a_byte_order_mark_is_no_fault(student):
    path = student(f"%%exercise count_blocks\n{COUNT.solution()}")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert grade.grade([path]).cells[0].correct


def test_a_file_that_is_no_notebook_gives_a_sentence(student, tmp_path, capsys):
    (tmp_path / "text.ipynb").write_text("not JSON")
    (tmp_path / "list.ipynb").write_text('{"cells": [{"cell_type": "code"}]}')
    right = student(f"%%exercise count_blocks\n{COUNT.solution()}")
    names = [str(tmp_path / name) for name in ("text.ipynb", "list.ipynb", "missing.ipynb")]
    assert cli.main(["grade", *names]) == 2
    said = capsys.readouterr().err
    assert f"{names[0]} is no notebook" in said and f"{names[1]} is no notebook" in said
    assert f"{names[2]}: No such file" in said
    assert cli.main(["grade", names[0], str(right)]) == 2
    assert "student.ipynb: 1 of " in capsys.readouterr().out, "the others are graded"


def test_json_that_cannot_be_written_gives_a_sentence(student, tmp_path, capsys):
    assert cli.main(["grade", str(student("x = 1")), "--json", str(tmp_path / "no" / "grades.json")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_the_help_says_that_code_is_run(capsys):
    with pytest.raises(SystemExit):
        cli.main(["grade", "--help"])
    assert "RUNS THE STUDENTS' CODE" in " ".join(capsys.readouterr().out.split())
