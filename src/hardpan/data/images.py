"""Images in folders, ``CLASS/picture.png`` or ``train/CLASS/...`` beside ``test/CLASS/...``, and in columns of
bytes.

The class is the folder's name; classes are numbered in the order of their names. Images are turned as their EXIF
orientation says. Grey images give (N, H, W), colour (N, H, W, 3), a mixture colour. Images of several sizes are
resized: the shorter side to S, then the centre S × S; S is ``resize``, or the median shorter side but at most 64;
the metadata has the ``width`` and ``height`` of each.
Files that cannot be read as images are left out, and one warning lists them; more than half of them are refused.
"""

from __future__ import annotations

import functools
import io
import os
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hardpan import files
from hardpan.arguments import whole_number
from hardpan.data.dataset import SPLIT_WORDS, SPLITS, Dataset, DataWarning, content_ids
from hardpan.errors import InputError, few, reason
from hardpan.files import check_reading_memory, folder_entries

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
MOST_PIXELS = 50_000_000
DEFAULT_SIDE = 64
LARGEST_THUMBNAIL = 64  # pixels a side
DARKEST_QUARTER = 64
CHANNELS = (1, 3, 4)
IN_MEMORY = 2**30  # bytes of pixels that are kept in memory; more are kept in a temporary file
_IGNORED = {"thumbs.db", "desktop.ini", "__macosx"}
_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
_GREY = ("1", "L")
_COLOUR = ("RGB", "P", "CMYK", "YCbCr")
_WITH_ALPHA = ("RGBA", "LA", "PA")
_ORIENTATION = 0x0112
_BLOCK = 4096  # images at a time, so that a large set is never held as floats


def read_image_folder(path: Path, *, resize: int | None = None) -> Dataset:
    """Read a folder of images.

    All headers are read first: images too large to be true are refused before a pixel is decoded. Files are read
    one after another; beyond 1 GiB the pixels go to a temporary file (``TMPDIR`` says where), of which the system
    keeps in memory what is in use. The file of each row is the metadata column ``path``.
    """
    ignored: list[str] = []
    pictures, official = class_folder_files(path, ignored)
    files, splits, classes = zip(*pictures, strict=True)
    relative = np.array([os.path.relpath(file, path).replace(os.sep, "/") for file in files])
    x, decoded, sizes, notes = decoded_images(files, str(path), resize, names=relative)
    if ignored:
        notes += (
            DataWarning(f"what is beside class folders or images was ignored: {few(ignored)}", "ignored_files"),
        )
    class_names, labels = np.unique(classes, return_inverse=True)
    name = path.resolve().name
    return Dataset(
        name,
        x,
        content_ids(x),
        labels[decoded].astype(np.int64),
        tuple(class_names.tolist()),
        np.array(splits)[decoded] if official else None,
        metadata={"path": relative[decoded]} | sizes,
        source=name,
        warnings=notes,
    )


def decoded_images(
    pictures: Sequence[str | bytes],
    where: str,
    resize: int | None = None,
    *,
    names: Sequence[str] | NDArray[np.str_] | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.int64], dict[str, NDArray[np.int64]], tuple[DataWarning, ...]]:
    """Pictures as one array of uint8, (N, H, W) or (N, H, W, 3), and the rows of those that could be read.

    The third result has the width and the height of each of these by name, where pictures have several sizes.

    Args:
        pictures: files, or the bytes of files.
        where: what to call the collection in messages.
        resize: make every image this many pixels wide and high; None keeps the size if there is only one.
        names: what to call the pictures in the warning; by default their rows.
    """
    if resize is not None:
        whole_number("resize", resize, 1, 4096)

    def name_of(row: int) -> str:
        item = pictures[row]
        return f"{where}: image in row {row}" if isinstance(item, bytes) else str(item)

    sizes: Counter[tuple[int, int]] = Counter()
    unreadable: dict[int, InputError] = {}
    sides = np.zeros((len(pictures), 2), dtype=np.int64)
    colour = False
    for row, item in enumerate(pictures):
        try:
            size, grey = _with_image(item, name_of(row), functools.partial(_size_and_greyness, name=name_of(row)))
        except InputError as error:
            unreadable[row] = error
            continue
        sizes[size] += 1
        sides[row] = size
        colour |= not grey
    _refuse_most_unreadable(unreadable, len(pictures), where)
    notes: tuple[DataWarning, ...] = ()
    side = resize
    if side is None and len(sizes) > 1:
        side = max(1, min(DEFAULT_SIDE, int(np.median(sides.min(axis=1)[sides[:, 0] > 0]))))
        listed = ", ".join(f"{width} × {height} ({count:,})" for (width, height), count in sizes.most_common(3))
        more = f" and {len(sizes) - 3} more sizes" if len(sizes) > 3 else ""
        message = (
            f"images have several sizes: {listed}{more}; resized to {side} × {side}: set another size with resize"
        )
        notes = (DataWarning(message, "resized"),)
    width, height = (side, side) if side is not None else next(iter(sizes))
    readable = [row for row in range(len(pictures)) if row not in unreadable]
    shape = (len(readable), height, width, 3) if colour else (len(readable), height, width)
    claimed = int(np.prod(shape, dtype=object))
    if claimed <= IN_MEMORY:
        check_reading_memory(where, claimed)
        x: NDArray[np.uint8] = np.empty(shape, dtype=np.uint8)
    else:
        x = files.scratch_array(shape, np.uint8, f"the pixels of {where}", "use a smaller resize")
    decoded: list[int] = []
    for row in readable:
        pixels = functools.partial(
            _pixels_of_image, name=name_of(row), colour=colour, size=(width, height), side=side
        )
        try:
            x[len(decoded)] = _with_image(pictures[row], name_of(row), pixels)
        except InputError as error:
            unreadable[row] = error
        else:
            decoded.append(row)
    if unreadable:
        _refuse_most_unreadable(unreadable, len(pictures), where)
        listed = few([f"row {row}" if names is None else names[row] for row in sorted(unreadable)])
        why = str(unreadable[min(unreadable)]).removeprefix(f"{name_of(min(unreadable))}: ").partition(";")[0]
        message = (
            f"{len(unreadable):,} of {len(pictures):,} images cannot be read and are left out: {listed} (the first "
            f"{why}); replace or remove them"
        )
        notes += (DataWarning(message, "unreadable_images"),)
    several = {"width": sides[decoded, 0], "height": sides[decoded, 1]} if len(sizes) > 1 else {}
    return x[: len(decoded)], np.array(decoded, dtype=np.int64), several, notes


def _refuse_most_unreadable(unreadable: dict[int, InputError], n: int, where: str) -> None:
    """Refuse a collection of which fewer than half can be read: what is left is another one."""
    if 2 * len(unreadable) > n:
        first = unreadable[min(unreadable)]
        if n == 1:
            raise first
        raise InputError(f"{where}: {len(unreadable):,} of {n:,} images cannot be read; the first: {first}")


def decoded_image(picture: str | bytes, name: str, *, colour: bool) -> NDArray[np.uint8]:
    """One picture as (H, W) or (H, W, 3) bytes, turned as its camera says; anything else is refused."""
    size, _ = _with_image(picture, name, lambda image: _size_and_greyness(image, name))
    return _with_image(picture, name, lambda image: _pixels_of_image(image, name, colour, size, None))


def class_folder_files(
    path: Path,
    ignored: list[str],
    noun: str = "images",
    layout: str = "CLASS/picture.png",
    endings: tuple[str, ...] = _ENDINGS,
) -> tuple[list[tuple[str, str, str]], bool]:
    """File, split and class of each example by split (train first), class and name; whether the split is official.

    Files beside folders are added to ``ignored``.
    """
    top = _class_folders(path, ignored, layout, endings)
    roots = {folder.name: SPLIT_WORDS.get(folder.name.lower(), "") for folder in top}
    if "test" not in roots.values():
        # ImageNet's layout: without a test set the labelled validation set is what models are scored on.
        roots = {name: "test" if split == "validation" else split for name, split in roots.items()}
    official = {"train", "test"} <= set(roots.values())
    parts = [("", top)]
    if official:
        other = next((name for name, split in roots.items() if not split), None)
        if other is not None:
            raise InputError(f"{path}: has {other} beside train and test; move it elsewhere")
        order = sorted(roots, key=lambda name: (SPLITS.index(roots[name]), name))
        parts = [(roots[name], _class_folders(path / name, ignored, layout, endings)) for name in order]
    pictures: list[tuple[str, str, str]] = []
    known: set[str] = set()
    for split, folders in parts:
        listed = {folder: _visible_entries(folder) for folder in folders}
        if not any(listed.values()):
            raise InputError(f"{path}: has no {noun}; arrange them as {layout}")
        for folder, entries in listed.items():
            if not entries:
                raise InputError(f"{folder}: has no {noun}, but would be a class; remove the folder")
            files = [item for item in entries if item.is_file()]
            ignored += [f"{folder.name}/{item.name}" for item in entries if item not in files] if files else []
            known |= {folder.name} if split in ("", "train") else set()
            if folder.name not in known:
                raise InputError(
                    f"{path}: {split} has class {folder.name!r}, which train does not have; both need the same "
                    "classes"
                )
            pictures += [(os.path.join(folder, file.name), split, folder.name) for file in files or entries]
    wrong = next((file for file, _, _ in pictures if not os.path.isfile(file)), None)
    if wrong is not None:
        raise InputError(
            f"{wrong}: is not a file; a class folder has {noun} only: give {os.path.dirname(wrong)} if that has "
            f"the class folders, or arrange {noun} as {layout}"
        )
    return pictures, official


def _class_folders(root: Path, ignored: list[str], layout: str, endings: tuple[str, ...]) -> list[Path]:
    """The folders in a folder; other files than examples, such as a README, are ignored and listed."""
    entries = _visible_entries(root)
    for item in entries:
        if not item.is_dir() and item.suffix.lower() in endings and endings == _ENDINGS:
            raise InputError(
                f"{item}: is an image where a class folder is expected; move it into the folder of its class, as "
                "CLASS/picture.png"
            )
    ignored += [item.name for item in entries if not item.is_dir()]
    return [item for item in entries if item.is_dir()]


def _visible_entries(folder: Path) -> list[Path]:
    """What is in a folder, by name, without hidden files and what file managers leave behind."""
    return [
        item
        for item in folder_entries(folder)
        if not item.name.startswith(".") and item.name.lower() not in _IGNORED
    ]


def _size_and_greyness(image: Image, name: str) -> tuple[tuple[int, int], bool]:
    """Width and height after turning, and whether the image is grey."""
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise InputError(f"{name}: claims {width} × {height} pixels, more than {MOST_PIXELS:,}; make it smaller")
    if image.mode not in (*_GREY, *_COLOUR, *_WITH_ALPHA):
        raise InputError(f"{name}: has pixels of mode {image.mode}; save it with 8 bits per channel, grey or RGB")
    if getattr(image, "is_animated", False):
        raise InputError(f"{name}: has several frames; save one image per file")
    grey = image.mode in (*_GREY, "LA")
    turned = _orientation(image) in (5, 6, 7, 8)
    image.verify()  # compares the checksums of a PNG, and leaves the image unusable
    return ((height, width) if turned else (width, height)), grey


def _orientation(image: Image) -> int:
    # Asked of a PNG without the tag, Pillow would decode all of it.
    return int(image.getexif().get(_ORIENTATION, 1)) if image.format != "PNG" or "exif" in image.info else 1


def _pixels_of_image(
    image: Image, name: str, colour: bool, size: tuple[int, int], side: int | None
) -> NDArray[np.uint8]:
    from PIL import ImageOps
    from PIL.Image import Resampling

    if _orientation(image) != 1:
        image = ImageOps.exif_transpose(image)
    if image.mode in _WITH_ALPHA or "transparency" in image.info:
        flat = image.convert("RGBA")
        if flat.getchannel("A").getextrema() != (255, 255):
            raise InputError(f"{name}: has transparent pixels; save it on a background, without alpha")
        image = flat
    image = image.convert("RGB" if colour else "L")
    if side is not None:
        image = ImageOps.fit(image, size, method=Resampling.BICUBIC)  # the largest part around the centre
    if image.size != size:
        raise InputError(f"{name}: changed while it was read; try again")
    return np.asarray(image)


def _with_image(item: str | bytes, name: str, use: Callable[[Image], T]) -> T:
    """Open an image and use it; whatever a decoder raises for a damaged file becomes one sentence with its name."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a decoder's doubts about a file, and Pillow's about its size
            with Image.open(io.BytesIO(item) if isinstance(item, bytes) else item, formats=FORMATS) as image:
                return use(image)
    except InputError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InputError(f"{name}: claims more pixels than {MOST_PIXELS:,}; make it smaller") from error
    except UnidentifiedImageError as error:
        raise InputError(
            f"{name}: is not an image in {', '.join(FORMATS)}, or is broken; remove or replace it"
        ) from error
    except Exception as error:  # Pillow's decoders raise nearly anything for a damaged file
        raise InputError(f"{name}: is broken ({reason(error)}); remove or replace it") from error


def looks_like_image(content: Any) -> bool:
    """Whether bytes begin as an image file does.

    Example:
        >>> looks_like_image(b"\\x89PNG\\r\\n"), looks_like_image(b"hello")
        (True, False)
    """
    starts = (b"\x89PNG", b"\xff\xd8\xff", b"BM", b"GIF8", b"II*\0", b"MM\0*", b"RIFF", b"P5", b"P6")
    return isinstance(content, bytes) and content.startswith(starts)


def resized_picture(pixels: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """A picture in the shape of the originals, by the rule of image folders; unchanged where it has that shape."""
    from PIL import Image, ImageOps

    if pixels.shape == shape:
        return pixels
    image = Image.fromarray(pixels).convert("RGB" if len(shape) == 3 else "L")
    return np.asarray(ImageOps.fit(image, (shape[1], shape[0]), method=Image.Resampling.BICUBIC))


def images_channels_last(what: str, x: NDArray[Any]) -> tuple[NDArray[Any], tuple[DataWarning, ...]]:
    """Images (N, C, H, W) as (N, H, W, C), or (N, H, W) if they have one channel; other arrays as they are.

    Example:
        >>> images_channels_last("x", np.zeros((5, 3, 32, 32)))[0].shape
        (5, 32, 32, 3)
    """
    if x.ndim != 4 or x.shape[1] not in CHANNELS or x.shape[3] in CHANNELS or x.shape[2] <= 4:
        return x, ()
    turned = x[:, 0] if x.shape[1] == 1 else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    message = f"{what} has channels first, shape {x.shape}; it was transposed to {turned.shape}"
    return turned, (DataWarning(message, "channels_first"),)


def images_as_bytes(images: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """Images as levels of grey or colour, 0..255: from ``low``, black, to ``high``, white.

    Bytes stay as they are, unless they never leave the darkest quarter: then they are counts (digits have 0..16),
    not levels.

    Args:
        images: (n, ...) numbers of any type.
        low: the darkest number that such images have.
        high: the lightest.

    Example:
        >>> images_as_bytes(np.array([[0.0, 1.0, 2.0]]), 0.0, 2.0)
        array([[  0, 128, 255]], dtype=uint8)
    """
    if images.dtype == np.uint8 and high >= DARKEST_QUARTER:
        return np.ascontiguousarray(images)
    result = np.empty(images.shape, dtype=np.uint8)
    span = high - low if high > low else 1.0
    for start in range(0, len(images), _BLOCK):
        rows = slice(start, start + _BLOCK)
        scaled = (images[rows].astype(np.float32) - low) / span
        result[rows] = np.rint(255 * scaled.clip(0, 1))
    return result
