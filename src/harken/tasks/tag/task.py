"""Tagging as a task: sentences in batches of words, cross-entropy or a CRF's likelihood, token accuracy, entity F1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from harken.data.io.ragged import FrameRows
from harken.data.io.token_rows import TokenRows
from harken.data.rows import rows_of
from harken.data.series.framed import Framed
from harken.data.text.tagged import Tagged
from harken.data.tokenizers.base import Tokenizer
from harken.errors import UserError
from harken.metrics.labels import Counts, is_bio, sentence_counts
from harken.models.build import build_encoder
from harken.models.heads.character_features import WordInput
from harken.models.heads.tagger import TaggingModel
from harken.models.pretrained import copy_weights, rows_in
from harken.models.reader import FrameInput, PieceInput, PieceReader, Reader, words_alone
from harken.tasks.context import Context, ContextRows
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key
from harken.tasks.pretrained_encoder import starting_words
from harken.tasks.sequence_task import SequenceTask, Sums, refuse_too_long
from harken.tasks.tag.corpus import Example
from harken.tasks.tag.pieces import PieceRows
from harken.tasks.tag.recipe import TagRecipe
from harken.tasks.words import Vocabulary, WordRows
from harken.training.config import TrainConfig
from harken.training.task import Indices

Rows = WordRows | PieceRows | FrameRows | ContextRows


class TagBatch(NamedTuple):
    """Sentences with a label for every word; `harken.inspection.measures.running` runs a network on it too."""

    values: Any  # what the reader's input takes
    lengths: Tensor  # (B,)
    labels: Tensor  # (B, T)
    words: int  # without padding

    def predictions(self, model: TaggingModel) -> tuple[Tensor, Tensor, Tensor]:
        """Emissions (B, T, K), the labels, and the place of each row's last word (B,)."""
        return model(self.values, self.lengths), self.labels, self.lengths - 1


class TaggingTask(SequenceTask[TaggingModel, TagBatch]):
    """See `harken.tasks.sequence_task`."""

    unit = "words"
    mode = "max"

    def __init__(
        self,
        settings: TrainConfig,
        model: TaggingModel,
        tags: Sequence[str],
        train: tuple[Rows, TokenRows],
        valid: tuple[Rows, TokenRows],
    ) -> None:
        super().__init__(model, settings, train[0].lengths, valid[0].lengths)
        self.smallest_batch = 700  # words
        self.train, self.valid = train, valid
        self.tags, self.bio = np.array(tags), is_bio(tags)
        self.monitor = "f1" if self.bio else "accuracy"
        self.loss_of = self.compiled(model.loss)

    def collate(self, indices: Indices, valid: bool = False) -> TagBatch:
        rows, labels = self.valid if valid else self.train
        values, lengths = rows.gather(indices)
        return TagBatch(values, lengths, labels.gather(indices)[0], int(lengths.sum()))

    def loss(self, model: TaggingModel, batch: TagBatch) -> tuple[Tensor, int]:
        padded = batch.words < batch.labels.numel()
        lengths = batch.lengths if padded else None
        return self.loss_of(batch.values, lengths, batch.labels, self.settings.label_smoothing), batch.words

    def evaluate(self, model: TaggingModel, batch: TagBatch) -> Sums:
        """Loss, words with the right tag and, with BIO tags, entities."""
        loss = float(model.loss(batch.values, batch.lengths, batch.labels))
        tags, gold = model.tag(batch.values, batch.lengths)[0].cpu().numpy(), batch.labels.cpu().numpy()
        right, counts = 0, Counts()
        for row, length in enumerate(batch.lengths.tolist()):
            predicted, true = tags[row, :length], gold[row, :length]
            right += int((predicted == true).sum())
            if self.bio:
                counts += sentence_counts(self.tags[true].tolist(), self.tags[predicted].tolist())
        return {"loss": loss, "words": batch.words, "right": right, **counts._asdict()}

    def metrics(self, sums: Sums) -> dict[str, float]:
        """Mean loss a word, the share of words that are right, and entity F1 where tags are BIO."""
        words = max(1, sums["words"])
        scores = {"loss": sums["loss"] / words, "accuracy": sums["right"] / words}
        if self.bio:
            scores["f1"] = Counts(*(sums[name] for name in Counts._fields)).f1
        return scores


def build_task(
    recipe: TagRecipe,
    train: Sequence[Example],
    valid: Sequence[Example],
    vocabulary: Vocabulary | None = None,
    context: Context | None = None,
    pretrained: PretrainedEmbeddings | None = None,
    tokenizer: Tokenizer | None = None,
) -> tuple[TaggingTask, Vocabulary]:
    """A task with a new model; the vocabulary is learnt from the sentences where none is given.

    Args:
        tokenizer: of the pieces that are read in place of words.

    Raises:
        UserError: sentences that the recipe's model cannot read.
    """
    pretrained = pretrained or PretrainedEmbeddings(recipe)
    vocabulary = vocabulary or learn_vocabulary(recipe, train, valid, pretrained, tokenizer is not None)
    if vocabulary.channels and (recipe.embeddings.elmo or recipe.embeddings.words):
        raise UserError("embeddings are vectors of words, but the files hold frames; leave them out")
    sides = [_side(part, vocabulary, context, tokenizer) for part in (train, valid)]
    lengths = [(rows.ids if isinstance(rows, PieceRows) else labels).lengths for rows, labels in sides]
    unit = "words" if tokenizer is None else "pieces"
    refuse_too_long(np.concatenate(lengths), recipe.model.longest, f"sentences have more {unit} than", unit="")
    model = build_tagging_model(recipe, vocabulary, context, tokenizer)
    words = words_alone(model.reader.inputs)
    if isinstance(words, WordInput):
        ids = word_rows(sides[0][0]).words.flat
        pretrained.fill(words.words.table.weight, vocabulary.names, texts_of(train), width_key(recipe.model), ids=ids)
    if context is not None:
        pretrained.add_note(f"beside {context.layers} frozen layers of {recipe.embeddings.elmo}")
    if recipe.model.start is not None:
        rows = rows_in(vocabulary.words, starting_words(recipe.model.start)) if tokenizer is None else None
        pieces = copy_weights(model.reader, recipe.model.start, rows)
        pretrained.add_note(f"encoder and {pieces:,} {unit} initialised from {recipe.model.start}")
    if isinstance(model.reader.inputs, FrameInput):
        model.reader.inputs.fit(torch.from_numpy(np.concatenate([e.frames for e in train if isinstance(e, Framed)])))
    return TaggingTask(recipe.train, model, vocabulary.tags, *sides), vocabulary


def learn_vocabulary(
    recipe: TagRecipe,
    train: Sequence[Example],
    valid: Sequence[Example],
    pretrained: PretrainedEmbeddings,
    has_pieces: bool = False,
) -> Vocabulary:
    """Words and characters of the training sentences, the words of pretrained vectors, and the tags of both splits.

    A tagger that reads pieces keeps the tags alone.

    Raises:
        UserError: words and frames together, or frames of different widths.
    """
    if not train or not valid:
        raise UserError("there is nothing to train or to validate on; look at the recipe's [data]")
    vectors = pretrained.vectors(recipe.model.embedding_width, texts_of(train), width_key(recipe.model))
    tags = {tag for example in valid for tag in example.tags}
    rows = rows_of(train)
    if rows.find(lambda example: not isinstance(example, Tagged)) is None:
        settings, start = recipe.words, None if has_pieces else recipe.model.start
        more = list(starting_words(start)) if start is not None else vectors.words if vectors is not None else []
        learned = Vocabulary.learn(
            rows, lowercase=settings.lowercase, min_count=settings.min_count, more_words=more, more_tags=tags
        )
        return Vocabulary(learned.tags) if has_pieces else learned
    widths = {example.frames.shape[1] if isinstance(example, Framed) else 0 for example in [*train, *valid]}
    if len(widths) > 1 or 0 in widths:
        raise UserError("the files hold words here and frames there, or frames of different widths; give one kind")
    tags |= {tag for example in train for tag in example.tags}
    return Vocabulary(sorted(tags), channels=widths.pop())


def build_tagging_model(
    recipe: TagRecipe, vocabulary: Vocabulary, context: Context | None = None, tokenizer: Tokenizer | None = None
) -> TaggingModel:
    """A new network, with weights drawn from torch's current random state."""
    encoder = build_encoder(recipe.model, may_start=True)
    if vocabulary.channels:
        inputs: Any = FrameInput(vocabulary.channels, encoder.embedding)
    elif tokenizer is not None:
        inputs = PieceInput(tokenizer.size, encoder.embedding)
    else:
        settings = recipe.words
        inputs = WordInput(
            vocabulary.word_count,
            vocabulary.character_count,
            encoder.embedding,
            characters=settings.characters,
            character_embedding=settings.character_embedding,
            character_width=settings.character_width,
            dropout=settings.character_dropout,
            word_dropout=settings.dropout,
        )
    if context is not None:
        inputs = context.beside(inputs, encoder.embedding)
    forbidden = forbidden_transitions(vocabulary.tags) if recipe.tags.bio else None
    reader = Reader(inputs, encoder) if tokenizer is None else PieceReader(inputs, encoder)
    return TaggingModel(reader, len(vocabulary.tags), recipe.tags.crf, forbidden)


def forbidden_transitions(tags: Sequence[str]) -> tuple[Tensor, Tensor]:
    """The transitions that BIO tags rule out: I-x as the first tag, or after anything but B-x and I-x.

    Returns:
        (K, K) which tag may not follow which, from row to column; (K,) which may not be the first.

    >>> moves, firsts = forbidden_transitions(["B-person", "I-person", "O"])
    >>> moves.tolist(), firsts.tolist()
    ([[False, False, False], [False, False, False], [False, True, False]], [False, True, False])
    """
    kinds = [tag[2:] if tag.startswith("I-") else None for tag in tags]
    moves = [[kind is not None and before not in (f"B-{kind}", f"I-{kind}") for kind in kinds] for before in tags]
    return torch.tensor(moves), torch.tensor([kind is not None for kind in kinds])


def as_rows(
    examples: Sequence[Example],
    vocabulary: Vocabulary,
    context: Context | None = None,
    tokenizer: Tokenizer | None = None,
) -> Rows:
    """Encode examples as the rows that the model reads."""
    if vocabulary.channels:
        frames = [example.frames for example in examples if isinstance(example, Framed)]
        return FrameRows(frames, vocabulary.channels)
    sentences = [example.words for example in examples if isinstance(example, Tagged)]
    if tokenizer is not None:
        return PieceRows.of(sentences, tokenizer)
    rows = WordRows.of(sentences, vocabulary)
    return rows if context is None else context.rows(rows, sentences)


def _side(
    part: Sequence[Example], vocabulary: Vocabulary, context: Context | None, tokenizer: Tokenizer | None
) -> tuple[Rows, TokenRows]:
    """Encode a split as the rows that the model reads, and the ids of its tags."""
    if vocabulary.channels:
        return as_rows(part, vocabulary), TokenRows.from_lists([vocabulary.tag_ids(example.tags) for example in part])
    if tokenizer is not None:
        return PieceRows.of_tagged(rows_of(part), tokenizer, vocabulary)
    rows, tags = WordRows.of_tagged(rows_of(part), vocabulary)
    return (rows if context is None else context.rows(rows, [example.words for example in part])), tags  # type: ignore[union-attr]


def word_rows(rows: Rows) -> WordRows:
    """The words among what a model of words reads."""
    words: WordRows = rows.inner if isinstance(rows, ContextRows) else rows  # type: ignore[assignment]
    return words


def texts_of(examples: Sequence[Example]) -> Iterable[str]:
    """The sentences, their words joined by spaces."""
    return (" ".join(example.words) for example in examples if isinstance(example, Tagged))
