"""Which language a text is in: one n-gram model of characters for each served language.

    P(language | text) ~ P(text | language) ** SHARPNESS,      all languages equally likely before

The models are harken's own (`harken.models.language.ngram`, interpolated Kneser-Ney, order 4), trained when a server
first needs them: on frequent words of 34 languages, which ship with harken (`frequent_words.json`), and on a sample of
the training texts of the served models; where those are gone, on the words of the model's vocabulary, unless source and
target share one. That takes a second or two. A letter of a script that a language is not written in counts as a further
`SCRIPT`.

>>> detector = Detector({"en": ["the black cat sleeps"], "fr": ["le chat noir dort"]})
>>> [found.language for found in detector.detect("le chien dort dans la maison")]
['fr', 'en']
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harken.errors import UserError
from harken.models.language.ngram import NGram
from harken.serving.registry import ServedModel

ORDER = 4
SHARPNESS = 0.5  # characters depend on each other, so their evidence does not add up in full
LONGEST = 1000  # characters of a text that are looked at
PAIRS = 2000  # of a corpus that are read
WORDS = Path(__file__).parent / "frequent_words.json"
LEAST = -15.0  # log-probability of a character; one that was never seen does not decide alone
SCRIPT = -5.0  # log-probability of a letter in a script that a language is not written in
SPACE, UNKNOWN = 0, 1  # ids; characters follow


class Detected(NamedTuple):
    """A language, and how sure that is, from 0 to 100."""

    language: str
    confidence: float


class Detector:
    """Detects among some languages.

    Args:
        samples: texts of every language, beside the frequent words that are known of it.
    """

    def __init__(self, samples: Mapping[str, Sequence[str]]) -> None:
        known = json.loads(WORDS.read_text(encoding="utf-8"))
        texts = {code: [*found, *known.get(code, "").split()] for code, found in samples.items()}
        texts = {code: found for code, found in texts.items() if found}
        characters = sorted(set(chain.from_iterable(map(_normal, chain.from_iterable(texts.values())))) - {" "})
        self._ids = {character: number for number, character in enumerate(characters, 2)} | {" ": SPACE}
        self._scripts = {code: set(map(_script, "".join(map(_normal, found)))) for code, found in texts.items()}
        size = len(characters) + 2
        self._models = {
            code: NGram.train(self._encode(" ".join(map(_normal, found))), size, ORDER) for code, found in texts.items()
        }

    @property
    def languages(self) -> list[str]:
        """What is told apart."""
        return list(self._models)

    def _encode(self, text: str) -> np.ndarray:
        return np.array([SPACE, *(self._ids.get(character, UNKNOWN) for character in text), SPACE], dtype=np.int64)

    def detect(self, text: str, among: Iterable[str] | None = None) -> list[Detected]:
        """Languages with their confidence, the likeliest first; without letters all are equally likely."""
        codes = [code for code in self._models if among is None or code in set(among)]
        letters = _normal(text[:LONGEST])
        if not codes:
            return []
        ids = self._encode(letters)
        if len(ids) <= 2:
            scores = np.zeros(len(codes))
        else:
            with np.errstate(divide="ignore"):
                scores = np.array([self._models[code].log_probabilities(ids).clip(min=LEAST).sum() for code in codes])
        scripts = Counter(map(_script, letters.replace(" ", "")))
        foreign = [sum(n for script, n in scripts.items() if script not in self._scripts[code]) for code in codes]
        scores = scores + SCRIPT * np.array(foreign)
        shares = np.exp(SHARPNESS * (scores - scores.max()))
        shares = 100 * shares / shares.sum()
        order = np.argsort(-shares, kind="stable")
        return [Detected(codes[index], round(float(shares[index]), 1)) for index in order]


@cache
def _script(character: str) -> str:
    """The first word of a character's name: LATIN, CYRILLIC, CJK ..."""
    return unicodedata.name(character, "").partition(" ")[0]


def _normal(text: str) -> str:
    """Lower case, everything but letters as single spaces.

    >>> _normal("L'été, 12 h!")
    'l été h'
    """
    folded = unicodedata.normalize("NFC", text).lower().replace("i\u0307", "i")
    kept = (character if character.isalpha() or unicodedata.combining(character) else " " for character in folded)
    return " ".join("".join(kept).split())


def samples_of(models: Sequence[ServedModel]) -> dict[str, list[str]]:
    """Texts of every language that translators read or write, from their training data as far as it is there."""
    found: dict[str, list[str]] = {}
    for model in models:
        if model.source is None or model.target is None:
            continue
        pairs = _pairs(model.recipe.data)
        sources, targets = ([one[side] for one in pairs] for side in (0, 1)) if pairs else _vocabularies(model)
        found.setdefault(model.source, []).extend(sources)
        found.setdefault(model.target, []).extend(targets)
    return found


def _vocabularies(model: ServedModel) -> tuple[list[str], list[str]]:
    """The words in the vocabularies of source and target; none where both share one."""
    from harken.tasks.artifacts import TokenizerPairArtifact

    try:
        source, target = TokenizerPairArtifact().load(model.folder)
    except (UserError, OSError, ValueError):
        return [], []
    if source is target:
        return [], []
    first, second = (words_of(side.pieces(range(4, side.size))) for side in (source, target))  # ids below are special
    return first, second


def words_of(pieces: Sequence[str]) -> list[str]:
    """The pieces of a vocabulary that may be words: of subwords those that begin one.

    >>> words_of(["▁the", "ing", "▁cat", "▁,"]), words_of(["le", "chat", "42"])
    (['the', 'cat'], ['le', 'chat'])
    """
    begin = [piece[1:] for piece in pieces if piece.startswith("▁")]
    return [piece for piece in begin or pieces if len(piece) > 1 and piece.isalpha()]


def _pairs(data: Any) -> list[tuple[str, str]]:
    """The first pairs of a recipe's training data; none where it is gone."""
    from harken.data.io.formats import read_pairs
    from harken.data.text.locations import file_pairs, layout_of, origin, splits_of
    from harken.data.text.parallel import read_corpus

    try:
        if origin(data) == "corpus":
            size = min(data.size or PAIRS, PAIRS)
            return [(pair.source, pair.target) for pair in read_corpus(data.model_copy(update={"size": size})).train]
        layout, train = layout_of(data), splits_of(data)["train"]
        files = file_pairs("train", train, layout)
        return list(islice(chain.from_iterable(read_pairs(*pair, layout) for pair in files), PAIRS))
    except (UserError, OSError, ValueError):
        return []
