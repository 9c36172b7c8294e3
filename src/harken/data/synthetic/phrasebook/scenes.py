"""The world of the phrasebook, what goes with what: where things are, what people do with them, and why.

Only this knowledge keeps the sentences plausible: a lion is in the forest and a fork on the table, one eats because
one is hungry, and what was bought can be sold.
"""

from __future__ import annotations

from harken.data.synthetic.phrasebook.english import Word
from harken.data.synthetic.phrasebook.lexicon import (
    NOUN,
    NOUNS,
    NUMBERS,
    PREPOSITION,
    VERB,
    VERBS,
    VOCABULARY,
    Noun,
    Verb,
    tagged,
)
from harken.data.synthetic.phrasebook.trees import PRONOUN, Name, Pronoun

GROUPS = VOCABULARY["scenes"]


def _nouns(group: str) -> tuple[Noun, ...]:
    return tuple(NOUN[word] for word in GROUPS[group].split())


def _pronouns(group: str) -> tuple[Pronoun, ...]:
    return tuple(PRONOUN[word] for word in GROUPS[group].split())


def _verbs(names: str) -> tuple[Verb, ...]:
    return tuple(VERB[name.strip()] for name in names.split(","))


# People
PEOPLE = tuple(noun for noun in tagged("person") if "kin" not in noun.tags)
KIN, ANYBODY, JOBS = tagged("kin"), tagged("person"), tagged("job")
PERSON_NAMES = tuple(
    Name(Word(text, "PROPN"), gender == "feminine") for gender, names in VOCABULARY["names"].items() for text in names
)
SUBJECT_PRONOUNS, SPEAKERS, ASKED = map(_pronouns, ("subject_pronouns", "speakers", "asked"))
REPORTERS, RECIPIENTS = map(_pronouns, ("reporters", "recipients"))
NUMBER_WORDS = tuple(NUMBERS)

# Places
INSIDE = tuple(noun for noun in tagged("in") if noun not in _nouns("not_inside"))
AT = tagged("at")
LANDMARKS = (*tagged("build", "scene"), *_nouns("more_landmarks"))
UNDER, ON, OUTDOORS, ROOMS = map(_nouns, ("under", "on", "outdoors", "rooms"))
ROADS, TOPS, HOMES, SHOPS = map(_nouns, ("roads", "tops", "homes", "shops"))
BESIDE = tuple(PREPOSITION[word] for word in GROUPS["beside"].split(", "))

# Things
THINGS = tagged("thing", "vehicle", "animal", "place", "nature", "fixture")
VISIBLE = tuple(noun for noun in tagged("animal", "object", "vehicle", "person", "furniture") if "kin" not in noun.tags)
COMPARED = {kind: tagged(kind) for kind in GROUPS["compared"].split()}

# Verbs
INTRANSITIVE = tuple(verb for verb in VERBS if not verb.objects)
TRANSITIVE = tuple(verb for verb in VERBS if verb.objects and not verb.recipient)
DITRANSITIVE = tuple(verb for verb in VERBS if verb.recipient)
DIRECT = tuple(verb for verb in TRANSITIVE if not verb.french_preposition)
OTHER_DOERS = {verb: tagged(*(tag for tag in verb.subjects if tag != "person")) for verb in VERBS}
DONE_TO = {noun: tuple(verb for verb in DIRECT if noun in verb.objects) for noun in NOUNS}
ANIMAL_DOINGS = tuple(verb for verb in (*INTRANSITIVE, *TRANSITIVE) if "animal" in verb.subjects)
ON_PURPOSE = tuple(verb for verb in VERBS if not verb.imperfect and "accident" not in verb.options)
DEEDS = tuple(verb for verb in ON_PURPOSE if "person" in verb.subjects)
ONGOING = tuple(verb for verb in (*INTRANSITIVE, *TRANSITIVE) if verb.options & {"here", "careful", "manner"})
EVENTS, GETTING, USING, IN_SOME_PLACE = (
    _verbs(GROUPS[group]) for group in ("events", "getting", "using", "in_some_place")
)
FEELING_OF = {verb: feeling for feeling, names in GROUPS["because"].items() for verb in _verbs(names)}
WEATHER_OF = {verb: tuple(kind for kind, names in GROUPS["weather"].items() if verb in _verbs(names)) for verb in VERBS}
POINTLESS: dict[str, str] = GROUPS["pointless"]
