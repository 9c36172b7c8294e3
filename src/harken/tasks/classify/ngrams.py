"""The bag of n-grams of a classifier: fitted when a run is prepared, its strength chosen on the validation examples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from harken.metrics.calibration import fit_scales, log_softmax, mean_loss
from harken.metrics.labels import accuracy
from harken.models.heads.classifier import ClassifierModel
from harken.models.heads.ngrams import Batch, NGrams
from harken.models.reader import values_alone, words_alone
from harken.tasks.classify.recipe import ClassifyRecipe
from harken.tasks.labelled.reading import Rows, Split

ORDERS = {"word": 2, "character": 5}  # tokens of the longest n-grams; of pieces 3
STRENGTHS = (0.25, 1.0, 4.0, 16.0, 64.0)  # C
MAX_TOKENS = 2_000_000  # of the training texts; more are sampled, so that a fit takes seconds
ROWS = 256  # texts of a batch


def new_ngrams(recipe: ClassifyRecipe, count: int, labels: int, size: int) -> NGrams:
    """A bag of `count` n-grams of `size` ids without its vocabulary and weights."""
    return NGrams(count, size, ORDERS.get(recipe.tokenizer.kind, 3), labels)


def fit_ngrams(
    recipe: ClassifyRecipe,
    network: ClassifierModel,
    labels: int,
    train: Split,
    valid: Split,
    class_weights: Tensor | None = None,
) -> tuple[NGrams, str]:
    """Fit a bag of n-grams, and describe it.

    Args:
        network: reads the same ids.
        labels: K.
        class_weights: (K,) of the terms of the loss.
    """
    size = words_alone(network.reader.inputs).table.num_embeddings  # type: ignore[union-attr]
    rows = sample(train[0].lengths, recipe.train.seed)
    targets = torch.from_numpy(train[1][rows].astype(np.int64))
    empty = new_ngrams(recipe, 0, labels, size)
    model = empty.learn(batches(train[0], rows), size, empty.order, labels)
    texts, held_out = model.matrix(batches(train[0], rows)), model.matrix(batches(valid[0]))
    best: tuple[float, float, dict[str, Tensor]] | None = None
    for strength in STRENGTHS:
        model.fit(texts, targets, strength, class_weights)
        logits = (held_out.times(model.weight) + model.bias).numpy()
        loss = mean_loss(log_softmax(fit_scales([logits], valid[1])[0] * logits), valid[1])
        if best is None or loss < best[0]:
            best = loss, strength, {name: value.clone() for name, value in model.state_dict().items()}
            share = accuracy(valid[1], logits.argmax(1))
    assert best is not None
    model.load_state_dict(best[2])
    kind = {"word": "words", "character": "characters"}.get(recipe.tokenizer.kind, "pieces")
    return model, (
        f"bag of {len(model.keys):,} n-grams of 1 to {model.order} {kind} (logistic regression, C = {best[1]:g}): "
        f"accuracy {share:.3f} on validation"
    )


def batches(rows: Rows, chosen: np.ndarray | None = None) -> Iterator[Batch]:
    """The rows, or some of them, in padded batches."""
    chosen = np.arange(len(rows)) if chosen is None else chosen
    for start in range(0, len(chosen), ROWS):
        values, lengths = rows.gather(chosen[start : start + ROWS])
        yield values_alone(values), lengths


def sample(lengths: np.ndarray, seed: int) -> np.ndarray:
    """All rows, or a random sample of them with `MAX_TOKENS`, in ascending order."""
    order = np.random.default_rng(seed).permutation(len(lengths))
    count = max(1, int(np.searchsorted(lengths[order].cumsum(), MAX_TOKENS, side="right")))
    return np.sort(order[:count])
