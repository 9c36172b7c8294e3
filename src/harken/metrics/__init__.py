"""Metrics: how good an output is, and whether one system is truly better than another."""

from harken.metrics.alignment import AlignmentScore, alignment_error_rate, alignment_score
from harken.metrics.bleu import Score, corpus_bleu, corpus_chrf
from harken.metrics.bootstrap import Comparison, paired_bootstrap
from harken.metrics.exact import exact_match
from harken.metrics.links import links_from_attention, merge_subwords

__all__ = [
    "AlignmentScore",
    "Comparison",
    "Score",
    "alignment_error_rate",
    "alignment_score",
    "corpus_bleu",
    "corpus_chrf",
    "exact_match",
    "links_from_attention",
    "merge_subwords",
    "paired_bootstrap",
]
