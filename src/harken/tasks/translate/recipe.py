"""Recipes for translation: their keys and defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from harken.data.text.config import DataConfig, TokenizerConfig
from harken.errors import UserError
from harken.models.config import ModelConfig, TransformerConfig
from harken.models.config_embeddings import SECTION, SidedEmbeddings, SidedEmbeddingsConfig
from harken.paths import Files, PathStr
from harken.recipe import Recipe, Section, TableColumn, model_recipe
from harken.search.config import TranslationSearchConfig

FINE_TUNING, LOW_RANK = 0.1, 1.0  # of the learning rate that a network is trained from scratch with
PATIENCE = 2  # validations without improvement, of about eight


class AdaptConfig(Section):
    """A translator to start from, and pairs that keep it from forgetting what it knows."""

    start: PathStr | None = Field(
        None,
        description=(
            "fine-tune the translator in this folder: its network, tokenizers and search are taken over; the rate is a "
            "tenth of that of training from scratch, and early stopping waits for 2 validations, where [train] leaves "
            "them open"
        ),
    )
    rank: int | None = Field(
        None,
        ge=1,
        description=(
            "with start: train an adapter (LoRA) of this rank and save it alone; to use it, the start has to be there, "
            "unchanged. The rate is that of training from scratch, where [train] leaves it open"
        ),
    )
    mix: Files | None = Field(
        None, description="with start: files of general pairs to rehearse, each with both sides; some are held out"
    )
    mix_share: float = Field(
        0.5, gt=0, lt=1, description="share of rehearsed pairs in every epoch, drawn anew for each"
    )

    int8: bool = Field(
        False,
        description=(
            "with start: round weights and inputs of every product as int8 decoding does, so that the network learns "
            "to compute with it"
        ),
    )

    @model_validator(mode="after")
    def _int8_needs_start(self) -> Self:
        if self.int8 and self.start is None:
            raise ValueError("adapt.int8 fine-tunes a translator: set adapt.start to its folder, or leave int8 out")
        return self

    @model_validator(mode="after")
    def _others_need_start(self) -> Self:
        if self.rank is not None and self.start is None:
            raise ValueError("adapt.rank adapts a model: set adapt.start to its folder, or leave rank out")
        if self.mix is not None and self.start is None:
            raise ValueError("adapt.mix rehearses what a model knows: set adapt.start to its folder, or leave mix out")
        return self


class TranslateRecipe(Recipe):
    """Recipe for translation."""

    input_column = TableColumn("source_column", ("text",), "text")
    target_column = TableColumn("target_column", ("text",), "translation")

    task: Literal["translate"] = Field("translate", description="the job")
    data: DataConfig = Field(description="where the sentence pairs come from")
    tokenizer: TokenizerConfig = Field(TokenizerConfig.model_validate({}), description="how text is tokenized")
    embeddings: SidedEmbeddings = Field(SidedEmbeddingsConfig.model_validate({}), description=SECTION)
    model: ModelConfig = Field(TransformerConfig.model_validate({}), description="the network; architecture chooses it")
    adapt: AdaptConfig = Field(AdaptConfig.model_validate({}), description="a translator to fine-tune")
    search: TranslationSearchConfig = Field(TranslationSearchConfig.model_validate({}), description="beam search")

    @model_validator(mode="after")
    def _tied_needs_joint(self) -> TranslateRecipe:
        if self.model.tied in ("all", "embeddings") and not self.tokenizer.joint:
            raise ValueError(
                f'model.tied is "{self.model.tied}", which needs one vocabulary for both sides: set tokenizer.joint = '
                'true, or model.tied = "output"'
            )
        return self

    @model_validator(mode="after")
    def _one_table_has_one_beginning(self) -> TranslateRecipe:
        sides = [side for side in ("source", "target") if getattr(self.embeddings, side) is not None]
        if self.model.tied in ("all", "embeddings") and sides:
            raise ValueError(
                f'embeddings.{sides[0]} is of one side, but model.tied = "{self.model.tied}" gives both sides one '
                'table: set embeddings.words, or model.tied = "output"'
            )
        return self

    @model_validator(mode="after")
    def _adapters_are_whole(self) -> TranslateRecipe:
        if self.adapt.rank is None:
            return self
        if self.train.sharding == "full":
            raise ValueError('adapt.rank needs whole matrices: set train.sharding = "none"')
        if any(getattr(self.embeddings, side) is not None for side in ("words", "source", "target")):
            raise ValueError("adapt.rank leaves the embeddings as they are: remove [embeddings]")
        return self

    @model_validator(mode="after")
    def _markup_needs_subwords(self) -> TranslateRecipe:
        if self.data.markup != "auto" and self.data.markup and self.tokenizer.kind not in ("bpe", "unigram"):
            raise ValueError(
                f"data.markup names kinds of markup, which are symbols among subwords, but tokenizer.kind is "
                f'"{self.tokenizer.kind}": set tokenizer.kind = "bpe", or data.markup = []'
            )
        return self

    @model_validator(mode="after")
    def _trees_are_there(self) -> TranslateRecipe:
        if self.reads_trees and not self.data.source_heads:
            raise ValueError(
                'model.positions is "dependency", which reads trees: write the head of every source word into the '
                "data (the|2 cat|3 sleeps|0) and set data.source_heads = true"
            )
        return self

    def completed(self) -> Self:
        """The recipe with the tables of the translator of `adapt.start`; its own `[model]` and `[search]` hold.

        Raises:
            UserError: the folder holds no translator.
        """
        if self.adapt.start is None or "tokenizer" in self.model_fields_set:  # a complete recipe stays as it is
            return self
        from harken.training.planning.fitting import peak_rate  # imports torch, which other recipes do not need

        start = model_recipe(Path(self.adapt.start))
        if not isinstance(start, TranslateRecipe):
            raise UserError(f"adapt.start is {self.adapt.start}, a model of the task {start.task!r}; name a translator")
        model, search = (_laid_over(getattr(start, name), getattr(self, name)) for name in ("model", "search"))
        known = ("source_language", "target_language", "lowercase", "source_heads", "markup")
        data = {key: getattr(start.data, key) for key in known if key not in self.data.model_fields_set}
        share = FINE_TUNING if self.adapt.rank is None else LOW_RANK
        train = {"learning_rate": float(f"{share * peak_rate(model):.1g}"), "patience": PATIENCE}
        train = {key: value for key, value in train.items() if key not in self.train.model_fields_set}
        return self.model_copy(
            update={
                "model": model,
                "tokenizer": start.tokenizer,
                "search": search,
                "data": self.data.model_copy(update=data),
                "train": self.train.model_copy(update=train),
            }
        )

    @property
    def reads_trees(self) -> bool:
        """Whether the model is given the trees of the source, and not its words alone."""
        return getattr(self.model, "positions", None) == "dependency"

    def require_data(self, origin: str) -> None:
        """Multi30k's recipes leave the folder and the languages to the user."""
        data = self.data
        if data.corpus or data.source or data.target:
            return
        required = (("--set data.dir=DIR", data.dir), ("--set data.pair=en-de", data.pair))
        missing = [what for what, value in required if not value]
        if missing:
            raise UserError(
                f"{origin} does not say where its data is: add {' '.join(missing)} (DIR is a folder with train.en.gz, "
                "train.de.gz, val.en.gz, val.de.gz and test files), or set data.source and data.target to your files"
            )


def _laid_over(start: Any, own: Any) -> Any:
    """A table of the start with the keys that the recipe sets itself."""
    return start.model_copy(update={key: getattr(own, key) for key in own.model_fields_set if key != "architecture"})


RECIPE = TranslateRecipe
