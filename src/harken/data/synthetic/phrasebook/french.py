"""French word forms: plurals, adjectives, the conjugation of verbs, and which words make the one before them elide.

Verbs know five persons, since `you` is always `vous` in this corpus: je, il or elle, nous, vous, ils or elles.

>>> conjugate("manger").present
('mange', 'mange', 'mangeons', 'mangez', 'mangent')
>>> adjective_forms("beau").before_vowel, noun_plural("cheval"), starts_with_vowel("homme"), starts_with_vowel("hibou")
('bel', 'chevaux', True, False)
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from harken.data.synthetic.vocabulary import load_vocabulary

Five = tuple[str, str, str, str, str]

FORMS = load_vocabulary("phrasebook")["french"]
ASPIRATED, NO_ELISION = tuple(FORMS["aspirated"]), tuple(FORMS["no_elision"])
VOWELS = "aàâeéèêiîoôuûœy"


@cache
def starts_with_vowel(word: str) -> bool:
    """Whether le, de, que, je and their kind lose their vowel before this word."""
    if word.startswith("h"):
        return not word.startswith(ASPIRATED)
    return word[:1] in VOWELS and word != "" and not word.startswith(NO_ELISION)


def noun_plural(noun: str) -> str:
    """The plural of a noun or masculine adjective."""
    if noun.startswith("grand-"):
        return noun.replace("grand-", "grands-") + "s"
    if noun.endswith(("s", "x", "z")):
        return noun
    if (noun.endswith(("eau", "eu")) and noun != "bleu") or noun == "hibou":
        return noun + "x"
    if noun.endswith("al"):
        return noun[:-2] + "aux"
    return noun + "s"


class AdjectiveForms(NamedTuple):
    """The forms of one adjective; `before_vowel` is the masculine singular before a vowel."""

    masculine: str
    feminine: str
    masculine_plural: str
    feminine_plural: str
    before_vowel: str

    def agree(self, feminine: bool, plural: bool) -> str:
        """The form that agrees with a noun of this gender and number."""
        return self[feminine + 2 * plural]


@cache
def adjective_forms(adjective: str) -> AdjectiveForms:
    """All forms of the adjective whose masculine singular is given."""
    if adjective in FORMS["feminines"]:
        feminine = FORMS["feminines"][adjective]
    elif adjective.endswith("e"):
        feminine = adjective
    elif adjective.endswith("eux"):
        feminine = adjective[:-1] + "se"
    else:
        feminine = adjective + "e"
    vowel_form = FORMS["before_vowel"].get(adjective, adjective)
    return AdjectiveForms(adjective, feminine, noun_plural(adjective), feminine + "s", vowel_form)


class Conjugation(NamedTuple):
    """The forms of one verb that the grammar needs."""

    infinitive: str
    present: Five
    future: Five
    imperfect: Five
    participle: str  # masculine singular


def _first_group(infinitive: str) -> tuple[Five, str, str]:
    """Present, future stem and participle of a verb in -er."""
    stem = infinitive[:-2]
    mute = FORMS["changed_stems"].get(infinitive, stem)
    soft = stem + "e" if stem.endswith("g") else stem[:-1] + "ç" if stem.endswith("c") else stem
    future = infinitive if infinitive.endswith(("érer", "éger")) else mute + "er"
    return (mute + "e", mute + "e", soft + "ons", stem + "ez", mute + "ent"), future, stem + "é"


@cache
def conjugate(infinitive: str) -> Conjugation:
    """The forms of a verb: from the table of irregular ones, else by its ending -er, -ir or -re."""
    present: Five
    if infinitive in FORMS["irregular"]:
        first, third, we, you, they, future_stem, participle = FORMS["irregular"][infinitive].split()
        present = (first, third, we, you, they)
    elif infinitive.endswith("er"):
        present, future_stem, participle = _first_group(infinitive)
    elif infinitive.endswith("ir"):
        stem = infinitive[:-1]
        present = (infinitive[:-1] + "s", stem[:-1] + "it", stem + "ssons", stem + "ssez", stem + "ssent")
        future_stem, participle = infinitive, stem
    else:
        stem = infinitive[:-2]
        present = (stem + "s", stem, stem + "ons", stem + "ez", stem + "ent")
        future_stem, participle = infinitive[:-1], stem + "u"
    future_stem = FORMS["future_stems"].get(infinitive, future_stem)
    endings = ("ai", "a", "ons", "ez", "ont")
    future: Five = tuple(future_stem + ending for ending in endings)
    return Conjugation(infinitive, present, future, _imperfect(infinitive, present[2]), participle)


def _imperfect(infinitive: str, we: str) -> Five:
    """The imperfect, from the first person plural of the present: nous mang|eons gives mangeais, mangions."""
    stem = "ét" if infinitive == "être" else we[:-3]
    plain = stem[:-1] if stem.endswith("ge") else stem[:-1] + "c" if stem.endswith("ç") else stem
    return (stem + "ais", stem + "ait", plain + "ions", plain + "iez", stem + "aient")


def participle_agrees(participle: str, feminine: bool, plural: bool) -> str:
    """vu, vue, vus, vues; a participle that ends in s keeps it: pris, prise, pris, prises."""
    if feminine and participle == "dû":
        participle = "du"
    word = participle + "e" if feminine else participle
    return word + "s" if plural and not word.endswith("s") else word
