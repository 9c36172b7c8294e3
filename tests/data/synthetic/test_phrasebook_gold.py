"""Gold translations: sentences built from the grammar's own trees, with French written by hand."""

from __future__ import annotations

import pytest

from harken.data.synthetic.phrasebook.clauses import Realiser
from harken.data.synthetic.phrasebook.lexicon import (
    ADJECTIVE,
    ADVERB,
    BE,
    HAVE_STATE,
    NOUN,
    PREPOSITION,
    RAIN,
    REPORTS,
    TIME,
    VERB,
    WEATHER_STATE,
)
from harken.data.synthetic.phrasebook.links import make_pair
from harken.data.synthetic.phrasebook.sentences import Sentences
from harken.data.synthetic.phrasebook.trees import IL, ILS, PRONOUN, Both, Clause, Name, NounPhrase, Place, Trace

ME, YOU, HE, SHE, WE, THEY = (PRONOUN[word] for word in ("i", "you", "he", "she", "we", "they"))
IT, ITS, THEM_F = PRONOUN["it"], PRONOUN["it (feminine)"], PRONOUN["they (feminine)"]
PAUL, MARIE, ANNE = Name("paul", False), Name("marie", True), Name("anne", True)


def np(text, plural=False, **more):
    """`np("the black cat")`: determiner, adjectives, noun; a leading `-` for no determiner."""
    determiner, *adjectives, noun = text.split()
    determiner = "" if determiner == "-" else determiner
    return NounPhrase(NOUN[noun], determiner, plural, tuple(ADJECTIVE[word] for word in adjectives), **more)


def at(preposition, phrase):
    return Place(PREPOSITION[preposition], np(phrase) if isinstance(phrase, str) else phrase)


def say(subject, verb, tense="present", negation="", **more):
    return make_pair(*Realiser().clause(Clause(subject, VERB[verb], tense, negation, **more)))


def be(subject, tense="present", negation="", verb=BE, **more):
    return make_pair(*Realiser().clause(Clause(subject, verb, tense, negation, **more)))


def gap(phrase, **clause):
    """A relative clause on the object: `que ...`."""
    phrase.relative = Clause(object=Trace(ILS if phrase.plural else IL, phrase.plural, phrase.feminine), **clause)
    return phrase


def who(phrase, verb, tense="present", **clause):
    """A relative clause on the subject: `qui ...`."""
    phrase.relative = Clause(Trace(phrase.person, phrase.plural, phrase.feminine), VERB[verb], tense, **clause)
    return phrase


STATEMENTS = [
    # agreement, adjective order, the forms before a vowel
    (say(np("the black cat"), "sleep"), "the black cat sleeps", "le chat noir dort"),
    (say(np("the old friend"), "sing"), "the old friend sings", "le vieil ami chante"),
    (be(np("the small white mouse", True), adjective=ADJECTIVE["beautiful"]),
     "the small white mice are beautiful", "les petites souris blanches sont belles"),
    (say(HE, "buy", object=np("a beautiful coat")), "he buys a beautiful coat", "il achète un beau manteau"),
    (say(HE, "see", object=np("a beautiful bird")), "he sees a beautiful bird", "il voit un bel oiseau"),
    (say(SHE, "use", object=np("my new tool")), "she uses my new tool", "elle utilise mon nouvel outil"),
    (say(WE, "visit", object=np("the new museum")), "we visit the new museum", "nous visitons le nouveau musée"),
    (say(np("my aunt"), "laugh"), "my aunt laughs", "ma tante rit"),
    (say(np("my old aunt"), "cry"), "my old aunt cries", "ma vieille tante pleure"),
    (say(ME, "lose", object=np("my ladder")), "i lose my ladder", "je perds mon échelle"),
    (say(np("this man"), "wait"), "this man waits", "cet homme attend"),
    (say(np("this hero"), "wait"), "this hero waits", "ce héros attend"),
    (say(np("this woman"), "smile"), "this woman smiles", "cette femme sourit"),
    (say(np("these engineer", True), "work"), "these engineers work", "ces ingénieurs travaillent"),
    (say(np("the horse", True), "run"), "the horses run", "les chevaux courent"),
    (say(np("the owl"), "fly"), "the owl flies", "le hibou vole"),
    (be(MARIE, adjective=ADJECTIVE["jealous"]), "marie is jealous", "marie est jalouse"),
    (be(Both(PAUL, MARIE), adjective=ADJECTIVE["happy"]), "paul and marie are happy", "paul et marie sont heureux"),
    (be(Both(ANNE, MARIE), adjective=ADJECTIVE["happy"]), "anne and marie are happy", "anne et marie sont heureuses"),
    # articles: elision, contraction, partitive, plural with an adjective before the noun
    (say(HE, "drink", object=np("- water")), "he drinks water", "il boit de l'eau"),
    (say(HE, "eat", object=np("- fresh bread")), "he eats fresh bread", "il mange du pain frais"),
    (say(HE, "eat", object=np("- jam")), "he eats jam", "il mange de la confiture"),
    (say(HE, "like", object=np("- cheese")), "he likes cheese", "il aime le fromage"),
    (say(HE, "like", negation="not", object=np("- cheese")), "he does not like cheese", "il n'aime pas le fromage"),
    (say(SHE, "buy", object=np("some apple", True)), "she buys some apples", "elle achète des pommes"),
    (say(SHE, "buy", object=np("some beautiful dress", True)), "she buys some beautiful dresses",
     "elle achète de belles robes"),
    (say(SHE, "see", object=np("many owl", True)), "she sees many owls", "elle voit beaucoup de hiboux"),
    (say(SHE, "see", object=np("many bird", True)), "she sees many birds", "elle voit beaucoup d'oiseaux"),
    (say(SHE, "follow", object=np("all girl", True)), "she follows all the girls",
     "elle suit toutes les filles"),
    (say(HE, "go", places=(at("to", "the market"),)), "he goes to the market", "il va au marché"),
    (say(HE, "go", places=(at("to", "the school"),)), "he goes to the school", "il va à l'école"),
    (say(SHE, "come", "past", places=(at("from", "the castle"),)), "she came from the castle",
     "elle est venue du château"),
    (say(WE, "dance", "past", places=(at("near", np("the church", True)),)), "we danced near the churches",
     "nous avons dansé près des églises"),
    (say(ME, "play", object=np("the harp")), "i play the harp", "je joue de la harpe"),
    (say(ME, "play", object=np("the violin")), "i play the violin", "je joue du violon"),
    (say(SHE, "talk about", object=np("the hero")), "she talks about the hero", "elle parle du héros"),
    (say(np("the cat", owner=np("the boy")), "sleep"), "the boy's cat sleeps", "le chat du garçon dort"),
    (say(np("the red hat", owner=ANNE), "fall", "past"), "anne's red hat fell", "le chapeau rouge d'anne est tombé"),
    # negation
    (say(np("the child", True), "sleep", negation="not"), "the children do not sleep", "les enfants ne dorment pas"),
    (say(ME, "see", "past", "not", object=np("the dog")), "i did not see the dog", "je n'ai pas vu le chien"),
    (say(HE, "have", negation="not", object=np("a car")), "he does not have a car", "il n'a pas de voiture"),
    (say(WE, "eat", negation="never", object=np("some egg", True)), "we never eat any eggs",
     "nous ne mangeons jamais d'œufs"),
    (say(SHE, "work", negation="no longer"), "she no longer works", "elle ne travaille plus"),
    (say(HE, "swim", negation="not", modal="can"), "he cannot swim", "il ne peut pas nager"),
    (say(YOU, "leave", "past", "not"), "you did not leave", "vous n'êtes pas parti"),
    (say(THEY, "get up", "past", "not"), "they did not get up", "ils ne se sont pas levés"),
    # tenses, être and avoir, reflexive verbs
    (say(np("the girl", True), "arrive", "past"), "the girls arrived", "les filles sont arrivées"),
    (say(SHE, "wake up", "past"), "she woke up", "elle s'est réveillée"),
    (say(ME, "have fun", "future"), "i will have fun", "je m'amuserai"),
    (say(WE, "go to bed"), "we go to bed", "nous nous couchons"),
    (say(THEY, "send", "future", object=np("the letter")), "they will send the letter", "ils enverront la lettre"),
    (say(ME, "buy", "future", object=np("a bicycle")), "i will buy a bicycle", "j'achèterai un vélo"),
    (say(WE, "share", "past", object=np("the cake")), "we shared the cake", "nous avons partagé le gâteau"),
    (say(SHE, "love", "past", object=np("this river")), "she loved this river", "elle adorait cette rivière"),
    (say(np("your brother"), "read", "going", object=np("this novel")), "your brother is going to read this novel",
     "votre frère va lire ce roman"),
    (say(THEY, "draw", modal="want", object=np("a lion")), "they want to draw a lion", "ils veulent dessiner un lion"),
    (say(np("our son", True), "help", modal="must", object=HE), "our sons must help him", "nos fils doivent l'aider"),
    # pronouns before the verb, and participles that agree with them
    (say(ME, "see", "past", object=THEM_F), "i saw them", "je les ai vues"),
    (say(HE, "eat", "past", object=ITS), "he ate it", "il l'a mangée"),
    (say(SHE, "speak to", object=HE), "she speaks to him", "elle lui parle"),
    (say(SHE, "answer", "past", object=THEY), "she answered them", "elle leur a répondu"),
    (say(HE, "give", object=IT, recipient=ME), "he gives it to me", "il me le donne"),
    (say(HE, "give", "past", "not", object=ITS, recipient=HE), "he did not give it to him",
     "il ne la lui a pas donnée"),
    (say(YOU, "show", object=np("the map"), recipient=WE), "you show us the map", "vous nous montrez la carte"),
    (say(SHE, "lend", "past", object=np("her umbrella"), recipient=np("the tourist", True)),
     "she lent her umbrella to the tourists", "elle a prêté son parapluie aux touristes"),
    (say(HE, "take off", object=IT), "he takes it off", "il l'enlève"),
    (say(WE, "wait for", "going", object=SHE), "we are going to wait for her", "nous allons l'attendre"),
    # adverbs, places, times
    (say(HE, "eat", adverb=ADVERB["often"], object=np("a apple")), "he often eats an apple",
     "il mange souvent une pomme"),
    (say(SHE, "sleep", "past", adverb=ADVERB["well"]), "she slept well", "elle a bien dormi"),
    (say(HE, "wash", "past", adverb=ADVERB["carefully"], object=np("the car")), "he washed the car carefully",
     "il a lavé soigneusement la voiture"),
    (say(ME, "arrive", "past", time=TIME["last week"]), "i arrived last week", "je suis arrivé la semaine dernière"),
    (say(np("the bird"), "fly", "past", time=TIME["two days ago"]), "the bird flew two days ago",
     "l'oiseau a volé il y a deux jours"),
    (say(SHE, "sing", places=(at("next to", "the hospital"),)), "she sings next to the hospital",
     "elle chante à côté de l'hôpital"),
    (say(HE, "travel", places=(Place(PREPOSITION["with"], THEY),)), "he travels with them", "il voyage avec eux"),
    # to be
    (be(HE, "past", verb=HAVE_STATE, feeling="hungry"), "he was hungry", "il avait faim"),
    (be(IT, "future", verb=WEATHER_STATE, feeling="cold"), "it will be cold", "il fera froid"),
    (be(np("my sister"), profession=NOUN["nurse"]), "my sister is a nurse", "ma sœur est infirmière"),
    (be(WE, profession=NOUN["teacher"]), "we are teachers", "nous sommes professeurs"),
    (be(np("the girl"), adjective=ADJECTIVE["tall"], than=np("my brother")), "the girl is taller than my brother",
     "la fille est plus grande que mon frère"),
    (be(np("this chair"), adjective=ADJECTIVE["expensive"], than=np("the armchair")),
     "this chair is more expensive than the armchair", "cette chaise est plus chère que le fauteuil"),
    (be(np("the door", True), "past", "not", adjective=ADJECTIVE["dirty"], degree="very"),
     "the doors were not very dirty",
     "les portes n'étaient pas très sales"),
    # relative clauses
    (say(who(np("the man"), "read", object=np("the book")), "sleep"), "the man who reads the book sleeps",
     "l'homme qui lit le livre dort"),
    (say(HE, "like", object=who(np("the wolf"), "sleep")), "he likes the wolf that sleeps", "il aime le loup qui dort"),
    (be(gap(np("the apple", True), subject=HE, verb=VERB["eat"], tense="past"), "past", adjective=ADJECTIVE["ripe"]),
     "the apples that he ate were ripe", "les pommes qu'il a mangées étaient mûres"),
    (say(ME, "know", object=gap(np("the woman"), subject=ANNE, verb=VERB["wait for"])),
     "i know the woman that anne waits for", "je connais la femme qu'anne attend"),
]  # fmt: skip


@pytest.mark.parametrize(("pair", "english", "french"), STATEMENTS, ids=[row[1] for row in STATEMENTS])
def test_statement(pair, english, french):
    assert (pair.source, pair.target) == (english, french)


def sentence(build):
    return make_pair(*build(Sentences()))


EATS = Clause(np("the boy"), VERB["eat"], object=np("the apple"))
SENTENCES = [
    (lambda s: s.yes_no(Clause(np("the black cat"), VERB["sleep"])), "does the black cat sleep?",
     "est-ce que le chat noir dort ?"),
    (lambda s: s.yes_no(Clause(HE, VERB["swim"], modal="can")), "can he swim?", "est-ce qu'il peut nager ?"),
    (lambda s: s.yes_no(Clause(SHE, BE, "past", adjective=ADJECTIVE["proud"])), "was she proud?",
     "est-ce qu'elle était fière ?"),
    (lambda s: s.who(Clause(Trace(IL, False, False), VERB["open"], "past", object=np("the window"))),
     "who opened the window?", "qui a ouvert la fenêtre ?"),
    (lambda s: s.what(Clause(np("the boy"), VERB["eat"], object=Trace(IL, False, False))), "what does the boy eat?",
     "qu'est-ce que le garçon mange ?"),
    (lambda s: s.what(Clause(THEY, VERB["meet"], "past", object=Trace(IL, False, False)), "who"),
     "who did they meet?", "qui est-ce qu'ils ont rencontré ?"),
    (lambda s: s.which(NOUN["shirt"], True, Clause(SHE, VERB["wash"], "past", object=Trace(ILS, True, True))),
     "which shirts did she wash?", "quelles chemises est-ce qu'elle a lavées ?"),
    (lambda s: s.how_many(NOUN["egg"], Clause(YOU, VERB["buy"], object=Trace(ILS, True, False))),
     "how many eggs do you buy?", "combien d'œufs est-ce que vous achetez ?"),
    (lambda s: s.where_is(np("my key", True)), "where are my keys?", "où sont mes clés ?"),
    (lambda s: s.adverbial("why", Clause(PAUL, VERB["laugh"])), "why does paul laugh?",
     "pourquoi est-ce que paul rit ?"),
    (lambda s: s.adverbial("when", Clause(ANNE, VERB["come back"], "future")), "when will anne come back?",
     "quand est-ce qu'anne reviendra ?"),
    (lambda s: s.there_is(np("a cat"), (at("in", "the garden"),)), "there is a cat in the garden",
     "il y a un chat dans le jardin"),
    (lambda s: s.there_is(np("some owl", True), (at("behind", "the wall"),), "past", True),
     "there were no owls behind the wall", "il n'y avait pas de hiboux derrière le mur"),
    (lambda s: s.report(Clause(ME, REPORTS[0]), s.clause(Clause(HE, VERB["sleep"]))), "i think that he sleeps",
     "je pense qu'il dort"),
    (lambda s: s.joined(s.clause(EATS), "because", s.clause(Clause(HE, HAVE_STATE, feeling="hungry"))),
     "the boy eats the apple because he is hungry", "le garçon mange la pomme parce qu'il a faim"),
    (lambda s: s.fronted("if", s.clause(Clause(IT, RAIN)), s.clause(Clause(WE, VERB["stay"], "future"))),
     "if it rains, we will stay", "s'il pleut, nous resterons"),
    (lambda s: s.fronted("when", s.clause(Clause(HE, VERB["come back"], "future", english_tense="present")),
                         s.clause(Clause(WE, VERB["eat"], "future", object=np("the soup")))),
     "when he comes back, we will eat the soup", "quand il reviendra, nous mangerons la soupe"),
    (lambda s: s.joined(s.clause(Clause(SHE, VERB["sing"])), "but", s.clause(Clause(ME, VERB["work"])), comma=True),
     "she sings, but i work", "elle chante, mais je travaille"),
    (lambda s: s.joined(s.clause(Clause(ME, VERB["buy"], "past", object=np("the pear", True))), "and",
                        s.clause(Clause(ME, VERB["eat"], "past", object=THEM_F))),
     "i bought the pears and i ate them", "j'ai acheté les poires et je les ai mangées"),
    (lambda s: s.opened(s.time(TIME["yesterday"]), s.clause(Clause(SHE, VERB["leave"], "past"))),
     "yesterday, she left", "hier, elle est partie"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "english", "french"), SENTENCES, ids=[row[1] for row in SENTENCES])
def test_sentence(build, english, french):
    pair = sentence(build)
    assert (pair.source, pair.target) == (english, french)


LINKS = [
    (say(np("the black cat"), "sleep"), "0-0 1-2 2-1 3-3"),
    (say(HE, "drink", object=np("- water")), "0-0 1-1 2?2 2-3"),  # il boit de l'eau
    (say(ME, "see", "past", "not", object=np("the dog")), "0-0 1?1 1?3 2?1 2-2 3?1 3-3 4-4 5-5"),
    (say(HE, "go", places=(at("to", "the market"),)), "0-0 1-1 2-2 3-2 4-3"),  # il va au marché
    (say(ME, "like", object=np("the cat")), "0?0 1-0 2-1 3-2"),  # j'aime le chat
    (sentence(lambda s: s.yes_no(Clause(np("the cat"), VERB["sleep"]))), "0?0 0?1 0?4 1-2 2-3 3-4 3?5"),
    (say(np("the cat", owner=np("the boy")), "sleep"), "0-2 1?0 1?2 1-3 2?0 2-1 3-4"),  # le chat du garçon dort
]


@pytest.mark.parametrize(("pair", "pharaoh"), LINKS, ids=[row[0].source for row in LINKS])
def test_links(pair, pharaoh):
    assert pair.alignment is not None
    assert pair.alignment.to_pharaoh() == pharaoh
