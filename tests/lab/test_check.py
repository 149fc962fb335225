"""Checks of gradients and kernels, and answers to exercises: right passes, and every error is named."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad import check
from minigrad.devices.array import Array
from minigrad.devices.guarded import Guard
from minigrad.errors import KernelError
from minigrad.kernels.kernel import Kernel
from minigrad.lab.check.answer import Answer, answer
from minigrad.lab.check.compare import variants
from minigrad.op import OPS, Case, Op
from minigrad.simulator import Simulator
from minigrad.simulator.runtime import PagePool
from minigrad.source import Source


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """Ops of these tests are not registered for others."""
    monkeypatch.setattr("minigrad.op.OPS", dict(OPS))


# --- gradients ---


def square(rule, shape=(2, 2), factor=2.0):
    """A tensor function y = x * x whose gradient rule is given."""
    op = Op("square_of", lambda x: x * x, rule, kernels={}, launch=lambda kernels, x: x)
    x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    return lambda x: op(x), mg.tensor(x, device="numpy")  # it has no kernels


def test_a_right_gradient_has_a_record():
    rng = np.random.default_rng(0)
    result = check.gradient(mg.matmul, rng.standard_normal((3, 4)), rng.standard_normal((4, 2)))
    assert repr(result) == (
        "gradient of matmul with respect to a, b: right in 3 random directions each, relative error below 1e-05"
    )
    assert result.error < 1e-7 and result.inputs == ("a", "b")


def test_gradients_are_checked_where_the_tensors_are(device):
    x = mg.tensor(np.random.default_rng(0).standard_normal((3, 40)), device=device)
    seen = set()

    def fn(x):
        seen.add(x.device)
        return mg.softmax(x * x, axis=0)

    check.gradient(fn, x)
    assert seen == {device}


def test_integers_are_passed_on():
    result = check.gradient(mg.cross_entropy, np.random.default_rng(0).standard_normal((3, 4)), np.array([0, 1, 3]))
    assert result.inputs == ("logits",)


@pytest.mark.parametrize(
    ("rule", "cause"),
    [
        (lambda dy, x: (-2 * x * dy,), "the sign is wrong"),
        (lambda dy, x: (x * dy,), "it is 0.5 times what it should be"),
        (lambda dy, x: ((2 * x * dy).T.copy(),), "the gradient is transposed"),
        (lambda dy, x: (0 * dy,), "no gradient reaches x"),
        (lambda dy, x: (2 * x * dy * [[1, 1], [1, 3]],), r"most wrong at element \[1, 1\]"),
    ],
)
def test_a_wrong_rule_and_its_likely_cause(rule, cause):
    fn, x = square(rule)
    with pytest.raises(
        check.GradientError, match=r"with respect to input 1 \(x\), direction 1 of 3: the tape says"
    ) as e:
        check.gradient(fn, x)
    assert e.match(cause) and isinstance(e.value, AssertionError)


def test_a_wrong_element_among_many_is_found():
    def rule(dy, x):
        dx = 2 * x * dy
        dx[7, 9] *= 1.01
        return (dx,)

    fn, x = square(rule, (30, 30))
    with pytest.raises(check.GradientError, match=r"element \[7, 9\]"):
        check.gradient(fn, x)


def test_a_kink_is_named():
    with pytest.raises(check.GradientError, match="a kink here"):
        check.gradient(mg.relu, np.zeros(3))


def test_randomness_is_named():
    rng = np.random.default_rng(0)
    with pytest.raises(check.GradientError, match="is there randomness in it"):
        check.gradient(lambda x: x * rng.standard_normal(x.shape), np.ones(3))


def test_nan_never_passes():
    with pytest.raises(check.GradientError, match=r"the value of log is nan at \[1\], and in 1 of 2"):
        check.gradient(mg.log, np.array([1.0, -1.0]))
    fn, x = square(lambda dy, x: (dy * np.nan,))
    with pytest.raises(check.GradientError, match=r"the gradient of x is nan at \[0, 0\], and in 4 of 4"):
        check.gradient(fn, x)


def test_float32_inside_is_refused():
    with pytest.raises(TypeError, match="returned float32; from float64 tensors it must return one"):
        check.gradient(lambda x: x.astype("float32") * 2.0, np.ones(2))


def test_nothing_is_never_right():
    with pytest.raises(ValueError, match="exp got no input of floats that has an element: nothing to compare"):
        check.gradient(mg.exp, np.ones((0, 3)))
    assert check.gradient(mg.concatenate, np.ones(0), np.ones(2)).inputs == ("x2",)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"eps": 0}, "check.gradient: eps=0 must be a number of at least 1e-300"),
        ({"rtol": float("nan")}, "rtol=nan must be"),
        ({"directions": 0}, "directions=0 must be a whole number of at least 1"),
        ({"seed": "x"}, "seed='x' must be a whole number"),
    ],
)
def test_how_a_gradient_is_checked_makes_sense(named, message):
    with pytest.raises((TypeError, ValueError), match=message):
        check.gradient(mg.exp, np.ones(3), **named)


# --- kernels ---

GOOD = """#include "common.cuh"
extern "C" __global__ void twice_forward(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}"""


def twice(text=GOOD):
    """y = 2 x by the kernel in `text`."""
    source = Source(text, "twice.cu")
    kernel = Kernel(source, "twice_forward", ("n/BLOCK",), ("BLOCK",), "n", BLOCK=(64, 32, 128))

    def launch(kernels, x):
        y = Array.empty(x.device, x.shape, x.dtype)
        kernels["forward"].launch(x.size)(x, y, x.size)
        return y

    return Op("twice", lambda x: 2 * x, kernels={"forward": kernel}, launch=launch, cases=[Case(((70,),)), Case(((),))])


def test_a_right_kernel_has_a_record(kernel_device):
    assert repr(check.op(twice(), kernel_device)) == (
        f"twice on {kernel_device}: value, gradient and bounds are right in 2 cases, float32 and float64, "
        "with 4 choices of\nkernel and block."
    )


@pytest.mark.parametrize(
    ("right", "wrong", "error", "message"),
    [
        ("if (i < n) y[i] = 2 * x[i]", "y[i] = 2 * x[i < n ? i : 0]", KernelError, "twice_forward"),
        ("y[i] =", "y[i - 1] =", KernelError, "twice_forward"),
        ("x[i];", "x[i + (i == n - 1)];", check.ValueMismatch, r"y\[69\] is nan, the reference says"),
        ("i < n)", "i < n - 1)", check.ValueMismatch, r"y\[69\] is nan, the reference says .* 1 of 70 elements differ"),
        ("2 * x[i]", "2 * x[i] + (i == 5)", check.ValueMismatch, r"twice on .*, float32, \(70,\): y\[5\] is"),
        ("2 * x[i]", "blockDim.x == 128 ? 3 * x[i] : 2 * x[i]", check.ValueMismatch, r"\(70,\), BLOCK=128: y\[0\] is"),
        ("const real* x, real* y", "real* x, real* y", None, ""),
        ("y[i] = 2 * x[i]", "{ y[i] = 2 * x[i]; const_cast<real*>(x)[i] = 0; }", check.ValueMismatch, "left alone"),
    ],
)
def test_a_wrong_kernel_is_found(right, wrong, error, message, kernel_device):
    assert right in GOOD
    op = twice(GOOD.replace(right, wrong))
    if error is None:
        check.op(op, kernel_device)
        return
    with pytest.raises(error, match=message) as e:
        check.op(op, kernel_device)
    if error is KernelError:
        assert (e.value.kind, e.value.buffer) == ("out-of-bounds", "y")


def test_a_reference_that_changes_the_dtype_is_found(kernel_device):
    op = twice()
    op.forward = lambda x: x * np.array(2.0)
    with pytest.raises(check.ValueMismatch, match=r"twice on numpy, .*: y is float64; it should be float32"):
        check.value(op, op.cases[0], kernel_device)
    check.value(op, op.cases[0], kernel_device, "float64")
    op = Op("leak", lambda x: x + x, lambda dy: (dy * np.array(2.0),), kernels={}, launch=op.launch)
    with pytest.raises(check.ValueMismatch, match="dx is float64; it should be float32"):
        check.value(op, Case(((70,),)), kernel_device)


def test_a_kernel_that_changes_the_dtype_is_found(kernel_device):
    op, launch = twice(), mg.less.launch
    op.launch = lambda kernels, x: launch(mg.less.kernels, x, x)
    with pytest.raises(check.ValueMismatch, match=rf"twice on {kernel_device}, .*: y is bool; it should be float32"):
        check.value(op, op.cases[0], kernel_device)


def test_value_and_bounds_of_one_case(kernel_device):
    op, case = twice(), Case(((70,),))
    check.value(op, case, kernel_device)
    check.bounds(op, case, kernel_device, "float64")
    check.every_block(op, case, kernel_device)


@pytest.mark.parametrize(("index", "wrote"), [("i + 1", "y[70]"), ("i - 1", "y[-1]"), ("i + (i > 60) * 9", "y[70]")])
def test_guard_bands_on_a_device_without(index, wrote, monkeypatch):
    monkeypatch.setattr(PagePool, "damaged", lambda pool, buffers: -1)  # the device does not check its memory, as a GPU
    monkeypatch.setattr(check, "guarded", lambda name: Guard(Simulator()))
    op = twice(GOOD.replace("y[i] =", f"y[{index}] ="))
    with pytest.raises(KernelError, match=re.escape(f"twice_forward: wrote {wrote}, and y has 70 elements")):
        check.bounds(op, op.cases[0])
    check.bounds(twice(), op.cases[0])


def test_what_can_be_checked():
    exp, case = mg.exp, mg.exp.cases[0]
    with pytest.raises(ValueError, match="device 'numpy' runs no kernels; choose 'sim' or 'cuda'"):
        check.op(exp, device="numpy")
    with pytest.raises(TypeError, match=r"check takes an op, e\.g\. mg\.exp; got str 'exp'"):
        check.op("exp")
    with pytest.raises(TypeError, match="check of exp takes a case"):
        check.value(exp, (3,))
    for dtype in ("float16", "banana", "int64", None):
        with pytest.raises(TypeError, match="is not one of float32, float64"):
            check.value(exp, case, dtype=dtype)
        with pytest.raises(TypeError, match="is not one of float32, float64"):
            check.op(exp, dtypes=(dtype,))
    with pytest.raises(ValueError, match="for 0 dtypes: nothing to check"):
        check.op(exp, dtypes=())


def test_one_dtype_is_enough(kernel_device):
    assert check.op(twice(), kernel_device, "float32").dtypes == ("float32",)


def test_variants_are_the_kernels_that_stand_in_for_each_other():
    assert variants(mg.matmul) == [
        *("naive", "coalesced", "tiled", "register_tile_1d", "register_tile_2d"),
        *("vectorized", "double_buffered", "warp_tiled", "split_k"),
    ]
    assert variants(mg.sum) == ["warp", "columns", "tree", "atomic", "vectorized", "lanes", "strips"]
    assert variants(mg.relu) == ["forward", "vectorized"]
    assert variants(mg.softmax) == []


# --- answers to exercises ---

ONE = (np.array([1.0, 2.0, 3.0, 4.0, 5.0]),)


def raising(x):
    raise IndexError("out of reach")


def test_right_is_right():
    assert answer(lambda x: x * 2, lambda x: 2 * x, ONE, ([1.0, 2.0],)).correct


@pytest.mark.parametrize(
    ("mine", "text"),
    [
        (lambda x: x * 3, "element 0 is 3, wanted 2"),
        (lambda x: x[:2], r"shape is \(2,\), wanted \(5,\)"),
        (lambda x: np.where(x == 4, np.nan, 2 * x), "element 3 is nan, wanted 8"),
        (raising, "it raised IndexError: out of reach"),
        (lambda x: None, "it returns None: a `return` is missing"),
        (lambda x: 2 * x[0], "it gives one number, wanted 5"),
        (lambda x: np.array(list("abcde")), "wanted numbers"),
    ],
)
def test_wrong_is_named(mine, text):
    found = answer(mine, lambda x: 2 * x, ONE)
    assert not found.correct
    assert re.search(text, repr(found))


def test_a_case_without_arguments():
    assert repr(answer(lambda: 0.5, lambda: 1, ())) == "Not yet: the result is 0.5, wanted 1."


def test_numbers_that_are_close_are_told_apart():
    found = answer(lambda: 1e6 + 100, lambda: 1e6 + 0.25, ())
    assert found.text == "Not yet: the result is 1.0001e+06, wanted 1e+06."
    found = answer(lambda: 12345678.0 * (1 + 2e-5), lambda: 12345678.0, ())
    assert len(set(re.findall(r"1\.234\d+e\+07", found.text))) == 2


def test_without_cases_there_is_no_answer():
    with pytest.raises(ValueError, match="at least one case"):
        answer(abs, abs)


def test_a_long_answer_is_broken_between_words_and_what_it_quotes_is_not():
    words, quoted = "Nothing orders the two, so the result depends on chance. " * 3, f"    line 5: {'y[0] += x; ' * 11}"
    lines = repr(Answer(False, f"{words}\n{quoted}\nA hint")).splitlines()
    assert max(map(len, lines[:2])) <= 106 and " ".join(lines[:2]) == words.strip() and lines[2:] == [quoted, "A hint"]


def test_an_answer_names_the_arguments_and_the_parts_of_a_result():
    found = answer(lambda lane, number: (8, 2), lambda lane, number: (lane, 2), (0, 1), given=("lane", "number"),
                   parts=("row", "column"))  # fmt: skip
    assert found.text == "Not yet. lane 0, number 1: row is 8, wanted 0."
