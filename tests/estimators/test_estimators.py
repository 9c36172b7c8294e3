"""Estimators: what they learn, what they take, that they are repeatable, and that they pickle as folders."""

import io
import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

import harken

sklearn = pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from harken.data.text.pairs import Pair  # noqa: E402
from harken.estimators.forecaster import windows  # noqa: E402
from harken.metrics.calibration import softmax  # noqa: E402
from harken.tasks.classify.job import ClassifyJob  # noqa: E402
from harken.tasks.classify.recipe import ClassifyRecipe  # noqa: E402

RANDOM = np.random.default_rng(0)
SIGNALS = RANDOM.normal(size=(48, 8))
SIGNALS[::2] += np.sin(np.arange(8))
LABELS = np.array(["wave", "noise"] * 24)
TEXTS = ["good film", "bad film", "a good play", "a bad play"] * 8
QUICK: dict[str, Any] = {"width": 8, "max_iter": 30, "random_state": 0}


class Recording(pickle.Unpickler):
    """Notes whose objects are made."""

    made: ClassVar[set[str]] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.made.add(module)
        return super().find_class(module, name)


def test_texts_are_classified() -> None:
    model = harken.SequenceClassifier(cell="lstm", width=16, max_iter=40, random_state=0).fit(TEXTS, [1, 0] * 16)
    assert model.predict(["good", "bad"]).tolist() == [1, 0]
    chances = model.predict_proba(["good film", "bad film"])
    assert model.classes_.tolist() == [0, 1]
    assert np.allclose(chances.sum(1), 1) and chances[0, 1] > 0.8 and chances[1, 0] > 0.8
    assert model.score(TEXTS, [1, 0] * 16) == 1.0


def test_sequences_of_any_length_are_regressed() -> None:
    arrays = [RANDOM.normal(size=(int(length), 2)) for length in RANDOM.integers(3, 9, size=60)]
    sums = np.array([array[:, 0].mean() for array in arrays])
    model = harken.SequenceRegressor(pooling="mean", width=16, max_iter=80, random_state=1).fit(arrays, sums)
    assert model.score(arrays, sums) > 0.8
    assert model.n_features_in_ == 2
    alone = np.array([model.predict([array])[0] for array in arrays[:5]])
    assert np.allclose(alone, model.predict(arrays)[:5], rtol=1e-12)  # neighbours and padding change nothing
    with pytest.raises(ValueError, match="X has 3 features, but SequenceRegressor is expecting 2"):
        model.predict([np.zeros((4, 3))])


def test_a_text_may_have_a_number() -> None:
    model = harken.SequenceRegressor(**QUICK).fit(TEXTS, [5.0, 1.0, 4.0, 2.0] * 8)
    good, bad = model.predict(["good film", "bad film"])
    assert good > 3.5 and bad < 2.5


def test_words_are_tagged() -> None:
    sentences = [["the", "cat", "sleeps"], ["a", "dog", "eats"], ["the", "dog", "sleeps"]] * 4
    tags = [["DET", "NOUN", "VERB"]] * 12
    model = harken.SequenceTagger(width=16, max_iter=30, random_state=0).fit(sentences, tags)
    assert model.predict([["a", "cat"]]) == [["DET", "NOUN"]]
    assert model.score(sentences, tags) == 1.0
    assert model.classes_.tolist() == ["DET", "NOUN", "VERB"]
    frames = [np.array([[0.0], [5.0]]), np.array([[5.0], [0.0], [0.0]])] * 6
    model = clone(model).fit(frames, [["low", "high"], ["high", "low", "low"]] * 6)
    assert model.predict(frames[:1]) == [["low", "high"]]
    with pytest.raises(ValueError, match=r"X\[0\] has 2 steps, but y\[0\] has 1 tags"):
        model.fit(frames[:1], [["low"]])


def test_a_series_is_forecast() -> None:
    time = np.arange(72)
    series = 50 + time + 10 * np.sin(2 * np.pi * time / 12)
    model = harken.SequenceForecaster(horizon=4, season=12, window=24, width=8, max_iter=60, random_state=0)
    model.fit(series[:60])
    found = model.predict()
    assert found.shape == (4,)
    assert np.abs(found - series[60:64]).mean() < 4
    assert np.allclose(model.predict(series[36:60]), found)
    assert model.predict(np.stack([series[30:54], series[36:60]])).shape == (2, 4)
    assert model.score(series) > -0.5
    assert clone(model).fit([series, 2 * series]).predict().shape == (2, 4)
    column = clone(model).fit(series[:60, None])  # a column of a table is one series
    assert np.array_equal(column.predict(), found) and column.score(series[:, None]) == model.score(series)
    assert np.allclose(column.predict(series[36:60, None]), found)


def test_a_forecaster_goes_through_a_search_by_time() -> None:
    series = 20 + np.sin(np.arange(60) * 2 * np.pi / 6)
    rows, wanted = windows(series, 8, 2)
    search = GridSearchCV(
        harken.SequenceForecaster(width=4, max_iter=5, random_state=0),
        {"base": ["last", "none"]},
        cv=TimeSeriesSplit(2),
    )
    search.fit(rows, wanted)
    assert search.best_params_["base"] in ("last", "none")
    assert search.predict(rows[:3]).shape == (3, 2)


def test_in_a_pipeline_and_a_search() -> None:
    pipeline = make_pipeline(StandardScaler(), harken.SequenceClassifier(**{**QUICK, "max_iter": 10}))
    search = GridSearchCV(pipeline, {"sequenceclassifier__cell": ["gru", "rnn"]}, cv=2)
    search.fit(SIGNALS, LABELS)
    assert set(search.predict(SIGNALS)) <= {"wave", "noise"}
    assert search.best_estimator_[-1].get_params()["width"] == 8


def test_a_pickle_is_a_folder(tmp_path: Path) -> None:
    model = harken.SequenceClassifier(**QUICK).fit(SIGNALS, LABELS)
    reader = Recording(io.BytesIO(pickle.dumps(model)))
    again = reader.load()
    assert {name.split(".")[0] for name in reader.made} <= {"harken", "numpy", "builtins", "_codecs"}
    assert np.array_equal(again.predict_proba(SIGNALS), model.predict_proba(SIGNALS))
    folder = model.save(tmp_path / "model")
    assert {path.name for path in folder.iterdir()} >= {"model.safetensors", "recipe.toml", "labels.json", "card.md"}
    loaded = harken.load(folder)
    frames = [row[:, None] for row in SIGNALS]
    assert [model.classes_[int(place)] for place in loaded.predict(frames)] == model.predict(SIGNALS).tolist()


def test_the_same_state_gives_the_same_model_and_leaves_torch_alone() -> None:
    import torch

    torch.manual_seed(5)
    wanted, threads = torch.rand(1), torch.get_num_threads()
    torch.manual_seed(5)
    first = harken.SequenceRegressor(**QUICK).fit(SIGNALS, SIGNALS[:, 0])
    assert torch.equal(torch.rand(1), wanted) and torch.get_num_threads() == threads
    second = harken.SequenceRegressor(**QUICK).fit(SIGNALS, SIGNALS[:, 0])
    other = harken.SequenceRegressor(**{**QUICK, "random_state": 1}).fit(SIGNALS, SIGNALS[:, 0])
    assert np.array_equal(first.predict(SIGNALS), second.predict(SIGNALS))
    assert not np.array_equal(first.predict(SIGNALS), other.predict(SIGNALS))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], "Expected 2D array"),
        (["a", np.zeros((2, 1))], "texts here and arrays there"),
        ([np.zeros((2, 1)), np.zeros((2, 3))], "1 to 3 channels"),
        ([np.full((2, 1), np.nan), np.zeros((3, 1))], "NaN or infinity"),
    ],
)
def test_bad_input_is_a_value_error(data: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        harken.SequenceRegressor(**QUICK).fit(data, [1.0] * len(data))


@pytest.mark.parametrize("cell", ["transformer", "convolutional"])
def test_other_readers(cell: str) -> None:
    model = harken.SequenceRegressor(cell=cell, pooling="mean", **QUICK).fit(SIGNALS, SIGNALS[:, 0])
    assert np.isfinite(model.predict(SIGNALS)).all()


@pytest.mark.parametrize("kind", ["Classifier", "Regressor", "Tagger", "Forecaster"])
def test_what_is_not_fitted_says_so(kind: str) -> None:
    from sklearn.exceptions import NotFittedError

    estimator = getattr(harken, f"Sequence{kind}")()
    for call in (estimator.predict, estimator.save) + ((estimator.score,) if kind == "Forecaster" else ()):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            call([["a"]] if kind == "Tagger" else SIGNALS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"cell": "lsmt"},
            r"'cell' parameter of SequenceClassifier must be one of 'rnn', 'lstm'.* Got 'lsmt' instead",
        ),
        (
            {"max_iter": 0},
            r"'max_iter' parameter of SequenceClassifier must be an int of at least 1\. Got 0 instead",
        ),
        ({"width": "wide"}, "The 'width' parameter"),
        ({"dropout": 1.5}, r"The 'dropout' parameter of SequenceClassifier must be less than 1\. Got 1.5 instead"),
        ({"pooling": "median"}, r"The 'pooling' parameter .* must be 'last', .* Got 'median' instead"),
        ({"learning_rate": -1}, r"The 'learning_rate' parameter .* must be greater than 0\. Got -1 instead"),
        ({"cell": "not_imported:Cell"}, "harken imports no module"),
    ],
)
def test_wrong_parameters_are_named_as_scikit_learn_does(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        harken.SequenceClassifier(**options).fit(SIGNALS, LABELS)
    assert "validation error" not in str(raised.value)


def test_a_frame_with_one_column_of_texts() -> None:
    class Frame:  # as pandas and polars have them
        def __init__(self, *columns: list[str]) -> None:
            self.columns = [f"text {number}" for number in range(len(columns))]
            self.values, self.shape = np.array(columns, dtype=object).T, (len(columns[0]), len(columns))

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return self.values

        def __len__(self) -> int:
            return len(self.values)

    quick: dict[str, Any] = {**QUICK, "max_iter": 5}
    model = harken.SequenceClassifier(**quick).fit(TEXTS, LABELS[:32])
    for column in (Frame(TEXTS), np.array(TEXTS)[:, None]):
        other = harken.SequenceClassifier(**quick).fit(column, LABELS[:32])
        assert np.array_equal(other.predict_proba(column), model.predict_proba(TEXTS))
    with pytest.raises(ValueError, match=r"Expected one column of texts, got 2 columns \(text 0, text 1\)"):
        model.predict(Frame(TEXTS, TEXTS))


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (["the cat"], [["DET", "NOUN"]], r"X\[0\] is 'the cat'; expected a list of words"),
        ("the cat", [["DET", "NOUN"]], "Expected a list of sequences, got str"),
        ([["a"]], ["DET"], r"y\[0\] is the string 'DET'; expected a list of tags"),
        ([["a"]], None, "requires y to be passed"),
        ([], [], r"Found array with 0 sample\(s\)"),
        ([np.array([[np.nan]])], [["low"]], "contains NaN"),
    ],
)
def test_a_tagger_says_what_is_wrong(X: Any, y: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        harken.SequenceTagger(**QUICK).fit(X, y)


def test_columns_of_polars_pyarrow_and_numpy_strings_are_texts() -> None:
    texts, labels = ["good film", "bad film"] * 4, ["+", "-"] * 4
    columns: list[Any] = [np.array(texts, dtype=np.dtypes.StringDType())]
    if find_spec("polars"):
        import polars

        columns.append(polars.Series(texts))
    if find_spec("pyarrow"):
        import pyarrow

        columns += [pyarrow.array(texts), pyarrow.table({"text": texts})]
    columns.append({"text": texts})
    expected = harken.SequenceClassifier(max_iter=2, random_state=1).fit(texts, labels).predict_proba(texts)
    for column in columns:
        model = harken.SequenceClassifier(max_iter=2, random_state=1).fit(column, labels)
        assert np.array_equal(model.predict_proba(column), expected)


def test_a_pickle_holds_no_checkpoints() -> None:
    model = harken.SequenceClassifier(max_iter=12).fit(["good", "bad"] * 4, ["+", "-"] * 4)
    assert "model.safetensors" in model.files_
    assert not [name for name in model.files_ if name.startswith("checkpoint")]


def test_a_tagger_refuses_a_tag_in_the_place_of_a_list() -> None:
    with pytest.raises(ValueError, match=r"y\[0\] is 3; expected a list of tags"):
        harken.SequenceTagger().fit([["the", "cat"]], [3])
    with pytest.raises(ValueError, match="y is 3; expected a list of tags for each sequence"):
        harken.SequenceTagger().fit([["the", "cat"]], 3)


def test_a_validation_fraction_calibrates_the_probabilities() -> None:
    numbers = np.random.default_rng(1)
    texts = [" ".join(numbers.choice(list("abcdefgh"), 5)) for _ in range(300)]
    labels = [("a" in text) != (numbers.random() < 0.25) for text in texts]
    options = {"width": 16, "max_iter": 150, "random_state": 1}
    plain = harken.SequenceClassifier(**options).fit(texts[:200], labels[:200])
    fitted = harken.SequenceClassifier(**options, validation_fraction=0.3).fit(texts[:200], labels[:200])
    assert plain.model.model.scales is None and 0 < float(fitted.model.model.scales[0]) < 1
    expected = np.array(labels[200:], dtype=int)
    before, after = softmax(fitted.model.uncalibrated(texts[200:])), fitted.predict_proba(texts[200:])
    losses = [-np.log(probabilities[np.arange(100), expected]).mean() for probabilities in (before, after)]
    assert losses[1] < losses[0] and (before.argmax(1) == after.argmax(1)).all()
    with pytest.raises(ValueError, match="The 'validation_fraction' parameter of SequenceClassifier must be a number"):
        harken.SequenceClassifier(validation_fraction=2).fit(texts, labels)


def test_an_estimator_is_derived_from_the_columns_of_a_job() -> None:
    sources = [f"the {color} cat number {number}" for number in range(12) for color in ("black", "old")]
    targets = [source.replace("cat", "chat") for source in sources]
    shape = {"architecture": "transformer", "width": 16, "heads": 2, "layers": 1, "feedforward": 16}
    kind = harken.estimator_of("translate")
    model = clone(kind(model=shape, tokenizer={"kind": "word"}, max_iter=3, random_state=0)).fit(sources, targets)
    translations = model.predict(np.array(sources[:3]))
    assert translations.shape == (3,) and translations.tolist() == [
        model.predictor.translate(text).text for text in sources[:3]
    ]
    pairs = [Pair(*row) for row in zip(sources, targets, strict=True)]
    assert model.score(sources, targets) == model.predictor.evaluate(pairs).bleu.value
    assert model.set_params(model__width=8).get_params()["model__width"] == 8 and shape["width"] == 16
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.fit(sources)
    with pytest.raises(harken.UserError, match="answer has no estimator: its recipe declares no input_column"):
        harken.estimator_of("answer")


def test_parameters_and_texts_of_a_wrong_type_are_refused() -> None:
    kind, sources = harken.estimator_of("language"), [f"the black cat number {number}" for number in range(60)]
    with pytest.raises(
        ValueError, match=r"The 'model' parameter of LanguageEstimator must be a dict of keys of \[model"
    ):
        kind(model="recurrent").fit(sources)
    with pytest.raises(ValueError, match="X is a single text; give a list of texts"):
        kind(model={"architecture": "recurrent"}).fit("the black cat")


def test_the_updates_of_a_table_of_training_are_counted() -> None:
    tables = {"model": {"architecture": "recurrent", "width": 8, "embedding": 8}, "tokenizer": {"kind": "character"}}
    texts = [f"the black cat number {number}" for number in range(60)]
    model = harken.estimator_of("language")(**tables, train={"max_steps": 3}, max_iter=2, random_state=0).fit(texts)
    assert model.n_iter_ == 3


def test_a_lower_perplexity_is_a_higher_score() -> None:
    kind = harken.estimator_of("language")
    tables = {"model": {"architecture": "recurrent", "width": 8, "embedding": 8}, "tokenizer": {"kind": "character"}}
    texts = [f"the black cat number {number}" for number in range(60)]
    options = {"data": {"chunk": 16}, "train": {"batch_tokens": 64, "learning_rate": 0.01}, "random_state": 0}
    scores = [kind(**tables, **options, max_iter=count).fit(texts).score(texts) for count in (1, 60)]
    assert scores[0] < scores[1] < 0


def test_a_job_like_one_that_ships_has_its_estimator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harken.registry.TASKS, "_registered", {})

    class MoodRecipe(ClassifyRecipe):
        task: Literal["mood"] = "mood"  # type: ignore[assignment]

    @harken.register_task("mood")
    class MoodJob(ClassifyJob):
        recipe = MoodRecipe

    assert harken.estimator_of("classify") is harken.SequenceClassifier
    kind = harken.estimator_of("mood")
    assert issubclass(kind, harken.SequenceClassifier)
    model = pickle.loads(pickle.dumps(kind(width=16, max_iter=40, random_state=0).fit(TEXTS, [1, 0] * 16)))
    assert model.predict(["good", "bad"]).tolist() == [1, 0] and model.model.recipe.task == "mood"
