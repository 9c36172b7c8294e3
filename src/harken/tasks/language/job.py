"""From a recipe for a language model to a run, and from a folder to a `LanguageModel`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harken.data.fingerprints import InputFile
from harken.data.io.files import read_lines
from harken.data.io.in_memory import text_column
from harken.data.rows import rows_of
from harken.data.text.texts import LONGEST_LINE, TextCorpus, cut_off, files_of, read_texts
from harken.data.tokenizers.base import train_tokenizer
from harken.data.tokenizers.tokens import UNK
from harken.errors import UserError
from harken.inspection.pictures.picture import Picture
from harken.inspection.pictures.sequences import Surprisal
from harken.metrics.interval import bootstrap
from harken.models.sizing import measure
from harken.tasks.interface import fields_of
from harken.tasks.job import FileReading, Job, Prepared, Summary
from harken.tasks.language.interface import INTERFACE, GenerateOptions, SamplingOptions
from harken.tasks.language.language_model import TOKENIZER, LanguageModel
from harken.tasks.language.recipe import LanguageRecipe
from harken.tasks.language.task import LanguageTask, corpus_ids
from harken.tasks.predictor import Progress
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, words_of
from harken.tasks.results import Printing, Result, Show
from harken.tasks.scores import Metric, Scores


@dataclass(frozen=True)
class Continuations(Result):
    """Texts that go on from one prompt."""

    prompt: str
    texts: list[str]

    def to_json(self, options: Any) -> dict[str, Any]:
        return {"prompt": self.prompt, "texts": self.texts}

    def to_records(self, options: Any) -> list[dict[str, Any]]:
        return [{"prompt": self.prompt, "text": text} for text in self.texts]

    def to_text(self, options: Any, printing: Printing) -> str:
        return "\n" * bool(printing.number) + "\n\n".join(self.prompt + text for text in self.texts)


@dataclass(frozen=True)
class SurprisingText(Result):
    """The surprisal of every token of a text."""

    picture: Surprisal

    def to_records(self, options: Any) -> list[Any]:
        pairs = zip(self.picture.tokens, self.picture.nats, strict=True)
        return [[{"token": token, "nats": round(value, 4)} for token, value in pairs]]

    def to_text(self, options: Any, printing: Printing) -> str:
        return self.picture.to_terminal()


PLAIN = {"word": "plain word", "character": "plain character"}
LEAST_TOKENS = 3


class LanguageJob(Job):
    """See `harken.tasks.job`."""

    predictor = LanguageModel
    artifacts = (TOKENIZER,)
    interface = INTERFACE

    def load_data(self, recipe: LanguageRecipe) -> TextCorpus:
        return read_texts(recipe.data)

    def read_table(self, recipe: LanguageRecipe, table: dict[str, list[Any]]) -> list[str]:
        return text_column(table)

    def load_table(self, recipe: LanguageRecipe, table: dict[str, list[Any]]) -> TextCorpus:
        data, lines = recipe.data, self.read_table(recipe, table)
        return TextCorpus(data.name or "table", *cut_off(lines, (data.valid_size, data.test_size)))

    def input_files(self, recipe: LanguageRecipe) -> list[InputFile]:
        """Every file that is read; of a folder the text files, each by its name."""
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
        model, pretrained = LanguageModel.build(recipe, tokenizer), PretrainedEmbeddings(recipe, folder, resuming)
        pretrained.fill(model.embedding.weight, words_of(tokenizer), corpus.train, width_key(recipe.model))
        train, valid = (corpus_ids(tokenizer, lines, recipe.data.lines) for lines in (corpus.train, corpus.valid))
        if min(len(train), len(valid)) < LEAST_TOKENS:
            raise UserError(f"{corpus.name} has fewer than {LEAST_TOKENS - 1} tokens to train or validate on; add text")
        task = LanguageTask(recipe, model, train, valid)
        vocabulary = f"{tokenizer.size:,} {settings.kind} pieces"
        how = "their states carried from chunk to chunk" if recipe.carries else "each for itself"
        facts = {"vocabulary": vocabulary, "batches": f"{task.streams} streams of {recipe.data.chunk} tokens, {how}"}
        summary = Summary(
            corpus.name,
            f"{recipe.model.title} language model",
            len(train) - 1,
            len(valid) - 1,
            unit="tokens",
            input_summary=vocabulary,
            facts={**facts, **pretrained.facts},
            notes=pretrained.notes,
        )
        return summary.prepared(task, measure(model, recipe.data.chunk).flops, corpus)

    def context_shape(self, recipe: LanguageRecipe) -> tuple[int, int]:
        """Each layer: (L, H)."""
        model: Any = recipe.model
        narrow = model.architecture == "recurrent" and model.top == "embedding"
        width = model.width if not narrow or model.layers > 1 else 0
        return model.layers, max(width, model.embedding if narrow else 0)

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

    def examples(self, model: LanguageModel, split: str, files: Sequence[Path] = ()) -> list[str]:
        return [line for line in self.held_out(model, split, files) if line.strip()]


JOB = LanguageJob()


def settings_of(options: GenerateOptions) -> dict[str, Any]:
    """The arguments of `LanguageModel.samples` and `LanguageModel.stream` beside the prompt and the count."""
    return {name: getattr(options, name) for name in fields_of(SamplingOptions)}


BLOCK = 100  # tokens drawn together


def evaluate(
    model: LanguageModel, lines: Sequence[str], train: Sequence[str] | None, progress: Callable[[int], None]
) -> Scores:
    """Scores of a text; `train` is what the n-gram model learns from, where there is to be one."""
    data, kind = model.recipe.data, model.recipe.tokenizer.kind
    ids = corpus_ids(model.tokenizer, lines, data.lines).astype(np.int64, copy=False)
    characters = sum(len(line) + 1 for line in lines)
    surprise = -model.log_probabilities(ids, progress)
    rows = metrics_of(surprise, characters, kind, "")
    unknown = int((ids == UNK).sum())
    details = {"characters": characters, "unknown_tokens": unknown, "scored": how_scored(model)}
    if train is not None and data.ngram and rows_of(train).is_in_memory:  # so is the table of the n-gram model
        from harken.models.language.ngram import NGram

        table = NGram.train(corpus_ids(model.tokenizer, train, data.lines), model.tokenizer.size, data.ngram)
        name = f"{data.ngram}-gram "
        rows += metrics_of(-table.log_probabilities(ids), characters, kind, name)[:1]
    return Scores(len(surprise), "tokens", rows, details=details)


def metrics_of(surprise: np.ndarray, characters: int, kind: str, name: str) -> list[Metric]:
    """Compute the metrics from - log p of every token (N,); the most usual comes first."""
    blocks = np.arange(0, len(surprise), BLOCK)
    sums = np.add.reduceat(surprise, blocks)
    counts = np.diff([*blocks, len(surprise)])
    nats = bootstrap(sums, counts)
    note = "interpolated Kneser-Ney on the same training text; lower is better" if name else "lower is better"
    metric = partial(Metric.of, lower_is_better=True)
    perplexity = metric(f"{name}perplexity", nats.map(math.exp), f"of a token; {note}", 2)
    token = "character" if kind == "character" else "token"
    per_token = metric(f"{name}nats per {token}", nats, note)
    bits = metric(f"{name}bits per {token}", nats.map(lambda value: value / math.log(2)))
    if kind == "character":
        return [per_token, bits, perplexity]
    share = len(surprise) / max(characters, 1) / math.log(2)
    per_character = metric(f"{name}bits per character", nats.map(lambda value: value * share))
    return [perplexity, per_token, bits, per_character]


def how_scored(model: LanguageModel) -> str:
    """The context that a token had, in words."""
    if model.recipe.model.architecture == "recurrent":
        return "one row, the state carried from the first token to the last"
    window = model.recipe.data.chunk
    return f"windows of {window} tokens, every token after at least {window // 2}"
