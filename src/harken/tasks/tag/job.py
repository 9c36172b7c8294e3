"""From a recipe for tagging to a run, and from a folder to a `Tagger`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.data.splits import skipped_lines
from harken.errors import UserError
from harken.models.sizing import measure
from harken.tasks.context import COPY, context_of
from harken.tasks.job import Job, Prepared
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings
from harken.tasks.scores import Scores
from harken.tasks.tag.building import build_task
from harken.tasks.tag.corpus import TagCorpus, corpus_of_table, read_corpus, read_files
from harken.tasks.tag.recipe import TagRecipe
from harken.tasks.tag.tagger import Tagger
from harken.tasks.tag.vocabulary import FILE, Vocabulary

if TYPE_CHECKING:
    from harken.inspection.picture import Picture


class TagJob(Job):
    """See `harken.tasks.job`."""

    usage = "harken tag {}"

    def prepare(self, recipe: TagRecipe, folder: Path, resuming: bool) -> Prepared:
        return self._prepare(recipe, read_corpus(recipe.data), folder, resuming)

    def prepare_table(self, recipe: TagRecipe, table: dict[str, list[Any]], folder: Path, resuming: bool) -> Prepared:
        return self._prepare(recipe, corpus_of_table(recipe.data, table), folder, resuming)

    def _prepare(self, recipe: TagRecipe, corpus: TagCorpus, folder: Path, resuming: bool) -> Prepared:
        folder.mkdir(parents=True, exist_ok=True)
        known = Vocabulary.load(folder) if resuming else None
        context, pretrained = (
            context_of(recipe.embeddings.elmo, folder, resuming),
            PretrainedEmbeddings(recipe, folder, resuming),
        )
        task, vocabulary = build_task(recipe, corpus.train, corpus.valid, known, context, pretrained)
        vocabulary.save(folder)
        unit = "signals" if vocabulary.channels else "sentences"
        count = f"{len(corpus.train):,} training {unit}, {len(corpus.valid):,} for validation"
        parameters = sum(parameter.numel() for parameter in task.model.parameters())
        known_words = (
            f"frames of {vocabulary.channels} channels"
            if vocabulary.channels
            else f"{len(vocabulary.words):,} words, {len(vocabulary.characters):,} characters"
        )
        return Prepared(
            task,
            title=f"{corpus.name} tags, {recipe.model.title}{' with a CRF' * recipe.tags.crf}",
            facts={
                "data": f"{corpus.name}: {count}",
                "vocabulary": f"{known_words}, {len(vocabulary.tags)} tags",
                **pretrained.facts,
            },
            lines=[
                f"{corpus.name}: {count}",
                f"{recipe.model.title}: {parameters:,} parameters, {known_words}, {len(vocabulary.tags)} tags",
                *pretrained.said,
                *skipped_lines(corpus.skipped),
            ],
            flops_per_token=measure(task.model).flops,
        )

    def load(self, folder: Path, recipe: TagRecipe, device: str) -> Tagger:
        return Tagger.load(folder, recipe, device)

    def artifact_names(self) -> frozenset[str]:
        return frozenset((FILE, COPY))

    def evaluate(self, model: Tagger, split: str | None, files: list[Path], progress: Callable[[int], None]) -> Scores:
        chosen = read_files(model.recipe.data, files) if files else self.examples(model, split or "test")
        return model.evaluate(chosen, progress=progress)

    def examples(self, model: Tagger, split: str) -> list[Any]:
        corpus = read_corpus(model.recipe.data)
        splits = {"valid": corpus.valid, **corpus.tests}
        if split not in splits:
            raise UserError(
                f"{corpus.name} has no split {split!r}; choose --split {' or '.join(splits)}, or give a file"
            )
        return list(splits[split])

    def look(self, model: Tagger, example: str) -> Picture:
        from harken.tasks.tag.pictures import chances_picture

        return chances_picture(model, example)

    def validation(self, best: dict[str, Any]) -> str:
        words = f"accuracy {best.get('accuracy', 0.0):.4f}, loss {best.get('loss', 0.0):.4f}"
        return f"entity F1 {best['f1']:.4f}, {words}" if "f1" in best else words


JOB = TagJob()
