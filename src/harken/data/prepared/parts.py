"""Streamed rows divided into training, validation and test by their groups: `harken.data.splits` on the disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from harken.data.prepared.stream import CODES, LEFT_OUT, SKIPPED, TRAIN, Reader, Scanned, write_index
from harken.data.splits import BLOCK_ROWS, Size, split_positions
from harken.errors import UserError


def write_parts(
    folder: Path, reader: Reader, scanned: Scanned, sizes: Mapping[str, Size], held_keys: np.ndarray, reason: str
) -> None:
    """Write the code of every scanned row and complete the entry in `folder`.

    Args:
        sizes: parts to hold out.
        held_keys: keys of rows that have validation and test files of their own; training rows among these, or equal
            to a row that is held out, are left out.
        reason: why they are, for the counts.

    Raises:
        UserError: a part would be empty.
    """
    held = split_positions(scanned.positions, sizes)
    code_of = {group: code for code, groups in enumerate(held.values(), start=TRAIN + 1) for group in groups}
    groups = np.array(sorted(code_of), dtype=np.uint64)
    codes_of_groups = np.array([code_of[int(group)] for group in groups], dtype=np.uint8)
    keys = scanned.keys if len(scanned.keys) else scanned.positions
    if len(scanned.keys):  # equal rows may be in several groups
        found = []
        for start in range(0, len(keys), BLOCK_ROWS):
            is_held = np.isin(scanned.positions[start : start + BLOCK_ROWS], groups)
            found.append(keys[start : start + BLOCK_ROWS][is_held])
        held_keys = np.concatenate([held_keys, *found])
    held_keys = np.unique(held_keys)
    left_out = trained = start = 0
    with open(folder / CODES, "wb") as codes:
        for first in range(0, len(scanned.kept), BLOCK_ROWS):
            kept = scanned.kept[first : first + BLOCK_ROWS]
            stop = start + int(kept.sum())
            own = np.full(stop - start, TRAIN, dtype=np.uint8)
            own[np.isin(keys[start:stop], held_keys)] = LEFT_OUT
            if len(groups):
                positions = scanned.positions[start:stop]
                places = np.minimum(np.searchsorted(groups, positions), len(groups) - 1)
                own = np.where(groups[places] == positions, codes_of_groups[places], own)
            left_out += int((own == LEFT_OUT).sum())
            trained += int((own == TRAIN).sum())
            every = np.full(len(kept), SKIPPED, dtype=np.uint8)
            every[kept] = own
            every.tofile(codes)
            start = stop
    if not trained:
        raise UserError("every training example is also in the validation or test data; give other files")
    write_index(folder, reader, scanned, ["train", *sizes], list(sizes), {reason: left_out} if left_out else {})
    scanned.remove()
