"""Translators: n-best lists with token scores and alignments, attention, the beam's tree, alternatives, streams."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from harken.errors import UserError
from harken.tasks.translate.describing import describe
from harken.tasks.translate.glossary import Term, matches
from harken.tasks.translate.searching import search
from harken.tasks.translate.translation import Translation, TranslationFigure
from harken.tasks.translate.translator import Translator

Item = dict[str, Any]  # text, and perhaps prefix, require, glossary
DIGITS = 4
KINDS = {"cross-attention": "cross", "encoder self-attention": "encoder", "decoder self-attention": "decoder"}


def translate(model: Translator, items: Sequence[Item], options: dict[str, Any]) -> list[Any]:
    """The n best translations of every text.

    Options:
        nbest, search: how many, and keys of the recipe's [search] table.
        attention, alignment, tokens: what to tell of each beside its text and score.
        masked_heads: attention heads (kind, layer, head) that contribute nothing.
    """
    texts = [item["text"] for item in items]
    shown = any(options.get(what) for what in ("attention", "alignment"))
    nbest = _masked_nbest if options.get("masked_heads") else _nbest
    with warnings.catch_warnings(record=True):  # a text that is too long is told in its result
        found = nbest(model, texts, shown, options, {**_constraints(items), **options.get("search", {})})
    return [
        {
            "source": item["text"],
            "hypotheses": [_written(model, one, options) for one in best],
            **({"shortened": True} if best and best[0].source != item["text"] else {}),
        }
        for item, best in zip(items, found, strict=True)
    ]


def _nbest(
    model: Translator, texts: list[str], shown: bool, options: dict[str, Any], search_options: dict[str, Any]
) -> list[list[Translation]]:
    return model.nbest(texts, options.get("nbest", 1), attention=shown, **search_options)


@torch.no_grad()
def _masked_nbest(
    model: Translator, texts: list[str], shown: bool, options: dict[str, Any], search_options: dict[str, Any]
) -> list[list[Translation]]:
    """`_nbest` without some attention heads."""
    from harken.inspection.measures.ablation import Head, without_heads

    count = options.get("nbest", 1)
    sources, request = model.read([model.shorten(text) for text in texts]), model.request(count, **search_options)
    request.observe = lambda step: None  # through the modules, as the compiled decoders run no hooks
    filled = [number for number, ids in enumerate(sources.ids) if ids]
    found = [[Translation(text, "", 0.0, np.zeros((0, len(text.split()))))] for text in sources.texts]
    with without_heads(model.model, [Head(*one) for one in options["masked_heads"]]):
        hypotheses = search(request, sources, filled, count)
        for number, best in zip(filled, hypotheses, strict=True):
            found[number] = describe(model, sources, [(number, one) for one in best], shown, False)
    return found


def _constraints(items: Sequence[Item]) -> dict[str, Any]:
    """Prefixes and phrases of every text, where there are any."""
    prefixes = [item.get("prefix") or "" for item in items]
    phrases = [_phrases(item) for item in items]
    found: dict[str, Any] = {}
    if any(prefixes):
        found["prefix"] = prefixes
    if any(phrases):
        found["require"] = phrases
    return found


def _phrases(item: Item) -> list[str]:
    terms = [Term(*pair) for pair in item.get("glossary") or ()]
    return [forms[0] for forms in matches(item["text"], terms)] + list(item.get("require") or ())


def _written(model: Translator, one: Translation, options: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"text": one.text, "score": round(one.score, 6)}
    if options.get("tokens"):
        words = model.target.word_of(one.token_ids, model.target.decode(one.token_ids)) if one.token_ids else []
        pieces = model.target.pieces(one.token_ids)
        scores = [round(value, 5) for value in one.token_scores]
        found["tokens"] = [
            {"piece": piece, "log_probability": score, "word": word}
            for piece, score, word in zip(pieces, scores, words, strict=False)
        ]
        found["end_log_probability"] = scores[len(pieces)] if len(scores) > len(pieces) else None
        found["finished"] = len(scores) > len(pieces)
    if options.get("attention") or options.get("alignment"):
        found |= {"source_words": one.source_words, "target_words": one.target_words, "unknown": one.unknown}
        found["alignment"] = [[int(source), int(target)] for source, target in one.alignment()]
    if options.get("attention"):
        found["attention"] = None if one.attention is None else one.attention.round(DIGITS).tolist()
    return found


def attention(model: Translator, items: Sequence[Item], options: dict[str, Any]) -> list[Any]:
    """The weights of every layer and head over pieces, of the translation or of a given `target`.

    Options: kind ("cross", "encoder", "decoder"), layer, head, counted from 0: only these.
    """
    results: list[Any] = []
    for item in items:
        text, target = item["text"], item.get("target")
        try:
            if target:
                best = model.align(text, target, layers=True)
            else:
                best = model.translate(text, attention=True, layers=True, **options.get("search", {}))
            if best.layers is None:
                raise UserError("this model has no attention; choose one that has")
            found = TranslationFigure(best, layers=True).to_dict()
            found["words"] = TranslationFigure(best).to_dict()
            found["layers"] = {
                KINDS[kind]: _chosen(weights, options.get("layer"), options.get("head"))
                for kind, weights in found["layers"].items()
                if options.get("kind") in (None, KINDS[kind])
            }
            results.append(found)
        except UserError as error:
            results.append(error)
    return results


def _chosen(weights: list[list[Any]], layer: int | None, head: int | None) -> list[list[Any]]:
    """[layer][head], or some of them; still lists of lists."""
    if layer is not None and layer >= len(weights):
        raise UserError(f"there is no layer {layer}; the model has {len(weights)}, counted from 0")
    layers = weights if layer is None else [weights[layer]]
    if head is not None and any(head >= len(heads) for heads in layers):
        raise UserError(f"there is no head {head}; the layer has {len(layers[0])}, counted from 0")
    return layers if head is None else [[heads[head]] for heads in layers]


def beam(model: Translator, items: Sequence[Item], options: dict[str, Any]) -> list[Any]:
    """The tree of the beam, every hypothesis with the terms of its score, and why the best one won."""
    results: list[Any] = []
    for item in items:
        try:
            picture = model.beam(item["text"], **_constraints([item]), **options.get("search", {}))
        except UserError as error:
            results.append(error)
            continue
        nodes = [
            {"parent": node.parent, "label": node.label, "score": node.value, "rank": node.rank, "outcome": node.note}
            for node in picture.nodes
        ]
        hypotheses = [{"text": text, "terms": dict(terms)} for text, terms in picture.hypotheses]
        results.append({"source": picture.source, "nodes": nodes, "hypotheses": hypotheses, "reason": picture.reason})
    return results


def alternatives(model: Translator, items: Sequence[Item], options: dict[str, Any]) -> list[Any]:
    """Translations that begin with `prefix` and go on with different tokens, each with its token scores."""
    results: list[Any] = []
    for item in items:
        try:
            found = model.alternatives(
                item["text"], item.get("prefix") or "", options.get("count", 5), **options.get("search", {})
            )
            results.append(
                {"source": item["text"], "alternatives": [_written(model, one, {"tokens": True}) for one in found]}
            )
        except UserError as error:
            results.append(error)
    return results


def score(model: Translator, items: Sequence[Item], options: dict[str, Any]) -> list[Any]:
    """The log-probability of given translations, token by token."""
    found = model.score([item["text"] for item in items], [item["target"] for item in items])
    return [
        {
            "log_probability": one.log_probability,
            "perplexity": one.perplexity,
            "score": one.score,
            "tokens": [
                {"piece": piece, "log_probability": round(value, 5)}
                for piece, value in zip(one.pieces, one.token_scores, strict=True)
            ],
        }
        for one in found
    ]


def stream_translate(
    model: Translator, item: Item, options: dict[str, Any], cancelled: Callable[[], bool]
) -> Iterator[dict[str, Any]]:
    """{"text": part} as soon as no later step can change it; parts put together are the translation."""
    for part in model.stream(item["text"], cancelled=cancelled, **_constraints([item]), **options.get("search", {})):
        if part:
            yield {"text": part}
