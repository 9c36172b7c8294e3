"""`harken.train(..., data=)`: frames and other tables in memory in the place of files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harken
from harken.data.io.in_memory import in_memory, name_of
from harken.data.synthetic.opinions import make_splits
from harken.data.synthetic.phrasebook import load_phrasebook
from harken.data.synthetic.seq2seq import load_made
from harken.data.synthetic.stories import load_stories

pandas = pytest.importorskip("pandas")
SHORT = [
    "model.width=8",
    "model.embedding=8",
    "train.batch_tokens=200",
    "train.max_steps=2",
    "train.max_epochs=none",
    "train.max_minutes=none",
    "train.workers=1",
    "train.device=cpu",
    "train.precision=float32",
]
COLUMNS = ["data.text_column=review", "data.label_column=stars"]


class Dataset:
    """As much of `datasets.Dataset` as is asked for."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns_, self.column_names = columns, list(columns)

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns_[name]


@pytest.fixture(scope="module")
def reviews() -> dict[str, list[Any]]:
    train = make_splits(60, 1).train
    return {"review": train.values, "stars": [5 if label == "positive" else 1 for label in train.labels]}


def classifier(out: Path, data: Any, *changes: str, **options: Any) -> harken.Classifier:
    overrides = [*SHORT, *COLUMNS, *changes]
    return harken.train("opinions-classify", out, data=data, overrides=overrides, progress=False, **options)


def test_a_frame_a_dataset_and_records_are_the_same_data(tmp_path: Path, reviews: dict[str, list[Any]]) -> None:
    rows = [dict(zip(reviews, row, strict=True)) for row in zip(*reviews.values(), strict=True)]
    tables = [pandas.DataFrame(reviews), Dataset(reviews), reviews, rows]
    models = [classifier(tmp_path / str(number), table) for number, table in enumerate(tables)]
    assert models[0].classes == ["1", "5"]
    chances = [model.predict_proba(["the soup was great"]) for model in models]
    for found in chances[1:]:
        np.testing.assert_array_equal(found, chances[0])
    assert {model.recipe.data.train for model in models} == {name_of(in_memory(reviews))}


def test_the_folder_keeps_no_cell_and_loads(tmp_path: Path, reviews: dict[str, list[Any]]) -> None:
    made = classifier(tmp_path / "model", reviews)
    loaded = harken.load(tmp_path / "model", "cpu")
    text = reviews["review"][0]
    np.testing.assert_array_equal(loaded.predict_proba([text]), made.predict_proba([text]))
    assert text not in (tmp_path / "model" / "recipe.toml").read_text(encoding="utf-8")
    assert loaded.recipe.data.corpus is None


def test_a_run_goes_on_with_the_same_table_alone(tmp_path: Path, reviews: dict[str, list[Any]]) -> None:
    whole = classifier(tmp_path / "whole", reviews, "train.max_steps=4", "train.checkpoint_every=1")
    classifier(tmp_path / "parts", reviews, "train.checkpoint_every=1")
    changes = ("train.max_steps=4", "train.checkpoint_every=1")
    frame = pandas.DataFrame(reviews)
    with pytest.raises(harken.UserError, match=r"data\.train is .* where the run was started with"):
        classifier(tmp_path / "parts", frame[:-1], *changes, resume=True)
    model = classifier(tmp_path / "parts", frame, *changes, resume=True)
    assert model.classes == whole.classes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": {"reveiw": ["a"], "stars": [1]}}, "the table has no column 'review'; did you mean 'reveiw'?"),
        ({"data": {"review": ["a", None], "stars": [1, 2]}}, "the table, row 2 has nothing in column 'review'"),
        ({"data": {"review": [], "stars": []}}, "has no rows"),
        ({"data": "reviews.csv"}, "data is the path reviews.csv"),
        ({"data": 3}, "a int is no table"),
        ({"recipe": "scenes-caption", "data": {"a": [1]}}, "the table has no column 'image'"),
    ],
)
def test_a_wrong_table_gets_one_sentence(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    recipe = change.get("recipe", "opinions-classify")
    overrides = [*SHORT, *COLUMNS] if recipe == "opinions-classify" else []
    with pytest.raises(harken.UserError) as problem:
        harken.train(recipe, tmp_path / "new", data=change["data"], overrides=overrides, progress=False)
    assert message in str(problem.value)


def test_who_looks_for_the_file_later_is_told(tmp_path: Path, reviews: dict[str, list[Any]]) -> None:
    from harken.tasks.registry import job_of

    model = classifier(tmp_path / "model", reviews)
    with pytest.raises(harken.UserError, match=r"the data was a table in memory .*: give files instead"):
        job_of("classify").evaluate(model, "valid", [], lambda count: None)


def test_signals_have_a_row_a_step(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "x": random.normal(size=200),
            "y": random.normal(size=200),
            "label": np.repeat(["up", "down"] * 10, 10),
            "number": np.repeat(np.arange(20), 10),
        }
    )
    overrides = [*SHORT, "data.recording=number"]
    model = harken.train("gestures-classify", tmp_path / "m", data=frame, overrides=overrides, progress=False)
    assert (model.classes, model.channels) == (["down", "up"], 2)


def test_sentences_with_tags(tmp_path: Path) -> None:
    table = Dataset({"words": [["a", "cat"], ["the", "dog", "barks"]] * 20, "pos": [[0, 1], [0, 1, 2]] * 20})
    overrides = [*SHORT, "data.word_column=words", "data.tag_column=pos"]
    model = harken.train("phrasebook-tag", tmp_path / "model", data=table, overrides=overrides, progress=False)
    assert model.tags == ["0", "1", "2"]
    assert len(model.tag("a dog").tags) == 2


def test_series_with_dates(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"day": pandas.date_range("2024-01-01", periods=150), "sold": np.arange(150.0)})
    model = harken.train("series-forecast", tmp_path / "model", data=frame, overrides=SHORT, progress=False)
    assert model.forecast().dates[0] == "2024-05-30"  # the day after the last row
    found = model.forecast(at="test")
    assert found.dates[0] == "2024-04-30"  # the last fifth, 30 days, is held out
    assert len(found.median) == 6


def test_pairs_of_a_frame_a_dataset_and_records(tmp_path: Path) -> None:
    from harken.data.text.config import DataConfig
    from harken.data.text.parallel import corpus_of_table

    polars = pytest.importorskip("polars")
    pairs = load_made("dates", seed=1, train=80, valid=1, test=1).train
    texts = {"source": [pair.source for pair in pairs], "target": [pair.target for pair in pairs]}
    nested = {"translation": [{"en": pair.source, "iso": pair.target} for pair in pairs]}
    dotted = DataConfig(source="x", source_column="translation.en", target_column="translation.iso", test_size=5)
    plain = DataConfig(source="x", test_size=5)
    corpora = [corpus_of_table(plain, in_memory(table)) for table in (pandas.DataFrame(texts), polars.DataFrame(texts))]
    corpora.append(corpus_of_table(dotted, in_memory(Dataset(nested))))
    assert [part.digests() for part in corpora[1:]] == [corpora[0].digests()] * 2
    assert len(corpora[0].tests["test"]) == 5 and len(corpora[0].train) + len(corpora[0].valid) == 75
    overrides = [*SHORT, "model.layers=1"]
    frame = polars.DataFrame(texts)
    model = harken.train("dates-seq2seq", tmp_path / "model", data=frame, overrides=overrides, progress=False)
    assert isinstance(model.translate("3 May 1987").text, str)
    assert model.recipe.data.source == name_of(in_memory(texts)) and model.recipe.data.corpus is None


def test_a_task_infers_its_columns_from_a_frame(tmp_path: Path, reviews: dict[str, list[Any]]) -> None:
    pairs = load_phrasebook(1, 60, 5, 5).train
    frame = pandas.DataFrame({"id": range(60), "en": [pair.source for pair in pairs], "fr": [p.target for p in pairs]})
    few = [change for change in SHORT if "embedding" not in change]
    small = [*few, "model.architecture=transformer", "model.heads=2", "model.feedforward=8", "tokenizer.kind=word"]
    model = harken.train("translate", tmp_path / "pairs", data=frame, overrides=small, progress=False)
    assert (model.recipe.data.source_column, model.recipe.data.target_column) == ("en", "fr")
    assert model.recipe.data.source.startswith("a table in memory") and isinstance(model.translate("a cat").text, str)
    model = harken.train(
        "classify", tmp_path / "texts", data=reviews, overrides=[*few, "model.architecture=recurrent"], progress=False
    )
    assert (model.recipe.data.text_column, model.recipe.data.label_column) == ("review", "stars")
    assert model.classes == ["1", "5"]


def test_pairs_need_no_names_where_two_columns_hold_texts() -> None:
    from harken.data.text.config import DataConfig
    from harken.data.text.parallel import corpus_of_table

    pairs = [(f"the cat {number}", f"le chat {number}") for number in range(40)]
    sources, targets = map(list, zip(*pairs, strict=True))
    tables: list[Any] = [
        {"id": list(range(40)), "en": sources, "fr": targets},
        {"target": targets, "source": sources, "note": sources},
        {"translation": [{"en": source, "fr": target} for source, target in pairs]},
    ]
    for table in tables:
        train = corpus_of_table(DataConfig(source="x"), in_memory(table)).train
        assert {(pair.source, pair.target) for pair in train} <= set(pairs) and len(train) > 30
    with pytest.raises(harken.UserError, match="the table has no column 'source'; it has 'a', 'b', 'c'"):
        corpus_of_table(DataConfig(source="x"), in_memory(dict.fromkeys("abc", sources)))


@pytest.mark.parametrize("recipe", ["phrasebook-language", "phrasebook-masked", "phrasebook-elmo", "stories-answer"])
def test_other_jobs_read_tables_too(recipe: str) -> None:
    from harken.data.splits import digest
    from harken.recipe import load_recipe
    from harken.tasks.registry import job_of

    polars = pytest.importorskip("polars")
    read = load_recipe(recipe)
    if recipe == "stories-answer":
        asked = load_stories(1, 60, 5, 5).train
        table = {"facts": [list(one.facts) for one in asked], "question": [one.question for one in asked]}
        table["answer"] = [one.answer for one in asked]
    else:
        table = {"text": [pair.source for pair in load_phrasebook(1, 60, 5, 5).train]}
    corpora = [
        job_of(read.task).load_table(read, in_memory(kind(table))) for kind in (pandas.DataFrame, polars.DataFrame)
    ]
    assert corpora[0].digests() == corpora[1].digests()
    assert len(corpora[0].train) > 40 and len(corpora[0].valid) > 0
    assert digest(corpora[0].train) == corpora[0].digests()["train"]
