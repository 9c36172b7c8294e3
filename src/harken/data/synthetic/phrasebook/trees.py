"""The meaning of a sentence, before either language expresses it: noun phrases, pronouns and clauses as plain data.

The sampler draws such trees, the realiser turns each into an English and a French sentence with its links.

>>> from harken.data.synthetic.phrasebook.lexicon import ADJECTIVE, NOUN
>>> NounPhrase(NOUN["cat"], adjectives=(ADJECTIVE["black"],)).feminine
False
"""

from __future__ import annotations

from dataclasses import dataclass

from harken.data.synthetic.phrasebook.english import Word
from harken.data.synthetic.phrasebook.lexicon import VOCABULARY, Adjective, Adverb, Noun, Preposition, Time, Verb

JE, IL, NOUS, VOUS, ILS = range(5)  # the French persons, as the conjugation tables count them


@dataclass(slots=True, eq=False)
class NounPhrase:
    """`the black cat that sleeps`; the determiner is the English one, "" for none (`water`)."""

    noun: Noun
    determiner: str = "the"
    plural: bool = False
    adjectives: tuple[Adjective, ...] = ()
    owner: NounPhrase | Name | None = None  # the boy's
    relative: Clause | None = None

    @property
    def feminine(self) -> bool:
        """The French gender."""
        return self.noun.feminine

    @property
    def person(self) -> int:
        """Which form of the verb it takes."""
        return ILS if self.plural else IL


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    """A personal pronoun: English subject and object, French subject, direct, indirect and stressed."""

    english: str
    english_object: str
    person: int
    plural: bool
    feminine: bool
    french: str
    direct: str
    indirect: str
    stressed: str


PERSONS = {"je": JE, "il": IL, "nous": NOUS, "vous": VOUS, "ils": ILS}


def _read_pronoun(row: str) -> Pronoun:
    subject, item, person, number, gender, *french = row.split()
    english = Word(subject, "PRON"), Word(item, "PRON")
    return Pronoun(*english, PERSONS[person], number == "plural", gender == "f", *french)


PRONOUN = {name: _read_pronoun(row) for name, row in VOCABULARY["pronouns"].items()}


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A first name, the same in both languages."""

    text: str
    feminine: bool
    person: int = IL
    plural: bool = False


@dataclass(slots=True, eq=False)
class Both:
    """`the boy and the girl`."""

    first: NounPhrase | Name
    second: NounPhrase | Name
    person: int = ILS
    plural: bool = True

    @property
    def feminine(self) -> bool:
        """Feminine only if both are."""
        return self.first.feminine and self.second.feminine


@dataclass(slots=True, eq=False)
class Trace:
    """The gap a relative clause or a question leaves: silent, but participles agree with it."""

    person: int
    plural: bool
    feminine: bool


Subject = NounPhrase | Pronoun | Name | Both | Trace
Object = NounPhrase | Pronoun | Name | Trace


@dataclass(slots=True, eq=False)
class Place:
    """A preposition and its noun phrase or pronoun."""

    preposition: Preposition
    phrase: NounPhrase | Pronoun | Name


@dataclass(slots=True, eq=False)
class Clause:
    """Who does what to whom, how, where and when. The tenses: present, past, future, going."""

    subject: Subject
    verb: Verb
    tense: str = "present"
    negation: str = ""  # "", not, never, no longer
    modal: str = ""  # "", can, must, want
    object: Object | None = None
    recipient: NounPhrase | Pronoun | Name | None = None
    adjective: Adjective | None = None  # after to be
    degree: str = ""  # very, too, quite; more, for a comparison with `than`
    than: NounPhrase | Name | None = None
    feeling: str = ""  # hungry
    profession: Noun | None = None
    adverb: Adverb | None = None
    places: tuple[Place, ...] = ()
    whereabout: Adverb | None = None
    time: Time | None = None
    english_tense: str = ""  # where it differs: `when he comes` is quand il viendra
