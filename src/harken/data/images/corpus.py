"""From a `[data]` table about pictures to the corpus it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harken.data.images.caption_table import read_captions, split_pictures
from harken.data.images.captioned import CaptionCorpus
from harken.data.images.flickr8k import load_flickr8k
from harken.data.synthetic.scenes.splits import load_scenes


def read_caption_corpus(config: Any) -> CaptionCorpus:
    """All splits of scenes, of Flickr8k, or of tables.

    Raises:
        UserError: what cannot be read, with its place.
    """
    size = config.image_size
    if config.corpus == "scenes":
        return load_scenes(config.seed, config.scenes, size=size, most=config.things)
    if config.corpus == "flickr8k":
        return load_flickr8k(config.dir, size)
    tables = {name: getattr(config, name) for name in ("table", "valid", "test") if getattr(config, name)}
    columns = config.image_column, config.caption_column
    found = {name: read_captions(table, config.images, size, *columns) for name, table in tables.items()}
    name = Path(config.table).name.split(".")[0]
    if "valid" not in found:
        corpus = split_pictures(
            found["table"], config.valid_size, 0 if config.test else config.test_size, config.seed, name
        )
    else:
        corpus = CaptionCorpus(name, found["table"], found["valid"], {})
    if "test" in found:
        corpus.tests["test"] = found["test"]
    return corpus
