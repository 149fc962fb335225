"""Weights in files: those of torchvision's ResNet-18 by name and shape, and files that do not fit."""

import json
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.nn import checkpoint

KINDS = ["npz", "safetensors"]


@pytest.fixture(scope="module")
def torchvisions():
    """The 122 arrays of torchvision's resnet18, random numbers of small size."""
    rng, state = np.random.default_rng(0), {}

    def weight(name, *shape):
        state[f"{name}.weight"] = rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(np.prod(shape[1:])))

    def norm(name, channels):
        state.update(
            {f"{name}.{part}": rng.random(channels, np.float32) for part in ("weight", "bias", "running_mean")}
        )
        state[f"{name}.running_var"] = 1 + rng.random(channels, np.float32)
        state[f"{name}.num_batches_tracked"] = np.array(7)

    weight("conv1", 64, 3, 7, 7)
    norm("bn1", 64)
    inputs = 64
    for layer, width in enumerate((64, 128, 256, 512), 1):
        for at in (f"layer{layer}.0", f"layer{layer}.1"):
            for i, channels in ((1, inputs), (2, width)):
                weight(f"{at}.conv{i}", width, channels, 3, 3)
                norm(f"{at}.bn{i}", width)
            if width != inputs:
                weight(f"{at}.downsample.0", width, inputs, 1, 1)
                norm(f"{at}.downsample.1", width)
            inputs = width
    weight("fc", 1000, 512)
    return {**state, "fc.bias": rng.random(1000, np.float32)}


@pytest.fixture(scope="module")
def resnet():
    return nn.resnet18(device="numpy").eval()


def write(path, state):
    """By the libraries, not by mg.save."""
    if path.suffix == ".npz":
        np.savez(path, **state)
    else:
        pytest.importorskip("safetensors.numpy").save_file(state, path)


@pytest.mark.parametrize(("kind", "names"), [("npz", 122), ("safetensors", 102)])
def test_a_file_of_torchvisions_names_and_shapes_is_loaded(kind, names, tmp_path, torchvisions, resnet):
    state = {name: x for name, x in torchvisions.items() if x.ndim or names == 122}
    write(path := tmp_path / f"resnet18.{kind}", state)
    resnet.bn1.num_batches_tracked.assign(np.array(3))
    assert len(state) == len(mg.load(path, resnet)) == names
    own = resnet.state_dict()
    assert {name: x.shape for name, x in own.items()} == {name: x.shape for name, x in torchvisions.items()}
    for name, value in state.items():
        np.testing.assert_array_equal(own[name], value, err_msg=name)
    assert int(own["bn1.num_batches_tracked"]) == (7 if names == 122 else 3)


def test_the_last_layer_multiplies_as_torchs_does(torchvisions, resnet):
    """fc.weight is (outputs, inputs) in the file and (inputs, outputs) in the layer."""
    resnet.load_state_dict(torchvisions)
    x = np.random.default_rng(1).standard_normal((3, 512), np.float32)
    wanted = x @ torchvisions["fc.weight"].T + torchvisions["fc.bias"]
    np.testing.assert_allclose(resnet.fc(mg.tensor(x, device="numpy")).numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_the_logits_are_those_of_torchvision(device, tmp_path):
    """Weights, running statistics and images are random; the error is relative to the largest logit."""
    torch, torchvision = pytest.importorskip("torch"), pytest.importorskip("torchvision")
    theirs = torchvision.models.resnet18(weights=None).eval()
    rng = np.random.default_rng(0)
    for name, x in theirs.state_dict().items():
        if "running" in name:
            x.copy_(torch.tensor(rng.uniform(0.5, 1.5, x.shape)))
    torch.save(theirs.state_dict(), tmp_path / "resnet18.pth")
    model = nn.resnet18(device=device).eval()
    mg.load(tmp_path / "resnet18.pth", model)
    images = rng.standard_normal((2, 3, 64, 97)).astype(np.float32)
    with torch.no_grad():
        wanted = theirs.double()(torch.tensor(images).double()).numpy()
    error = np.abs(model(mg.tensor(images, device=device)).numpy() - wanted).max() / np.abs(wanted).max()
    assert error < 5e-6
    mg.save(tmp_path / "back.npz", model)
    back = {name: torch.tensor(x) for name, x in mg.load(tmp_path / "back.npz").items()}
    torchvision.models.resnet18(weights=None).load_state_dict(back)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_is_loaded_in_shape_dtype_and_value(kind, device, tmp_path):
    if kind == "safetensors":
        pytest.importorskip("safetensors")
    model = nn.Sequential(nn.Linear(2, 3, device=device), nn.BatchNorm2d(3, device=device, dtype="float64"))
    path = tmp_path / f"model.{kind}"
    mg.save(path, model)
    loaded, state = mg.load(path), model.state_dict()
    assert loaded["0.weight"].shape == (3, 2) and loaded["1.num_batches_tracked"].shape == ()
    for name, value in state.items():
        np.testing.assert_array_equal(loaded[name], value, strict=True)
    np.testing.assert_array_equal(loaded["0.weight"], model.parts[0].weight.numpy().T)
    others = {"file": np.arange(6, dtype=np.uint64).reshape(2, 3).T, "none": np.zeros((0, 2)), "yes": np.array(True)}
    mg.save(path, others)
    for name, value in mg.load(path).items():
        np.testing.assert_array_equal(value, others[name], strict=True)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_is_stored_as_float32(kind, tmp_path):
    ml_dtypes, _ = pytest.importorskip("ml_dtypes"), pytest.importorskip("safetensors")
    x = np.array([1.5, -3e38, 0.1], ml_dtypes.bfloat16)
    mg.save(tmp_path / f"x.{kind}", {"x": x})
    np.testing.assert_array_equal(mg.load(tmp_path / f"x.{kind}")["x"], x.astype(np.float32), strict=True)
    header = json.dumps({"x": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}).encode()
    (tmp_path / "theirs.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + x.tobytes())
    np.testing.assert_array_equal(mg.load(tmp_path / "theirs.safetensors")["x"], x.astype(np.float32), strict=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fc.weight": np.zeros((512, 10), np.float32)}, r"fc\.weight is \(512, 10\); it must be \(10, 512\)"),
        ({"fc.weight": None}, r"missing: fc\.weight; unexpected: none"),
        ({"head.weight": np.zeros(3), "bn1.bias": None}, r"missing: bn1\.bias; unexpected: head\.weight"),
        ({"bn1.running_var": None}, r"missing: bn1\.running_var"),
        ({f"x{i}": np.zeros(1) for i in range(9)}, r"unexpected: x0, x1, x2, x3, x4 and 4 more"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(change, message):
    model = nn.ResNet(10, "small", 1, (8, 512), 1, device="numpy")
    before = model.state_dict()
    state = {name: x for name, x in ({name: x + 1 for name, x in before.items()} | change).items() if x is not None}
    with pytest.raises((KeyError, ValueError), match=message):
        model.load_state_dict(state)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_refused(kind, tmp_path):
    pytest.importorskip("safetensors")
    path = tmp_path / f"a.{kind}"
    mg.save(path, {"a": np.arange(9.0)})
    whole = path.read_bytes()
    for content in (b"", b"no file of arrays", whole[: len(whole) // 2], whole[:-1]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"load: .*a\.{kind} is damaged, or no \.{kind} of arrays by name"):
            mg.load(path)


def test_nothing_is_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.array([{}], object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        mg.load(tmp_path / "a.npz")
    with pytest.raises(TypeError, match="save: a: cannot make numbers of"):
        mg.save(tmp_path / "a.npz", {"a": np.array([{}], object)})


def test_other_kinds_of_files_are_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"save: a\.bin must end in \.npz, \.safetensors, which says"):
        mg.save(tmp_path / "a.bin", {})
    with pytest.raises(ValueError, match=r"save: a\.pth must end in"):
        mg.save(tmp_path / "a.pth", {})
    with pytest.raises(ValueError, match=r"load: a must end in \.npz, \.pt, \.pth, \.safetensors"):
        mg.load(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        mg.load(tmp_path / "a.npz")
    with pytest.raises(TypeError, match="save takes a module or arrays by name; got int 3"):
        mg.save(tmp_path / "a.npz", 3)
    for name, package in (("a.safetensors", "safetensors"), ("a.pth", "torch")):
        (tmp_path / name).write_bytes(b"")
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ImportError, match=f"needs {package}: pip install {package}"):
            mg.load(tmp_path / name)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    mg.save(path, {"a": np.ones(3)})
    before = path.read_bytes()

    def fails(arrays):
        raise OSError(", ".join(arrays))

    monkeypatch.setitem(checkpoint.WRITERS, ".npz", fails)
    with pytest.raises(OSError, match="b"):
        mg.save(path, {"b": np.ones(3)})
    monkeypatch.undo()

    def full(source, target):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="disk full"):
        mg.save(path, {"b": np.ones(3)})
    assert path.read_bytes() == before and [*tmp_path.iterdir()] == [path]
