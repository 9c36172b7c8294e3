"""Recipes for classification: their keys and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from harken.errors import UserError
from harken.models.config_embeddings import in_one_table
from harken.models.heads.config import PoolingConfig
from harken.recipe import TableColumn
from harken.tasks.labelled.recipe import LABEL_NAMES, LabelledRecipe

TEXT_MODEL = {
    "architecture": "convolutional",
    "layers": 1,
    "embedding": 128,
    "width": 128,
    "kernel": 3,
    "dropout": 0.4,
    "positions": "none",
}
TEXT_CLASSIFIER = {
    "pooling": "mean",
    "dropout": 0.5,
    "word_dropout": 0.5,
    "members": 3,
    "ngrams": "auto",
    "choose_by": "loss",
}

SIGNAL_MODEL = {"architecture": "recurrent", "cell": "gru", "embedding": 64, "width": 128, "dropout": 0.3}
SIGNAL_CLASSIFIER = {"dropout": 0.3, "noise": 0.2, "choose_by": "loss"}


class ClassifierConfig(PoolingConfig):
    """From the encoder states to a label."""

    members: int = Field(
        1,
        ge=1,
        description="ensemble size: networks trained together on shared embeddings, whose probabilities are averaged",
    )
    dropout: float = Field(0.2, ge=0, lt=1, description="dropout on the pooled vector")
    word_dropout: float = Field(
        0.0, ge=0, lt=1, description="text: probability of replacing a word by the unknown word in training"
    )
    noise: float = Field(
        0.0,
        ge=0,
        description="signals: standard deviation of Gaussian noise added in training, relative to each channel's",
    )
    fine: bool = Field(
        False,
        description=(
            "train on the labels of the files, before data.label_until and data.names merge them, and sum"
            " the probabilities of merged labels"
        ),
    )
    ngrams: Literal["auto", "none"] = Field(
        "none",
        description=(
            "text: auto fits a linear classifier of n-grams of words and characters beside the network, and combines"
            " both by scales fitted on the validation examples; auto is the default of a recipe without [model]"
        ),
    )
    calibrate: bool = Field(
        True, description="fit the temperature of the probabilities on the validation examples; labels stay the same"
    )
    class_weights: Literal["none", "balanced"] = Field(
        "none", description="balanced: weight every class equally in the loss"
    )
    choose_by: Literal["accuracy", "macro_f1", "loss"] = Field(
        "accuracy", description="validation metric that selects the best weights; use loss if few examples are held out"
    )


class ClassifyRecipe(LabelledRecipe):
    """Recipe for classification."""

    input_column = LabelledRecipe.input_column._replace(is_joined=True)
    target_column = TableColumn("label_column", ("label",), "label", LABEL_NAMES)

    task: Literal["classify"] = Field("classify", description="the job")
    classifier: ClassifierConfig = Field(
        ClassifierConfig.model_validate({}), description="from the encoder states to a label"
    )

    @property
    def head(self) -> ClassifierConfig:
        return self.classifier

    @model_validator(mode="before")
    @classmethod
    def _older_keys(cls, values: Any) -> Any:
        return in_one_table(values, "classifier")

    @model_validator(mode="before")
    @classmethod
    def _default_network(cls, values: Any) -> Any:
        """Without `[model]`, an ensemble of small convolutions reads texts, and a small GRU signals.

        Both learn fast from few examples: an update of this GRU takes an eighth of the time of an LSTM of width 512.
        """
        data = values.get("data") if isinstance(values, Mapping) else None
        if not isinstance(data, Mapping) or "model" in values or "embeddings" in values:
            return values
        given, train = values.get("classifier", {}), values.get("train", {})
        if not isinstance(given, Mapping):
            return values
        if data.get("kind") == "signal":
            return {**values, "model": SIGNAL_MODEL, "classifier": {**SIGNAL_CLASSIFIER, **given}}
        if data.get("kind", "text") != "text" or data.get("corpus") == "gestures":
            return values
        return {
            **values,
            "train": {"learning_rate": 1e-3, **train} if isinstance(train, Mapping) else train,
            "data": {"lowercase": True, **data},
            "model": TEXT_MODEL,
            "classifier": {**TEXT_CLASSIFIER, **given},
        }

    @model_validator(mode="after")
    def _compatible_options(self) -> ClassifyRecipe:
        if self.classifier.ngrams == "auto" and not (self.classifier.calibrate and self.data.kind == "text"):
            raise ValueError(
                'classifier.ngrams = "auto" needs texts and classifier.calibrate = true, which fits its scale; set '
                'classifier.ngrams = "none"'
            )
        if self.classifier.members > 1 and self.model.start is not None:
            raise ValueError("model.start is for one encoder, but classifier.members asks for more; keep one of them")
        return self

    def require_data(self, origin: str) -> None:
        """Recipes for data that does not ship name its files and leave the folder to the user."""
        data = self.data
        if data.corpus or data.dir:
            return
        if data.train is None:
            raise UserError(f"{origin} names no data: set data.train to files, or data.corpus to opinions or gestures")
        first = data.train if isinstance(data.train, str) else data.train[0]
        if origin == f"recipe {self.data.name}-classify" and not Path(first).exists():
            raise UserError(f"{origin} does not say where its data is: add --set data.dir=DIR, where {first} is")


RECIPE = ClassifyRecipe
