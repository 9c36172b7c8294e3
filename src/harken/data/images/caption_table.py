"""Captions of one's own pictures: a table with a column for the file and one for the caption.

    image,caption
    dog.jpg,a dog runs
    dog.jpg,a brown dog on the grass         several captions of a picture are several lines

Files are looked for beside the table, or in `data.images`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from harken.data.images.captioned import CaptionCorpus, Captioned
from harken.data.images.files import ENDINGS, read_image, to_square
from harken.data.io.table import is_jsonl, read_table
from harken.data.splits import held_out_count
from harken.errors import UserError


def read_captions(
    table: str | Path,
    folder: str | Path | None,
    size: int,
    image_column: str = "image",
    caption_column: str = "caption",
) -> list[Captioned]:
    """One example for each picture, in the order of the table, scaled to `size`.

    Raises:
        UserError: a picture that is not there or is none, with the line that names it; a table without rows.
    """
    table = Path(table).expanduser()
    columns = read_table(table, [image_column, caption_column])
    place = pictures_of(table, folder)
    captions: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    for row, (name, caption) in enumerate(zip(columns[image_column], columns[caption_column], strict=True)):
        line = row + (1 if is_jsonl(table) else 2)  # a header comes first
        if not str(name).strip() or not str(caption).strip():
            raise UserError(f"{table}, line {line} has an empty {image_column if caption else caption_column}; fill it")
        first.setdefault(str(name), line)
        captions.setdefault(str(name), []).append(" ".join(str(caption).split()))
    if not captions:
        raise UserError(f"{table} has no rows below its header; give at least one picture with a caption")
    found = []
    for name, texts in captions.items():
        path = place / name
        if not path.is_file():
            raise UserError(
                f"{table}, line {first[name]} names {name}, which is not in {place}; fix it or set data.images"
            )
        image = read_image(path, f"{path} ({table.name}, line {first[name]})")
        found.append(Captioned(to_square(image, size), texts, (), name))
    return found


def pictures_of(table: Path, folder: str | Path | None) -> Path:
    """The folder that the names of a table are relative to.

    Raises:
        UserError: it is none, or holds no picture.
    """
    place = Path(folder).expanduser() if folder is not None else table.parent
    if not place.is_dir():
        raise UserError(f"data.images {place} is no folder; give the one with the pictures")
    if not any(path.suffix.lower() in ENDINGS for path in place.rglob("*")):
        raise UserError(f"{place} holds no picture ({', '.join(ENDINGS)}); set data.images to the folder that does")
    return place


def split_pictures(
    examples: Sequence[Captioned], valid: int | float | None, test: int | float, seed: int, name: str
) -> CaptionCorpus:
    """Hold whole pictures out, with all of their captions, so that no picture is on both sides.

    Raises:
        UserError: too few pictures to train on what is left.
    """
    order = list(range(len(examples)))
    random.Random(seed).shuffle(order)
    wanted = (held_out_count(valid, len(examples)), held_out_count(test, len(examples)) if test else 0)
    if sum(wanted) >= len(examples):
        raise UserError(
            f"{name} has {len(examples)} pictures, too few to hold {sum(wanted)} of them out; "
            "lower data.valid_size and data.test_size, or give more"
        )
    parts = [order[: wanted[0]], order[wanted[0] : sum(wanted)], order[sum(wanted) :]]
    held, tests, rest = ([examples[index] for index in sorted(part)] for part in parts)
    return CaptionCorpus(name, rest, held, {"test": tests} if tests else {})
