"""From a recipe for captioning to a run, and from a folder to a `Captioner`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from harken.data.fingerprints import InputFile
from harken.data.images.caption_table import pictures_of, read_caption_corpus
from harken.data.images.captioned import CaptionCorpus
from harken.data.io.table import read_table
from harken.data.tokenizers.base import train_tokenizer
from harken.inspection.pictures.drawings import CaptionPage
from harken.inspection.pictures.picture import Picture
from harken.metrics.bleu import corpus_bleu
from harken.models.captioning.model import build_caption_model
from harken.models.sizing import measure
from harken.tasks.artifacts import Artifact
from harken.tasks.caption.caption import Caption
from harken.tasks.caption.captioner import TOKENIZER, Captioner
from harken.tasks.caption.evaluation import evaluate, examples_of
from harken.tasks.caption.interface import INTERFACE
from harken.tasks.caption.recipe import CaptionRecipe
from harken.tasks.caption.task import CaptionTask
from harken.tasks.job import Job, Prepared, Summary
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, words_of
from harken.tasks.scores import Scores

CAPTION = 12  # tokens of the caption whose cost is measured, with EOS


class CaptionJob(Job):
    """See `harken.tasks.job`."""

    predictor = Captioner
    artifacts: ClassVar[tuple[Artifact[Any], ...]] = (TOKENIZER,)
    interface = INTERFACE

    def load_data(self, recipe: CaptionRecipe) -> CaptionCorpus:
        return read_caption_corpus(recipe.data)

    def input_files(self, recipe: CaptionRecipe) -> list[InputFile]:
        """The tables, and the pictures that each of them names."""
        found, data = [], recipe.data
        for source in super().input_files(recipe):
            if source.key == "data.images":
                continue
            found.append(source)
            if source.key in ("data.table", "data.valid", "data.test"):
                names = tuple(map(str, read_table(source.path, [data.image_column])[data.image_column]))
                found.append(InputFile(source.key, pictures_of(source.path, data.images), "pictures", names))
        return found

    def prepare_data(self, recipe: CaptionRecipe, corpus: CaptionCorpus, folder: Path, resuming: bool) -> Prepared:
        folder.mkdir(parents=True, exist_ok=True)
        texts = [text for example in corpus.train for text in example.captions]
        words = recipe.tokenizer
        tokenizer = TOKENIZER.learn_or_load(
            folder,
            resuming,
            lambda: train_tokenizer(words.kind, texts, words.size, recipe.train.seed, min_count=words.min_count),
        )
        size = recipe.data.image_size
        model = build_caption_model(recipe.model, size, tokenizer.size)
        pretrained = PretrainedEmbeddings(recipe, folder, resuming)
        key = width_key(recipe.model.decoder, "model.decoder")
        pretrained.fill(model.target_embedding.weight, words_of(tokenizer), texts, key)
        rows, columns = model.grid
        summary = Summary(
            corpus.name,
            recipe.model.title,
            len(corpus.train),
            len(corpus.valid),
            unit="pictures",
            about=f"{len(texts):,} captions",
            reads=f"{rows} x {columns} regions, {tokenizer.size:,} {words.kind} pieces",
            facts={
                "pictures": f"{size} x {size} pixels in {rows} x {columns} regions, {len(texts):,} training captions",
                "vocabulary": f"{words.kind}, {tokenizer.size:,} pieces",
                **pretrained.facts,
            },
            notes=[*pretrained.said, *corpus.notes],
        )
        task = CaptionTask(recipe, corpus, model, tokenizer)
        return summary.prepared(task, measure(model, CAPTION).flops, corpus)

    def evaluate(
        self, model: Captioner, split: str | None, files: list[Path], progress: Callable[[int], None]
    ) -> Scores:
        return evaluate(model, examples_of(model.recipe, split, files), progress)

    def predict(
        self, model: Captioner, examples: Sequence[Path], options: Any, progress: Callable[[int], None]
    ) -> list[Caption]:
        given = {name: value for name, value in asdict(options).items() if value is not None}
        return model.caption(list(examples), progress=progress, **given)

    def figure(self, results: Sequence[Caption]) -> CaptionPage:
        return CaptionPage([result.picture for result in results if result.words])

    def attention_figure(self, model: Captioner, example: str) -> Picture:
        return model.caption(example).picture

    def examples(self, model: Captioner, split: str) -> list[Any]:
        return list(examples_of(model.recipe, split, []))

    def validation(self, best: dict[str, Any]) -> str:
        full = corpus_bleu(["one"], ["one"]).signature
        signature = full.partition("|")[2].replace("|", r"\|")  # a bar would end the table's cell
        return (
            f"BLEU {best.get('bleu', math.nan):.2f} by greedy search against all references ({signature}), "
            f"perplexity {best.get('perplexity', math.nan):.3f}"
        )


JOB = CaptionJob()
