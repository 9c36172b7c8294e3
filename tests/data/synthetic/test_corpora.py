"""The corpora made for other seq2seq jobs: right, repeatable, and without a meaning in two splits."""

import ast
import re
from datetime import date
from random import Random

import pytest

from harken.checking import check
from harken.data.synthetic.seq2seq import (
    MADE,
    Maker,
    arithmetic,
    brackets,
    code,
    dates,
    draw_split,
    extract,
    load_made,
    maker_of,
)
from harken.data.text.config import DataConfig
from harken.data.text.pairs import Pair
from harken.data.text.parallel import read_corpus
from harken.errors import UserError


@pytest.mark.parametrize("name", MADE)
def test_splits_share_no_meaning_and_repeat_by_seed(name: str) -> None:
    made = load_made(name, seed=3, train=400, valid=60, test=60)
    maker = maker_of(name)
    splits = [{maker.meaning(pair) for pair in part} for part in (made.train, made.valid, made.tests["test"])]
    assert not (splits[0] & splits[1] or splits[0] & splits[2] or splits[1] & splits[2])
    assert len({pair.source for pair in made.train}) == 400 and len(made.valid) == len(made.tests["test"]) == 60
    assert load_made(name, seed=3, train=400, valid=60, test=60) == made
    assert load_made(name, seed=4, train=400, valid=60, test=60).train != made.train
    longer = load_made(name, seed=3, train=500, valid=60, test=60)
    assert longer.train[:400] == made.train and longer.tests == made.tests


def test_dates_are_days_that_were() -> None:
    for pair in load_made("dates", train=300, valid=1, test=1).train:
        day = date.fromisoformat(pair.target)
        found = [name for name in dates.WEEKDAYS if name.lower() in pair.source.lower()]
        assert found in ([], [dates.WEEKDAYS[day.weekday()]])  # a weekday in the text is the right one
        numbers = {int(digits) for digits in re.findall(r"\d+", pair.source)}
        assert numbers <= {day.day, day.month, day.year}
    assert dates.in_words(2000) == "two thousand" and dates.in_words(2049) == "twenty forty-nine"


def test_arithmetic_is_right_and_knows_both_orders() -> None:
    for pair in load_made("arithmetic", train=300, valid=1, test=1).train:
        first, sign, second, _ = pair.source.split()
        assert int(pair.target) == (int(first) + int(second) if sign == "+" else int(first) - int(second))
    one, other = (Pair(f"{text} =", "") for text in ("1 + 23", "23 + 1"))
    assert arithmetic.meaning(one) == arithmetic.meaning(other)


def test_a_tree_holds_its_sentence_and_no_sentence_has_two() -> None:
    random, trees = Random(1), dict[str, str]()
    for _ in range(3000):
        pair = brackets.draw(random)
        words = [word for word in re.findall(r"[^\s()]+", pair.target) if word.islower()]
        assert [*words, "."] == pair.source.split() and len(words) < brackets.LONGEST
        assert pair.target.count("(") == pair.target.count(")")
        assert trees.setdefault(pair.source, pair.target) == pair.target
    inside = [tree for tree in trees.values() if "(SBAR that (S (NP" in tree]
    assert len(inside) > 100  # clauses inside clauses are there


def test_what_follows_with_decides_its_place() -> None:
    random = Random(2)
    for _ in range(2000):
        tree = brackets.draw(random).target
        for tool in re.findall(r"\(PP with \(NP a (\w+)\)\)", tree):
            before = tree[: tree.index(f"(PP with (NP a {tool})")].rstrip()
            assert (tool in brackets.WORDS["tools"]) == before.endswith(")")  # after a whole object, or inside one


def test_code_is_python_and_one_for_each_instruction() -> None:
    random, known = Random(1), dict[str, str]()
    for _ in range(3000):
        pair = code.draw(random)
        assert ast.unparse(ast.parse(pair.target, mode="eval")) == pair.target
        assert known.setdefault(pair.source, pair.target) == pair.target


def test_the_key_sentence_is_about_what_most_sentences_are_about() -> None:
    random = Random(1)
    for _ in range(500):
        pair = extract.draw(random)
        sentences = [sentence.strip() for sentence in pair.source.split(".") if sentence.strip()]
        assert sentences.count(pair.target) == 1
        subject = " ".join(pair.target.split()[1:3])
        naming = {" ".join(s.split()[1:3]) for s in sentences if any(out in s for out in extract.OUTCOMES)}
        counts = {name: sum(name in sentence for sentence in sentences) for name in naming}
        assert max(counts, key=lambda name: counts[name]) == subject and counts[subject] >= 2


def test_a_recipe_names_them_by_corpus() -> None:
    corpus = read_corpus(DataConfig(corpus="dates", size=20, lowercase=True))
    assert (corpus.name, corpus.source_language, len(corpus.train)) == ("dates", "written", 20)
    assert all(pair.source == pair.source.lower() for pair in corpus.train)


def test_what_cannot_be_made_is_refused() -> None:
    with pytest.raises(UserError, match="no made corpus 'date'; choose arithmetic"):
        load_made("date")
    poor = Maker(lambda random: Pair("a", "b"), meaning=lambda pair: pair.source, source="", target="")
    with pytest.raises(UserError, match=r"toy cannot make 2 different pairs; lower data\.size"):
        draw_split(poor, "toy 1 train", 2, unlike=set())


def test_a_check_knows_how_long_targets_are() -> None:
    found = check("dates-seq2seq", ["data.size=100"], measure=False)
    assert found.corpus.startswith("dates: 100 training pairs") and found.tokens_per_epoch == 1100  # ten and their end
    longer = check("brackets-seq2seq", ["data.size=100"], measure=False).tokens_per_epoch
    assert 2500 < longer < 6000
