"""What goes with what in the world of the phrasebook: where things are, what people do with them, and why.

Only this knowledge keeps the sentences plausible: a lion is in the forest and a fork on the table, one eats because
one is hungry, and what was bought can be sold.
"""

from __future__ import annotations

from harken.data.synthetic.phrasebook.english import Word
from harken.data.synthetic.phrasebook.modifiers import NAMES, NUMBERS, PREPOSITION
from harken.data.synthetic.phrasebook.nouns import NOUN, NOUNS, Noun, tagged
from harken.data.synthetic.phrasebook.trees import PRONOUN, Name, Pronoun
from harken.data.synthetic.phrasebook.verbs import VERB, VERBS, Verb


def _nouns(words: str) -> tuple[Noun, ...]:
    return tuple(NOUN[word] for word in words.split())


def _pronouns(words: str) -> tuple[Pronoun, ...]:
    return tuple(PRONOUN[word] for word in words.split())


def _verbs(names: str) -> tuple[Verb, ...]:
    return tuple(VERB[name.strip()] for name in names.split(","))


# People
PEOPLE = tuple(noun for noun in tagged("person") if "kin" not in noun.tags)
KIN = tagged("kin")
ANYBODY = tagged("person")
JOBS = tagged("job")
PERSON_NAMES = tuple(Name(Word(text, "PROPN"), feminine) for text, feminine in NAMES.items())
SUBJECT_PRONOUNS = _pronouns("i you he she we they")
SPEAKERS = _pronouns("i you we")  # never point back to anything in the sentence
ASKED = _pronouns("you he she they")  # whom a question is about
REPORTERS = _pronouns("i you he she they")
RECIPIENTS = _pronouns("i you he we they")  # without her: French lui could not be read back
NUMBER_WORDS = tuple(NUMBERS)

# Places
INSIDE = tuple(noun for noun in tagged("in") if noun.english not in ("university", "market", "bakery", "farm"))
AT = tagged("at")
LANDMARKS = (*tagged("build", "scene"), *_nouns("tree bridge park bench gate wall"))
UNDER = _nouns("tree bridge umbrella")
ON = _nouns("bench sofa bed beach")
OUTDOORS = _nouns("garden park forest field yard street village stable")
ROOMS = _nouns("kitchen bedroom cellar attic garage house shop library")
ROADS = _nouns("street yard garage village city")
TOPS = _nouns("table chair bed desk shelf bench carpet armchair sofa")
HOMES = _nouns("house castle village city palace hotel tower forest")
SHOPS = _nouns("market bakery station farm airport")
BESIDE = tuple(PREPOSITION[word] for word in ("near", "behind", "in front of", "next to", "far from"))

# Things
THINGS = tagged("thing", "vehicle", "animal", "place", "nature", "fixture")
VISIBLE = tuple(noun for noun in tagged("animal", "object", "vehicle", "person", "furniture") if "kin" not in noun.tags)
COMPARED = {kind: tagged(kind) for kind in ("person", "vehicle", "clothes", "furniture", "text", "instrument", "food")}

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
EVENTS = _verbs("arrive, leave, come back, go out, wake up, get up")
ONGOING = tuple(verb for verb in (*INTRANSITIVE, *TRANSITIVE) if verb.options & {"here", "careful", "manner"})
GETTING = _verbs("buy, find, choose, borrow, take, receive, prepare, pick")
USING = _verbs(
    "eat, read, wear, put on, hide, keep, sell, wash, clean, repair, use, open, close, share, taste, cut, lose, break,"
    "copy, translate, study, look at, paint, fill, empty, photograph, forget, drive, plant, feed"
)
IN_SOME_PLACE = _verbs("buy, sell, find, hide, lose, see, meet, keep, wait for, plant, pick, open, put on")
BECAUSE = {
    "hungry": _verbs("eat, cook, prepare, share"),
    "thirsty": _verbs("drink"),
    "sleepy": _verbs("sleep, rest, go to bed"),
    "afraid": _verbs("run, hide, shout, cry, lie"),
    "cold": _verbs("close, put on, wear"),
    "hot": _verbs("take off, swim, open"),
}
FEELING_OF = {verb: feeling for feeling, verbs in BECAUSE.items() for verb in verbs}
WEATHER_FOR = {
    "hot": _verbs("take off, swim, drink, open, rest, go out"),
    "cold": _verbs("close, put on, wear, stay, hurry, come back"),
    "rain": _verbs("stay, run, hurry, close, put on, wear, take, come back, wait"),
    "snow": _verbs("stay, hurry, close, put on, wear, come back"),
}
WEATHER_OF = {verb: tuple(kind for kind, verbs in WEATHER_FOR.items() if verb in verbs) for verb in VERBS}
