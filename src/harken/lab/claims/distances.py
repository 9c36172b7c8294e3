"""Embeddings bring similar words close; one-hot vectors are all equally far.

one-hot    |e_a - e_b| = sqrt(2) for every two words           learned    cos(v_a, v_b), from skip-gram

Words of one kind (animals, drinks, ...) are known; a pair inside a kind should be closer than a pair across. The
number is the chance that it is, over all such pairs of pairs (the area under the curve): one half where distances know
nothing. The text is the English of the phrasebook, whose grammar knows the kinds, or with `--data FILE ...` your own,
where the kinds are lists of common words. Vectors of three seeds, and of the same network before it has learnt.

>>> area(np.array([0.9, 0.8]), np.array([0.1, 0.85]))
0.75
"""

from __future__ import annotations

import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from harken.inspection.figure import Bars, Figure, Group, Mark
from harken.lab.experiment import Cell, Experiment, Findings, Part, Progress, Settings, Sizes, grade

LEARNT = 0.8  # the chance that learned vectors must reach, in every seed
APART = 0.05  # untrained vectors must lie within this of one half, on average over the kinds
LEAST = 3  # words of a kind that the text must have
SIZES: Sizes = {"sentences": (20_000, 500), "seeds": (3, 1), "epochs": (8, 1), "width": (50, 50)}

COMMON = {  # kinds of words that any English text may have
    "days": "monday tuesday wednesday thursday friday saturday sunday",
    "months": "january february march april june july august september october november december",
    "numbers": "two three four five six seven eight nine ten",
    "colours": "red blue green yellow black white brown orange",
    "family": "father mother brother sister son daughter wife husband uncle",
    "countries": "france germany england italy spain russia china japan india",
    "animals": "dog cat horse bird fish bear lion wolf cow sheep",
    "cities": "london paris berlin rome moscow tokyo chicago boston",
}


def area(inside: np.ndarray, across: np.ndarray) -> float:
    """The chance that a pair inside a kind is closer than one across; ties count half."""
    below = np.searchsorted(np.sort(across), inside, side="left")
    up_to = np.searchsorted(np.sort(across), inside, side="right")
    return float((below + up_to).mean() / (2 * len(across)))


def phrasebook_kinds() -> dict[str, list[str]]:
    """Nouns by the groups of the phrasebook's lexicon."""
    from harken.data.synthetic.vocabulary import load_vocabulary

    groups = load_vocabulary("phrasebook")["nouns"]
    return {
        heading.split()[0]: [row.split()[0] for row in rows] for heading, rows in groups.items() if len(rows) >= LEAST
    }


def judge(areas: dict[str, list[float]]) -> tuple[bool | None, str]:
    """Vectors -> the area with each seed."""
    learnt, untrained, flat = (areas[kind] for kind in ("learned", "untrained", "one-hot"))
    verdict = (
        f"two words of a kind are closer than two of different kinds in {min(learnt):.1%} to {max(learnt):.1%} "
        f"of cases with learned vectors, {np.mean(untrained):.1%} before learning, {np.mean(flat):.1%} one-hot"
    )
    equally_far = all(value == 0.5 for value in flat)
    blind = abs(float(np.mean(untrained)) - 0.5) <= APART
    return grade(
        min(learnt) >= LEARNT and equally_far and blind, float(np.mean(learnt)) > 0.5 + APART and equally_far
    ), verdict


def pairs_of(kinds: dict[str, list[str]], vectors: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Cosines of all pairs inside a kind, and of all pairs across."""
    words = [(kind, word) for kind, members in kinds.items() for word in members]
    matrix = np.stack([vectors[word] / max(float(np.linalg.norm(vectors[word])), 1e-12) for _, word in words])
    cosines = matrix @ matrix.T
    inside = [cosines[i, j] for i, j in combinations(range(len(words)), 2) if words[i][0] == words[j][0]]
    across = [cosines[i, j] for i, j in combinations(range(len(words)), 2) if words[i][0] != words[j][0]]
    return np.array(inside), np.array(across)


def run(settings: Settings, progress: Progress) -> Findings:
    """Skip-gram with three seeds, the vectors it began with, and one-hot vectors."""
    from harken.embeddings.corpus import read_corpus
    from harken.errors import UserError

    sentences, seeds, epochs, width = settings.resolve(SIZES)
    with tempfile.TemporaryDirectory() as folder:
        files = list(settings.files)
        if not files:
            files = [Path(folder) / "phrasebook.txt"]
            files[0].write_text("\n".join(_phrasebook(sentences)), encoding="utf-8")
        corpus = read_corpus(files, min_count=5 if settings.files else 1)
        known = {word: number for number, word in enumerate(corpus.vocabulary.words)}
        kinds = phrasebook_kinds() if not settings.files else {k: text.split() for k, text in COMMON.items()}
        kinds = {kind: sorted({word for word in words if word in known}) for kind, words in kinds.items()}
        kinds = {kind: words for kind, words in kinds.items() if len(words) >= LEAST}
        if len(kinds) < 2:
            raise UserError(
                f"{files[0].name} has fewer than two kinds of words to compare (such as {', '.join(COMMON)}): "
                "give a longer English text as --data"
            )
        areas, means = _measure(
            corpus, known, kinds, range(settings.seed, settings.seed + seeds), epochs, width, progress
        )
        words_read = corpus.words_read
    holds, verdict = judge(areas)
    rows: list[list[Cell]] = [
        [name, f"{np.mean(areas[name]):.1%}", f"{min(areas[name]):.1%}", *(f"{value:.2f}" for value in means[name])]
        for name in areas
    ]
    columns = ["vectors", "closer inside a kind", "least seed", "mean cosine inside", "mean cosine across"]
    groups = [Group(part, [means[name][at] for name in areas]) for at, part in enumerate(("inside a kind", "across"))]
    panel = Bars("", "vectors", "mean cosine", list(areas), groups, marks=[Mark(0.0, "")])
    listed = ", ".join(f"{kind} {len(words)}" for kind, words in kinds.items())
    where = ", ".join(path.name for path in settings.files) or "the English of the phrasebook"
    figure = Figure("How close words of one kind are", [panel], f"{where}, {words_read:,} words; kinds: {listed}.")
    measured: dict[str, Any] = {"areas": areas, "means": means, "kinds": kinds, "words": words_read}
    return Findings(columns, rows, holds, verdict, figure, measured)


def _phrasebook(size: int) -> list[str]:
    from harken.data.synthetic.phrasebook import load_phrasebook

    return [pair.source.lower() for pair in load_phrasebook(direction="en-fr", seed=1, train=size).train]


def _measure(
    corpus: Any,
    known: dict[str, int],
    kinds: dict[str, list[str]],
    seeds: range,
    epochs: int,
    width: int,
    progress: Progress,
) -> tuple[dict[str, list[float]], dict[str, tuple[float, float]]]:
    """Areas by kind of vector and seed, and mean cosines inside and across."""
    from harken.embeddings.word2vec.settings import Settings as Training
    from harken.embeddings.word2vec.training import train_word2vec

    words = [word for members in kinds.values() for word in members]
    areas: dict[str, list[float]] = {"one-hot": [], "untrained": [], "learned": []}
    means: dict[str, tuple[float, float]] = {}

    def add(name: str, vectors: dict[str, np.ndarray]) -> None:
        inside, across = pairs_of(kinds, vectors)
        areas[name].append(area(inside, across))
        means[name] = float(inside.mean()), float(across.mean())

    add("one-hot", dict(zip(words, np.eye(len(words)), strict=True)))
    for number, seed in enumerate(seeds):
        random = np.random.default_rng([seeds[0], number])
        add("untrained", {word: random.uniform(-1, 1, width) for word in words})
        training = Training(width=width, epochs=epochs, seed=seed, threads=None)
        learnt = train_word2vec(corpus, training)
        add("learned", {word: np.array(learnt.inputs[known[word]], dtype=np.float64) for word in words})
        progress((number + 1) / len(seeds), f"seed {seed}: {areas['learned'][-1]:.1%}")
    return areas, means


EXPERIMENT = Experiment(
    name="distances",
    statement="Embeddings bring similar words close; one-hot vectors are all equally far.",
    shows="whether words of one kind are closer than others, one-hot and learned (also --data FILE ...)",
    run=run,
    parts=(
        Part("arithmetic", "two different one-hot vectors have the cosine 0, whichever they are"),
        Part("empirical", "learned vectors of one kind are closer than those of different kinds"),
    ),
    sizes=SIZES,
    takes_files=True,
)
