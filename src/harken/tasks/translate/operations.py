"""Operations of a served translator: n-best lists with token scores and alignments, attention, the beam's tree,
alternatives, scores of given translations, and streams."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from harken.data.tokenizers.words import words_of
from harken.errors import UserError
from harken.lazy_torch import no_grad
from harken.search.compiled import prepare
from harken.search.stored import StoredModel
from harken.tasks.translate.decoding.describing import describe
from harken.tasks.translate.decoding.searching import search
from harken.tasks.translate.translation import Translation, TranslationFigure
from harken.tasks.translate.translator import Translator

Item = dict[str, Any]  # text, and perhaps prefix, require, glossary
DIGITS = 4
KINDS = {"cross-attention": "cross", "encoder self-attention": "encoder", "decoder self-attention": "decoder"}


class TranslationOperations:
    """Operations of `harken.serving.operations`; items have a text, and perhaps prefix, require and glossary."""

    def serve_translate(self, model: Translator, items: Sequence[Item], options: dict[str, Any]) -> list[Any]:
        """The n best translations of every text.

        Options:
            nbest, search: how many, and keys of the recipe's [search] table.
            attention, alignment, tokens: what to tell of each beside its text and score.
            masked_heads: attention heads (kind, layer, head) that contribute nothing.
        """
        texts = [item["text"] for item in items]
        is_aligned = any(options.get(name) for name in ("attention", "alignment"))
        nbest = _masked_nbest if options.get("masked_heads") else _nbest
        with warnings.catch_warnings(record=True):  # a text that is too long is told in its result
            lists = nbest(model, texts, is_aligned, options, {**_constraints(items), **options.get("search", {})})
        return [
            {
                "source": item["text"],
                "hypotheses": [_written(model, translation, options) for translation in translations],
                **({"shortened": True} if translations and translations[0].source != item["text"] else {}),
            }
            for item, translations in zip(items, lists, strict=True)
        ]

    def serve_attention(self, model: Translator, items: Sequence[Item], options: dict[str, Any]) -> list[Any]:
        """The weights of every layer and head over pieces, of the translation or of a given `target`.

        Options: kind ("cross", "encoder", "decoder"), layer, head, counted from 0: only these.
        """
        results = []
        for item in items:
            if item.get("target"):
                translation = model.align(item["text"], item["target"], layers=True)
            else:
                search_options = options.get("search", {})
                translation = model.translate(item["text"], attention=True, layers=True, **search_options)
            if translation.layers is None:
                raise UserError("this model has no attention; choose one that has")
            weights = TranslationFigure(translation, layers=True).to_dict()
            weights["words"] = TranslationFigure(translation).to_dict()
            weights["layers"] = {
                KINDS[kind]: _chosen(layers, options.get("layer"), options.get("head"))
                for kind, layers in weights["layers"].items()
                if options.get("kind") in (None, KINDS[kind])
            }
            results.append(weights)
        return results

    def serve_beam(self, model: Translator, items: Sequence[Item], options: dict[str, Any]) -> list[Any]:
        """The tree of the beam, every hypothesis with the terms of its score, and why the best one won."""
        results = []
        for item in items:
            tree = model.beam(item["text"], **_constraints([item]), **options.get("search", {}))
            nodes = [
                {
                    "parent": node.parent,
                    "label": node.label,
                    "score": node.value,
                    "rank": node.rank,
                    "outcome": node.note,
                }
                for node in tree.nodes
            ]
            hypotheses = [{"text": text, "terms": dict(terms)} for text, terms in tree.hypotheses]
            results.append({"source": tree.source, "nodes": nodes, "hypotheses": hypotheses, "reason": tree.reason})
        return results

    def serve_alternatives(self, model: Translator, items: Sequence[Item], options: dict[str, Any]) -> list[Any]:
        """Translations that begin with `prefix` and go on with different tokens, each with its token scores."""
        results = []
        for item in items:
            prefix, count = item.get("prefix") or "", options.get("count", 5)
            translations = model.alternatives(item["text"], prefix, count, **options.get("search", {}))
            written = [_written(model, translation, {"tokens": True}) for translation in translations]
            results.append({"source": item["text"], "alternatives": written})
        return results

    def serve_score(self, model: Translator, items: Sequence[Item], options: dict[str, Any]) -> list[Any]:
        """The log-probability of given translations, token by token."""
        if not all(item.get("target") is not None for item in items):
            raise UserError("there is no target; give the translation of each text")
        return [
            {
                "log_probability": scored.log_probability,
                "perplexity": scored.perplexity,
                "score": scored.score,
                "tokens": [
                    {"piece": piece, "log_probability": round(value, 5)}
                    for piece, value in zip(scored.pieces, scored.token_scores, strict=True)
                ],
            }
            for scored in model.score([item["text"] for item in items], [item["target"] for item in items])
        ]

    def stream_translate(
        self, model: Translator, item: Item, options: dict[str, Any], cancelled: Callable[[], bool]
    ) -> Iterator[str]:
        """Parts of a translation, as soon as no later step can change them."""
        return model.stream(item["text"], cancelled=cancelled, **_constraints([item]), **options.get("search", {}))

    def facts(self, model: Translator) -> dict[str, Any]:
        """Whether a model attends."""
        if isinstance(model.model, StoredModel):
            return {"attends": model.model.facts["attends"]}
        try:
            return {"attends": model.align("a", "a").attention is not None}
        except UserError:
            return {"attends": False}

    def prepare_serving(self, model: Translator) -> None:
        """Load the compiled decoder before it is needed; where it has to be compiled, beside the work."""
        prepare(model.model, wait=False)


def _nbest(
    model: Translator, texts: list[str], shown: bool, options: dict[str, Any], search_options: dict[str, Any]
) -> list[list[Translation]]:
    return model.nbest(texts, options.get("nbest", 1), attention=shown, **search_options)


@no_grad
def _masked_nbest(
    model: Translator, texts: list[str], shown: bool, options: dict[str, Any], search_options: dict[str, Any]
) -> list[list[Translation]]:
    """`_nbest` without some attention heads."""
    from harken.inspection.measures.ablation import Head, without_heads

    model.build_network()
    count = options.get("nbest", 1)
    sources, request = model.read([model.shorten(text) for text in texts]), model.request(count, **search_options)
    request.observe = lambda step: None  # through the modules, as the compiled decoders run no hooks
    filled = [number for number, ids in enumerate(sources.ids) if ids]
    nbest = [[Translation(text, "", 0.0, np.zeros((0, len(text.split()))))] for text in sources.texts]
    with without_heads(model.model, [Head(*option) for option in options["masked_heads"]]):
        hypotheses = search(request, sources, filled, count)
        for number, best in zip(filled, hypotheses, strict=True):
            nbest[number] = describe(model, sources, [(number, hypothesis) for hypothesis in best], shown, False)
    return nbest


def _constraints(items: Sequence[Item]) -> dict[str, Any]:
    """Prefixes, phrases and terms of every text, where there are any."""
    given: dict[str, list[Any]] = {
        "prefix": [item.get("prefix") or "" for item in items],
        "require": [list(item.get("require") or ()) for item in items],
        "terms": [[tuple(pair) for pair in item.get("glossary") or ()] for item in items],
    }
    return {name: values for name, values in given.items() if any(values)}


def _written(model: Translator, translation: Translation, options: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"text": translation.text, "score": round(translation.score, 6)}
    if options.get("tokens"):
        ids = translation.token_ids
        words = words_of(model.target, ids, model.target.decode(ids))[1] if ids else []
        pieces = model.target.pieces(ids)
        scores = [round(value, 5) for value in translation.token_scores]
        content["tokens"] = [
            {"piece": piece, "log_probability": score, "word": word}
            for piece, score, word in zip(pieces, scores, words, strict=False)
        ]
        content["end_log_probability"] = scores[len(pieces)] if len(scores) > len(pieces) else None
        content["finished"] = len(scores) > len(pieces)
    if options.get("attention") or options.get("alignment"):
        content |= {name: getattr(translation, name) for name in ("source_words", "target_words", "unknown")}
        content["alignment"] = [[int(source), int(target)] for source, target in translation.alignment()]
    if options.get("attention"):
        content["attention"] = None if translation.attention is None else translation.attention.round(DIGITS).tolist()
    return content


def _chosen(weights: list[list[Any]], layer: int | None, head: int | None) -> list[list[Any]]:
    """[layer][head], or some of them; still lists of lists."""
    if layer is not None and layer >= len(weights):
        raise UserError(f"there is no layer {layer}; the model has {len(weights)}, counted from 0")
    layers = weights if layer is None else [weights[layer]]
    if head is not None and any(head >= len(heads) for heads in layers):
        raise UserError(f"there is no head {head}; the layer has {len(layers[0])}, counted from 0")
    return layers if head is None else [[heads[head]] for heads in layers]
