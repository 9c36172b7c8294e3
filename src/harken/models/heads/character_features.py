"""Word inputs of a tagger: an embedding plus features of the characters.

    e(word) = E[word] + W f(c_1 ... c_n)         f: last states of a BiLSTM, or the maximum over a convolution

The embedding covers the words of the training text; the characters also cover endings, capitals and digits of unseen
words. In training some words are replaced by the unknown word, so that its embedding is trained (word dropout). Each
distinct word of a batch is read once. The sum is that of Dozat, Qi and Manning (2017).

>>> inputs = WordInput(10, 30, 8, characters="lstm", character_embedding=4, character_width=6)
>>> batch = WordBatch(torch.tensor([[5, 1, 5]]), torch.tensor([[0, 1, 0]]), torch.tensor([[4, 5], [6, 0]]))
>>> embedded = inputs(batch)
>>> embedded.shape, bool((embedded[0, 0] == embedded[0, 2]).all())
(torch.Size([1, 3, 8]), True)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from harken.data.tokenizers.tokens import PAD, UNK
from harken.models.reader import TokenInput
from harken.nn import LSTM

KERNEL = 3  # characters that a filter of the convolution sees


@dataclass(frozen=True)
class WordBatch:
    """Sentences of words, with the spelling of every distinct word."""

    words: Tensor  # (B, T) ids of the vocabulary; 0 is padding
    spelled: Tensor  # (B, T) rows of `spellings`
    spellings: Tensor  # (U, C) ids of characters, padded with 0; each row has at least one

    def to(self, device: torch.device | str) -> WordBatch:
        """The batch on another device."""
        tensors = (self.words, self.spelled, self.spellings)
        return WordBatch(*(tensor.to(device, non_blocking=True) for tensor in tensors))


def dummy_words(length: int, device: torch.device) -> WordBatch:
    """One sentence of `length` different words of five letters."""
    words = torch.ones(1, length, dtype=torch.long, device=device)
    spellings = torch.ones(length, 5, dtype=torch.long, device=device)
    return WordBatch(words, torch.arange(length, device=device)[None], spellings)


class WordInput(nn.Module):
    """A batch of words -> (B, T, E)."""

    def __init__(
        self,
        words: int,
        characters_known: int,
        width: int,
        *,
        characters: str = "lstm",
        character_embedding: int = 32,
        character_width: int = 100,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.words = TokenInput(words, width)
        self.word_dropout, self.scale = word_dropout, width**-0.5  # encoders multiply by sqrt(E)
        self.speller: CharacterFeatures | None = None
        if characters != "none":
            self.speller = CharacterFeatures(
                characters_known, character_embedding, character_width, characters, dropout
            )
            self.project = nn.Linear(character_width, width)

    def forward(self, batch: WordBatch) -> Tensor:
        """Embeddings (B, T, E); those of padding are arbitrary, as the encoder masks them."""
        ids = batch.words
        if self.training and self.word_dropout:
            dropped = torch.rand(ids.shape, device=ids.device) < self.word_dropout
            ids = torch.where(dropped & (ids != PAD), UNK, ids)
        embedded: Tensor = self.words(ids)
        if self.speller is None:
            return embedded
        spelled = self.project(self.speller(batch.spellings)) * self.scale  # (U, E)
        return embedded + spelled[batch.spelled]

    def dummy(self, length: int) -> WordBatch:
        """A batch of one sentence of `length` words, for `harken.models.sizing`."""
        return dummy_words(length, self.words.table.weight.device)


class CharacterFeatures(nn.Module):
    """Spellings (U, C) -> features (U, F)."""

    def __init__(self, characters: int, embedding: int, width: int, kind: str = "lstm", dropout: float = 0.0) -> None:
        super().__init__()
        if kind not in ("lstm", "convolutional"):
            raise ValueError(f'characters is {kind!r}; it may be "lstm" or "convolutional"')
        if kind == "lstm" and width % 2:
            raise ValueError(f"character_width {width} is odd, but each direction of the LSTM has half of it")
        self.kind = kind
        self.table = nn.Embedding(characters, embedding, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        if kind == "lstm":
            self.layer: nn.Module = LSTM(embedding, width // 2, bidirectional=True, batch_first=True, orthogonal=True)
        else:
            self.layer = nn.Conv1d(embedding, width, KERNEL, padding=KERNEL // 2)

    def forward(self, spellings: Tensor) -> Tensor:
        """The two last states of the LSTM, or the largest value of each filter over the real characters."""
        embedded = self.dropout(self.table(spellings))  # (U, C, F)
        real = spellings != PAD  # (U, C)
        if self.kind == "lstm":
            _, (hidden, _) = self.layer(embedded, lengths=real.sum(1))  # (2, U, F / 2)
            features: Tensor = hidden.transpose(0, 1).flatten(1)
        else:
            filtered = torch.relu(self.layer(embedded.transpose(1, 2)))  # (U, F, C)
            features = filtered.masked_fill(~real[:, None, :], 0.0).amax(2)  # nothing is below 0 after the ReLU
        return self.dropout(features)
