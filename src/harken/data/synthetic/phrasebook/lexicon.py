"""The words of the phrasebook in both languages, read from its vocabulary, and which of them go together.

Verbs, adjectives and prepositions select nouns by tags: `food` can be eaten, `open` can be opened.

>>> NOUN["owl"].french, NOUN["owl"].french_plural, NOUN["water"].mass
('hibou', 'hiboux', True)
>>> VERB["look at"].english_preposition, VERB["get up"].reflexive, VERB["go"].takes_etre
('at', True, True)
>>> ADJECTIVE["beautiful"].before, ADJECTIVE["black"].before, held_out(ADJECTIVE["red"], NOUN["car"])
(True, False, False)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

from harken.data.synthetic.phrasebook.english import Word, comparative, past, plural, third_person
from harken.data.synthetic.phrasebook.french import (
    AdjectiveForms,
    Conjugation,
    adjective_forms,
    conjugate,
    noun_plural,
    starts_with_vowel,
)
from harken.data.synthetic.vocabulary import load_vocabulary

VOCABULARY = load_vocabulary("phrasebook")


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in both languages."""

    english: str
    french: str
    feminine: bool
    tags: frozenset[str]
    english_plural: str
    french_plural: str
    vowel: bool  # the French word takes l' and d'
    mass: bool

    @classmethod
    def read(cls, row: str, shared: Iterable[str]) -> Noun:
        """A noun from its row and the tags of its group."""
        english, french, gender, *own = row.split()
        tags = frozenset(shared) | frozenset(own)
        forms = Word(plural(english), "NOUN"), noun_plural(french)
        vowel, mass = starts_with_vowel(french), "mass" in tags
        return cls(Word(english, "NOUN"), french, gender == "f", tags, *forms, vowel, mass)


NOUNS = [Noun.read(row, group.split()) for group, rows in VOCABULARY["nouns"].items() for row in rows]
NOUN = {noun.english: noun for noun in NOUNS}


def tagged(*tags: str) -> tuple[Noun, ...]:
    """All nouns that carry at least one of the tags, or are called so, in the order of the vocabulary."""
    return tuple(noun for noun in NOUNS if noun.english in tags or not noun.tags.isdisjoint(tags))


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in both languages."""

    name: str  # the key in VERB: "look at"
    english: str
    english_third: str
    english_past: str
    french: Conjugation
    particles: tuple[str, ...] = ()  # up, in "get up"
    english_preposition: str = ""  # at, in "look at": it goes with the object
    subjects: tuple[str, ...] = ("person",)  # tags
    objects: tuple[Noun, ...] = ()
    recipient: bool = False  # gives something to somebody
    options: frozenset[str] = frozenset()
    french_preposition: str = ""  # à or de before the object
    takes_etre: bool = False
    reflexive: bool = False
    imperfect: bool = True

    @property
    def indirect(self) -> bool:
        """Whether the object pronoun is lui and leur, not le and les."""
        return self.french_preposition == "à"

    @classmethod
    def read(cls, row: str) -> Verb:
        """A verb from its row."""
        english, past_form, french, subjects, objects, *options = row.split()
        base, *particles = english.rstrip("+").split("+")
        preposition = ""
        if objects != "-" and particles and particles[-1] in VOCABULARY["verbs"]["prepositions"]:
            preposition = particles.pop()
        return cls(
            " ".join([base, *particles, preposition]).strip(),
            Word(base, "VERB"),
            Word(third_person(base), "VERB"),
            Word(past(base) if past_form == "-" else past_form, "VERB"),
            conjugate(french),
            tuple(particles),
            preposition,
            tuple(subjects.split(",")),
            tagged(*objects.split(",")) if objects != "-" else (),
            english.endswith("+"),
            frozenset(options),
            next((option for option in options if option in ("à", "de")), ""),
            takes_etre="be" in options or "self" in options,
            reflexive="self" in options,
            imperfect="imperfect" in options,
        )

    @classmethod
    def special(cls, row: str) -> Verb:
        """A verb that the grammar uses by name: the copula, the modals, the verbs before `that`."""
        english, third, past_form, french = row.split()
        kind = "AUX" if english in ("be", "can", "must") else "VERB"
        forms = Word(english, kind), Word(third, kind), Word(past_form, kind)
        return cls(english, *forms, conjugate(french))


VERBS = [Verb.read(row) for row in VOCABULARY["verbs"]["rows"]]
VERB = {verb.name: verb for verb in VERBS}
REPORTS = tuple(map(Verb.special, VOCABULARY["special_verbs"]["reports"]))
SPECIAL = {name: Verb.special(row) for name, row in VOCABULARY["special_verbs"].items() if name != "reports"}
BE, HAVE_STATE, WEATHER_STATE = COPULAS = SPECIAL["be"], SPECIAL["have_state"], SPECIAL["weather_state"]
RAIN, SNOW, WANT, GOING = (SPECIAL[name] for name in ("rain", "snow", "want", "going"))
MODALS = {name: SPECIAL[name] for name in ("can", "must", "want")}


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective in both languages."""

    english: str
    french: AdjectiveForms
    before: bool
    predicate_only: bool
    attribute_only: bool
    comparative: str  # "" where English says more
    tags: frozenset[str]

    @classmethod
    def read(cls, row: str) -> Adjective:
        """An adjective from its row."""
        english, french, tags, *marks = row.split()
        compared = Word(comparative(english), "ADJ") if "er" in marks else ""
        places = "<" in marks, "!" in marks, "@" in marks
        return cls(Word(english, "ADJ"), adjective_forms(french), *places, compared, frozenset(tags.split(",")))

    def suits(self, noun: Noun) -> bool:
        """Whether the noun can be called so."""
        if "kid" in noun.tags and self.english in GROUPS["not_for_kids"]:
            return False
        if (self.english, noun.english) == ("pink", "rose"):  # une rose rose
            return False
        return noun.english in self.tags or not self.tags.isdisjoint(noun.tags)


GROUPS = VOCABULARY["adjectives"]
ADJECTIVES = [Adjective.read(row) for row in GROUPS["rows"]]
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}
OPPOSITES = (*(frozenset(group.split()) for group in GROUPS["opposites"]), frozenset(GROUPS["colors"]))
SUITING = {noun: tuple(a for a in ADJECTIVES if a.suits(noun)) for noun in NOUNS}
PERSONAL = tuple(a for a in ADJECTIVES if "person" in a.tags)  # for pronouns and names
STATES, REASONS, REASONS_AGAINST = (
    tuple(ADJECTIVE[name] for name in GROUPS[group]) for group in ("states", "reasons", "reasons_against")
)
ABSOLUTE = (*GROUPS["colors"], *GROUPS["absolute"])
UNCOMPARED = (*ABSOLUTE, *GROUPS["uncompared"])
FEELINGS: dict[str, str] = VOCABULARY["feelings"]
DEGREES: dict[str, str] = VOCABULARY["degrees"]


def clashes(adjective: Adjective, others: tuple[Adjective, ...]) -> bool:
    """Whether the adjective says the same as one of the others, or the opposite."""
    return any(
        other is adjective or any(adjective.english in group and other.english in group for group in OPPOSITES)
        for other in others
    )


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """An adverb; `early` ones stand before the English verb and after the finite French one."""

    english: str
    french: str
    early: bool = False
    short: bool = False  # bien, mal: before a French participle


ADVERB = {
    english: Adverb(
        Word(english, "ADV"), french, early=kind == "frequency", short=kind == "frequency" or french in ("bien", "mal")
    )
    for kind in ("frequency", "manner", "whereabouts")
    for english, french in VOCABULARY["adverbs"][kind].items()
}
ALREADY, TOGETHER, EVERYWHERE = ADVERB["already"], ADVERB["together"], ADVERB["everywhere"]
FREQUENCIES = tuple(ADVERB[english] for english in VOCABULARY["adverbs"]["frequency"] if english != "already")
WHEREABOUTS = tuple(ADVERB[english] for english in VOCABULARY["adverbs"]["whereabouts"] if english != "everywhere")
MANNERS_OF = {
    option: tuple(ADVERB[english] for english in words) for option, words in VOCABULARY["adverbs"]["of_verbs"].items()
}


@dataclass(frozen=True, slots=True, eq=False)
class Preposition:
    """Tokens of a preposition in both languages; the head (a bare word) is linked surely, `~word` possibly."""

    english: tuple[str, ...]
    french: tuple[str, ...]


PREPOSITION = {
    english.replace("~", ""): Preposition(
        tuple(Word(word, "ADV") if word == "next" else word for word in english.split()), tuple(french.split())
    )
    for english, french in VOCABULARY["prepositions"].items()
}
CONJUNCTION = {
    english.replace("~", ""): Preposition(tuple(english.split()), tuple(french.split()))
    for english, french in VOCABULARY["conjunctions"].items()
}


@dataclass(frozen=True, slots=True, eq=False)
class Time:
    """A time expression with its links, and the tenses it goes with."""

    english: str
    french: str
    links: str  # Pharaoh: 0-1 sure, 0?1 possible
    tenses: str


TIMES = tuple(Time(*row.split(" | ")) for row in VOCABULARY["times"]["rows"])
TIMES_OF = {tense: tuple(t for t in TIMES if tense in t.tenses) for tense in ("present", "past", "future")}
TIME = {time.english: time for time in TIMES}
NUMBERS: dict[str, str] = VOCABULARY["numbers"]


# Combinations for `test-novel`: an adjective and a noun, or a verb and its object, never together in train. About one
# in thirty of those that the grammar allows is held out, chosen by a checksum of the two words, so that the choice is
# the same for every seed, size and platform.
Modifier = Adjective | Verb
ONE_IN = 30
NOTHING: frozenset[Noun] = frozenset()


def _held_out_table() -> dict[Modifier, frozenset[Noun]]:
    allowed: list[tuple[str, str, Modifier, Noun]] = []
    for noun, adjectives in SUITING.items():
        if len(adjectives) >= 4:
            allowed += [("adjective", adjective.english, adjective, noun) for adjective in adjectives]
    for verb in VERBS:
        if len(verb.objects) >= 6:
            allowed += [("verb", verb.name, verb, noun) for noun in verb.objects]
    table: dict[Modifier, set[Noun]] = {}
    for kind, name, modifier, noun in allowed:
        if crc32(f"{kind} {name} {noun.english}".encode()) % ONE_IN == 0:
            table.setdefault(modifier, set()).add(noun)
    return {modifier: frozenset(nouns) for modifier, nouns in table.items()}


HELD_OUT = _held_out_table()


def held_out(modifier: Modifier, noun: Noun) -> bool:
    """Whether the two words are reserved for test-novel."""
    return noun in HELD_OUT.get(modifier, NOTHING)


def any_together(modifiers: Iterable[Modifier], nouns: list[Noun]) -> bool:
    """Whether some held-out combination stands in one sentence, related or not."""
    return any(not HELD_OUT.get(modifier, NOTHING).isdisjoint(nouns) for modifier in modifiers)
