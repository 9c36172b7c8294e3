"""From a recipe for ELMo to a run, and from a folder to an `Elmo`.

model = harken.load("runs/elmo")
model.vectors("give me the stick")          # (3, 4, W): layers, words, width
model.mixed("give me the stick")            # (4, W): the mean of the layers, or by weights of your own
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from harken.data.text.texts import TextCorpus
from harken.embeddings.contextual import mixed
from harken.errors import UserError
from harken.metrics.interval import bootstrap
from harken.models.base import require_numbers
from harken.models.heads.character_features import WordBatch
from harken.models.language.elmo import ElmoNetwork
from harken.models.sizing import SENTENCE, measure
from harken.nn.layer_mix import LayerMix
from harken.tasks.elmo.interface import INTERFACE, VectorsOptions
from harken.tasks.elmo.recipe import ElmoRecipe
from harken.tasks.elmo.task import ElmoRows, ElmoTask, row_losses, sentences_of, vocabulary_of, word_counts, words_of
from harken.tasks.job import Prepared, Summary
from harken.tasks.lines_job import LinesJob
from harken.tasks.predictor import Predictor, Progress
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings
from harken.tasks.results import Printing, Result
from harken.tasks.scores import Metric, Scores
from harken.tasks.sequence_task import length_batches
from harken.tasks.words import VOCABULARY, Vocabulary

BATCH_WORDS = 2048
Sentence = str | Sequence[str]


@dataclass(frozen=True)
class WordVectors(Result):
    """The vectors of every word in its sentence."""

    words: list[str]
    layers: np.ndarray  # (L, T, D)

    def to_json(self, options: VectorsOptions) -> dict[str, Any]:
        vectors = self.layers if options.layers else self.layers.mean(0)
        return {"words": self.words, "vectors": np.round(vectors, 5).tolist()}

    def to_text(self, options: VectorsOptions, printing: Printing) -> str:
        vectors = np.concatenate(self.layers, -1) if options.layers else self.layers.mean(0)  # (T, L D) or (T, D)
        rows = zip(self.words, vectors, strict=True)
        return "".join(f"{word}\t{' '.join(f'{value:.5f}' for value in vector)}\n" for word, vector in rows)


class Elmo(Predictor[ElmoRecipe, ElmoNetwork]):
    """Model, vocabulary and recipe of one folder; load it with `harken.load`."""

    vocabulary: Vocabulary
    parts = (("vocabulary", VOCABULARY),)

    @staticmethod
    def build(recipe: ElmoRecipe, vocabulary: Vocabulary) -> ElmoNetwork:
        """A network with new weights."""
        return ElmoNetwork(recipe.model, vocabulary.word_count, vocabulary.character_count)

    def words(self, sentence: Sentence) -> list[str]:
        """The words that the vectors of a sentence belong to: those of a text with marks cut off, or words as given."""
        words = words_of(sentence) if isinstance(sentence, str) else sentence
        return [word.lower() for word in words] if self.recipe.data.lowercase else list(words)

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
        return mixed(self.vectors(sentence), weights, gamma)

    def vectors_of_all(self, sentences: Sequence[Sentence], progress: Progress | None = None) -> list[np.ndarray]:
        """`vectors` of many; one without words has an array without words."""

        def read(words: WordBatch, lengths: Tensor) -> list[np.ndarray]:
            states = self.model.layers_of(words, lengths)  # (L + 1, B, T, W)
            require_numbers(states)
            layers = states.float().cpu().numpy()
            return [layers[:, row, 1 : length - 1] for row, length in enumerate(lengths.tolist())]  # no BOS and EOS

        return self._read([self.words(sentence) for sentence in sentences], read, progress)

    def _read(
        self,
        sentences: list[list[str]],
        call: Callable[[WordBatch, Tensor], Iterable[np.ndarray]],
        progress: Progress | None,
    ) -> list[np.ndarray]:
        """`call(words, lengths)` over the sentences in batches; one result for each, in order."""
        rows = ElmoRows.of(sentences, self.vocabulary)

        def run(indices: np.ndarray) -> Iterable[np.ndarray]:
            words, lengths = rows.gather(indices)
            return call(words.to(self.device), lengths.to(self.device))

        return self.map(length_batches(rows.lengths, BATCH_WORDS), run, progress)

    def mix(self) -> LayerMix:
        """A new mix of its layers, to be learned by another model."""
        return LayerMix(self.model.depth)

    def evaluate(self, lines: Sequence[str], *, progress: Progress | None = None) -> Scores:
        """Perplexity of the next word, of the previous one, and of both together."""
        sentences = sentences_of(lines, self.recipe.data)
        if not sentences:
            raise UserError("the text has no words to predict; give some lines of text")
        ahead, back = np.array(self._read(sentences, partial(row_losses, self.model), progress)).T
        words = np.array([len(sentence) + 1 for sentence in sentences])  # EOS or BOS too
        metrics = []
        for name, losses, count in (
            ("perplexity", ahead + back, 2 * words),
            ("forward perplexity", ahead, words),
            ("backward perplexity", back, words),
        ):
            loss = bootstrap(losses, count)
            interval = loss.map(math.exp)
            note = f"of {int(count.sum()):,} words; lower is better"
            metrics.append(Metric.of(name, interval, note, digits=2, lower_is_better=True))
        return Scores(len(sentences), "sentences", metrics)


class ElmoJob(LinesJob):
    """See `harken.tasks.lines_job`."""

    predictor = Elmo
    interface = INTERFACE
    artifacts = (VOCABULARY,)

    def context_shape(self, recipe: ElmoRecipe) -> tuple[int, int]:
        """The words and each layer, both directions side by side: (L + 1, 2 D)."""
        return recipe.model.layers + 1, 2 * recipe.model.width

    def prepare_data(self, recipe: ElmoRecipe, text: TextCorpus, folder: Path, resuming: bool) -> Prepared:
        valid, lines = sentences_of(text.valid, recipe.data), text.train
        counts = word_counts(lines, recipe.data)

        def learn() -> Vocabulary:
            vocabulary_learned = vocabulary_of(counts, recipe.words.size, recipe.words.min_count)
            if not vocabulary_learned.words:
                raise UserError(
                    f"no word of {text.name} is seen words.min_count {recipe.words.min_count} times; lower it, or give "
                    "more text"
                )
            return vocabulary_learned

        vocabulary = VOCABULARY.learn_or_load(folder, resuming, learn)
        model, pretrained = Elmo.build(recipe, vocabulary), PretrainedEmbeddings(recipe, folder, resuming)
        pretrained.fill(model.output.weight, vocabulary.names, text.train, "model.width")
        rows = ElmoRows.of_lines(lines, recipe.data, counts, vocabulary)
        task = ElmoTask(recipe.train, model, rows, ElmoRows.of(valid, vocabulary))
        vocabulary_summary = f"{len(vocabulary.words):,} words to predict, {len(vocabulary.characters):,} characters"
        summary = Summary(
            text.name,
            recipe.model.title,
            sum(counts.values()),
            sum(map(len, valid)),
            unit="words",
            data_summary=f"{len(rows):,} rows",
            input_summary=vocabulary_summary,
            skipped=text.skipped,
            skipped_unit="lines",
            facts={"vocabulary": vocabulary_summary, **pretrained.facts},
            notes=pretrained.notes,
        )
        return summary.prepared(task, measure(model, SENTENCE, terms=2 * (SENTENCE - 1)).flops, text)

    def predict(
        self, model: Elmo, examples: Sequence[str], options: VectorsOptions, progress: Progress
    ) -> list[WordVectors]:
        vectors = model.vectors_of_all(examples, progress)
        return [WordVectors(model.words(text), layers) for text, layers in zip(examples, vectors, strict=True)]

    def validation(self, best: dict[str, Any]) -> str:
        return (
            f"perplexity {best['perplexity']:.2f} (forward {best['forward_perplexity']:.2f}, "
            f"backward {best['backward_perplexity']:.2f})"
        )


JOB = ElmoJob()
