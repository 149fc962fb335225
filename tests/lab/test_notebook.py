"""The notebook extension: the magics leave an op under its name, and an error shows the reader's own lines."""

import re
import subprocess
import sys

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import minigrad as mg
from minigrad.lab import notebook as magic
from minigrad.lab.check.kernel import OpTrial

ADD = """extern "C" __global__ void add_forward(const real* a, const real* b, real* y, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = b[b_at(i)] + a[a_at(i)];
    }
}
"""


@pytest.fixture(scope="module")
def shell():
    made = InteractiveShell()
    magic.register(made)
    yield made
    made.history_manager.end_session()
    made.history_manager = None


@pytest.fixture
def one_block(monkeypatch):
    """One block size: the test is of the answer's way into the notebook."""
    monkeypatch.setattr(OpTrial, "tunables", {"BLOCK": (256,)})


def test_the_kernel_magic_leaves_an_op(shell, one_block):
    found = shell.run_cell_magic("kernel", "add forward", ADD)
    assert found.correct and found.text.endswith("\n`my_add` is now add with your kernel.")
    one = mg.tensor(np.ones(3), device="sim")
    assert shell.user_ns["my_add"](one, one).numpy().tolist() == [2, 2, 2]


def test_a_wrong_cell_leaves_nothing(shell):
    shell.user_ns.pop("wrong", None)
    found = shell.run_cell_magic("kernel", "add forward wrong", ADD.replace("i < n", "i < n - 1"))
    assert not found.correct and "wrong" not in shell.user_ns


@pytest.mark.parametrize("name", ["class", "3x", "mg"])
def test_a_name_that_cannot_be_used_is_refused(shell, name):
    shell.user_ns["mg"] = mg
    found = shell.run_cell_magic("kernel", f"add forward {name}", ADD)
    assert not found.correct and found.kind == "usage" and name in found.text and shell.user_ns["mg"] is mg


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "The ops are add, "),
        ("plus forward", "There is no op 'plus'; there are add, "),
        ("add", "add has forward, vectorized."),
        ("add backward", "add has no kernel 'backward'; it has forward, vectorized."),
        ("add forward x y", "'y' is too much: after the kernel there may be one name for the op, 'x'."),
        ("reshape forward", "reshape has no kernel 'forward'; it has no kernels."),
    ],
)
def test_a_kernel_that_is_not_there_is_answered(shell, line, words):
    found = shell.run_cell_magic("kernel", line, ADD)
    assert found.kind == "usage" and "%%kernel matmul tiled" in found.text and words in found.text, found


def test_a_kernel_goes_by_its_own_name_too(shell, one_block):
    for line, name in (("add_forward mine", "mine"), ("add forward theirs", "theirs")):
        found = shell.run_cell_magic("kernel", line, ADD)
        assert found.correct and f"`{name}` is now add with your kernel" in found.text, found
        assert shell.user_ns[name]["forward"].text.strip() == ADD.strip()
    assert magic._split("sum_tree") == ["sum", "tree"] and magic._split("nonsense") == ["nonsense"]


def test_the_exercise_magic(shell):
    exercise = mg.exercise("add_bounds")
    assert shell.run_cell_magic("exercise", "add_bounds", exercise.skeleton).kind == "unfinished"
    assert shell.run_cell_magic("exercise", "add_bounds", exercise.solution()).text.endswith("is now yours.")
    y = mg.zeros(2, device="sim")
    shell.user_ns["add_bounds"](mg.ones(2, device="sim"), mg.ones(2, device="sim"), y, 2, grid=1, block=2)
    assert y.numpy().tolist() == [2, 2]
    assert "add_bounds, " in shell.run_cell_magic("exercise", "nothing", "x").text


@pytest.mark.parametrize(
    ("script", "there"),
    [
        ("{shell}; import minigrad; {look}", "True"),
        ("import minigrad; {shell}; {look}; s.run_line_magic('load_ext', 'minigrad'); {look}", "False True"),
    ],
)
def test_the_magics_are_there_as_soon_as_minigrad_is_imported_in_ipython(script, there):
    shell = "from IPython.core.interactiveshell import InteractiveShell as S; s = S.instance()"
    look = "print({'kernel', 'exercise', 'mpi'} <= set(s.magics_manager.magics['cell']))"
    command = [sys.executable, "-c", script.format(shell=shell, look=look)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == there.split()


@pytest.fixture
def shown(capsys):
    shell = InteractiveShell()
    mg.load_ipython_extension(shell)
    shell.user_ns["mg"] = mg

    def run(cell):
        shell.run_cell(cell)
        return re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)

    yield run
    shell.history_manager.end_session()


def test_a_refusal_ends_in_the_readers_own_line(shown):
    text = shown("def mine():\n    return mg.ones(3) + mg.ones(4)\n\nmine()")
    assert "----> 4 mine()" in text and "----> 2     return mg.ones(3) + mg.ones(4)" in text
    assert text.rstrip().endswith("reshape one of them.") and "operators.py" not in text
    assert "operators.py" in shown("%tb")


def test_what_another_package_raises_is_shown_whole(shown):
    text = shown("import json\njson.loads('[')")
    assert "decoder.py" in text and "JSONDecodeError" in text
    text = shown("mg.fuse(lambda x: 1 / 0)")
    assert "<lambda>" in text and "fusion" in text and "ZeroDivisionError" in text, "the reader's own function raised"


def test_deep_recursion_and_broken_syntax_are_shown_as_ever(shown):
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)  # IPython formats every frame
    try:
        assert "maximum recursion depth" in shown("def f(n): return f(n + 1)\nf(0)")
    finally:
        sys.setrecursionlimit(limit)
    assert "SyntaxError" in shown("exec('x = = 1')")
    assert shown("print(1 + 1)") == "2\n"


def test_messages_are_folded_between_words(shown):
    text = shown(f"raise ValueError({'number ' * 40!r} + chr(10) + '    int a;' + ' ' * 120 + 'int b;')")
    said = text[text.rindex("ValueError: ") :].rstrip().splitlines()
    assert len(said) == 4 and all(len(line) <= 106 for line in said[:3]) and said[3].endswith("  int b;")
    assert " ".join(said[:3]).split() == ["ValueError:", *["number"] * 40]
    assert "ValueError" in shown("raise ValueError").splitlines()[-1]


CPP = 'extern "C" __global__ void f(float* y) {\n}\n'


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (
            f"# my try\n%%kernel relu forward\n{CPP}",
            "`%%kernel` must be the first line of its cell. Move",
        ),
        (
            f"x = 1\n\n%%exercise add_bounds\n{CPP}",
            "`%%exercise` must be the first line of its cell. Move",
        ),
        ("def f(): pass\n%%exercise rewind\ndef g(): pass", "`%%exercise` must be the first line of its cell. Move"),
        ("x = 1\n%%mpi 2\nprint(2)", "`%%mpi` must be the first line of its cell. Move"),
        ("%%mpi\n1", "Write %%mpi and the number of ranks, then what you want: %%mpi 4 --get loss time"),
        ("%%mpi four\n1", "Here argument ranks: invalid int value: 'four'."),
        ("%%mpi 2 --get 3x\n1", "'3x' is not a variable name."),
        ("%%mpi 0\n1", "The number of ranks and the seconds must be above 0."),
        ("%%mpi 2 --timeout 0\n1", "The number of ranks and the seconds must be above 0."),
        ("%exercise rewind", "Write `%%exercise` with two percent signs"),
        (f"%kernel relu forward\n{CPP}", "Write `%%kernel` with two percent signs"),
        (CPP, "this is CUDA C++, and the cell is read as Python. Its first line must be `%%kernel`"),
        (f"__global__{CPP}", "this is CUDA C++"),
    ],
)
def test_cpp_that_python_is_given_is_answered_in_a_sentence(shown, cell, sentence):
    said = shown(cell)
    assert said.startswith("SyntaxError: ") and sentence in " ".join(said.split()) and "Cell In" not in said
    assert max(map(len, said.splitlines())) <= 106
    assert shown("print(2)") == "2\n"


@pytest.mark.mpi
def test_the_mpi_magic_prints_by_rank_and_brings_variables_back(shown):
    code = "%%mpi 3 --get total rank --timeout 30\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\nrank = comm.rank\n"
    text = shown(f"{code}total = comm.allreduce(rank)\nfor i in range(2):\n    print('line', i)\n'mg' in globals()")
    assert text.splitlines() == [f"[{rank}] line {i}" for rank in range(3) for i in range(2)]
    assert shown("print(total, rank)") == "[3, 3, 3] [0, 1, 2]\n"


@pytest.mark.mpi
def test_the_mpi_magic_shows_the_traceback_of_the_rank_that_failed(shown):
    code = "%%mpi 2\nfrom mpi4py import MPI\nrank = MPI.COMM_WORLD.rank\nprint('before')\n"
    text = shown(f"{code}if rank == 1:\n    [][rank]\nMPI.COMM_WORLD.barrier()").splitlines()
    assert text[0] == "[0] before" and text[1] == "[1] before" and text[2].startswith("Traceback")
    assert text[3:5] == ['  File "code.py", line 6, in <module>', "    [][rank]"]
    assert text[-1] == "RankError: rank 1 of 2 raised IndexError: list index out of range (line 6 of code.py)."


def test_the_mpi_magic_without_mpi_says_what_to_install(shown, monkeypatch):
    monkeypatch.setenv("MINIGRAD_MPIEXEC", "nowhere")
    said = " ".join(shown("%%mpi 2\nprint(1)").split())
    assert "Error" not in said and "pip install 'minigrad-cuda[mpi]'" in said


def test_a_blank_line_above_a_magic_does_no_harm(shown):
    assert "the marked lines are still to be written" in shown(
        f"\n%%exercise add_bounds\n{mg.exercise('add_bounds').skeleton}"
    )
    assert "SyntaxError: invalid syntax" in shown("y = = 'a # comment'")


def test_a_handler_that_was_there_stays():
    shell = InteractiveShell()
    seen = []
    shell.set_custom_exc((ValueError,), lambda shell, kind, error, trace, tb_offset=None: seen.append(error))
    mg.load_ipython_extension(shell)
    shell.run_cell("raise ValueError('mine')")
    shell.history_manager.end_session()
    assert [str(error) for error in seen] == ["mine"]
