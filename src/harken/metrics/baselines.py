"""Trivial baselines for labels and tags, fitted in seconds: a trained model that is worse has not learnt its task.

    texts      TF-IDF features and logistic regression (scikit-learn); without it, multinomial naive Bayes:
               argmax_c  log p(c) + sum over words w of log (n_cw + 1) / (n_c + V)
    signals    mean, deviation, smallest and largest value of each channel and logistic regression; without
               scikit-learn, the most frequent label
    numbers    ridge regression on the same features; without scikit-learn, the mean
    words      the most frequent tag of each word; of all words for an unknown one

The baselines of forecasts are in `harken.metrics.forecasting`, those of language models in
`harken.models.language.ngram`.

>>> baseline = NaiveBayes.fit(["good film", "good story", "bad film"], ["+", "+", "-"])
>>> baseline.predict(["a good one", "bad"])
['+', '-']
>>> tagger = MostFrequentTag.fit([["the", "light"], ["the", "cat"]], [["DET", "NOUN"], ["DET", "NOUN"]])
>>> tagger.predict([["the", "dog"]])
[['DET', 'DET']]
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol, Self

import numpy as np

from harken.data.text.scripts import UNSPACED, script_of, split_words

MAX_EXAMPLES = 20_000  # more are sampled, so that a fit takes seconds
MAX_CHARACTERS = 8_000_000  # of all texts together
MAX_SCORES = 200_000  # examples times classes, which logistic regression computes in every step
MAX_FEATURES = 50_000
SHORT_TEXT = 2.0  # words: of shorter texts, such as names, and of scripts without spaces the characters are counted
WORD = re.compile(r"\w+")
RIDGE = "ridge regression"


class LabelBaseline(Protocol):
    """A fitted baseline that gives one label for each example."""

    name: str

    def predict(self, values: Sequence[Any]) -> list[str]:
        """The label of every example."""


def fit_label_baseline(values: Sequence[Any], labels: Sequence[str], seed: int = 1) -> tuple[LabelBaseline, int]:
    """The baseline for texts or for arrays (T, C), and the number of examples it was fitted on.

    Args:
        values: texts or arrays; a random sample of them where they are many.
        labels: one for each.
    """
    rows = sample_rows(values, len(set(labels)), seed)
    values, labels = choose_rows(values, rows), choose_rows(labels, rows)
    if len(set(labels)) < 2:
        return MostFrequentLabel(labels), len(rows)
    if find_spec("sklearn") is not None:
        return _LinearLabels(values, labels, "logistic regression"), len(rows)
    return (NaiveBayes.fit(values, labels) if isinstance(values[0], str) else MostFrequentLabel(labels)), len(rows)


def fit_number_baseline(values: Sequence[Any], numbers: np.ndarray, seed: int = 1) -> tuple[NumberBaseline, int]:
    """The baseline for numbers of texts or of arrays (T, C), and the number of examples it was fitted on."""
    rows = sample_rows(values, 1, seed)
    return NumberBaseline(choose_rows(values, rows), numbers[rows]), len(rows)


def sample_rows(
    values: Sequence[Any],
    outputs: int,
    seed: int,
    most_characters: int | None = None,
    most_examples: int | None = None,
) -> list[int]:
    """The rows to fit on: all of them, or as many as are fitted in seconds with so many outputs."""
    most = min(most_examples or MAX_EXAMPLES, max(1000, MAX_SCORES // outputs))
    if isinstance(next(iter(values)), str):
        characters = sum(len(text) for text in values)
        most = min(most, int((most_characters or MAX_CHARACTERS) / max(1.0, characters / len(values))))
    if len(values) <= most:
        return list(range(len(values)))
    return sorted(np.random.default_rng(seed).choice(len(values), most, replace=False).tolist())


def choose_rows(values: Sequence[Any], rows: Sequence[int]) -> list[Any]:
    """Some of the values; those that are not in memory (`harken.data.prepared`) are read in one pass."""
    if hasattr(values, "choose"):
        chosen: list[Any] = values.choose(np.asarray(rows))
        return chosen
    return [values[row] for row in rows]


class MostFrequentLabel:
    """The same label for every example."""

    name = "most frequent label"

    def __init__(self, labels: Sequence[str]) -> None:
        self.label = Counter(labels).most_common(1)[0][0]

    def predict(self, values: Sequence[Any]) -> list[str]:
        """The label of every example."""
        return [self.label] * len(values)


@dataclass
class NaiveBayes:
    """Multinomial naive Bayes over lower-cased words, with add-one smoothing."""

    name = "naive Bayes"
    classes: list[str]
    words: dict[str, int]
    prior: np.ndarray  # (K,) log p(c)
    likelihood: np.ndarray  # (K, V) log p(w | c)

    @classmethod
    def fit(cls, texts: Sequence[str], labels: Sequence[str]) -> Self:
        """Count the words of every class."""
        classes = sorted(set(labels))
        row_of = {label: row for row, label in enumerate(classes)}
        split = [_words(text) for text in texts]
        words = {word: number for number, word in enumerate(dict.fromkeys(word for row in split for word in row))}
        counts = np.ones((len(classes), max(1, len(words))))
        for row, label in zip(split, labels, strict=True):
            np.add.at(counts[row_of[label]], [words[word] for word in row], 1)
        frequency = np.array([list(labels).count(label) for label in classes])
        likelihood = np.log(counts / counts.sum(1, keepdims=True))
        return cls(classes, words, np.log(frequency / len(labels)), likelihood)

    def predict(self, values: Sequence[str]) -> list[str]:
        """The most probable class of every text."""
        labels = []
        for text in values:
            known = [self.words[word] for word in _words(text) if word in self.words]
            labels.append(self.classes[int((self.prior + self.likelihood[:, known].sum(1)).argmax())])
        return labels


def _words(text: str) -> list[str]:
    """Lower-cased words; of scripts without spaces every letter.

    >>> _words("Good film!"), _words("良い映画")
    (['good', 'film'], ['良', 'い', '映', '画'])
    """
    return [word for part in split_words(text.lower()) for word in WORD.findall(part)]


class Linear:
    """A linear model of scikit-learn on TF-IDF features of texts, or on statistics of the channels of signals."""

    def __init__(self, values: Sequence[Any], targets: Sequence[Any] | np.ndarray, model: str) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression, Ridge
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        self.texts = isinstance(values[0], str)
        features, step = "channel statistics", StandardScaler()
        if self.texts:
            short = sum(len(text.split()) for text in values) <= SHORT_TEXT * len(values)
            short = short or script_of(values) in UNSPACED or not any(map(WORD.search, values))
            units: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (1, 3)} if short else {}
            step = TfidfVectorizer(
                sublinear_tf=True, max_features=MAX_FEATURES, **(units or {"token_pattern": WORD.pattern})
            )
            features = f"TF-IDF{' of characters' * short}"
        self.name = f"{features} + {model}"
        logistic = {"max_iter": 100, "C": 4.0} if self.texts else {"max_iter": 200}
        self.model = make_pipeline(step, Ridge() if model == RIDGE else LogisticRegression(**logistic))
        with warnings.catch_warnings():  # a baseline that stopped early is a baseline too
            warnings.simplefilter("ignore")
            self.model.fit(self._inputs(values), list(targets))

    def _inputs(self, values: Sequence[Any]) -> Any:
        """The texts, or (N, 4 C) of signals (T, C)."""
        if self.texts:
            return list(values)
        rows = []
        for signal in values:
            frames = np.asarray(signal, dtype=np.float64)
            frames = frames[:, None] if frames.ndim == 1 else frames
            rows.append(np.concatenate([frames.mean(0), frames.std(0), frames.min(0), frames.max(0)]))
        return np.stack(rows)

    def predict(self, values: Sequence[Any]) -> np.ndarray:
        """(N,) labels or numbers."""
        return np.asarray(self.model.predict(self._inputs(values)))


class _LinearLabels(Linear):
    def predict(self, values: Sequence[Any]) -> list[str]:  # type: ignore[override]
        """The label of every example."""
        return [str(label) for label in super().predict(values)]


class NumberBaseline:
    """Ridge regression on the features of texts or signals; the mean where scikit-learn is not installed."""

    def __init__(self, values: Sequence[Any], numbers: np.ndarray) -> None:
        self.mean = float(np.mean(numbers))
        self.model = None if find_spec("sklearn") is None else Linear(values, numbers, RIDGE)
        self.name = "mean" if self.model is None else self.model.name

    def predict(self, values: Sequence[Any]) -> np.ndarray:
        """(N,) numbers."""
        if self.model is None or not len(values):
            return np.full(len(values), self.mean)
        return self.model.predict(values).astype(np.float64)


@dataclass
class MostFrequentTag:
    """The most frequent tag of each word; for an unknown word the most frequent of all."""

    name = "most frequent tag"
    tags: dict[str, str]
    default: str

    @classmethod
    def fit(cls, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> Self:
        """Count the tags of every word; of equally frequent tags the first is taken."""
        pairs: Counter[tuple[str, str]] = Counter()
        for words, row in zip(sentences, tags, strict=True):
            pairs.update(zip(words, row, strict=True))
        return cls.from_counts(pairs)

    @classmethod
    def from_counts(cls, pairs: Mapping[tuple[str, str], int]) -> Self:
        """From how often each word occurs with each tag, in the order of first occurrence."""
        best: dict[str, tuple[str, int]] = {}
        total: Counter[str] = Counter()
        for (word, tag), count in pairs.items():
            total[tag] += count
            if word not in best or count > best[word][1]:
                best[word] = tag, count
        return cls({word: tag for word, (tag, _) in best.items()}, total.most_common(1)[0][0])

    def predict(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """A tag for every word."""
        return [[self.tags.get(word, self.default) for word in words] for words in sentences]
