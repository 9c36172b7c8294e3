"""Stories that the package makes: people go about, take things and put them down; what is where is asked.

    where a person is     the newest sentence that moves them
    where a thing is      who has or had it, and where they were then: two facts
    is a person there?    yes or no
    what is carried       a thing, or nothing

The facts that a question needs are known. No story is in two splits, and the same seed gives the same stories.

>>> story = make_story(Random(2))
>>> story[0].answer in " ".join(story[0].facts) or story[0].answer in ("yes", "no", "nothing")
True
>>> load_stories(seed=1, train=20, valid=5, test=5).name
'stories'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from harken.data.synthetic.vocabulary import load_vocabulary
from harken.data.text.questions import Question, Questions

WORDS = load_vocabulary("stories")
FACTS = 10  # sentences of a story
EVERY = 2  # sentences from one question to the next


@dataclass
class World:
    """The state of the world after the sentences so far, and which sentence caused it."""

    facts: list[str] = field(default_factory=list)
    place: dict[str, tuple[str, int]] = field(default_factory=dict)  # person -> place, fact
    holder: dict[str, tuple[str, int]] = field(default_factory=dict)  # thing -> person who has or had it last, fact
    held: dict[str, str] = field(default_factory=dict)  # person -> thing
    left: dict[str, tuple[str, int]] = field(default_factory=dict)  # thing put down -> place, fact of the place


def make_story(random: Random) -> list[Question]:
    """One story with its questions."""
    world, asked = World(), list[Question]()
    for step in range(FACTS):
        happen(world, random)
        if (step + 1) % EVERY == 0:
            asked.append(ask(world, random))
    return asked


def happen(world: World, random: Random) -> None:
    """One more sentence."""
    person, now = random.choice(WORDS["people"]), len(world.facts)
    free = [thing for thing in WORDS["things"] if thing not in world.held.values()]
    choice = random.random()
    if person not in world.place or choice < 0.5:
        place = random.choice(WORDS["places"])
        world.place[person] = place, now
        sentence = random.choice(WORDS["moves"]).format(person, place)
    elif person in world.held:
        thing = world.held.pop(person)
        world.holder[thing] = person, now
        world.left[thing] = world.place[person]
        sentence = random.choice(WORDS["drops"]).format(person, thing)
    else:
        here = [thing for thing in free if thing not in world.left or world.left[thing][0] == world.place[person][0]]
        if not here:
            return happen(world, random)
        thing = random.choice(here)
        world.held[person] = thing
        world.holder[thing] = person, now
        world.left.pop(thing, None)
        sentence = random.choice(WORDS["takes"]).format(person, thing)
    world.facts.append(sentence)
    return None


def ask(world: World, random: Random) -> Question:
    """A question that the sentences so far answer."""
    kind, facts = random.random(), tuple(world.facts)
    if kind < 0.35 and world.holder:
        thing = random.choice(sorted(world.holder))
        person, taken = world.holder[thing]
        place, moved = world.left.get(thing, world.place[person])
        return Question(facts, f"Where is the {thing}?", place, tuple(sorted({taken, moved})), "things")
    if kind < 0.5 and world.held:
        person = random.choice(sorted(world.held))
        thing = world.held[person]
        return Question(facts, f"What does {person} carry?", thing, (world.holder[thing][1],), "carried")
    person = random.choice(sorted(world.place))
    place, moved = world.place[person]
    if kind < 0.75:
        return Question(facts, f"Where is {person}?", place, (moved,), "people")
    guess = place if random.random() < 0.5 else random.choice(WORDS["places"])
    return Question(facts, f"Is {person} in the {guess}?", "yes" if guess == place else "no", (moved,), "yes-no")


def load_stories(seed: int = 1, train: int = 4000, valid: int = 500, test: int = 1000) -> Questions:
    """At least so many questions a split, in whole stories."""
    known: set[tuple[str, ...]] = set()
    splits = {name: _draw(f"{seed} {name}", size, known) for name, size in (("test", test), ("valid", valid))}
    return Questions("stories", _draw(f"{seed} train", train, known), splits["valid"], {"test": splits["test"]})


def _draw(stream: str, size: int, known: set[tuple[str, ...]]) -> list[Question]:
    random, asked = Random(f"stories {stream}"), list[Question]()
    while len(asked) < size:
        story = make_story(random)
        if story[-1].facts not in known:
            known.add(story[-1].facts)
            asked += story
    return asked
