"""The share of outputs that are right as a whole, for jobs where nearly right is wrong: dates, sums, trees, code.

    exact match = 100 / N * sum_n [output_n = reference_n], spaces at the ends and double ones aside

>>> exact_match(["1987-05-03", "357 "], ["1987-05-03", "358"]).value
50.0
"""

from __future__ import annotations

from collections.abc import Sequence

from harken.metrics.bleu import check_lines
from harken.metrics.interval import Interval, bootstrap


def exact_match(outputs: Sequence[str], references: Sequence[str]) -> Interval:
    """In percent, with its 95% interval.

    Raises:
        UserError: no lines, or not one reference for every output.
    """
    check_lines(outputs, references)
    return bootstrap([100.0 * (one.split() == other.split()) for one, other in zip(outputs, references, strict=True)])
