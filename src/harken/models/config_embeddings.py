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

from harken.paths import PathStr, VectorsPath

WORDS = (
    "initialise the embeddings from these: a folder of harken embed train, a word2vec or GloVe file, or own, which "
    "trains them on the training texts first"
)
SECTION = "pretrained embeddings; embeddings = PATH is short for the key words"
OLDER = {"vectors": "words", "freeze": "tuned", "elmo": "elmo"}  # the names of the keys in older recipes


class EmbeddingsConfig(BaseModel):
    """Pretrained word embeddings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    words: VectorsPath | None = Field(None, description=WORDS)
    centred: bool = Field(False, description="subtract the mean of all vectors (Mu and Viswanath, 2018)")
    tuned: bool = Field(True, description="fine-tune the embeddings; false: freeze them")

    def of(self, side: str) -> str | None:
        """Where the vectors of a side are: `words`, unless the side has its own."""
        path: str | None = getattr(self, side, None)
        return path if path is not None else self.words


class EmbeddingsInContextConfig(EmbeddingsConfig):
    """Pretrained word embeddings, and contextual embeddings."""

    elmo: PathStr | None = Field(
        None,
        description=(
            "folder of a model with the task elmo or language; a learned mixture of its frozen layers is "
            "an additional input"
        ),
    )


class SidedEmbeddingsConfig(EmbeddingsConfig):
    """Pretrained word embeddings of two languages."""

    source: VectorsPath | None = Field(None, description="the same for the source side only; replaces words")
    target: VectorsPath | None = Field(None, description="the same for the target side only; replaces words")


def as_table(value: Any) -> Any:
    """A path alone is short for a table with the key `words`."""
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
