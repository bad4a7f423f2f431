import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from hardpan.data import folder as reader
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError

RNG = np.random.default_rng(0)


def picture(mode="RGB", size=(4, 3)):
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    return Image.fromarray(RNG.integers(0, 256, shape, dtype=np.uint8))


def saved(root, name, image, **options):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)
    return path


@pytest.mark.parametrize("ending", ["bmp", "gif", "tiff", "webp", "ppm"])
def test_lossless_formats_give_the_pixels(tmp_path, ending):
    image = Image.new("RGB", (4, 3), (10, 200, 30))
    saved(tmp_path, f"a/1.{ending}", image, **({"lossless": True} if ending == "webp" else {}))
    np.testing.assert_array_equal(Dataset.open(tmp_path).x[0], np.asarray(image))


def test_a_jpeg_is_what_pillow_decodes(tmp_path):
    path = saved(tmp_path, "a/1.jpg", picture())
    with Image.open(path) as image:
        np.testing.assert_array_equal(Dataset.open(tmp_path).x[0], np.asarray(image))


def test_classes_and_rows_are_in_the_order_of_names(tmp_path):
    images = {name: picture("L") for name in ("b/2.png", "b/1.png", "a/9.png")}
    for name, image in images.items():
        saved(tmp_path, name, image)
    dataset = Dataset.open(tmp_path)
    assert dataset.class_names == ("a", "b")
    assert dataset.metadata["path"].tolist() == ["a/9.png", "b/1.png", "b/2.png"]
    assert dataset.labels.tolist() == [0, 1, 1]
    np.testing.assert_array_equal(
        dataset.x, [np.asarray(images[name]) for name in ("a/9.png", "b/1.png", "b/2.png")]
    )


def test_grey_among_colour_becomes_colour(tmp_path):
    grey = picture("L")
    saved(tmp_path, "a/1.png", grey)
    saved(tmp_path, "a/2.png", picture())
    x = Dataset.open(tmp_path).x
    assert x.shape == (2, 3, 4, 3)
    np.testing.assert_array_equal(x[0], np.repeat(np.asarray(grey)[..., None], 3, axis=2))


def test_opaque_alpha_is_dropped_and_transparent_refused(tmp_path):
    image = picture()
    image.putalpha(255)
    saved(tmp_path, "a/1.png", image)
    np.testing.assert_array_equal(Dataset.open(tmp_path).x[0], np.asarray(image)[..., :3])
    image.putalpha(254)
    saved(tmp_path, "a/1.png", image)
    with pytest.raises(InputError, match=r"1\.png: has transparent pixels"):
        Dataset.open(tmp_path)


def test_what_file_managers_leave_behind_is_passed_over(tmp_path):
    saved(tmp_path, "a/1.png", picture())
    for name in (".DS_Store", "a/.hidden", "a/Thumbs.db", "desktop.ini"):
        (tmp_path / name).write_bytes(b"x")
    assert len(Dataset.open(tmp_path)) == 1


def test_sizes_that_differ_are_named(tmp_path):
    saved(tmp_path, "a/1.png", picture())
    saved(tmp_path, "a/2.png", picture())
    saved(tmp_path, "b/3.png", picture(size=(5, 5)))
    with pytest.raises(InputError, match=r"one size; got 4×3 \(2, such as a/1.png\), 5×5 \(1, such as b/3.png\)"):
        Dataset.open(tmp_path)


def bomb(width, height):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    packed = zlib.compress(bytes(10**6))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


@pytest.mark.parametrize("sides", [(8000, 8000), (10_000, 10_000), (100_000, 100_000), (2**31 - 1, 2**31 - 1)])
def test_a_decompression_bomb_is_refused(tmp_path, sides):
    path = tmp_path / "a" / "bomb.png"
    path.parent.mkdir()
    path.write_bytes(bomb(*sides))
    with pytest.raises(InputError, match=r"bomb\.png: (claims|is broken)"):
        Dataset.open(tmp_path)


def test_an_image_just_below_the_limit_is_decoded_or_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MOST_PIXELS", 12)
    saved(tmp_path, "a/1.png", picture(size=(4, 3)))
    assert len(Dataset.open(tmp_path)) == 1
    saved(tmp_path, "a/1.png", picture(size=(13, 1)))
    with pytest.raises(InputError, match="claims 13×1 pixels, more than 12"):
        Dataset.open(tmp_path)


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"hello", b"%!PS-Adobe-3.0 EPSF-3.0\n"])
def test_a_broken_file_is_named(tmp_path, content):
    saved(tmp_path, "a/1.png", picture())
    (tmp_path / "a" / "2.png").write_bytes(content)
    with pytest.raises(InputError, match=r"2\.png: is"):
        Dataset.open(tmp_path)


def test_a_changed_pixel_of_a_png_is_seen(tmp_path):
    path = saved(tmp_path, "a/1.png", picture())
    content = bytearray(path.read_bytes())
    content[content.index(b"IDAT") + 10] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"1\.png: is broken"):
        Dataset.open(tmp_path)


def test_sixteen_bits_and_several_frames_are_refused(tmp_path):
    path = saved(tmp_path, "a/1.png", Image.fromarray(np.zeros((3, 4), dtype=np.uint16)))
    with pytest.raises(InputError, match="8 bits a channel"):
        Dataset.open(tmp_path)
    path.unlink()
    frames = [Image.new("L", (4, 3), shade) for shade in (0, 100, 200)]
    saved(tmp_path, "a/1.gif", frames[0], save_all=True, append_images=frames[1:])
    with pytest.raises(InputError, match="several frames"):
        Dataset.open(tmp_path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "holds no images"),
        (("1.png",), r"1\.png: lies where a class folder is expected"),
        (("train/a/1.png", "test/b/1.png"), "test has class 'b', which train has not"),
        (("train/a/1.png", "test/a/1.png", "val/a/1.png"), "holds val beside train or test"),
        (("train/a/1.png", "valid/a/1.png"), "holds valid beside train or test"),
        (("train/a/1.png", "test/a/1.png", "extra/1.png"), "holds extra beside train and test"),
        (("train/a/1.png", "test/.keep.png"), "test: holds no images"),
        (("a/b/1.png",), "is no file; a class folder holds images only"),
    ],
)
def test_a_layout_that_is_none_is_refused(tmp_path, names, message):
    for name in names:
        saved(tmp_path, name, picture())
    with pytest.raises(InputError, match=message):
        Dataset.open(tmp_path)
