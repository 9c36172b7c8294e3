"""Evaluate word vectors: rank correlation with human similarity scores, and accuracy on analogies.

similarity sets    Spearman's correlation of cosines and human scores, over pairs of known words
analogies          a : b = c : ?  correct if the word closest to b - a + c, excluding a, b and c, is the answer

Unknown words are skipped and the coverage is reported. References: Finkelstein et al.,
2002 (WordSim-353); Mikolov et al., 2013 (questions-words).

>>> round(spearman([1, 2, 3, 4], [10, 20, 40, 30]), 3)
0.8
>>> round(spearman([1, 1, 2], [5, 6, 7]), 3)  # ties share their mean rank
0.866
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harken.data.io.files import read_lines
from harken.embeddings.vectors import WordVectors
from harken.errors import UserError

BATCH = 256  # questions per product with the whole matrix


@dataclass(frozen=True)
class Result:
    """One test: a set of pairs, or a group of questions."""

    name: str
    measure: str  # "Spearman" or "accuracy"
    score: float | None  # None where too few words are known
    covered: int
    total: int


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Spearman's rank correlation; NaN where one side is constant."""
    left, right = _ranks(np.asarray(first, dtype=float)), _ranks(np.asarray(second, dtype=float))
    left, right = left - left.mean(), right - right.mean()
    scale = np.sqrt((left**2).sum() * (right**2).sum())
    return float((left * right).sum() / scale) if scale else float("nan")


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, index, times = np.unique(values, return_inverse=True, return_counts=True)
    last = times.cumsum()
    return ((last - times + 1 + last) / 2)[index]


def evaluate_file(vectors: WordVectors, path: str | Path) -> list[Result]:
    """Evaluate on similarity pairs or on analogies, which have one result per group and one for all.

    Raises:
        UserError: a line is neither.
    """
    lines = [(number, line) for number, line in enumerate(read_lines(path), 1) if line.strip()]
    if not lines:
        raise UserError(f"{path} is empty: give similarity pairs or analogy questions.")
    if lines[0][1].startswith(":") or len(lines[0][1].split()) == 4:
        return _analogies(vectors, Path(path), lines)
    return [_similarity(vectors, Path(path), lines)]


def _similarity(vectors: WordVectors, path: Path, lines: list[tuple[int, str]]) -> Result:
    human, ours = [], []
    total = 0
    for number, line in lines:
        if line.startswith("#"):
            continue
        parts = line.replace(",", " ").split()
        try:
            first, second, score = parts[0], parts[1], float(parts[2])
        except (IndexError, ValueError):
            if number == lines[0][0]:
                continue  # a header line
            raise UserError(f"{path}, line {number} is not two words and a score: fix or drop that line.") from None
        total += 1
        known = _known(vectors, first), _known(vectors, second)
        if known[0] is not None and known[1] is not None:
            human.append(score)
            ours.append(vectors.similarity(known[0], known[1]))
    correlation = spearman(ours, human) if len(human) > 1 else float("nan")
    return Result(_stem(path), "Spearman", None if np.isnan(correlation) else correlation, len(human), total)


def _known(vectors: WordVectors, word: str) -> str | None:
    """The word as it is, or in lower case, where there is a vector for it."""
    return next((form for form in (word, word.lower()) if vectors.knows(form)), None)


def _analogies(vectors: WordVectors, path: Path, lines: list[tuple[int, str]]) -> list[Result]:
    results = [
        Result(name, "accuracy", right / covered if covered else None, covered, total)
        for name, right, covered, total in _groups(vectors, path, lines)
    ]
    covered = sum(result.covered for result in results)
    right = sum((result.score or 0) * result.covered for result in results)
    total = sum(result.total for result in results)
    return [*results, Result(f"{_stem(path)}, all", "accuracy", right / covered if covered else None, covered, total)]


def _groups(vectors: WordVectors, path: Path, lines: list[tuple[int, str]]) -> Iterator[tuple[str, int, int, int]]:
    groups: dict[str, list[Sequence[str]]] = {}
    name = _stem(path)
    for number, line in lines:
        if line.startswith(":"):
            name = line[1:].strip()
            continue
        words = line.split()
        if len(words) != 4:
            raise UserError(f"{path}, line {number} is not four words: fix or drop that line.")
        groups.setdefault(name, []).append(words)
    for name, questions in groups.items():
        forms = [[next((f for f in (word, word.lower()) if f in vectors), None) for word in four] for four in questions]
        known = [[vectors.vocabulary.id_of(form) or 0 for form in four if form] for four in forms if None not in four]
        yield name, _right(vectors, np.array(known, dtype=np.int64).reshape(-1, 4)), len(known), len(questions)


def _right(vectors: WordVectors, questions: NDArray[np.int64]) -> int:
    right = 0
    words = vectors.words
    for start in range(0, len(questions), BATCH):
        batch = questions[start : start + BATCH]
        queries = np.stack([vectors.analogy_query(*(words[number] for number in four[:3])) for four in batch])
        scores = vectors.scores(queries)
        np.put_along_axis(scores, batch[:, :3], -np.inf, axis=1)
        right += int((scores.argmax(1) == batch[:, 3]).sum())
    return right


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".xz").removesuffix(".txt")
