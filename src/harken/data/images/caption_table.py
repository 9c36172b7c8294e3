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
from harken.data.images.files import ENDINGS, image_of, to_square
from harken.data.images.flickr8k import load_flickr8k
from harken.data.io.records import is_json
from harken.data.io.table import read_table
from harken.data.parts import divide
from harken.data.prepared.scan import RowKind
from harken.data.splits import Size, content_key, held_out_sizes
from harken.data.synthetic.scenes.splits import load_scenes
from harken.errors import UserError
from harken.files import expand_user


def read_captions(
    table: str | Path | Mapping[str, list[Any]],
    folder: str | Path | None,
    size: int,
    image_column: str = "image",
    caption_column: str = "caption",
) -> list[Captioned]:
    """One example for each picture, in the order of the table, scaled to `size`.

    Args:
        table: a file, or columns in memory, where cells may also be pictures (`harken.data.images.files.image_of`) and
            lists of captions.

    Raises:
        UserError: a picture that is not there or is none, with the line that names it; a table without rows.
    """
    is_file = isinstance(table, str | Path)
    source: Any = expand_user(table) if is_file else table  # type: ignore[arg-type]
    columns = read_table(source, [image_column, caption_column], header=None)
    root = pictures_of(source, folder) if is_file else Path() if folder is None else expand_user(folder)
    pictures: dict[str, Captioned] = {}  # by their names; those of arrays by their content
    for row, (cell, captions) in enumerate(zip(*columns.values(), strict=True), start=1):
        line = row + (not is_json(source)) if is_file else row  # a header comes first
        where = f"{source}, line {line}" if is_file else f"the table, row {line}"
        for value, column in ((cell, image_column), (captions, caption_column)):
            if value is None or not str(value).strip():
                raise UserError(f"{where} has an empty {column}; fill it in, or drop the row")
        is_name = is_file or isinstance(cell, str | Path)
        if is_name and str(cell) not in pictures and not (root / str(cell)).is_file():
            raise UserError(f"{where} names {cell}, which is not in {root}; fix it or set data.images")
        if not is_name or str(cell) not in pictures:
            image = to_square(
                image_of(str(cell) if is_name else cell, root, f"{source.name}, line {line}" if is_file else where),
                size,
            )
        key, name = (str(cell), str(cell)) if is_name else (content_key(image), f"row {row}")
        texts = [captions] if is_file or isinstance(captions, str) else captions
        example = pictures.setdefault(key, Captioned(image, [], (), name))
        example.captions.extend(" ".join(str(text).split()) for text in texts)
    if not pictures:
        raise UserError(f"{table} has no rows below its header; give at least one picture with a caption")
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
