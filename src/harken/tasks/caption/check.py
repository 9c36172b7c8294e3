"""`harken check` of a captioning recipe."""

from __future__ import annotations

from harken.data.images.caption_table import pictures_of
from harken.data.images.flickr8k import SPLITS, TOKENS, find
from harken.data.io.files import require_file
from harken.data.io.table import read_table
from harken.files import expand_user
from harken.models.captioning.model import build_caption_model
from harken.models.sizing import measure, uninitialised
from harken.tasks.caption.recipe import CaptionRecipe
from harken.tasks.estimates import vocabulary_notes
from harken.tasks.registry import Estimate

CAPTION = 12  # tokens of a caption, with EOS


def estimate(recipe: CaptionRecipe) -> Estimate:
    """Check the files, and measure the network for a full vocabulary; the image is shared by the words of a caption.

    Raises:
        UserError: the error that training would raise.
    """
    corpus, terms = describe(recipe)
    size = recipe.data.image_size
    model = uninitialised(lambda: build_caption_model(recipe.model, size, recipe.tokenizer.size))
    return Estimate(corpus, terms, measure(model, CAPTION), vocabulary_notes(recipe.tokenizer))


def describe(recipe: CaptionRecipe) -> tuple[str, int | None]:
    """A description of the training images, and about how many words their captions have."""
    data = recipe.data
    if data.corpus == "scenes":
        return f"scenes, {data.scenes:,} pictures drawn by harken", data.scenes * CAPTION
    if data.corpus == "flickr8k":
        folder = expand_user(data.dir or "")
        for name in (TOKENS, *SPLITS.values()):
            find(folder, name)
        return f"flickr8k in {folder}", None
    table = require_file(data.train or "")
    pictures_of(table, data.images)
    captions = read_table(table, [data.image_column, data.caption_column])[data.caption_column]
    return f"{table}, {len(captions):,} captions", sum(len(str(text).split()) + 1 for text in captions)
