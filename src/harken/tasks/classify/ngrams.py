"""The bag of n-grams of a classifier: fitted once when a run is prepared, its C chosen on the validation examples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from harken.data.text.examples import Labelled
from harken.errors import UserError
from harken.metrics.baselines import choose_rows, sample_rows
from harken.metrics.calibration import fit_scales, log_softmax, mean_loss
from harken.models.heads.ngrams import NGrams
from harken.tasks.artifacts import Artifact, damaged
from harken.training.weights import load_tensors, save_tensors

STRENGTHS = (1.0, 4.0, 16.0, 64.0, 256.0)  # C
MAX_CHARACTERS = 3_000_000  # of the training texts whose n-grams of characters are read
MAX_WORD_CHARACTERS = 15_000_000  # of those that are read by words alone; more are sampled, so that a fit takes seconds
MAX_EXAMPLES = 100_000
LONG_WORD = 15.0  # characters between spaces above which the spaces do not divide words
UNITS, WORDS = "units", "words"  # metadata of the file


class NGramsArtifact(Artifact[NGrams]):
    """ngrams.safetensors."""

    file = "ngrams.safetensors"
    names = frozenset({file})

    def save(self, value: NGrams, folder: Path) -> None:
        arrays = {"keys": torch.from_numpy(value.keys.view(np.int64)), "idf": torch.from_numpy(value.idf)}
        metadata = {} if value.characters else {UNITS: WORDS}
        save_tensors(folder / self.file, {**arrays, "weight": value.weight, "bias": value.bias}, metadata)

    def load(self, folder: Path) -> NGrams:
        try:
            tensors, metadata = load_tensors(folder / self.file)
            keys, idf, weight, bias = (tensors[name] for name in ("keys", "idf", "weight", "bias"))
        except (UserError, KeyError):
            raise damaged(folder / self.file) from None
        if weight.shape != (len(keys), len(bias)) or idf.shape != keys.shape:
            raise damaged(folder / self.file)
        characters = metadata.get(UNITS) != WORDS
        return NGrams(keys.numpy().view(np.uint64), idf.numpy(), weight, bias, characters)


NGRAMS = NGramsArtifact()


def fit_ngrams(
    train: Labelled,
    train_labels: np.ndarray,
    valid: Labelled,
    valid_labels: np.ndarray,
    weights: Tensor | None,
    labels: int,
    seed: int,
) -> NGrams:
    """The bag of n-grams with the lowest loss on validation texts, after its temperature was fitted.

    Args:
        train, valid: texts.
        train_labels, valid_labels: (N,) the numbers of their classes.
        weights: (K,) of the classes in the loss.
        labels: K.
        seed: of the sample where there are many texts.
    """
    characters = reads_characters(train.values)
    limit = MAX_CHARACTERS if characters else MAX_WORD_CHARACTERS
    rows = sample_rows(train.values, labels, seed, limit, MAX_EXAMPLES)
    texts, targets = choose_rows(train.values, rows), train_labels[rows]
    model = NGrams.learn(texts, labels, characters)
    matrix, held_out = model.matrix(texts), model.matrix(valid.values)
    best = float("inf"), model.weight, model.bias
    for strength in STRENGTHS:
        model.fit(matrix, targets, strength, weights)
        logits = model.scores(held_out)
        loss = mean_loss(log_softmax(fit_scales([logits], valid_labels)[0] * logits), valid_labels)
        if loss < best[0]:
            best = loss, model.weight.clone(), model.bias.clone()
    model.weight, model.bias = best[1:]
    return model


def reads_characters(texts: Sequence[str]) -> bool:
    """Whether n-grams of characters are read: of few texts, and of those without spaces between words.

    More texts gain more by being read as a whole than by their characters.
    """
    total = words = 0
    for text in texts:
        total, words = total + len(text), words + len(text.split())
    return total <= MAX_CHARACTERS or total > LONG_WORD * words
