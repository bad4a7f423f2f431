"""Pictures as strangers send them: decoded with care, refused in one sentence, stored in one way."""

from __future__ import annotations

import io
import os
import threading
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import files
from hardpan.data.images import FORMATS, MOST_PIXELS
from hardpan.errors import InputError
from hardpan.replicate.project import Project

MOST_BYTES = 64 * 1024 * 1024
_MODES = ("1", "L", "RGB", "P", "CMYK", "YCbCr", "RGBA", "LA", "PA")


def decode(name: str, data: bytes, *, colour: bool) -> NDArray[np.uint8]:
    """Decode a picture into (H, W) or (H, W, 3) bytes, turned as its camera says, or refuse it.

    The header is read first: what claims too many pixels, has several frames or another type is refused undecoded.
    """
    from PIL import Image, ImageOps

    if len(data) > MOST_BYTES:
        raise InputError(f"{name}: has {len(data):,} bytes, more than {MOST_BYTES:,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                _check_header(name, image)
                turned = ImageOps.exif_transpose(image)
                return _pixels(name, turned, colour)
    except InputError:
        raise
    except Exception as error:  # decoders raise nearly anything for a damaged file
        reason = str(error).partition("\n")[0][:120] or type(error).__name__
        if "identify" in reason:
            reason = f"no picture in {', '.join(FORMATS)}"
        raise InputError(f"{name}: is broken or of another type ({reason})") from error


def picture_id(pixels: NDArray[np.uint8]) -> str:
    """The content id of a picture: 16 hexadecimal digits of sha256 over dtype, shape and bytes.

    Example:
        >>> picture_id(np.zeros((2, 2), np.uint8))
        '0f4c62411b6196a6'
    """
    return files.array_hash(np.ascontiguousarray(pixels))[:16]


def store_picture(project: Project, pixels: NDArray[np.uint8]) -> str:
    """Keep a picture in the pool under its content id, whole or not at all; give the id."""
    from PIL import Image

    name = picture_id(pixels)
    path = project.pool_file(name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when whole, but not flushed one by one: a pool has many thousands, and ids prove their content.
        fresh = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        Image.fromarray(pixels).save(fresh, format="PNG")
        os.replace(fresh, path)
    return name


def _check_header(name: str, image: Any) -> None:
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise InputError(f"{name}: claims {width}×{height} pixels, more than {MOST_PIXELS:,}")
    if image.mode not in _MODES:
        raise InputError(f"{name}: has pixels of mode {image.mode}; save it with 8 bits a channel")
    if getattr(image, "is_animated", False):
        raise InputError(f"{name}: holds several frames; save one image a file")


def _pixels(name: str, image: Any, colour: bool) -> NDArray[np.uint8]:
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        if image.getchannel("A").getextrema() != (255, 255):
            raise InputError(f"{name}: has transparent pixels; save it on a background, without alpha")
    return np.array(image.convert("RGB" if colour else "L"))
