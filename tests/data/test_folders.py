"""Folders of images that the tests write with Pillow: colors, crops, order, and files that are no images."""

import numpy as np
import pytest

import minigrad as mg

Image = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(0)


def save(path, pixels, mode=None, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(np.asarray(pixels, np.uint8))
    (image.convert(mode) if mode else image).save(path, **options)
    return path


def pixels(*shape):
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def only(path, size=4, **options):
    """The image in the only file of its class, with channels last, in bytes."""
    images, labels = mg.data.image_folder(path.parents[1], size, **options)
    assert images.shape == (1, 3, size, size) and labels.tolist() == [0]
    return np.rint(np.moveaxis(images[0], 0, -1) * 255)


@pytest.mark.parametrize("ending", ["png", "PNG", "bmp", "ppm", "tif", "webp"])
def test_formats_without_loss_are_read_as_they_are(tmp_path, ending):
    given = pixels(4, 4, 3)
    path = save(tmp_path / f"cats/a.{ending}", given, **({"lossless": True} if ending == "webp" else {}))
    np.testing.assert_array_equal(only(path), given)


KINDS = [("a.jpg", None), ("a.jpeg", "L"), ("b.jpg", "CMYK"), ("a.gif", "P")]
KINDS += [("a.png", mode) for mode in ("P", "1", "LA", "RGBA")]


@pytest.mark.parametrize(("name", "mode"), KINDS)
def test_every_kind_of_color_becomes_rgb(tmp_path, name, mode):
    gray = np.repeat(np.repeat(np.array([[0, 255], [255, 0]], np.uint8), 8, 0), 8, 1)
    found = only(save(tmp_path / "cats" / name, np.stack([gray] * 3, -1), mode), 16)
    assert (
        abs(found - gray[..., None]).max() <= (60 if ".j" in name else 0) and abs(found - gray[..., None]).mean() < 10
    )


def test_sixteen_bits_keep_their_upper_eight(tmp_path):
    given = np.array([[0, 255, 256], [40000, 65535, 32768], [5, 512, 1024]], np.uint16)
    (tmp_path / "scans").mkdir()
    Image.fromarray(given).save(tmp_path / "scans/a.png")
    np.testing.assert_array_equal(only(tmp_path / "scans/a.png", 3)[..., 0], given >> 8)


def test_the_shorter_side_is_resized_and_the_middle_cut_out(tmp_path):
    wide = np.zeros((4, 10, 3), np.uint8)
    wide[:, 3:7] = pixels(4, 4, 3)
    np.testing.assert_array_equal(only(save(tmp_path / "wide/cats/a.png", wide)), wide[:, 3:7])
    tall = wide.transpose(1, 0, 2)
    np.testing.assert_array_equal(only(save(tmp_path / "tall/cats/a.png", tall)), tall[3:7])
    large = np.repeat(np.repeat(pixels(6, 6, 3), 3, 0), 3, 1)
    found = only(save(tmp_path / "large/cats/a.png", large), 4, resize=6)
    assert found.shape == (4, 4, 3)
    whole = Image.fromarray(large).resize((6, 6), Image.Resampling.BILINEAR)
    np.testing.assert_allclose(found[1:3, 1:3], np.asarray(whole)[2:4, 2:4], atol=1)
    assert only(save(tmp_path / "point/cats/a.png", pixels(1, 2, 3)), 5).shape == (5, 5, 3)


def test_a_photograph_is_turned_upright_as_its_camera_noted(tmp_path):
    given, note = pixels(4, 4, 3), Image.Exif()
    note[0x0112] = 6  # the camera was turned: rows are columns
    path = save(tmp_path / "cats/a.png", given, exif=note)
    np.testing.assert_array_equal(only(path), np.rot90(given, -1))


def test_a_large_photograph_is_decoded_smaller_and_looks_the_same(tmp_path):
    y, x = np.mgrid[0:1:480j, 0:1:640j]
    given, note = np.stack([255 * x, 255 * y, 255 * (1 - x)], -1), Image.Exif()
    note[0x0112] = 3  # upside down
    found = only(save(tmp_path / "cats/a.jpg", given, exif=note, quality=95), 24)
    whole = np.asarray(Image.fromarray(given.astype(np.uint8)[::-1, ::-1]).resize((32, 24), Image.Resampling.BILINEAR))
    np.testing.assert_allclose(found, whole[:, 4:28], atol=6)


def test_classes_are_folders_by_name_and_files_are_sorted(tmp_path):
    colors = {
        "dogs/b.png": 1,
        "dogs/a.png": 2,
        "cats/old/z.png": 3,
        "cats/a.png": 4,
        "ants/.hidden.png": 5,
        "ants/x.png": 6,
    }
    for name, value in colors.items():
        save(tmp_path / name, np.full((2, 2, 3), value))
    (tmp_path / ".cache").mkdir()
    (tmp_path / "labels.csv").write_text("belongs to no class")
    found = mg.data.image_folder(str(tmp_path), size=2)
    assert found.classes == ("ants", "cats", "dogs") and found.labels.tolist() == [0, 1, 1, 2, 2]
    assert np.rint(found.images[:][:, 0, 0, 0] * 255).tolist() == [6, 4, 3, 2, 1]
    assert len(found.images) == 5 and found.images[[4, 0]].shape == (2, 3, 2, 2) and found.images.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(found.images)[1:3], found.images[1:3])
    assert "classes=('ants', 'cats', 'dogs')" in repr(found.images)


def test_only_the_images_of_a_batch_are_decoded(tmp_path, device):
    for i in range(6):
        save(tmp_path / f"{'cats' if i < 3 else 'dogs'}/{i}.png", np.full((3, 3, 3), i))
    (tmp_path / "dogs/5.png").write_bytes(b"gone bad")
    found, seen = mg.data.image_folder(tmp_path, 3), []
    with pytest.raises(ValueError, match=r"dogs/5\.png cannot be read as an image"):
        for x, y in mg.data.Loader(*found, batch_size=1, device=device):
            assert x.shape == (1, 3, 3, 3) and x.device == device
            seen.append((round(x.numpy()[0, 0, 0, 0] * 255), y.numpy().tolist()))
    assert seen == [(0, [0]), (1, [0]), (2, [0]), (3, [1]), (4, [1])]
    x, _ = next(mg.data.batches(*found, size=5, device=device))
    assert x.shape == (5, 3, 3, 3)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_text("no image"), r"cats/a\.png cannot be read .*\(UnidentifiedImageError.* Fetch it"),
        (lambda path: path.write_bytes(b""), r"cats/a\.png cannot be read as an image"),
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), r"cats/a\.png cannot be read as an image \("),
        (lambda path: path.write_bytes(path.read_bytes()[:60]), r"cats/a\.png cannot be read as an image \("),
        (lambda path: path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n"), "UnidentifiedImageError"),
        (lambda path: Image.fromarray(np.ones((3, 3), np.float32)).save(path, "TIFF"), r"pixels of 32 bits, mode F"),
        (lambda path: path.unlink(), r"cats/a\.png cannot be read as an image \(FileNotFoundError"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_image_is_named_when_it_is_asked_for(tmp_path, damage, message):
    path = save(tmp_path / "cats/a.png", pixels(30, 30, 3))
    found = mg.data.image_folder(tmp_path, 4)
    damage(path)
    with pytest.raises(ValueError, match=message):
        found.images[0]


def test_what_a_folder_lacks_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no folder; it needs one for each class"):
        mg.data.image_folder(tmp_path)
    save(tmp_path / "cats/a.png", pixels(2, 2, 3))
    (tmp_path / "cats/notes.txt").write_text("cats")
    with pytest.raises(
        ValueError, match=r"cats/notes\.txt is no image by its name, which ends in none of \.bmp .*Move it out"
    ):
        mg.data.image_folder(tmp_path)
    (tmp_path / "cats/notes.txt").unlink()
    (tmp_path / "dogs").mkdir()
    with pytest.raises(
        FileNotFoundError, match=r"dogs holds no image\. Put the images of its class there, or remove it"
    ):
        mg.data.image_folder(tmp_path)
    (tmp_path / "dogs").rmdir()
    save(tmp_path / "b.jpg", pixels(2, 2, 3))
    with pytest.raises(ValueError, match=r"b\.jpg lies in no folder of a class\. Move it"):
        mg.data.image_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        mg.data.image_folder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="image_folder: size=0 must be"):
        mg.data.image_folder(tmp_path, 0)
    with pytest.raises(ValueError, match="image_folder: resize=200 must be a whole number of at least 224"):
        mg.data.image_folder(tmp_path, resize=200)


def test_without_pillow_a_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(ImportError, match=r"data\.image_folder needs Pillow: pip install 'minigrad-cuda\[data\]'"):
        mg.data.image_folder(tmp_path)
