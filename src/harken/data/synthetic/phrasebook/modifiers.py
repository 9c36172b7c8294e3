"""Everything that is no noun and no verb: adjectives, adverbs, prepositions, determiners, pronouns, times, names.

Multi-word entries give their own links in Pharaoh form, so that the grammar can align `last week` with
`la semaine dernière` word by word.

>>> ADJECTIVE["beautiful"].before, ADJECTIVE["black"].before
(True, False)
"""

from __future__ import annotations

from dataclasses import dataclass

from harken.data.synthetic.phrasebook.english import Word, comparative
from harken.data.synthetic.phrasebook.french import AdjectiveForms, adjective_forms
from harken.data.synthetic.phrasebook.nouns import NOUNS, Noun

# english french tags marks: `<` before the French noun, `!` only after `to be`, `@` never there, `er` as in bigger.
ADJECTIVES_TABLE = """
    red rouge colored; blue bleu colored; green vert colored,leaf; yellow jaune colored;
    black noir colored,cat,dog,horse,animal; white blanc colored,cat,dog,horse,rabbit; grey gris colored,animal;
    brown brun colored,animal; pink rose colored; purple violet colored;
    big grand animal,vehicle,place,furniture,scene,grown,container,map,painting,flag,coat,hat,ladder < er;
    tall grand person ! er;
    small petit animal,vehicle,place,furniture,object,food,grown,boy,girl,infant,instrument < er;
    fat gros animal < er; long long text,street,bridge,river,path,dress,scarf,coat,rope < er;
    high haut tower,wall,mountain,fence < er; short court dress,skirt,story,poem,message,letter,rope er;
    wide large street,river,bed,window er; narrow étroit street,path,bridge,bed er;
    heavy lourd bag,box,suitcase,furniture,hammer,axe,basket,bucket,stone,blanket er;
    light léger bag,box,suitcase,jacket,coat,chair,umbrella er;
    handsome beau man,boy,prince,king,actor,waiter,singer,soldier <;
    beautiful beau woman,girl,queen,princess,actress,dancer,animal,place,clothes,vehicle,nature,instrument,gift <;
    pretty joli clothes,grown,girl,woman,doll,vase,ring,necklace,painting,house,garden,village,bedroom,cup < er;
    old vieux person,animal,place,vehicle,furniture,clothes,object,text,instrument,tree,bridge,fixture < er;
    new nouveau vehicle,clothes,furniture,text,object,instrument,teacher,doctor,student,neighbor,colleague < @;
    young jeune person,animal < er;
    good bon food,drink,text,doctor,teacher,student,baker,actor,singer,friend,pupil,cut <;
    bad mauvais food,drink,text,actor,singer,student <; intelligent intelligent person,dog,horse,monkey,cat;
    kind gentil person < er; rich riche person er; poor pauvre farmer,worker,soldier,student,painter,fisherman er;
    happy heureux person,infant er; sad triste person,story,poem,novel er; tired fatigué person,pet,cattle,infant;
    famous célèbre person,museum,castle,painting,novel,hotel,restaurant; strong fort person,horse,bear,lion er;
    brave courageux person er; shy timide person,squirrel,cat; polite poli person; honest honnête person;
    lazy paresseux person,cat,dog,donkey er; serious sérieux person; curious curieux person,cat,monkey;
    sick malade person,pet,cattle; busy occupé person !; proud fier person er; jealous jaloux person;
    nervous nerveux person,horse; calm calme person,infant,lake,horse,village er; generous généreux person;
    funny drôle person,story,monkey,novel er; elegant élégant person,clothes;
    cruel cruel king,queen,witch,hunter,prince; patient patient person; ready prêt person !; alone seul person !;
    wild sauvage animal; fast rapide vehicle,horse,fox er;
    dangerous dangereux bear,lion,tiger,snake,wolf,street,knife,sword,axe,spider,path;
    loyal fidèle dog,friend,soldier; delicious délicieux food,drink;
    fresh frais bread,cheese,meat,milk,juice,fruit,egg er; hot chaud coffee,tea,soup,cooked,bread,milk er;
    cold froid drink,soup,meat,lake,river er; sweet sucré fruit,tea,coffee,juice,cake er; ripe mûr fruit,tomato;
    bitter amer coffee,tea,beer,chocolate,orange,lemon;
    expensive cher clothes,vehicle,furniture,gift,instrument,hotel,restaurant,computer;
    modern moderne build,vehicle,furniture,machine; dirty sale clothes,vehicle,clean,dishes,tool er;
    clean propre clothes,vehicle,clean,dishes er; empty vide container,build,street; full plein container;
    broken cassé break,machine,toy; useful utile tool,dictionary,map,machine,report;
    comfortable confortable sofa,armchair,bed,chair,house,hotel,shoe,car;
    solid solide furniture,ladder,bridge,rope,wall,tool; round rond table,mirror,stone,box,window,carpet;
    precious précieux ring,necklace,treasure,sword,vase,painting,violin;
    strange étrange object,text,stranger,animal,place; dry sec clothes,leaf,field;
    wet mouillé clothes,pet,cattle,street,blanket; interesting intéressant text,museum,city;
    boring ennuyeux text,village; important important text,judge,mayor,lawyer,king,guest,customer,key;
    quiet tranquille village,park,street,garden,beach,hotel,forest,lake er;
    noisy bruyant street,restaurant,market,machine,child,city,bird er;
    dark sombre forest,cellar,house,street,attic,stable,cloud er;
    huge énorme elephant,castle,tree,cake,stone,factory,box,cloud; deep profond lake,river,forest er
"""


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


def _read_adjective(row: str) -> Adjective:
    english, french, tags, *marks = row.split()
    return Adjective(
        english=Word(english, "ADJ"),
        french=adjective_forms(french),
        before="<" in marks,
        predicate_only="!" in marks,
        attribute_only="@" in marks,
        comparative=Word(comparative(english), "ADJ") if "er" in marks else "",
        tags=frozenset(tags.split(",")),
    )


ADJECTIVES = [_read_adjective(row) for row in ADJECTIVES_TABLE.split(";")]
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}


NOT_FOR_KIDS = ("old", "rich", "famous", "important", "busy", "elegant", "honest", "serious", "proud")


def _suits(adjective: Adjective, noun: Noun) -> bool:
    if "kid" in noun.tags and adjective.english in NOT_FOR_KIDS:
        return False
    if (adjective.english, noun.english) == ("pink", "rose"):  # une rose rose
        return False
    return noun.english in adjective.tags or not adjective.tags.isdisjoint(noun.tags)


COLORS = ("red", "blue", "green", "yellow", "black", "white", "grey", "brown", "pink", "purple")
OPPOSITES = tuple(
    frozenset(group.split())
    for group in (
        "old young new", "big small huge", "happy sad", "dirty clean", "good bad delicious", "empty full", "rich poor",
        "long short", "hot cold", "wet dry", "wide narrow", "interesting boring", "heavy light", "nervous calm",
        "quiet noisy calm", "shy proud", " ".join(COLORS),
    )
)  # fmt: skip


def clashes(adjective: Adjective, others: tuple[Adjective, ...]) -> bool:
    """Whether the adjective says the same as one of the others, or the opposite."""
    return any(
        other is adjective or any(adjective.english in group and other.english in group for group in OPPOSITES)
        for other in others
    )


SUITING = {noun: tuple(a for a in ADJECTIVES if _suits(a, noun)) for noun in NOUNS}
PERSONAL = tuple(a for a in ADJECTIVES if "person" in a.tags)  # for pronouns and names
STATES = tuple(ADJECTIVE[name] for name in ("tired", "sick", "happy", "sad", "busy", "nervous", "ready", "alone"))
REASONS = tuple(ADJECTIVE[name] for name in ("happy", "curious", "generous", "proud", "jealous", "sad", "nervous"))
REASONS_AGAINST = tuple(ADJECTIVE[name] for name in ("tired", "sick", "lazy", "busy"))
# he is hungry: il a faim
FEELINGS = {
    "hungry": "faim", "thirsty": "soif", "cold": "froid", "hot": "chaud", "afraid": "peur", "right": "raison",
    "wrong": "tort", "sleepy": "sommeil",
}  # fmt: skip
ABSOLUTE = (*COLORS, "alone", "ready", "empty", "full", "broken", "round", "wild", "huge", "delicious", "dry", "wet")
UNCOMPARED = (*ABSOLUTE, "good", "bad", "sick", "busy", "shy", "strange", "new", "ripe")  # no plain comparative
DEGREES = {"very": "très", "too": "trop", "quite": "assez"}


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """An adverb; `early` ones stand before the English verb and after the finite French one."""

    english: str
    french: str
    early: bool = False
    short: bool = False  # bien, mal: before a French participle


FREQUENCIES = tuple(
    Adverb(Word(english, "ADV"), french, early=True, short=True)
    for english, french in (
        ("often", "souvent"), ("always", "toujours"), ("sometimes", "parfois"), ("rarely", "rarement"),
    )
)  # fmt: skip
ALREADY = Adverb(Word("already", "ADV"), "déjà", early=True, short=True)
MANNERS = tuple(
    Adverb(Word(english, "ADV"), french, short=french in ("bien", "mal"))
    for english, french in (
        ("slowly", "lentement"), ("quickly", "rapidement"), ("well", "bien"), ("badly", "mal"),
        ("quietly", "silencieusement"), ("calmly", "calmement"), ("carefully", "soigneusement"),
        ("together", "ensemble"),
    )
)  # fmt: skip
WHEREABOUTS = tuple(
    Adverb(Word(english, "ADV"), french)
    for english, french in (("here", "ici"), ("there", "là-bas"), ("outside", "dehors"))
)
EVERYWHERE = Adverb(Word("everywhere", "ADV"), "partout")
MANNERS_OF = {
    "manner": tuple(a for a in MANNERS if a.english in ("slowly", "quickly", "quietly", "calmly")),
    "well": tuple(a for a in MANNERS if a.short),
    "careful": tuple(a for a in MANNERS if a.english in ("carefully", "quickly", "slowly")),
}
TOGETHER = MANNERS[-1]
ADVERB = {adverb.english: adverb for adverb in (*FREQUENCIES, ALREADY, *MANNERS, *WHEREABOUTS, EVERYWHERE)}


@dataclass(frozen=True, slots=True, eq=False)
class Preposition:
    """Tokens of a preposition in both languages; the head (a bare word) is linked surely, `~word` possibly."""

    english: tuple[str, ...]
    french: tuple[str, ...]


PREPOSITION = {
    english.replace("~", ""): Preposition(
        tuple(Word(word, "ADV") if word == "next" else word for word in english.split()), tuple(french.split())
    )
    for english, french in (
        ("in", "dans"), ("on", "sur"), ("under", "sous"), ("near", "près ~de"), ("behind", "derrière"),
        ("~in front ~of", "devant"), ("next ~to", "~à côté ~de"), ("at", "à"), ("to", "à"), ("from", "de"),
        ("with", "avec"), ("without", "sans"), ("for", "pour"), ("far ~from", "loin ~de"),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Time:
    """A time expression with its links, and the tenses it goes with."""

    english: str
    french: str
    links: str  # Pharaoh: 0-1 sure, 0?1 possible
    tenses: str


TIMES = tuple(
    Time(*(field.strip() for field in row.split("|")))
    for row in """
    today | aujourd'hui | 0-0 | present future past
    now | maintenant | 0-0 | present
    every day | tous les jours | 0-0 0?1 1-2 | present
    every morning | tous les matins | 0-0 0?1 1-2 | present
    every evening | tous les soirs | 0-0 0?1 1-2 | present
    every week | toutes les semaines | 0-0 0?1 1-2 | present
    every sunday | tous les dimanches | 0-0 0?1 1-2 | present
    every summer | tous les étés | 0-0 0?1 1-2 | present
    in winter | en hiver | 0-0 1-1 | present
    in the morning | le matin | 0?0 1-0 2-1 | present
    in the afternoon | l'après-midi | 0?0 1?0 2-0 | present
    at night | la nuit | 0?0 1?0 1-1 | present
    yesterday | hier | 0-0 | past
    yesterday morning | hier matin | 0-0 1-1 | past
    last night | hier soir | 0-0 1-1 | past
    last week | la semaine dernière | 0-2 1-1 1?0 | past
    last month | le mois dernier | 0-2 1-1 1?0 | past
    last year | l'année dernière | 0-1 1-0 | past
    last summer | l'été dernier | 0-1 1-0 | past
    last monday | lundi dernier | 0-1 1-0 | past
    two days ago | il y a deux jours | 0-3 1-4 2-2 2?0 2?1 | past
    three weeks ago | il y a trois semaines | 0-3 1-4 2-2 2?0 2?1 | past
    this morning | ce matin | 0-0 1-1 | past
    tomorrow | demain | 0-0 | future
    tomorrow morning | demain matin | 0-0 1-1 | future
    tonight | ce soir | 0-1 0?0 | future
    soon | bientôt | 0-0 | future
    next week | la semaine prochaine | 0-2 1-1 1?0 | future
    next month | le mois prochain | 0-2 1-1 1?0 | future
    next year | l'année prochaine | 0-1 1-0 | future
    next summer | l'été prochain | 0-1 1-0 | future
    next friday | vendredi prochain | 0-1 1-0 | future
    """.strip().splitlines()
)
TIMES_OF = {tense: tuple(t for t in TIMES if tense in t.tenses) for tense in ("present", "past", "future")}
TIME = {time.english: time for time in TIMES}

NUMBERS = {
    "two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six", "seven": "sept", "eight": "huit",
    "nine": "neuf", "ten": "dix", "twelve": "douze", "twenty": "vingt", "thirty": "trente",
}  # fmt: skip
MEN = {"paul": False, "thomas": False, "louis": False, "antoine": False, "marc": False, "arthur": False}
NAMES = {**MEN, "marie": True, "julie": True, "anne": True, "sophie": True, "claire": True, "emma": True}
WEATHER = ("rain", "snow")
