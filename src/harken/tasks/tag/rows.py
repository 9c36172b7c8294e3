"""Sentences as ids, and padded batches out of them; every distinct word of a batch is spelled once.

>>> from harken.data.text.tagged import Tagged
>>> from harken.tasks.tag.vocabulary import Vocabulary
>>> sentences = [("a", "cat", "a"), ("cat",)]
>>> known = Vocabulary.learn([Tagged(words, words) for words in sentences], lowercase=True, min_count=1)
>>> batch, lengths = WordRows(sentences, known).gather([0, 1])
>>> batch.words.tolist(), batch.spelled.tolist(), batch.spellings.tolist(), lengths.tolist()
([[4, 5, 4], [5, 0, 0]], [[0, 1, 0], [1, 0, 0]], [[4, 0, 0], [5, 4, 6]], [3, 1])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from harken.data.io.token_rows import TokenRows
from harken.models.heads.character_features import WordBatch
from harken.tasks.tag.vocabulary import Vocabulary


class WordRows:
    """All sentences of a split."""

    def __init__(self, sentences: Sequence[Sequence[str]], vocabulary: Vocabulary) -> None:
        self.words = TokenRows.from_lists([vocabulary.word_ids(sentence) for sentence in sentences])
        forms = {form: number for number, form in enumerate(dict.fromkeys(w for s in sentences for w in s))}
        self.forms = TokenRows.from_lists([[forms[word] for word in sentence] for sentence in sentences])
        self.spellings = TokenRows.from_lists([vocabulary.spelling(form) for form in forms])

    def __len__(self) -> int:
        return len(self.words)

    @property
    def lengths(self) -> np.ndarray:
        """Words of every sentence."""
        return self.words.lengths

    def gather(self, rows: Sequence[int] | np.ndarray) -> tuple[WordBatch, Tensor]:
        """The chosen sentences, and their lengths (B,)."""
        words, lengths = self.words.gather(rows)
        forms, _ = self.forms.gather(rows)  # padding is the first word of the split, which costs nothing
        distinct, place = np.unique(forms.numpy(), return_inverse=True)
        spellings, _ = self.spellings.gather(distinct)
        return WordBatch(words, torch.from_numpy(place.reshape(forms.shape)), spellings), lengths


class FrameRows:
    """Signals of real-valued frames (T, C), one a row."""

    def __init__(self, signals: Sequence[np.ndarray]) -> None:
        self.signals = [torch.as_tensor(np.asarray(signal, dtype=np.float32)) for signal in signals]
        self.lengths = np.array([len(signal) for signal in self.signals], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.signals)

    def gather(self, rows: Sequence[int] | np.ndarray) -> tuple[Tensor, Tensor]:
        """Frames (B, T, C) padded with zeros, and lengths (B,)."""
        chosen = [self.signals[int(row)] for row in rows]
        return torch.nn.utils.rnn.pad_sequence(chosen, batch_first=True), torch.from_numpy(self.lengths[rows])
