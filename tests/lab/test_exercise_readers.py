"""Attempts as readers write them: what an answer says about a mistake, a waste, another right way, an endless loop."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad.lab.check.attempt import outcomes
from minigrad.lab.exercises.course import all_exercises, best_edge

EXERCISES = all_exercises()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "changes", "kind", "words"),
    [
        ("bias_backward", {"sum": "s", "float s = 0": "float s"}, "uninitialised",
         "begins with whatever lies in its place"),
        ("bias_backward", {"float sum = 0": "int sum = 0"}, "value", "An int drops"),
        ("bias_backward", {"float sum = 0;": "db[j] = db[j];", "sum += ": "db[j] += ", "db[j] = sum": ""},
         "uninitialised", "`db` is not 0 when the kernel starts"),
        ("clip", {"v < low ? low : v > high ? high : v": "min(max(v, low), high)"},
         "value", "fmaxf and fminf take the other number"),
        ("clip", {"v < low ? low : v > high ? high : v": "(low < v < high) ? v : 0.0f"},
         "value", "C++ takes `low < x < high` as"),
        ("leaky_backward", {"0.1f * dy[i]": "(1 / 10) * dy[i]"}, "value", "1/10 is 0 in C++"),
        ("add_bounds", {"int i = blockIdx.x * blockDim.x + threadIdx.x;": "", "i < n": "int j = 0; j < n; j++",
                        "if": "for", "[i]": "[j]"}, "race", "every thread does the whole array"),
        ("count_blocks", {"-(-n // BLOCK)": "np.ceil(n / BLOCK)"}, "raised", "1.0 is a float"),
        ("count_blocks", {"return": ""}, "none", "it returns None: a `return` is missing"),
        ("cube_gradient", {"y.backward()\n": "\n", "x.grad": "3 * x.numpy() ** 2"}, "empty", "worked out by hand"),
        ("divide_backward", {"dy / b, ": ""}, "shape", "it gives one number, wanted 2"),
        ("walk_back", {"result.grad = 1.0": "pass"}, "value", "starts with the gradient of the result"),
        ("walk_back", {"parent.uses -= 1": "pass  # every use"}, "value", "No line counts the portions"),
        ("bias_backward", {"i * cols + j": "i + j * cols"}, "value", "this adds up a row"),
        ("walk_back", {"ready = [result]": "ready = [*result.parents[0].parents, result]"}, "raised",
         "before any gradient had arrived"),
        ("walk_back", {"parent.uses -= 1": "pass", "if parent.uses == 0:": "if True:"}, "raised",
         "called a second time"),
        ("logistic_backward", {"dy * y * (1 - y)": "dy / (2 + np.exp(y) + np.exp(-y))"}, "raised",
         "np.exp is not needed: the rule is made of +, - and * alone"),
        ("logistic_backward", {"dy * y * (1 - y)": "-dy * y / (1.0 + y)"}, "value", "wanted 0.25"),
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
    loop = "for (int i = start; i < min(start + TILE, k); ++i) sum += a[row * k + i] * b[column * k + i];"
    loop = f"if (row < m && column < n) {loop}"
    found = exercise.check(exercise.skeleton.replace("// your code", loop))
    assert (found.correct, found.kind) == (False, "unused") and "a_tile is not used" in found.text, found


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("return a * x + y", "unused", "axpy is never launched"),
        ("4, 256", "wasteful", "Of these blocks 1 is enough"),
        ("256, -(-n // 256)", "wasteful", "Blocks come first"),
    ],
)
def test_a_host_program_needs_its_kernel_and_a_fitting_grid(body, kind, words):
    exercise = EXERCISES["host_program"]
    if body.startswith("return"):
        text = exercise.skeleton.replace("# <- your code", body)
    else:
        text = exercise.solution().replace("-(-n // 256), 256", body)
    found = exercise.check(text)
    assert (found.correct, found.kind) == (False, kind) and words in found.text, found
    assert "it raised" not in found.text


def test_a_score_is_said_of_a_wasteful_and_of_a_right_program():
    exercise = EXERCISES["fewer_copies"]
    assert "Your score: 3.0; the best is 1.0." in exercise.check(exercise.skeleton).text
    assert exercise.check(exercise.solution()).text.endswith("cases. Your score: 1.0, the best there is.")


def test_bank_conflicts_that_are_not_scored_are_worth_a_remark():
    exercise = EXERCISES["transpose_tile"]
    found = exercise.check(exercise.solution().replace("[TILE + 1]", "[TILE]"))
    assert found.correct and "A remark: shared memory needs 1085 wavefronts" in found.text, found
    assert "A remark" not in exercise.check(exercise.solution()).text


@pytest.mark.parametrize("sum_of", ["((c[3] * x[i] + c[2]) * x[i] + c[1]) * x[i] + c[0]", "again"])
def test_a_read_that_a_compiler_merges_is_no_waste(sum_of):
    exercise = EXERCISES["polynomial"]
    text = exercise.solution().replace("        float v = x[i];\n", "").replace("sum * v", "sum * x[i]")
    if sum_of != "again":
        start, end = text.index("        float sum"), text.index("        y[i] = sum;")
        text = text[:start] + text[end:].replace("sum", sum_of, 1)
    found = exercise.check(text)
    assert found.correct and "The solution has 6" in found.text, found


def test_no_reason_is_better_than_a_wrong_one():
    found = EXERCISES["clip"].check(EXERCISES["clip"].solution().replace("? high : v", "? high : 7"))
    assert found.kind == "value" and len(found.text.splitlines()) == 3, found


def test_a_function_that_raises_is_answered():
    def divide_backward(dy, a, b):
        return 1 / 0

    found = mg.exercise("divide_backward").check(divide_backward)
    assert found.kind == "raised" and "ZeroDivisionError: division by zero" in found.text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def count_blocks(n, BLOCK:", "SyntaxError"),
        ("x = 1", "NameError: it defines no function count_blocks"),
        ("import sys\nsys.exit()", "SystemExit"),
        ("class Mine(Exception):\n    def __str__(self): raise self\nraise Mine", "Mine: its __str__ raises"),
        ("# \ud800", "UnicodeEncodeError"),
    ],
)
def test_python_that_cannot_be_run_is_answered(text, words):
    found = mg.exercise("count_blocks").check(text)
    assert found.kind == "raised" and words in found.text


def test_half_a_character_in_a_kernel_is_answered():
    found = mg.exercise("add_bounds").check(f"// \ud800\n{mg.exercise('add_bounds').solution()}")
    assert found.kind == "compile" and "1: '\\ud800' is half a character" in found.text


def test_a_function_is_the_result_of_a_pass():
    exercise = mg.exercise("count_blocks")
    assert exercise.check(exercise.solution()).result(33, 32) == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (
            "sectors of global memory",
            "    if (row < rows && col < cols) { y[(col + 1) * rows - 1 - row] = tile[threadIdx.y][threadIdx.x]; }\n",
        ),
        (
            "one of its threads makes 1986 accesses",
            """    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        for (int i = 0; i < TILE; ++i) {
            for (int j = 0; j < TILE; ++j) {
                int r = blockIdx.y * TILE + i, c = blockIdx.x * TILE + j;
                if (r < rows && c < cols) { y[(c + 1) * rows - 1 - r] = tile[i][j]; }
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
         "3075 accesses to memory, where 3 are enough: keep in a variable what it needs again, and give each"),
        ("table_backward",
         "if (element == 0) { for (int i = 0; i < n; ++i) { for (int j = 0; j < cols && index[i] >= 0; ++j) "
         "{ dx[index[i] * cols + j] += dy[i * cols + j]; } } }",
         "accesses to memory, where 4 are enough"),
        ("add_bounds",
         "int i = blockIdx.x * blockDim.x + threadIdx.x; float first = 0; "
         "for (int k = 0; i == 0 && k < 40; ++k) { first = a[0]; } "
         "if (i < n) { y[i] = (i == 0 ? first : a[i]) + b[i]; }",
         "42 accesses to memory, where 3 are enough: keep in a variable what it needs again"),
        ("any_block_sum",
         "__syncthreads(); if (t == 0) { sum = 0; for (int i = 0; i < BLOCK; ++i) { sum += sums[i]; } y[0] = sum; }",
         "263 accesses to memory, where 32 are enough"),
        ("any_block_sum", "if (t == 0) { y[0] = 0; } __syncthreads(); atomicAdd(&y[0], sums[t]);",
         "256 atomic operations, which wait for each other, where none is needed."),
    ],
)  # fmt: skip
def test_a_correct_kernel_that_leaves_the_work_to_one_thread_is_no_pass(name, code, words):
    found = EXERCISES[name].check(EXERCISES[name].skeleton.replace("// your code", code))
    assert (found.correct, found.kind) == (False, "wasteful") and words in found.text, found


@pytest.mark.parametrize(
    "rule", ["y * dy * (1.0 - y)", "dy * (y - y**2)", "(1 - y) / (1 / y / dy)", "dy * (-y * y + y)"]
)
def test_the_rule_of_the_logistic_function_may_be_any_arithmetic(rule):
    assert EXERCISES["logistic_backward"].check(f"def logistic_backward(dy, y):\n    return {rule}\n").correct


def test_a_correct_kernel_with_many_accesses_gets_a_remark():
    exercise = EXERCISES["bias_backward"]
    code = "if (j < cols) { db[j] = 0; for (int i = 0; i < rows; ++i) { db[j] += dy[i * cols + j]; } }"
    found = exercise.check(exercise.skeleton.replace("// your code", code))
    assert found.correct and "A remark: one of its threads makes 100 accesses to memory, where 34 are" in found.text
    assert "remark" not in exercise.check(exercise.solution()).text


def test_another_correct_way_is_accepted():
    own = {
        "bias_backward": "if (j < cols) { db[j] = 0; for (int i = 0; i < rows; ++i) { db[j] += dy[i * cols + j]; } }",
        "any_block_sum": "__syncthreads(); for (int left = BLOCK; left > 1; left = left / 2 + left % 2) { "
        "if (t < left / 2) { sums[t] += sums[left - 1 - t]; } __syncthreads(); } if (t < 1) { *y = *sums; }",
        "softmax_row": "most = part[0]; __syncthreads(); part[t] = 0; "
        "for (int j = t; j < cols; j += BLOCK) { part[t] += y[j] = expf(x[j] - most); } ... "
        "__syncthreads(); for (int j = t; j < cols; j += BLOCK) { y[j] /= part[0]; }",
        "add_bounds": "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) "
        "{ y[i] = a[i] + b[i]; }",
        "transpose_tile": "__syncthreads(); int r = blockIdx.y * TILE + threadIdx.x; "
        "int c = blockIdx.x * TILE + threadIdx.y; if (c < cols) { "
        "if (r < rows) { y[rows * (c + 1) - r - 1] = tile[threadIdx.x][threadIdx.y]; } }",
    }
    for name, code in own.items():
        text = EXERCISES[name].skeleton
        for part in code.split(" ... "):
            text = text.replace("// your code", part, 1)
        found = EXERCISES[name].check(text)
        assert found.correct, (name, found)


@pytest.mark.parametrize(
    "tree",
    [
        "for (int s = 1; s < BLOCK; s *= 2) { __syncthreads(); if (t % (2 * s) == 0 && t + s < BLOCK) "
        "{ sums[t] += sums[t + s]; } }",
        "int s = 1; while (s < BLOCK) { __syncthreads(); if ((t & (2 * s - 1)) == 0 && t + s < BLOCK) "
        "{ sums[t] += sums[t + s]; } s *= 2; }",
    ],
)
def test_a_divergent_tree_is_no_pass(tree):
    exercise = EXERCISES["any_block_sum"]
    found = exercise.check(exercise.skeleton.replace("// your code", f"{tree} if (t == 0) {{ y[0] = sums[0]; }}"))
    assert found.kind == "wasteful" and "requests to memory" in found.text, found
    assert "the others idle. Where the front half adds the back half" in " ".join(found.text.split()), found


def test_a_register_tile_without_registers_is_no_pass():
    exercise = EXERCISES["register_tile"]
    loops = "for (int y = 0; y < EACH; ++y) { for (int i = 0; i < EDGE; ++i) { SUM } }"
    sum_ = "sum[y] += a_tile[first + y][i] * b_tile[i][x];"
    text = exercise.solution()
    start, end = text.index("        for (int i = 0; i < EDGE"), text.rindex("        __syncthreads();")
    found = exercise.check(text[:start] + loops.replace("SUM", sum_) + text[end:])
    assert found.kind == "wasteful" and "reads of shared memory. The solution has" in found.text, found


def test_an_endless_loop_is_not_compared(monkeypatch):
    monkeypatch.setattr("minigrad.lab.check.attempt.SHORT_TIMEOUT", 0.3)
    exercise = EXERCISES["bias_backward"]
    endless = exercise.solution().replace("++i", "i += rows > 1")
    assert list(outcomes(exercise, endless)) == [], "the first case has one row"
    assert len(list(outcomes(exercise, exercise.solution()))) == len(exercise.cases)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("if (t == 0) { __syncthreads(); }", "31 threads have gone around __syncthreads to the end of the kernel"),
        ("while (sums[t] == sums[t]) { __syncthreads(); }", "still running after 0.3 s. Look for a loop"),
    ],
)
def test_a_quoted_line_is_not_named_again(monkeypatch, code, said):
    monkeypatch.setattr("minigrad.lab.check.attempt.TIMEOUT", 0.3)
    monkeypatch.setattr("minigrad.lab.check.attempt.SHORT_TIMEOUT", 0.3)
    found = EXERCISES["any_block_sum"].check(EXERCISES["any_block_sum"].skeleton.replace("// your code", code))
    assert said in found.text and "cell.cu" not in found.text and f"    line 9: {code}" in found.text, found


def test_the_answer_to_a_racing_adjoint_says_that_its_values_are_right():
    """Atomics everywhere are safe but wasteful; a plain store passes where no other thread writes."""
    found = mg.exercise("springs_backward")
    plain = found.solution().replace("atomicAdd(&dx[i + 1], d_stretch)", "dx[i + 1] += d_stretch")
    said = found.check(plain).text
    assert "every element is right this time.\nThread (1, 0, 0) changes dx[1] by an atomic, which" in said, said
    atomic = found.solution().replace("dk[i] += d_pull * stretch", "atomicAdd(&dk[i], d_pull * stretch)")
    assert "dx and dk are right, but it makes 3072 atomic operations" in found.check(atomic).text
    assert found.check(found.solution().replace("dk[i] +=", "dk[i] =")).correct


def test_an_answer_uses_the_names_that_the_reader_gave_to_outputs():
    found = mg.exercise("springs_backward")
    renamed = re.sub(r"\bdk\b", "strength", found.solution())
    assert found.check(renamed).correct
    wrong = found.check(renamed.replace("d_pull * stretch", "pull * stretch")).text
    assert re.search(r": strength\[0\] is .* Thread \(0, 0, 0\) of block \(0, 0, 0\) writes it", wrong), wrong


def test_a_sum_without_the_tree_is_no_pass():
    found = mg.exercise("any_block_sum")
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
    exercise = mg.exercise("any_block_sum")
    found = exercise.check(exercise.solution().replace("if (t == 0)", "if (t + 1 == blockDim.x)"))
    assert found.kind == "race" and "goes before each round" not in found.text, found


# --- particular exercises ---

ANOTHER = """
    copy = mg.nn.Sequential(mg.nn.Linear(64, 16, device="numpy"), mg.relu, mg.nn.Linear(16, 10, device="numpy"))
    copy.load_state_dict(model.state_dict())
    return copy
"""
SCALED = """
    with mg.no_grad():
        for p in model.parameters():
            p *= 0.999
"""
LAYERS = """class Both:
    def __init__(self):
        self.each = [mg.optim.Adam(layer.parameters(), lr=0.04) for layer in (first, last)]
    def zero_grad(self):
        [one.zero_grad() for one in self.each]
    def step(self):
        [one.step() for one in self.each]
"""


def student(changes):
    text = mg.exercise("small_student").solution()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return mg.exercise("small_student").check(text)


def test_updates_of_a_network_that_is_copied_count():
    found = student({"range(4)": "range(20)", "    return model\n": ANOTHER.lstrip("\n")})
    assert found.kind == "raised" and "updated 340 times, and 68 are allowed" in found.text


def test_weights_may_be_scaled_and_layers_may_have_an_optimizer_each():
    assert student({"    for epoch": f"{SCALED.lstrip(chr(10))}    for epoch"}).correct
    layers = "".join(f"    {line}\n" for line in LAYERS.splitlines())
    line = "    optimizer = mg.optim.Adam(model.parameters(), lr=0.04)\n"
    assert student({line: f"{layers}    optimizer = Both()\n"}).correct


def test_the_optimizers_are_as_before_after_a_check():
    step = mg.optim.Optimizer.step
    assert student({"range(4)": "range(1 // 0)"}).kind == "raised" and mg.optim.Optimizer.step is step


@pytest.mark.parametrize(
    ("n", "edge", "sms", "seconds"),
    [(4, 2, 4, 64), (4, 2, 3, 128), (5, 2, 4, 240), (4, 4, 3, 128)],
)
def test_tiles_are_handed_out_until_the_last_is_done(n, edge, sms, seconds):
    """At a byte a second a block takes 8 * edge * n seconds, and 5 elements are three tiles of 2."""
    assert best_edge.duration(n, edge, sms, 1, 1e9) == seconds
    assert best_edge.duration(n, edge, sms, 1e9, 2 * n * edge) == pytest.approx(edge * seconds / (8 * edge * n))


def test_the_formula_agrees_with_handing_out_tiles():
    solved = mg.exercise("best_edge").check(mg.exercise("best_edge").solution()).result
    rng = np.random.default_rng(0)
    for n, sms in zip(rng.integers(50, 900, 40).tolist(), rng.integers(1, 140, 40).tolist(), strict=True):
        given = n, sorted(rng.choice(np.arange(8, 200, 8), 4, replace=False).tolist()), sms, 32e9, 5e11
        edges = best_edge.best(*given), solved(*given)
        took = [best_edge.duration(n, edge, *given[2:]) for edge in edges]
        assert took[0] == pytest.approx(took[1], rel=1e-9), given
