"""`minigrad inspect`: a kernel of a file under the microscope, for a terminal and for CI."""

import json

import numpy as np
import pytest

from minigrad.lab.cli import main

FILE = """#include <cuda_fp16.h>
__global__ void add(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] += x[i];
}
template <int N> __global__ void flag(int* y) { if (threadIdx.x < N) y[0] = 1; }
int main() { return 0; }
"""
ADD = ["--kernel", "add", "--grid", "2", "--block", "64", "--arg", "y=float32:100", "--arg", "n=100"]

pytestmark = pytest.mark.filterwarnings("ignore:.*left out")


@pytest.fixture
def run(tmp_path, capsys):
    path = tmp_path / "file.cu"

    def run(*arguments, text=FILE):
        path.write_text(text)
        status = main(["inspect", str(path), *map(str, arguments)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_a_fault_gives_status_1_and_rows(run, tmp_path):
    np.save(tmp_path / "x.npy", np.ones(101, np.float32))
    status, out, _ = run(*ADD, "--arg", f"x={tmp_path / 'x.npy'}", "--json", "-")
    (problem,) = json.loads(out)["problems"]
    assert (status, problem["kind"], problem["line"]) == (1, "out-of-bounds", 4)
    assert (problem["element"], problem["thread"]) == (100, [36, 0, 0])
    assert run(*ADD, "--arg", "x=float32:100:randn")[1].count("out-of-bounds:") == 2


def test_a_right_kernel_gives_status_0(run, tmp_path):
    right = FILE.replace("i <= n", "i < n")
    status, out, _ = run(*ADD, "--arg", "x=float32:10x10:range", "--json", tmp_path / "found.json", text=right)
    assert status == 0 and "no problem" in out
    assert json.loads((tmp_path / "found.json").read_text())["lines"][0]["variable"] in "xy"


def test_an_output_that_nobody_has_written(run):
    right = FILE.replace("i <= n", "i < n")
    given = [word.replace("y=float32:100", "y=float32:100:empty") for word in ADD]
    status, out, _ = run(*given, "--arg", "x=float32:100:range", text=right)
    assert status == 1 and "uninitialised: reads and changes y[0], and nobody has written it" in " ".join(out.split())


def test_what_is_harmless_is_printed_and_no_failure(run):
    status, out, _ = run("--kernel", "flag<5>", "--grid", 1, "--block", 32, "--arg", "y=int32:1")
    assert status == 0 and "harmless" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "file.cu defines add, flag; choose one: --kernel add."),
        (["--kernel", "sub"], "file.cu has no kernel 'sub'; it defines add, flag."),
        (["--kernel", "flag"], "give it arguments in its name: 'flag<...>'"),
        (["--kernel", "add"], "add takes (const float* x, float* y, int n); give --arg x=..."),
        ([*ADD[:2], "--arg", "x"], "'x' is no NAME=VALUE"),
        ([*ADD, "--arg", "x=float32:many"], "--arg x=float32:many is no number, no .npy file and no array; write"),
        ([*ADD, "--arg", "x=float32:9:some"], "some is none of zeros, ones"),
        ([*ADD, "--arg", "x=float64:9"], "is float32; got float64"),
    ],
)
def test_what_does_not_fit_is_a_sentence_and_status_2(arguments, words, run):
    rest = [] if "--grid" in arguments else ["--grid", "1", "--block", "1"]
    status, out, err = run(*arguments, *rest)
    assert (status, out) == (2, "") and words in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("int main() { return 0; }\n", "defines no kernel; a kernel is __global__ void"),
        ('#include "lost.cuh"\n__global__ void k() { lost(); }\n', "There is no file lost.cuh. Put"),
    ],
)
def test_a_file_without_a_kernel_or_a_header(text, words, run):
    status, _, err = run("--grid", 1, "--block", 1, text=text)
    assert status == 2 and words in err
