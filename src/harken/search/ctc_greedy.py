"""From a path of CTC to a text: the likeliest label at every frame, repeats merged, blanks dropped.

It finds the best path, which need not be the best text: several weaker paths of another text may sum to more
(`ctc_prefix.py` sums them). Reference: Graves et al. (2006), section 3.2.

>>> path = np.log(np.array([[0.1, 0.9], [0.2, 0.8], [0.9, 0.1], [0.3, 0.7]]))
>>> greedy_ctc(path)
[1, 1]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BLANK = 0


def greedy_ctc(log_probs: np.ndarray) -> list[int]:
    """The symbols of the best path through (T, V + 1)."""
    return collapse(log_probs.argmax(1).tolist())


def collapse(path: Sequence[int]) -> list[int]:
    """A path without repeats and blanks.

    >>> collapse([0, 1, 1, 0, 1, 2, 2, 0])
    [1, 1, 2]
    """
    before = [BLANK, *path][: len(path)]
    return [label for label, last in zip(path, before, strict=True) if label not in (BLANK, last)]
