"""Counts what the lexicon holds, by part of speech; `docs/phrasebook.md` shows the table."""

from __future__ import annotations

from harken.data.synthetic.phrasebook.modifiers import (
    ADJECTIVES,
    ADVERB,
    DEGREES,
    FEELINGS,
    NAMES,
    NUMBERS,
    PREPOSITION,
    TIMES,
)  # fmt: skip
from harken.data.synthetic.phrasebook.nominals import DETERMINERS
from harken.data.synthetic.phrasebook.nouns import NOUNS
from harken.data.synthetic.phrasebook.sentences import CONJUNCTIONS
from harken.data.synthetic.phrasebook.trees import PRONOUN
from harken.data.synthetic.phrasebook.verbs import MODALS, REPORTS, VERBS


def inventory() -> dict[str, int]:
    """Part of speech -> entries."""
    determiners = [word for word in DETERMINERS if word not in NUMBERS and word != "these"]
    return {
        "nouns": len(NOUNS),
        "verbs": len(VERBS) + len(MODALS) + len(REPORTS) + 4,  # be, go (is going to), rain, snow
        "adjectives": len(ADJECTIVES) + len(FEELINGS),
        "adverbs": len(ADVERB) + len(DEGREES),
        "prepositions": len(PREPOSITION),
        "determiners": len(determiners) + 3,  # many, all, any
        "numbers": len(NUMBERS),
        "pronouns": len({pronoun.english for pronoun in PRONOUN.values()}),
        "conjunctions": len(CONJUNCTIONS) + 1,  # that
        "time expressions": len(TIMES),
        "names": len(NAMES),
    }
