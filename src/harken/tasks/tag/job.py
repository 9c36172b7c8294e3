"""From a recipe for tagging to a run, and from a folder to a `Tagger`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harken.data.io.files import require_file
from harken.data.rows import rows_of
from harken.data.text.inputs import Inputs, place, sentence_inputs
from harken.inspection.pictures.picture import Picture
from harken.metrics.labels import is_bio
from harken.models.sizing import measure
from harken.tasks.baselines import BASELINE, Baseline, cached_baseline, compare
from harken.tasks.context import CONTEXT, context_of
from harken.tasks.job import Job, Prepared, Summary, format_counts
from harken.tasks.predictor import Progress
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings
from harken.tasks.scores import Scores
from harken.tasks.splits import find_split
from harken.tasks.tag.corpus import Example, TagCorpus, corpus_of_table, read_corpus, read_other_files
from harken.tasks.tag.evaluation import baseline_of, tags_picture
from harken.tasks.tag.interface import INTERFACE, TagOptions
from harken.tasks.tag.recipe import TagRecipe
from harken.tasks.tag.tagger import Tagger, Tagging
from harken.tasks.tag.task import build_task, learn_vocabulary
from harken.tasks.words import VOCABULARY, WordCounts


class TagJob(Job):
    """See `harken.tasks.job`."""

    predictor = Tagger
    artifacts = (VOCABULARY, CONTEXT, BASELINE)
    interface = INTERFACE
    options = frozenset(("format", "text_column", "label_column"))

    def load_data(self, recipe: TagRecipe) -> TagCorpus:
        return read_corpus(recipe.data)

    def load_table(self, recipe: TagRecipe, table: dict[str, list[Any]]) -> TagCorpus:
        return corpus_of_table(recipe.data, table)

    def prepare_data(self, recipe: TagRecipe, corpus: TagCorpus, folder: Path, resuming: bool) -> Prepared:
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
            input_summary=reads,
            languages="tags",
            skipped=corpus.skipped,
            tests={name: len(part) for name, part in corpus.tests.items()},
            facts={
                "vocabulary": reads,
                "tags": format_counts(tag_counts(recipe, train)),
                **pretrained.facts,
            },
            notes=pretrained.said,
        )
        parts = {"valid": valid, **corpus.tests}

        def fit() -> Baseline:
            compute = lambda: baseline_of(train, parts, task.monitor)  # noqa: E731
            return cached_baseline(rows_of(train), task.monitor, parts, compute)

        baseline = BASELINE.learn_or_load(folder, resuming, fit)
        return summary.prepared(task, measure(task.model).flops, corpus).with_baseline(baseline)

    def evaluate(
        self,
        model: Tagger,
        split: str | None,
        files: list[Path],
        progress: Progress,
        format: str = "auto",
        text_column: str | None = None,
        label_column: str | None = None,
    ) -> Scores:
        """Accuracy, and F1 of entities; the options say how files are read, where not as the training data."""
        if files:
            chosen = read_other_files(model.recipe.data, files, format, text_column, label_column)
        else:
            chosen = self.examples(model, split)
        scores = model.evaluate(chosen, progress=progress)

        def compute() -> Baseline:
            metric = "f1" if is_bio(model.tags) else "accuracy"
            return baseline_of(read_corpus(model.recipe.data).train, {"test": chosen}, metric)

        return compare(scores, model.folder, None if files else split or "test", compute)

    def predict(self, model: Tagger, examples: Sequence[Any], options: TagOptions, progress: Progress) -> list[Tagging]:
        return model.tag_all(examples, progress)

    def read_inputs(self, model: Tagger, path: Path | None, form: str, column: str | None) -> Inputs:
        file = Path("/dev/stdin") if path is None else path if path.is_dir() else require_file(path)
        return sentence_inputs(file, model.recipe.data, form, place(column))

    def facts(self, model: Tagger) -> dict[str, Any]:
        return {"tags": model.tags}

    def examples(self, model: Tagger, split: str | None) -> list[Any]:
        corpus = self.load_data(model.recipe)
        known = {"valid": corpus.valid, **corpus.tests}
        return list(find_split(corpus.name, known, split, default=("test", "valid")))

    def attention_figure(self, model: Tagger, example: str) -> Picture:
        return tags_picture(model, example)

    def validation(self, best: dict[str, Any]) -> str:
        words = f"accuracy {best.get('accuracy', 0.0):.4f}, loss {best.get('loss', 0.0):.4f}"
        return f"entity F1 {best['f1']:.4f}, {words}" if "f1" in best else words


JOB = TagJob()


def tag_counts(recipe: TagRecipe, train: Sequence[Example]) -> Mapping[str, int]:
    """How often each tag occurs in training."""
    rows = rows_of(train)
    if rows.is_in_memory:
        return Counter(tag for one in train for tag in one.tags)
    return WordCounts.of_rows(rows, recipe.words.lowercase, recipe.words.min_count).tags
