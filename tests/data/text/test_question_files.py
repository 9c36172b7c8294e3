"""Questions from bAbI files, archives and made stories."""

import tarfile
from pathlib import Path
from random import Random

import numpy as np
import pytest

from harken.data.synthetic.stories import WORDS, load_stories, make_story
from harken.data.text.babi import parse_stories, read_babi
from harken.data.text.questions import DistinctSentences, Question, QuestionIds, words_of
from harken.data.tokenizers.base import train_tokenizer
from harken.errors import UserError

STORY = (
    "1 Mary moved to the hall.\n2 Bill ran.\n3 Where is Mary? \thall\t1\n4 Who ran?\tBill\t2\n"
    "1 Ann slept.\n2 Who slept?\tAnn\t1\n"
)


def test_stories_are_read_with_their_needed_facts() -> None:
    first, second, third = parse_stories(STORY.splitlines(), "qa1.txt", "1")
    assert first == Question(("Mary moved to the hall.", "Bill ran."), "Where is Mary?", "hall", (0,), "1")
    assert (second.facts, second.supporting) == (first.facts, (1,))  # questions are no facts
    assert third.facts == ("Ann slept.",)


@pytest.mark.parametrize(
    ("text", "said"),
    [("Mary slept.", "line 1 does not begin with a number"), ("1 Who?\tMary\t7", "line 1 says that it needs a line")],
)
def test_broken_stories_are_refused_with_their_line(text: str, said: str) -> None:
    with pytest.raises(UserError, match=f"mine.txt, {said}"):
        list(parse_stories([text], "mine.txt"))


def test_folder_and_archive_give_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "tasks" / "en"
    folder.mkdir(parents=True)
    for task in (1, 12):
        (folder / f"qa{task}_some-thing_train.txt").write_text(STORY)
    with tarfile.open(tmp_path / "tasks.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "tasks", "tasks")
    one, other = (read_babi(place, "en", [12], "train") for place in (tmp_path / "tasks", tmp_path / "tasks.tar.xz"))
    assert one == other and [asked.task for asked in one] == ["12"] * 3
    assert len(read_babi(folder, "en", [], "train")) == 6  # all tasks, and the folder itself may be named
    with pytest.raises(UserError, match="no train file of task 3; there are 1, 12"):
        read_babi(tmp_path / "tasks.tar.xz", "en", [3], "train")
    with pytest.raises(UserError, match="holds no files like"):
        read_babi(tmp_path, "en", [], "train")
    (tmp_path / "no.tar").write_bytes(b"nothing")
    with pytest.raises(UserError, match="is no tar archive that can be read"):
        read_babi(tmp_path / "no.tar", "en", [], "train")


def test_ids_keep_the_newest_facts_in_their_order() -> None:
    asked = [Question(("A b.", "C.", "A b."), "C a?"), Question((), "B?")]
    tokenizer = train_tokenizer("word", DistinctSentences(asked), 100)
    batch = QuestionIds(asked, tokenizer, max_facts=2).batch(np.array([0, 1]))
    words = {word: tokenizer.encode(word)[0] for word in "abc"}
    assert batch.facts[0].tolist() == [[words["c"], 0], [words["a"], words["b"]]]
    assert batch.counts.tolist() == [2, 0] and batch.facts[1].abs().sum() == 0
    assert batch.question[0].tolist() == [words["c"], words["a"]]
    assert words_of(" Where is Mary? ") == "where is mary"


def test_made_stories_repeat_and_share_nothing() -> None:
    made = load_stories(seed=2, train=100, valid=30, test=30)
    assert made == load_stories(seed=2, train=100, valid=30, test=30)
    assert made.train != load_stories(seed=3, train=100, valid=30, test=30).train
    splits = [
        {one.facts for one in part if len(one.facts) == 10} for part in (made.train, made.valid, made.tests["test"])
    ]
    assert all(splits) and not (splits[0] & splits[1] or splits[0] & splits[2] or splits[1] & splits[2])


def test_answers_follow_from_the_needed_facts() -> None:
    """Told by another hand: walk through the sentences and see where people and things are."""
    random, kinds = Random(1), set()
    for _ in range(300):
        for one in make_story(random):
            kinds.add(one.task)
            place, thing_at, held = dict[str, str](), dict[str, str](), dict[str, str]()
            for fact in one.facts:
                words = fact.rstrip(".").split()
                person, last = words[0], words[-1]
                if last in WORDS["places"]:
                    place[person] = last
                elif "took" in words or "picked" in words:
                    held[last] = person
                    thing_at.pop(last, None)
                else:
                    held.pop(last)
                    thing_at[last] = place[person]
            asked = one.question.rstrip("?").split()
            if one.task == "people":
                assert one.answer == place[asked[-1]]
            elif one.task == "things":
                assert one.answer == (thing_at.get(asked[-1]) or place[held[asked[-1]]])
            elif one.task == "carried":
                assert held[one.answer] == asked[2]
            else:
                assert one.answer == ("yes" if place[asked[1]] == asked[-1] else "no")
            assert one.supporting and all(0 <= fact < len(one.facts) for fact in one.supporting)
            if one.task in ("people", "yes-no"):
                assert one.facts[one.supporting[0]].split()[0] in one.question
    assert kinds == {"people", "things", "carried", "yes-no"}
