"""Examples as a classifier or regressor reads them: ids ended by EOS and cut to a length, or frames; batches of them.

>>> cut([5, 6, 7, 8, 3], 3, "start"), cut([5, 6, 7, 8, 3], 3, "end"), cut([5, 6, 7, 8, 3], 4, "both")
([5, 6, 3], [7, 8, 3], [5, 6, 8, 3])
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from harken.data.io.ragged import FrameRows
from harken.data.io.token_rows import CHUNK, TokenRows
from harken.data.rows import Columns, id_type, rows_of
from harken.data.text.examples_config import ExamplesConfig
from harken.data.text.labelled import cleaned
from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.tokens import EOS
from harken.data.tokenizers.word import WordTokenizer
from harken.data.tokenizers.words import words_of
from harken.errors import UserError
from harken.models.build import build_encoder
from harken.models.reader import FrameInput, Reader, TokenInput
from harken.tasks.context import Context, ContextRows
from harken.tasks.labelled.recipe import LabelledRecipe
from harken.tasks.pretrained_embeddings import bare
from harken.tasks.sequence_task import SequenceTask, refuse_too_long
from harken.training.config import TrainConfig
from harken.training.task import Indices

Rows = TokenRows | FrameRows | ContextRows


def as_rows(
    values: Sequence[Any], recipe: LabelledRecipe, tokenizer: Tokenizer | None, channels: int | None = None
) -> TokenRows | FrameRows:
    """Texts as rows of ids, or arrays (T, C) as rows of frames.

    Raises:
        UserError: an example of the other kind, or one that is too long for the model's positions.
    """
    require_kind(values, recipe)
    rows: TokenRows | FrameRows
    if tokenizer is None:
        rows = FrameRows([as_frames(value) for value in values], channels)
    else:
        rows = _encode(values, recipe, tokenizer)
    remedy = "set data.max_tokens, " if recipe.data.kind == "text" else "cut them, as by data.window, "
    refuse_too_long(rows.lengths, recipe.model.longest, remedy=remedy)
    return rows


def _encode(texts: Sequence[str], recipe: LabelledRecipe, tokenizer: Tokenizer) -> TokenRows:
    limit, keep = recipe.data.max_tokens, recipe.data.keep

    def encode(columns: Columns) -> list[TokenRows]:
        parts = []
        for start in range(0, len(columns[0]), CHUNK):  # bounds the memory that Python lists take
            ids = [[*row, EOS] for row in tokenizer.encode_all(columns[0][start : start + CHUNK])]
            parts.append(TokenRows.from_lists([row if limit is None else cut(row, limit, keep) for row in ids]))
        return [TokenRows.concatenate(parts)]

    key = ["labelled", tokenizer, limit, keep]
    return rows_of(texts).encode({"text": id_type(tokenizer.size)}, encode, key)[0]


def build_reader(recipe: LabelledRecipe, inputs: int, context: Context | None) -> Reader:
    """A new encoder over `inputs` ids or channels, with weights drawn from torch's current random state.

    Raises:
        UserError: incompatible options.
    """
    encoder = build_encoder(recipe.model, may_start=True)
    kind = TokenInput if recipe.data.kind == "text" else FrameInput
    embedding: nn.Module = kind(inputs, encoder.embedding)
    return Reader(embedding if context is None else context.beside(embedding, encoder.embedding), encoder)


def in_context(rows: Rows, texts: Sequence[Any], recipe: LabelledRecipe, context: Context | None) -> Rows:
    """The rows with the layers of their words, cut as they are; the end of a text has none. As they are without any."""
    if context is None:
        return rows
    sentences = [[bare(token) for token in WordTokenizer.split(text)] for text in texts]
    word_indices = []
    for words in sentences:
        where = [*range(len(words)), EOS]
        limit = recipe.data.max_tokens
        word_indices.append([*(where if limit is None else cut(where, limit, recipe.data.keep))[:-1], -1])
    return context.rows(rows, sentences, word_indices)


def require_kind(values: Sequence[Any], recipe: LabelledRecipe) -> None:
    """Texts where the model reads texts, and arrays where it reads signals.

    Raises:
        UserError: the first that is something else.
    """
    is_text = recipe.data.kind == "text"
    index = rows_of(values).find(lambda value: isinstance(value, str) != is_text)
    if index is not None and is_text:
        kind = type([*values][index]).__name__
        raise UserError(f"example {index + 1} is a {kind}, but the model reads texts; give strings")
    if index is not None:
        raise UserError(f"example {index + 1} is a text, but the model reads signals; give arrays (time, channels)")


def by_word(example: Any, weights: Tensor, data: ExamplesConfig, tokenizer: Tokenizer | None) -> np.ndarray:
    """Weights (T,) of an example's steps; those of a text summed over the pieces of each word."""
    values: np.ndarray = weights.float().cpu().numpy().astype(np.float64)
    if tokenizer is None:
        return values
    text = cleaned(example, data)
    ids = tokenizer.encode(text)
    words, owners = words_of(tokenizer, ids, text)
    word_weights = np.zeros(len(words))
    if len(ids) + 1 != len(values):  # a text that was cut: its first pieces, where those were kept
        ids = ids[: len(values) - 1]
    np.add.at(word_weights, owners[: len(ids)], values[: len(ids)])
    return word_weights


def as_frames(value: Any) -> np.ndarray:
    """An array (T, C) of float32; a single channel may be given as (T,).

    Raises:
        UserError: what is no array of numbers, such as rows of different lengths.
    """
    try:
        frames = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError):
        raise UserError("a signal is no array of numbers; give (time, channels), every row with all channels") from None
    return frames[:, None] if frames.ndim == 1 else frames


def cut(row: list[int], limit: int, keep: str) -> list[int]:
    """The first, the last, or both ends of the ids, with EOS at the end in any case."""
    if len(row) <= limit:
        return row
    body = row[:-1]
    left = limit - 1
    after = {"start": 0, "end": left, "both": left // 2}[keep]
    return [*body[: left - after], *(body[len(body) - after :] if after else []), EOS]


def stored_shapes(weights: Path) -> dict[str, list[int]]:
    """The shapes of the tensors in a model file, by name.

    Raises:
        UserError: the file is damaged.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, "pt") as stored:
            return {name: stored.get_slice(name).get_shape() for name in stored.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, UnicodeError) as problem:
        raise UserError(f"{weights} is damaged ({problem}); train the model again or copy it anew") from problem


M = TypeVar("M", bound=nn.Module)
Split = tuple[Rows, np.ndarray]  # examples, and a target for each: labels (N,), or values (N, K) of float32


class LabelledBatch(NamedTuple):
    """Padded examples with their targets."""

    values: Any  # (B, T) ids, with the layers of a context or without, or (B, T, C) frames
    lengths: Tensor | None  # (B,); None where no row is padded
    targets: Tensor  # (B,) or (B, K)


class LabelledTask(SequenceTask[M, LabelledBatch]):
    """One answer for each example, so an example is one term of the loss."""

    def __init__(self, model: M, settings: TrainConfig, train: Split, valid: Split) -> None:
        super().__init__(model, settings, train[0].lengths, valid[0].lengths)
        self.train, self.valid = train, valid
        self.unit = "signals" if isinstance(train[0], FrameRows) else "texts"
        self.facts: dict[str, str] = {}  # what was fitted beside the network, for the card
        self.smallest_batch = max(256, round(32 * float(self.lengths.mean())))  # about 32 examples

    def collate(self, indices: Indices, valid: bool = False) -> LabelledBatch:
        rows, targets = self.valid if valid else self.train
        values, lengths = rows.gather(indices)
        padded = int(lengths.min()) < values.shape[1]
        chosen = targets[indices]
        chosen = chosen.astype(np.int64) if chosen.dtype.kind in "iu" else chosen
        return LabelledBatch(values, lengths if padded else None, torch.from_numpy(chosen))

    def size(self, indices: Indices) -> int:
        """Count the examples."""
        return len(indices)
