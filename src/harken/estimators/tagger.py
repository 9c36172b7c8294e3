"""`harken.SequenceTagger`: a tag for every word of a sentence, or every frame of a signal.

from harken import SequenceTagger
model = SequenceTagger().fit([["the", "cat"], ["a", "dog"]], [["DET", "NOUN"], ["DET", "NOUN"]])
model.predict([["the", "dog"]])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from harken.data.series.framed import Framed
from harken.data.text.tagged import Tagged
from harken.estimators.base import SequenceEstimator, sklearn_errors
from harken.estimators.inputs import rows_alike
from harken.tasks.job import Prepared
from harken.tasks.tag.task import build_task


@dataclass(eq=False, repr=False)
class SequenceTagger(SequenceEstimator):
    """Reads sequences and gives one tag a step.

    Args:
        cell: lstm, gru, rnn, transformer or convolutional: what reads.
        crf: choose the tags of a sequence together.
        characters: lstm, convolutional or none: what reads the letters of a word.
        max_iter: updates; about `batch_size` sequences each.
    """

    cell: str = "lstm"
    width: int = 64
    layers: int = 1
    bidirectional: bool = True
    dropout: float = 0.0
    crf: bool = False
    characters: str = "lstm"
    max_iter: int = 100
    batch_size: int = 32
    learning_rate: float = 0.01
    device: str = "cpu"
    random_state: Any = None

    task = "tag"
    dtype = torch.float32  # the tagger's own batches are of single precision

    def fit(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> SequenceTagger:
        """Lists of words, or arrays (T, C); and a list of tags for each, as long as it is."""
        self._require_target(y)
        check_steps(X)
        if not hasattr(y, "__len__"):
            raise ValueError(f"y is {str(y)[:40]}; expected a list of tags for each sequence")
        rows_alike(X, y)
        examples: list[Any] = []
        for number, (steps, tags) in enumerate(zip(X, y, strict=True)):
            if isinstance(tags, str) or not hasattr(tags, "__len__"):
                kind = f"the string {tags[:40]!r}" if isinstance(tags, str) else str(tags)[:40]
                raise ValueError(f"y[{number}] is {kind}; expected a list of tags, one for each step")
            if len(steps) != len(tags):
                raise ValueError(f"X[{number}] has {len(steps)} steps, but y[{number}] has {len(tags)} tags")
            named = tuple(str(tag) for tag in tags)
            if len(steps) and isinstance(steps[0], str):
                examples.append(Tagged(tuple(steps), named))
            else:
                examples.append(Framed(np.asarray(steps, dtype=np.float32), named))
        self.classes_ = np.unique([tag for example in examples for tag in example.tags])
        longest = max(len(example.tags) for example in examples)
        sections = {
            "data": {"train": "memory"},
            "words": {"characters": self.characters, "min_count": 1, "character_width": 32, "dropout": 0.05},
            "tags": {"crf": self.crf},
        }

        def prepare(recipe: Any, folder: Any) -> Prepared:
            task, vocabulary = build_task(recipe, examples, examples)
            vocabulary.save(folder)
            return Prepared(task, "memory", {"data": f"{len(examples)} sequences in memory"}, [], 0.0)

        self._train_on(sections, longest, prepare)
        return self

    def predict(self, X: Sequence[Any]) -> list[list[str]]:
        """The tags of each."""
        tagger = self.model
        check_steps(X)
        with sklearn_errors():
            return [list(tagged.tags) for tagged in tagger.tag_all(X)]

    def score(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """The share of steps whose tag is right."""
        right = [
            tag == str(reference)
            for predicted, references in zip(self.predict(X), y, strict=True)
            for tag, reference in zip(predicted, references, strict=True)
        ]
        return float(np.mean(right)) if right else 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # each sample is a list of words or an array (T, C)
        tags.input_tags.three_d_array = True
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = False  # each target is a list of tags
        return tags


def check_steps(data: Any) -> None:
    """Check what `fit` and `predict` read.

    Raises:
        ValueError: no sequences, or a string in the place of a list of words.
    """
    if isinstance(data, str) or not hasattr(data, "__len__"):
        raise ValueError(f"Expected a list of sequences, got {type(data).__name__} instead")
    if not len(data):
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    for number, steps in enumerate(data):
        if isinstance(steps, str) or not hasattr(steps, "__len__"):
            raise ValueError(
                f"X[{number}] is {str(steps)[:40]!r}; expected a list of words or an array (T, C): one entry a step"
            )
        if len(steps) and not isinstance(steps[0], str) and not np.isfinite(np.asarray(steps, dtype=np.float64)).all():
            raise ValueError(f"Input X[{number}] contains NaN or infinity.")
