"""The pictures and captions that a `[data]` table names. One's own are a table with a column each:

    image,caption
    dog.jpg,a dog runs
    dog.jpg,a brown dog on the grass         several captions of a picture are several lines

Files are looked for beside the table, or in `data.images`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from harken.data.images.captioned import CaptionCorpus, Captioned
from harken.data.images.files import ENDINGS, image_of, read_image, to_square
from harken.data.images.flickr8k import load_flickr8k
from harken.data.io.in_memory import refuse_gaps
from harken.data.io.records import is_json
from harken.data.io.table import read_table
from harken.data.parts import divide
from harken.data.prepared.scan import RowKind
from harken.data.splits import Size, content_key, held_out_sizes
from harken.data.synthetic.scenes.splits import load_scenes
from harken.errors import UserError
from harken.files import expand_user


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
    table = expand_user(table)
    columns = read_table(table, [image_column, caption_column], header=None)
    root = pictures_of(table, folder)
    captions: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    for row, (name, caption) in enumerate(zip(columns[image_column], columns[caption_column], strict=True)):
        line = row + (1 if is_json(table) else 2)  # a header comes first
        for cell, column in ((name, image_column), (caption, caption_column)):
            if cell is None or not str(cell).strip():
                raise UserError(f"{table}, line {line} has an empty {column}; fill it in, or drop the row")
        first.setdefault(str(name), line)
        captions.setdefault(str(name), []).append(" ".join(str(caption).split()))
    if not captions:
        raise UserError(f"{table} has no rows below its header; give at least one picture with a caption")
    pictures = []
    for name, texts in captions.items():
        path = root / name
        if not path.is_file():
            raise UserError(
                f"{table}, line {first[name]} names {name}, which is not in {root}; fix it or set data.images"
            )
        image = read_image(path, f"{path} ({table.name}, line {first[name]})")
        pictures.append(Captioned(to_square(image, size), texts, (), name))
    return pictures


def table_captions(table: Mapping[str, list[Any]], config: Any) -> list[Captioned]:
    """One example for each picture of a table in memory; equal pictures are one, with the captions of all their rows.

    Raises:
        UserError: an empty cell, or one that is no picture.
    """
    columns = read_table(table, [config.image_column, config.caption_column])
    refuse_gaps(columns, columns)
    root = Path() if config.images is None else expand_user(config.images)
    pictures: dict[str, Captioned] = {}
    keys: dict[str, str] = {}  # of files, which are read once
    for row, (cell, captions) in enumerate(zip(*columns.values(), strict=True), start=1):
        name = str(cell) if isinstance(cell, str | Path) else f"row {row}"
        if name not in keys:
            image = to_square(image_of(cell, root, f"the table, row {row}"), config.image_size)
            keys[name] = content_key(image)
            pictures.setdefault(keys[name], Captioned(image, [], (), name))
        texts = [captions] if isinstance(captions, str) else captions
        pictures[keys[name]].captions.extend(" ".join(str(text).split()) for text in texts)
    return list(pictures.values())


def pictures_of(table: Path, folder: str | Path | None) -> Path:
    """The folder that the names of a table are relative to.

    Raises:
        UserError: it is none, or holds no picture.
    """
    root = expand_user(folder) if folder is not None else table.parent
    if not root.is_dir():
        raise UserError(f"data.images {root} is no folder; give the one with the pictures")
    if not any(path.suffix.lower() in ENDINGS for path in root.rglob("*")):
        raise UserError(f"{root} holds no picture ({', '.join(ENDINGS)}); set data.images to the folder that does")
    return root


def read_caption_corpus(config: Any) -> CaptionCorpus:
    """All splits that a `[data]` table about pictures names: scenes, Flickr8k, or tables.

    Equal pictures, with all of their captions, are one group (`harken.data.splits`).

    Raises:
        UserError: what cannot be read, with its place, or too few pictures.
    """
    size = config.image_size
    if config.corpus == "scenes":
        return load_scenes(config.seed, config.scenes, size=size, most=config.things)
    if config.corpus == "flickr8k":
        corpus = load_flickr8k(config.dir, size)
        given = {"train": corpus.train, "valid": corpus.valid, **corpus.tests}
        return split_captions(config, corpus.name, given, {}, corpus.notes)
    columns = config.image_column, config.caption_column
    tables = {part: getattr(config, part) for part in ("train", "valid", "test") if getattr(config, part)}
    given = {part: read_captions(table, config.images, size, *columns) for part, table in tables.items()}
    return split_captions(config, Path(config.train).name.split(".")[0], given)


def split_captions(
    config: Any,
    name: str,
    parts_given: Mapping[str, Sequence[Captioned]],
    sizes: Mapping[str, Size] | None = None,
    notes: Sequence[str] = (),
) -> CaptionCorpus:
    """A corpus of the parts that are given and of those that are held out of its training pictures.

    Args:
        sizes: of the parts that are held out; by default those of the config that are not given.

    Raises:
        UserError: too few pictures.
    """
    given = dict(parts_given)
    pictures = given.pop("train")
    sizes = held_out_sizes(config, given) if sizes is None else sizes
    parts = divide(PICTURES, pictures, sizes, config.seed, [*chain(*given.values())])
    held: dict[str, Sequence[Captioned]] = {**given, **parts.held}
    left_out = [f"left {count:,} training pictures out: {reason}" for reason, count in parts.skipped.items()]
    return CaptionCorpus(name, parts.train, held.pop("valid"), held, notes=[*notes, *left_out])


PICTURES = RowKind("pictures", Captioned, lambda example: content_key(example.image))
