"""How good tags are (token accuracy; precision, recall and F1 of entities where tags are BIO), and pictures of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch

from harken.data.rows import Columns, rows_of
from harken.data.text.tagged import Tagged
from harken.inspection.pictures.tables import HeatMaps, ShadeTable
from harken.metrics.baselines import MostFrequentTag
from harken.metrics.interval import bootstrap, resampled
from harken.metrics.labels import Counts, counts_by_kind, is_bio, sentence_counts
from harken.models.transformer.encoder import TransformerEncoder
from harken.tasks.baselines import COUNT, Baseline
from harken.tasks.scores import Metric, Scores
from harken.tasks.tag.corpus import Example

if TYPE_CHECKING:
    from harken.tasks.tag.tagger import Tagger

LARGEST = 24  # tags that are shown
MOST_PAIRS = 1_000_000  # of a word and a tag in streamed text; beyond, those seen once are dropped
FAINTEST = 0.005  # a tag that is nowhere more probable than this is left out of a sentence's picture


def evaluate(tags: Sequence[str], gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Scores:
    """Scores of sentences; their intervals draw sentences whole, since the words of one depend on each other."""
    right = [sum(a == b for a, b in zip(row, made, strict=True)) for row, made in zip(gold, predicted, strict=True)]
    lengths = [len(row) for row in gold]
    accuracy = Metric.of("accuracy", bootstrap(right, lengths), f"of {sum(lengths):,} words", digits=4)
    pictures = {"confusion": confusion_picture(gold, predicted)}
    outputs = [list(row) for row in predicted], [list(row) for row in gold]
    if not is_bio(tags):
        return Scores(len(gold), "sentences", [accuracy], dict(pictures), outputs=outputs)
    rows = np.array([sentence_counts(row, made) for row, made in zip(gold, predicted, strict=True)])  # (sentences, 3)

    def metric(name: str, note: str) -> Metric:
        interval = resampled(len(rows), lambda chosen: getattr(_sum(rows[chosen]), name))
        return Metric.of(name, interval, note, digits=4)

    kinds = counts_by_kind(gold, predicted)
    by_kind = [
        Metric(f"f1 {kind}", counts.f1, note=f"precision {counts.precision:.3f}, recall {counts.recall:.3f}", digits=4)
        for kind, counts in kinds.items()
    ]
    whole = f"of {int(rows[:, 2].sum()):,} entities, kind and both ends right"
    metrics = [metric("f1", whole), metric("precision", ""), metric("recall", ""), accuracy, *by_kind]
    entities = {kind: counts._asdict() for kind, counts in kinds.items()}
    return Scores(len(gold), "sentences", metrics, dict(pictures), {"entities": entities}, outputs=outputs)


def baseline_of(train: Sequence[Example], parts: Mapping[str, Sequence[Example]], metric: str) -> Baseline:
    """The most frequent tag of every word (of frames: of all of them), scored on parts of the data."""
    fitted = MostFrequentTag.from_counts(rows_of(train).counts(_pairs, MOST_PAIRS))
    scores = {}
    for name, part in parts.items():
        gold, predicted = [one.tags for one in part], fitted.predict([_units(one) for one in part])
        right = sum(a == b for row, made in zip(gold, predicted, strict=True) for a, b in zip(row, made, strict=True))
        scores[name] = {"accuracy": right / max(1, sum(len(row) for row in gold)), COUNT: len(part)}
        if metric == "f1":
            counts = [sentence_counts(row, made) for row, made in zip(gold, predicted, strict=True)]
            scores[name]["f1"] = sum(counts, Counts()).f1
    return Baseline(fitted.name, metric, scores, len(train))


def _pairs(columns: Columns) -> Counter[tuple[str, str]]:
    """How often each word occurs with each tag; frames have no words, so they are all alike."""
    words = (row if isinstance(row, list | tuple) else [""] * len(row) for row in columns[0])
    return Counter(zip(chain.from_iterable(words), chain.from_iterable(columns[1]), strict=True))


def _units(example: Example) -> Sequence[str]:
    """The words of a sentence; frames have none, so they are all alike."""
    return example.words if isinstance(example, Tagged) else [""] * len(example.tags)


def _sum(rows: np.ndarray) -> Counts:
    return Counts(*(int(number) for number in rows.sum(0)))


def tags_picture(tagger: Tagger, sentence: str) -> HeatMaps:
    """The likely tags of each word, with a CRF its transitions, and with a Transformer its attention."""
    tagged = tagger.tag(sentence)
    shown = np.flatnonzero(tagged.chances.max(0, initial=0.0) >= FAINTEST)
    panels = [
        ShadeTable(
            tagged.words,
            [tagger.tags[number] for number in shown],
            tagged.chances[:, shown].T,
            "Tags: " + " ".join(tagged.tags),
            across="word",
            down="tag",
        )
    ]
    if tagger.model.crf is not None:
        tags = tagger.tags[:LARGEST]
        follows = torch.softmax(tagger.model.crf.transitions.detach().float(), -1).cpu().numpy()
        title = "What the CRF has for the next tag (across) after a tag (down), the words left out of account"
        panels.append(ShadeTable(tags, tags, follows[: len(tags), : len(tags)], title, across="tag", down="tag"))
    return HeatMaps([*panels, *attention_panels(tagger, sentence, tagged.words)])


@torch.no_grad()
def attention_panels(tagger: Tagger, sentence: str, words: Sequence[str]) -> list[ShadeTable]:
    """Of a Transformer: where each word looks, layer by layer, the mean of the heads."""
    reader = tagger.model.reader
    if not isinstance(reader.encoder, TransformerEncoder) or not words:
        return []
    embedded = reader.inputs(tagger.batch([sentence]).values)
    weights = reader.encoder.attention(embedded)[0].mean(1).float().cpu().numpy()  # (L, T, T)
    title = "Layer {}: where each word (down) looks (across), the mean of the heads"
    return [
        ShadeTable(words, words, layer, title.format(number), across="word", down="word")
        for number, layer in enumerate(weights, start=1)
    ]


def confusion_picture(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> HeatMaps:
    """True tags down, what was said across, the most frequent ones; shades are shares of a row."""
    pairs = Counter((a, b) for row, made in zip(gold, predicted, strict=True) for a, b in zip(row, made, strict=True))
    totals: Counter[str] = Counter()
    for (true, _), count in pairs.items():
        totals[true] += count
    tags = [tag for tag, _ in sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:LARGEST]]
    shares = [[pairs[true, said] / totals[true] for said in tags] for true in tags]
    return HeatMaps(
        [ShadeTable(tags, tags, shares, "Confusion: true tags down, said across", across="said tag", down="true tag")]
    )
