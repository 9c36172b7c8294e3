"""From a recipe for a language model to a run, and from a folder to a `LanguageModel`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from harken.data.text.texts import TextCorpus, read_texts
from harken.data.tokenizers.base import JOINT, Tokenizer, load_tokenizer, train_tokenizer
from harken.errors import UserError
from harken.models.build import build_language
from harken.models.sizing import measure
from harken.tasks.job import Job, Prepared
from harken.tasks.language.evaluation import evaluate
from harken.tasks.language.language_model import LanguageModel
from harken.tasks.language.recipe import LanguageRecipe
from harken.tasks.language.task import LanguageTask
from harken.tasks.language.text_ids import corpus_ids
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, words_of
from harken.tasks.scores import Scores

if TYPE_CHECKING:
    from harken.inspection.picture import Picture

PLAIN = {"word": "plain word", "character": "plain character"}
LEAST_TOKENS = 3


class LanguageJob(Job):
    """See `harken.tasks.job`."""

    usage = "harken generate {}"

    def prepare(self, recipe: LanguageRecipe, folder: Path, resuming: bool) -> Prepared:
        corpus = read_texts(recipe.data)
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = tokenizer_of(recipe, corpus, folder, resuming)
        model, pretrained = build_language(recipe.model, tokenizer.size), PretrainedEmbeddings(recipe, folder, resuming)
        pretrained.fill(model.embedding.weight, words_of(tokenizer), corpus.train, width_key(recipe.model))
        train, valid = (corpus_ids(tokenizer, lines, recipe.data.lines) for lines in (corpus.train, corpus.valid))
        if min(len(train), len(valid)) < LEAST_TOKENS:
            raise UserError(f"{corpus.name} has fewer than {LEAST_TOKENS - 1} tokens to train or validate on; add text")
        task = LanguageTask(recipe, model, train, valid)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        count = f"{len(train) - 1:,} training tokens, {len(valid) - 1:,} for validation"
        how = "their states carried from chunk to chunk" if recipe.carries else "each for itself"
        return Prepared(
            task,
            title=f"{corpus.name}, {recipe.model.title} language model",
            facts={
                "data": f"{corpus.name}: {count}",
                "vocabulary": f"{tokenizer.size:,} {recipe.tokenizer.kind} pieces",
                "batches": f"{task.streams} streams of {recipe.data.chunk} tokens, {how}",
                **pretrained.facts,
            },
            lines=[
                f"{corpus.name}: {count}",
                f"{recipe.model.title}: {parameters:,} parameters, {tokenizer.size:,} {recipe.tokenizer.kind} pieces",
                *pretrained.said,
            ],
            flops_per_token=measure(model, recipe.data.chunk).flops,
        )

    def load(self, folder: Path, recipe: LanguageRecipe, device: str) -> LanguageModel:
        return LanguageModel.load(folder, recipe, device)

    def artifact_names(self) -> frozenset[str]:
        return frozenset((f"{JOINT}.model", f"{JOINT}.json"))

    def evaluate(
        self, model: LanguageModel, split: str | None, files: list[Path], progress: Callable[[int], None]
    ) -> Scores:
        corpus = None if files and not model.recipe.data.ngram else _corpus_or_none(model, bool(files))
        if files:
            from harken.data.io.files import read_lines
            from harken.data.text.texts import LONGEST_LINE

            lines = [line for file in files for line in read_lines(file, LONGEST_LINE)]
            if not any(line.strip() for line in lines):
                raise UserError(f"{files[0]} holds no text to score; give a file with some words")
            return evaluate(model, lines, None if corpus is None else corpus.train, progress)
        assert corpus is not None
        return evaluate(model, corpus.split(split or "test"), corpus.train, progress)

    def look(self, model: LanguageModel, example: str) -> Picture:
        return model.surprisal(example)

    def examples(self, model: LanguageModel, split: str) -> list[str]:
        lines = read_texts(model.recipe.data).split(split)
        return [line for line in lines if line.strip()]


JOB = LanguageJob()


def tokenizer_of(recipe: LanguageRecipe, corpus: TextCorpus, folder: Path, resuming: bool) -> Tokenizer:
    """That of the folder where a run goes on, else trained on the training text."""
    if resuming:
        return load_tokenizer(folder, JOINT)
    settings = recipe.tokenizer
    kind, seed = PLAIN.get(settings.kind, settings.kind), recipe.train.seed
    tokenizer = train_tokenizer(kind, corpus.train, settings.size, seed, min_count=settings.min_count)
    tokenizer.save(folder, JOINT)
    return tokenizer


def _corpus_or_none(model: LanguageModel, optional: bool) -> TextCorpus | None:
    """The model's own corpus; where it is wanted for the baseline alone, it may be gone."""
    try:
        return read_texts(model.recipe.data)
    except UserError:
        if optional:
            return None
        raise
