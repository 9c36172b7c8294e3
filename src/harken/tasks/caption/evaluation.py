"""How good a captioner is: BLEU against all references, whole captions right, nouns that looked at what they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harken.data.images.caption_table import read_caption_corpus, read_captions
from harken.data.images.captioned import Captioned
from harken.inspection.pictures.drawings import CaptionMap, CaptionPage
from harken.metrics.bleu import bleu_interval, multi_reference_bleu, sentence_bleu
from harken.metrics.interval import bootstrap
from harken.metrics.regions import Look, look_at_nouns
from harken.tasks.caption.recipe import CaptionRecipe
from harken.tasks.scores import Metric, Scores
from harken.tasks.splits import find_split

if TYPE_CHECKING:
    from harken.tasks.caption.caption import Caption
    from harken.tasks.caption.captioner import Captioner

WORST = 30  # captions on the page of errors


def examples_of(recipe: CaptionRecipe, split: str | None, files: Sequence[Path]) -> Sequence[Captioned]:
    """The pictures to score: of tables, or a split of the model's own corpus.

    Raises:
        UserError: no such split, or what cannot be read.
    """
    data = recipe.data
    if files:
        columns = data.image_column, data.caption_column
        return [one for file in files for one in read_captions(file, None, data.image_size, *columns)]
    corpus = read_caption_corpus(data)
    known = {"train": corpus.train, "valid": corpus.valid, **corpus.tests}
    return find_split(corpus.name, known, split, remedy="a table")


def evaluate(model: Captioner, examples: Sequence[Captioned], progress: Callable[[int], None]) -> Scores:
    """Caption every picture and score the captions; the worst are on the page `errors`."""
    found = model.caption([example.image for example in examples], progress=progress)
    texts, references = [caption.text for caption in found], [example.references for example in examples]
    bleu = multi_reference_bleu(texts, references)
    metrics = [Metric.of("BLEU", bleu_interval(texts, references), bleu.signature, digits=2)]
    details: dict[str, object] = {"bleu_signature": bleu.signature}
    looks = looks_of(found, examples)
    if any(example.regions for example in examples):
        right = [float(text in known) for text, known in zip(texts, references, strict=True)]
        metrics.append(Metric.of("exact match", bootstrap(right), "share of captions equal to a reference"))
    nouns = [look for some in looks for look in some]
    if nouns:
        chance = sum(look.chance for look in nouns) / len(nouns)
        metrics.append(
            Metric.of(
                "attended region",
                bootstrap([sum(look.argmax for look in some) for some in looks], [len(some) for some in looks]),
                f"share of {len(nouns):,} nouns whose most attended region has its centre in the named thing's box; "
                f"a region at random: {chance:.3f}",
            )
        )
        details["nouns"] = len(nouns)
        details["centre_of_mass"] = sum(look.centre for look in nouns) / len(nouns)
        details["phrase_right"] = sum(look.phrase for look in nouns) / len(nouns)
        details["chance"] = chance
    pictures = {"errors": errors_page(found, examples, looks)} if found[0].attention is not None else {}
    return Scores(len(examples), "pictures", metrics, dict(pictures), details)


def looks_of(found: Sequence[Caption], examples: Sequence[Captioned]) -> list[list[Look]]:
    """Where the nouns of every caption looked; none where gold boxes or attention are missing."""
    nouns = {region.noun for example in examples for region in example.regions}
    return [
        look_at_nouns(caption.words, caption.attention, example.regions, nouns)
        if caption.attention is not None and example.regions
        else []
        for caption, example in zip(found, examples, strict=True)
    ]


def errors_page(
    found: Sequence[Caption], examples: Sequence[Captioned], looks: Sequence[Sequence[Look]]
) -> CaptionPage:
    """The captions with the lowest BLEU, and among equals those whose nouns looked elsewhere, each with its maps."""
    scores = [sentence_bleu(caption.text, example.references) for caption, example in zip(found, examples, strict=True)]
    astray = [sum(not look.argmax for look in some) for some in looks]
    order = sorted(range(len(found)), key=lambda row: (scores[row], -astray[row]))
    wrong = [row for row in order if found[row].text not in examples[row].references or astray[row]]
    maps = [_entry(found[row], examples[row], scores[row], looks[row]) for row in wrong[:WORST] if found[row].words]
    about = (
        f"{len(wrong):,} of {len(found):,} captions differ from every reference or look elsewhere than they name; "
        f"the {len(maps)} worst by BLEU of the caption."
    )
    return CaptionPage(maps, "Worst captions", about)


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
    return sorted(references, key=lambda one: -sentence_bleu(text, [one]))[:count]
