"""From a recipe for tagging to a run, and from a folder to a `Tagger`; its baseline and pictures of its tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harken.data.io.files import input_path
from harken.data.rows import Columns, rows_of
from harken.data.text.inputs import Inputs, place, sentence_inputs
from harken.data.text.tagged import Tagged
from harken.inspection.pictures.picture import Picture
from harken.inspection.pictures.tables import HeatMaps, ShadeTable
from harken.metrics.baselines import MostFrequentTag
from harken.metrics.labels import Counts, is_bio, sentence_counts
from harken.models.sizing import measure
from harken.tasks.baselines import BASELINE, COUNT, Baseline, learn_baseline
from harken.tasks.context import CONTEXT, context_of
from harken.tasks.inspected import attention_panels
from harken.tasks.job import FileReading, Job, Prepared, Summary, format_counts
from harken.tasks.predictor import Progress
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings
from harken.tasks.pretrained_encoder import starting_pieces
from harken.tasks.tag.corpus import Example, TagCorpus, corpus_of_table, read_corpus, read_other_files
from harken.tasks.tag.interface import INTERFACE, TagOptions
from harken.tasks.tag.recipe import TagRecipe
from harken.tasks.tag.tagger import LARGEST, TOKENIZER, Tagger, Tagging
from harken.tasks.tag.task import build_task, learn_vocabulary
from harken.tasks.words import VOCABULARY


class TagJob(Job):
    """See `harken.tasks.job`."""

    predictor = Tagger
    artifacts = (VOCABULARY, TOKENIZER, CONTEXT, BASELINE)
    interface = INTERFACE
    estimator = "harken.estimators.tagger:SequenceTagger"
    options = frozenset(("format", "text_column", "label_column"))

    def load_data(self, recipe: TagRecipe) -> TagCorpus:
        return read_corpus(recipe.data)

    def load_table(self, recipe: TagRecipe, table: dict[str, list[Any]]) -> TagCorpus:
        return corpus_of_table(recipe.data, table)

    def prepare_data(self, recipe: TagRecipe, corpus: TagCorpus, folder: Path, resuming: bool) -> Prepared:
        train, valid = corpus.train, corpus.valid
        context = context_of(recipe.embeddings.elmo, folder, resuming)
        pretrained = PretrainedEmbeddings(recipe, folder, resuming)
        tokenizer = TOKENIZER.learn_or_load(folder, resuming, lambda: starting_pieces(recipe.model.start))
        vocabulary = VOCABULARY.learn_or_load(
            folder, resuming, lambda: learn_vocabulary(recipe, train, valid, pretrained, tokenizer is not None)
        )
        task, _ = build_task(recipe, train, valid, vocabulary, context, pretrained, tokenizer)
        words = f"{len(vocabulary.words):,} words, {len(vocabulary.characters):,} characters"
        words = words if tokenizer is None else f"{tokenizer.size:,} pieces"
        vocabulary_summary = f"frames of {vocabulary.channels} channels" if vocabulary.channels else words
        vocabulary_summary += f", {len(vocabulary.tags)} tags"
        summary = Summary(
            corpus.name,
            f"{recipe.model.title}{' with a CRF' * recipe.tags.crf}",
            len(train),
            len(valid),
            unit="signals" if vocabulary.channels else "sentences",
            input_summary=vocabulary_summary,
            languages="tags",
            skipped=corpus.skipped,
            tests={name: len(part) for name, part in corpus.tests.items()},
            facts={
                "vocabulary": vocabulary_summary,
                "tags": format_counts(tag_counts(train)),
                **pretrained.facts,
            },
            notes=pretrained.notes,
        )
        parts = self.splits(corpus)
        fit = partial(baseline_of, train, parts, task.monitor)
        baseline = learn_baseline(folder, resuming, rows_of(train), task.monitor, parts, fit)
        return summary.prepared(task, measure(task.model).flops, corpus).with_baseline(baseline)

    def read_files(self, model: Tagger, files: Sequence[Path], reading: FileReading) -> tuple[list[Example], list[str]]:
        return read_other_files(model.recipe.data, files, *reading[:3]), []

    def refit_baseline(self, model: Tagger, examples: Sequence[Example]) -> Callable[[], Baseline]:
        metric = "f1" if is_bio(model.tags) else "accuracy"
        return lambda: baseline_of(self.load_data(model.recipe).train, {"test": examples}, metric)

    def predict(self, model: Tagger, examples: Sequence[Any], options: TagOptions, progress: Progress) -> list[Tagging]:
        return model.tag_all(examples, progress)

    def read_inputs(self, model: Tagger, path: Path | None, form: str, column: str | None) -> Inputs:
        return sentence_inputs(input_path(path), model.recipe.data, form, place(column))

    def facts(self, model: Tagger) -> dict[str, Any]:
        return {"tags": model.tags}

    def attention_figure(self, model: Tagger, example: str) -> Picture:
        return tags_picture(model, example)

    def validation(self, best: dict[str, Any]) -> str:
        words = f"accuracy {best.get('accuracy', 0.0):.4f}, loss {best.get('loss', 0.0):.4f}"
        return f"entity F1 {best['f1']:.4f}, {words}" if "f1" in best else words


JOB = TagJob()


def tag_counts(train: Sequence[Example]) -> Mapping[str, int]:
    """The counts of tags in training."""
    rows = rows_of(train)
    counts: dict[str, int] = rows.cached(
        "tags", lambda: rows.counts(lambda columns: Counter(chain.from_iterable(columns[1])))
    )
    return counts


MOST_PAIRS = 1_000_000  # of a word and a tag in streamed text; beyond, those seen once are dropped
FAINTEST = 0.005  # a tag that is nowhere more probable than this is left out of a sentence's picture


def baseline_of(train: Sequence[Example], parts: Mapping[str, Sequence[Example]], metric: str) -> Baseline:
    """The most frequent tag of every word (of frames: of all of them), scored on parts of the data."""
    fitted = MostFrequentTag.from_counts(rows_of(train).counts(_pairs, MOST_PAIRS))
    scores = {}
    for name, part in parts.items():
        gold, predicted = [example.tags for example in part], fitted.predict([_units(example) for example in part])
        right = sum(a == b for row, tags in zip(gold, predicted, strict=True) for a, b in zip(row, tags, strict=True))
        scores[name] = {"accuracy": right / max(1, sum(len(row) for row in gold)), COUNT: len(part)}
        if metric == "f1":
            counts = [sentence_counts(row, tags) for row, tags in zip(gold, predicted, strict=True)]
            scores[name]["f1"] = sum(counts, Counts()).f1
    return Baseline(fitted.name, metric, scores, len(train))


def _pairs(columns: Columns) -> Counter[tuple[str, str]]:
    """The counts of each word with each tag; frames have no words, so they are all alike."""
    words = (row if isinstance(row, list | tuple) else [""] * len(row) for row in columns[0])
    return Counter(zip(chain.from_iterable(words), chain.from_iterable(columns[1]), strict=True))


def _units(example: Example) -> Sequence[str]:
    """The words of a sentence; frames have none, so they are all alike."""
    return example.words if isinstance(example, Tagged) else [""] * len(example.tags)


def tags_picture(tagger: Tagger, sentence: str) -> HeatMaps:
    """The likely tags of each word, with a CRF its transitions, and with a Transformer its attention."""
    tagged = tagger.tag(sentence)
    shown = np.flatnonzero(tagged.chances.max(0, initial=0.0) >= FAINTEST)
    panels = [
        ShadeTable(
            tagged.words,
            [tagger.tags[number] for number in shown],
            tagged.chances[:, shown].T,
            "Tags: " + " ".join(tagged.tags),
            across="word",
            down="tag",
        )
    ]
    if tagger.model.crf is not None:
        tags = tagger.tags[:LARGEST]
        follows = torch.softmax(tagger.model.crf.transitions.detach().float(), -1).cpu().numpy()
        title = "What the CRF has for the next tag (across) after a tag (down), the words left out of account"
        panels.append(ShadeTable(tags, tags, follows[: len(tags), : len(tags)], title, across="tag", down="tag"))
    if tagged.words:
        panels += attention_panels(tagger.model.reader, tagger.batch([sentence]).values, tagger.steps(tagged.words))
    return HeatMaps(panels)
