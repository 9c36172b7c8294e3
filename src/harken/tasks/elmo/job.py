"""From a recipe for ELMo to a run, and from a folder to an `Elmo`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harken.data.splits import skipped_lines
from harken.data.text.lines import read_files, read_line_splits
from harken.data.tokenizers.tokens import SPECIALS
from harken.errors import UserError
from harken.models.sizing import SENTENCE, measure
from harken.tasks.elmo.elmo import Elmo, build_elmo
from harken.tasks.elmo.recipe import ElmoRecipe
from harken.tasks.elmo.rows import ElmoRows, cut, learn_vocabulary
from harken.tasks.elmo.task import ElmoTask
from harken.tasks.job import Job, Prepared
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings
from harken.tasks.scores import Scores
from harken.tasks.words import FILE, Vocabulary


class ElmoJob(Job):
    """See `harken.tasks.job`."""

    def prepare(self, recipe: ElmoRecipe, folder: Path, resuming: bool) -> Prepared:
        text = read_line_splits(recipe.data)
        folder.mkdir(parents=True, exist_ok=True)
        lower = recipe.data.lowercase
        splits = [
            [[word.lower() for word in words] if lower else words for words in cut(lines, recipe.data.max_tokens)]
            for lines in (text.train, text.valid)
        ]
        train, valid = splits
        settings = recipe.words
        vocabulary = Vocabulary.load(folder) if resuming else learn_vocabulary(train, settings.size, settings.min_count)
        if not vocabulary.words:
            raise UserError(
                f"no word of {text.name} is seen words.min_count {settings.min_count} times; lower it, or give more "
                "text"
            )
        vocabulary.save(folder)
        model, pretrained = build_elmo(recipe, vocabulary), PretrainedEmbeddings(recipe, folder, resuming)
        names = [*([None] * len(SPECIALS)), *vocabulary.words]
        pretrained.fill(model.output.weight, names, text.train, "model.width")
        task = ElmoTask(recipe.train, model, *(ElmoRows(split, vocabulary) for split in splits))
        words = f"{sum(map(len, train)):,} training words in {len(train):,} rows, {sum(map(len, valid)):,} to validate"
        known = f"{len(vocabulary.words):,} words to predict, {len(vocabulary.characters):,} characters"
        parameters = sum(parameter.numel() for parameter in model.parameters())
        return Prepared(
            task,
            title=f"{text.name}, {recipe.model.title}",
            facts={"data": f"{text.name}: {words}", "vocabulary": known, **pretrained.facts},
            lines=[
                f"{text.name}: {words}",
                f"{recipe.model.title}: {parameters:,} parameters, {known}",
                *pretrained.said,
                *skipped_lines(text.skipped),
            ],
            flops_per_token=measure(model, SENTENCE, terms=2 * (SENTENCE - 1)).flops,
        )

    def load(self, folder: Path, recipe: ElmoRecipe, device: str) -> Elmo:
        return Elmo.load(folder, recipe, device)

    def artifact_names(self) -> frozenset[str]:
        return frozenset((FILE,))

    def evaluate(self, model: Elmo, split: str | None, files: list[Path], progress: Callable[[int], None]) -> Scores:
        lines = read_files(model.recipe.data, files) if files else self.examples(model, split or "test")
        return model.evaluate(lines, progress=progress)

    def examples(self, model: Elmo, split: str) -> list[str]:
        text = read_line_splits(model.recipe.data)
        splits = {"valid": text.valid, **({"test": text.test} if text.test else {})}
        if split not in splits:
            raise UserError(f"{text.name} has no split {split!r}; choose --split {' or '.join(splits)}, or give a file")
        return splits[split]

    def validation(self, best: dict[str, Any]) -> str:
        return (
            f"perplexity {best['perplexity']:.2f} (forward {best['forward_perplexity']:.2f}, "
            f"backward {best['backward_perplexity']:.2f})"
        )


JOB = ElmoJob()
