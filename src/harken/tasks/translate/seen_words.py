"""The source words that a model met in training, as a file of its folder.

A subword model has an id for every piece of every word, so its vocabulary does not tell which words it never met. The
list does: harken names such words wherever it names words without an id. Case, punctuation and numbers do not count,
and neither do scripts without spaces.

>>> words = SeenWords.learn(["The cat's asleep.", "A well-known dog"])
>>> words.unseen("The well-known zebra, asleep for 12 hours."), words.unseen("A DOG'S cat")
([2, 4, 6], [])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harken.data.rows import Rows
from harken.data.text.pairs import Pair
from harken.data.text.scripts import has_unspaced
from harken.files import atomic_write
from harken.tasks.artifacts import ObjectArtifact, damaged

FILE = "seen_words.txt"
MOST_TEXTS = 1_000_000  # of a larger corpus no list is made: it would be long, and hardly a word would be missing
WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class SeenWords:
    """The words in lower case; none where a model has no list."""

    words: frozenset[str] = frozenset()

    @classmethod
    def learn(cls, texts: Iterable[str], known: SeenWords | None = None) -> SeenWords:
        """From the source side of the training data, with the `known` words of the model that is fine-tuned."""
        words = frozenset(word for text in texts for word in _words(text))
        return cls(words if known is None else words | known.words)

    @classmethod
    def of_pairs(cls, pairs: Rows[Pair], known: SeenWords | None = None) -> SeenWords:
        """The words of the sources of training pairs, as by `learn`; of pairs on disk computed once."""
        words = pairs.cached("words of the sources", lambda: sorted(cls.learn(pairs.column(0)).words))
        return cls.learn(words, known)

    def unseen(self, text: str) -> list[int]:
        """The words of a text, counted from 0 as spaces divide them, with a part that is not in the list."""
        if not self.words:
            return []
        return [at for at, word in enumerate(text.split()) if not self.words.issuperset(_words(word))]

    def save(self, folder: Path) -> None:
        """Into a model folder, one word a line."""
        atomic_write(folder / FILE, "".join(f"{word}\n" for word in sorted(self.words)))

    @classmethod
    def load(cls, folder: Path) -> SeenWords:
        """From a model folder; empty where it has no list.

        Raises:
            UserError: the file is damaged.
        """
        try:
            return cls(frozenset((folder / FILE).read_text(encoding="utf-8").split()))
        except FileNotFoundError:
            return cls()
        except (OSError, UnicodeDecodeError):
            raise damaged(folder / FILE) from None


SEEN_WORDS = ObjectArtifact(SeenWords, FILE)


def _words(text: str) -> Iterator[str]:
    return (word for word in WORD.findall(text.lower()) if not has_unspaced(word))
