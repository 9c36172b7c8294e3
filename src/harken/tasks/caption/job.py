"""From a recipe for captioning to a run, and from a folder to a `Captioner`."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.data.images.caption_table import read_caption_corpus
from harken.data.tokenizers.base import TARGET, load_tokenizer, train_tokenizer
from harken.models.captioning.model import build_caption_model
from harken.models.sizing import measure
from harken.tasks.caption.check import CAPTION
from harken.tasks.caption.recipe import CaptionRecipe
from harken.tasks.caption.task import CaptionTask
from harken.tasks.job import Job, Prepared
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, words_of
from harken.tasks.scores import Scores

if TYPE_CHECKING:
    from harken.inspection.picture import Picture
    from harken.tasks.caption.captioner import Captioner


class CaptionJob(Job):
    """See `harken.tasks.job`."""

    usage = "harken caption {} picture.png"
    example_input = "picture.png"

    def prepare(self, recipe: CaptionRecipe, folder: Path, resuming: bool) -> Prepared:
        corpus = read_caption_corpus(recipe.data)
        folder.mkdir(parents=True, exist_ok=True)
        texts = [text for example in corpus.train for text in example.captions]
        if resuming:
            tokenizer = load_tokenizer(folder, TARGET)
        else:
            words = recipe.tokenizer
            tokenizer = train_tokenizer(words.kind, texts, words.size, recipe.train.seed, min_count=words.min_count)
            tokenizer.save(folder, TARGET)
        size = recipe.data.image_size
        model, pretrained = (
            build_caption_model(recipe.model, size, tokenizer.size),
            PretrainedEmbeddings(recipe, folder, resuming),
        )
        key = width_key(recipe.model.decoder, "model.decoder")
        pretrained.fill(model.target_embedding.weight, words_of(tokenizer), texts, key)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        pictures = f"{len(corpus.train):,} training pictures with {len(texts):,} captions"
        count = f"{pictures}, {len(corpus.valid):,} for validation"
        rows, columns = model.grid
        return Prepared(
            CaptionTask(recipe, corpus, model, tokenizer),
            title=f"{corpus.name}, {recipe.model.title}",
            facts={
                "data": f"{corpus.name}: {count}",
                "pictures": f"{size} x {size} pixels in {rows} x {columns} regions",
                "vocabulary": f"{recipe.tokenizer.kind}, {tokenizer.size:,} pieces",
                **pretrained.facts,
            },
            lines=[
                f"{corpus.name}: {count}",
                f"{recipe.model.title}: {parameters:,} parameters, {rows} x {columns} regions, {tokenizer.size:,} "
                f"{recipe.tokenizer.kind} pieces",
                *pretrained.said,
                *corpus.notes,
            ],
            flops_per_token=measure(model, CAPTION).flops,
        )

    def load(self, folder: Path, recipe: CaptionRecipe, device: str) -> Captioner:
        from harken.tasks.caption.captioner import Captioner

        return Captioner.load(folder, recipe, device)

    def artifact_names(self) -> frozenset[str]:
        return frozenset((f"{TARGET}.model", f"{TARGET}.json"))

    def evaluate(self, model: Any, split: str | None, files: list[Path], progress: Callable[[int], None]) -> Scores:
        from harken.tasks.caption.evaluation import evaluate, examples_of

        return evaluate(model, examples_of(model.recipe, split, files), progress)

    def look(self, model: Any, example: str) -> Picture:
        picture: Picture = model.caption(example).picture
        return picture

    def examples(self, model: Any, split: str) -> list[Any]:
        from harken.tasks.caption.evaluation import examples_of

        return list(examples_of(model.recipe, split, []))

    def validation(self, best: dict[str, Any]) -> str:
        from harken.metrics.bleu import corpus_bleu

        full = corpus_bleu(["one"], ["one"]).signature
        signature = full.partition("|")[2].replace("|", r"\|")  # a bar would end the table's cell
        return (
            f"BLEU {best.get('bleu', math.nan):.2f} by greedy search against all references ({signature}), "
            f"perplexity {best.get('perplexity', math.nan):.3f}"
        )


JOB = CaptionJob()
