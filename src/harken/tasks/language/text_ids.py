r"""A text as one row of ids: every line ended by EOS where lines count, and an EOS before it all.

So a text begins as if a line had ended before it, which a model has seen often. `text_ids` takes a text as it is: a
line that is not ended gets no end.

>>> from harken.data.tokenizers.plain import PlainCharacterTokenizer
>>> tokenizer = PlainCharacterTokenizer.train(["ab"], 10)
>>> text_ids(tokenizer, "a\nb", lines=True).tolist()
[3, 4, 3, 5]
>>> text_of(tokenizer, [4, 3, 5], lines=True)
'a\nb'
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harken.data.tokenizers.base import Tokenizer
from harken.data.tokenizers.tokens import EOS


def corpus_ids(tokenizer: Tokenizer, lines: Sequence[str], ended: bool) -> np.ndarray:
    """(N,) ids of the lines of a corpus; `ended`: each has an end, else they are one running text."""
    if not ended:
        return np.array([EOS, *tokenizer.encode(" ".join(lines))], dtype=np.int64)
    rows = tokenizer.encode_all(lines)
    lengths = np.array([len(row) + 1 for row in rows], dtype=np.int64)
    ids = np.full(int(lengths.sum()) + 1, EOS, dtype=np.int64)
    inside = np.ones(len(ids), dtype=bool)
    inside[0] = False
    inside[np.cumsum(lengths)] = False
    ids[inside] = np.fromiter((index for row in rows for index in row), dtype=np.int64)
    return ids


def text_ids(tokenizer: Tokenizer, text: str, lines: bool) -> np.ndarray:
    """(N,) ids of a text, an EOS before it."""
    if not lines:
        return corpus_ids(tokenizer, text.splitlines(), ended=False)
    return corpus_ids(tokenizer, text.split("\n"), ended=True)[:-1]


def text_of(tokenizer: Tokenizer, ids: Sequence[int], lines: bool) -> str:
    """The text behind ids, without the EOS that stands before it all."""
    if not lines:
        return tokenizer.decode(list(ids))
    rows: list[list[int]] = [[]]
    for index in ids:
        if index == EOS:
            rows.append([])
        else:
            rows[-1].append(int(index))
    return "\n".join(tokenizer.decode(row) for row in rows)
