"""The verbs: English forms, French infinitive, who does it, to what, and how the two languages build it.

A row is `english past french subjects objects option ...`, with `-` for a regular past or no object, `+` before a
particle or preposition (`get+up`, `look+at`), a last `+` where there is a recipient, and tags of `nouns` joined by
commas. The options:

    be, self            passé composé with être; reflexive
    imperfect           a state: its past is the imparfait
    à, de               French preposition before the object
    late                explains it to him, never explains him it
    manner well careful everywhere      adverbs it goes with
    here, place, home, shop             done in a place, with a direction, a home, a shop
    company, for                        done with somebody, for somebody
    accident            not done on purpose
    generic             `likes tea` is aime le thé
    bare                has no object pronoun

>>> VERB["look at"].english_preposition, VERB["get up"].reflexive, VERB["go"].takes_etre
('at', True, True)
"""

from __future__ import annotations

from dataclasses import dataclass

from harken.data.synthetic.phrasebook.english import Word, past, third_person
from harken.data.synthetic.phrasebook.french import Conjugation, conjugate
from harken.data.synthetic.phrasebook.nouns import Noun, tagged

TABLE = """
    sleep slept dormir person,animal,infant - here well; work - travailler person - here manner well;
    sing sang chanter person - here well; dance - danser person - here well; laugh - rire person,infant - here;
    smile - sourire person,infant - here; cry cried pleurer person,infant - here;
    run ran courir person,legs - here manner; swim swam nager person - manner well;
    walk - marcher person,legs - here manner; cook - cuisiner person - here well; travel - voyager person - company;
    wait - attendre person - here; jump - sauter person,legs - here; shout - crier person - here;
    lie lied mentir person -; bark - aboyer bark - here; fly flew voler fly -;
    sneeze - éternuer person,pet,infant - here; leave left partir person,vehicle - be;
    arrive - arriver person,vehicle - be; fall fell tomber person,legs - be accident;
    stay - rester person - be here; go went aller person - be place; come came venir person - be place;
    come+back came revenir person - be place; go+out went sortir person - be; get+up got lever person - self;
    wake+up woke réveiller person,animal,infant - self; hurry - dépêcher person - self;
    rest - reposer person,animal - self here; stop - arrêter person,vehicle - self;
    have+fun had amuser person - self here; go+to+bed went coucher person - self;
    live - habiter person - imperfect home; eat ate manger person food manner here;
    drink drank boire person drink manner here; read read lire person text manner here;
    write wrote écrire person letter,book,novel,poem,story,article,message,report,recipe careful here;
    buy bought acheter person food,clothes,private,furniture,text,object,instrument,drink shop for;
    sell sold vendre person food,clothes,private,furniture,text,object,instrument shop;
    see saw voir person person,infant,animal,vehicle,place,nature,object;
    look+at - regarder person person,infant,animal,vehicle,nature,text,furniture,clothes,object;
    look+for - chercher person person,animal,text,object,clothes,place everywhere;
    find found trouver person text,object,clothes,animal; lose lost perdre person object,text,clothes accident;
    love - adorer person person,infant,animal,food,drink,place,nature,instrument imperfect generic;
    like - aimer person person,animal,food,drink,place,nature,text,clothes imperfect generic;
    hate - détester person food,drink,animal,place imperfect generic;
    know knew connaître person person,place imperfect; help - aider person person; call - appeler person person;
    invite - inviter person person; greet - saluer person person; thank - remercier person person;
    meet met rencontrer person person; visit - visiter person build,town,scene,park;
    wait+for - attendre person person,ride; follow - suivre person,animal person,animal; open - ouvrir person open;
    close - fermer person open; wash - laver person clothes,drive,fruit,dishes,infant careful;
    clean - nettoyer person clean,furniture,tool careful; break broke casser person break accident;
    repair - réparer person machine,furniture,roof careful; paint - peindre person paint,furniture careful;
    build built construire person build; draw drew dessiner person animal,person,build,nature,vehicle careful for;
    take took prendre person object,text,ride; bring brought apporter person object,food,drink,text,clothes;
    hide hid cacher person object,text,clothes; choose chose choisir person clothes,food,text,gift,instrument for;
    cut cut couper person cut; prepare - préparer person dish,cooked careful for; taste - goûter person food,drink;
    use - utiliser person tool,machine; borrow - emprunter person object,text,private,clothes;
    keep kept garder person object,text,clothes,animal; forget forgot oublier person object,text,clothes accident;
    drive drove conduire person drive manner; wear wore porter person clothes,jewel;
    put+on put mettre person clothes,jewel; take+off took enlever person clothes,jewel;
    feed fed nourrir person pet,cattle; stroke - caresser person pet;
    catch caught attraper person,cat,dog animal,throw; touch - toucher person animal,object,furniture;
    throw threw lancer person throw; pick - cueillir person pick; plant - planter person grown;
    cross - traverser person,animal cross; photograph - photographier person animal,person,nature,build,place;
    understand understood comprendre person text,person; study studied étudier person text,animal,grown;
    have had avoir person pet,text,object,private,clothes,furniture,instrument imperfect;
    admire - admirer person person,nature,build,gift imperfect; fear - craindre person animal imperfect generic;
    protect - protéger person person,animal,infant,place; share - partager person food;
    empty - vider person container;
    decorate - décorer person house,bedroom,kitchen,garden,shop,church,school,hotel,castle,wall;
    receive - recevoir person gift,text; fill - remplir person container;
    lift - soulever person furniture,container,stone,ladder,axe,hammer; copy - copier person text;
    translate - traduire person text; play - jouer person instrument well here de bare;
    answer - répondre person person à; phone - téléphoner person person à; speak+to spoke parler person person à;
    think+about thought penser person person,animal,place à bare; smile+at - sourire person person à;
    talk+about - parler person person,text,animal,place de bare; give+ gave donner person object,text,clothes,gift;
    show+ showed montrer person object,text,clothes,pet,private,house,garden,bedroom;
    send+ sent envoyer person text,gift; lend+ lent prêter person object,text,private,clothes,instrument;
    offer+ - offrir person gift,grown; tell+ told raconter person tale;
    explain+ - expliquer person story,poem,article,message,report,recipe,map late;
    return+ - rendre person object,text,private,clothes late; promise+ - promettre person gift
"""


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in both languages."""

    name: str  # the key in VERB: "look at"
    english: str
    english_third: str
    english_past: str
    particles: tuple[str, ...]  # up, in "get up"
    english_preposition: str  # at, in "look at": it goes with the object
    french: Conjugation
    subjects: tuple[str, ...]  # tags
    objects: tuple[Noun, ...]
    french_preposition: str  # à or de before the object
    takes_etre: bool
    reflexive: bool
    imperfect: bool
    recipient: bool  # gives something to somebody
    options: frozenset[str]

    @property
    def indirect(self) -> bool:
        """Whether the object pronoun is lui and leur, not le and les."""
        return self.french_preposition == "à"


PREPOSITIONS = ("at", "for", "to", "about")


def _read_verb(row: str) -> Verb:
    english, past_form, french, subjects, objects, *options = row.split()
    recipient = english.endswith("+")
    base, *particles = english.rstrip("+").split("+")
    transitive = objects != "-"
    preposition = particles.pop() if transitive and particles and particles[-1] in PREPOSITIONS else ""
    return Verb(
        name=" ".join([base, *particles, *([preposition] if preposition else [])]),
        english=Word(base, "VERB"),
        english_third=Word(third_person(base), "VERB"),
        english_past=Word(past(base) if past_form == "-" else past_form, "VERB"),
        particles=tuple(particles),
        english_preposition=preposition,
        french=conjugate(french),
        subjects=tuple(subjects.split(",")),
        objects=tagged(*objects.split(",")) if transitive else (),
        french_preposition=next((option for option in options if option in ("à", "de")), ""),
        takes_etre="be" in options or "self" in options,
        reflexive="self" in options,
        imperfect="imperfect" in options,
        recipient=recipient,
        options=frozenset(options),
    )


VERBS = [_read_verb(row) for row in TABLE.split(";")]
VERB = {verb.name: verb for verb in VERBS}


def _special(english: str, third: str, past_form: str, french: str) -> Verb:
    """A verb that the grammar uses by name: the copula, the modals, the verbs before `that`."""
    kind = "AUX" if english in ("be", "can", "must") else "VERB"
    base, third, past_form = (Word(form, kind) for form in (english, third, past_form))
    return Verb(
        english, base, third, past_form, (), "", conjugate(french), ("person",), (), "",
        False, False, True, False, frozenset(),
    )  # fmt: skip


BE = _special("be", "is", "was", "être")
HAVE_STATE = _special("be", "is", "was", "avoir")  # he is hungry: il a faim
WEATHER_STATE = _special("be", "is", "was", "faire")  # it is cold: il fait froid
RAIN = _special("rain", "rains", "rained", "pleuvoir")
SNOW = _special("snow", "snows", "snowed", "neiger")
COPULAS = (BE, HAVE_STATE, WEATHER_STATE)
CAN = _special("can", "can", "could", "pouvoir")
MUST = _special("must", "must", "must", "devoir")
WANT = _special("want", "wants", "wanted", "vouloir")
GOING = _special("going", "going", "going", "aller")
MODALS = {"can": CAN, "must": MUST, "want": WANT}
REPORTS = tuple(
    _special(english, third, past_form, french)
    for english, third, past_form, french in (
        ("think", "thinks", "thought", "penser"),
        ("say", "says", "said", "dire"),
        ("know", "knows", "knew", "savoir"),
        ("believe", "believes", "believed", "croire"),
        ("hope", "hopes", "hoped", "espérer"),
    )
)
