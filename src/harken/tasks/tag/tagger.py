"""A trained tagger: the model folder as an object.

model = harken.load("runs/tags")
model.tag("the black cat sleeps").tags    # ['DET', 'ADJ', 'NOUN', 'VERB']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from harken.data.series.framed import Framed
from harken.data.text.tagged import Tagged, as_tagged
from harken.data.tokenizers.base import Tokenizer
from harken.errors import UserError
from harken.inspection.measures.gates import ENDS, axis_pieces
from harken.inspection.pictures.tables import HeatMaps, ShadeTable
from harken.metrics.interval import bootstrap, resampled
from harken.metrics.labels import Counts, counts_by_kind, is_bio, sentence_counts
from harken.models.heads.tagger import TaggingModel
from harken.tasks.artifacts import OptionalTokenizerArtifact
from harken.tasks.context import COPY, Context, open_context
from harken.tasks.predictor import Predictor, Progress
from harken.tasks.results import Printing, Result
from harken.tasks.scores import Metric, Scores
from harken.tasks.sequence_task import length_batches
from harken.tasks.tag.corpus import Example
from harken.tasks.tag.interface import TagOptions
from harken.tasks.tag.pieces import pieces_of
from harken.tasks.tag.recipe import TagRecipe
from harken.tasks.tag.task import TagBatch, as_rows, build_tagging_model
from harken.tasks.words import VOCABULARY, Vocabulary

LARGEST = 24  # tags that are shown
TOKENIZER = OptionalTokenizerArtifact()
BATCH_WORDS = 4096  # tagged at once, padding counted
Sentence = str | Sequence[str] | np.ndarray


@dataclass(frozen=True)
class Tagging(Result):
    """One sentence with its tags."""

    words: list[str]  # of a signal: the numbers of its frames
    tags: list[str]
    probabilities: list[float]  # of the chosen tags
    chances: np.ndarray  # (T, K) of every tag at every word
    classes: list[str] = field(default_factory=list, repr=False)  # the tags, in the order of `chances`

    def __str__(self) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))

    def to_json(self, options: TagOptions) -> dict[str, Any]:
        probabilities = [round(float(value), 6) for value in self.probabilities]
        values: dict[str, Any] = {"words": self.words, "tags": self.tags, "probabilities": probabilities}
        if options.scores:
            values |= {"scores": np.round(self.chances, 5).tolist(), "classes": self.classes}
        return values

    def to_text(self, options: TagOptions, printing: Printing) -> str:
        if options.conll:
            return "".join(f"{word}\t{tag}\n" for word, tag in zip(self.words, self.tags, strict=True))
        return str(self)

    def rows(self) -> list[dict[str, Any]]:
        steps = zip(self.words, self.tags, self.probabilities, strict=True)
        return [{"name": tag, "word": word, "value": float(value)} for word, tag, value in steps]


class Tagger(Predictor[TagRecipe, TaggingModel]):
    """Model, vocabulary and recipe of one folder; load it with `harken.load`."""

    def __init__(
        self,
        recipe: TagRecipe,
        model: TaggingModel,
        vocabulary: Vocabulary,
        folder: Path | None = None,
        context: Context | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        """
        Args:
            tokenizer: of the pieces that the model reads in place of words.
        """
        super().__init__(recipe, model, folder)
        self.vocabulary, self.context, self.tokenizer = vocabulary, context, tokenizer

    @classmethod
    def open(cls, folder: Path, recipe: TagRecipe, device: str) -> Self:
        vocabulary = VOCABULARY.load(folder)
        context = open_context(folder / COPY, device) if recipe.embeddings.elmo else None
        tokenizer = TOKENIZER.load(folder)
        model = build_tagging_model(recipe, vocabulary, context, tokenizer)
        return cls(recipe, model, vocabulary, folder, context, tokenizer)

    @property
    def tags(self) -> list[str]:
        """All the tags it knows, in the order of `Tagging.chances`."""
        return self.vocabulary.tags

    def tag(self, sentence: Sentence) -> Tagging:
        """Tag one sentence: words, a text that is cut at spaces, or frames (T, C)."""
        return self.tag_all([sentence])[0]

    def tag_all(self, sentences: Sequence[Sentence], progress: Progress | None = None) -> list[Tagging]:
        """Tag many; an empty sentence stays empty.

        Raises:
            UserError: words for a model of frames, or frames for a model of words.
        """
        examples = [self._example(sentence) for sentence in sentences]
        filled = [example for example in examples if self._words(example)]
        rows = as_rows(filled, self.vocabulary, self.context, self.tokenizer)

        def tag(indices: np.ndarray) -> list[Tagging]:
            values, lengths = rows.gather(indices)
            labels, weights = self.model.tag(values.to(self.device), lengths.to(self.device))
            labels, weights = labels.cpu(), weights.float().cpu()  # (B, T), (B, T, K)
            return [
                self._tagging(filled[row], labels[batch_row, :length], weights[batch_row, :length])
                for batch_row, (row, length) in enumerate(zip(indices, lengths.tolist(), strict=True))
            ]

        tagged = iter(self.map(length_batches(rows.lengths, BATCH_WORDS), tag, progress))
        nothing = Tagging([], [], [], np.zeros((0, len(self.tags)), np.float32), self.tags)
        return [next(tagged) if self._words(example) else nothing for example in examples]

    def evaluate(
        self,
        sentences: Sequence[Example] | Sequence[Sequence[str]],
        tags: Sequence[Sequence[str]] | None = None,
        *,
        progress: Progress | None = None,
    ) -> Scores:
        """Token accuracy and, where tags are BIO, entity precision, recall and F1; sentences are drawn whole."""
        if tags is not None:
            sentences = as_tagged([list(sentence) for sentence in sentences], tags, "the list")  # type: ignore[arg-type]
        examples = [example for example in sentences if isinstance(example, Tagged | Framed)]
        if len(examples) != len(sentences) or not examples:
            raise UserError("sentences to evaluate need their tags: pass both, or sentences with tags")
        inputs = [example.words if isinstance(example, Tagged) else example.frames for example in examples]
        tagged = self.tag_all(inputs, progress)
        return evaluate(self.tags, [example.tags for example in examples], [tagging.tags for tagging in tagged])

    def batch(self, sentences: Sequence[Sentence | Example]) -> TagBatch:
        """Sentences as the network reads them, for `harken.inspection`; without tags those it gives them itself.

        Raises:
            UserError: there is nothing to read.
        """
        examples = [
            sentence if isinstance(sentence, Tagged | Framed) else self._example(sentence) for sentence in sentences
        ]
        rows = as_rows(examples, self.vocabulary, self.context, self.tokenizer)
        if not len(rows) or not rows.lengths.all():
            raise UserError("there is a sentence without words, or none at all; give some words")
        read, counts = rows.gather(np.arange(len(examples)))
        values, lengths = read.to(self.device), counts.to(self.device)
        labels = self.model.tag(values, lengths)[0]
        for row, example in enumerate(examples):
            if example.tags:
                labels[row, : len(example.tags)] = torch.tensor(self.vocabulary.tag_ids(example.tags))
        return TagBatch(values, lengths, labels, int(counts.sum()))

    def reading(self, sentence: str) -> tuple[TagBatch, dict[str, list[str]], str]:
        """Read a sentence for `harken inspect --gates`: a batch, the words at the steps of the encoder, and a title."""
        tagged = self.tag(sentence)
        return self.batch([sentence]), {"reader.encoder": self.steps(tagged.words)}, str(tagged)

    def steps(self, words: list[str]) -> list[str]:
        """The names of the steps of the encoder: words, or the pieces of words with the ends of the sentence."""
        if self.tokenizer is None:
            return words
        (ids,), _ = pieces_of([words], self.tokenizer)
        return [*axis_pieces(self.tokenizer, ids[:-1]), ENDS[1]]

    def _example(self, sentence: Sentence) -> Example:
        if self.vocabulary.channels:
            frames = None if isinstance(sentence, str) else np.asarray(sentence)
            if frames is None or frames.ndim != 2 or frames.shape[1] != self.vocabulary.channels:
                raise UserError(f"this model tags frames: give arrays of shape (T, {self.vocabulary.channels})")
            return Framed(frames, ())
        words = sentence.split() if isinstance(sentence, str) else sentence
        if not isinstance(words, Sequence | np.ndarray) or not all(isinstance(word, str) for word in words):
            raise UserError("this model tags words: give a text, or a list of words")
        return Tagged(tuple(words), ())

    def _tagging(self, example: Example, labels: Tensor, weights: Tensor) -> Tagging:
        chosen = weights.gather(1, labels[:, None])[:, 0].tolist()
        tags = [self.tags[label] for label in labels.tolist()]
        return Tagging(self._words(example), tags, chosen, weights.numpy(), self.tags)

    def _words(self, example: Example) -> list[str]:
        if isinstance(example, Framed):
            return [str(number) for number in range(len(example.frames))]
        return list(example.words)


def evaluate(tags: Sequence[str], gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Scores:
    """Scores of sentences; their intervals draw sentences whole, since the words of one depend on each other."""
    right = [sum(a == b for a, b in zip(row, output, strict=True)) for row, output in zip(gold, predicted, strict=True)]
    lengths = [len(row) for row in gold]
    accuracy = Metric.of("accuracy", bootstrap(right, lengths), f"of {sum(lengths):,} words", digits=4)
    pictures = {"confusion": confusion_picture(gold, predicted)}
    outputs = [list(row) for row in predicted], [list(row) for row in gold]
    if not is_bio(tags):
        return Scores(len(gold), "sentences", [accuracy], dict(pictures), outputs=outputs)
    rows = np.array(
        [sentence_counts(row, output) for row, output in zip(gold, predicted, strict=True)]
    )  # (sentences, 3)

    def metric(name: str, note: str) -> Metric:
        interval = resampled(len(rows), lambda chosen: getattr(_sum(rows[chosen]), name))
        return Metric.of(name, interval, note, digits=4)

    kinds = counts_by_kind(gold, predicted)
    by_kind = [
        Metric(f"f1 {kind}", counts.f1, note=f"precision {counts.precision:.3f}, recall {counts.recall:.3f}", digits=4)
        for kind, counts in kinds.items()
    ]
    whole = f"of {int(rows[:, 2].sum()):,} entities, kind and both ends right"
    metrics = [metric("f1", whole), metric("precision", ""), metric("recall", ""), accuracy, *by_kind]
    entities = {kind: counts._asdict() for kind, counts in kinds.items()}
    return Scores(len(gold), "sentences", metrics, dict(pictures), {"entities": entities}, outputs=outputs)


def _sum(rows: np.ndarray) -> Counts:
    return Counts(*(int(number) for number in rows.sum(0)))


def confusion_picture(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> HeatMaps:
    """True tags down, what was said across, the most frequent ones; shades are shares of a row."""
    pairs = Counter(
        (a, b) for row, output in zip(gold, predicted, strict=True) for a, b in zip(row, output, strict=True)
    )
    totals: Counter[str] = Counter()
    for (true, _), count in pairs.items():
        totals[true] += count
    tags = [tag for tag, _ in sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:LARGEST]]
    shares = [[pairs[true, predicted_tag] / totals[true] for predicted_tag in tags] for true in tags]
    return HeatMaps(
        [ShadeTable(tags, tags, shares, "Confusion: true tags down, said across", across="said tag", down="true tag")]
    )
