"""What a tagger knows by name: words, characters and tags, kept as `vocabulary.json` in the model folder.

>>> from harken.data.text.tagged import Tagged
>>> known = Vocabulary.learn([Tagged(("The", "cat"), ("DET", "NOUN"))], lowercase=True, min_count=1)
>>> known.word_ids(["the", "dog"]), known.spelling("cat!"), known.tags
([5, 1], [6, 5, 9, 1], ['DET', 'NOUN'])
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harken.data.text.tagged import Tagged
from harken.data.tokenizers.tokens import SPECIALS, UNK
from harken.errors import UserError
from harken.files import atomic_write

FILE = "vocabulary.json"
LONGEST_WORD = 32  # characters that are read of a word: half from its start, half from its end


@dataclass
class Vocabulary:
    """Ids 0 to 3 of words and characters are the special ones (`harken.data.tokenizers.tokens`); tags begin at 0."""

    tags: list[str]
    words: list[str] = field(default_factory=list)
    characters: list[str] = field(default_factory=list)
    lowercase: bool = False
    channels: int = 0  # of frames, where it is no words that are tagged

    def __post_init__(self) -> None:
        first = len(SPECIALS)
        self._words = {word: number for number, word in enumerate(self.words, first)}
        self._characters = {character: number for number, character in enumerate(self.characters, first)}
        self._tags = {tag: number for number, tag in enumerate(self.tags)}

    @classmethod
    def learn(
        cls,
        sentences: Sequence[Tagged],
        *,
        lowercase: bool,
        min_count: int,
        more_words: Iterable[str] = (),
        more_tags: Iterable[str] = (),
    ) -> Vocabulary:
        """From the training sentences; `more_words` and `more_tags` are known though they are not seen in them."""
        counts: Counter[str] = Counter()
        characters: Counter[str] = Counter()
        tags = set(more_tags)
        for sentence in sentences:
            counts.update(word.lower() if lowercase else word for word in sentence.words)
            characters.update(character for word in sentence.words for character in word)
            tags.update(sentence.tags)
        words = [word for word, count in _by_count(counts) if count >= min_count]
        seen = set(words)
        words += [word for word in dict.fromkeys(more_words) if word not in seen]
        return cls(sorted(tags), words, [character for character, _ in _by_count(characters)], lowercase)

    @property
    def word_count(self) -> int:
        """Rows of the words' matrix."""
        return len(SPECIALS) + len(self.words)

    @property
    def character_count(self) -> int:
        """Rows of the characters' matrix."""
        return len(SPECIALS) + len(self.characters)

    def word_ids(self, words: Sequence[str]) -> list[int]:
        """Known words by their ids, others as unknown."""
        return [self._words.get(word.lower() if self.lowercase else word, UNK) for word in words]

    def spelling(self, word: str) -> list[int]:
        """The characters of a word; of a very long one the beginning and the end."""
        if len(word) > LONGEST_WORD:
            word = word[: LONGEST_WORD // 2] + word[-LONGEST_WORD // 2 :]
        return [self._characters.get(character, UNK) for character in word]

    def tag_ids(self, tags: Sequence[str]) -> list[int]:
        """Ids of tags.

        Raises:
            UserError: a tag that was not in the training data.
        """
        try:
            return [self._tags[tag] for tag in tags]
        except KeyError as missing:
            raise UserError(
                f"the tag {missing.args[0]!r} is not one of the {len(self.tags)} tags of the training data "
                f"({', '.join(self.tags[:20])}{' ...' * (len(self.tags) > 20)}); check the column or the file"
            ) from None

    def save(self, folder: Path) -> None:
        """Write the file into a model folder."""
        text = json.dumps(asdict(self), ensure_ascii=False, indent=0)
        atomic_write(folder / FILE, text + "\n")

    @classmethod
    def load(cls, folder: Path) -> Vocabulary:
        """What `save` wrote.

        Raises:
            UserError: the file is missing or damaged.
        """
        path = folder / FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            tags, words, characters = lists = [content[name] for name in ("tags", "words", "characters")]
            if not all(isinstance(found, list) and all(isinstance(one, str) for one in found) for found in lists):
                raise ValueError("its lists are no lists of texts")
            return cls(tags, words, characters, bool(content["lowercase"]), int(content["channels"]))
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise UserError(f"{path} is no saved vocabulary ({problem}); copy the folder again or train anew") from None


def _by_count(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
