"""From a recipe for masked pre-training to a run, and from a folder to a `MaskedReader`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.data.splits import skipped_lines
from harken.data.tokenizers.base import JOINT, Tokenizer, load_tokenizer, train_tokenizer
from harken.errors import UserError
from harken.tasks.job import Job, Prepared
from harken.tasks.masked.check import size_of
from harken.tasks.masked.masked_reader import MaskedReader, build_masked_model
from harken.tasks.masked.recipe import MaskedRecipe
from harken.tasks.masked.task import MaskedTask
from harken.tasks.masked.text import as_rows, read_files, read_text
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, words_of
from harken.tasks.scores import Scores

if TYPE_CHECKING:
    from harken.inspection.picture import Picture


class MaskedJob(Job):
    """See `harken.tasks.job`."""

    usage = "harken attention {} 'a [MASK] sentence'"
    example_input = "the black [MASK] sleeps"

    def prepare(self, recipe: MaskedRecipe, folder: Path, resuming: bool) -> Prepared:
        text = read_text(recipe.data)
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = load_tokenizer(folder, JOINT) if resuming else learn_tokenizer(recipe, text.train)
        tokenizer.save(folder, JOINT)
        model, pretrained = build_masked_model(recipe, tokenizer.size), PretrainedEmbeddings(recipe, folder, resuming)
        pretrained.fill(model.table, words_of(tokenizer), text.train, width_key(recipe.model))
        limit = recipe.data.max_tokens
        train, valid = (as_rows(lines, tokenizer, limit) for lines in (text.train, text.valid))
        task = MaskedTask(recipe.train, model, tokenizer.size, recipe.masking.rate, train, valid)
        tokens = f"{len(train.flat):,} training tokens in {len(train):,} rows, {len(valid.flat):,} for validation"
        parameters = sum(parameter.numel() for parameter in model.parameters())
        return Prepared(
            task,
            title=f"{text.name} masked, {recipe.model.title}",
            facts={
                "data": f"{text.name}: {tokens}",
                "vocabulary": f"{recipe.tokenizer.kind}, {tokenizer.size:,} pieces",
                **pretrained.facts,
            },
            lines=[
                f"{text.name}: {tokens}",
                f"{recipe.model.title}: {parameters:,} parameters, {tokenizer.size:,} {recipe.tokenizer.kind} pieces",
                *pretrained.said,
                *skipped_lines(text.skipped),
            ],
            flops_per_token=size_of(model, recipe).flops,
        )

    def load(self, folder: Path, recipe: MaskedRecipe, device: str) -> MaskedReader:
        return MaskedReader.load(folder, recipe, device)

    def artifact_names(self) -> frozenset[str]:
        return frozenset((f"{JOINT}.model", f"{JOINT}.json"))

    def evaluate(
        self, model: MaskedReader, split: str | None, files: list[Path], progress: Callable[[int], None]
    ) -> Scores:
        if files:
            return model.evaluate(read_files(model.recipe.data, files), progress=progress)
        return model.evaluate(self.examples(model, split or "test"), progress=progress)

    def examples(self, model: MaskedReader, split: str) -> list[Any]:
        text = read_text(model.recipe.data)
        splits = {"valid": text.valid, **({"test": text.test} if text.test else {})}
        if split not in splits:
            raise UserError(f"{text.name} has no split {split!r}; choose --split {' or '.join(splits)}, or give a file")
        return list(splits[split])

    def look(self, model: MaskedReader, example: str) -> Picture:
        return model.picture(example)

    def validation(self, best: dict[str, Any]) -> str:
        return f"perplexity of hidden words {best['perplexity']:.2f}, {best['accuracy']:.1%} of them guessed"


JOB = MaskedJob()


def learn_tokenizer(recipe: MaskedRecipe, lines: list[str]) -> Tokenizer:
    """From the training lines."""
    config = recipe.tokenizer
    return train_tokenizer(
        config.kind,
        lines,
        config.size,
        recipe.train.seed,
        min_count=config.min_count,
        character_coverage=config.character_coverage,
        byte_fallback=config.byte_fallback,
        normalization=config.normalization,
        max_lines=config.max_lines,
    )
