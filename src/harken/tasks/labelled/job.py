"""From labelled examples to a run: what the jobs of classification and regression share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from harken.data.io.files import input_path
from harken.data.io.folders import matching
from harken.data.io.table import column_names
from harken.data.series.signals import BY_ENDING, READERS, read_signals
from harken.data.text.examples import Labelled, LabelledSplits
from harken.data.text.examples_config import ExamplesConfig
from harken.data.text.inputs import Inputs, labelled_inputs
from harken.data.text.labelled import format_of, text_columns
from harken.data.text.labelled_splits import read_files, read_splits, split_table
from harken.data.tokenizers.base import Tokenizer, learn_tokenizer
from harken.data.tokenizers.word import WordTokenizer
from harken.errors import UserError
from harken.inspection.pictures.picture import Picture
from harken.models.heads.classifier import ClassifierModel
from harken.models.reader import FrameInput, TokenInput, words_alone
from harken.models.sizing import measure
from harken.tasks.artifacts import Artifact
from harken.tasks.baselines import BASELINE, Baseline, learn_baseline
from harken.tasks.context import CONTEXT, Context, context_of
from harken.tasks.interface import Form
from harken.tasks.job import FileReading, Job, Prepared, Summary, format_skipped
from harken.tasks.labelled.predictor import TOKENIZER, read_example
from harken.tasks.labelled.reading import LabelledTask, Rows, as_frames, as_rows, in_context, require_kind
from harken.tasks.labelled.recipe import LabelledRecipe
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, with_words, words_of
from harken.tasks.pretrained_encoder import start_from, starting_tokenizer


class LabelledJob(Job):
    """See `harken.tasks.job`; a subclass has the targets, the network, the task and the scores."""

    artifacts: ClassVar[tuple[Artifact[Any], ...]] = (TOKENIZER, CONTEXT, BASELINE)
    options = frozenset(FileReading._fields)

    @abstractmethod
    def learn(self, recipe: Any, train: Labelled, folder: Path, resuming: bool) -> Any:
        """Learn or load the facts about the targets that building a network needs: the labels of a classifier."""

    @abstractmethod
    def build(self, recipe: Any, inputs: int, targets: Any, context: Context | None) -> nn.Module:
        """A network for `inputs` ids or channels."""

    @abstractmethod
    def network(self, model: Any) -> ClassifierModel:
        """The part of it that reads and pools."""

    @abstractmethod
    def task(
        self,
        recipe: Any,
        model: Any,
        targets: Any,
        rows: tuple[Rows, Rows],
        splits: LabelledSplits,
        folder: Path,
        resuming: bool,
    ) -> LabelledTask[Any]:
        """The `LabelledTask` of training it on rows, for training and validation."""

    @abstractmethod
    def describe(self, recipe: Any, targets: Any, train: Labelled) -> tuple[str, str, dict[str, str]]:
        """The network in words, what else to say of the data, and rows for the card."""

    def load_data(self, recipe: Any) -> LabelledSplits:
        return read_splits(recipe.data)

    def load_table(self, recipe: Any, table: dict[str, list[Any]]) -> LabelledSplits:
        return split_table(recipe.data, table)

    def prepare(self, recipe: Any, folder: Path, resuming: bool) -> Prepared:
        prepared = super().prepare(recipe, folder, resuming)
        prepared.facts.update(column_facts(recipe.data))
        return prepared

    def prepare_data(self, recipe: Any, splits: LabelledSplits, folder: Path, resuming: bool) -> Prepared:
        prepared = self.prepare_examples(recipe, splits, folder, resuming)
        train, parts, settings = splits.train, {"valid": splits.valid, **splits.tests}, [recipe.task, recipe.train.seed]
        fit = partial(self.baseline, recipe, train, parts)
        return prepared.with_baseline(learn_baseline(folder, resuming, train.rows, settings, parts, fit))

    @abstractmethod
    def baseline(self, recipe: Any, train: Labelled, parts: Mapping[str, Labelled]) -> Baseline:
        """A trivial method fitted on the training examples, and its scores on others."""

    def prepare_examples(self, recipe: Any, splits: LabelledSplits, folder: Path, resuming: bool = False) -> Prepared:
        """A run on examples in memory: texts, or arrays (T, C); `recipe.data` says only how they are to be read.

        Raises:
            UserError: examples that do not fit the recipe.
        """
        texts, valid_texts = splits.train.values, splits.valid.values
        require_kind(texts, recipe)
        folder.mkdir(parents=True, exist_ok=True)
        targets = self.learn(recipe, splits.train, folder, resuming)
        pretrained = PretrainedEmbeddings(recipe, folder, resuming)
        context = context_of(recipe.embeddings.elmo, folder, resuming)
        is_text = recipe.data.kind == "text"
        tokenizer = self._tokenizer(recipe, splits.train, pretrained, folder, resuming) if is_text else None
        rows = as_rows(texts, recipe, tokenizer)
        inputs = tokenizer.size if tokenizer else as_frames(texts[0]).shape[1]
        valid_rows = as_rows(valid_texts, recipe, tokenizer, None if tokenizer else inputs)
        model = self.build(recipe, inputs, targets, context)
        self._initialise(recipe, self.network(model), tokenizer, rows, texts, pretrained)
        if context is not None:
            pretrained.add_note(f"beside {context.layers} frozen layers of {recipe.embeddings.elmo}")
        both = in_context(rows, texts, recipe, context), in_context(valid_rows, valid_texts, recipe, context)
        task = self.task(recipe, model, targets, both, splits, folder, resuming)
        steps = float(np.mean(rows.lengths))
        name, data_summary, facts = self.describe(recipe, targets, splits.train)
        input_summary = f"{tokenizer.size:,} {recipe.tokenizer.kind} pieces" if tokenizer else f"{inputs} channels"
        facts |= {
            "examples skipped": format_skipped(splits.skipped),
            "input": f"{input_summary}, {steps:.1f} steps an example",
            **pretrained.facts,
            **task.facts,
        }
        summary = Summary(
            splits.name,
            name,
            len(splits.train),
            len(splits.valid),
            data_summary=data_summary,
            input_summary=input_summary,
            skipped=splits.skipped,
            tests={test: len(part) for test, part in splits.tests.items()},
            facts=facts,
            notes=[*pretrained.notes, *(f"{name}: {fact}" for name, fact in task.facts.items())],
        )
        return summary.prepared(task, measure(model, round(steps), terms=1).flops, splits)

    def splits(self, data: LabelledSplits) -> dict[str, Labelled]:
        return {"train": data.train.wholes(), "valid": data.valid, **data.tests}

    def read_files(self, model: Any, files: Sequence[Path], reading: FileReading) -> tuple[Labelled, list[str]]:
        return read_files(model.recipe.data, files, *reading)

    def refit_baseline(self, model: Any, examples: Labelled) -> Callable[[], Baseline]:
        return lambda: self.baseline(model.recipe, self.load_data(model.recipe).train, {"test": examples})

    def attention_figure(self, model: Any, example: str) -> Picture:
        picture: Picture = model.attention_figure(example)
        return picture

    def example_of(self, model: Any, text: str) -> str | np.ndarray:
        return read_example(super().example_of(model, text), model.recipe.data)

    def form(self, model: Any) -> Form:
        form = super().form(model)
        return form._replace(endings=(), takes_text=True) if self.reads_texts(model) else form

    def reads_texts(self, model: Any) -> bool:
        return bool(model.recipe.data.kind == "text")

    def read_inputs(self, model: Any, path: Path | None, form: str, column: str | None) -> Inputs:
        data = model.recipe.data
        if not self.reads_texts(model):
            return Inputs(open_signals(data, path, form), None)
        return labelled_inputs(input_path(path), data, getattr(model, "classes", ()), form, column)

    def unseen_words(self, model: Any, example: Any) -> list[str]:
        return model.unseen_words(example) if isinstance(example, str) else []

    def serve_attention(self, model: Any, items: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> list[Any]:
        """Weights over the words of texts: of the pooling where it attends, and of the gradient."""
        if not self.reads_texts(model):  # it would open a text as the path of a file, which no client may name
            raise UserError("this model reads signals; it shows nothing of a text")
        results = []
        for text in (item["text"] for item in items):
            if not model.words(text):
                raise UserError("weights are shown of a text with words; give some")
            weights = {"gradient": model.saliency(text).round(5).tolist()}
            if model.recipe.head.pooling == "attention":
                weights["attention"] = model.attention(text).round(5).tolist()
            results.append({"words": model.words(text), "answer": model.answer_of(text), "weights": weights})
        return results

    def _tokenizer(
        self,
        recipe: LabelledRecipe,
        train: Labelled,
        pretrained: PretrainedEmbeddings,
        folder: Path,
        resuming: bool,
    ) -> Tokenizer:
        """Pieces of the training texts, and words that pretrained vectors or a masked model know beside them."""
        texts, seed = train.values, recipe.train.seed
        joint = recipe.tokenizer.model_copy(update={"joint": True})

        def learn() -> Tokenizer:
            tokenizer = train.rows.cached_tokenizer(
                [joint.model_dump(), seed], lambda rows: learn_tokenizer(joint, rows, seed)
            )
            width = recipe.model.embedding_width
            vectors = pretrained.vectors(width, texts, width_key(recipe.model))
            if vectors is not None and isinstance(tokenizer, WordTokenizer):
                tokenizer = with_words(tokenizer, vectors.words, recipe.tokenizer.size)
            return tokenizer if recipe.model.start is None else starting_tokenizer(recipe.model.start, tokenizer)

        return TOKENIZER.learn_or_load(folder, resuming, learn)

    def _initialise(
        self,
        recipe: LabelledRecipe,
        network: ClassifierModel,
        tokenizer: Tokenizer | None,
        rows: Any,
        texts: Sequence[str],
        pretrained: PretrainedEmbeddings,
    ) -> None:
        """The scale of signals, the weights of a masked model, or pretrained embeddings."""
        inputs = network.reader.inputs
        if isinstance(inputs, FrameInput):
            inputs.fit(torch.from_numpy(rows.flat))
        if recipe.model.start is not None and tokenizer is not None:
            pieces = start_from(network.reader, recipe.model.start, tokenizer)
            pretrained.add_note(f"encoder and {pieces:,} pieces initialised from {recipe.model.start}")
        words = words_alone(inputs)
        if tokenizer and isinstance(words, TokenInput):
            pretrained.fill(words.table.weight, words_of(tokenizer), texts, width_key(recipe.model), ids=rows.flat)


def open_signals(data: ExamplesConfig, file: Path | None, form: str) -> Iterator[np.ndarray]:
    """The signals of a file, in its own format or that of the training data.

    Raises:
        UserError: there is no file, or it holds no signals.
    """
    if file is None:
        raise UserError("signals do not come through stdin; name a file, as .npy, .npz or in the format of training")
    if form != "auto" and form not in READERS:
        raise UserError(f"--format {form} holds no signals; choose from auto, {', '.join(READERS)}")
    if form == "auto":
        form = "arrays" if BY_ENDING.get(file.suffix) == "arrays" else data.format
    return iter(read_signals(file, data.model_copy(update={"format": form})).values)


def column_facts(data: ExamplesConfig) -> dict[str, str]:
    """The columns of the first file, where it is a table, and which of them are read."""
    paths = [] if data.corpus or data.kind != "text" else matching(data.dir, data.train)
    if not paths or format_of(paths[0], data) != "table":
        return {}
    names = ", ".join(column_names(paths[0], header=data.header))
    return {"columns": f"{names}; text in {' and '.join(text_columns(data))}, label in {data.label_column}"}
