"""Noisy sentence pairs are left out of a corpus, and counted by the first rule that they break.

    empty side, too long, length ratio      of the texts alone
    copy                                    the target is the source
    script, language                        a side is not written as its column is
    duplicate                               an earlier pair is the same, case and spacing aside
    score                                   a translator finds the target improbable

Script and language of a column are those of its first pairs. The language of one sentence is uncertain, so it decides
only about sentences of at least `CERTAIN` characters.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

from harken.data.splits import normalise
from harken.data.text.languages import canonical, detect
from harken.data.text.scripts import estimate_words, script_of

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

SAMPLE = 2000  # pairs at the start that script and language of a column are told from
CERTAIN = 60  # characters
CHUNK = 512  # pairs that are scored together
SHORT = 3.0  # words that are added to both sides, so that short sentences may differ more in length
EMPTY, LONG, RATIO, COPY = "empty side", "too long", "length ratio", "copy"
SCRIPT, LANGUAGE, DUPLICATE, SCORE = "other script", "other language", "duplicate", "low score"
REASONS = (EMPTY, LONG, RATIO, COPY, SCRIPT, LANGUAGE, DUPLICATE, SCORE)
Texts = tuple[str, str]


@dataclass
class Cleaner:
    """The rules for pairs; `counts` tells how many were read, and how many broke each rule.

    >>> cleaner = Cleaner(max_ratio=2.0)
    >>> pairs = [("the cat", "le chat"), ("The  cat", "le chat"), ("a dog", ""), ("hm", "hm"), ("no", "b c d e f g h")]
    >>> list(cleaner.clean(pairs)), dict(cleaner.counts), cleaner.read
    ([('the cat', 'le chat')], {'duplicate': 1, 'empty side': 1, 'copy': 1, 'length ratio': 1}, 5)
    """

    max_words: int = 200
    max_ratio: float = 3.0
    source_language: str | None = None  # None: that of the first pairs
    target_language: str | None = None
    translator: Translator | None = None
    min_score: float = -float("inf")
    read: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def clean(self, pairs: Iterable[Texts]) -> Iterator[Texts]:
        """The pairs that break no rule, in order, without space around them."""
        rest = iter(pairs)
        sample = list(islice(rest, SAMPLE))
        columns = [[pair[side] for pair in sample] for side in (0, 1)]
        scripts = [script_of(column) for column in columns]
        given = self.source_language, self.target_language
        languages = [canonical(code) if code else detect(column) for code, column in zip(given, columns, strict=True)]
        digests = set[bytes]()
        passing = self._filtered(chain(sample, rest), scripts, languages, digests)
        if self.translator is None:
            yield from passing
            return
        while chunk := list(islice(passing, CHUNK)):
            for pair, scored in zip(chunk, self.translator.score(*zip(*chunk, strict=True)), strict=True):
                if scored.score >= self.min_score:
                    yield pair
                else:
                    self.counts[SCORE] += 1

    def _filtered(
        self, pairs: Iterable[Texts], scripts: list[str], languages: list[str | None], digests: set[bytes]
    ) -> Iterator[Texts]:
        for pair in pairs:
            source, target = texts = pair[0].strip(), pair[1].strip()
            self.read += 1
            reason = self._reason(source, target) or _foreign(texts, scripts, languages)
            if not reason:
                key = f"{normalise(source)}\t{normalise(target)}".encode("utf-8", "surrogatepass")
                digest = hashlib.blake2b(key, digest_size=12).digest()
                reason = DUPLICATE if digest in digests else ""
                digests.add(digest)
            if reason:
                self.counts[reason] += 1
            else:
                yield texts

    def _reason(self, source: str, target: str) -> str:
        """The rule that the texts break by themselves; empty where there is none."""
        if not source or not target:
            return EMPTY
        lengths = sorted((estimate_words(source), estimate_words(target)))
        if lengths[1] > self.max_words:
            return LONG
        if lengths[1] + SHORT > self.max_ratio * (lengths[0] + SHORT):
            return RATIO
        return COPY if normalise(source) == normalise(target) else ""


def _foreign(texts: Texts, scripts: list[str], languages: list[str | None]) -> str:
    """Whether a side is of another script or language than its column."""
    for text, script in zip(texts, scripts, strict=True):
        if script and script_of(text) not in (script, ""):
            return SCRIPT
    for text, language in zip(texts, languages, strict=True):
        if language and len(text) >= CERTAIN and detect([text]) not in (language, None):
            return LANGUAGE
    return ""
