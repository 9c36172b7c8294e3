"""Pretrained embeddings in a recipe: `embeddings = "PLACE"`, or a table `[embeddings]`.

    embeddings = "runs/wiki"                              initialised from these vectors, fine-tuned
    embeddings = {words = "runs/wiki", tuned = false}     frozen

>>> as_table("runs/wiki"), as_table({"words": "runs/wiki", "tuned": False})
({'words': 'runs/wiki'}, {'words': 'runs/wiki', 'tuned': False})
>>> in_one_table({"classifier": {"vectors": "own", "dropout": 0.1}}, "classifier")
{'classifier': {'dropout': 0.1}, 'embeddings': {'words': 'own'}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

WORDS = (
    "word vectors that the embeddings begin as: a folder of harken embed train, a word2vec or GloVe file, or own, "
    "which learns them from the training texts first"
)
SECTION = "word vectors to begin with; embeddings = PLACE is short for the key words"
OLDER = {"vectors": "words", "freeze": "tuned", "elmo": "elmo"}  # what the keys were called beside a job's own ones


class EmbeddingsConfig(BaseModel):
    """Vectors of words."""

    model_config = ConfigDict(extra="forbid")

    words: str | None = Field(None, description=WORDS)
    centred: bool = Field(
        False, description="take off the mean of all vectors, which tells no word from another (Mu and Viswanath, 2018)"
    )
    tuned: bool = Field(True, description="train the embeddings with the model; false: leave them as they begin")

    def of(self, side: str) -> str | None:
        """Where the vectors of a side are: `words`, unless the side has its own."""
        place: str | None = getattr(self, side, None)
        return place if place is not None else self.words


class EmbeddingsInContextConfig(EmbeddingsConfig):
    """Vectors of words, and of words where they stand."""

    elmo: str | None = Field(
        None,
        description="folder of a model with the task elmo or language, whose frozen layers, mixed by learned weights, "
        "are read beside the word vectors",
    )


class SidedEmbeddingsConfig(EmbeddingsConfig):
    """Vectors of the words of two languages."""

    source: str | None = Field(None, description="the same for the words of the source alone, in the place of words")
    target: str | None = Field(None, description="the same for the words of the target alone, in the place of words")


def as_table(value: Any) -> Any:
    """A place alone is short for a table with the key `words`."""
    if isinstance(value, str):
        return {} if value == "none" else {"words": value}
    return value


def in_one_table(values: Any, section: str) -> Any:
    """A recipe that says it in a job's own section (`classifier.vectors`, `freeze`, `elmo`), as its folders may."""
    if not isinstance(values, Mapping) or not isinstance(values.get(section), Mapping):
        return values
    older = {OLDER[key]: value for key, value in values[section].items() if key in OLDER and value != "none"}
    if not older:
        return values
    if "tuned" in older:
        older["tuned"] = not older["tuned"]
    own = {key: value for key, value in values[section].items() if key not in OLDER}
    said = as_table(values.get("embeddings", {}))
    return {**values, section: own, "embeddings": {**older, **said}}


Embeddings = Annotated[EmbeddingsConfig, BeforeValidator(as_table)]
EmbeddingsInContext = Annotated[EmbeddingsInContextConfig, BeforeValidator(as_table)]
SidedEmbeddings = Annotated[SidedEmbeddingsConfig, BeforeValidator(as_table)]
