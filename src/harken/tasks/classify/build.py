"""From a recipe for classification to its network."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from harken.models.build import build_encoder
from harken.models.heads.classifier import ClassifierModel
from harken.models.reader import FrameInput, Reader, TokenInput
from harken.tasks.classify.recipe import ClassifyRecipe
from harken.tasks.context import Context


def build_classifier(
    recipe: ClassifyRecipe,
    inputs: int,
    labels: int,
    context: Context | None = None,
    merged: Sequence[int] | None = None,
) -> ClassifierModel:
    """A new network for `inputs` ids or channels, with weights drawn from torch's current random state.

    `merged` says for each of the `labels` which of fewer it belongs to.

    Raises:
        UserError: words that do not go together.
    """
    encoder, chosen = build_encoder(recipe.model, may_start=True), recipe.classifier
    reads: nn.Module = (
        TokenInput(inputs, encoder.embedding) if recipe.data.kind == "text" else FrameInput(inputs, encoder.embedding)
    )
    if context is not None:
        reads = context.beside(reads, encoder.embedding)
    return ClassifierModel(
        Reader(reads, encoder),
        labels,
        pooling=chosen.pooling,
        score=chosen.score,
        dropout=chosen.dropout,
        word_dropout=chosen.word_dropout,
        noise=chosen.noise,
        merged=merged,
        others=[build_encoder(recipe.model) for _ in range(chosen.members - 1)],
    )
