"""A look inside a translator: attention of every head, and what changes where heads or words are switched off.

A source word is switched off by replacing its ids with the id of unknown words, which works for every architecture;
heads are switched off by `harken.inspection.measures.ablation`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from harken.data.tokenizers.tokens import UNK
from harken.data.tokenizers.words import words_of
from harken.errors import UserError
from harken.inspection.measures.ablation import Head, without_heads
from harken.inspection.pictures.inputs import piece_names
from harken.search.hypotheses import Hypothesis
from harken.studio.translating import explained
from harken.tasks.translate.decoding.describing import describe
from harken.tasks.translate.decoding.scoring import forced_scores
from harken.tasks.translate.decoding.searching import search

if TYPE_CHECKING:
    from harken.tasks.translate.sources import Sources
    from harken.tasks.translate.translator import Translator

END = "</s>"


@dataclass(frozen=True)
class SwitchedOff:
    """The heads and words that the model has to do without."""

    heads: Sequence[Head] = field(default=())
    words: Sequence[int] = field(default=())  # source words, counted from 0

    def __bool__(self) -> bool:
        return bool(self.heads or self.words)


def look_inside(translator: Translator, text: str, off: SwitchedOff, beam: int | None = None) -> dict[str, Any]:
    """The translation with the weights of every layer and head; with something switched off, also what that changes.

    `changed` has the translation without the heads and words, and for each word of the full model's translation its
    probability with and without them.

    Raises:
        UserError: no words, or a head or word that does not exist.
    """
    sources = translator.read([translator.shorten(text)])
    if not sources.ids[0]:
        raise UserError("the sentence has no words; give some")
    request = translator.request(1, beam=beam)
    request.observe = lambda step: None  # through the modules, as the compiled decoders run no hooks
    full = search(request, sources, [0], 1)[0]
    tokens = full[0].tokens
    result = explained(translator, sources, full)[0]
    reduced = without_words(translator, sources, off.words)
    with torch.no_grad(), without_heads(translator.model, off.heads):
        result |= heads_of(describe(translator, reduced, [(0, full[0])], True, True)[0])
        if off:
            changed = explained(translator, reduced, search(request, reduced, [0], 1)[0])[0]
            scores_without = forced_scores(translator, reduced, [0], [tokens])[0]
    if off:
        scores_with = forced_scores(translator, sources, [0], [tokens])[0]
        forced = [Hypothesis(tokens, 0.0, 0.0, True, scores) for scores in (scores_with, scores_without)]
        words = [explained(translator, sources, [hypothesis])[0]["words"] for hypothesis in forced]
        result["changed"] = {
            "text": changed["text"],
            "words": changed["words"],
            "with": [word["probability"] for word in words[0]],
            "without": [word["probability"] for word in words[1]],
            "log_probability": [math.fsum(scores_with), math.fsum(scores_without)],
        }
    return result


def heads_of(translation: Any) -> dict[str, Any]:
    """The weights of a described translation, by kind, each (L, N, rows, columns), and the pieces they stand for."""
    source = [*piece_names(translation.source_pieces), END]
    target = [*piece_names(translation.target_pieces), END]
    kinds = {}
    for kind, weights, rows, columns in (
        ("cross", translation.layers, target, source),
        ("encoder", translation.encoder_layers, source, source),
        ("decoder", translation.decoder_layers, ["<s>", *target[:-1]], ["<s>", *target[:-1]]),
    ):
        if weights is not None:
            kinds[kind] = {"weights": np.round(weights, 3).tolist(), "rows": rows, "columns": columns}
    return {"heads": kinds}


def without_words(translator: Translator, sources: Sources, words: Sequence[int]) -> Sources:
    """The first sentence with the ids of some words replaced by that of unknown words."""
    if not words:
        return sources
    form = sources.forms[0]
    word_indices = words_of(translator.source, form.ids, form.text)[1]
    ids = [UNK if word in words else token for token, word in zip(form.ids, word_indices, strict=True)]
    return replace(sources, forms=[replace(form, ids=ids)])


def neighbours(model: Any, word: str, side: str = "source", count: int = 12) -> dict[str, Any]:
    """The tokens whose embeddings have the largest cosine with that of a word.

    Raises:
        UserError: the word has no embedding of its own, or the model none at all.
    """
    matrix, tokenizer = embeddings_of(model, side)
    ids = [index for index in tokenizer.encode(word.strip()) if index != UNK]
    if not ids:
        raise UserError(f"the model has no embedding for {word!r}; give a word of its vocabulary")
    rows = matrix.detach().float().cpu()
    unit = rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-12)
    cosine = unit @ unit[ids].mean(0)
    cosine[:4] = -2  # padding, unknown, begin and end are no words
    cosine[ids] = -2
    values, best = cosine.topk(min(count, len(cosine)))
    names = piece_names(tokenizer.pieces(best.tolist()))
    return {
        "word": word,
        "pieces": piece_names(tokenizer.pieces(ids)),
        "size": len(rows),
        "width": rows.shape[1],
        "neighbours": [
            {"word": name, "cosine": round(value, 4)}
            for name, value in zip(names, values.tolist(), strict=True)
            if value > -2
        ],
    }


def embeddings_of(model: Any, side: str) -> tuple[Tensor, Any]:
    """The embedding matrix (V, D) of a side of a translator, or of a model of texts, and its tokenizer.

    Raises:
        UserError: the model reads no tokens.
    """
    if hasattr(model, "source") and hasattr(model, "target"):
        name = "target_embedding" if side == "target" else "source_embedding"
        return getattr(model.model, name).weight, model.target if side == "target" else model.source
    tokenizer = getattr(model, "tokenizer", None)
    for module in model.model.modules():
        if tokenizer is not None and isinstance(module, nn.Embedding) and module.num_embeddings == tokenizer.size:
            return module.weight, tokenizer
    raise UserError("this model has no embeddings of words; choose a model that reads texts")
