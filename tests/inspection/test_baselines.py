"""Pictures look as they did: each is compared with a stored image, block by block, so that fonts may differ a little.

To store them anew after a change that is meant: HARKEN_BASELINES=write pytest tests/inspection/test_baselines.py
"""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harken.inspection import Picture

BASELINES = Path(__file__).parent / "baselines"
DPI, BLOCK = 45, 6  # pixels an inch, and along a side of a block
LIMIT = 26.0  # of 255: a block that has moved by half a letter differs by less, a missing bar by more
SHARE = 0.004  # of the blocks may differ by more


def blocks(image: Image.Image) -> np.ndarray:
    """The mean of every block; (rows, columns, 3)."""
    size = max(image.width // BLOCK, 1), max(image.height // BLOCK, 1)
    return np.asarray(image.convert("RGB").resize(size, Image.Resampling.BOX), dtype=np.float64)


def differs(found: Image.Image, stored: Image.Image) -> float:
    """The share of blocks that differ; 1 for another size."""
    if any(abs(a - b) > 3 for a, b in zip(found.size, stored.size, strict=True)):
        return 1.0
    difference = np.abs(blocks(found.resize(stored.size)) - blocks(stored)).max(-1)
    return float((difference > LIMIT).mean())


def test_pictures_look_as_stored(picture: Picture, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["picture"]
    found, path = Image.open(io.BytesIO(picture.to_png(DPI))), BASELINES / f"{name}.png"
    if os.environ.get("HARKEN_BASELINES") == "write":
        found.convert("RGB").convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(path, optimize=True)
    assert path.stat().st_size < 30_000
    assert differs(found, Image.open(path)) <= SHARE


def test_a_change_is_seen() -> None:
    stored = Image.open(BASELINES / "fan.png").convert("RGB")
    moved = Image.new("RGB", stored.size, "white")
    moved.paste(stored, (12, 0))
    assert differs(moved, stored) > SHARE
    assert differs(stored.crop((0, 0, stored.width - 20, stored.height)), stored) == 1.0
    without = stored.copy()
    without.paste("white", (2 * stored.width // 3, stored.height // 6, 5 * stored.width // 6, 3 * stored.height // 4))
    assert differs(without, stored) > SHARE
