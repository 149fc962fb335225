"""The checks of exercises accept the solution, and reject every wrong version for its reason."""

import ast
import re
from collections import Counter
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell

import minigrad as mg
from minigrad.lab import notebook as magic
from minigrad.lab.check.answer import Answer
from minigrad.lab.check.attempt import attempt
from minigrad.lab.exercises import KernelExercise, Prediction, PythonExercise
from minigrad.lab.exercises.course import all_exercises
from minigrad.lab.exercises.exercise import bare

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
EXERCISES = all_exercises()
KERNELS = [each for each in EXERCISES.values() if isinstance(each, KernelExercise)]
PYTHON = [each for each in EXERCISES.values() if isinstance(each, PythonExercise)]
PREDICTIONS = [each for each in EXERCISES.values() if isinstance(each, Prediction)]


def few(exercises):
    """One wrong version of each kernel, all of which are compiled: of the kind that fewest of those before it have."""
    seen, chosen = Counter(), []
    for each in exercises:
        wrong = min(each.wrong, key=lambda version: seen[version.kind])
        seen[wrong.kind] += 1
        chosen.append(wrong)
    return chosen


FEW = few(KERNELS)  # `make soak` has the others
WRONG = [
    pytest.param(
        each,
        wrong,
        id=f"{each.name}-{i}-{wrong.kind}",
        marks=pytest.mark.soak if each in KERNELS and all(wrong is not one for one in FEW) else (),
    )
    for each in EXERCISES.values()
    for i, wrong in enumerate(each.wrong, 1)
]


def name_of(exercise):
    return exercise.name


@pytest.mark.sample(2)
@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=name_of)
def test_the_solution_is_right(exercise):
    found = exercise.check(exercise.solution())
    assert found.correct and found.text.startswith("Correct") and not found.kind, found
    assert found.result is not None


@pytest.mark.parametrize("exercise", PYTHON, ids=name_of)
def test_the_solution_is_right_where_new_tensors_are_elsewhere(exercise, monkeypatch):
    """As on a machine with a GPU: what an exercise makes itself has the device of its batches."""
    monkeypatch.setenv("MINIGRAD_DEVICE", "sim")
    test_the_solution_is_right(exercise)


@pytest.mark.parametrize(("exercise", "wrong"), WRONG)
def test_a_wrong_version_is_rejected_for_its_reason(exercise, wrong):
    text = wrong.edit(exercise.solution())
    found = exercise.check(text)
    assert (found.correct, found.kind) == (False, wrong.kind), found
    assert found.text.startswith("Not yet. ") and "Traceback" not in found.text
    assert (wrong.why in found.text) == (bare(text, exercise.python) != bare(exercise.skeleton, exercise.python)), (
        "a bug hunt does not say where"
    )
    assert f'mg.exercise("{exercise.name}").hint()' in found.text


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=name_of)
def test_the_skeleton_is_no_solution(exercise):
    """It is unfinished; only in the hunt for a bug it is complete and at fault, and for a score it may be wasteful."""
    found = exercise.check(exercise.skeleton)
    assert not found.correct and f'mg.exercise("{exercise.name}").hint()' in found.text, found
    if exercise.bug or (exercise in KERNELS and exercise.score and found.kind == "wasteful"):
        assert found.kind not in ("unfinished", "compile", "signature", "usage"), found
        assert not any(wrong.why in found.text for wrong in exercise.wrong)
    else:
        words = "put a number in place of" if exercise in PREDICTIONS else "the marked lines are still to be written."
        assert found.kind == "unfinished" and found.text.startswith(f"Not yet: {words}"), found


@pytest.mark.parametrize("exercise", KERNELS, ids=name_of)
def test_a_skeleton_compiles(exercise):
    assert attempt(exercise, exercise.skeleton).kind not in ("compile", "signature")


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=name_of)
def test_an_exercise_is_complete(exercise):
    assert len(exercise.wrong) >= (10 if exercise in KERNELS else 5) and len(exercise.hints) >= 2
    versions = [wrong.edit(exercise.solution()) for wrong in exercise.wrong]
    assert len(set(versions)) == len(versions)
    for text in (exercise.solution(), exercise.skeleton):
        assert not re.search(r"(//|#)[<>]", text), "a marker is left"
        assert max(map(len, text.splitlines())) <= 100, "a line is wider than a cell"
    assert exercise.skeleton != exercise.solution()


def test_a_file_holds_the_exercise_of_its_name():
    files = sorted(path.stem for path in Path(mg.exercise.__code__.co_filename).parent.glob("[!_]*.py"))
    assert sorted(EXERCISES) == files


@pytest.mark.parametrize(("name", "number"), [("any_block_sum", 8), ("table_backward", 1)])
def test_a_race_is_found_where_the_value_is_right(name, number):
    exercise = EXERCISES[name]
    found = exercise.check(exercise.wrong[number - 1].edit(exercise.solution()))
    assert found.kind == "race" and "wanted" not in found.text


def test_all_kinds_of_mistakes_are_among_the_wrong_versions():
    kinds = {wrong.kind for each in KERNELS for wrong in each.wrong}
    found = {"value", "nan", "never-written", "out-of-bounds", "race", "uninitialised", "barrier-divergence"}
    assert kinds >= {*found, "wasteful"}
    assert {wrong.kind for wrong in FEW} == kinds, "each kind is among those that every run compiles"


# --- what a reader calls ---


def test_hints_come_one_at_a_time():
    exercise = type(EXERCISES["count_blocks"]).__new__(PythonExercise)
    vars(exercise).update(vars(EXERCISES["count_blocks"]), _hinted=0)
    given = [exercise.hint() for _ in range(len(exercise.hints) + 1)]
    assert [text[:12] for text in given] == ["Hint 1 of 2:", "Hint 2 of 2:", "That was the"]
    assert repr(given[0]) == str(given[0])


def test_the_list_names_every_exercise():
    text = repr(mg.exercise())
    assert all(f'mg.exercise("{name}")' in text for name in EXERCISES)
    with pytest.raises(ValueError, match=r"no exercise 'add'; there are .*add_bounds"):
        mg.exercise("add")
    with pytest.raises(ValueError, match=r"no exercise 'tile_transpose'; did you mean transpose_tile\? mg\.exercise"):
        mg.exercise("tile_transpose")


def test_an_exercise_shows_its_task_and_where_to_start():
    exercise = mg.exercise("add_bounds")
    assert exercise is mg.exercise("add_bounds")
    assert repr(exercise).startswith("**Add two arrays") and "%%exercise add_bounds\n" in repr(exercise)
    assert "3 hints" in exercise._repr_markdown_()


def test_an_attempt_that_is_no_text_is_rejected():
    with pytest.raises(TypeError, match=r"mg\.exercise\(\"clip\"\) takes the text of the kernel; got int 3"):
        mg.exercise("clip").check(3)


# --- the notebooks ---


def code(path):
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def asked(text):
    """The exercise whose skeleton the cell is, or None."""
    found = re.match(r"%%exercise (\w+)", text)
    return EXERCISES.get(found[1]) if found else None


def needed(cells):
    """The cells about exercises, and those that define a name for them: the rest of a notebook is run on its own."""
    chosen, missing, asked_for = [], set(), {exercise.name for text in cells if (exercise := asked(text))}
    for text in reversed(cells):
        python = list(ast.walk(ast.parse(TransformerManager().transform_cell(text))))
        names = [node for node in python if isinstance(node, ast.Name)]
        loaded = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        stored |= {getattr(node, "asname", None) or getattr(node, "name", None) for node in python}
        if stored & missing or any(re.search(rf"\b{name}\b", text) for name in asked_for):
            chosen.append(text)
            missing |= loaded
    return chosen[::-1]


TAUGHT = [path for path in NOTEBOOKS if any(map(asked, code(path)))]


@pytest.mark.parametrize("path", TAUGHT, ids=lambda path: path.stem)
def test_cells_to_fill_in_are_the_skeletons(path):
    for text in code(path):
        if exercise := asked(text):
            assert text.strip() == f"%%exercise {exercise.name}\n{exercise.skeleton.strip()}", "take it as it is"
            assert path.name.startswith(exercise.notebook)


@pytest.mark.parametrize("path", [path for path in NOTEBOOKS if "01" <= path.stem < "20"], ids=lambda path: path.stem)
def test_a_notebook_has_four_exercises_with_a_prediction_and_a_bug(path):
    there = {exercise.name: exercise for text in code(path) if (exercise := asked(text))}.values()
    assert len(there) >= 4
    assert any(exercise in PREDICTIONS for exercise in there) and any(exercise.bug for exercise in there)


@pytest.mark.sample(5)
@pytest.mark.parametrize("path", TAUGHT, ids=lambda path: path.stem)
def test_a_notebook_with_its_solutions_is_all_correct(path):
    shell = InteractiveShell()
    magic.register(shell)
    answers = []
    for text in needed(code(path)):
        if exercise := asked(text):
            text = text.replace(exercise.skeleton.strip(), exercise.solution())
        ran = shell.run_cell(text)
        assert ran.success, text
        answers += [ran.result] if isinstance(ran.result, Answer) else []
    shell.history_manager.end_session()
    assert len(answers) >= len(list(filter(asked, code(path))))
    assert all(answer.correct for answer in answers), answers


def test_every_exercise_is_in_its_notebook():
    there = {asked(text) for path in TAUGHT for text in code(path)}
    written = {path.name.partition("_")[0] for path in NOTEBOOKS}
    assert {each.name for each in EXERCISES.values() if each.notebook in written and each not in there} == set()
