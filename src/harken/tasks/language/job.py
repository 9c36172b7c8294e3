"""From a recipe for a language model to a run, and from a folder to a `LanguageModel`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harken.data.fingerprints import InputFile
from harken.data.io.files import read_lines
from harken.data.io.in_memory import text_column
from harken.data.rows import rows_of
from harken.data.text.texts import LONGEST_LINE, TextCorpus, cut_off, files_of, read_texts
from harken.data.tokenizers.base import train_tokenizer
from harken.errors import UserError
from harken.inspection.pictures.picture import Picture
from harken.models.build import build_language
from harken.models.sizing import measure
from harken.tasks.job import FileReading, Job, Prepared, Summary
from harken.tasks.language.interface import INTERFACE, GenerateOptions
from harken.tasks.language.language_model import TOKENIZER, LanguageModel
from harken.tasks.language.recipe import LanguageRecipe
from harken.tasks.language.results import Continuations, SurprisingText
from harken.tasks.language.scoring import evaluate
from harken.tasks.language.streams import corpus_ids
from harken.tasks.language.task import LanguageTask
from harken.tasks.predictor import Progress
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, words_of
from harken.tasks.results import Result, Show
from harken.tasks.scores import Scores

PLAIN = {"word": "plain word", "character": "plain character"}
LEAST_TOKENS = 3


SETTINGS = ("length", "temperature", "top_k", "top_p", "min_p", "seed", "line")


class LanguageJob(Job):
    """See `harken.tasks.job`."""

    predictor = LanguageModel
    artifacts = (TOKENIZER,)
    interface = INTERFACE

    def load_data(self, recipe: LanguageRecipe) -> TextCorpus:
        return read_texts(recipe.data)

    def load_table(self, recipe: LanguageRecipe, table: dict[str, list[Any]]) -> TextCorpus:
        data = recipe.data
        return TextCorpus(data.name or "table", *cut_off(text_column(table), (data.valid_size, data.test_size)))

    def input_files(self, recipe: LanguageRecipe) -> list[InputFile]:
        """Of a folder the text files that are read, each by its name."""
        inputs = [source for source in super().input_files(recipe) if source.key != "data.dir"]
        if recipe.data.dir and not recipe.data.train:
            named = {source.path for source in inputs}
            paths = [path for files in files_of(recipe.data).values() for path in files if path not in named]
            inputs += [InputFile("data.dir", path, path.name) for path in paths]
        return inputs

    def prepare_data(self, recipe: LanguageRecipe, corpus: TextCorpus, folder: Path, resuming: bool) -> Prepared:
        settings = recipe.tokenizer
        kind, seed = PLAIN.get(settings.kind, settings.kind), recipe.train.seed
        tokenizer = TOKENIZER.learn_or_load(
            folder,
            resuming,
            lambda: rows_of(corpus.train).cached_tokenizer(
                [settings.model_dump(), seed],
                lambda texts: train_tokenizer(kind, texts, settings.size, seed, min_count=settings.min_count),
            ),
        )
        model, pretrained = build_language(recipe.model, tokenizer.size), PretrainedEmbeddings(recipe, folder, resuming)
        pretrained.fill(model.embedding.weight, words_of(tokenizer), corpus.train, width_key(recipe.model))
        train, valid = (corpus_ids(tokenizer, lines, recipe.data.lines) for lines in (corpus.train, corpus.valid))
        if min(len(train), len(valid)) < LEAST_TOKENS:
            raise UserError(f"{corpus.name} has fewer than {LEAST_TOKENS - 1} tokens to train or validate on; add text")
        task = LanguageTask(recipe, model, train, valid)
        reads = f"{tokenizer.size:,} {settings.kind} pieces"
        how = "their states carried from chunk to chunk" if recipe.carries else "each for itself"
        facts = {"vocabulary": reads, "batches": f"{task.streams} streams of {recipe.data.chunk} tokens, {how}"}
        summary = Summary(
            corpus.name,
            f"{recipe.model.title} language model",
            len(train) - 1,
            len(valid) - 1,
            unit="tokens",
            input_summary=reads,
            facts={**facts, **pretrained.facts},
            notes=pretrained.said,
        )
        return summary.prepared(task, measure(model, recipe.data.chunk).flops, corpus)

    def splits(self, data: TextCorpus) -> dict[str, Sequence[str]]:
        parts = {"train": data.train, "valid": data.valid, "test": data.test}
        return {name: lines for name, lines in parts.items() if lines}

    def read_files(
        self, model: LanguageModel, files: Sequence[Path], reading: FileReading
    ) -> tuple[list[str], list[str]]:
        lines = [line for file in files for line in read_lines(file, LONGEST_LINE)]
        if not any(line.strip() for line in lines):
            raise UserError(f"{files[0]} holds no text to score; give a file with some words")
        return lines, []

    def score(self, model: LanguageModel, examples: Sequence[str], progress: Progress) -> Scores:
        train = None
        with suppress(UserError):  # of the n-gram baseline: the model's own corpus may be gone
            train = self.load_data(model.recipe).train if model.recipe.data.ngram else None
        return evaluate(model, examples, train, progress)

    def predict(
        self, model: LanguageModel, examples: Sequence[str], options: GenerateOptions, progress: Progress
    ) -> list[Result]:
        if options.surprisal:
            return [SurprisingText(model.surprisal(text)) for text in examples]
        return [Continuations(text, model.samples(text, options.count, **settings_of(options))) for text in examples]

    def stream(
        self, model: LanguageModel, example: str, options: GenerateOptions, cancelled: Callable[[], bool]
    ) -> Iterator[str]:
        if options.count != 1:
            raise UserError("a stream has one continuation; leave count out")
        for part in model.stream(example, **settings_of(options)):
            if cancelled():
                return
            yield part

    def show(self, model: LanguageModel, text: str, options: GenerateOptions) -> Show:
        """A continuation, and how surprising each token of prompt and continuation is."""
        continuation = model.generate(text, **settings_of(options))
        whole = text + continuation
        picture = model.surprisal(whole) if whole.strip() else None
        return Show(picture=picture, more={"text": continuation})

    def figure(self, results: Sequence[SurprisingText]) -> Picture:
        return results[-1].picture

    def serve_score(
        self, model: LanguageModel, items: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> list[Any]:
        """The log-probability of every token of texts, and their perplexity."""
        results = []
        for item in items:
            if not item["text"].strip():
                raise UserError("there is no text to score; give some words")
            scored = model.score(item["text"])
            tokens = [
                {"piece": piece, "log_probability": round(float(value), 5)}
                for piece, value in zip(scored.tokens, scored.log_probabilities, strict=True)
            ]
            total = float(scored.log_probabilities.sum())
            results.append({"log_probability": total, "perplexity": scored.perplexity, "tokens": tokens})
        return results

    def attention_figure(self, model: LanguageModel, example: str) -> Picture:
        return model.surprisal(example)

    def examples(self, model: LanguageModel, split: str) -> list[str]:
        return [line for line in self.held_out(model, split) if line.strip()]


JOB = LanguageJob()


def settings_of(options: GenerateOptions) -> dict[str, Any]:
    """The arguments of `LanguageModel.samples` and `LanguageModel.stream` beside the prompt and the count."""
    return {name: getattr(options, name) for name in SETTINGS}
