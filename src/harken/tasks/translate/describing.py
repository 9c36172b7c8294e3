"""What a search found, as translations: their words, and which source words each of them attends to.

Attention is not kept while searching. The finished translation is read once more under teacher forcing, and the weights
of pieces are merged into those of words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from harken.data.io.token_rows import pad
from harken.data.tokenizers.tokens import BOS, PAD
from harken.metrics.alignment import merge_subwords
from harken.search import Hypothesis
from harken.tasks.translate.sources import Sources
from harken.tasks.translate.translation import Translation

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator


@torch.no_grad()
def describe(
    translator: Translator,
    sources: Sources,
    rows: Sequence[tuple[int, Hypothesis]],
    attention: bool,
    layers: bool,
    texts_out: Sequence[str] | None = None,
) -> list[Translation]:
    """Hypotheses as translations; their attention by reading them once under teacher forcing."""
    outputs = texts_out or [translator.target.decode(hypothesis.tokens) for _, hypothesis in rows]
    results = [
        Translation(sources.texts[number], text, hypothesis.normalised)
        for (number, hypothesis), text in zip(rows, outputs, strict=True)
    ]
    if not (attention or layers) or not rows:
        return results
    source, lengths, distances = sources.batch([number for number, _ in rows], translator.device)
    target, _ = pad([[BOS, *hypothesis.tokens] for _, hypothesis in rows], eos=False)
    weights = translator.model.attention(source, lengths, target.to(translator.device), distances)  # (B, L, N, T, S)
    if weights is None:
        return results
    aligned = translator.model.alignment(weights).float().cpu().numpy()  # (B, T, S)
    first = 1 if translator.model.alignment_shift else 0
    for row, ((number, hypothesis), result) in enumerate(zip(rows, results, strict=True)):
        pieces, words = hypothesis.tokens, sources.ids[number]
        rectangle = aligned[row, first : first + len(pieces), : len(words)]
        result.attention = merge_subwords(
            rectangle,
            translator.target.word_of(pieces, result.text),
            translator.source.word_of(words, result.source),
            len(result.target_words),
            len(result.source_words),
        )
        if layers:
            result.layers = weights[row, :, :, : len(pieces) + 1, : len(words) + 1].float().cpu().numpy()
            result.source_pieces, result.target_pieces = (
                translator.source.pieces(words),
                translator.target.pieces(pieces),
            )
    return results


@torch.no_grad()
def forced(translator: Translator, sources: Sources, wanted: list[list[int]]) -> list[Hypothesis]:
    """Given outputs with the score the model has for them."""
    source, lengths, distances = sources.batch(range(len(wanted)), translator.device)
    target, _ = pad([[BOS, *row] for row in wanted], eos=False)
    output, _ = (tensor.to(translator.device) for tensor in pad(wanted, eos=True))
    hidden = translator.model(source, lengths, target.to(translator.device), distances)
    log_probabilities = torch.log_softmax(translator.model.logits(hidden).float(), -1)  # (B, T, V)
    chosen = log_probabilities.gather(-1, output[:, :, None])[:, :, 0]  # (B, T)
    scores = (chosen * (output != PAD)).sum(1).tolist()
    return [Hypothesis(row, score, score / (len(row) + 1), True) for row, score in zip(wanted, scores, strict=True)]
