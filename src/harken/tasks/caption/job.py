"""From a recipe for captioning to a run, and from a folder to a `Captioner`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from harken.data.fingerprints import InputFile
from harken.data.images.caption_table import (
    pictures_of,
    read_caption_corpus,
    read_captions,
    split_captions,
)
from harken.data.images.captioned import CaptionCorpus, Captioned
from harken.data.io.table import read_table
from harken.data.tokenizers.base import train_tokenizer
from harken.inspection.pictures.drawings import CaptionMap, CaptionPage
from harken.inspection.pictures.picture import Picture
from harken.metrics.bleu import bleu_interval, multi_reference_score, sentence_bleu
from harken.metrics.interval import bootstrap
from harken.metrics.regions import Look, look_at_nouns
from harken.models.sizing import measure
from harken.tasks.artifacts import Artifact
from harken.tasks.caption.captioner import TOKENIZER, Caption, Captioner
from harken.tasks.caption.interface import INTERFACE
from harken.tasks.caption.recipe import CaptionRecipe
from harken.tasks.caption.task import CaptionTask
from harken.tasks.job import FileReading, Job, Prepared, Summary
from harken.tasks.predictor import Progress
from harken.tasks.pretrained_embeddings import PretrainedEmbeddings, width_key, words_of
from harken.tasks.scores import Metric, Scores, bleu_on_card

CAPTION = 12  # tokens of the caption whose cost is measured, with EOS


class CaptionJob(Job):
    """See `harken.tasks.job`."""

    predictor = Captioner
    artifacts: ClassVar[tuple[Artifact[Any], ...]] = (TOKENIZER,)
    interface = INTERFACE
    scored_files = "a table"

    def load_data(self, recipe: CaptionRecipe) -> CaptionCorpus:
        return read_caption_corpus(recipe.data)

    def read_table(self, recipe: CaptionRecipe, table: dict[str, list[Any]]) -> list[Captioned]:
        data = recipe.data
        return read_captions(table, data.images, data.image_size, data.image_column, data.caption_column)

    def load_table(self, recipe: CaptionRecipe, table: dict[str, list[Any]]) -> CaptionCorpus:
        return split_captions(recipe.data, str(recipe.data.train), {"train": self.read_table(recipe, table)})

    def input_files(self, recipe: CaptionRecipe) -> list[InputFile]:
        """The tables, and the pictures that each of them names."""
        files, data = [], recipe.data
        for source in super().input_files(recipe):
            if source.key == "data.images":
                continue
            files.append(source)
            if source.key in ("data.train", "data.valid", "data.test"):
                names = tuple(map(str, read_table(source.path, [data.image_column], header=None)[data.image_column]))
                files.append(InputFile(source.key, pictures_of(source.path, data.images), "pictures", names))
        return files

    def prepare_data(self, recipe: CaptionRecipe, corpus: CaptionCorpus, folder: Path, resuming: bool) -> Prepared:
        texts = [text for example in corpus.train for text in example.captions]
        words = recipe.tokenizer
        tokenizer = TOKENIZER.learn_or_load(
            folder,
            resuming,
            lambda: train_tokenizer(words.kind, texts, words.size, recipe.train.seed, min_count=words.min_count),
        )
        size = recipe.data.image_size
        model = Captioner.build(recipe, tokenizer)
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
            data_summary=f"{len(texts):,} captions",
            input_summary=f"{rows} x {columns} regions, {tokenizer.size:,} {words.kind} pieces",
            facts={
                "pictures": f"{size} x {size} pixels in {rows} x {columns} regions, {len(texts):,} training captions",
                "vocabulary": f"{words.kind}, {tokenizer.size:,} pieces",
                **pretrained.facts,
            },
            notes=[*pretrained.notes, *corpus.notes],
        )
        task = CaptionTask(recipe, corpus, model, tokenizer)
        return summary.prepared(task, measure(model, CAPTION).flops, corpus)

    def splits(self, data: CaptionCorpus) -> dict[str, Sequence[Captioned]]:
        return {"train": data.train, "valid": data.valid, **data.tests}

    def read_files(
        self, model: Captioner, files: Sequence[Path], reading: FileReading
    ) -> tuple[list[Captioned], list[str]]:
        data = model.recipe.data
        layout = None, data.image_size, data.image_column, data.caption_column
        return [caption for file in files for caption in read_captions(file, *layout)], []

    def score(self, model: Captioner, examples: Sequence[Captioned], progress: Progress) -> Scores:
        """Caption every picture and score the captions; the worst are on the page `errors`."""
        captions = model.caption([example.image for example in examples], progress=progress)
        texts, references = [caption.text for caption in captions], [example.references for example in examples]
        bleu, chrf = (multi_reference_score(metric, texts, references) for metric in ("bleu", "chrf"))
        metrics = [
            Metric.of("BLEU", bleu_interval(texts, references), bleu.signature, digits=2),
            Metric("chrF", chrf.value, note=chrf.signature, digits=2, key="chrf"),
        ]
        details: dict[str, object] = {"bleu_signature": bleu.signature, "chrf_signature": chrf.signature}
        looks = looks_of(captions, examples)
        if any(example.regions for example in examples):
            right = [float(text in known) for text, known in zip(texts, references, strict=True)]
            metrics.append(Metric.of("exact match", bootstrap(right), "share of captions equal to a reference"))
        nouns = [look for some in looks for look in some]
        if nouns:
            chance = sum(look.chance for look in nouns) / len(nouns)
            share = bootstrap([sum(look.argmax for look in some) for some in looks], [len(some) for some in looks])
            note = f"share of {len(nouns):,} nouns whose most attended region has its centre in the named thing's box; "
            metrics.append(Metric.of("attended region", share, f"{note}a region at random: {chance:.3f}"))
            details["nouns"] = len(nouns)
            details["centre_of_mass"] = sum(look.centre for look in nouns) / len(nouns)
            details["phrase_right"] = sum(look.phrase for look in nouns) / len(nouns)
            details["chance"] = chance
        pictures = {"errors": errors_page(captions, examples, looks)} if captions[0].attention is not None else {}
        return Scores(len(examples), "pictures", metrics, dict(pictures), details)

    def predict(self, model: Captioner, examples: Sequence[Path], options: Any, progress: Progress) -> list[Caption]:
        given = {name: value for name, value in asdict(options).items() if value is not None}
        return model.caption(list(examples), progress=progress, **given)

    def figure(self, results: Sequence[Caption]) -> CaptionPage:
        return CaptionPage([result.picture for result in results if result.words])

    def attention_figure(self, model: Captioner, example: str) -> Picture:
        return model.caption(example).picture

    def validation(self, best: dict[str, Any]) -> str:
        return (
            f"{bleu_on_card(best)}, chrF {best.get('chrf', math.nan):.2f} by greedy search against all references, "
            f"perplexity {best.get('perplexity', math.nan):.3f}"
        )


JOB = CaptionJob()


WORST = 30  # captions on the page of errors


def looks_of(captions: Sequence[Caption], examples: Sequence[Captioned]) -> list[list[Look]]:
    """Find where the nouns of every caption looked; none where gold boxes or attention are missing."""
    nouns = {region.noun for example in examples for region in example.regions}
    return [
        look_at_nouns(caption.words, caption.attention, example.regions, nouns)
        if caption.attention is not None and example.regions
        else []
        for caption, example in zip(captions, examples, strict=True)
    ]


def errors_page(
    captions: Sequence[Caption], examples: Sequence[Captioned], looks: Sequence[Sequence[Look]]
) -> CaptionPage:
    """The captions with the lowest BLEU, and among equals those whose nouns looked elsewhere, each with its maps."""
    scores = [
        sentence_bleu(caption.text, example.references) for caption, example in zip(captions, examples, strict=True)
    ]
    astray = [sum(not look.argmax for look in some) for some in looks]
    order = sorted(range(len(captions)), key=lambda row: (scores[row], -astray[row]))
    wrong = [row for row in order if captions[row].text not in examples[row].references or astray[row]]
    maps = [
        _entry(captions[row], examples[row], scores[row], looks[row]) for row in wrong[:WORST] if captions[row].words
    ]
    summary = (
        f"{len(wrong):,} of {len(captions):,} captions differ from every reference or look elsewhere than they name; "
        f"the {len(maps)} worst by BLEU of the caption."
    )
    return CaptionPage(maps, "Worst captions", summary)


def _entry(caption: Caption, example: Captioned, score: float, looks: Sequence[Look]) -> CaptionMap:
    astray = [caption.words[look.word] for look in looks if not look.argmax]
    notes = [
        f"reference: {' | '.join(nearest(caption.text, example.references))}",
        f"BLEU {score:.1f}, score {caption.score:.3f}" + (f", {example.name}" if example.name else ""),
        *([f"looked elsewhere: {', '.join(astray)}"] if astray else []),
    ]
    assert caption.attention is not None
    boxes = [region.box for region in example.regions]
    return CaptionMap(caption.image, caption.words, caption.attention, caption.text, notes, boxes)


def nearest(text: str, references: Sequence[str], count: int = 2) -> list[str]:
    """The references most like the text."""
    return sorted(references, key=lambda reference: -sentence_bleu(text, [reference]))[:count]
