"""From a recipe for regression to a run, and from a folder to a `Regressor`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from harken.data.text.examples import Labelled, LabelledSplits
from harken.data.text.labelled_splits import read_examples, read_splits, split_table
from harken.data.tokenizers.base import JOINT, Tokenizer, load_tokenizer, train_tokenizers
from harken.errors import UserError
from harken.metrics.interval import bootstrap, resampled
from harken.models.reader import FrameInput, TokenInput, words_alone
from harken.models.sizing import measure
from harken.tasks.classify.reading import as_frames, as_rows, in_context, require_kind
from harken.tasks.context import COPY, context_of
from harken.tasks.job import Job, Prepared
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, words_of
from harken.tasks.regress.recipe import RegressRecipe
from harken.tasks.regress.regressor import Regressor, build_regressor
from harken.tasks.regress.task import RegressionTask
from harken.tasks.scores import Metric, Scores

if TYPE_CHECKING:
    from harken.inspection.picture import Picture


class RegressJob(Job):
    """See `harken.tasks.job`."""

    def prepare(self, recipe: RegressRecipe, folder: Path, resuming: bool) -> Prepared:
        return self.prepare_examples(recipe, read_splits(recipe.data), folder, resuming)

    def prepare_table(
        self, recipe: RegressRecipe, table: dict[str, list[Any]], folder: Path, resuming: bool
    ) -> Prepared:
        return self.prepare_examples(recipe, split_table(recipe.data, table), folder, resuming)

    def prepare_examples(
        self, recipe: RegressRecipe, splits: LabelledSplits, folder: Path, resuming: bool = False
    ) -> Prepared:
        """A run on examples in memory: texts, or arrays (T, C), with numbers as labels.

        Raises:
            UserError: examples that do not fit the recipe, or labels that are no numbers.
        """
        train, valid = splits.train, splits.valid
        require_kind(train.values, cast(Any, recipe))
        folder.mkdir(parents=True, exist_ok=True)
        begun, key = PretrainedEmbeddings(recipe, folder, resuming), width_key(recipe.model)
        vectors = begun.vectors(recipe.model.embedding_width, train.values, key)
        context = context_of(recipe.embeddings.elmo, folder, resuming)
        seen = [*train.values, *(vectors.words if vectors and recipe.tokenizer.kind == "word" else [])]
        tokenizer = self._tokenizer(recipe, seen, folder, resuming) if recipe.data.kind == "text" else None
        rows = as_rows(train.values, cast(Any, recipe), tokenizer)
        inputs = tokenizer.size if tokenizer else as_frames(train.values[0]).shape[1]
        valid_rows = as_rows(valid.values, cast(Any, recipe), tokenizer, inputs if tokenizer is None else None)
        model = build_regressor(recipe, inputs, context)
        reads = model.network.reader.inputs
        if isinstance(reads, FrameInput):
            reads.fit(torch.from_numpy(rows.flat))
        words = words_alone(reads)
        if tokenizer and isinstance(words, TokenInput):
            begun.fill(words.table.weight, words_of(tokenizer), train.values, key, ids=rows.flat)
        if context is not None:
            begun.say(f"beside {context.layers} frozen layers of {recipe.embeddings.elmo}")
        task = RegressionTask(
            recipe,
            model,
            in_context(rows, train.values, cast(Any, recipe), context),
            numbers(train.labels),
            in_context(valid_rows, valid.values, cast(Any, recipe), context),
            numbers(valid.labels),
        )
        count = f"{len(train):,} training examples, {len(valid):,} for validation"
        parameters = sum(parameter.numel() for parameter in model.parameters())
        return Prepared(
            task,
            title=f"{splits.name}, {recipe.model.title}",
            facts={"data": f"{splits.name}: {count}", **begun.facts},
            lines=[f"{splits.name}: {count}", f"{recipe.model.title}: {parameters:,} parameters", *begun.said],
            flops_per_token=measure(model, round(np.mean(rows.lengths)), terms=1).flops,
        )

    def load(self, folder: Path, recipe: RegressRecipe, device: str) -> Regressor:
        return Regressor.load(folder, recipe, device)

    def owns_artifact(self, name: str) -> bool:
        return name in (COPY, f"{JOINT}.model", f"{JOINT}.json")

    def evaluate(
        self, model: Regressor, split: str | None, files: list[Path], progress: Callable[[int], None]
    ) -> Scores:
        data = model.recipe.data
        if files:
            named = {"corpus": None, "dir": None, "train": [str(file) for file in files], "valid": None, "test": None}
            examples = read_examples(data.model_copy(update=named)).wholes()
        else:
            examples = self._split(model, split)
        return score(model.predict(examples.values), numbers(examples.labels))

    def look(self, model: Regressor, example: str) -> Picture:
        return model.look(example)

    def examples(self, model: Regressor, split: str) -> list[Any]:
        found = self._split(model, split)
        return list(zip(found.values, numbers(found.labels), strict=True))

    def _split(self, model: Regressor, split: str | None) -> Labelled:
        splits = read_splits(model.recipe.data)
        known = {"train": splits.train, "valid": splits.valid, **splits.tests}
        chosen = split or ("test" if "test" in known else "valid")
        if chosen not in known:
            raise UserError(f"there is no split {chosen!r}; choose --split {' or '.join(known)}, or give files")
        return known[chosen]

    def _tokenizer(self, recipe: RegressRecipe, texts: list[str], folder: Path, resuming: bool) -> Tokenizer:
        if resuming:
            return load_tokenizer(folder, JOINT)
        words = recipe.tokenizer.model_copy(update={"joint": True})
        tokenizer, _ = train_tokenizers(words, texts, [], recipe.train.seed)
        tokenizer.save(folder, JOINT)
        return tokenizer


JOB = RegressJob()


def numbers(labels: Sequence[str | float]) -> np.ndarray:
    """Labels as numbers.

    Raises:
        UserError: the first that is none.
    """
    found = np.zeros(len(labels))
    for place, label in enumerate(labels):
        try:
            found[place] = float(label)
        except (TypeError, ValueError):
            found[place] = math.nan
        if not math.isfinite(found[place]):
            raise UserError(
                f"label {place + 1} is {label!r}, which is no number; check data.label, or classify instead"
            )
    return found


def score(found: np.ndarray, wanted: np.ndarray) -> Scores:
    """R², mean absolute error and root mean square."""
    squares, spread = (found - wanted) ** 2, (wanted - wanted.mean()) ** 2
    explained = resampled(len(found), lambda rows: float(1 - squares[rows].sum() / max(spread[rows].sum(), 1e-12)))
    root = resampled(len(found), lambda rows: float(np.sqrt(squares[rows].mean())))
    return Scores(
        len(found),
        "examples",
        [
            Metric.of("R2", explained, "1 is perfect, 0 is as good as the mean"),
            Metric.of("MAE", bootstrap(np.abs(found - wanted))),
            Metric.of("RMSE", root),
        ],
    )
