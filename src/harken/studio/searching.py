"""The beam of one sentence as data: nodes step by step, and the score of each hypothesis split into its terms."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from harken.data.tokenizers.tokens import EOS
from harken.errors import UserError
from harken.search.reference import ranking_of
from harken.search.tree import BeamRecorder, beam_tree, terms_of
from harken.tasks.translate.beam_tree import JOINER, why
from harken.tasks.translate.searching import search

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator


def beam_of(translator: Translator, text: str, **options: Any) -> dict[str, Any]:
    """Every prefix that was in the beam, with its parent, step and outcome; the hypotheses with their terms.

    Raises:
        UserError: no words, or options that do not fit.
    """
    sources = translator.read([translator.shorten(text)])
    if not sources.ids[0]:
        raise UserError("the sentence has no words; give some")
    request = translator.request(1, **options)
    recorder = BeamRecorder()
    request.observe = recorder
    found = search(request, sources, [0], request.config.beam, keep_beam=True)[0]
    nodes = beam_tree(recorder, found)
    names = translator.target.pieces([node.token for node in nodes])
    steps: list[int] = []
    shown = []
    for node, name in zip(nodes, names, strict=True):
        steps.append(steps[node.parent] + 1 if node.parent >= 0 else 1)
        shown.append(
            {
                "parent": node.parent,
                "step": steps[-1],
                "text": "</s>" if node.token == EOS else name.replace(JOINER, "") or name,
                "log_probability": round(node.log_probability, 4),
                "total": round(node.total, 4),
                "outcome": node.outcome,
            }
        )
    ranking = ranking_of(request.config)
    terms = [terms_of(one, ranking) for one in found]
    texts = [translator.target.decode(one.tokens) for one in found]
    return {
        "source": sources.texts[0],
        "beam": request.config.beam,
        "length_penalty": request.config.length_penalty,
        "nodes": shown,
        "hypotheses": [
            {"text": text, "tokens": len(one.tokens), "finished": one.finished, **asdict(term)}
            for text, one, term in zip(texts, found, terms, strict=True)
        ],
        "reason": why(texts, terms, found),
    }
