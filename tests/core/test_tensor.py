"""What a tensor can be made of: numbers that do not fit, dtypes and shapes that do not exist."""

import subprocess
import sys

import numpy as np
import pytest

import minigrad as mg


@pytest.mark.parametrize("dtype", ["banana", None, ">f4", complex, 3])
def test_dtypes_that_do_not_exist_here(dtype):
    for make in (lambda: mg.ones(3, dtype=dtype), lambda: mg.ones(3).astype(dtype)):
        names = "float32, float64, bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64"
        with pytest.raises(TypeError, match=f"one of {names}; choose"):
            make()


def test_bfloat16_goes_by_its_name(monkeypatch):
    """In a process of its own: NumPy knows the name once ml_dtypes was imported by anybody."""
    pytest.importorskip("ml_dtypes")
    code = "import minigrad as mg; print(mg.tensor([1.0], dtype='bfloat16').dtype, mg.ones(2).astype('bfloat16').dtype)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["bfloat16"] * 2


def test_bfloat16_without_ml_dtypes_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ImportError, match="bfloat16 is a dtype of ml_dtypes: pip install ml_dtypes"):
        mg.tensor([1.0], dtype="bfloat16")


NO_NUMBERS = [
    None, "a", {}, {1}, 1j, b"a", object(), [None, 1.0], np.array(["a"]),
    np.array(["2020-01-01"], "M8[D]"), np.ma.masked_array([1.0, 2.0], [0, 1]),
]  # fmt: skip


IN_MEMORY = [("float16", r"Use \.astype\('float32'\)"), ("f4,i4", "Structs are for kernels")]


@pytest.mark.parametrize("dtype, way_out", IN_MEMORY)
@pytest.mark.parametrize("device", ["numpy", "sim"])
def test_half_and_structs_lie_in_memory_and_ops_do_not_take_them(device, dtype, way_out):
    x = mg.tensor(np.zeros(2, dtype), device=device)
    assert mg.ones(2, dtype=dtype).dtype == x.dtype == np.dtype(dtype)
    for op in (lambda: x + 1, lambda: x + x, x.sum, lambda: mg.ones(2) + np.zeros(2, dtype)):
        with pytest.raises(TypeError, match=rf"takes float32 or float64; got .*\. {way_out}"):
            op()
    with pytest.raises(TypeError, match="only tensors of floats can require gradients"):
        mg.tensor(np.zeros(2, dtype), requires_grad=True)


@pytest.mark.parametrize("data", NO_NUMBERS, ids=lambda data: type(data).__name__)
def test_what_is_no_number(data):
    with pytest.raises(TypeError, match="tensor: cannot make numbers of"):
        mg.tensor(data)
    with pytest.raises(TypeError, match="add: cannot make numbers of"):
        mg.ones(2) + data


def test_ragged_lists_name_the_op():
    with pytest.raises(ValueError, match="multiply: the nested lists are ragged"):
        mg.ones(2) * [[1.0], [1.0, 2.0]]


@pytest.mark.parametrize(
    "array",
    [np.ones((4, 6))[::2, ::-2], np.arange(6.0).reshape(3, 2).T, np.broadcast_to(np.float32(2), (2, 3)),
     np.ones((0, 3)), np.array(2.0)],
)  # fmt: skip
def test_arrays_however_they_lie_in_memory(array, device):
    x = mg.tensor(array, device=device)
    np.testing.assert_array_equal((x + x).numpy(), array + array)
    assert x.dtype == array.dtype


@pytest.mark.parametrize("make", [mg.randn, lambda *shape, dtype: mg.uniform(0, 1, shape, dtype=dtype)])
def test_random_numbers_have_a_fraction(make):
    assert make(2, dtype="float64").dtype == np.float64
    with pytest.raises(TypeError, match="numbers with a fraction, in float32 or float64, not in int32"):
        make(2, dtype="int32")


def test_a_tensor_of_many_has_no_one_truth():
    assert mg.tensor([2.0]) and not mg.tensor(0.0)
    with pytest.raises(
        ValueError, match=r"a tensor of shape \(2,\) is neither true nor false\. .* mg\.where\(x > 0, a, b\)"
    ):
        assert mg.tensor([1.0, 2.0]) > 0


@pytest.mark.parametrize(
    ("data", "dtype", "number"),
    [([300], "uint8", "300"), ([-1], "uint8", "-1"), ([2**31], "int32", "2147483648"), ([np.nan], "int64", "nan"),
     ([2.0**63], "int64", r"9\.22"), ([np.inf], "int32", "inf")],
)  # fmt: skip
def test_a_number_that_does_not_fit_is_refused(data, dtype, number, device):
    with pytest.raises(ValueError, match=f"tensor: {number}.* does not fit into {dtype}, which holds"):
        mg.tensor(data, dtype=dtype, device=device)
    with pytest.raises(ValueError, match=f"astype: {number}.* does not fit into {dtype}"):
        mg.tensor(np.array(data), device=device).astype(dtype)


def test_a_float_is_cut_off_behind_the_point(device):
    assert mg.tensor([1.9, -1.9, 255.9], device=device).astype("int32").numpy().tolist() == [1, -1, 255]
    assert mg.tensor([-0.5, 255.9], device=device, dtype="uint8").numpy().tolist() == [0, 255]


def test_numbers_are_exact_or_refused(device):
    whole = mg.tensor([2**53 + 1], device=device)
    assert (whole == 2**53 + 1).numpy().all() and not (whole == 2**53).numpy().any()
    with pytest.raises(ValueError, match="equal: 300 does not fit into uint8"):
        mg.equal(mg.tensor(np.array([44], "uint8"), device=device), 300)
    with pytest.raises(ValueError, match="less: 1180591620717411303424 does not fit into int64"):
        mg.less(whole, 2**70)
    assert (mg.ones(1, device=device) + 2**70).item() == np.float32(2**70)
    with pytest.raises(ValueError, match=r"add: 10+ does not fit into float32"):
        mg.ones(1, device=device) + 10**400
    assert (mg.ones(1, device=device) * 1e300).item() == np.inf


def test_elements_are_not_written_one_by_one():
    with pytest.raises(TypeError, match=r"use mg\.where\(condition, a, b\), or assign"):
        mg.ones(3)[0] = 1.0


def test_flags_and_shapes():
    with pytest.raises(TypeError, match="requires_grad takes True or False; got str 'sim'"):
        mg.tensor([1.0], "sim")
    with pytest.raises(ValueError, match=r"shape \(65536, 65536\) has 4294967296 elements; make it at most 2147482624"):
        mg.zeros(65536, 65536)
    with pytest.raises(TypeError, match="keepdims takes True or False"):
        mg.ones(2).sum(keepdims="no")
    for device in ("", 0, [], np.ones(2)):
        with pytest.raises(ValueError, match="does not exist; the devices are numpy, sim, cuda"):
            mg.tensor([1.0], device=device)


@pytest.mark.parametrize("seed", ["x", -1, 1.5, None])
def test_seeds_are_whole_numbers(seed):
    with pytest.raises((TypeError, ValueError), match=r"manual_seed: seed=.* must be a whole number of at least 0"):
        mg.manual_seed(seed)


@pytest.mark.parametrize("bound", [np.nan, np.inf, 10**400, None, "a"])
def test_uniform_wants_finite_bounds(bound):
    with pytest.raises((TypeError, ValueError), match=r"uniform: high=.* must be a finite number"):
        mg.uniform(0, bound, (2,))


def test_a_list_of_tensors_is_not_cut_off_the_tape_in_silence():
    x = mg.ones(1, requires_grad=True, device="numpy")
    with pytest.raises(TypeError, match=r"join them with mg\.concatenate"):
        mg.tensor([x * 2.0, x])
    assert mg.tensor([x.detach(), x.detach()]).shape == (2, 1)


# --- functions of NumPy ---

OF_NUMPY = {
    "a chain": lambda x: np.tanh(np.exp(x) * np.float64(0.5)) - np.sqrt(np.square(x)),
    "a choice": lambda x: np.where(x > 0, x, 0.25 * x),
    "numbers on the left": lambda x: np.float64(2) / np.maximum(x, 0.5) + np.float64(1) * x,
    "a sum": lambda x: np.sum(x * x, axis=-1),
    "a mean": lambda x: np.mean(np.log(x * x + 1)),
}


@pytest.mark.parametrize("fn", OF_NUMPY.values(), ids=OF_NUMPY)
def test_functions_of_numpy_are_ops_on_tensors_too(fn, device):
    host = np.random.default_rng(0).standard_normal((3, 5))
    x = mg.tensor(host, requires_grad=True, device=device)
    y, fused = fn(x), mg.fuse(fn)(z := mg.tensor(host, requires_grad=True, device=device))
    assert y.device == device and y.requires_grad
    for each in (y, fused):
        np.testing.assert_allclose(each.numpy(), fn(host), rtol=1e-12)
        each.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), z.grad.numpy(), rtol=1e-12)


def test_arrays_and_tensors_in_one_function_of_numpy(device):
    a, b = np.arange(6.0).reshape(2, 3), mg.tensor(np.arange(3.0), requires_grad=True, device=device)
    y = a @ b + np.add(a[:, 0], b[:2])
    y.sum().backward()
    assert y.numpy().tolist() == [5, 18] and b.grad.numpy().tolist() == [4, 6, 7]
    joined = np.concatenate([b, b])
    assert joined.requires_grad and joined.shape == (6,) and np.reshape(b, (3, 1)).device == device


def test_functions_that_are_no_ops_take_the_values(device):
    x = mg.tensor([3.0, 4.0], device=device)
    assert np.linalg.norm(x) == 5 and np.stack([x, x]).shape == (2, 2) and np.allclose(x, [3, 4])
    assert np.where(x > 3)[0].tolist() == [1] and np.sum(x, initial=1) == 8  # of these arguments there is no op
    with pytest.raises(TypeError, match=r"where takes \(cond, a, b\); got 1 arguments"):
        mg.fuse(lambda x: np.where(x > 3))
    with pytest.raises(TypeError, match=r"np\.sin of a tensor: no op has that name; there is add, .*np\.sin\(x\.numpy"):
        np.sin(x)
    with pytest.raises(TypeError, match=r"np\.add\.reduce of a tensor: no op"):
        np.add.reduce(x)
    host = np.ones(2, np.float32)
    with pytest.raises(TypeError, match=r"add takes \(a, b\); got 2 arguments, out"):
        host += x
