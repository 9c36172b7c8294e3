"""From a recipe for translation to a run, and from a folder to a `Translator`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from harken.data.text.pairs import Corpus
from harken.data.text.parallel import read_corpus
from harken.data.tokenizers.base import (
    JOINT,
    SOURCE,
    TARGET,
    Tokenizer,
    load_tokenizers,
    save_tokenizers,
    train_tokenizers,
)
from harken.metrics import corpus_bleu
from harken.models.build import build_model
from harken.models.encoder_decoder import TranslationModel
from harken.models.sizing import measure
from harken.tasks.job import Job, Prepared
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, words_of
from harken.tasks.translate.recipe import TranslateRecipe
from harken.tasks.translate.task import TranslationTask
from harken.tasks.translate.translator import Translator


class TranslateJob(Job):
    """See `harken.tasks.job`."""

    def prepare(self, recipe: TranslateRecipe, folder: Path, resuming: bool) -> Prepared:
        corpus = read_corpus(recipe.data)
        folder.mkdir(parents=True, exist_ok=True)
        source, target = tokenizers_of(recipe, corpus, folder, resuming)
        model, begun = (
            build_model(recipe.model, source.size, target.size),
            PretrainedEmbeddings(recipe, folder, resuming),
        )
        begin_both(begun, recipe, corpus, model, source, target)
        skipped = {reason: count for reason, count in sorted(corpus.skipped.items()) if count}
        pieces = f"{source.size:,}" if source is target else f"{source.size:,} and {target.size:,}"
        parameters = sum(parameter.numel() for parameter in model.parameters())
        count = f"{len(corpus.train):,} training pairs, {len(corpus.valid):,} for validation"
        return Prepared(
            TranslationTask(recipe, corpus, model, source, target),
            title=f"{corpus.name} {corpus.source_language}-{corpus.target_language}, {recipe.model.title}",
            facts={
                "data": f"{corpus.name}: {count}",
                "lines skipped": ", ".join(f"{count:,} {reason}" for reason, count in skipped.items()) or "none",
                "vocabulary": f"{recipe.tokenizer.kind}, {source.size:,} source and {target.size:,} target pieces"
                + (", joint" if recipe.tokenizer.joint else ""),
                **begun.facts,
            },
            lines=[
                f"{corpus.name}: {count}, {corpus.source_language} -> {corpus.target_language}",
                f"{recipe.model.title}: {parameters:,} parameters, {pieces} {recipe.tokenizer.kind} pieces",
                *begun.said,
                *(f"skipped {count:,} lines: {reason}" for reason, count in skipped.items()),
            ],
            flops_per_token=measure(model).flops,
        )

    def load(self, folder: Path, recipe: TranslateRecipe, device: str) -> Translator:
        return Translator.load(folder, recipe, device)

    def owns_artifact(self, name: str) -> bool:
        return name in {f"{side}{ending}" for side in (SOURCE, TARGET, JOINT) for ending in (".model", ".json")}

    def validation(self, best: dict[str, Any]) -> str:
        signature = corpus_bleu(["one"], ["one"]).signature.replace("|", r"\|")  # a bar would end the table's cell
        return (
            f"BLEU {best.get('bleu', math.nan):.2f} by greedy search ({signature}), "
            f"exact match {best.get('exact_match', math.nan):.2f}%, "
            f"perplexity {best.get('perplexity', math.nan):.3f}"
        )


JOB = TranslateJob()


def begin_both(
    begun: PretrainedEmbeddings,
    recipe: TranslateRecipe,
    corpus: Corpus,
    model: TranslationModel,
    source: Tokenizer,
    target: Tokenizer,
) -> None:
    """Word vectors for either side; one table for both is filled once."""
    decoder = getattr(recipe.model, "decoder", None)
    keys = width_key(recipe.model), width_key(decoder, "model.decoder") if decoder else width_key(recipe.model)
    sources, targets = [pair.source for pair in corpus.train], [pair.target for pair in corpus.train]
    if model.source_embedding is model.target_embedding:
        begun.fill(model.source_embedding.weight, words_of(source), [*sources, *targets], keys[0])
        return
    begun.fill(model.source_embedding.weight, words_of(source), sources, keys[0], side="source")
    begun.fill(model.target_embedding.weight, words_of(target), targets, keys[1], side="target")


def tokenizers_of(recipe: TranslateRecipe, corpus: Corpus, folder: Path, resuming: bool) -> tuple[Tokenizer, Tokenizer]:
    """Those of the folder where a run goes on, else trained on the training text."""
    if resuming:
        return load_tokenizers(folder)
    source, target = train_tokenizers(
        recipe.tokenizer,
        [pair.source for pair in corpus.train],
        [pair.target for pair in corpus.train],
        recipe.train.seed,
    )
    save_tokenizers(folder, source, target)
    return source, target
