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

pytestmark = pytest.mark.filterwarnings("ignore:.*left out", "always:nobody sets")


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
        ([], "file.cu has 2 kernels: add, flag. Choose one, as by --kernel 'add'."),
        (["--kernel", "sub"], "file.cu has no kernel 'sub'; it defines add, flag."),
        (["--kernel", "flag"], "give it arguments in its name. Write for example 'flag<16>'."),
        (
            ["--kernel", "add"],
            "add takes (const float* x, float* y, int n); give --arg x=float32:1000:randn --arg y=float32",
        ),
        ([*ADD[:2], "--arg", "x"], "'x' is no NAME=VALUE"),
        (
            [*ADD, "--arg", "x=float32:many"],
            "--arg x=float32:many is no array and no .npy file; write --arg x=float32:1000:randn,",
        ),
        ([*ADD, "--arg", "x=float32:9:some"], "some is none of zeros, ones"),
        ([*ADD, "--arg", "x=float32:9", "--seed", "-1"], "--seed=-1 must be a whole number of at least 0"),
        ([*ADD, "--arg", "x=float64:9"], "is float32; got float64"),
    ],
)
def test_what_does_not_fit_is_a_sentence_and_status_2(arguments, words, run):
    rest = [] if "--grid" in arguments else ["--grid", "1", "--block", "1"]
    status, out, err = run(*arguments, *rest)
    assert (status, out) == (2, "") and words in err and "Traceback" not in err


STRUCTS = """struct Grid { int n; float3 origin; };
struct P { float dt; int n; float v[3]; Grid grid; const float* x; bool on; };
struct Body { float mass; float pos[3]; Grid grid; };
__global__ void k(P p, Body* b, float4 w, unsigned char c, float* y) {
    int i = threadIdx.x;
    if (i >= p.n || !p.on) return;
    y[i] = p.dt * p.x[i] + p.v[2] + p.grid.origin.y + b[i].mass + b[i].pos[1] + b[i].grid.n + w.z + c;
    assert(y[i] == 1 + 3 + 6 + 2 + (3 * i + 1) + 7 + 4 + 5);
}
"""
LAUNCH = ["--grid", "1", "--block", "32"]


def words(text):
    return [word for each in text.split() for word in ("--arg", each)]


def test_structs_are_given_by_their_members(run):
    p = "p.dt=1e0 p.n=32 p.v=1,2,3 p.grid.n=8 p.grid.origin=5,6,7 p.x=float32:32:ones p.on=true"
    b = "b=struct:32:ones b.mass=2 b.pos=range b.grid.n=7 w=0x1,2,4,-3 c=5 y=float32:32:empty"
    status, out, err = run(*LAUNCH, *words(f"{p} {b}"), "--output", "y", text=STRUCTS)
    assert (status, err) == (0, "") and "no problems" in out
    short = p.replace("x=float32:32", "x=float32:20")
    status, out, _ = run(*LAUNCH, *words(f"{short} {b}"), "--json", "-", text=STRUCTS)
    problem = json.loads(out)["problems"][0]
    assert status == 1 and (problem["kind"], problem["variable"], problem["element"]) == ("out-of-bounds", "p.x", 20)
    status, _, err = run(*LAUNCH, *words(f"{p} {b}".replace("p.dt=1e0", "").replace("p.grid.n=8", "")), text=STRUCTS)
    told = [f"minigrad inspect: nobody sets {name}, so it is 0." for name in ("p.grid.n", "p.dt")]
    assert status == 1 and err.splitlines() == told


def test_the_advice_for_missing_values_can_be_followed(run):
    text = STRUCTS.replace("    assert", "    // ").replace(
        "bool on;", "bool on; float m[2][2]; int2 q[2]; int one[1];"
    )
    status, _, err = run(*LAUNCH, text=text)
    assert status == 2 and "k takes (P p, Body* b, float4 w, unsigned char c, float* y); give --arg p.dt=1.0" in err
    advice = err.partition("; give ")[2].partition(". The sizes are guesses")[0].split()
    assert "p.m=1.0,1.0,1.0,1.0" in advice and run(*LAUNCH, *advice, text=text)[0] == 0
    assert run(*LAUNCH, *(each.replace("p.m=1.0,1.0,1.0,1.0", "p.m=range") for each in advice), text=text)[0] == 0
    bodies = text.replace("struct Body {", "struct Body { int2 q[2];")
    assert run(*LAUNCH, *advice, "--arg", "b.q=range", "--arg", "b.pos=1,2,3", text=bodies)[0] == 0


@pytest.mark.parametrize(
    ("given", "text", "words"),
    [
        ([], "int i = threadIdx.x + blockIdx.x * blockDim.x;", "--grid 4 --block 256 --arg y=float32:1000:randn"),
        (["--block", 64], "int i = threadIdx.x + blockIdx.x * blockDim.x;", "give --grid 4 --arg y="),
        ([], "int i = threadIdx.x + 16 * threadIdx.y;", "--grid 2,2 --block 16,16 --arg y=float32:1000:randn"),
    ],
)
def test_a_command_without_a_launch_is_told_one_with_the_values(given, text, words, run):
    text = f"__global__ void k(float* y, int n) {{ {text} if (i < n && !blockIdx.y) y[i] = !blockIdx.x; }}"
    text = text.replace("&&", "&& !blockIdx.x &&") if "16" in text else text
    status, out, err = run(*given, text=text)
    assert (status, out) == (2, "") and words in err
    assert run(*given, *err.partition("; give ")[2].partition(". The sizes")[0].split(), text=text)[0] == 0


@pytest.mark.parametrize(
    ("head", "name", "words"),
    [
        ("__launch_bounds__(64)", "k", "--grid 4 --block 64 --arg y=float32:256x16:randn"),
        ("template <int N>", "k<8>", "--grid 4 --block 256 --arg y=float32:1024x8:randn"),
    ],
)
def test_the_launch_and_the_extents_that_are_told_fit_the_kernel(head, name, words, run):
    bounds, template = (head, "") if "launch" in head else ("", head)
    text = f"{template} __global__ void {bounds} k(float (*y)[{'N' if template else 16}]) {{"
    text += "y[blockIdx.x * blockDim.x + threadIdx.x][0] = 1; }"
    status, _, err = run("--kernel", name, text=text)
    assert status == 2 and words in err
    advice = err.partition("; give ")[2].partition(". The sizes")[0].split()
    assert run("--kernel", name, *advice, text=text)[0] == 0
    status, _, err = run("--kernel", name, *advice[:-1], "y=5", text=text)
    assert status == 2 and f"write --arg y=float32:1000x{'8' if template else '16'}:randn" in err


def test_a_struct_whose_layout_is_not_read_is_told_as_one(run):
    text = "typedef struct { char c; int n; } __attribute__((packed)) P;\n__global__ void k(P* p) { p[0].n = 1; }"
    assert "the layout of 'packed P' is not read here" in run(*LAUNCH, "--arg", "p=struct:4:zeros", text=text)[2]


def test_extents_of_launches_and_arrays_are_written_alike(run):
    text = "__global__ void k(float* y) { y[threadIdx.y * 4 + threadIdx.x] = 1; }"
    for given in (("1x1", "4x8", "y=float32:8x4"), ("1,1", "4,8", "y=float32:8,4")):
        assert run("--grid", given[0], "--block", given[1], "--arg", given[2], "--output", "y", text=text)[0] == 0


def test_a_name_that_no_parameter_has_is_told_ahead_of_those_without_a_value(run):
    assert "add has no parameter X; it has x, y, n." in run(*ADD[:6], "--arg", "X=float32:100", text=FILE)[2]


SOFTMAX = """__global__ void k(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    for (int c = 0; c < cols; ++c) y[row * cols + c] = x[row * cols + c];
}
"""
BODIES = """struct P { float dt; int n; };
__global__ void k(const float4* x, float4* y, P p) {
    __shared__ float4 tile[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 sum = x[i];
    for (int first = 0; first < p.n; first += 32) {
        tile[threadIdx.x] = x[first + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 32; ++j) sum.x += tile[j].x * p.dt;
        __syncthreads();
    }
    y[i] = sum;
}
"""


@pytest.mark.parametrize(("text", "words"), [(SOFTMAX, "rows=31 --arg cols=31"), (BODIES, "y=float32:96x4:randn")])
def test_the_sizes_of_the_advice_go_together(text, words, run):
    launch = ("--grid", 3, "--block", 32)
    _, _, err = run(*launch, text=text)
    assert words in err
    assert run(*launch, *err.partition("; give ")[2].partition(". The sizes")[0].split(), text=text)[0] == 0


def test_sentences_name_the_options_of_the_command_line(run, capsys):
    given = (*ADD[:2], *ADD[6:], "--arg", "x=float32:100", "--grid")
    assert "--shared -1 bytes; a block" in run(*given, 1, "--block", 4, "--shared", -1)[2]
    for text, sentence in (
        ("extern __shared__ float s[]; s[0] = 1; y[0] = s[0];", "the block needs: --shared of"),
        ("cooperative_groups::this_grid().sync();", "so that they can meet: --cooperative."),
    ):
        text = f"#include <cooperative_groups.h>\n__global__ void k(float* y) {{ {text} }}\n"
        assert sentence in " ".join(run(*LAUNCH, *words("y=float32:1"), text=text)[1].split())
    with pytest.raises(SystemExit):
        run(*given, 4, 4, "--block", 4)
    assert "knows no 4; an extent of two axes is written --grid 4,2" in capsys.readouterr().err


def test_a_macro_without_a_value_is_1(run):
    text = "__global__ void k(float* y) { if (N == 1) y[threadIdx.x] = 1; }\n"
    assert run(*LAUNCH, *words("y=float32:32:empty"), "--output", "y", "--define", "N", text=text)[0] == 0


def test_whole_random_numbers_are_those_of_elements(run):
    text = "__global__ void k(const unsigned char* i, float* y) { atomicAdd(&y[i[threadIdx.x]], 1.0f); }\n"
    status, out, _ = run(*LAUNCH, *words("i=uint8:32:rand y=float32:32"), "--json", "-", text=text)
    (adds,) = (row for row in json.loads(out)["lines"] if row["variable"] == "y")
    assert status == 0 and 1 < adds["sectors"] <= 4
    assert run(*LAUNCH, *words("i=uint8:32:rand y=float32:8"), text=text)[0] == 1
    assert run(*LAUNCH, *words("i=uint8:32:rand:8 y=float32:8"), text=text)[0] == 0
    status, _, err = run(*LAUNCH, *words("i=uint8:32 y=float32:8:rand:8"), text=text)
    assert status == 2 and "rand:8 is none of zeros, ones, range, randn, rand, empty, and rand:64 for whole" in err


def test_a_kernel_without_end_is_a_problem_and_counts_need_not_be(run):
    endless = "__global__ void k(float* x) { while (true) x[0] += 1; }\n"
    status, out, _ = run(*LAUNCH, *words("x=float32:1"), "--timeout", "0.5", "--blocks", "0", "--json", text=endless)
    found = json.loads(out)
    assert status == 1 and found["lines"] == [] and found["problems"][0]["kind"] == "timeout"
    assert "set --timeout for a kernel that takes longer" in found["problems"][0]["message"]
    many = "__global__ void k(float* x) { for (int i = 0; i < 1 << 19; ++i) x[threadIdx.x] += 1; }\n"
    status, out, _ = run(*LAUNCH, *words("x=float32:1"), "--json", "-", text=many)
    found = json.loads(out)
    assert status == 1 and found["lines"] is None and found["problems"][0]["kind"] == "out-of-bounds"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("p=5", "--arg p=5: P p is a struct; give --arg p.dt=1.0 --arg p.n=1000 --arg p.v=1.0,1.0,1.0 --arg p.grid.n="),
        ("p.dtt=1", "--arg p.dtt: P has no member dtt; it has dt, n, v, grid, x, on."),
        ("p.grid.m=1", "--arg p.grid.m: Grid has no member m; it has n, origin."),
        ("p.grid=1", "Grid p.grid is a struct; give --arg p.grid.n=1000 --arg p.grid.origin=1.0,1.0,1.0."),
        ("p.n=1.5", "argument 1 (P p): its member n: float 1.5 does not fit into int32."),
        ("p.n=99999999999", "does not fit into int32."),
        ("p.v=1,2", "its member v: list [1, 2] does not fit into 3 numbers of float32."),
        ("p.x=1", "--arg p.x=1 is no array and no .npy file; write --arg p.x=float32:1000:randn"),
        ("p.x=float64:3", "float* p.x is float32; got float64; give --arg p.x=float32:3."),
        ("p.x=int32:3:rand:8", "float* p.x is float32; got int32; give --arg p.x=float32:3:rand."),
        ("p.dt.z=3", "float p.dt has no members; give --arg p.dt=1.0."),
        ("b.mass=1", "Body* b is an array of structs; give --arg b=struct:1000:zeros as well."),
        ("b=float32:3", "Body* b is an array of Body; got float32; give --arg b=struct:1000:zeros."),
        ("b=struct:3 b.mas=1", "Body has no member mas; it has mass, pos, grid."),
        ("b=struct:3 b.grid=1", "Grid b.grid is a struct; give --arg b.grid.n=1000"),
        ("b=struct:3 b.mass=float32:4", "does not fit into float32."),
        ("b=struct:3 w=1,2", "argument 3 (float4 w) takes 4 numbers"),
        ("b=struct:3 c=300", "300 does not fit into unsigned char."),
        ("b=struct:3 c=many", "unsigned char c is a number; give --arg c=1."),
        ("b=struct:3 y=object:3", "is no array and no .npy file"),
        ("b=struct:3 y=lost.npy", "--arg y=lost.npy: there is no file lost.npy."),
    ],
)
def test_a_member_that_does_not_fit_is_a_sentence(given, sentence, run):
    p = "p.n=0 p.dt=1 p.v=1,2,3 p.grid.n=1 p.grid.origin=1,2,3 p.on=true"
    others = {"p": p, "b": "b=struct:3", "w": "w=1,2,3,4", "c": "c=1", "y": "y=float32:3"}
    heads = {each.partition("=")[0].partition(".")[0] for each in given.split()}
    rest = [value for name, value in others.items() if name not in heads]
    status, out, err = run(*LAUNCH, *words(" ".join([given, *rest])), text=STRUCTS)
    assert (status, out) == (2, "") and sentence in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("int main() { return 0; }\n", "has no kernel. A kernel is `__global__ void name(...)"),
        ('#include "lost.cuh"\n__global__ void k() { lost(); }\n', "There is no file lost.cuh. Put"),
        ('#include "lost.cuh"\n__global__ void k(Foo* x) { }\n', "not known here, and there is no file lost.cuh. Put"),
    ],
)
def test_a_file_without_a_kernel_or_a_header(text, words, run):
    status, _, err = run("--grid", 1, "--block", 1, text=text)
    assert status == 2 and words in err


CONSTANTS = """__constant__ float table[3], scale;
__constant__ int n;
__device__ float more = 2;
__constant__ float unused[4];
__global__ void k(float* y) {
    if (threadIdx.x == 0) y[0] = n * table[2] + scale * more;
    assert(threadIdx.x || y[0] == 15);
}
"""


def test_constants_are_set(run, tmp_path):
    np.save(tmp_path / "table.npy", np.array([1, 2, 3], np.float32))
    constants = [f"table={tmp_path / 'table.npy'}", "scale=6", "n=1"]
    given = [word for each in constants for word in ("--constant", each)]
    status, out, err = run(*LAUNCH, *words("y=float32:1:zeros"), *given, text=CONSTANTS)
    assert (status, err) == (0, "") and "no problems" in out
    status, _, err = run(*LAUNCH, *words("y=float32:1:zeros"), *given[2:], text=f"{CONSTANTS}// again\n")
    wanted = "nobody sets table, so it is 0; give --constant table=...\n"
    assert status == 1 and err == f"minigrad inspect: {wanted}"


@pytest.mark.parametrize(
    "option, value, sentence",
    [
        ("--constant", "table=float32:4", "table has 12 bytes; 4 of float32 are 16"),
        ("--constant", "n=2.5", "n is int; float 2.5 does not fit"),
        ("--constant", "m=2", "file.cu has no __constant__ or __device__ variable m"),
        (
            "--constant",
            "table=many",
            "--constant table=many is no array and no .npy file; write --constant table=float32:",
        ),
        ("--arg", "y=none.npy", "--arg y=none.npy: there is no file none.npy."),
    ],
)
def test_a_constant_or_a_file_that_does_not_fit_is_a_sentence(option, value, sentence, run):
    arg = [] if option == "--arg" else words("y=float32:1")
    status, _, err = run(*LAUNCH, *arg, option, value, text=CONSTANTS)
    assert status == 2 and sentence in err
