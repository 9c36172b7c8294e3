"""What every picture asks of its input, and how it is written to disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harken.errors import UserError

TOLERANCE = 1e-3  # rounding in half precision may take a weight this far outside 0 to 1


def checked_weights(weights: npt.ArrayLike, shape: Sequence[int], axes: str) -> np.ndarray:
    """The weights as float64, cut to 0..1.

    Args:
        shape: what the words ask for.
        axes: what the axes are, for the message.

    Raises:
        UserError: another shape, NaN, or numbers that are no weights.
    """
    array = np.array(weights, dtype=np.float64)
    if array.shape != tuple(shape):
        found, wanted = " x ".join(map(str, array.shape)), " x ".join(map(str, shape))
        raise UserError(f"The attention weights are {found} but the words ask for {wanted} ({axes}); pass one each.")
    if array.size and not np.isfinite(array).all():
        place = ", ".join(str(int(number)) for number in np.argwhere(~np.isfinite(array))[0])
        raise UserError(f"The attention weight at ({place}) is not a finite number; the model may have diverged.")
    if array.size and (array.min() < -TOLERANCE or array.max() > 1 + TOLERANCE):
        worst = array.min() if array.min() < -TOLERANCE else array.max()
        raise UserError(f"An attention weight is {worst:.3g}; weights lie between 0 and 1, so scale them first.")
    return array.clip(0.0, 1.0)


def atomic_write(path: Path, content: bytes) -> None:
    """Write a file under another name and rename it, so that nobody ever finds half of it.

    Raises:
        UserError: a folder that cannot be made or written.
    """
    unfinished = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(unfinished, 0o644)  # mkstemp gives the owner alone the right to read
        os.replace(unfinished, path)
    except OSError as error:
        if unfinished is not None:
            Path(unfinished).unlink(missing_ok=True)
        raise UserError(f"{path} cannot be written ({error.strerror}); choose another place.") from error
