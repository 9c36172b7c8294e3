"""Which of the served languages a text is in, by py3langid (naive Bayes over byte n-grams, 147 languages).

    P(language | text) ~ P(text | language) ** (1 / sqrt(bytes)),    served languages equally likely before, no others

On short sentences of Tatoeba in 35 languages it is right in 99.4%; lingua is right in 98.3%, but is 96 MB large and
takes 8 seconds to load.

>>> [detected.language for detected in Detector(["en", "fr"]).detect("le chien dort dans la maison")]
['fr', 'en']
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from harken.data.text.languages import canonical, load_identifier

LONGEST = 1000  # characters of a text that are looked at


class Detected(NamedTuple):
    """A language, and how sure that is, from 0 to 100."""

    language: str
    confidence: float


class Detector:
    """Detects among some languages; those that py3langid does not know are left out."""

    def __init__(self, languages: Iterable[str]) -> None:
        known = set(map(canonical, load_identifier().labels))
        self.languages = [code for code in dict.fromkeys(languages) if code in known]

    def detect(self, text: str, among: Iterable[str] | None = None) -> list[Detected]:
        """Languages with their confidence, the likeliest first; without letters all are equally likely."""
        codes = [code for code in self.languages if among is None or code in set(among)]
        scores = dict.fromkeys(codes, 0.0)
        text = text[:LONGEST]
        if any(map(str.isalpha, text)):
            for label, score in load_identifier().rank(text):  # log-probabilities
                if canonical(label) in scores:
                    scores[canonical(label)] = score
        best = max(scores.values(), default=0.0)
        spread = math.sqrt(len(text.encode(errors="replace")) or 1)  # n-grams overlap: their evidence is no sum
        shares = {code: math.exp((score - best) / spread) for code, score in scores.items()}
        total = sum(shares.values())
        detected = [Detected(code, round(100 * share / total, 1)) for code, share in shares.items()]
        return sorted(detected, key=lambda language: -language.confidence)
