"""From a recipe for transcription to a run, and from a folder to a `Transcriber`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harken.data.audio.utterances import Utterances
from harken.data.splits import skipped_lines
from harken.data.tokenizers.symbols import FILE, Symbols
from harken.errors import UserError
from harken.files import atomic_write
from harken.inspection.picture import Picture
from harken.models.language.ngram import NGram
from harken.tasks.job import Job, Prepared
from harken.tasks.scores import Scores
from harken.tasks.transcribe.check import size_of
from harken.tasks.transcribe.evaluation import evaluate
from harken.tasks.transcribe.frames import refuse_misfits, steps_of
from harken.tasks.transcribe.network import build_network, fit_normalisation
from harken.tasks.transcribe.recipe import TranscribeRecipe
from harken.tasks.transcribe.splits import read_split_table, read_splits
from harken.tasks.transcribe.task import TranscribeTask
from harken.tasks.transcribe.transcriber import LANGUAGE, Transcriber

HEARD = 256  # recordings of a split that are held at once to look at gradients


class TranscribeJob(Job):
    """See `harken.tasks.job`."""

    usage = "harken transcribe {} recording.wav"
    example_input = "recording.wav"

    def prepare(self, recipe: TranscribeRecipe, folder: Path, resuming: bool) -> Prepared:
        splits = read_splits(recipe)
        train, valid = splits["train"], splits["valid"]
        folder.mkdir(parents=True, exist_ok=True)
        symbols = Symbols.load(folder) if resuming else _learn(recipe, train, folder)
        for name in ("train", "valid"):
            refuse_misfits(splits[name], symbols, recipe, name)
        model = build_network(recipe, len(symbols))
        fit_normalisation(model, recipe, train)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        count = f"{len(train):,} training recordings, {len(valid):,} for validation"
        kinds = f"{len(symbols)} {symbols.kind}s"
        return Prepared(
            TranscribeTask(recipe, train, valid, symbols, model),
            title=f"{splits.name}, {recipe.model.title} with CTC",
            facts={"data": f"{splits.name}: {count}", "symbols": kinds},
            lines=[
                f"{splits.name}: {count}",
                f"{recipe.model.title} with CTC: {parameters:,} parameters, {kinds}",
                *skipped_lines(splits.skipped),
            ],
            flops_per_token=size_of(model, recipe, _steps_per_symbol(recipe, train, symbols)).flops,
        )

    def load(self, folder: Path, recipe: TranscribeRecipe, device: str) -> Transcriber:
        return Transcriber.load(folder, recipe, device)

    def artifact_names(self) -> frozenset[str]:
        return frozenset((FILE, LANGUAGE))

    def evaluate(
        self, model: Transcriber, split: str | None, files: list[Path], progress: Callable[[int], None]
    ) -> Scores:
        if len(files) > 1:
            raise UserError(f"{files[1]} is a table too many; give one, with columns audio and text")
        if files:
            return evaluate(model, read_split_table(model.recipe, files[0]), progress)
        return evaluate(model, read_splits(model.recipe)[split or "test"], progress)

    def look(self, model: Transcriber, example: str) -> Picture:
        return model.transcribe(example).picture()

    def examples(self, model: Transcriber, split: str) -> list[Any]:
        found = read_splits(model.recipe)[split]
        return [(found.samples(0, index), found.text(0, index)) for index in range(min(len(found), HEARD))]

    def validation(self, best: dict[str, Any]) -> str:
        words = f", {100 * best['word_error']:.2f}% of words" if "word_error" in best else ""
        return f"{100 * best.get('symbol_error', float('nan')):.2f}% of symbols wrong by the best path{words}"


JOB = TranscribeJob()


def _learn(recipe: TranscribeRecipe, train: Utterances, folder: Path) -> Symbols:
    """Symbols and n-gram of the training texts, written into the folder."""
    texts = train.texts()
    symbols = Symbols.learn(texts, recipe.data.symbols)
    if not len(symbols):
        raise UserError("the texts of the training split are all empty; give some with words in them")
    symbols.save(folder)
    encoded = [symbols.encode(text) for text in texts]
    language = NGram.from_texts(encoded, len(symbols), recipe.search.lm_order)
    atomic_write(folder / LANGUAGE, language.to_json())
    return symbols


def _steps_per_symbol(recipe: TranscribeRecipe, train: Utterances, symbols: Symbols) -> float:
    rows = range(min(len(train), 200))
    steps = sum(steps_of(train.length(0, row), recipe) for row in rows)
    return steps / max(1, sum(len(symbols.split(train.text(0, row))) for row in rows))
