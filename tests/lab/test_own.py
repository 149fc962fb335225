"""A reader's own kernels run as the op of their name for the time of a block, and everything is as before after it."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.guarded import guarded
from minigrad.lab import own, progress
from minigrad.lab.exercises.course import all_exercises
from minigrad.op import OPS
from minigrad.optim import SGD

CUDA = pytest.param("cuda", marks=pytest.mark.gpu)
EXERCISES = all_exercises()
NAMES = ("matmul_tile", "matmul_gradient", "weights_gradient", "softmax_row", "bias_backward", "sgd_step")
TEXTS = {
    f"{op.name} {kernel}": op[kernel].text
    for op, kernel in ((mg.relu, "forward"), (mg.relu, "backward"), (mg.transpose, "tiled"), (mg.matmul, "tiled"))
}
RELU = ("relu forward", "relu backward")


@pytest.fixture
def solved(tmp_path, monkeypatch):
    """Keeps solutions of exercises and texts of %%kernel as a reader's own, in a file of the test."""
    monkeypatch.setenv("MINIGRAD_PROGRESS", str(tmp_path / "progress.json"))

    def keep(*names, **kernels):
        for name in names:
            text = TEXTS.get(name) or EXERCISES[name].solution()
            kind, notebook = ("kernel", "01") if name in TEXTS else ("exercise", EXERCISES[name].notebook)
            assert progress.remember(kind, name, notebook, kernels.get(name, text)) == ""
        return mg.mine()

    return keep


@pytest.fixture(autouse=True)
def restored():
    """After each test every op and the update are the course's."""
    before = {name: (op.launch, op.launch_backward, op.kernels, op.fast) for name, op in OPS.items()}
    update = SGD._launch
    yield
    for name, op in OPS.items():
        launch, launch_backward, kernels, fast = before[name]
        assert (op.launch, op.launch_backward, dict(op.kernels), op.fast) == (launch, launch_backward, kernels, fast)
    assert SGD._launch is update


def train(steps=12, device="sim", dtype="float32"):
    """The losses of a small network."""
    mg.manual_seed(0)
    rng = np.random.default_rng(0)
    layers = (mg.nn.Linear(20, 12, device=device, dtype=dtype), mg.nn.Linear(12, 5, device=device, dtype=dtype))
    model = mg.nn.Sequential(layers[0], mg.relu, layers[1])
    optimizer = mg.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    losses = []
    for _ in range(steps):
        x = mg.tensor(rng.standard_normal((33, 20)), device=device, dtype=dtype)
        labels = mg.tensor(rng.integers(0, 5, 33), device=device)
        optimizer.zero_grad()
        loss = mg.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


@pytest.mark.parametrize("device", ["sim", CUDA])
def test_a_training_with_the_readers_kernels_agrees_with_the_courses(solved, device):
    course, mine = train(device=device), solved(*NAMES, *RELU, "transpose tiled")
    with mg.using(*mine) as taken:
        own_losses = train(device=device)
    assert np.abs(own_losses - course).max() < 1e-5 and course[-1] < course[0]
    assert (train(device=device) == course).all(), "afterwards the course's kernels run again, to the last bit"
    assert list(taken) == list(mine)
    products = {name: mine.launches[name] for name in ("matmul_tile", "matmul_gradient", "weights_gradient")}
    assert sum(products.values()) == 5 * 12, products
    assert products["weights_gradient"] >= 2 * 12, "it makes the gradients of weights without a transposed copy"
    assert mine.launches["transpose tiled"] == 2 * 12, "of the products forward alone"
    assert {name: mine.launches[name] for name in (*RELU, "softmax_row", "bias_backward", "sgd_step")} == {
        "relu forward": 12, "relu backward": 12, "softmax_row": 2 * 12, "bias_backward": 2 * 12, "sgd_step": 4 * 12,
    }  # fmt: skip


WRONG = {
    "relu forward": TEXTS["relu forward"].replace("? real(0) : x[i]", "? real(1) : x[i]"),
    "relu backward": TEXTS["relu backward"].replace("dy[i] : real(0)", "dy[i] : real(1)"),
}
for name in NAMES:  # the first wrong version that gives wrong numbers
    mistake = next(wrong for wrong in EXERCISES[name].wrong if wrong.kind == "value")
    WRONG[name] = mistake.edit(EXERCISES[name].solution())


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_of_the_readers_shows_in_the_losses(solved, name):
    """The losses above agree because these kernels are right, and not because others run."""
    with mg.using(*solved(name, **{name: WRONG[name]})):
        assert not np.abs(train(3) - train_by_numpy()).max() < 1e-3


def train_by_numpy():
    """The losses of the first three steps on the device `numpy`, where no kernel runs."""
    return train(3, "numpy")


def test_the_record_says_which_of_them_run_and_where_they_were_written(solved):
    mine = solved("matmul_tile", "sgd_step", "relu forward")
    rows = {row[1]: row for row in mine.table().rows}
    assert rows["matmul_tile"] == ("matmul", "matmul_tile", "06", "0", "")
    assert rows["relu forward"][::2] == ("relu", "01", "") and rows["sgd_step"][0] == "SGD"
    assert "everything else runs with the course's" in mine.table().caption
    assert "matmul," not in mine.table().caption and len(mine) == 3 and "<table" in mine._repr_html_()
    assert mine["matmul"].name == "matmul"
    with pytest.raises(KeyError, match="no kernel of add is yours; yours are matmul, "):
        mine["add"]


def in_float64(*shapes):
    """Inputs of an op, of awkward sizes."""
    rng = np.random.default_rng(len(shapes))
    return [rng.standard_normal(shape) for shape in shapes]


def convolved(x, w):
    """A convolution of one image of one channel."""
    return (np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3)) * w[0, 0]).sum((4, 5))


CALLS = {  # of each op that the kernel of an exercise can be: the arrays, the parameters, and NumPy's result
    "matmul": [(in_float64((9, 17), (17, 5)), {}, lambda a, b: a @ b)],
    "softmax": [(in_float64((7, 33)), {"axis": 1}, lambda x: mg.softmax.forward(x))],
    "sum": [
        (in_float64((33, 5)), {"axis": (0,), "keepdims": True}, lambda x: x.sum(0, keepdims=True)),
        (in_float64((3, 50)), {"axis": (0, 1), "keepdims": False}, lambda x: x.sum()),
    ],
    "add": [(in_float64((5, 7), (5, 7)), {}, lambda a, b: a + b)],
    "conv2d": [(in_float64((1, 1, 5, 7), (1, 1, 3, 2)), {}, lambda x, w: convolved(x, w))],
    "transpose": [(in_float64((5, 7)), {"axes": (1, 0)}, lambda x: x.T)],
}


@pytest.mark.parametrize("name", [name for name, each in EXERCISES.items() if own._as_op(name)])
def test_the_kernel_of_an_exercise_is_the_op_that_it_says(solved, name):
    """By its own kernel the op gives NumPy's result, and its gradient, in at least one kind of call."""
    ((mine,), ran) = solved(name), 0
    if mine.name == own.UPDATE:
        pytest.skip("an update is tried in the training above")
    for arrays, params, truth in CALLS[mine.name]:
        tensors = [mg.tensor(x, True, device="sim", dtype="float32") for x in arrays]
        with mg.using(mine):
            y = OPS[mine.name](*tensors, **params)
            (y * y).sum().backward()
        assert np.allclose(y.numpy(), truth(*arrays), atol=1e-4)
        course = [mg.tensor(x, True, device="numpy") for x in arrays]
        z = OPS[mine.name](*course, **params)
        (z * z).sum().backward()
        for one, other in zip(tensors, course, strict=True):
            assert np.allclose(one.grad.numpy(), other.grad.numpy(), atol=1e-3)
        ran += sum(each.launches for each in mine.kernels)
    assert ran, "it ran in none of the calls"


def test_without_own_kernels_the_course_runs(solved):
    course, mine = train(2), solved()
    assert "No kernel is yours yet" in repr(mine) and not mine.table().rows
    with mg.using(*mine):
        assert (train(2) == course).all()


def test_an_update_with_weight_decay_is_the_courses(solved):
    w = mg.ones(2, requires_grad=True, device="sim")
    w.grad = mg.ones(2, device="sim")
    mine, sgd = solved("sgd_step"), mg.optim.SGD([w], lr=0.5, weight_decay=0.5)
    with mg.using(*mine):
        sgd.step()
    assert w.numpy().tolist() == [0.25, 0.25] and "1: it has weight_decay" in repr(mine)


def test_a_call_that_a_kernel_cannot_do_is_the_courses_with_a_reason(solved):
    a, b = (mg.randn(2, 3, 3, device="sim") for _ in range(2))
    wide = mg.randn(4, 4, device="sim", dtype="float64")
    mine = solved("matmul_tile", "softmax_row", "sgd_step")
    with mg.using(*mine):
        assert np.allclose((a @ b).numpy(), a.numpy() @ b.numpy(), atol=1e-5)
        assert np.allclose((wide @ wide).numpy(), wide.numpy() @ wide.numpy())
        assert np.allclose(mg.softmax(a, axis=0).numpy().sum(axis=0), 1)
        train(1, dtype="float64")
    said = repr(mine)
    assert "1: it is no product of two matrices" in said and "its numbers are no float32" in said
    assert "1: it is not along the rows of a matrix" in said
    assert set(mine.launches.values()) == {0}


def test_every_way_to_call_an_op_takes_the_readers_kernel(solved):
    mine = solved("matmul_tile", "relu forward")
    x = mg.tensor(np.eye(3, dtype="float32"), device="sim")
    with mg.using(*mine):
        _ = x @ x, mg.matmul(x, x), OPS["matmul"](x, x), np.matmul(x, x), x.relu(), mg.nn.Sequential(mg.relu)(x)
    assert mine.launches == {"matmul_tile": 4, "relu forward": 2}
    _ = x @ x
    assert mine.launches["matmul_tile"] == 4


def test_the_loss_goes_through_the_readers_softmax_for_every_reduction(solved):
    mine = solved("softmax_row")
    logits = mg.tensor(np.random.default_rng(1).standard_normal((9, 4)).astype("float32"), True, device="sim")
    labels = mg.tensor(np.arange(9) % 4, device="sim")
    for reduction, smoothing in (("mean", 0.0), ("sum", 0.2), ("none", 0.0)):
        found = []
        for block in ((), mine):
            logits.grad = None
            with mg.using(*block):
                loss = mg.cross_entropy(logits, labels, reduction, smoothing)
                loss.backward(mg.ones(9, device="sim") if reduction == "none" else None)
            found.append((loss.numpy(), logits.grad.numpy()))
        assert all(np.allclose(*pair, atol=1e-6) for pair in zip(*found, strict=True)), reduction
    assert mine.launches == {"softmax_row": 6}


def test_a_label_that_is_no_class_gives_nan_and_reads_nothing_else():
    device = guarded("sim")
    from minigrad.devices.array import Array

    p = Array.upload(device, np.full((2, 3), 1 / 3, np.float32))
    labels, dy = Array.upload(device, np.array([7, 1])), Array.upload(device, np.ones((), np.float32))
    losses, dx = Array.empty(device, (2,), np.dtype("float32")), Array.empty(device, (2, 3), np.dtype("float32"))
    own.OF_SOFTMAX.launch(2)(p, labels, losses, 2, 3, 0.0)
    own.OF_SOFTMAX_BACKWARD.launch(6)(dy, p, labels, dx, 6, 3, 0.0, 0, 2)
    assert np.isnan(losses.numpy()).tolist() == [True, False] and losses.numpy()[1] == np.float32(np.log(3))
    assert np.isnan(dx.numpy()[0]).all() and np.allclose(dx.numpy()[1], np.array([1, -2, 1]) / 6)


def test_all_is_as_before_after_an_error_and_in_nested_blocks(solved):
    tile, x = solved("matmul_tile"), mg.tensor(np.eye(3, dtype="float32"), device="sim")
    with pytest.raises(ZeroDivisionError), mg.using(*tile):
        1 / 0  # noqa: B018
    assert mg.matmul.launch.__module__ == "minigrad.ops.matmul"
    naive = mg.matmul.using("naive")
    with mg.using(*tile):
        with mg.using(naive):
            _ = x @ x
            assert mg.matmul.running["forward"].name == "matmul_naive" and tile.launches == {"matmul_tile": 0}
        _ = x @ x
        assert tile.launches == {"matmul_tile": 1}


def test_blocks_that_overlap_end_in_any_order(solved):
    """As two generators or threads do: the first that ends leaves the other's kernels, and the last leaves none."""
    tile, step = solved("matmul_tile"), solved("sgd_step")
    naive, x = mg.matmul.using("naive"), mg.tensor(np.eye(3, dtype="float32"), device="sim")
    first, second = mg.using(*tile), mg.using(naive, step["SGD"])
    course = mg.matmul.launch, SGD._launch
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    _ = x @ x
    assert mg.matmul.running["forward"].name == "matmul_naive" and tile.launches == {"matmul_tile": 0}
    assert SGD._launch is not course[1]
    second.__exit__(None, None, None)
    assert (mg.matmul.launch, SGD._launch) == course and not own._ACTIVE


def test_a_variant_that_is_named_in_a_block_is_the_courses(solved):
    tile, x = solved("matmul_tile"), mg.tensor(np.eye(3, dtype="float32"), device="sim")
    with mg.using(*tile):
        tiled = mg.matmul.using("tiled")
        _ = tiled(x, x)
    _ = tiled(x, x)
    assert tile.launches == {"matmul_tile": 0}
    with mg.using(tiled):
        _ = x @ x
    assert tile.launches == {"matmul_tile": 0}


def test_kernels_of_this_session_are_taken_as_the_magics_leave_them():
    from minigrad.lab.check.attempt import ReaderKernel

    kernel = ReaderKernel(EXERCISES["matmul_tile"].kernel, EXERCISES["matmul_tile"].solution())
    relu = own.OpTrial(mg.relu, "forward").through(ReaderKernel(mg.relu["forward"], TEXTS["relu forward"]))
    x = mg.tensor(np.eye(3, dtype="float32"), device="sim")
    relu(x)
    with mg.using(kernel, relu) as taken:
        _ = (x @ x).relu()
    assert taken.launches == {"matmul_tile": 1, "relu forward": 1}, "not those before the block"


def test_what_cannot_be_taken_is_answered():
    with pytest.raises(TypeError, match=r"using takes ops and kernels of your own, .*got 3"), mg.using(3):
        pass
    two = mg.relu.using(BLOCK=64), mg.relu.using(BLOCK=128)
    with pytest.raises(ValueError, match=r"two of them are relu; name one"), mg.using(*two):
        pass


def test_of_several_products_the_one_with_the_fewest_copies_runs_and_then_the_newest(solved):
    x = mg.tensor(np.eye(9, dtype="float32"), device="sim")

    def runs(mine):
        with mg.using(*mine):
            _ = x @ x
        return {name: count for name, count in mine.launches.items() if count}

    assert runs(solved("matmul_gradient")) == {"matmul_gradient": 1}, "of a transposed copy of b"
    assert runs(solved("register_tile")) == {"register_tile": 1}, "no copy is needed"
    assert runs(solved("matmul tiled")) == {"matmul tiled": 1}, "newer than register_tile"
    assert runs(solved("register_tile")) == {"register_tile": 1}, "solved anew, so it is the newest again"


def test_a_sum_takes_the_kernel_that_fits(solved):
    mine = solved("bias_backward", "any_block_sum", "add_bounds")
    x = mg.randn(5, 7, device="sim")
    with mg.using(*mine):
        found = x.sum(axis=0), x.sum(axis=0, keepdims=True), x.sum(), x.sum(axis=1), x + x
    values = x.numpy()
    truth = values.sum(0), values.sum(0, keepdims=True), values.sum(), values.sum(1), values + values
    for got, wanted in zip(found, truth, strict=True):
        assert got.shape == wanted.shape and np.allclose(got.numpy(), wanted, atol=1e-5)
    assert mine.launches == {"bias_backward": 2, "any_block_sum": 1, "add_bounds": 1}


def test_a_text_that_no_longer_fits_the_course_is_left_out_with_a_sentence(solved):
    old = 'extern "C" __global__ void matmul_tile(const float* a) {}'
    mine = solved("matmul_tile", "relu forward", matmul_tile=old)
    assert [each.name for each in mine] == ["relu"]
    assert "matmul_tile of 2" in mine.note and "must take (const float* a, const float* b" in mine.note
    progress.remember("kernel", "matmul gone", "", "text")
    assert "cannot be used: " in mg.mine().note


def test_replayed_launches_are_dropped_at_both_ends(solved, repeating):
    """Where launches are recorded and replayed, as on a GPU, a block replays none of the course's and leaves none."""
    from minigrad.devices.array import Array
    from minigrad.tensor import Tensor

    mine, one = solved("matmul_tile", "relu forward"), np.eye(3, dtype=np.float32)
    x = Tensor(Array.upload(repeating, one))
    for _ in range(2):
        _ = (x @ x).relu()
    with mg.using(*mine):
        for _ in range(3):
            y = (x @ x).relu()
    assert mine.launches == {"matmul_tile": 3, "relu forward": 3} and (y.numpy() == one).all()
    before = repeating.single
    _ = (x @ x).relu()
    assert mine.launches["matmul_tile"] == 3 and repeating.single == before, "replayed again"


@pytest.mark.parametrize("device", ["sim", CUDA])
def test_a_graph_that_is_captured_in_a_block_has_the_readers_kernels(solved, device):
    mine, x = solved("matmul_tile", "relu forward"), mg.tensor(np.eye(3, dtype=np.float32), device=device)
    with mg.using(*mine):
        step = mg.graph(lambda: (x @ x).relu())
        for _ in range(4):
            assert (step().numpy() == np.eye(3)).all()
    assert mine.launches == {"matmul_tile": 4, "relu forward": 4}
