"""From a recipe for classification to a run, and from a folder to a `Classifier`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harken.data.text.examples import Labelled, LabelledSplits
from harken.data.text.labelled_splits import read_examples, read_splits, split_table
from harken.data.tokenizers.base import JOINT, Tokenizer, load_tokenizer, train_tokenizers
from harken.data.tokenizers.word import WordTokenizer
from harken.errors import UserError
from harken.models.reader import FrameInput, TokenInput, words_alone
from harken.models.sizing import measure
from harken.tasks.classify.build import build_classifier
from harken.tasks.classify.classifier import Classifier
from harken.tasks.classify.labels import (
    FINE,
    LABELS,
    in_order,
    load_fine,
    load_labels,
    merge_fine,
    numbers_of,
    save_fine,
    save_labels,
)
from harken.tasks.classify.reading import as_frames, as_rows, in_context, require_kind
from harken.tasks.classify.recipe import ClassifyRecipe
from harken.tasks.classify.task import ClassificationTask
from harken.tasks.context import COPY, context_of
from harken.tasks.job import Job, Prepared
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, with_words, words_of
from harken.tasks.scores import Scores
from harken.tasks.starting import start_from, starting_tokenizer

if TYPE_CHECKING:
    from harken.inspection.picture import Picture


class ClassifyJob(Job):
    """See `harken.tasks.job`."""

    def prepare(self, recipe: ClassifyRecipe, folder: Path, resuming: bool) -> Prepared:
        return self.prepare_examples(recipe, read_splits(recipe.data), folder, resuming)

    def prepare_table(
        self, recipe: ClassifyRecipe, table: dict[str, list[Any]], folder: Path, resuming: bool
    ) -> Prepared:
        return self.prepare_examples(recipe, split_table(recipe.data, table), folder, resuming)

    def prepare_examples(
        self, recipe: ClassifyRecipe, splits: LabelledSplits, folder: Path, resuming: bool = False
    ) -> Prepared:
        """A run on examples in memory: texts, or arrays (T, C); `recipe.data` says only how they are to be read.

        Raises:
            UserError: examples that do not fit the recipe.
        """
        require_kind(splits.train.values, recipe)
        folder.mkdir(parents=True, exist_ok=True)
        train, valid = splits.train, splits.valid
        labels = load_labels(folder) if resuming else in_order(train.labels)
        width = recipe.model.embedding_width
        begun, key = PretrainedEmbeddings(recipe, folder, resuming), width_key(recipe.model)
        vectors = begun.vectors(width, train.values, key)
        context = context_of(recipe.embeddings.elmo, folder, resuming)
        more = vectors.words if vectors and recipe.tokenizer.kind == "word" else []
        tokenizer = (
            self._tokenizer(recipe, train.values, more, folder, resuming) if recipe.data.kind == "text" else None
        )
        rows = as_rows(train.values, recipe, tokenizer)
        inputs = tokenizer.size if tokenizer else as_frames(train.values[0]).shape[1]
        valid_rows = as_rows(valid.values, recipe, tokenizer, inputs if tokenizer is None else None)
        valid_labels = numbers_of(valid.labels, labels, "the validation")
        save_labels(folder, labels)
        names, merged = self._fine(recipe, train, labels, folder, resuming)
        model = build_classifier(recipe, inputs, len(names), context, merged)
        if isinstance(model.reader.inputs, FrameInput):
            model.reader.inputs.fit(torch.from_numpy(rows.flat))
        if recipe.model.start is not None and tokenizer is not None:
            found = start_from(model.reader, recipe.model.start, tokenizer)
            begun.say(f"encoder and {found:,} pieces begin as {recipe.model.start} left them")
        words = words_alone(model.reader.inputs)
        if tokenizer and isinstance(words, TokenInput):
            begun.fill(words.table.weight, words_of(tokenizer), train.values, key, ids=rows.flat)
        if context is not None:
            begun.say(f"beside {context.layers} frozen layers of {recipe.embeddings.elmo}")
        task = ClassificationTask(
            recipe,
            model,
            in_context(rows, train.values, recipe, context),
            numbers_of(train.labels if merged is None else train.fine or [], names, "training"),
            in_context(valid_rows, valid.values, recipe, context),
            valid_labels,
        )
        steps = float(np.mean(rows.lengths))
        count = f"{len(train):,} training examples, {len(valid):,} for validation"
        read = f"{tokenizer.size:,} {recipe.tokenizer.kind} pieces" if tokenizer else f"{inputs} channels"
        parameters = sum(parameter.numel() for parameter in model.parameters())
        pooled = f"{recipe.model.title}, {recipe.classifier.pooling} pooling"
        return Prepared(
            task,
            title=f"{splits.name}, {pooled}",
            facts={
                "data": f"{splits.name}: {count}",
                "labels": f"{len(labels)}: {', '.join(labels[:20])}{' ...' if len(labels) > 20 else ''}",
                "examples skipped": ", ".join(f"{n:,} {why}" for why, n in splits.skipped.items()) or "none",
                "input": f"{read}, {steps:.1f} steps an example",
                **begun.facts,
            },
            lines=[
                f"{splits.name}: {count}, {len(labels)} classes",
                f"{pooled}: {parameters:,} parameters, {read}",
                *begun.said,
                *(f"skipped {n:,} examples: {why}" for why, n in splits.skipped.items()),
            ],
            flops_per_token=measure(model, round(steps), terms=1).flops,
        )

    def load(self, folder: Path, recipe: ClassifyRecipe, device: str) -> Classifier:
        return Classifier.load(folder, recipe, device)

    def owns_artifact(self, name: str) -> bool:
        return name in (LABELS, FINE, COPY, f"{JOINT}.model", f"{JOINT}.json")

    def evaluate(
        self, model: Classifier, split: str | None, files: list[Path], progress: Callable[[int], None]
    ) -> Scores:
        from harken.tasks.classify.evaluation import score_examples

        return score_examples(model, self._examples(model.recipe, split, files), progress)

    def look(self, model: Classifier, example: str) -> Picture:
        from harken.tasks.classify.looking import look_at

        return look_at(model, example)

    def examples(self, model: Classifier, split: str) -> list[Any]:
        found = self._examples(model.recipe, split, [])
        return list(zip(found.values, found.labels, strict=True))

    def validation(self, best: dict[str, Any]) -> str:
        known = {name: best[name] for name in ("accuracy", "macro_f1", "loss") if name in best}
        return ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in known.items())

    def _examples(self, recipe: ClassifyRecipe, split: str | None, files: list[Path]) -> Labelled:
        if files:
            named = recipe.data.model_copy(
                update={
                    "corpus": None,
                    "dir": None,
                    "train": [str(file) for file in files],
                    "valid": None,
                    "test": None,
                }
            )
            return read_examples(named).wholes()
        splits = read_splits(recipe.data)
        known = {"train": splits.train.wholes(), "valid": splits.valid, **splits.tests}
        chosen = split or ("test" if "test" in known else "valid")
        if chosen not in known:
            raise UserError(
                f"{splits.name} has no split {chosen!r}; choose --split {' or '.join(known)}, or give files"
            )
        return known[chosen]

    def _fine(
        self, recipe: ClassifyRecipe, train: Labelled, labels: list[str], folder: Path, resuming: bool
    ) -> tuple[list[str], list[int] | None]:
        """What the network tells apart, and which label each is; None where they are the labels themselves."""
        if not recipe.classifier.fine:
            return labels, None
        if train.fine is None:
            raise UserError(
                "classifier.fine is for labels that data.label_until or data.names merge, but neither is given; set "
                "one, or leave classifier.fine out"
            )
        if resuming:
            return load_fine(folder, len(labels))
        names, merged = merge_fine(train.fine, train.labels, labels)
        save_fine(folder, names, merged)
        return names, merged

    def _tokenizer(
        self, recipe: ClassifyRecipe, texts: list[str], more: list[str], folder: Path, resuming: bool
    ) -> Tokenizer:
        if resuming:
            return load_tokenizer(folder, JOINT)
        words = recipe.tokenizer.model_copy(update={"joint": True})
        tokenizer, _ = train_tokenizers(words, texts, [], recipe.train.seed)
        if more and isinstance(tokenizer, WordTokenizer):
            tokenizer = with_words(tokenizer, more, recipe.tokenizer.size)
        if recipe.model.start is not None:
            tokenizer = starting_tokenizer(recipe.model.start, tokenizer)
        tokenizer.save(folder, JOINT)
        return tokenizer


JOB = ClassifyJob()
