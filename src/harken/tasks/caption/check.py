"""What can be said of a recipe for captioning before anything is read whole or trained."""

from __future__ import annotations

from harken.data.images.caption_table import pictures_of
from harken.data.images.flickr8k import SPLITS, TOKENS, find
from harken.data.io.files import require_file
from harken.data.io.table import read_table
from harken.models.captioning.size import TYPICAL_CAPTION, size_of_captioner
from harken.tasks.caption.recipe import CaptionRecipe
from harken.tasks.registry import Estimate


def estimate(recipe: CaptionRecipe) -> Estimate:
    """Files that are there, and the size of it all.

    Raises:
        UserError: what is wrong, as training would say it.
    """
    corpus, terms = describe(recipe)
    size = size_of_captioner(recipe.model, recipe.data.image_size, recipe.tokenizer.size)
    notes = []
    if recipe.tokenizer.kind in ("word", "character"):
        notes.append(f"the vocabulary may end before tokenizer.size {recipe.tokenizer.size:,}: sizes are upper bounds")
    return Estimate(corpus, terms, size, notes)


def describe(recipe: CaptionRecipe) -> tuple[str, int | None]:
    """The training pictures in words, and about how many words their captions have."""
    from pathlib import Path

    data = recipe.data
    if data.corpus == "scenes":
        return f"scenes, {data.scenes:,} pictures drawn by harken", data.scenes * TYPICAL_CAPTION
    if data.corpus == "flickr8k":
        folder = Path(data.dir or "").expanduser()
        for name in (TOKENS, *SPLITS.values()):
            find(folder, name)
        return f"flickr8k in {folder}", None
    table = require_file(data.table or "")
    pictures_of(table, data.images)
    captions = read_table(table, [data.image_column, data.caption_column])[data.caption_column]
    return f"{table}, {len(captions):,} captions", sum(len(str(text).split()) + 1 for text in captions)
