"""ELMo as a task: sentences in batches of words, the words after and before every word, perplexity.

>>> known = learn_vocabulary([("a", "cat")], 10, 1)
>>> batch, lengths = ElmoRows.of([("a", "cat")], known).gather([0])
>>> batch.words.tolist(), batch.spelled.tolist(), batch.spellings.tolist(), lengths.tolist()
([[2, 4, 5, 3]], [[0, 2, 3, 1]], [[2, 0, 0], [3, 0, 0], [4, 0, 0], [5, 4, 6]], [4])
>>> words_of("so: don't")
['so', ':', 'don', "'", 't']
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from harken.data.io.token_rows import TokenRows
from harken.data.rows import Columns, id_type, rows_of
from harken.data.text.text_config import LinesConfig
from harken.data.tokenizers.tokens import SPECIALS
from harken.data.tokenizers.word import JOINED, WordTokenizer
from harken.models.heads.character_features import WordBatch
from harken.models.language.elmo import ElmoNetwork
from harken.tasks.sequence_task import SequenceTask, Sums, perplexity
from harken.tasks.words import Vocabulary, WordRows
from harken.training.config import TrainConfig
from harken.training.task import Indices


class ElmoRows(WordRows):
    """All sentences of a split, each of at least one word, with a beginning and an end."""

    has_ends = True

    @classmethod
    def of_lines(
        cls, lines: Sequence[str], config: LinesConfig, counts: Mapping[str, int], vocabulary: Vocabulary
    ) -> ElmoRows:
        """The sentences of lines whose `word_counts` are known."""
        numbers = cls.numbers(counts)

        def encode(columns: Columns) -> tuple[TokenRows, ...]:
            return cls.ids(sentences_of(columns[0], config), numbers, vocabulary)

        dtype = id_type(max(len(SPECIALS) + len(vocabulary.words), 2 + len(counts)))
        key = ["elmo", vocabulary.words, vocabulary.lowercase, config.max_tokens, config.lowercase]
        words, forms = rows_of(lines).encode({"words": dtype, "forms": dtype}, encode, key)
        return cls(words, forms, cls.spelled(counts, vocabulary))


def word_counts(lines: Sequence[str], config: LinesConfig) -> dict[str, int]:
    """The counts of the words in lines, in the order of first occurrence."""
    rows = rows_of(lines)

    def count(texts: Iterable[str]) -> Counter[str]:
        return Counter(chain.from_iterable(words_of(text, config.lowercase) for text in texts))

    counts: dict[str, int] = rows.cached(
        ["words", config.lowercase], lambda: rows.token_counts(count, most=sys.maxsize)
    )
    return counts


def words_of(text: str, lowercase: bool = False) -> list[str]:
    """The words of a text, marks cut off."""
    words = [token.strip(JOINED) or token for token in WordTokenizer.split(text)]
    return [word.lower() for word in words] if lowercase else words


def sentences_of(lines: Sequence[str], config: LinesConfig) -> list[list[str]]:
    """The words of every line, in pieces of at most `max_tokens`.

    >>> sentences_of(["One two three", ""], LinesConfig(max_tokens=2, lowercase=True))
    [['one', 'two'], ['three']]
    """
    limit, rows = config.max_tokens, [words_of(line, config.lowercase) for line in lines]
    return [words[start : start + limit] for words in rows for start in range(0, len(words), limit)]


def learn_vocabulary(sentences: Sequence[Sequence[str]], size: int, min_count: int) -> Vocabulary:
    """The words that can be predicted, and all characters."""
    return vocabulary_of(Counter(word for sentence in sentences for word in sentence), size, min_count)


def vocabulary_of(counts: Mapping[str, int], size: int, min_count: int) -> Vocabulary:
    """The vocabulary of counted words."""
    letters = Counter(letter for word, count in counts.items() for letter in word * min(count, 2))
    words = [word for word, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])) if count >= min_count]
    return Vocabulary([], words[: size - len(SPECIALS)], sorted(letters))


class ElmoBatch(NamedTuple):
    """Sentences from BOS to EOS."""

    words: WordBatch
    lengths: Tensor  # (B,)
    terms: int  # words to predict, in both directions


class ElmoTask(SequenceTask[ElmoNetwork, ElmoBatch]):
    """See `harken.tasks.sequence_task`."""

    unit = "words"
    monitor = "perplexity"
    smoothing = 0.0  # it raises the perplexity

    def __init__(self, settings: TrainConfig, model: ElmoNetwork, train: ElmoRows, valid: ElmoRows) -> None:
        super().__init__(model, settings, train.lengths, valid.lengths)
        self.train, self.valid = train, valid
        self.loss_of = self.compiled(model.loss)

    def size(self, indices: Indices) -> int:
        """Words to predict, in both directions."""
        return int(2 * (self.lengths[indices] - 1).sum())

    def collate(self, indices: Indices, valid: bool = False) -> ElmoBatch:
        words, lengths = (self.valid if valid else self.train).gather(indices)
        return ElmoBatch(words, lengths, int(2 * (lengths - 1).sum()))

    def loss(self, model: ElmoNetwork, batch: ElmoBatch) -> tuple[Tensor, int]:
        return self.loss_of(batch.words, batch.lengths, self.settings.label_smoothing), batch.terms

    def evaluate(self, model: ElmoNetwork, batch: ElmoBatch) -> Sums:
        forward, backward = row_losses(model, batch.words, batch.lengths).sum(0).tolist()
        return {"forward": forward, "backward": backward, "terms": batch.terms}

    def metrics(self, sums: Sums) -> dict[str, float]:
        """Mean loss and perplexity of a word, and the perplexity of each direction."""
        words = sums["terms"] / 2
        losses = {f"{name}_perplexity": sums[name] / words for name in ("forward", "backward")}
        loss = sum(losses.values()) / 2
        perplexities = {name: perplexity(value) for name, value in {"perplexity": loss, **losses}.items()}
        return {"loss": loss, **perplexities}


def row_losses(model: ElmoNetwork, words: WordBatch, lengths: Tensor) -> np.ndarray:
    """(B, 2): the summed loss of each sentence, forward and backward."""
    counts = (lengths - 1).tolist()
    directions = []
    for hidden, targets in model.top(words, lengths):
        losses = F.cross_entropy(model.output(hidden).float(), targets, reduction="none").double().cpu()
        directions.append(torch.stack([part.sum() for part in losses.split(counts)]))
    return torch.stack(directions, 1).numpy()
