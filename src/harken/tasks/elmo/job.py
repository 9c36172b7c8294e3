"""From a recipe for ELMo to a run, and from a folder to an `Elmo`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harken.data.text.lines import Lines
from harken.errors import UserError
from harken.models.sizing import SENTENCE, measure
from harken.tasks.elmo.elmo import Elmo, WordVectors, build_elmo
from harken.tasks.elmo.interface import INTERFACE, VectorsOptions
from harken.tasks.elmo.recipe import ElmoRecipe
from harken.tasks.elmo.task import ElmoRows, ElmoTask, sentences_of, vocabulary_of, word_counts
from harken.tasks.job import Prepared, Summary
from harken.tasks.lines_job import LinesJob
from harken.tasks.predictor import Progress
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings
from harken.tasks.words import VOCABULARY, Vocabulary


class ElmoJob(LinesJob):
    """See `harken.tasks.lines_job`."""

    predictor = Elmo
    interface = INTERFACE
    artifacts = (VOCABULARY,)

    def prepare_data(self, recipe: ElmoRecipe, text: Lines, folder: Path, resuming: bool) -> Prepared:
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
        model, pretrained = build_elmo(recipe, vocabulary), PretrainedEmbeddings(recipe, folder, resuming)
        pretrained.fill(model.output.weight, vocabulary.names, text.train, "model.width")
        rows = ElmoRows.of_lines(lines, recipe.data, counts, vocabulary)
        task = ElmoTask(recipe.train, model, rows, ElmoRows.of(valid, vocabulary))
        reads = f"{len(vocabulary.words):,} words to predict, {len(vocabulary.characters):,} characters"
        summary = Summary(
            text.name,
            recipe.model.title,
            sum(counts.values()),
            sum(map(len, valid)),
            unit="words",
            data_summary=f"{len(rows):,} rows",
            input_summary=reads,
            skipped=text.skipped,
            skipped_unit="lines",
            facts={"vocabulary": reads, **pretrained.facts},
            notes=pretrained.said,
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
