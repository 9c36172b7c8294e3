"""From a recipe for tagging to a run, and from a folder to a `Tagger`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harken.inspection.picture import Picture
from harken.models.sizing import measure
from harken.tasks.context import CONTEXT, context_of
from harken.tasks.job import Job, Prepared, Summary
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings
from harken.tasks.scores import Scores
from harken.tasks.splits import find_split
from harken.tasks.tag.building import build_task, learn_vocabulary
from harken.tasks.tag.corpus import TagCorpus, corpus_of_table, read_corpus, read_other_files
from harken.tasks.tag.evaluation import tags_picture
from harken.tasks.tag.recipe import TagRecipe
from harken.tasks.tag.tagger import Tagger
from harken.tasks.words import VOCABULARY


class TagJob(Job):
    """See `harken.tasks.job`."""

    predictor = Tagger
    artifacts = (VOCABULARY, CONTEXT)
    usage = "harken tag {}"
    options = frozenset(("format", "text_column", "label_column"))

    def prepare(self, recipe: TagRecipe, folder: Path, resuming: bool) -> Prepared:
        return self._prepare(recipe, read_corpus(recipe.data), folder, resuming)

    def prepare_table(self, recipe: TagRecipe, table: dict[str, list[Any]], folder: Path, resuming: bool) -> Prepared:
        return self._prepare(recipe, corpus_of_table(recipe.data, table), folder, resuming)

    def _prepare(self, recipe: TagRecipe, corpus: TagCorpus, folder: Path, resuming: bool) -> Prepared:
        folder.mkdir(parents=True, exist_ok=True)
        train, valid = corpus.train, corpus.valid
        context = context_of(recipe.embeddings.elmo, folder, resuming)
        pretrained = PretrainedEmbeddings(recipe, folder, resuming)
        vocabulary = VOCABULARY.learn_or_load(
            folder, resuming, lambda: learn_vocabulary(recipe, train, valid, pretrained)
        )
        task, _ = build_task(recipe, train, valid, vocabulary, context, pretrained)
        words = f"{len(vocabulary.words):,} words, {len(vocabulary.characters):,} characters"
        reads = f"frames of {vocabulary.channels} channels" if vocabulary.channels else words
        reads += f", {len(vocabulary.tags)} tags"
        summary = Summary(
            corpus.name,
            f"{recipe.model.title}{' with a CRF' * recipe.tags.crf}",
            len(train),
            len(valid),
            unit="signals" if vocabulary.channels else "sentences",
            reads=reads,
            languages="tags",
            skipped=corpus.skipped,
            facts={"vocabulary": reads, **pretrained.facts},
            notes=pretrained.said,
        )
        return summary.prepared(task, measure(task.model).flops)

    def evaluate(
        self,
        model: Tagger,
        split: str | None,
        files: list[Path],
        progress: Callable[[int], None],
        format: str = "auto",
        text_column: str | None = None,
        label_column: str | None = None,
    ) -> Scores:
        """Accuracy, and F1 of entities; the options say how files are read, where not as the training data."""
        if not files:
            return model.evaluate(self.examples(model, split), progress=progress)
        chosen = read_other_files(model.recipe.data, files, format, text_column, label_column)
        return model.evaluate(chosen, progress=progress)

    def examples(self, model: Tagger, split: str | None) -> list[Any]:
        corpus = read_corpus(model.recipe.data)
        return list(find_split(corpus.name, {"valid": corpus.valid, **corpus.tests}, split))

    def look(self, model: Tagger, example: str) -> Picture:
        return tags_picture(model, example)

    def validation(self, best: dict[str, Any]) -> str:
        words = f"accuracy {best.get('accuracy', 0.0):.4f}, loss {best.get('loss', 0.0):.4f}"
        return f"entity F1 {best['f1']:.4f}, {words}" if "f1" in best else words


JOB = TagJob()
