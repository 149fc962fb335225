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
            {"kernel": source("", "const Unknown* x, float* y, int n")},
            TypeError,
            "pointers to Unknown are not known here",
        ),
        ({"name": "c"}, ValueError, "the text has no kernel 'c'; it defines k."),
        ({"kernel": "// __global__"}, ValueError, "the text has no kernel"),
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
    with pytest.raises(MemoryError, match=r"more than 65536 accesses .* count fewer blocks"):
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
        ("#if 1\nOLD\n#else\nNEW\n#endif", ["old"]),
        ("# if 0  // for now\nOLD\n#elif 1\nNEW\n#endif", ["k"]),
    ],
)
def test_a_kernel_that_is_left_out_by_if_does_not_count(text, names):
    new = source("y[threadIdx.x] = 1;")
    text = text.replace("OLD", new.replace("void k", "void old")).replace("NEW", new)
    assert list(Source(text, "k.cu").kernels) == names
    if names == ["k"]:
        assert mg.inspect(text, X, np.zeros_like(X), 1000, grid=1, block=8).ok


def test_a_default_value_is_no_part_of_a_parameter():
    text = source("y[threadIdx.x] = n;", "const float* x, float* y, int n = 8")
    assert mg.inspect(text, X, np.zeros_like(X), 5, grid=1, block=8).outputs["y"][7] == 5


A, B = (np.arange(24, dtype=np.float32).reshape(shape) % 7 - 3 for shape in ((4, 6), (6, 4)))
SIM = [mg.tensor(array, device="sim") for array in (A, B)]


def empty(*shape):
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    "kernel, inputs, named, launch, arguments",
    [
        (mg.sum["tree"], [X[:16]], {"BLOCK": 16}, {"outputs": 1, "n": 16}, [X[:16], empty(1), 1, 16, 1, 8192, 1.0]),
        (mg.sum["warp"], [X[:64]], {"BLOCK": 32, "CHUNK": 32}, {"outputs": 1, "n": 64}, [X[:64], empty(2), 1, 64, 1, 32, 1.0]),
        (mg.sum["atomic"], [A], {"axis": 0}, {"size": 24}, [A, empty(6), 6, 4, 6, 4, 1.0]),
        (mg.transpose["naive"], [A], {"TILE": 8}, {"rows": 4, "cols": 6}, [A, empty(6, 4), 4, 6]),
        (mg.transpose["tiled"], SIM[:1], {"TILE": 8}, {"rows": 4, "cols": 6}, [A, empty(6, 4), 4, 6]),
        (mg.transpose["padded"], [mg.tensor(A, device="numpy")], {}, {"rows": 4, "cols": 6}, [A, empty(6, 4), 4, 6]),
        (mg.relu["forward"], [A.astype(np.float64)], {}, {"n": 24}, [A.astype(np.float64), np.zeros((4, 6)), 24]),
        (
            mg.add["forward"], [A, B[0, :1]], {"BLOCK": 32}, {"n": 24},
            [A, B[0, :1], empty(4, 6), mg.view.broadcast((4, 6), (4, 6)), mg.view.broadcast((1,), (4, 6)), 24],
        ),
        (mg.matmul["naive"], [A, B], {"TILE": 4}, {"m": 4, "n": 4, "k": 6}, None),
        (mg.matmul["tiled"], SIM, {"TILE": 4}, {"m": 4, "n": 4, "k": 6}, None),
        (mg.softmax["forward"], [A], {"axis": 1}, {"rows": 4}, [A, empty(4, 6), 6, 1]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)  # fmt: skip
def test_a_kernel_of_an_op_finds_its_own_launch_and_arguments(kernel, inputs, named, launch, arguments):
    if arguments is None:  # a product
        arguments = [A, B, empty(4, 4), 4, 4, 6]
    record = mg.inspect(kernel, *inputs, **named)
    tunables = {key: value for key, value in named.items() if key in kernel.tunables}
    explicit = mg.inspect(kernel.launch(**launch, **tunables), *arguments)
    assert (record.kernel, record.grid, record.block) == (explicit.kernel, explicit.grid, explicit.block)
    assert record.table() == explicit.table() and record.ok
    assert record.outputs.keys() == explicit.outputs.keys() == set(kernel.outputs)
    for name, wanted in explicit.outputs.items():
        np.testing.assert_array_equal(record.outputs[name].ravel(), wanted.ravel())


@pytest.mark.parametrize("dy", [None, 2.0 * A, mg.tensor(2 * A, device="sim")])
def test_a_kernel_of_the_gradient_runs_after_the_forward_pass(dy):
    wanted = np.ones_like(A) if dy is None else 2 * A
    record = mg.inspect(mg.relu["backward"], A, dy=dy)
    np.testing.assert_array_equal(record.outputs["dx"], wanted * (A > 0))
    record = mg.inspect(mg.softmax["backward"], A, axis=-1, dy=dy, BLOCK=32)
    assert (record.kernel, record.grid, record.block) == ("softmax_backward", (4, 1, 1), (32, 1, 1))
    y = np.exp(A) / np.exp(A).sum(1, keepdims=True)
    np.testing.assert_allclose(record.outputs["dx"], y * (wanted - (y * wanted).sum(1, keepdims=True)), atol=1e-5)


def test_a_kernel_of_an_op_keeps_its_own_tunables_and_the_inputs_their_values():
    before = A.copy()
    assert mg.inspect(mg.sum["tree"].using(BLOCK=64), A).block == (64, 1, 1)
    assert mg.inspect(mg.sum["tree"].using(BLOCK=64), A, BLOCK=128, blocks=0).block == (128, 1, 1)
    assert mg.inspect(mg.sum["vectorized_backward"], A).outputs["dx"].tolist() == np.ones((4, 6)).tolist()
    assert (before == A).all() and mg.sum["tree"].values["BLOCK"] != 64


def test_of_several_launches_of_the_kernel_the_record_is_that_of_the_first():
    record = mg.inspect(mg.sum["tree"], X, BLOCK=32, CHUNK=100, outputs="y")
    assert record.grid == (1, 10, 1) and record.outputs["y"].tolist() == X.reshape(10, 100).sum(1).tolist()


def test_a_readers_kernel_is_found_by_the_one_that_it_replaces():
    text = mg.relu["forward"].text.replace("int i", "int k").replace("[i]", "[k]")
    mine = mg.check.kernel(mg.relu, "forward", text.replace("if (i < n)", "if (k < n)")).result
    record = mg.inspect(mine["forward"], A, BLOCK=64)
    assert record.source is mine["forward"].source and record.block == (64, 1, 1)
    assert record.outputs["y"].tolist() == np.maximum(A, 0).tolist()


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: mg.inspect(mg.softmax["held"], A), LaunchError, "softmax_held is not launched .* softmax takes"),
        (lambda: mg.inspect(mg.sum["tree"], A, TILE=4), LaunchError, "sum_tree knows no TILE=.*axis, keepdims, BLOCK"),
        (lambda: mg.inspect(mg.sum["tree"], A, BLOCK=0), LaunchError, "BLOCK=0 must be a whole number"),
        (lambda: mg.inspect(mg.sum["tree"], A, axis=2), ValueError, "axis 2 does not exist"),
        (lambda: mg.inspect(mg.sum["tree"], A, empty(1), 1, 24, 1, 24, 1.0), TypeError, "sum takes .x, axis, keepdims"),
        (lambda: mg.inspect(mg.sum["tree"], A, dy=A), LaunchError, "sum_tree computes no gradient"),
        (lambda: mg.inspect(mg.relu["backward"], A, dy=X), LaunchError, r"dy has shape \(1000,\), and the output"),
        (lambda: mg.inspect(mg.relu["forward"], X[:0]), LaunchError, "nothing to see"),
        (lambda: mg.inspect(mg.add["forward"], A, X), ValueError, "do not broadcast"),
        (lambda: mg.inspect(source(""), X, X, 1, grid=1, block=1, BLOCK=4), TypeError, "and none by its name: BLOCK="),
        (lambda: mg.inspect(source(""), X, X, 1, grid=1, block=1, dy=X), TypeError, "dy= goes with a kernel of an op"),
        (lambda: mg.inspect(mg.relu["forward"], X, defines={"N": 2}), TypeError, "and defines= go with CUDA"),
        (lambda: mg.inspect(mg.relu["forward"], X, shared=64), LaunchError, "relu_forward: give grid= and block="),
        (lambda: mg.inspect(mg.relu["forward"].launch(9), X, X, 9, name="k"), TypeError, "is a kernel already; name="),
    ],
)
def test_an_op_s_kernel_that_cannot_be_inspected_says_why(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_arrays_in_a_struct_are_watched():
    text = """struct Data { int n; float* x; const float* y; };
    __global__ void k(Data d) { if (threadIdx.x < d.n) d.x[threadIdx.x] = d.y[threadIdx.x]; }"""
    x, y = np.zeros(4, np.float32), np.arange(4, dtype=np.float32)
    assert not mg.inspect(text, {"n": 4, "x": x, "y": y}, name="k", grid=1, block=8).problems
    assert x.tolist() == [0, 1, 2, 3]
    outside = mg.inspect(text, {"n": 5, "x": x, "y": y}, name="k", grid=1, block=8).problems
    assert ["d.y[4]" in str(outside[0]), "d.x[4]" in str(outside[1]), len(outside)] == [True, True, 2]
    races = mg.inspect(text.replace("d.x[threadIdx.x]", "d.x[0]"), {"n": 4, "x": x, "y": y}, name="k", grid=1, block=8)
    assert "race" in str(races.problems[0]) and "d.x[0]" in str(races.problems[0])


def test_an_array_in_a_struct_and_beside_it_is_one():
    struct, x = "struct D { float* x; };", np.zeros(4, np.float32)
    text = f"{struct} __global__ void k(D d, float* y) {{ int i = threadIdx.x; d.x[i] += 1; y[i] += 1; }}"
    assert not mg.inspect(text, {"x": x}, x, grid=1, block=4).problems and x.tolist() == [2] * 4


def test_a_function_that_nothing_calls_may_call_one_that_is_nowhere():
    text = """__device__ float nowhere(float); __device__ float unused(float x) { return nowhere(x); }
    __global__ void other(float* x) { x[0] = nowhere(x[0]); }
    __global__ void k(float* x) { x[threadIdx.x] = 1; }"""
    assert not mg.inspect(text, x := np.zeros(2, np.float32), name="k", grid=1, block=2).problems and x.all()


def test_an_array_given_by_rows_is_watched():
    text = "__global__ void k(const float (*x)[4], float y[][4]) { y[threadIdx.x][3] = x[threadIdx.x][2]; }"
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    assert not mg.inspect(text, x, y, name="k", grid=1, block=2).problems and y.tolist() == [0, 0, 0, 2, 0, 0, 0, 6]
    outside = mg.inspect(text, x, y, name="k", grid=1, block=3).problems
    assert "x[10]" in str(outside[0]) and "y[11]" in str(outside[1])


def test_members_are_kept_whoever_points_to_their_struct_and_read_only_ones_left_alone():
    struct, x, y = "struct D { const float* x; float* y; };", np.ones(1, np.float32), np.zeros(1, np.float32)
    x.flags.writeable = False
    text = f"{struct} __global__ void k(const D* d, D e) {{ d[0].y[0] = e.x[0]; }}"
    record = mg.inspect(text, [{"x": x, "y": y}], {"x": x, "y": None}, name="k", grid=1, block=1)
    assert y[0] == record.outputs["d[0].y"][0] == 1 and not record.problems
