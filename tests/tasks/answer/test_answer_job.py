"""Question answering from recipe to answer: trained, loaded, stopped and gone on, asked, and asked wrongly."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import harken
from harken.data.parts import divide
from harken.data.text.questions import Question, example_of
from harken.errors import UserError
from harken.recipe import load_recipe
from harken.tasks.answer.answerer import Answerer
from harken.tasks.answer.job import JOB, supported
from harken.tasks.answer.sources import QUESTIONS
from harken.tasks.answer.task import same

TINY = [
    "data.size=200",
    "model.width=16",
    "train.workers=1",
    "train.threads=1",
    "train.device=cpu",
    "train.precision=float32",
    "train.validate_every=20",
    "train.checkpoint_every=7",
]
FACTS = ["Anna went to the hall.", "Ben ran to the attic.", "Anna took the key."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("answer") / "model"
    harken.train("stories-answer", out, overrides=[*TINY, "train.max_steps=30"], progress=False)
    return out


@pytest.fixture(scope="module")
def model(folder: Path) -> Answerer:
    return harken.load(folder, device="cpu")


def test_an_answer_says_what_and_where_it_looked(model: Answerer) -> None:
    found = model.answer(FACTS, "Where is Anna?")
    assert found.text in model.answers.texts and 0 < found.score <= 1
    assert found.hops.shape == (2, 3) and found.hops.min() >= 0 and found.hops.sum(1).max() <= 1 + 1e-5
    assert json.loads(json.dumps(found.to_dict()))["facts"] == FACTS
    many = model.answer_all([Question(tuple(FACTS), "Where is Anna?"), Question(tuple(FACTS[:1]), "Where is Ben?")])
    assert many[0].text == found.text and many[0].score == pytest.approx(found.score, rel=1e-4)
    np.testing.assert_allclose(many[0].hops, found.hops, atol=1e-5)


def test_facts_too_old_to_be_read_have_no_attention(model: Answerer) -> None:
    long = ["Ben ran to the attic."] * 10 + ["Anna went to the hall."] * model.recipe.model.max_facts
    found = model.answer(long, "Where is Anna?")
    assert found.hops.shape == (2, len(long)) and found.hops[:, :10].sum() == 0 and found.hops[:, 10:].sum() > 0
    assert found.text == model.answer(long[10:], "Where is Anna?").text


def test_a_loaded_folder_is_the_trained_model(folder: Path, tmp_path: Path) -> None:
    overrides = [*TINY, "train.max_steps=30"]
    trained = harken.train("stories-answer", tmp_path / "again", overrides=overrides, progress=False)
    loaded = harken.load(folder, device="cpu")
    for one, other in zip(trained.model.parameters(), loaded.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert trained.answer(FACTS, "Where is Ben?").score == loaded.answer(FACTS, "Where is Ben?").score
    names = {path.name for path in folder.iterdir()}
    assert {"answers.json", "tokenizer.json", "recipe.toml", "model.safetensors", "card.md"} <= names
    assert "accuracy" in (folder / "card.md").read_text()


def test_a_run_that_was_killed_goes_on_as_if_it_had_not_been(folder: Path, ends_the_same: Callable[..., Any]) -> None:
    ends_the_same("stories-answer", [*TINY, "train.max_steps=30"], at=18, whole=folder)


def test_it_is_scored_by_kind_and_by_where_it_looked(model: Answerer, tmp_path: Path) -> None:
    scores = JOB.evaluate(model, "valid", [], lambda done: None)
    names = [metric.name for metric in scores.metrics]
    assert names[0] == "accuracy" and names[-1] == "supporting facts" and "accuracy things" in names
    parts = [metric for metric in scores.metrics if metric.name.startswith("accuracy ")]
    sizes = [int(metric.note.split()[0].replace(",", "")) for metric in parts]
    mean = sum(metric.value * size for metric, size in zip(parts, sizes, strict=True)) / sum(sizes)
    assert scores.count == sum(sizes) and mean == pytest.approx(scores["accuracy"])
    assert len(scores.details["wrong"]) == round((1 - scores["accuracy"]) * scores.count)
    told = tmp_path / "mine.txt"
    told.write_text("1 Anna went to the hall.\n2 Where is Anna?\tmoon\t1\n")
    assert JOB.evaluate(model, None, [told], lambda done: None)["accuracy"] == 0.0
    with pytest.raises(UserError, match="has no split 'exam'; choose --split valid or test"):
        JOB.evaluate(model, "exam", [], lambda done: None)


def test_looking_rightly_means_the_needed_facts_and_no_others(model: Answerer) -> None:
    found = model.answer(FACTS, "Where is Anna?")
    best = found.best_facts(1)[0]
    assert supported(found, Question((), "", supporting=(best,)))
    assert not supported(found, Question((), "", supporting=((best + 1) % 3,)))
    assert supported(found, Question((), "", supporting=(2, 1, 0)))


def test_a_picture_of_one_text(model: Answerer) -> None:
    picture = JOB.attention_figure(model, " ".join([*FACTS, "Where is the key?"]))
    assert picture.facts == FACTS and picture.question == "Where is the key?" and picture.hops.shape == (2, 3)
    with pytest.raises(UserError, match="write the facts and then the question"):
        example_of("Anna slept.")


def test_lists_may_be_one_answer_or_several_and_words_can_be_pointed_at(tmp_path: Path) -> None:
    rows = [
        {"facts": [f"{who} has the {a}.", f"{who} has the {b}."], "question": f"What has {who}?", "answer": f"{a},{b}"}
        for who in ("Ann", "Bob", "Cid")
        for a, b in (("cup", "hat"), ("hat", "pen"), ("cup", "pen"))
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows * 3))
    valid = tmp_path / "valid.jsonl"  # somebody else, or the questions would be those of the training
    valid.write_text("".join(json.dumps(row).replace("Cid", "Dan") + "\n" for row in rows[-3:]))
    base = [f"data.train={path}", f"data.valid={valid}", "train.max_steps=120", "train.batch_tokens=9", *TINY[1:]]
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        'task = "answer"\n[data]\n[model]\n[train]\nlearning_rate = 2e-2\nwarmup_steps = 5\naverage = 0.9\n'
    )
    several = harken.train(
        recipe, tmp_path / "set", overrides=[*base, "model.output=set", "model.attention=softmax"], progress=False
    )
    assert several.answers.texts == ["cup", "hat", "pen"]
    assert several.answer(["Ann has the cup.", "Ann has the pen."], "What has Ann?").text == "cup,pen"
    with pytest.raises(UserError, match=r'27 of 27 answers are no word of their facts \(the first: "cup,hat"'):
        harken.train(recipe, tmp_path / "point", overrides=[*base, "model.output=pointer"], progress=False)
    single = tmp_path / "single.jsonl"
    single.write_text("".join(json.dumps({**row, "answer": row["answer"].split(",")[1]}) + "\n" for row in rows * 3))
    single_valid = tmp_path / "single-valid.jsonl"
    single_valid.write_text(single.read_text().replace("Cid", "Dan").replace("Ann", "Eve").replace("Bob", "Fay"))
    base[:2] = [f"data.train={single}", f"data.valid={single_valid}"]
    pointing = harken.train(recipe, tmp_path / "word", overrides=[*base, "model.output=pointer"], progress=False)
    assert pointing.answer(["Ann has the cup.", "Ann has the hat."], "What has Ann?").text == "hat"


def test_an_ordered_answer_is_right_only_in_its_order() -> None:
    assert same("N,w", "n,w", "classes") and not same("w,n", "n,w", "classes") and same("w,n", "n,w", "set")


def test_whole_stories_are_held_out() -> None:
    asked = [Question((f"s{story}",) + ("more",) * more, "q?") for story in range(10) for more in range(3)]
    parts = divide(QUESTIONS, asked, {"valid": 0.2}, 1, [])
    held = {question.facts[0] for question in parts.held["valid"]}
    assert len(parts.held["valid"]) == 6 and not held & {question.facts[0] for question in parts.train}
    with pytest.raises(UserError, match="3 examples in 1 groups leaves none for train"):
        divide(QUESTIONS, asked[:3], {"valid": 0.2}, 1, [])


def test_bad_questions_get_one_sentence(model: Answerer) -> None:
    for facts, question, said in (
        ([], "Where is Anna?", "there is no fact to answer"),
        (FACTS, " ? ", "the question is empty"),
        (FACTS, "Quis custodiet?", "knows no word of the question"),
        ("Anna slept.", "Where is Anna?", "the facts are one text"),
    ):
        with pytest.raises(UserError, match=said):
            model.answer(facts, question)


def test_bad_recipes_and_files_get_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"add --set data\.dir=ARCHIVE"):
        load_recipe("babi-answer")
    with pytest.raises(UserError, match=r"data\.corpus and data\.dir of .* are both given"):
        load_recipe("stories-answer", ["data.dir=x"])
    with pytest.raises(UserError, match=r"no-such\.tar in babi-answer, which does not exist"):
        harken.check("babi-answer", ["data.dir=no-such.tar"])
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"facts": "Anna slept.", "question": "Who?", "answer": "Anna"}\n')
    recipe = load_recipe("babi-answer", [f"data.train={wrong}"])
    with pytest.raises(UserError, match="object 1: 'facts' is no list of sentences"):
        JOB.prepare(recipe, tmp_path / "out", False)
    recipe = load_recipe("babi-answer", [f"data.train={wrong}", "data.facts_column=fact"])
    with pytest.raises(UserError, match="did you mean 'facts'"):
        JOB.prepare(recipe, tmp_path / "out", False)


def test_a_check_knows_its_size_without_training() -> None:
    found = harken.check("stories-answer", ["data.size=200"], measure=False)
    assert found.corpus.startswith("stories: 200 training questions") and 10_000 < found.parameters < 40_000


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"kind": "classes"}', '{"kind": "classes", "answers": [1]}', '{"kind": "set", "answers": ["a"]}'],
)
def test_damaged_answers_are_refused_in_one_sentence(content: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / "answers.json").write_text(content)
    (tmp_path / "model" / "digests.json").unlink()  # as in a folder of an earlier version
    with pytest.raises(UserError, match=r"answers\.json is missing or damaged, so the model cannot be used"):
        harken.load(tmp_path / "model", device="cpu")
