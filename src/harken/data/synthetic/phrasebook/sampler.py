"""Draws noun phrases: which nouns, determiners, adjectives and places make a plausible phrase.

Only `random.Random.random` is used, and only on tuples in the order of the tables, so a seed gives the same phrases
on every platform.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from harken.data.synthetic.phrasebook import lexicon, scenes
from harken.data.synthetic.phrasebook.lexicon import Adjective, Modifier, Noun, Preposition, clashes, held_out
from harken.data.synthetic.phrasebook.trees import ILS, JE, NOUS, Both, Name, NounPhrase, Place, Pronoun, Subject

Item = TypeVar("Item")
POSSESSIVES = ("my", "your", "our", "their")
# Where something happens: draws up to a bound, a preposition, and its nouns; above all bounds it is beside a landmark.
PLACES = (
    (0.45, "in", scenes.INSIDE),
    (0.65, "at", scenes.AT),
    (0.72, "on", scenes.ON),
    (0.76, "under", scenes.UNDER),
)


class Sampler:
    """Draws from the lexicon, and remembers which words a sentence has used."""

    free_pronouns = True  # whether him, it and them may point outside the sentence

    def __init__(self, random: Random, novel: bool = False) -> None:
        self.draw = random.random
        self.novel = novel  # lean towards held-out combinations
        self.begin()

    def begin(self) -> None:
        """Forget the last sentence."""
        self.nouns: list[Noun] = []
        self.modifiers: list[Modifier] = []
        self.names: list[Name] = []
        self.is_novel = False  # some held-out combination stands in its grammatical relation

    def mark(self) -> tuple[int, int, int, bool]:
        """Where the memory stands, before a draft that may be thrown away."""
        return len(self.nouns), len(self.modifiers), len(self.names), self.is_novel

    def back_to(self, mark: tuple[int, int, int, bool]) -> None:
        """Forget the words of a draft."""
        nouns, modifiers, names, self.is_novel = mark
        del self.nouns[nouns:], self.modifiers[modifiers:], self.names[names:]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.draw() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        """One item, all equally likely."""
        return items[int(self.draw() * len(items))]

    def relate(self, modifier: Modifier, noun: Noun) -> None:
        """Note an adjective and its noun, or a verb and its object."""
        self.modifiers.append(modifier)
        if held_out(modifier, noun):
            self.is_novel = True

    def pick_noun(self, nouns: Sequence[Noun]) -> Noun:
        """A noun that the sentence has not used yet, if one of four draws finds it."""
        for _ in range(4):
            noun = self.pick(nouns)
            if noun not in self.nouns:
                break
        self.nouns.append(noun)
        return noun

    def pick_object(self, modifier: Modifier, nouns: Sequence[Noun]) -> Noun:
        """An object for a verb; for test-novel, one held out if a few draws find it."""
        if self.novel and not self.is_novel:
            for _ in range(6):
                noun = self.pick(nouns)
                if held_out(modifier, noun) and noun not in self.nouns:
                    self.nouns.append(noun)
                    self.relate(modifier, noun)
                    return noun
        noun = self.pick_noun(nouns)
        self.relate(modifier, noun)
        return noun

    def adjective_for(self, noun: Noun, predicate: bool = False) -> Adjective | None:
        """An adjective that suits the noun, if there is one."""
        suiting = lexicon.SUITING[noun]
        if not suiting:
            return None
        adjective = self.pick(suiting)
        if self.novel and not self.is_novel:
            for _ in range(6):
                if held_out(adjective, noun):
                    break
                adjective = self.pick(suiting)
        if adjective.attribute_only if predicate else adjective.predicate_only:
            return None
        self.relate(adjective, noun)
        return adjective

    def adjectives_for(self, noun: Noun, rate: float) -> tuple[Adjective, ...]:
        """No, one, or two adjectives; of two, the first stands before the French noun and the other after it."""
        if not self.chance(rate):
            return ()
        first = self.adjective_for(noun)
        if first is None:
            return ()
        if first.before and self.chance(0.2):
            second = self.pick(lexicon.SUITING[noun])
            if not second.before and not second.predicate_only and not clashes(second, (first,)):
                self.relate(second, noun)
                return (first, second)
        return (first,)

    def noun_phrase(
        self,
        noun: Noun,
        role: str = "subject",
        owner: Subject | None = None,
        adjective_rate: float = 0.3,
    ) -> NounPhrase:
        """A phrase around a noun; roles: subject, object, negated, generic, instrument, place, indefinite."""
        adjectives = self.adjectives_for(noun, adjective_rate)
        plural = not noun.mass and "single" not in noun.tags and role != "instrument" and self.chance(0.3)
        if role == "place":
            plural = plural and ("person" in noun.tags or self.chance(0.15))
        determiner = self.determiner(noun, role, plural, owner)
        phrase = NounPhrase(noun, determiner, plural, adjectives)
        if determiner == "the" and "own" in noun.tags and role != "instrument" and self.chance(0.1):
            self._give_owner(phrase)
        return phrase

    def _give_owner(self, phrase: NounPhrase) -> None:
        """`the boy's hat`, `marie's hat`."""
        if self.chance(0.4):
            phrase.owner = self.name()
        else:
            noun = self.pick_noun(scenes.PEOPLE)
            phrase.owner = NounPhrase(noun, self.pick(("the", "this")) if self.chance(0.3) else "the")

    def determiner(self, noun: Noun, role: str, plural: bool, owner: Subject | None) -> str:
        """A determiner that suits the noun, its number and its role in the sentence."""
        if role == "instrument":
            return "the"
        if "kin" in noun.tags:
            return self._possessive(owner)
        if role == "indefinite":
            counted = self.pick(("some", "many", "several", self.pick(scenes.NUMBER_WORDS)))
            return counted if plural else "a"
        possessive = self._possessive(owner) if "own" in noun.tags else "the"
        if role == "place":
            return self.pick(("the", "the", "the", "these" if plural else "this", possessive))
        these = "these" if plural else "this"
        if role == "generic":
            if noun.mass or plural:
                return self.pick(("", "", "", these, possessive if possessive != "the" else these))
            return self.pick(("the", "the", "the", these, possessive))
        if noun.mass:
            if role == "subject":
                return self.pick(("the", "the", these))
            return self.pick(("", "", "", "the", these))
        if role == "negated":
            return self.pick(("the", "the", these, possessive, "some" if plural else "a"))
        if plural:
            counted = self.pick(
                ("some", "many", "several", "all", self.pick(scenes.NUMBER_WORDS), self.pick(scenes.NUMBER_WORDS))
            )
            return self.pick(("the", "the", these, possessive, counted))
        last = "every" if role == "subject" else "a"
        return self.pick(("the", "the", "the", "a", "a", these, possessive, possessive, last))

    def _possessive(self, owner: Subject | None) -> str:
        """A possessive; his, her and their belong to the subject, so that French son and leur can be read back."""
        if owner is not None and self.chance(0.6):
            if isinstance(owner, NounPhrase) and "person" not in owner.noun.tags:
                return "the"
            if isinstance(owner, Pronoun) and owner.english in ("i", "we", "you"):
                return {"i": "my", "we": "our", "you": "your"}[owner.english]
            if owner.person == ILS:
                return "their"
            return "her" if owner.feminine else "his"
        return self.pick(POSSESSIVES)

    def name(self) -> Name:
        """A name that the sentence has not used yet."""
        name = self.pick(scenes.PERSON_NAMES)
        while name in self.names and len(self.names) < len(scenes.PERSON_NAMES):
            name = self.pick(scenes.PERSON_NAMES)
        self.names.append(name)
        return name

    def person(self, pronouns: Sequence[Pronoun] = scenes.SUBJECT_PRONOUNS, adjective_rate: float = 0.25) -> Subject:
        """Somebody: a pronoun, a name, a relative or someone else."""
        draw = self.draw()
        if draw < 0.33 and pronouns:
            return self.pick(pronouns)
        if draw < 0.43:
            return self.name()
        if draw < 0.48:
            return Both(self._single(), self._single())
        return self.noun_phrase(
            self.pick_noun(scenes.KIN if draw < 0.62 else scenes.PEOPLE), adjective_rate=adjective_rate
        )

    def _single(self) -> NounPhrase | Name:
        """One half of `the boy and the girl`."""
        if self.chance(0.3):
            return self.name()
        noun = self.pick_noun(scenes.PEOPLE if self.chance(0.6) else scenes.KIN)
        return NounPhrase(noun, self.determiner(noun, "place", False, None))

    def place(self, owner: Subject | None = None) -> Place:
        """Where something happens."""
        draw = self.draw()
        for bound, preposition, nouns in PLACES:
            if draw < bound:
                return self.place_of(lexicon.PREPOSITION[preposition], nouns, owner)
        return self.place_of(self.pick(scenes.BESIDE), scenes.LANDMARKS, owner)

    def place_for(self, noun: Noun) -> Place:
        """Where a thing of this kind may be found."""
        inside = lexicon.PREPOSITION["in"]
        for tag, nouns in (("animal", scenes.OUTDOORS), ("vehicle", scenes.ROADS)):
            if tag in noun.tags and self.chance(0.6):
                return self.place_of(inside, nouns)
            if tag in noun.tags:
                return self.place_of(self.pick(scenes.BESIDE), scenes.LANDMARKS)
        if "person" in noun.tags:
            return self.place()
        if "small" in noun.tags and self.chance(0.7):
            return self.place_of(lexicon.PREPOSITION["under" if self.chance(0.3) else "on"], scenes.TOPS)
        return self.place_of(inside, scenes.ROOMS)

    def place_of(self, preposition: Preposition, nouns: Sequence[Noun], owner: Subject | None = None) -> Place:
        """A preposition before one of the nouns."""
        phrase = self.noun_phrase(self.pick_noun(nouns), "place", owner, adjective_rate=0.2)
        return Place(preposition, phrase)

    def companion(self, preposition: Preposition, subject: Subject) -> Place:
        """With whom, without whom, or for whom something is done."""
        pronoun = self.pick(scenes.SUBJECT_PRONOUNS if self.free_pronouns else scenes.SPEAKERS)
        if pronoun.person != subject.person and {pronoun.person, subject.person} != {JE, NOUS} and self.chance(0.4):
            return Place(preposition, pronoun)
        if self.chance(0.3):
            return Place(preposition, self.name())
        return Place(preposition, self.noun_phrase(self.pick_noun(scenes.KIN), "place", subject))
