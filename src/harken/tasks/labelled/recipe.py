"""The sections that recipes for labelled examples share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field, model_validator

from harken.data.text.config import TokenizerConfig
from harken.data.text.examples_config import ExamplesConfig
from harken.data.text.scripts import UNSPACED, script_of
from harken.models.config import EncoderConfig
from harken.models.config_embeddings import SECTION, EmbeddingsInContext, EmbeddingsInContextConfig
from harken.models.heads.config import PoolingConfig
from harken.models.recurrent.config import RecurrentEncoderConfig
from harken.recipe import TEXT_NAMES, Recipe, TableColumn

LABEL_NAMES = ("label", "class", "category", "target", "sentiment", "topic", "tag", "intent", "y")


class LabelledRecipe(Recipe):
    """Labelled texts or signals, an encoder, and a section of its own (`head`) for what comes after."""

    input_column = TableColumn("text_column", ("text",), "text", TEXT_NAMES)

    data: ExamplesConfig = Field(description="where the labelled examples come from")
    tokenizer: TokenizerConfig = Field(
        TokenizerConfig.model_validate({"kind": "word", "size": 20000}), description="text: how it is tokenized"
    )
    embeddings: EmbeddingsInContext = Field(EmbeddingsInContextConfig.model_validate({}), description=SECTION)
    model: EncoderConfig = Field(
        RecurrentEncoderConfig.model_validate({}), description="the encoder; architecture chooses it"
    )

    @classmethod
    def default_tables(cls, texts: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Characters of single words and of scripts without spaces, else the default.

        >>> [LabelledRecipe.default_tables(texts) for texts in (["a good film"], ["Miller", "Cruz"], ["良い映画です"])]
        [{}, {'tokenizer': {'kind': 'character'}}, {'tokenizer': {'kind': 'character'}}]
        """
        words = sum(len(text.split()) for text in texts) / max(1, len(texts))
        return {"tokenizer": {"kind": "character"}} if words < 1.5 or script_of(texts) in UNSPACED else {}

    @property
    def head(self) -> PoolingConfig:
        """The section on how what was read becomes an answer."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _compatible_initial_weights(self) -> LabelledRecipe:
        words, elmo, start = self.embeddings.words, self.embeddings.elmo, self.model.start
        if start is not None and words is not None:
            raise ValueError("model.start and embeddings.words both say how the embeddings begin; keep one of them")
        if start is not None and self.data.kind != "text":
            raise ValueError("model.start is for texts: a masked model reads no signals; leave it out")
        if elmo is not None and (self.data.kind != "text" or self.tokenizer.kind != "word"):
            raise ValueError('embeddings.elmo is of words: set data.kind = "text" and tokenizer.kind = "word"')
        if words is not None and self.data.kind != "text":
            raise ValueError("embeddings.words are vectors of words, and signals have none; leave them out")
        if elmo is not None and start is not None:
            raise ValueError(
                "model.start and embeddings.elmo are both given, but the encoder of a masked model reads "
                "words alone; keep one of them"
            )
        return self
