"""Datasets in folders of images: ``CLASS/picture.png``, or ``train/CLASS/...`` beside ``test/CLASS/...``.

The class is the folder's name, classes are numbered in the order of their names, and every image has the same size.
Pixels are taken as stored (no turning by camera tags): grey images give (N, H, W), colour (N, H, W, 3), a mixture
colour.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from hardpan.data.dataset import Dataset, content_ids
from hardpan.data.memory import check_memory
from hardpan.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
MOST_PIXELS = 50_000_000
_IGNORED = {"thumbs.db", "desktop.ini"}
_HELD_OUT = ("val", "valid", "validation", "dev")
_GREY = ("1", "L")
_COLOUR = ("RGB", "P", "CMYK", "YCbCr")
_WITH_ALPHA = ("RGBA", "LA", "PA")


@dataclass(frozen=True, slots=True)
class _Picture:
    """One file, and where its folders put it."""

    path: Path
    part: str
    class_name: str


def matches(path: Path) -> bool:
    """Say whether this is ours: any folder that no other reader claims."""
    return path.is_dir()


def read(path: Path) -> Dataset:
    """Read a folder of images into a dataset, or refuse it in one sentence that names the file.

    All headers are read first: sizes that differ, images too large to be true and sets larger than memory are
    refused before a pixel is decoded. The file of each row is the metadata column ``path``.
    """
    pictures, class_names, official = _pictures(path)
    sizes, colour = _surveyed(path, pictures)
    (width, height), n = next(iter(sizes)), len(pictures)
    shape = (n, height, width, 3) if colour else (n, height, width)
    check_memory(path, int(np.prod(shape, dtype=object)))
    x = np.empty(shape, dtype=np.uint8)
    for row, picture in enumerate(pictures):
        x[row] = _pixels(picture.path, colour, (width, height))
    numbers = {name: number for number, name in enumerate(class_names)}
    labels = np.array([numbers[picture.class_name] for picture in pictures], dtype=np.int64)
    split = np.array([picture.part for picture in pictures]) if official else None
    files = np.array([picture.path.relative_to(path).as_posix() for picture in pictures])
    name = path.resolve().name
    return Dataset(name, x, content_ids(x), labels, class_names, split, metadata={"path": files}, source=name)


def _pictures(path: Path) -> tuple[list[_Picture], tuple[str, ...], bool]:
    """List the files in the order of part (train first), class and name, and say whether there is a split."""
    top = _entries(path)
    official = {folder.name for folder in top} >= {"train", "test"}
    held_out = [folder.name for folder in top if folder.name in _HELD_OUT]
    if held_out and any(folder.name in ("train", "test") for folder in top):
        raise InputError(
            f"{path}: holds {held_out[0]} beside train or test; move its classes into train (validation is cut "
            "from there) or call it test"
        )
    if official and len(top) > 2:
        other = next(folder.name for folder in top if folder.name not in ("train", "test"))
        raise InputError(f"{path}: holds {other} beside train and test; move it elsewhere")
    parts = {"train": path / "train", "test": path / "test"} if official else {"": path}
    pictures = [
        _Picture(file, part, folder.name)
        for part, root in parts.items()
        for folder in _entries(root)
        for file in _entries(folder)
    ]
    names = {part: {picture.class_name for picture in pictures if picture.part == part} for part in parts}
    for part in parts:
        if not names[part]:
            raise InputError(f"{parts[part]}: holds no images; lay them out as CLASS/picture.png")
    if official and names["test"] - names["train"]:
        stranger = min(names["test"] - names["train"])
        raise InputError(f"{path}: test has class {stranger!r}, which train has not; both need the same classes")
    for picture in pictures:
        if not picture.path.is_file():
            raise InputError(f"{picture.path}: is no file; a class folder holds images only")
    return pictures, tuple(sorted(set().union(*names.values()))), official


def _entries(folder: Path) -> list[Path]:
    """What a folder holds, in the order of names, without hidden files and what file managers leave behind."""
    if not folder.is_dir():
        raise InputError(f"{folder}: lies where a class folder is expected; lay images out as CLASS/picture.png")
    try:
        listed = sorted(folder.iterdir(), key=lambda item: item.name)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror}); give a readable folder") from error
    return [item for item in listed if not item.name.startswith(".") and item.name.lower() not in _IGNORED]


def _surveyed(path: Path, pictures: list[_Picture]) -> tuple[Counter[tuple[int, int]], bool]:
    """Read every header: give the one size there is, and whether any image has colour."""
    sizes: Counter[tuple[int, int]] = Counter()
    first: dict[tuple[int, int], str] = {}
    colour = False
    for picture in pictures:
        size, grey = _header(picture.path)
        sizes[size] += 1
        first.setdefault(size, picture.path.relative_to(path).as_posix())
        colour |= not grey
    if len(sizes) > 1:
        named = [f"{w}×{h} ({count}, such as {first[w, h]})" for (w, h), count in sizes.most_common(4)]
        more = f" and {len(sizes) - 4} more" if len(sizes) > 4 else ""
        raise InputError(
            f"{path}: images must have one size; got {', '.join(named)}{more}: resize them, or give features of "
            "an encoder as npz or Parquet"
        )
    return sizes, colour


def _header(path: Path) -> tuple[tuple[int, int], bool]:
    def look(image: Image) -> tuple[tuple[int, int], bool]:
        width, height = image.size
        if width * height > MOST_PIXELS:
            raise InputError(
                f"{path}: claims {width}×{height} pixels, more than {MOST_PIXELS:,}; resize it to what a model sees"
            )
        if image.mode not in (*_GREY, *_COLOUR, *_WITH_ALPHA):
            raise InputError(f"{path}: has pixels of mode {image.mode}; save it with 8 bits a channel, grey or RGB")
        if getattr(image, "is_animated", False):
            raise InputError(f"{path}: holds several frames; save one image a file")
        grey = image.mode in (*_GREY, "LA")
        image.verify()  # compares the checksums of a PNG, and leaves the image unusable
        return (width, height), grey

    return _with_image(path, look)


def _pixels(path: Path, colour: bool, size: tuple[int, int]) -> NDArray[np.uint8]:
    def decode(image: Image) -> NDArray[np.uint8]:
        if image.size != size:
            raise InputError(f"{path}: changed while it was read; try again")
        if image.mode in _WITH_ALPHA or "transparency" in image.info:
            flat = image.convert("RGBA")
            if flat.getchannel("A").getextrema() != (255, 255):
                raise InputError(f"{path}: has transparent pixels; save it on a background, without alpha")
            image = flat
        return np.asarray(image.convert("RGB" if colour else "L"))

    return _with_image(path, decode)


def _with_image(path: Path, use: Callable[[Image], T]) -> T:
    """Open an image and use it; whatever a decoder makes of a damaged file becomes one sentence with its name."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a decoder's doubts about a file, and Pillow's about its size
            with Image.open(path, formats=FORMATS) as image:
                return use(image)
    except InputError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InputError(
            f"{path}: claims more pixels than {MOST_PIXELS:,}; resize it to what a model sees"
        ) from error
    except UnidentifiedImageError as error:
        raise InputError(
            f"{path}: is no image in {', '.join(FORMATS)}, or is broken; remove or replace it"
        ) from error
    except Exception as error:  # Pillow's decoders raise nearly anything for a damaged file
        reason = str(error).partition("\n")[0][:160] or type(error).__name__
        raise InputError(f"{path}: is broken ({reason}); remove or replace it") from error
