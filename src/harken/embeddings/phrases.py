"""Join pairs of words that are adjacent more often than by chance into phrases: `new york` -> `new_york`.

score(a, b) = (count(a b) - discount) / (count(a) count(b)) x words

A pair above the threshold is joined, from left to right. The discount, the smallest count a word may have, keeps pairs
of rare words out. Reference: Mikolov et al., 2013, "Distributed Representations of Words and Phrases", section 4.

>>> stream = np.array([0, 1, 2, 0, 1, -1, 2, 0, 1, -1], dtype=np.int32)
>>> pairs, counts = pair_counts(stream, 3)
>>> [(int(pair) // 3, int(pair) % 3, int(count)) for pair, count in zip(pairs, counts)]
[(0, 1, 3), (1, 2, 1), (2, 0, 2)]
>>> join_pairs(stream, 3, np.array([0 * 3 + 1])).tolist()
[3, 2, 3, -1, 2, 3, -1]
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.corpus import CHUNK, END


def pair_counts(stream: NDArray[np.int32], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every pair of neighbours as a x size + b, sorted, and how often it occurs."""
    pairs, counts = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for start in range(0, len(stream), CHUNK):
        codes, times = np.unique(_pairs(stream[start : start + CHUNK + 1], size), return_counts=True)
        codes, times = codes[codes >= 0], times[len(codes) - np.count_nonzero(codes >= 0) :]
        pairs, rows = np.unique(np.concatenate([pairs, codes]), return_inverse=True)
        counts = np.bincount(rows, np.concatenate([counts, times]), len(pairs)).astype(np.int64)
    return pairs, counts


def _pairs(stream: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    """The pair that begins at each position but the last; -1 across a sentence end."""
    first, second = stream[:-1].astype(np.int64), stream[1:].astype(np.int64)
    return np.where((first >= 0) & (second >= 0), first * size + second, -1)


def join_pairs(stream: NDArray[np.int32], size: int, phrases: NDArray[np.int64]) -> NDArray[np.int32]:
    """Replace the two words of each of the (sorted) pairs by one id; the first pair gets the id `size`."""
    if len(stream) < 2 or len(phrases) == 0:
        return np.array(stream)
    pairs = _pairs(stream, size)
    index = np.searchsorted(phrases, pairs).clip(max=len(phrases) - 1)
    hit = phrases[index] == pairs
    # of overlapping pairs every second one is joined: its first word already belongs to the pair before
    begins = hit & ~np.concatenate([[False], hit[:-1]])
    run_start = np.maximum.accumulate(np.where(begins, np.arange(len(hit)), 0))
    taken = hit & ((np.arange(len(hit)) - run_start) % 2 == 0)
    result = np.array(stream)
    result[:-1][taken] = (size + index[taken]).astype(np.int32)
    gone = np.concatenate([[False], taken])
    return result[~gone]


def join_phrases(
    words: list[str],
    counts: NDArray[np.int64],
    stream: NDArray[np.int32],
    stream_file: Path,
    min_count: int,
    threshold: float,
) -> tuple[list[str], NDArray[np.int32]]:
    """One pass: the words followed by the new phrases, and the stream, rewritten in its file."""
    size = len(words)
    pairs, times = pair_counts(stream, size)
    enough = times >= max(min_count, 1)
    pairs, times = pairs[enough], times[enough]
    first, second = pairs // size, pairs % size
    rare = (counts[first] < min_count) | (counts[second] < min_count)
    score = (times - min_count) / (counts[first].astype(float) * counts[second]) * counts.sum()
    pairs = pairs[(score > threshold) & ~rare]
    temporary = stream_file.with_suffix(".part")
    with temporary.open("wb") as sink:
        for start, stop in _sentence_chunks(stream):
            sink.write(join_pairs(stream[start:stop], size, pairs).tobytes())
    temporary.replace(stream_file)
    words = words + [f"{words[pair // size]}_{words[pair % size]}" for pair in pairs.tolist()]
    return words, np.memmap(stream_file, dtype=np.int32, mode="r")


def _sentence_chunks(stream: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Chunks of about `CHUNK` ids that end where a sentence does, so that no pair is split."""
    chunks, start = [], 0
    while start < len(stream):
        stop = min(start + CHUNK, len(stream))
        while stop < len(stream) and stream[stop - 1] != END:
            stop += 1
        chunks.append((start, stop))
        start = stop
    return chunks
