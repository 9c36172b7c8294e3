"""Metrics: how good an output is, and whether one system is truly better than another."""

from harken.metrics.alignment import (
    AlignmentScore,
    alignment_error_rate,
    alignment_score,
    links_from_attention,
    merge_subwords,
)
from harken.metrics.bleu import Score, corpus_bleu, corpus_chrf, exact_match
from harken.metrics.significance import Comparison, approximate_randomisation, compare_systems, paired_bootstrap

__all__ = [
    "AlignmentScore",
    "Comparison",
    "Score",
    "alignment_error_rate",
    "alignment_score",
    "approximate_randomisation",
    "compare_systems",
    "corpus_bleu",
    "corpus_chrf",
    "exact_match",
    "links_from_attention",
    "merge_subwords",
    "paired_bootstrap",
]
