"""Pictures from files, as arrays (Y, X, 3) of bytes, and all of one size.

`to_square` crops the middle square and scales it, so that nothing is stretched. Files are decoded by Pillow (PNG, JPEG
and what else it knows); arrays need nothing.

>>> to_square(np.zeros((6, 4, 3), np.uint8), 2).shape
(2, 2, 3)
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harken.data.io.files import require_file
from harken.errors import UserError, require_extra
from harken.files import expand_user, read_limited

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
MOST_BYTES = 250_000_000  # of a file: MOST_PIXELS without compression
MOST_PIXELS = 80_000_000  # a larger picture is a mistake, or an attack on the memory


def read_image(path: str | Path, name: str | None = None) -> np.ndarray:
    """A file as red, green and blue, turned as its camera was held.

    Raises:
        UserError: no such file, not a picture, or Pillow is not there.
    """
    path = require_file(path)
    try:
        content = read_limited(path, MOST_BYTES)
    except OSError as problem:
        raise UserError(f"{path} cannot be read ({problem.strerror}); give a PNG or JPEG file") from None
    return decode_image(content, name or str(path))


def decode_image(content: bytes, name: str) -> np.ndarray:
    """The bytes of a picture's file; `name` is what errors call it.

    Raises:
        UserError: not a picture, too large a one, or Pillow is not there.
    """
    require_extra("PIL", "images", f"reading {name}")
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(content)) as opened:
            if opened.width * opened.height > MOST_PIXELS:
                raise UserError(
                    f"{name} has {opened.width} x {opened.height} pixels, more than {MOST_PIXELS:,}; make it smaller"
                )
            return np.array(ImageOps.exif_transpose(opened).convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as problem:
        what = "is damaged" if _begins_like_an_image(content) else "is not an image that Pillow knows"
        raise UserError(f"{name} {what} ({_one_line(problem)}); give a PNG or JPEG file") from None


def image_of(cell: Any, folder: Path, name: str) -> np.ndarray:
    """A cell of a table in memory: a path, relative to a folder; the bytes of a file; an array; a picture of Pillow; or
    {"bytes": ..., "path": ...}, as `datasets` has pictures that are not decoded.

    Raises:
        UserError: no picture; `name` is what errors call it.
    """
    if isinstance(cell, Mapping):
        cell = cell.get("bytes") or cell.get("path")
    if isinstance(cell, str | Path):
        return read_image(folder / expand_user(cell), f"{folder / cell} ({name})")
    if isinstance(cell, bytes):
        return decode_image(cell, name)
    try:
        return as_pixels(cell.convert("RGB") if hasattr(cell, "convert") else cell)
    except (UserError, ValueError, TypeError) as problem:
        raise UserError(f"{name}: {problem}") from None


def as_pixels(image: Any) -> np.ndarray:
    """An array as (Y, X, 3) bytes: grey ones are repeated, an alpha channel is dropped, floats are 0 to 1.

    Raises:
        UserError: a shape or values that are no picture.
    """
    array = np.asarray(image)
    if array.ndim == 2:
        array = np.repeat(array[:, :, None], 3, 2)
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise UserError(f"an array of shape {array.shape} is no picture; give (height, width, 3)")
    array = np.repeat(array, 3, 2) if array.shape[2] == 1 else array[:, :, :3]
    if array.dtype == np.uint8:
        return array
    if not np.isfinite(array).all() or array.min() < 0 or array.max() > (1 if array.dtype.kind == "f" else 255):
        raise UserError("the picture's values are not colours; give bytes from 0 to 255, or floats from 0 to 1")
    return np.rint(array * 255 if array.dtype.kind == "f" else array).astype(np.uint8)


def to_square(image: np.ndarray, size: int) -> np.ndarray:
    """The middle square of a picture (Y, X, 3), scaled to (size, size, 3); one of that size stays as it is."""
    height, width = image.shape[:2]
    if (height, width) == (size, size):
        return image
    import torch

    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = np.array(image[top : top + side, left : left + side])
    values = torch.from_numpy(square).permute(2, 0, 1)[None].float()
    scaled = torch.nn.functional.interpolate(values, (size, size), mode="bilinear", antialias=True)
    return scaled[0].permute(1, 2, 0).round().clamp(0, 255).to(torch.uint8).numpy()


def _begins_like_an_image(content: bytes) -> bool:
    return content.startswith((b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM"))


def _one_line(problem: Exception) -> str:
    text = re.sub(r" <_io\.BytesIO object at \w+>", "", str(problem).split("\n")[0])  # Pillow names what it was given
    return text[:80] or type(problem).__name__
