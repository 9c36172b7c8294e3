"""The beam of one sentence as the page shows it: nodes step by step, and the terms of every score."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from harken.tasks.translate.decoding.beam_tree import record_beam

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator


def beam_of(translator: Translator, text: str, **options: Any) -> dict[str, Any]:
    """Every prefix that was in the beam, with its parent, step and outcome; the hypotheses with their terms.

    Raises:
        UserError: no words, or options that do not fit.
    """
    record = record_beam(translator, translator.shorten(text), translator.request(1, **options))
    nodes: list[dict[str, Any]] = []
    for node, label in zip(record.nodes, record.labels, strict=True):
        nodes.append(
            {
                "parent": node.parent,
                "step": nodes[node.parent]["step"] + 1 if node.parent >= 0 else 1,
                "text": label,
                "log_probability": round(node.log_probability, 4),
                "total": round(node.total, 4),
                "outcome": node.outcome,
            }
        )
    return {
        "source": record.source,
        "beam": record.config.beam,
        "length_penalty": record.config.length_penalty,
        "nodes": nodes,
        "hypotheses": [
            {"text": text, "tokens": len(hypothesis.tokens), "finished": hypothesis.finished, **asdict(terms)}
            for text, hypothesis, terms in zip(record.texts, record.hypotheses, record.terms, strict=True)
        ],
        "reason": record.reason,
    }
