"""`mg.inspect` checks its arguments, and reports the limits of its record."""

import numpy as np
import pytest
from watched_kernels import X, source

import minigrad as mg
from minigrad.errors import CompileError, LaunchError
from minigrad.source import Source


def test_a_launch_is_refused_as_any_other():
    text = source("y[threadIdx.x] = 1;")
    with pytest.raises(LaunchError, match="takes 3 arguments"):
        mg.inspect(text, X, grid=1, block=1)
    with pytest.raises(LaunchError, match="give grid= and block="):
        mg.inspect(text, X, X, 1)
    with pytest.raises(LaunchError, match="2048 threads"):
        mg.inspect(text, X, X, 1, grid=1, block=(1024, 2))
    with pytest.raises(CompileError, match=r"k.cu\(2\)"):
        mg.inspect(source("y[0] = 1"), X, X, 1, grid=1, block=1)
    with pytest.raises(LaunchError, match="outputs='z'"):
        mg.inspect(text, X, X.copy(), 1, grid=1, block=1, outputs="z")


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        ({"kernel": ""}, FileNotFoundError, "no file ''; give the path of a .cu file or CUDA C"),
        ({"kernel": "no file " * 1000}, FileNotFoundError, r"no file '(no file )+no?.*\.\.\.'; give the path"),
        ({"kernel": None}, TypeError, "mg.inspect takes a kernel, a planned launch"),
        ({"kernel": mg.matmul}, TypeError, "mg.inspect takes a kernel, a planned launch"),
        ({"blocks": -1}, ValueError, "blocks=-1 must be a whole number of at least 0"),
        ({"blocks": "all"}, TypeError, "blocks='all' must be a whole number"),
        ({"outputs": None}, TypeError, "mg.inspect: outputs takes a parameter's name"),
        (
            {"kernel": source("", "const float (*x)[8], float* y, int n")},
            TypeError,
            r"pointers to float\[8\] are not known here",
        ),
        ({"name": "c"}, ValueError, "the text has no kernel 'c'; it defines k."),
        ({"kernel": "// __global__"}, LaunchError, "the source has no kernel"),
        ({"y": X[10:]}, LaunchError, "k writes y, which shares memory with x; give one array for both"),
        ({"y": np.broadcast_to(np.float32(0), 64)}, LaunchError, "k writes y, and the NumPy array .* read-only"),
    ],
)
def test_what_cannot_be_inspected_is_said_before_anything_runs(wrong, error, message):
    named = {"kernel": source("y[threadIdx.x] = 1;"), "y": np.zeros(64, np.float32), "blocks": 1, "outputs": ()} | wrong
    with pytest.raises(error, match=message):
        mg.inspect(named.pop("kernel"), X, named.pop("y"), 64, grid=1, block=64, **named)


@pytest.mark.parametrize(
    "outputs, error, words",
    [
        ([X], TypeError, "mg.inspect: outputs"),
        ("nonsense", LaunchError, "outputs='nonsense' is no array that k may write; those are y."),
        (["y", "x"], LaunchError, "outputs='x' is no array that k may write; those are y."),
        ("n", LaunchError, "outputs='n' is no array that k may write; those are y."),
    ],
)
def test_what_names_no_output_is_refused_before_the_launch(outputs, error, words):
    y = np.zeros_like(X)
    with pytest.raises(error, match=words):
        mg.inspect(source("y[threadIdx.x] = 1;"), X, y, 1000, grid=1, block=1, outputs=outputs)
    assert not y.any()


def test_more_accesses_than_can_be_kept_are_checked_and_not_counted(monkeypatch):
    monkeypatch.setattr("minigrad.microscope.watch.LIMIT", 1 << 16)
    text = source("for (int i = 0; i < 2000; ++i) y[threadIdx.x] += x[i % 9];")
    y = np.zeros(64, np.float32)
    record = mg.inspect(text, X, y, 1000, grid=1, block=64)
    assert record.ok and (y == sum(X[i % 9] for i in range(2000))).all()
    with pytest.raises(MemoryError, match=r"more than 65536 accesses .* give fewer blocks="):
        record.lines  # noqa: B018
    assert mg.inspect(text.replace("2000", "2"), X, y, 1000, grid=1, block=64).ok


def test_where_there_is_no_room_for_all_problems_the_record_says_so():
    record = mg.inspect(source("y[n] = 1;\n" * 600), X, np.zeros_like(X), 1000, grid=1, block=1)
    assert len(record.problems) == 512 and not record.complete
    assert record.summary().endswith("512 problems, and more that there was no room for")


@pytest.mark.parametrize(
    "text, names",
    [
        ("#if 0\nOLD\n#endif\nNEW", ["k"]),
        ("#if 0\n#ifdef A\nOLD\n#else\nOLD\n#endif\nOLD\n#else\nNEW\n#endif", ["k"]),
        ("#if 1\nOLD\n#else\nNEW\n#endif", ["old", "k"]),
        ("# if 0  // for now\nOLD\n#elif 1\nNEW\n#endif", ["k"]),
    ],
)
def test_a_kernel_that_is_left_out_by_if_0_does_not_count(text, names):
    new = source("y[threadIdx.x] = 1;")
    text = text.replace("OLD", new.replace("void k", "void old")).replace("NEW", new)
    assert list(Source(text, "k.cu").kernels) == names
    if names == ["k"]:
        assert mg.inspect(text, X, np.zeros_like(X), 1000, grid=1, block=8).ok


def test_a_default_value_is_no_part_of_a_parameter():
    text = source("y[threadIdx.x] = n;", "const float* x, float* y, int n = 8")
    assert mg.inspect(text, X, np.zeros_like(X), 5, grid=1, block=8).outputs["y"][7] == 5
