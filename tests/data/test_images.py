import struct
import zlib

import numpy as np
import pyarrow
import pytest
from PIL import Image

from hardpan.data import images as reader
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
    with pytest.raises(InputError, match=r"1\.png"):
        Dataset.open(tmp_path)


def test_what_file_managers_leave_behind_is_passed_over(tmp_path):
    saved(tmp_path, "a/1.png", picture())
    for name in (".DS_Store", "a/.hidden", "a/Thumbs.db", "desktop.ini"):
        (tmp_path / name).write_bytes(b"x")
    assert len(Dataset.open(tmp_path)) == 1


def test_several_sizes_are_resized_and_the_size_is_stated(tmp_path):
    saved(tmp_path, "a/1.png", picture(size=(40, 30)))
    saved(tmp_path, "a/2.png", picture(size=(40, 30)))
    saved(tmp_path, "b/3.png", Image.new("RGB", (50, 70), (9, 8, 7)))
    dataset = Dataset.open(tmp_path)
    assert dataset.x.shape == (3, 30, 30, 3)  # the median of the shorter sides 30, 30, 50
    assert [warning.code for warning in dataset.warnings] == ["resized"]
    assert "30 × 30" in dataset.warnings[0].message
    np.testing.assert_array_equal(dataset.x[2], np.broadcast_to([9, 8, 7], (30, 30, 3)))
    chosen = Dataset.open(tmp_path, resize=16)
    assert chosen.x.shape == (3, 16, 16, 3)
    assert chosen.warnings == ()


def test_many_pixels_are_kept_on_the_disk(tmp_path, monkeypatch):
    for number in range(6):
        saved(tmp_path, f"{'ab'[number % 2]}/{number}.png", picture())
    kept = Dataset.open(tmp_path)
    monkeypatch.setattr(reader, "IN_MEMORY", kept.x.nbytes - 1)
    mapped = Dataset.open(tmp_path)
    assert isinstance(mapped.x, np.memmap)
    assert not isinstance(kept.x, np.memmap)
    np.testing.assert_array_equal(mapped.x, kept.x)
    assert mapped.ids.tolist() == kept.ids.tolist()
    assert mapped.metadata["path"].tolist() == kept.metadata["path"].tolist()


def test_large_images_of_several_sizes_become_64_pixels(tmp_path):
    saved(tmp_path, "a/1.png", picture(size=(300, 200)))
    saved(tmp_path, "b/1.png", picture(size=(200, 400)))
    assert Dataset.open(tmp_path).x.shape == (2, 64, 64, 3)


@pytest.mark.parametrize("resize", [0, -3, 5000, 2.5, "32", True])
def test_resize_is_a_number_of_pixels(tmp_path, resize):
    saved(tmp_path, "a/1.png", picture())
    with pytest.raises(InputError, match="resize"):
        Dataset.open(tmp_path, resize=resize)


def test_the_orientation_of_a_camera_is_followed(tmp_path):
    pixels = RNG.integers(0, 256, (3, 4), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees clockwise
    saved(tmp_path, "a/1.png", Image.fromarray(pixels), exif=exif)
    saved(tmp_path, "a/2.png", Image.fromarray(np.rot90(pixels, -1).copy()))
    x = Dataset.open(tmp_path).x
    np.testing.assert_array_equal(x[0], x[1])
    np.testing.assert_array_equal(x[0], np.rot90(pixels, -1))


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
    with pytest.raises(InputError, match=r"bomb\.png"):
        Dataset.open(tmp_path)


def test_an_image_just_below_the_limit_is_decoded_or_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MOST_PIXELS", 12)
    saved(tmp_path, "a/1.png", picture(size=(4, 3)))
    assert len(Dataset.open(tmp_path)) == 1
    saved(tmp_path, "a/1.png", picture(size=(13, 1)))
    with pytest.raises(InputError, match=r"1\.png"):
        Dataset.open(tmp_path)


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"hello", b"%!PS-Adobe-3.0 EPSF-3.0\n"])
def test_a_broken_file_is_named_and_the_rest_is_read(tmp_path, content):
    for name in "13":
        saved(tmp_path, f"a/{name}.png", picture())
    (tmp_path / "a" / "2.png").write_bytes(content)
    (tmp_path / "a" / "more").mkdir()
    dataset = Dataset.open(tmp_path)
    assert dataset.metadata["path"].tolist() == ["a/1.png", "a/3.png"]
    assert [item.code for item in dataset.warnings] == ["unreadable_images", "ignored_files"]
    assert "a/2.png" in dataset.warnings[0].message
    assert "a/more" in dataset.warnings[1].message


def test_rows_of_a_table_whose_image_is_broken_are_left_out(tmp_path):
    cells = [saved(tmp_path, f"{name}.png", picture()).read_bytes() for name in "abcd"]
    cells[1] = cells[1][:40]
    columns = {
        "image": cells,
        "label": [0, 1, 1, 0],
        "id": list("wxyz"),
        "split": ["train", "test", "test", "train"],
    }
    dataset = Dataset.open(pyarrow.table(columns))
    assert dataset.ids.tolist() == ["w", "y", "z"]
    assert dataset.labels.tolist() == [0, 1, 0]
    assert dataset.split.tolist() == ["train", "test", "train"]
    assert dataset.metadata["row"].tolist() == [0, 2, 3]
    assert [item.code for item in dataset.warnings] == ["unreadable_images"]


def test_a_changed_pixel_of_a_png_is_seen(tmp_path):
    path = saved(tmp_path, "a/1.png", picture())
    content = bytearray(path.read_bytes())
    content[content.index(b"IDAT") + 10] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"1\.png"):
        Dataset.open(tmp_path)


def test_sixteen_bits_and_several_frames_are_refused(tmp_path):
    path = saved(tmp_path, "a/1.png", Image.fromarray(np.zeros((3, 4), dtype=np.uint16)))
    with pytest.raises(InputError, match=r"1\.png"):
        Dataset.open(tmp_path)
    path.unlink()
    frames = [Image.new("L", (4, 3), shade) for shade in (0, 100, 200)]
    saved(tmp_path, "a/1.gif", frames[0], save_all=True, append_images=frames[1:])
    with pytest.raises(InputError, match=r"1\.gif"):
        Dataset.open(tmp_path)


def test_validation_folders_are_splits(tmp_path):
    for name in ("train/a/1.png", "test/a/1.png", "val/a/1.png"):
        saved(tmp_path, name, picture())
    assert Dataset.open(tmp_path).split.tolist() == ["train", "validation", "test"]


def test_without_a_test_folder_the_validation_set_is_the_test_set(tmp_path):
    for name in ("train/a/1.png", "val/a/1.png"):
        saved(tmp_path, name, picture())
    assert Dataset.open(tmp_path).split.tolist() == ["train", "test"]


@pytest.mark.parametrize(
    ("names", "named"),
    [
        ((), "CLASS"),
        (("1.png",), r"1\.png"),
        (("train/a/1.png", "test/b/1.png"), "'b'"),
        (("train/a/1.png", "test/a/1.png", "extra/1.png"), "extra"),
        (("train/a/1.png", "test/.keep.png"), "test"),
        (("a/b/1.png",), "a/b"),
    ],
)
def test_another_layout_is_refused(tmp_path, names, named):
    for name in names:
        saved(tmp_path, name, picture())
    with pytest.raises(InputError, match=named):
        Dataset.open(tmp_path)
