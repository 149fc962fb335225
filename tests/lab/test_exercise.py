"""The checks of exercises accept the solution, and reject every wrong version for its reason."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

import minigrad as mg
from minigrad.lab import notebook as magic
from minigrad.lab.check.answer import Answer
from minigrad.lab.check.attempt import attempt, outcomes
from minigrad.lab.exercises import KernelExercise, Prediction, PythonExercise
from minigrad.lab.exercises.course import all_exercises
from minigrad.lab.exercises.exercise import bare

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
EXERCISES = all_exercises()
KERNELS = [each for each in EXERCISES.values() if isinstance(each, KernelExercise)]
PYTHON = [each for each in EXERCISES.values() if isinstance(each, PythonExercise)]
PREDICTIONS = [each for each in EXERCISES.values() if isinstance(each, Prediction)]
WRONG = [
    pytest.param(each, wrong, id=f"{each.name}-{i}-{wrong.kind}")
    for each in EXERCISES.values()
    for i, wrong in enumerate(each.wrong, 1)
]


def name_of(exercise):
    return exercise.name


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=name_of)
def test_the_solution_is_right(exercise):
    found = exercise.check(exercise.solution())
    assert found.correct and found.text.startswith("Correct") and not found.kind, found
    assert found.result is not None


@pytest.mark.parametrize(("exercise", "wrong"), WRONG)
def test_a_wrong_version_is_rejected_for_its_reason(exercise, wrong):
    text = wrong.edit(exercise.solution())
    found = exercise.check(text)
    assert (found.correct, found.kind) == (False, wrong.kind), found
    assert found.text.startswith("Not yet. ") and "Traceback" not in found.text
    assert (wrong.why in found.text) == (bare(text) != bare(exercise.skeleton)), "a bug hunt does not say where"
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
    assert len(exercise.wrong) >= 5 and len(exercise.hints) >= 2
    versions = [wrong.edit(exercise.solution()) for wrong in exercise.wrong]
    assert len(set(versions)) == len(versions)
    for text in (exercise.solution(), exercise.skeleton):
        assert not re.search(r"(//|#)[<>]", text), "a marker is left"
    assert exercise.skeleton != exercise.solution()


def test_a_file_holds_the_exercise_of_its_name():
    files = sorted(path.stem for path in Path(mg.exercise.__code__.co_filename).parent.glob("[!_]*.py"))
    assert sorted(EXERCISES) == files


@pytest.mark.parametrize(("name", "number"), [("block_sum", 7), ("gather_backward", 1)])
def test_a_race_is_found_where_the_value_is_right(name, number):
    exercise = EXERCISES[name]
    found = exercise.check(exercise.wrong[number - 1].edit(exercise.solution()))
    assert found.kind == "race" and "wanted" not in found.text


def test_all_kinds_of_mistakes_are_among_the_wrong_versions():
    kinds = {wrong.kind for each in KERNELS for wrong in each.wrong}
    assert kinds == {"value", "nan", "never-written", "out-of-bounds", "race", "uninitialised", "barrier-divergence"}


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


# --- what readers wrote first ---


@pytest.mark.parametrize(
    ("name", "changes", "kind", "words"),
    [
        ("bias_backward", {"sum": "s", "float s = 0": "float s"}, "value", "begins with whatever lies in its place"),
        ("bias_backward", {"float sum = 0": "int sum = 0"}, "value", "An int drops"),
        ("bias_backward", {"float sum = 0;": "db[j] = db[j];", "sum += ": "db[j] += ", "db[j] = sum": ""},
         "nan", "`db` is not 0 when the kernel starts"),
        ("clip", {"x[i] < low ? low : x[i] > high ? high : x[i]": "min(max(x[i], low), high)"},
         "value", "fmaxf and fminf take the other number"),
        ("clip", {"x[i] < low ? low : x[i] > high ? high : x[i]": "(low < x[i] < high) ? x[i] : 0.0f"},
         "value", "C++ takes `low < x < high` as"),
        ("leaky_backward", {"0.1f * dy[i]": "(1 / 10) * dy[i]"}, "value", "1/10 is 0 in C++"),
        ("add_bounds", {"int i = blockIdx.x * blockDim.x + threadIdx.x;": "", "i < n": "int j = 0; j < n; j++",
                        "if": "for", "[i]": "[j]"}, "race", "every thread does the whole array"),
        ("count_blocks", {"-(-n // BLOCK)": "np.ceil(n / BLOCK)"}, "raised", "1.0 is a float"),
        ("count_blocks", {"return": ""}, "none", "it returns None: a `return` is missing"),
        ("cube_gradient", {"y.backward()\n": "\n", "x.grad": "3 * x.numpy() ** 2"}, "raised", "x.grad is None"),
        ("divide_backward", {"dy / b, ": ""}, "shape", "it gives one number, wanted 2"),
        ("walk_back", {"values[0].grad = 1.0": "pass"}, "value", "starts with the gradient of the result"),
    ],
)  # fmt: skip
def test_a_mistake_is_known_by_what_it_does(name, changes, kind, words):
    text = EXERCISES[name].solution()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    found = EXERCISES[name].check(text)
    assert (found.correct, found.kind) == (False, kind) and words in found.text, found


def test_a_correct_product_without_tiles_is_no_pass():
    exercise = EXERCISES["matmul_tile"]
    loop = "for (int i = start; i < min(start + TILE, k); ++i) sum += a[row * k + i] * b[i * n + column];"
    loop = f"if (row < m && column < n) {loop}"
    found = exercise.check(exercise.skeleton.replace("// your code", loop))
    assert (found.correct, found.kind) == (False, "unused") and "a_tile is not used" in found.text, found


def test_no_reason_is_better_than_a_wrong_one():
    found = EXERCISES["clip"].check(EXERCISES["clip"].solution().replace("? high : x[i]", "? high : 7"))
    assert found.kind == "value" and len(found.text.splitlines()) == 3, found


def test_a_function_that_raises_is_answered():
    def divide_backward(dy, a, b):
        return 1 / 0

    found = mg.exercise("divide_backward").check(divide_backward)
    assert found.kind == "raised" and "ZeroDivisionError: division by zero" in found.text


@pytest.mark.parametrize(
    ("text", "words"),
    [("def count_blocks(n, BLOCK:", "SyntaxError"), ("x = 1", "NameError: it defines no function count_blocks")],
)
def test_python_that_cannot_be_run_is_answered(text, words):
    found = mg.exercise("count_blocks").check(text)
    assert found.kind == "raised" and words in found.text


def test_a_function_is_the_result_of_a_pass():
    exercise = mg.exercise("count_blocks")
    assert exercise.check(exercise.solution()).result(33, 32) == 2


# --- the notebooks ---


def code(path):
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def asked(text):
    """The exercise whose skeleton the cell is, or None."""
    found = re.match(r"%%exercise (\w+)|def (\w+)", text)
    return EXERCISES.get(found[1] or found[2]) if found else None


def needed(cells):
    """The cells about exercises, and those that define a name for them: the rest of a notebook is run on its own."""
    chosen, missing = [], set()
    for text in reversed(cells):
        python = [] if text.startswith("%%") else list(ast.walk(ast.parse(text)))
        names = [node for node in python if isinstance(node, ast.Name)]
        loaded = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        stored |= {getattr(node, "asname", None) or getattr(node, "name", None) for node in python}
        if stored & missing or any(re.search(rf"\b{name}\b", text) for name in EXERCISES):
            chosen.append(text)
            missing |= loaded
    return chosen[::-1]


TAUGHT = [path for path in NOTEBOOKS if any(map(asked, code(path)))]


@pytest.mark.parametrize("path", TAUGHT, ids=lambda path: path.stem)
def test_cells_to_fill_in_are_the_skeletons(path):
    for text in code(path):
        if exercise := asked(text):
            magic = f"%%exercise {exercise.name}\n" if exercise not in PYTHON or text.startswith("%%") else ""
            assert text.strip() == magic + exercise.skeleton.strip(), "take the skeleton as it is"
            assert path.name.startswith(exercise.notebook)


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
    written = {path.name[:2] for path in NOTEBOOKS}
    assert {each.name for each in EXERCISES.values() if each.notebook in written and each not in there} == set()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (
            "sectors of global memory",
            "    if (row < rows && col < cols) { y[col * rows + row] = tile[threadIdx.y][threadIdx.x]; }\n",
        ),
        (
            "one of its threads makes 514 accesses",
            """    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        for (int i = 0; i < TILE; ++i) {
            for (int j = 0; j < TILE; ++j) {
                int r = blockIdx.y * TILE + i, c = blockIdx.x * TILE + j;
                if (r < rows && c < cols) { y[c * rows + r] = tile[i][j]; }
            }
        }
    }
""",
        ),
    ],
)
def test_a_correct_transpose_that_wastes_sectors_or_threads_is_no_pass(words, code):
    found = mg.exercise("transpose_tile")
    answer = found.check(found.skeleton.replace("    // your code\n", code))
    assert not answer.correct and words in answer.text, answer.text


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("add_bounds",
         "if (threadIdx.x == 0 && blockIdx.x == 0) { for (int i = 0; i < n; ++i) { y[i] = a[i] + b[i]; } }",
         "99000 accesses to memory, where 3 are enough: let every thread do a share of its own."),
        ("gather_backward",
         "if (threadIdx.x == 0 && blockIdx.x == 0) { for (int i = 0; i < n; ++i) { dx[index[i]] += dy[i]; } }",
         "4100 accesses to memory, where 3 are enough"),
        ("block_sum",
         "__syncthreads(); if (t == 0) { sum = 0; for (int i = 0; i < BLOCK; ++i) { sum += sums[i]; } y[0] = sum; }",
         "263 accesses to memory, where 32 are enough"),
        ("block_sum", "if (t == 0) { y[0] = 0; } __syncthreads(); atomicAdd(&y[0], sums[t]);",
         "256 atomic operations, which wait for each other, where none are needed."),
    ],
)  # fmt: skip
def test_a_correct_kernel_that_leaves_the_work_to_one_thread_is_no_pass(name, code, words):
    found = EXERCISES[name].check(EXERCISES[name].skeleton.replace("// your code", code))
    assert (found.correct, found.kind) == (False, "wasteful") and words in found.text, found


def test_another_correct_way_is_accepted():
    own = {
        "bias_backward": "if (j < cols) { db[j] = 0; for (int i = 0; i < rows; ++i) { db[j] += dy[i * cols + j]; } }",
        "block_sum": "for (int s = 1; s < BLOCK; s *= 2) { __syncthreads(); if (t % (2 * s) == 0) "
        "{ sums[t] += sums[t + s]; } } if (t == 0) { y[0] = sums[0]; }",
        "softmax_row": "float most = x[0], sum = 0; for (int j = 1; j < cols; ++j) { most = max(most, x[j]); } "
        "for (int j = 0; j < cols; ++j) { y[j] = expf(x[j] - most); sum += y[j]; } "
        "for (int j = 0; j < cols; ++j) { y[j] /= sum; }",
        "add_bounds": "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) "
        "{ y[i] = a[i] + b[i]; }",
    }
    for name, code in own.items():
        found = EXERCISES[name].check(EXERCISES[name].skeleton.replace("// your code", code))
        assert found.correct, found


def test_an_endless_loop_is_not_compared(monkeypatch):
    monkeypatch.setattr("minigrad.lab.check.attempt.SHORT_TIMEOUT", 0.3)
    exercise = EXERCISES["bias_backward"]
    endless = exercise.solution().replace("++i", "i += rows > 1")
    assert list(outcomes(exercise, endless)) == [], "the first case has one row"
    assert len(list(outcomes(exercise, exercise.solution()))) == len(exercise.cases)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("if (t == 0) { __syncthreads(); }", "32 threads: 1 wait at __syncthreads in line 9, 31 have returned. Move"),
        ("while (sums[t] == sums[t]) { __syncthreads(); }", "still running after 0.3 s. Look for a loop"),
    ],
)
def test_a_quoted_line_is_not_named_again(monkeypatch, code, said):
    monkeypatch.setattr("minigrad.lab.check.attempt.TIMEOUT", 0.3)
    monkeypatch.setattr("minigrad.lab.check.attempt.SHORT_TIMEOUT", 0.3)
    found = EXERCISES["block_sum"].check(EXERCISES["block_sum"].skeleton.replace("// your code", code))
    assert said in found.text and "cell.cu" not in found.text and f"    line 9: {code}" in found.text, found


def test_the_answer_to_a_racing_adjoint_says_that_its_values_are_right():
    """Atomics everywhere are safe but wasteful; a plain store passes where no other thread writes."""
    found = mg.exercise("springs_backward")
    plain = found.skeleton.replace("dk[i] +=", "dk[i] =")
    assert "every element is right this time.\nThread (1, 0, 0) reads dx[1], which" in found.check(plain).text
    atomic = found.solution().replace("dk[i] += 0.5f * stretch * stretch * dy[i]",
                                      "atomicAdd(&dk[i], 0.5f * stretch * stretch * dy[i])")  # fmt: skip
    assert "dx and dk are right, but it makes 768 atomic operations" in found.check(atomic).text
    assert found.check(found.solution().replace("dk[i] +=", "dk[i] =")).correct


def test_an_answer_uses_the_names_that_the_reader_gave_to_outputs():
    found = mg.exercise("springs_backward")
    renamed = re.sub(r"\bdk\b", "strength", found.solution())
    assert found.check(renamed).correct
    wrong = found.check(renamed.replace("0.5f * ", "")).text
    assert re.search(r": strength\[0\] is .* Thread \(0, 0, 0\) of block \(0, 0, 0\) writes it", wrong), wrong


def test_a_sum_without_the_tree_is_no_pass():
    found = mg.exercise("block_sum")
    alone = "    if (t == 0) { y[0] = sums[0] * 0; for (int i = 0; i < n; ++i) { y[0] += x[i]; } }\n"
    assert not found.check(found.skeleton.replace("    // your code\n", alone)).correct


def test_printf_of_an_attempt_is_shown_once(capsys):
    exercise = mg.exercise("add_bounds")
    text = exercise.solution().replace("if (i < n) {", 'if (i < n) {\n        if (i == 0) printf("here\\n");')
    assert exercise.check(text).correct
    assert capsys.readouterr().out == "n=1, BLOCK=32:\nhere\n"


@pytest.mark.parametrize(
    ("name", "changes"),
    [("transpose_tile", {"float tile[": "float s[", " tile[": " s["}), ("matmul_tile", {"a_tile": "s", "b_tile": "u"})],
)
def test_shared_arrays_may_have_other_names(name, changes):
    exercise = mg.exercise(name)
    text = exercise.solution()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    assert exercise.check(text).correct


def test_a_race_after_the_tree_is_not_attributed_to_it():
    exercise = mg.exercise("block_sum")
    found = exercise.check(exercise.solution().replace("if (t == 0)", "if (t + 1 == blockDim.x)"))
    assert found.kind == "race" and "goes before each round" not in found.text, found
