"""A trained ELMo: the model folder as an object.

model = harken.load("runs/elmo")
model.vectors("give me the stick")          # (3, 4, W): layers, words, width
model.mixed("give me the stick")            # (4, W): the mean of the layers, or by weights of your own
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from harken.errors import UserError
from harken.metrics.interval import Interval, bootstrap
from harken.models.language.elmo import ElmoNetwork
from harken.nn.layer_mix import LayerMix
from harken.tasks.by_length import rows_of_part
from harken.tasks.elmo.recipe import ElmoRecipe
from harken.tasks.elmo.rows import ElmoRows, cut, words_of
from harken.tasks.elmo.task import score_rows
from harken.tasks.scores import Metric, Scores
from harken.tasks.words import Vocabulary
from harken.training.checkpoints import MODEL, load_weights
from harken.training.machine import choose_device

BATCH_WORDS = 2048
Sentence = str | Sequence[str]


def build_elmo(recipe: ElmoRecipe, vocabulary: Vocabulary) -> ElmoNetwork:
    """A new network, with weights drawn from torch's current random state."""
    return ElmoNetwork(recipe.model, vocabulary.word_count, vocabulary.character_count)


class Elmo:
    """Model, vocabulary and recipe of one folder; load it with `harken.load`."""

    def __init__(
        self, recipe: ElmoRecipe, model: ElmoNetwork, vocabulary: Vocabulary, folder: Path | None = None
    ) -> None:
        self.recipe, self.folder, self.vocabulary = recipe, folder, vocabulary
        self.model = model.eval()

    @classmethod
    def load(cls, folder: Path, recipe: ElmoRecipe, device: str = "auto") -> Elmo:
        """The model of a folder whose recipe was read."""
        vocabulary = Vocabulary.load(folder)
        model = build_elmo(recipe, vocabulary)
        load_weights(model, folder / MODEL)
        return cls(recipe, model.to(choose_device(device)), vocabulary, folder)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def words(self, sentence: Sentence) -> list[str]:
        """What the vectors of a sentence belong to: the words of a text with marks cut off, or words as given."""
        words = words_of(sentence) if isinstance(sentence, str) else list(sentence)
        return [word.lower() for word in words] if self.recipe.data.lowercase else words

    def vectors(self, sentence: Sentence) -> np.ndarray:
        """(L + 1, T, W): every layer's vector of every word; the lowest knows the word alone, W is both directions.

        Raises:
            UserError: there is no word.
        """
        if not self.words(sentence):
            raise UserError("the sentence has no words, so there are no vectors of them; give some words")
        return self.vectors_of_all([sentence])[0]

    def mixed(self, sentence: Sentence, weights: Sequence[float] | None = None, gamma: float = 1.0) -> np.ndarray:
        """(T, W): gamma times the sum of the layers by weights that sum to 1; by default all count alike.

        Raises:
            UserError: there is no word, or a weight for each layer is not given.
        """
        from harken.embeddings.contextual import mixed

        return mixed(self.vectors(sentence), weights, gamma)

    @torch.no_grad()
    def vectors_of_all(
        self, sentences: Sequence[Sentence], progress: Callable[[int], None] | None = None
    ) -> list[np.ndarray]:
        """`vectors` of many; one without words has an array without words."""
        read = [self.words(sentence) for sentence in sentences]
        found = [np.zeros((self.model.depth, 0, 2 * self.model.width), np.float32) for _ in read]
        rows = ElmoRows(read, self.vocabulary)
        for examples in rows_of_part(rows.lengths, 0, 1, BATCH_WORDS):
            batch, lengths = rows.gather(examples)
            layers = self.model.layers_of(batch.to(self.device), lengths.to(self.device)).float().cpu().numpy()
            for place, row in enumerate(examples):
                found[row] = layers[:, place, 1 : int(lengths[place]) - 1]  # without BOS and EOS
            if progress:
                progress(len(examples))
        return found

    def mix(self) -> LayerMix:
        """A new mix of its layers, to be learned by another model."""
        return LayerMix(self.model.depth)

    def evaluate(self, lines: Sequence[str], *, progress: Callable[[int], None] | None = None) -> Scores:
        """Perplexity of the next word, of the previous one, and of both together."""
        sentences = [self.words(words) for words in cut(lines, self.recipe.data.max_tokens)]
        if not sentences:
            raise UserError("the text has no words to predict; give some lines of text")
        rows = ElmoRows(sentences, self.vocabulary)
        found: list[tuple[float, float, float]] = []
        for examples in rows_of_part(rows.lengths, 0, 1, BATCH_WORDS):
            found += score_rows(self.model, rows, examples)
            if progress:
                progress(len(examples))
        ahead, back, words = np.array(found).T
        metrics = []
        for name, losses, count in (
            ("perplexity", ahead + back, 2 * words),
            ("forward perplexity", ahead, words),
            ("backward perplexity", back, words),
        ):
            loss = bootstrap(losses, count)
            interval = Interval(*(math.exp(value) for value in (loss.value, loss.low, loss.high)))
            metrics.append(Metric.of(name, interval, f"of {int(count.sum()):,} words; lower is better", digits=2))
        return Scores(len(rows), "sentences", metrics)
