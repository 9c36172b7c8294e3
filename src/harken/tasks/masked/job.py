"""From a recipe for masked pre-training to a run, and from a folder to a `MaskedLanguageModel`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harken.data.rows import rows_of
from harken.data.text.lines import Lines
from harken.data.tokenizers.base import Tokenizer, train_tokenizer
from harken.inspection.pictures.picture import Picture
from harken.models.heads.masked import FIRST_WORD, MaskedModel
from harken.models.sizing import Size, measure
from harken.tasks.job import Prepared, Summary
from harken.tasks.lines_job import LinesJob
from harken.tasks.masked.interface import INTERFACE, FillOptions
from harken.tasks.masked.masked_language_model import TOKENIZER, FilledText, MaskedLanguageModel, build_masked_model
from harken.tasks.masked.recipe import MaskedRecipe
from harken.tasks.masked.task import MaskedTask, as_rows
from harken.tasks.predictor import Progress
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, words_of

LENGTH = 20  # tokens of the row whose cost is measured


class MaskedJob(LinesJob):
    """See `harken.tasks.lines_job`."""

    predictor = MaskedLanguageModel
    artifacts = (TOKENIZER,)
    interface = INTERFACE

    def prepare_data(self, recipe: MaskedRecipe, text: Lines, folder: Path, resuming: bool) -> Prepared:
        tokenizer = TOKENIZER.learn_or_load(folder, resuming, lambda: learn_tokenizer(recipe, text.train))
        model, pretrained = build_masked_model(recipe, tokenizer.size), PretrainedEmbeddings(recipe, folder, resuming)
        pretrained.fill(model.table, words_of(tokenizer), text.train, width_key(recipe.model))
        train, valid = (as_rows(lines, tokenizer, recipe.data.max_tokens) for lines in (text.train, text.valid))
        task = MaskedTask(recipe.train, model, tokenizer.size, recipe.masking.rate, train, valid)
        reads = f"{tokenizer.size:,} {recipe.tokenizer.kind} pieces"
        summary = Summary(
            text.name,
            recipe.model.title,
            len(train.flat),
            len(valid.flat),
            unit="tokens",
            data_summary=f"{len(train):,} rows",
            input_summary=reads,
            languages="masked",
            skipped=text.skipped,
            skipped_unit="lines",
            facts={"vocabulary": reads, **pretrained.facts},
            notes=pretrained.said,
        )
        masked = recipe.masking.rate * max(float((train.flat >= FIRST_WORD).mean()), 1e-6)  # share of all tokens
        return summary.prepared(task, size_of(model, recipe).flops / masked, text)

    def predict(
        self, model: MaskedLanguageModel, examples: Sequence[str], options: FillOptions, progress: Progress
    ) -> list[FilledText]:
        return [FilledText(model.fill(text, options.count)) for text in examples]

    def attention_figure(self, model: MaskedLanguageModel, example: str) -> Picture:
        return model.picture(example)

    def validation(self, best: dict[str, Any]) -> str:
        return f"perplexity of masked words {best['perplexity']:.2f}, {best['accuracy']:.1%} of them predicted"


JOB = MaskedJob()


def learn_tokenizer(recipe: MaskedRecipe, lines: Sequence[str]) -> Tokenizer:
    """From the training lines."""
    config = recipe.tokenizer

    def learn(texts: Sequence[str]) -> Tokenizer:
        return train_tokenizer(
            config.kind,
            texts,
            config.size,
            recipe.train.seed,
            min_count=config.min_count,
            character_coverage=config.character_coverage,
            byte_fallback=config.byte_fallback,
            normalization=config.normalization,
            max_lines=config.max_lines,
        )

    return rows_of(lines).cached_tokenizer([config.model_dump(), recipe.train.seed], learn)


def size_of(model: MaskedModel, recipe: MaskedRecipe) -> Size:
    """The size of a network whose output layer reads the masked share of the tokens."""
    length = min(LENGTH, recipe.model.longest or LENGTH)
    return measure(model, length, run=lambda count: model.dry_run(count, recipe.masking.rate), lengths=(length,))
