"""What a tagger shows of itself: the chance of every tag at every word, which tag follows which, where words look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from harken.inspection.tables import HeatMaps, ShadeTable
from harken.models.transformer.encoder import TransformerEncoder

if TYPE_CHECKING:
    from harken.tasks.tag.tagger import Tagger

LARGEST = 24  # tags that are shown
FAINTEST = 0.005  # a tag that is nowhere likelier than this is left out of a sentence's picture


def chances_picture(tagger: Tagger, sentence: str) -> HeatMaps:
    """The tags that come into question for each word and, with a CRF, how likely one is to follow another."""
    found = tagger.tag(sentence)
    shown = np.flatnonzero(found.chances.max(0, initial=0.0) >= FAINTEST)
    panels = [
        ShadeTable(
            found.words,
            [tagger.tags[number] for number in shown],
            found.chances[:, shown].T,
            "Tags: " + " ".join(found.tags),
            across="word",
            down="tag",
        )
    ]
    if tagger.model.crf is not None:
        tags = tagger.tags[:LARGEST]
        follows = torch.softmax(tagger.model.crf.transitions.detach().float(), -1).cpu().numpy()
        title = "What the CRF has for the next tag (across) after a tag (down), the words left out of account"
        panels.append(ShadeTable(tags, tags, follows[: len(tags), : len(tags)], title, across="tag", down="tag"))
    return HeatMaps([*panels, *attention_panels(tagger, sentence, found.words)])


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


def confusion_picture(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> HeatMaps:
    """True tags down, what was said across, the most frequent ones; shades are shares of a row."""
    pairs = Counter((a, b) for row, made in zip(gold, found, strict=True) for a, b in zip(row, made, strict=True))
    totals: Counter[str] = Counter()
    for (true, _), count in pairs.items():
        totals[true] += count
    tags = [tag for tag, _ in sorted(totals.items(), key=lambda item: (-item[1], item[0]))[:LARGEST]]
    shares = [[pairs[true, said] / totals[true] for said in tags] for true in tags]
    return HeatMaps(
        [ShadeTable(tags, tags, shares, "Confusion: true tags down, said across", across="said tag", down="true tag")]
    )
