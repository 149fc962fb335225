"""A reader's kernel in place of an op's: tried in all cases and blocks, answered with element, line and cause."""

import re
from contextlib import contextmanager
from pathlib import Path

import pytest

import minigrad as mg
from minigrad import check, microscope
from minigrad.devices import get
from minigrad.devices.caches import Cache
from minigrad.errors import DeviceError, KernelError
from minigrad.kernels.kernel import Kernel
from minigrad.lab.check.attempt import attempt, first_wrong
from minigrad.lab.check.kernel import OpTrial

ADD = """extern "C" __global__ void add_forward(const real* a, const real* b, real* y, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = b[b_at(i)] + a[a_at(i)];
    }
}
"""


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("op", "name"), [("matmul", "tiled"), ("matmul", "split_k_backward_b"), ("sum", "tree"), ("softmax", "forward")]
)
def test_the_kernels_of_the_package_pass(op, name):
    found = check.kernel(mg.OPS[op], name, mg.OPS[op][name].text)
    assert found.correct, found


class Empty(Kernel):
    """A kernel that does nothing, and needs no compiler."""

    def __init__(self, right):
        vars(self).update(vars(right))
        self._plans = Cache()

    def run(self, args, grid, block, shared, values):
        pass


@pytest.mark.sample(5)
@pytest.mark.usefixtures("small_files_at_once")
@pytest.mark.parametrize("op", mg.OPS.values(), ids=mg.OPS.keys())
def test_every_kernel_that_sim_runs_is_needed_for_a_right_answer(op):
    """The cases of astype cast nothing."""
    rare = ("mma", "vector_parts")  # on tensor cores alone, or for sums longer than those of any case
    for name in (name for name in op.kernels if not any(word in name for word in rare) and op.name != "astype"):
        trial = OpTrial(op, name)
        assert any(wrong_without(trial, Empty(op[name]), case) for case in trial.cases), name


def wrong_without(trial, kernel, case):
    """True for a wrong number, or a fault of a kernel that is given what the empty one has left."""
    try:
        return bool(first_wrong(trial.pairs(kernel, case, "float32")))
    except KernelError:
        return True


@pytest.mark.parametrize(
    ("op", "name", "why"),
    [("matmul", "wgmma", "inline PTX (asm) runs only on a GPU"), ("matmul", "mma_bf16_backward_a", "are of float32"),
     ("conv2d", "mma_tf32", "each tunable changed alone")],
)  # fmt: skip
def test_a_kernel_for_tensor_cores_cannot_be_tried(op, name, why):
    found = check.kernel(mg.OPS[op], name, mg.OPS[op][name].text)
    assert (found.correct, found.kind) == (False, "device")
    assert f"{op}_{name} cannot be tried here" in found.text and why in found.text


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("mma_3xtf32", "Tf32x3", "Tf32"), ("mma_tf32", "DOWN>", "ALONG>"), ("mma_tf32_backward_b", "DOWN,", "ALONG,")],
)
def test_a_kernel_for_tensor_cores_is_tried_with_numbers_that_they_read(name, old, new):
    trial, text = OpTrial(mg.matmul, name), mg.matmul[name].text
    trial.cases = trial.cases[1:4]
    assert attempt(trial, text).correct
    assert text.count(old) == 1 and attempt(trial, text.replace(old, new)).kind == "value"


@pytest.mark.parametrize(
    ("op", "name"),
    [("softmax", "forward"), ("softmax", "lanes_backward"), ("relu", "vectorized_backward"),
     ("matmul", "split_k_parts_backward_a"), ("transpose", "strips_apart")],
)  # fmt: skip
def test_a_kernel_that_does_nothing_is_not_right(op, name):
    kernel = mg.OPS[op][name]
    params = ", ".join(map(str, kernel.signature.params))
    found = check.kernel(mg.OPS[op], name, f'extern "C" __global__ void {kernel.name}({params}) {{}}')
    assert found.kind == "never-written" and " is nan, wanted " in found.text, found


def test_a_kernel_to_which_no_case_comes_is_not_called_right(monkeypatch):
    monkeypatch.setattr(
        mg.softmax, "cases", mg.softmax.cases[:1]
    )  # a row of one number, for which `held` is not launched
    found = check.kernel(mg.softmax, "held_backward", mg.softmax["held_backward"].text)
    assert (found.correct, found.kind) == (False, "unused") and "No case launches softmax_held_backward" in found.text


def test_a_case_for_which_the_files_own_kernel_is_not_launched_is_left_out(monkeypatch):
    monkeypatch.setattr(OpTrial, "tunables", {"SHARE": (32, 1)})  # one lane cannot hold a row of 33
    found = check.kernel(mg.softmax, "lanes", mg.softmax["lanes"].text)
    assert found.correct, found


def test_what_goes_wrong_in_a_function_of_a_header_has_its_place():
    found = check.kernel(
        mg.cross_entropy, "held", mg.cross_entropy["held"].text.replace("hold(own, x, n,", "hold(own, x, n + 1,")
    )
    assert found.kind == "out-of-bounds" and "In cuda/row_in_registers.cuh(" in found.text, found


def test_a_tree_that_forgets_one_where_a_block_is_odd():
    found = check.kernel(mg.sum, "tree", mg.sum["tree"].text.replace("half = (width + 1) / 2", "half = width / 2"))
    assert (found.kind, found.correct) == ("value", False) and "BLOCK=33, CHUNK=8192: y is" in found.text, found
    assert OpTrial(mg.sum, "tree").tunables["BLOCK"][-1] == 33 not in mg.sum["tree"].tunables["BLOCK"]


def test_a_block_for_which_the_files_own_kernel_is_not_made_is_not_asked_for():
    assert OpTrial(mg.sum, "lanes").tunables == mg.sum["lanes"].tunables


def test_a_pass_gives_the_op_with_the_readers_kernel(kernel_device):
    found = check.kernel(mg.add, "forward", ADD)
    assert found.correct and found.text.startswith("Correct. 11 cases, with BLOCK = 256, 32, 64, 128, 512, 1024, 33:")
    x = mg.tensor([1.0, 2.0], device=kernel_device, requires_grad=True)
    y = found.result(x, x)
    y.sum().backward()
    assert y.numpy().tolist() == [2, 4] and x.grad.numpy().tolist() == [2, 2]
    mine = found.result["forward"]
    assert mine.text == ADD.strip() and repr(mine).startswith("cell.cu:1\n   1  ex")
    assert mg.add["forward"].source.name == "cuda/add.cu"  # the op's own kernel has not changed


@pytest.mark.parametrize(
    ("old", "new", "kind", "line", "words"),
    [
        ("i < n", "i < n - 1", "never-written", None, "y is nan, wanted -0.00637464. No thread writes it."),
        ("i < n", "i <= n", "out-of-bounds", 4, "n=1, BLOCK=256: thread (1, 0, 0) of block (0, 0, 0) writes y[1]"),
        ("i < n", "i < n && n != 33 * 65", "never-written", None, "n=2145, BLOCK=256: y[0, 0] is nan"),
        ("b[b_at(i)]", "b[i]", "out-of-bounds", 4, "n=2145, BLOCK=256: "),
        ("y[i] =", "y[i] +=", "uninitialised", 4, "Thread (0, 0, 0) of block (0, 0, 0) reads and changes y[0]"),
        ("= b[b_at(i)]", "= 2 * b[b_at(i)]", "value", 4, "y is -0.13848, wanted -0.00637464. Thread (0, 0, 0) of"),
        ("i < n", "i < n && blockDim.x != 64", "never-written", None, "n=1, BLOCK=64: y is nan"),
        ("blockIdx.x * blockDim.x + ", "", "race", 4, "n=1025, BLOCK=256: y[256] is nan"),
    ],
)
def test_a_wrong_kernel_is_answered(old, new, kind, line, words):
    found = check.kernel(mg.add, "forward", ADD.replace(old, new))
    assert (found.correct, found.kind, found.line) == (False, kind, line), found
    assert found.text.startswith("Not yet. ") and words in found.text, found
    if line:
        assert f"\n    line {line}: {ADD.splitlines()[line - 1].strip()[:4]}" in found.text


def test_a_race_at_another_block_size_is_found():
    text = mg.sum["tree"].text
    assert "if (threadIdx.x == 0) y[" in text
    mine = text.replace("threadIdx.x == 0)", "threadIdx.x == 0 || (blockDim.x >= 512 && threadIdx.x == 1))")
    found = check.kernel(mg.sum, "tree", mine)
    assert found.kind == "race" and "BLOCK=512" in found.text, found


def test_an_input_that_is_written_is_answered():
    found = check.kernel(mg.add, "forward", ADD.replace("}\n}", "((real*)b)[b_at(i)] = 0;\n    }\n}"))
    assert found.kind == "value" and "the input b is 0, wanted " in found.text


def test_a_loop_without_end_is_stopped(monkeypatch):
    monkeypatch.setattr("minigrad.lab.check.attempt.TIMEOUT", 0.3)
    found = check.kernel(mg.add, "forward", ADD.replace("if (i < n)", "while (i < n)"))
    assert found.kind == "timeout" and "still running after 0.3 s" in found.text
    assert found.line in (3, 4) and "common.cuh" not in found.text  # where a view of the header is inlined
    assert get("sim").timeout > 1


def test_after_a_loop_without_end_nothing_more_is_launched(monkeypatch):
    seen = []

    @contextmanager
    def watching(blocks):
        with microscope.watching(blocks) as report:
            seen.append(report)
            yield report

    monkeypatch.setattr("minigrad.lab.check.attempt.TIMEOUT", 0.3)
    monkeypatch.setattr("minigrad.lab.check.attempt.watching", watching)
    check.kernel(mg.add, "forward", ADD.replace("if (i < n)", "while (i < n)"))
    assert [len(report.launches) for report in seen] == [1]


def test_what_this_machine_lacks_is_answered(monkeypatch):
    def watching(blocks):
        raise DeviceError("no compiler here")

    monkeypatch.setattr("minigrad.lab.check.attempt.watching", watching)
    found = check.kernel(mg.add, "forward", ADD)
    assert (found.kind, found.text) == ("device", "Not yet: no compiler here")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if (i < n) {", "if (i >= n) return;\n    {"),
        ("int n) {\n    int i", "const int n) {\n    unsigned i"),
        ("if (i < n) {", "for (; i < n; i += gridDim.x * blockDim.x) {"),
        ('extern "C"', '__device__ real plus(real p, real q) { return p + q; }\n\nextern "C"'),
    ],
)
def test_another_way_to_write_it_passes(old, new, monkeypatch):
    monkeypatch.setattr(OpTrial, "tunables", {"BLOCK": (256, 33)})
    assert old in ADD
    found = check.kernel(mg.add, "forward", ADD.replace(old, new))
    assert found.correct, found


def test_a_kernel_for_one_dtype_alone_is_answered():
    found = check.kernel(mg.add, "forward", ADD.replace("a[a_at(i)]", "float(a[a_at(i)])"))
    assert found.text.startswith("Not yet. float64, n=1, BLOCK=256: y is -0.00637465, wanted -0.00637464.")


def test_a_wrong_gradient_is_answered():
    text = mg.matmul["backward_a"].text
    found = check.kernel(mg.matmul, "backward_a", text.replace("sum +=", "sum ="))
    assert found.kind == "value" and "da[0, 0] is 0, wanted" in found.text


@pytest.mark.parametrize(
    ("op", "name", "old", "new", "kind", "words"),
    [
        ("tanh", "forward", "tanh(x[i])", "(exp(x[i]) - exp(-x[i])) / (exp(x[i]) + exp(-x[i]))", "nan", "y[0] is nan"),
        ("sigmoid", "forward", mg.sigmoid["forward"].text.split("y[i] = ")[-1].split(";")[0],
         "exp(x[i]) / (1 + exp(x[i]))", "nan", "y[2] is nan, wanted 1"),
        ("multiply", "backward", "if (db) ", "", "null-pointer", ": db is a null pointer"),
        ("matmul", "register_tile_1d", "c += blockIdx.z * m * n;", "", "race", "m=1, n=5, k=3, batch=2, EDGE=32"),
        ("matmul", "tiled", "__syncthreads();  // and read by all, before the next ones overwrite them", "", "race",
         "Line 12 is in the next iteration of the loop: put a __syncthreads() between line 17 and its end."),
    ],
)  # fmt: skip
def test_a_kernel_that_is_right_only_at_first_sight_is_answered(op, name, old, new, kind, words):
    text = mg.OPS[op][name].text
    assert old in text
    found = check.kernel(mg.OPS[op], name, text.replace(old, new))
    assert (found.correct, found.kind) == (False, kind) and words in found.text, found


def test_errors_of_the_compiler_count_the_readers_lines():
    found = check.kernel(mg.add, "forward", ADD.replace("b[b_at(i)]", "c[b_at(i)]"))
    assert found.kind == "compile" and "cell.cu(4): error: " in found.text
    assert "\n    y[i] = c[b_at(i)] + a[a_at(i)];" in found.text
    found = check.kernel(mg.add, "forward", ADD[:-2])
    assert found.kind == "compile" and found.text.count("error: ") == 1 and "expected '}'" in found.text


def test_errors_in_a_template_name_the_readers_line():
    text = mg.add["vectorized"].text
    mine = text.replace("[](wide a, wide b) { return a + b; }", "[](wide a) { return a; }")
    found = check.kernel(mg.add, "vectorized", mine)
    line = next(i for i, each in enumerate(mine.splitlines(), 1) if "map(" in each)
    assert mine != text and (found.kind, found.line) == ("compile", line)
    assert found.text.count(f"\nused in cell.cu({line}):\n    map(y, n, ") == 1


def test_the_whole_file_may_be_given():
    found = check.kernel(mg.relu, "backward", mg.relu["backward"].source.text)
    assert found.correct, found


def test_what_stands_ahead_already_is_said_to_be_there():
    found = check.kernel(mg.add, "forward", "struct View {};\n" + ADD)
    assert found.kind == "compile" and found.line == 1
    assert found.text.endswith("in cuda/add.cu except its kernels stands before your text already: leave it out.")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("add_forward", "add", "cell.cu has no kernel 'add_forward'; it defines add."),
        (", int n)", ")", "add_forward must take (const real* a, const real* b, real* y, View a_at, View b_at, int n)"),
    ],
)
def test_another_signature_is_answered(old, new, words):
    found = check.kernel(mg.add, "forward", ADD.replace(old, new))
    assert found.kind == "signature" and words in found.text


def test_the_answer_in_the_readme():
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    text, said = re.search(r"%%kernel add forward\n(.*?)\n\n(Not yet.*?)```", readme, re.S).groups()
    assert check.kernel(mg.add, "forward", text).text.split() == said.split()


HINTS = [
    ("i = threadIdx.x;", "A new variable begins with its type: int i"),
    ("int i = threadIdx.x\n    y[i] = 0;", "Each statement ends with a semicolon"),
    ("if n > 3: y[0] = 0;", "A condition stands in parentheses"),
    ("for i in range(n): y[i] = 0;", "A loop is for (int i = 0; i < n; ++i)"),
    ("y[0] = 1 if n > 3 else 0;", "is `condition ? a : b`"),
    ("y[0][1] = 0;", "element (row, column) is x[row * columns + column]"),
    ("y[0] = x[0] ** 2;", "There is no power operator"),
    ("y[0] = x[0] ^ 2;", "There is no power operator"),
    ("y[0] = 1f * x[0];", "A float has a decimal point"),
    ("y[0] = x[BLOCK];", "The compiler is given no BLOCK"),
    ("y[0] = np.exp(x[0]);", "expf, logf, sqrtf"),
    ("y[0] = len(x);", "a bare address, without its length"),
    ("y[0] = max(x[0], 0);", "Write 0.0f for a float, and real(0) for a real"),
    ("atomicAdd(y[0], x[0]);", "atomicAdd(&y[i], value)"),
    ("int i = 0;\n    int i = max(1, 2);", "without the type, the line assigns a new value"),
    ("int i = threadIdx;", "It has parts, one for each axis"),
    ("y[0] = None;", "0 for None"),
    ("# a comment\n", "A comment begins with //"),
    ("y[0] = n // 2;", "Text after // is a comment"),
    ("x[0] = y[0];", "An array with `const` is read-only"),
    ("return x[0];", "A kernel returns nothing"),
    ("syncthreads();", "__syncthreads()"),
    ("if (n > 3) { y[0] = 0;", "A brace that was opened is not closed"),
]


def relu_of(line):
    head = 'extern "C" __global__ void relu_forward(const real* x, real* y, int n) {'
    return check.kernel(mg.relu, "forward", f"{head}\n    {line}\n}}\n")


@pytest.mark.sample(3)
@pytest.mark.parametrize(("line", "words"), HINTS, ids=[line.splitlines()[0] for line, _ in HINTS])
def test_a_python_habit_is_answered_in_cpp(line, words):
    found = relu_of(line)
    assert (found.correct, found.kind) == (False, "compile") and words in found.text.splitlines()[-1], found


@pytest.mark.parametrize("line", ["y[0] = y[0]->z;", "int i = nowhere;", "y.z = 1;", "y[0] = from(3 ^ n);"])
def test_without_a_hint_the_compilers_message_stands_alone(line):
    found = relu_of(line)
    assert found.kind == "compile" and found.text.splitlines()[-1] == f"    {line}", found


@pytest.mark.parametrize(
    ("op", "kernel", "right", "wrong"),
    [
        ("relu", "forward", "x[i] < 0 ? real(0) : x[i]", "x[i] > 0 ? x[i] : real(0)"),
        ("relu", "forward", "x[i] < 0 ? real(0) : x[i]", "max(x[i], real(0))"),
        ("maximum", "forward", "p > q || p != p ? p : q", "p > q ? p : q"),
        ("minimum", "forward", "p < q || p != p ? p : q", "min(p, q)"),
    ],
)
def test_a_kernel_that_loses_nan_is_no_pass(monkeypatch, op, kernel, right, wrong):
    monkeypatch.setattr(OpTrial, "tunables", {"BLOCK": (256,)})
    text = mg.OPS[op][kernel].text
    assert right in text
    found = check.kernel(mg.OPS[op], kernel, text.replace(right, wrong))
    assert found.kind == "value" and "wanted nan" in found.text and "let nan through" in found.text, found


def test_only_a_race_on_a_shared_array_is_shown_unfolded():
    found = mg.check.kernel(mg.sum, "tree", mg.sum["tree"].text.replace("__syncthreads()", "__syncwarp()"))
    assert found.kind == "race" and not found.closed
    assert "sum_tree: sums in 1 phase" in (title := found.view()[0].title) and "touched by several" in title
    again = "        y[0] = max(x[0], real(0));  // no __shared__ array\n"
    found = mg.check.kernel(
        mg.relu, "forward", mg.relu["forward"].text.replace("    if (i < n) {\n", "    if (i < n) {\n" + again)
    )
    assert found.kind == "race" and found.closed
