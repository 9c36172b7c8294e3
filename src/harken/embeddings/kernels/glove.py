"""GloVe's steps on a run of pairs, compiled: AdaGrad, the vector and its sums of squares in one row.

    d = w_i . c_j + b_i + b_j - log x        loss = f(x) d^2
    g = rate f(x) d       w_i -= g c_j / sqrt(G_i)       c_j -= g w_i / sqrt(H_j)      then G_i += (g c_j)^2 ...

Definition: `harken.embeddings.glove.reference.step`. Reference: Pennington, Socher and Manning, 2014, "GloVe: Global
Vectors for Word Representation"; sums of squares begin at 1 and take in the rate, as in their program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harken.embeddings.kernels.word2vec_step import compiled


@compiled
def train_pairs(
    rows: Any, columns: Any, logs: Any, weights: Any, start: Any, stop: Any, words: Any, contexts: Any, rate: Any
) -> Any:
    """Train on the pairs from start to stop; the summed loss.

    `words` and `contexts` are (V, 2, D + 1, padded): vector and bias, then the sums of squares of both. The bias of
    either meets a 1 that is nowhere kept, so it has its own lines here.
    """
    width = words.shape[2] - 1  # the last number is the bias; the padding before it is 0 on both sides and stays so
    zero = np.float32(0)
    loss = 0.0
    for pair in range(start, stop):
        i, j = rows[pair], columns[pair]
        product = zero
        for d in range(width):
            product += words[i, 0, d] * contexts[j, 0, d]
        difference = product + words[i, 0, width] + contexts[j, 0, width] - logs[pair]
        part = weights[pair] * difference
        loss += np.float64(part) * np.float64(difference)
        part *= rate
        for d in range(width):
            for_word = part * contexts[j, 0, d]
            for_context = part * words[i, 0, d]
            words[i, 0, d] -= for_word / np.sqrt(words[i, 1, d])
            contexts[j, 0, d] -= for_context / np.sqrt(contexts[j, 1, d])
            words[i, 1, d] += for_word * for_word
            contexts[j, 1, d] += for_context * for_context
        words[i, 0, width] -= part / np.sqrt(words[i, 1, width])
        contexts[j, 0, width] -= part / np.sqrt(contexts[j, 1, width])
        words[i, 1, width] += part * part
        contexts[j, 1, width] += part * part
    return loss
