"""From a recipe for transcription to a run, and from a folder to a `Transcriber`; how good it is on recordings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from harken.data.audio.filterbank import frames_of
from harken.data.audio.spoken_digits import ARCHIVE
from harken.data.audio.utterances import Recordings, Utterances
from harken.data.fingerprints import InputFile
from harken.data.io.table import read_table
from harken.data.tokenizers.symbols import Symbols
from harken.errors import UserError
from harken.inspection.pictures.picture import Picture
from harken.metrics.edits import edits
from harken.metrics.interval import bootstrap
from harken.models.heads.transcriber import TranscriberNetwork
from harken.models.language.ngram import NGram
from harken.models.sizing import LENGTHS, Size, measure
from harken.tasks.artifacts import Artifact
from harken.tasks.job import FileReading, Job, Prepared, Summary
from harken.tasks.predictor import Progress
from harken.tasks.scores import Metric, Scores
from harken.tasks.transcribe.interface import INTERFACE, TranscribeOptions
from harken.tasks.transcribe.recipe import TranscribeRecipe
from harken.tasks.transcribe.splits import Splits, read_split_table, read_splits, split_recordings
from harken.tasks.transcribe.task import TranscribeTask, refuse_misfits, steps_of
from harken.tasks.transcribe.transcriber import LANGUAGE, SYMBOLS, Transcriber, build_network
from harken.tasks.transcribe.transcription import Transcription

HEARD = 256  # recordings of a split that are held at once to look at gradients
TO_FIT = 500  # recordings that mean and deviation of the training set are taken from
STEPS = 24  # of the encoder in the example whose cost is measured
WORST = 10  # recordings with the most errors, kept for --json


class TranscribeJob(Job):
    """See `harken.tasks.job`."""

    predictor = Transcriber
    artifacts: ClassVar[tuple[Artifact[Any], ...]] = (SYMBOLS, LANGUAGE)
    interface = INTERFACE
    scored_files = "a table"

    def load_data(self, recipe: TranscribeRecipe) -> Splits:
        return read_splits(recipe)

    def read_table(self, recipe: TranscribeRecipe, table: dict[str, list[Any]]) -> Recordings:
        return read_split_table(recipe, table)

    def load_table(self, recipe: TranscribeRecipe, table: dict[str, list[Any]]) -> Splits:
        return split_recordings(recipe, {"train": self.read_table(recipe, table)})

    def input_files(self, recipe: TranscribeRecipe) -> list[InputFile]:
        """The tables, and the recordings that each of them names; of the spoken digits their archive."""
        files, data = [], recipe.data
        for source in super().input_files(recipe):
            if source.key == "data.dir":
                files.append(InputFile(source.key, source.path / ARCHIVE))
                continue
            files.append(source)
            if source.key in ("data.train", "data.valid", "data.test"):
                names = tuple(map(str, read_table(source.path, [data.audio_column], header=None)[data.audio_column]))
                files.append(InputFile(source.key, source.path.parent, "recordings", names))
        return files

    def prepare_data(self, recipe: TranscribeRecipe, splits: Splits, folder: Path, resuming: bool) -> Prepared:
        train, valid = splits.parts["train"], splits.parts["valid"]
        symbols = SYMBOLS.learn_or_load(folder, resuming, lambda: learn_symbols(recipe, train))
        LANGUAGE.learn_or_load(folder, resuming, lambda: learn_language(recipe, train, symbols))
        refuse_misfits(train, symbols, recipe, "train")
        refuse_misfits(valid, symbols, recipe, "valid")
        model = build_network(recipe, len(symbols))
        if recipe.features.normalise == "training":
            first = [train.samples(0, index) for index in range(min(len(train), TO_FIT))]
            model.inputs.fit(torch.cat(frames_of(first, recipe.features)))
        kinds = f"{len(symbols)} {symbols.kind}s"
        summary = Summary(
            splits.name,
            f"{recipe.model.title} with CTC",
            len(train),
            len(valid),
            unit="recordings",
            input_summary=kinds,
            skipped=splits.skipped,
            skipped_unit="training recordings",
            facts={"vocabulary": kinds},
        )
        task = TranscribeTask(recipe, train, valid, symbols, model)
        return summary.prepared(task, size_of(model, recipe, steps_per_symbol(recipe, train, symbols)).flops, splits)

    def splits(self, data: Splits) -> dict[str, Utterances]:
        return data.parts

    def read_files(
        self, model: Transcriber, files: Sequence[Path], reading: FileReading
    ) -> tuple[Utterances, list[str]]:
        if len(files) > 1:
            raise UserError(f"{files[1]} is a table too many; give one, with columns audio and text")
        return read_split_table(model.recipe, files[0]), []

    def score(self, model: Transcriber, examples: Utterances, progress: Progress) -> Scores:
        return evaluate(model, examples, progress)

    def predict(
        self, model: Transcriber, examples: Sequence[Path], options: TranscribeOptions, progress: Progress
    ) -> list[Transcription]:
        if options.lm_weight and (options.beam or model.recipe.search.beam) == 1:
            raise UserError("--lm-weight is heeded by a beam alone; add --beam 8")
        transcriptions = []
        for path in examples:
            transcriptions.append(model.transcribe(path, beam=options.beam, lm_weight=options.lm_weight))
            progress(1)
        return transcriptions

    def attention_figure(self, model: Transcriber, example: str) -> Picture:
        return model.transcribe(example).picture()

    def examples(self, model: Transcriber, split: str, files: Sequence[Path] = ()) -> list[Any]:
        utterances = self.held_out(model, split, files)
        return [
            (utterances.samples(0, index), utterances.text(0, index)) for index in range(min(len(utterances), HEARD))
        ]

    def validation(self, best: dict[str, Any]) -> str:
        words = f", {100 * best['word_error']:.2f}% of words" if "word_error" in best else ""
        return f"{100 * best.get('symbol_error', float('nan')):.2f}% of symbols wrong by the best path{words}"


JOB = TranscribeJob()


def learn_symbols(recipe: TranscribeRecipe, train: Utterances) -> Symbols:
    """The symbols of the training texts.

    Raises:
        UserError: there are none.
    """
    symbols = Symbols.learn(train.texts(), recipe.data.symbols)
    if not len(symbols):
        raise UserError("the texts of the training split are all empty; give some with words in them")
    return symbols


def learn_language(recipe: TranscribeRecipe, train: Utterances, symbols: Symbols) -> NGram:
    """The n-gram of the training texts."""
    texts = (symbols.encode(text) for text in train.texts())
    return NGram.from_texts(texts, len(symbols), recipe.search.lm_order)


def steps_per_symbol(recipe: TranscribeRecipe, train: Utterances, symbols: Symbols) -> float:
    """Steps of the encoder for each symbol, from the first recordings."""
    rows = range(min(len(train), 200))
    steps = sum(steps_of(train.length(0, row), recipe) for row in rows)
    return steps / max(1, sum(len(symbols.split(train.text(0, row))) for row in rows))


def evaluate(
    model: Transcriber,
    utterances: Utterances,
    progress: Progress | None = None,
    *,
    beam: int | None = None,
    lm_weight: float | None = None,
) -> Scores:
    """Error rate per symbol (and per word where texts have spaces), and the kinds of error."""
    count, features = len(utterances), model.recipe.features
    references = utterances.texts()
    heard = model.log_probs(frames_of([utterances.samples(0, row) for row in range(count)], features), progress)
    texts = [model.symbols.decode(model.search(log_probs, beam, lm_weight)[0]) for log_probs in heard]
    errors = [edits(model.symbols.split(a), model.symbols.split(b)) for a, b in zip(references, texts, strict=True)]
    lengths = [row.length for row in errors]
    unit = "word" if model.symbols.kind == "word" else _unit(references)
    interval = bootstrap([edit.total for edit in errors], lengths)
    metrics = [Metric.of(f"{unit} error rate", interval, "0 is perfect", 4, lower_is_better=True)]
    for name in ("substitutions", "deletions", "insertions"):
        interval = bootstrap([getattr(edit, name) for edit in errors], lengths)
        metrics.append(Metric.of(name, interval, f"per {unit}", 4))
    if model.symbols.kind == "character" and any(" " in text for text in references):
        words = [edits(reference.split(), text.split()) for reference, text in zip(references, texts, strict=True)]
        rate = bootstrap([word.total for word in words], [word.length for word in words])
        metrics.insert(1, Metric.of("word error rate", rate, "0 is perfect", 4))
    right = bootstrap([float(reference == text) for reference, text in zip(references, texts, strict=True)])
    metrics.append(Metric.of("texts without a mistake", right, "share", 4))
    worst = sorted(range(count), key=lambda row: (-errors[row].total, row))[:WORST]
    details = [
        {"name": utterances.name(row), "text": references[row], "heard": texts[row]}
        for row in worst
        if errors[row].total
    ]
    return Scores(count, "recordings", metrics, details={"worst": details}, outputs=(texts, list(references)))


def _unit(texts: list[str]) -> str:
    """The name of a symbol of these texts: "digit" where they consist of digits, else "symbol"."""
    return "digit" if all(set(text) <= set("0123456789 ") for text in texts) else "symbol"


def size_of(model: TranscriberNetwork, recipe: TranscribeRecipe, steps_per_symbol: float) -> Size:
    """The size of a network whose encoder reads so many steps for each symbol."""
    frames = recipe.front.stride**recipe.front.layers  # of a step of the encoder
    lengths = tuple(steps * frames for steps in LENGTHS)
    return measure(model, STEPS * frames, terms=STEPS / steps_per_symbol, lengths=lengths)
