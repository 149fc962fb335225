"""The framework of exercises: skeletons, predictions, bug hunts, scores and limits, and the picture of an answer."""

import subprocess
import sys

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import minigrad as mg
from minigrad.lab import notebook as magic
from minigrad.lab.check.attempt import drawn, observe
from minigrad.lab.check.kernel import OpTrial
from minigrad.lab.exercises import KernelExercise, Prediction, PythonExercise, Wrong, numbers
from minigrad.lab.exercises.counts import COUNTS

COLUMN = """extern "C" __global__ void column(const float* x, float* y, int n) {
    y[threadIdx.x] = x[threadIdx.x * n];
}
"""


def predict(**changes):
    """A prediction of the sectors of a column, which counts its runs."""
    runs = []

    def run():
        runs.append(1)
        return mg.inspect(COLUMN, np.ones((32, 32), "f"), np.ones(32, "f"), 32, grid=1, block=32)

    content = {
        "task": "**Sectors of a column.** How many?",
        "solution": '#> reads = ...  # sectors\nreads = 32\n#<\n#> way = ...\nway = "column"\n#<\n',
        "run": run,
        "truth": lambda record: {"reads": record.lines[0].sectors_per_request, "way": "column"},
        "hints": ["Draw it.", "Each lane is in a row of its own."],
        "wrong": [Wrong("reads = 32", "reads = 4", "value", "That would be a row."),
                  Wrong("reads = 32", "reads = 1", "value", "That would be one sector for the warp."),
                  Wrong('"column"', '"row"', "value", "Look at the index.")],
    }  # fmt: skip
    found = Prediction("04", "column_sectors", **content | changes)
    return found, runs


def twice(solution, **changes):
    """An exercise about y = 2 x whose kernel is in `solution`."""
    content = {
        "task": "**Twice.**", "solution": solution, "hints": ["a", "b"],
        "wrong": [Wrong("i < n", "i <= n", "out-of-bounds", "One past the end.")],
        "reference": lambda x: 2 * x, "arguments": lambda x: {"y": x.shape, "n": x.size},
        "inputs": [(numbers(n),) for n in (1, 33, 1025)],
    }  # fmt: skip
    return KernelExercise("04", **content | changes)


HEAD = """
extern "C" __global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
"""
BUG = f"""{HEAD}    //> if (i <= n) {{
    //>     y[i] = 2 * x[i];
    //> }}
    if (i < n) {{
        y[i] = 2 * x[i];
    }}
    //<
    //>
    (void)0;
    //<
}}
"""
FAR = f"""{HEAD}    //> for (int j = 4 * i; j < 4 * i + 4 && j < n; ++j) {{
    //>     y[j] = 2 * x[j];
    //> }}
    for (int j = i; j < n; j += gridDim.x * blockDim.x) {{
        y[j] = 2 * x[j];
    }}
    //<
}}
"""
SCORED = {"score": "sectors", "sizes": "fourth", "wrong": [],
          "arguments": lambda x: {"y": x.shape, "n": x.size, "fourth": -(-x.size // 4)}}  # fmt: skip
SCORE = "Your score: {} sectors of global memory. The solution has 258, the cell as given 1026."


# --- skeletons ---


def test_several_lines_of_a_skeleton_keep_order_and_indentation_and_an_empty_one_leaves_nothing():
    assert twice(BUG).skeleton == (
        f"{HEAD.lstrip()}    if (i <= n) {{\n        y[i] = 2 * x[i];\n    }}\n}}\n"
    )  # fmt: skip
    text = "#> a = 1\n#>\n#>   b\nx\n#<\n"
    assert Prediction("01", "p", task="**T**", solution=text, hints=[], wrong=[], run=int, truth=dict).skeleton == (
        "a = 1\n\n  b\n"
    )


# --- predictions ---


def test_a_prediction_is_measured_when_numbers_are_given():
    exercise, runs = predict()
    assert exercise.skeleton == "reads = ...  # sectors\nway = ...\n"
    found = exercise.check("reads = 4\nway = ...\n")
    assert found.kind == "unfinished" and "the dots of way." in found.text and found.view is None
    assert not runs, "an unfinished cell measures nothing"
    found = exercise.check(exercise.solution())
    assert found.correct and found.text == "Correct. Measured: reads = 32, way = 'column'."
    assert found.result is exercise.record and len(runs) == 1


@pytest.mark.parametrize(
    ("right", "rtol", "mine", "agrees"),
    [(1025.0, None, 1024, False), (1025.0, None, "np.int64(1025)", True), (18 / 7, None, 2.57, True),
     (18 / 7, None, 2.5, False), (1000, 0.1, 920, True), (32, None, "[32, 32]", False), (True, None, True, True),
     (True, None, "'yes'", False), ("row", None, "'row'", True), ("row", None, 4, False)],
)  # fmt: skip
def test_whole_numbers_are_exact_and_fractions_are_rounded(right, rtol, mine, agrees):
    exercise, _ = predict(truth=lambda record: {"reads": right, "way": "column"}, rtol=rtol)
    assert exercise.check(f"reads = {mine}\nway = 'column'").correct == agrees


def test_a_wrong_prediction_says_each_number_and_the_known_reasons():
    exercise, _ = predict()
    found = exercise.check("reads = 4\nway = 'row'")
    assert (found.correct, found.kind) == (False, "value")
    assert found.text.splitlines() == [
        "Not yet. `reads` is 32; you predicted 4. `way` is 'column'; you predicted 'row'.",
        "That would be a row.", "Look at the index.", 'A hint: mg.exercise("column_sectors").hint()',
    ]  # fmt: skip
    found = exercise.check("reads = 5\nway = 'column'")
    assert "`way` is right." in found.text and len(found.text.splitlines()) == 2, "5 has no known reason"
    assert exercise.check("reads = '32'\nway = 'column'").kind == "value"
    assert "ZeroDivisionError" in exercise.check("reads = 1 / 0").text


@pytest.mark.parametrize("mine", ["10**400", "float('nan')", "10**5000", "'\\ud800'", "[10**5000]", "np.ones(3)"])
def test_any_number_is_answered(mine):
    found = predict()[0].check(f'reads = {mine}\nway = "column"\n')
    assert found.kind == "value" and "`reads` is 32; you predicted " in found.text


def test_a_prediction_may_use_the_names_of_the_notebook_but_must_set_its_own():
    exercise, _ = predict()
    names = {"lanes": 32, "reads": 32, "way": "column"}
    assert exercise.check("reads = lanes\nway = 'column'", names).correct
    assert exercise.check("way = 'column'", names).kind == "unfinished"
    assert names == {"lanes": 32, "reads": 32, "way": "column"}


def test_the_answer_to_a_prediction_shows_the_measured_run():
    exercise, _ = predict()
    picture, table = exercise.check("reads = 4\nway = 'row'").view()
    assert picture.title.startswith("column, a warp: 32 sectors to read x, 4 sectors to write y")
    assert "sectors" in repr(table) and "36" in repr(table)
    shown, _ = predict(show=lambda record: mg.show.sectors(record, "y"))
    assert shown.check("reads = 4\nway = 'row'").view()[0].title == "column, a warp: 4 sectors to write y"


# --- bugs to find ---


def test_a_bug_is_answered_by_its_first_fault_and_not_by_its_reason():
    exercise = twice(BUG, bug=True, wrong=[Wrong("i < n", "i <= n", "out-of-bounds", "One past the end.")])
    found = exercise.check(exercise.skeleton)
    assert found.kind == "out-of-bounds" and "One past the end." not in found.text and ".hint()" in found.text
    assert "One past the end." in exercise.check(exercise.solution().replace("i < n", "i <= n")).text
    assert exercise.check(exercise.solution()).correct
    assert twice(BUG).check(exercise.skeleton).kind == "unfinished"


def test_a_hunt_gives_the_case_that_fails_and_leaves_the_fault_to_the_hints():
    exercise = mg.exercise("spread")
    found = exercise.check(exercise.skeleton)
    assert "wanted" in found.text and "Thread" not in found.text and found.view is None and ".hint()" in found.text
    assert found.line is None and len(found.text.splitlines()) == 2
    assert "Thread (1, 0, 0) reads sums[0]" in exercise.check(exercise.skeleton.replace("own = 0;", "own = 0.0f;")).text


def test_a_bug_of_python_is_answered_as_any_attempt():
    content = {
        "task": "**Half.**", "solution": "def half(n):\n    #> return n / 2\n    return n // 2\n    #<\n",
        "hints": [], "wrong": [], "truth": lambda n: n // 2, "cases": [(3,)],
    }  # fmt: skip
    found = PythonExercise("01", bug=True, **content).check("def half(n):\n    return n / 2\n")
    assert found.kind == "value" and "1.5, wanted 1" in found.text
    assert PythonExercise("01", **content).check("def half(n):\n    return n / 2\n").kind == "unfinished"


def test_a_known_mistake_of_a_slow_exercise_is_recognized_by_its_text():
    ran, solution = [], "def half(n):\n    #> return 0\n    return n // 2\n    #<\n"
    content = {"task": "**Half.**", "solution": solution, "hints": [], "call": lambda f, n: ran.append(n) or f(n),
               "wrong": [Wrong("n // 2", "n // 3", "value", "A third."), Wrong("n // 2", "n", "value", "All.")],
               "truth": lambda n: n // 2, "cases": [(30,)]}  # fmt: skip
    exercise = PythonExercise("01", slow=True, **content)
    assert "A third." in exercise.check("def half(n):\n    return n//3  # mine\n").text and len(ran) == 1
    assert "A third." not in exercise.check("def half(n):\n    return n - 20\n").text and len(ran) == 2
    exercise = PythonExercise("01", **content)
    assert "A third." in exercise.check("def half(n):\n    return n - 20\n").text and len(ran) == 6
    assert "A third." in exercise.check("def half(n):\n    return 10\n").text and len(ran) == 8, "outcomes are kept"


# --- scores and limits ---


def test_a_score_is_compared_with_the_solution_and_with_the_cell_as_given():
    exercise = twice(FAR, **SCORED)
    found = exercise.check(exercise.skeleton)
    assert found.kind == "wasteful" and "it moves 1026 sectors of global memory, where 258 are enough" in found.text
    assert SCORE.format(1026) in found.text
    found = exercise.check(exercise.solution())
    assert found.correct and found.text.endswith(SCORE.format(258))


def test_a_first_block_that_leaves_its_work_to_the_others_has_no_better_score():
    exercise = twice(FAR, **SCORED)
    idle = "if (gridDim.x > 1 && blockIdx.x == 0) { return; }\n"
    start = "int j = gridDim.x > 1 ? i - blockDim.x : i;"
    step = "j += (gridDim.x > 1 ? gridDim.x - 1 : 1) * blockDim.x"
    text = exercise.solution().replace("int j = i;", start).replace("j += gridDim.x * blockDim.x", step)
    found = exercise.check(text.replace("    for", f"    {idle}    for"))
    assert found.correct and found.text.endswith(SCORE.format(258)), found


def test_a_limit_is_a_multiple_of_the_count_of_the_solution():
    text = twice(FAR).skeleton
    changes = SCORED | {"score": ""}
    assert twice(FAR, **changes, limits={"sectors": 4}).check(text.replace("4 *", "4*")).kind == "unfinished"
    far = text.replace("++j", "j++")
    assert twice(FAR, **changes, limits={"sectors": 4}).check(far).correct
    assert twice(FAR, **changes, limits={"sectors": 3}).check(far).kind == "wasteful"
    with pytest.raises(ValueError, match="there is no count 'sector'; there are accesses, atomics, sectors"):
        twice(FAR, limits={"sector": 1})


def test_every_count_has_a_sentence_with_two_numbers():
    for count in COUNTS.values():
        assert count.advice.count("{}") == 2 and count.advice.endswith(".") and count.unit


# --- pictures ---


def test_the_picture_is_of_the_attempts_own_accesses():
    exercise = twice(FAR, **SCORED)
    far, near = (exercise.check(text).view() for text in (exercise.skeleton, exercise.solution()))
    assert far[0].title == "twice, a warp: 16 sectors to read x, 16 sectors to write y"
    assert near[0].title == "twice, a warp: 3.824 sectors to read x, 3.824 sectors to write y"
    assert [row.split()[:3] for row in repr(far[1]).splitlines()[-3:]] == [
        ["yours", "8", "1026"], ["solution", "6", "258"], ["as", "given", "8"],
    ]  # fmt: skip
    wrong = exercise.check(exercise.skeleton.replace("2 *", "3 *"))
    assert wrong.kind == "value" and wrong.view()[0].title == far[0].title, "after a failure, too"


def test_the_counts_beside_a_race_name_their_own_launch():
    found = mg.exercise("whole_stride").check(mg.exercise("whole_stride").skeleton)
    assert found.kind == "race" and "n=33, BLOCK=32, GRID=3" in found.text
    assert "Counted in all 4 blocks, n=1025, BLOCK=64, GRID=4:" in repr(found.view()[-1])


def test_the_picture_of_a_race_on_a_shared_array_is_its_phases():
    exercise = mg.exercise("dot_product")
    found = exercise.check(exercise.solution().replace("        __syncthreads();\n", ""))
    assert found.kind == "race" and not found.closed
    assert "dot_product: sums in 1 phase, 63 elements touched by several threads at once" in found.view()[0].title


@pytest.mark.parametrize(("name", "array"), [("any_block_sum", "sums"), ("split_colours", "pixels")])
def test_the_picture_of_a_race_is_of_the_run_that_has_it(name, array):
    exercise = mg.exercise(name)
    found = exercise.check(exercise.solution().replace("__syncthreads()", "__syncwarp()"))
    assert found.kind == "race" and "BLOCK=33" in found.text and not found.closed
    assert f"{name}: {array} in 1 phase" in (title := found.view()[0].title) and "touched by several" in title


def test_a_race_on_a_global_array_stays_folded_whatever_the_text_says_of_shared_memory():
    body = (
        "    // no __shared__ array\n    if (i < n) {\n        y[i] = 2 * x[i];\n        y[0] = 2 * x[0];\n    }\n}\n"
    )
    found = twice(BUG).check(HEAD + body)
    assert found.kind == "race" and found.closed and "sectors to read x" in found.view()[0].title


def test_the_picture_of_a_race_of_a_later_block_counts_that_block():
    body = "__shared__ float s[256];\n    if (blockIdx.x > 0) {\n        s[threadIdx.x] = 1;\n    }\n"
    turned = "blockIdx.x == 0 ? 1 : s[blockDim.x - 1 - threadIdx.x]"
    body += f"    if (i < n) {{\n        y[i] = 2 * x[i] * ({turned});\n    }}\n"
    found = twice(BUG).check(f"{HEAD}    {body}}}\n")
    assert found.kind == "race" and "twice: s in 1 phase" in found.view()[0].title


def test_an_exercise_may_choose_its_picture():
    found = twice(FAR, **SCORED, show=lambda record: mg.show.idle(record))
    assert "idle" in found.check(found.solution()).view()[0].title
    lacking = twice(FAR, **SCORED, show=lambda record: mg.show.banks(record, "tile"))
    assert "sectors to read x" in lacking.check(lacking.solution()).view()[0].title, "it has no tile"
    tile = mg.exercise("register_tile")
    assert "wavefront" in tile.check(tile.solution()).view()[0].title, "its score is in shared memory"


def test_an_answer_draws_when_a_notebook_shows_it(monkeypatch):
    exercise, drawn, shown = twice(FAR, **SCORED), [], []
    monkeypatch.setattr("minigrad.lab.check.attempt.pictures.costliest", lambda record: drawn.append(record) or 7)
    monkeypatch.setattr("IPython.display.display", shown.append)
    found = exercise.check(exercise.solution())
    assert repr(found).startswith("Correct.") and not drawn
    found._ipython_display_()
    assert shown[:2] == [repr(found), 7] and "solution" in repr(shown[2]) and len(drawn) == 1


def test_accesses_that_an_exercise_is_not_about_are_folded(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    plain = twice(FAR)
    plain.check(plain.solution())._ipython_display_()
    answer, folded = shown
    html = folded._repr_html_()
    assert html.startswith("<details><summary") and html.endswith("</table></details>") and "<img src=" in html
    assert answer.startswith("Correct.") and "sectors to read x" in html and "solution" in repr(folded)
    for changes, closed in ((SCORED, False), ({"score": "accesses"}, True), ({"show": mg.show.sectors}, False)):
        exercise = twice(FAR, **changes)
        assert exercise.check(exercise.solution()).closed == closed


@pytest.mark.parametrize("text", ["not C++", HEAD + "while (x[i] == x[i]) { } }", "void twice() { }"])
def test_an_attempt_that_did_not_run_has_no_picture(text, monkeypatch):
    monkeypatch.setattr("minigrad.lab.check.attempt.TIMEOUT", 0.2)
    monkeypatch.setattr("minigrad.lab.check.attempt.SHORT_TIMEOUT", 0.2)
    found = twice(FAR).check(text)
    assert not found.correct and found.view is None
    with pytest.raises(NotImplementedError):
        found._ipython_display_()


def test_the_kernel_magic_shows_the_readers_accesses():
    text = mg.relu["forward"].text
    found = mg.check.kernel(mg.relu, "forward", text.replace("x[i] < 0", "x[(i * 8) % n] < 0"))
    assert found.kind in ("value", "race") and "sectors to read x" in found.view()[0].title and found.closed
    assert mg.check.kernel(mg.relu, "forward", "nothing").view is None


@pytest.mark.parametrize(("op", "name"), [(mg.max, "columns"), (mg.sum, "strips"), (mg.relu, "backward")])
def test_a_kernel_that_few_cases_launch_is_shown_in_one_of_them(op, name):
    trial = OpTrial(op, name)
    (picture,) = drawn(observe(trial, trial.kernel, {}))
    assert picture.title.startswith(op[name].name)


# --- in a notebook ---


@pytest.fixture
def shell(monkeypatch):
    made = InteractiveShell()
    magic.register(made)
    prediction, _ = predict()
    known = {"twice": twice(BUG, bug=True), "column_sectors": prediction, "count_blocks": mg.exercise("count_blocks")}
    monkeypatch.setattr(magic, "exercise", known.__getitem__)
    yield made
    made.history_manager.end_session()


def test_one_magic_is_for_every_kind(shell):
    found = shell.run_cell_magic("exercise", "column_sectors", "reads = 32\nway = 'column'")
    assert found.text.endswith("`column_sectors` is now what was measured.")
    assert shell.user_ns["column_sectors"].lines[0].sectors == 32 and found.view
    found = shell.run_cell_magic("exercise", "count_blocks", mg.exercise("count_blocks").solution())
    assert found.text.endswith("`count_blocks` is now yours.") and shell.user_ns["count_blocks"](33, 32) == 2
    found = shell.run_cell_magic("exercise", "twice", twice(BUG).solution())
    assert found.text.endswith("`twice` is now yours.") and found.view


def test_a_function_may_use_what_the_reader_has_imported(shell):
    shell.run_cell("from math import ceil")
    found = shell.run_cell_magic("exercise", "count_blocks", "def count_blocks(n, BLOCK):\n    return ceil(n / BLOCK)")
    assert found.correct


def test_a_stale_function_is_not_taken_for_the_cells_own(shell):
    shell.run_cell_magic("exercise", "count_blocks", mg.exercise("count_blocks").solution())
    found = shell.run_cell_magic("exercise", "count_blocks", "def blocks(n, BLOCK):\n    return 1")
    assert found.kind == "raised" and "it defines no function count_blocks" in found.text


def test_checking_needs_no_matplotlib():
    code = (
        "import sys, minigrad as mg; e = mg.exercise('add_bounds'); assert e.check(e.solution()).correct; "
        "print('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_known_mistake_is_recognized_in_a_cell_that_uses_names_of_the_notebook():
    exercise = mg.exercise("cube_gradient")
    mistake = next(wrong for wrong in exercise.wrong if wrong.kind == "value")
    text = f"helper(1)\n{mistake.edit(exercise.solution())}"
    found = exercise.check(text, {"helper": abs})
    assert found.kind == "value" and mistake.why in found.text
