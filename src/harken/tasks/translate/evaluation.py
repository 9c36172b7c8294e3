"""The scores of a translator on a test set: BLEU, chrF, exact match, and alignment error where gold links are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harken.data.text.dependency_heads import write_heads
from harken.data.text.pairs import Link, Pair
from harken.data.tokenizers.marks import inner_tokenizer
from harken.errors import UserError
from harken.metrics import Score, alignment_error_rate, corpus_bleu, corpus_chrf, exact_match, links_from_attention
from harken.metrics.alignment import spaced_weights
from harken.metrics.interval import Interval
from harken.metrics.significance import Comparison
from harken.tasks.scores import Metric, Scores
from harken.tasks.translate.translation import Translation

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator


@dataclass
class Evaluation:
    """Scores of one test set."""

    bleu: Score
    chrf: Score
    exact: Interval  # percent of the outputs that are right as a whole
    alignment_error: float | None  # None where no gold alignment is known or the model does not attend
    hypotheses: list[str] = field(repr=False)
    seconds: float
    references: list[str] = field(default_factory=list, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Convert the scores to values that JSON can hold."""
        return {
            "sentences": len(self.hypotheses),
            "bleu": self.bleu.value,
            "bleu_signature": self.bleu.signature,
            "chrf": self.chrf.value,
            "chrf_signature": self.chrf.signature,
            "exact_match": self.exact.value,
            "exact_match_interval": [self.exact.low, self.exact.high],
            "alignment_error": self.alignment_error,
            "seconds": self.seconds,
        }


def scores_of(result: Evaluation, comparison: Comparison | None = None) -> Scores:
    """An evaluation as `harken evaluate` shows it, with the comparison to another system."""
    exact = result.exact
    between = f"{exact.low:.2f} to {exact.high:.2f}, 95% interval"
    metrics = [
        Metric("BLEU", result.bleu.value, note=result.bleu.signature, digits=2, key="bleu"),
        Metric("chrF", result.chrf.value, note=result.chrf.signature, digits=2, key="chrf"),
        Metric("exact match", exact.value, note=f"percent right as a whole; {between}", digits=2, key="exact_match"),
    ]
    if result.alignment_error is not None:
        note = "alignment error rate, 0 is perfect"
        metrics.append(Metric("AER", result.alignment_error, note=note, key="alignment_error"))
    details = {name: value for name, value in result.to_dict().items() if name not in ("sentences", "seconds")}
    if comparison is not None:
        verdict = "significant" if comparison.significant else "not significant"
        note = f"{comparison}; {verdict}"
        metrics.append(Metric("compared", comparison.difference, note=note, digits=2, key=None, signed=True))
        details["comparison"] = {
            "bleu": comparison.b.value,
            "difference": comparison.difference,
            "interval": [comparison.low, comparison.high],
            "p_value": comparison.p_value,
            "samples": comparison.samples,
            "test": comparison.test,
        }
    outputs = result.hypotheses, result.references
    return Scores(
        len(result.hypotheses), "sentences", metrics, details=details, seconds=result.seconds, outputs=outputs
    )


def agreement_metrics(
    translator: Translator, pairs: Sequence[Pair], result: Evaluation, shortlist: int, **search: Any
) -> list[Metric]:
    """The agreement of a search with a shortlist and one of the whole vocabulary: equal translations, BLEU, tokens."""
    lines = [write_heads(pair.source, pair.heads) for pair in pairs]
    full = [translation.text for translation in translator.translate(lines, attention=False, shortlist=0, **search)]
    equal = sum(translation == hypothesis for translation, hypothesis in zip(full, result.hypotheses, strict=True))
    bleu = corpus_bleu(full, result.references).value
    joint = inner_tokenizer(translator.source) is inner_tokenizer(translator.target)
    sizes = [int(translator.shortlist.allowed([ids], shortlist, joint).sum()) for ids in translator.read(lines).ids]
    mean, size = sum(sizes) / max(1, len(sizes)), translator.target.size
    share = 100 * equal / max(1, len(full))
    note = f"percent of the translations equal those of the whole vocabulary, whose BLEU is {bleu:.2f}"
    tokens = f"tokens a sentence of {size:,}, shortlist {shortlist}"
    return [
        Metric("agreement", share, note=note, digits=2, key="shortlist_agreement"),
        Metric("shortlist", mean, note=tokens, digits=1, key="shortlist_tokens"),
    ]


def evaluate(
    translator: Translator, pairs: Sequence[Pair], translations: Sequence[Translation], seconds: float
) -> Evaluation:
    """Score translations that were made already; alignments are read on the reference translations."""
    hypotheses = [translation.text for translation in translations]
    references = [pair.target for pair in pairs]
    return Evaluation(
        corpus_bleu(hypotheses, references),
        corpus_chrf(hypotheses, references),
        exact_match(hypotheses, references),
        alignment_error(translator, pairs),
        hypotheses,
        seconds,
        references,
    )


def alignment_error(translator: Translator, pairs: Sequence[Pair], batch: int = 64) -> float | None:
    """Alignment error rate on pairs with gold links, the references read under teacher forcing.

    Gold links belong to the reference, so that is what the model is made to read; its own translation may differ.
    """
    gold = [pair for pair in pairs if pair.alignment is not None and pair.source.split() and pair.target.split()]
    if not gold:
        return None
    rates = []
    for start in range(0, len(gold), batch):
        part = gold[start : start + batch]
        lines = [write_heads(pair.source, pair.heads) for pair in part]
        aligned = translator.align_all(lines, [pair.target for pair in part])
        if aligned[0].attention is None:
            return None
        rates += [_spaced_links(translation) for translation in aligned]
    return alignment_error_rate(rates, [pair.alignment for pair in gold if pair.alignment is not None])


def _spaced_links(translation: Translation) -> list[Link]:
    """The links between what spaces divide, which are the words of gold links."""
    assert translation.attention is not None
    words = translation.target_words, translation.source_words
    return links_from_attention(spaced_weights(translation.attention, *words, translation.text, translation.source))


def as_pairs(sources: Sequence[Pair] | Sequence[str], references: Sequence[str] | None) -> list[Pair]:
    """Pairs from pairs, or from two lists of texts."""
    if references is None:
        if not all(isinstance(pair, Pair) for pair in sources):
            raise UserError("texts to evaluate need references: pass both, or a list of pairs")
        return [pair for pair in sources if isinstance(pair, Pair)]
    if len(sources) != len(references):
        raise UserError(
            f"{len(sources)} sources do not match {len(references)} references; give one reference a source"
        )
    return [Pair(str(source), reference) for source, reference in zip(sources, references, strict=True)]
