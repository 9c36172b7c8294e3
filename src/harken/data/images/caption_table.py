"""The pictures and captions that a `[data]` table names. One's own are a table with a column each:

    image,caption
    dog.jpg,a dog runs
    dog.jpg,a brown dog on the grass         several captions of a picture are several lines

Files are looked for beside the table, or in `data.images`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harken.data.images.captioned import CaptionCorpus, Captioned
from harken.data.images.files import ENDINGS, read_image, to_square
from harken.data.images.flickr8k import load_flickr8k
from harken.data.io.table import is_jsonl, read_table
from harken.data.splits import Size, content_key, size_of, split_groups, without_held_out
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
    columns = read_table(table, [image_column, caption_column])
    place = pictures_of(table, folder)
    captions: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    for row, (name, caption) in enumerate(zip(columns[image_column], columns[caption_column], strict=True)):
        line = row + (1 if is_jsonl(table) else 2)  # a header comes first
        for cell, column in ((name, image_column), (caption, caption_column)):
            if cell is None or not str(cell).strip():
                raise UserError(f"{table}, line {line} has an empty {column}; fill it in, or drop the row")
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
    place = expand_user(folder) if folder is not None else table.parent
    if not place.is_dir():
        raise UserError(f"data.images {place} is no folder; give the one with the pictures")
    if not any(path.suffix.lower() in ENDINGS for path in place.rglob("*")):
        raise UserError(f"{place} holds no picture ({', '.join(ENDINGS)}); set data.images to the folder that does")
    return place


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
        return _drop_held_out(load_flickr8k(config.dir, size))
    tables = {name: getattr(config, name) for name in ("table", "valid", "test") if getattr(config, name)}
    columns = config.image_column, config.caption_column
    found = {name: read_captions(table, config.images, size, *columns) for name, table in tables.items()}
    sizes: dict[str, Size] = {}
    if "test" not in found and "valid" not in found and config.test_size:
        sizes["test"] = config.test_size
    if "valid" not in found:
        sizes["valid"] = size_of(config.valid_size)
    pictures = found.pop("table")
    rows = split_groups([_key(example) for example in pictures], sizes, config.seed)
    found |= {name: [pictures[row] for row in chosen] for name, chosen in rows.items()}
    name = Path(config.train).name.split(".")[0]
    tests = {"test": found["test"]} if "test" in found else {}
    return _drop_held_out(CaptionCorpus(name, found["train"], found["valid"], dict(tests)))


def _drop_held_out(corpus: CaptionCorpus) -> CaptionCorpus:
    """Leave pictures out of training that are also in the validation or the test, and note how many."""
    corpus.train, skipped = without_held_out(corpus.train, [corpus.valid, *corpus.tests.values()], _key)
    corpus.notes += [f"left {count:,} training pictures out: {reason}" for reason, count in skipped.items()]
    return corpus


def _key(example: Captioned) -> str:
    return content_key(example.image)
