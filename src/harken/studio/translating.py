"""A translation as the page shows it: words with their probabilities, what they attend to, alternatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from harken.data.tokenizers.words import words_of
from harken.errors import UserError
from harken.search.hypotheses import Hypothesis
from harken.search.streaming import CertainPrefix
from harken.tasks.translate.decoding.describing import describe
from harken.tasks.translate.decoding.searching import Request, alternatives, search

if TYPE_CHECKING:
    from harken.tasks.translate.sources import Sources
    from harken.tasks.translate.translator import Translator


@dataclass(frozen=True)
class TranslationRequest:
    """A sentence to translate, and how."""

    text: str
    beam: int | None = None
    length_penalty: float | None = None
    nbest: int = 1
    prefix: str = ""  # as the model writes it: `raw` of an earlier translation, cut at a space
    glossary: Sequence[tuple[str, str]] = field(default=())  # source term, target term

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> TranslationRequest:
        """A request of the page, whose glossary is a text.

        Raises:
            UserError: see `glossary_terms`.
        """
        return cls(**{**fields, "glossary": glossary_terms(fields["glossary"])})


def translate(
    translator: Translator,
    asked: TranslationRequest,
    emit: Callable[[str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> list[dict[str, Any]]:
    """The best translations of one sentence.

    Args:
        emit: called with the text so far whenever more of it is certain.
        cancelled: asked at every step of the search; True ends it.

    Raises:
        UserError: options that do not fit, or a glossary term that the vocabulary cannot write.
    """
    sources = translator.read([translator.shorten(asked.text)])
    if not sources.ids[0]:
        return []
    request = _request(translator, asked, cancelled)
    if emit is not None:
        restore, decode = replace(sources.forms[0], end_mark="").restore, translator.target.decode
        request.observe = CertainPrefix(lambda tokens: emit(restore(decode(tokens[:-1]))))
    hypotheses = search(request, sources, [0], asked.nbest)[0]
    return explained(translator, sources, hypotheses)


def alternatives_of(translator: Translator, asked: TranslationRequest, count: int = 6) -> list[dict[str, Any]]:
    """Translations that share the prefix and go on with different tokens, the most probable token first.

    Each has `next`, the first word after the prefix, and `probability`, that of the first token after it.
    """
    sources = translator.read([translator.shorten(asked.text)])
    if not sources.ids[0]:
        return []
    start = translator.target.encode(asked.prefix)
    hypotheses = alternatives(_request(translator, replace(asked, prefix="")), sources, start, count)
    position = len(words_of(translator.target, start, asked.prefix)[0])
    return [
        {
            **result,
            "next": result["words"][position]["text"] if position < len(result["words"]) else "",
            "probability": _probability(hypothesis.token_scores[len(start) : len(start) + 1]),
        }
        for hypothesis, result in zip(hypotheses, explained(translator, sources, hypotheses), strict=True)
    ]


def explained(translator: Translator, sources: Sources, hypotheses: Sequence[Hypothesis]) -> list[dict[str, Any]]:
    """Hypotheses of the first sentence with their words, probabilities and attention."""
    results = describe(translator, sources, [(0, hypothesis) for hypothesis in hypotheses], True, False)
    explanations = []
    for hypothesis, result in zip(hypotheses, results, strict=True):
        raw = translator.target.decode(hypothesis.tokens)
        words = [{"text": word, "probability": 1.0} for word in result.target_words]
        for position, word in enumerate(_word_scores(translator, hypothesis, raw, len(words))):
            words[position]["probability"] = _probability(word)
        explanations.append(
            {
                "source": result.source,
                "text": result.text,
                "raw": raw,
                "score": result.score,
                "source_words": [
                    {"text": word, "unknown": index in result.unknown} for index, word in enumerate(result.source_words)
                ],
                "words": words,
                "end": _probability(hypothesis.token_scores[len(hypothesis.tokens) :]) if hypothesis.finished else None,
                "attention": None if result.attention is None else result.attention.round(4).tolist(),
            }
        )
    return explanations


def glossary_terms(text: str) -> list[tuple[str, str]]:
    """The terms of the glossary box: a line each, source and target with a tab, = or → between them.

    >>> glossary_terms("black cat = minou noir\\n\\n# a comment\\nNATO → OTAN")
    [('black cat', 'minou noir'), ('NATO', 'OTAN')]

    Raises:
        UserError: a line without two sides.
    """
    terms = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        mark = next((mark for mark in ("\t", "→", "=") if mark in line), "\t")
        source, _, target = (part.strip() for part in line.partition(mark))
        if not source or not target:
            raise UserError(f"glossary, line {number}: write a source term, = and a target term")
        terms.append((source, target))
    return terms


def _request(translator: Translator, asked: TranslationRequest, cancelled: Callable[[], bool] | None = None) -> Request:
    options: dict[str, Any] = {"beam": asked.beam, "length_penalty": asked.length_penalty}
    terms = [asked.glossary]  # of the one sentence
    return translator.request(asked.nbest, prefix=asked.prefix, cancelled=cancelled, terms=terms, **options)


def _word_scores(translator: Translator, hypothesis: Hypothesis, raw: str, count: int) -> list[list[float]]:
    """The log-probabilities of the tokens of each word."""
    scores: list[list[float]] = [[] for _ in range(count)]
    word_indices = words_of(translator.target, hypothesis.tokens, raw)[1]
    for word, score in zip(word_indices, hypothesis.token_scores, strict=False):
        if 0 <= word < count:
            scores[word].append(score)
    return scores


def _probability(scores: Sequence[float]) -> float:
    return round(math.exp(min(0.0, math.fsum(scores))), 4)
