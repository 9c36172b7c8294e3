"""Log-sum-exp and the best tokens against torch, with ties and excluded tokens; draws."""

import numpy as np
import pytest
import torch

from harken.data.tokenizers.tokens import BOS, EOS, PAD
from harken.kernels.decoding.description import Linear
from harken.kernels.decoding.products import COLUMNS, aligned
from harken.kernels.decoding.sampling import draw
from harken.kernels.decoding.search import Rules
from harken.kernels.decoding.stack import new_buffers
from harken.kernels.decoding.topk import most_probable
from harken.kernels.decoding.weights import pack
from harken.search.hypotheses import SPECIAL_TOKENS, continuations


def best(logits, count, no_end=False, panels=1):
    """The kernel on an output layer with these logits: they are its weights, and the inputs are unit vectors."""
    rows = len(logits)
    packed = pack([Linear(logits.T.contiguous(), None, is_output=True)], [], "float32")
    buffers = new_buffers(rows, rows, rows, rows)
    for row in range(rows):
        buffers.values[row, row] = 1
    logs, ids = np.empty((rows, count), np.float32), np.empty((rows, count), np.int64)
    chunk = aligned(rows, panels * COLUMNS)
    finite = most_probable(packed, 0, buffers, rows, count, chunk, logs, ids, np.full(rows, no_end), SPECIAL_TOKENS)
    return torch.from_numpy(logs), torch.from_numpy(ids), finite


def expected(logits, count, excluded):
    logs = logits.log_softmax(-1)
    logs[:, excluded] = -torch.inf
    return continuations(logs, count)


@pytest.mark.parametrize("panels", [1, 3])
@pytest.mark.parametrize("vocabulary", [20, 64, 65, 700])
def test_equals_torch(vocabulary, panels):
    torch.manual_seed(0)
    logits = torch.randn(5, vocabulary) * 4
    logits[0, [PAD, BOS]] = 50  # the most probable, but no text
    logits[1, EOS] = 50
    for no_end in (False, True):
        logs, ids, finite = best(logits, 8, no_end, panels)
        wanted, wanted_ids = expected(logits, 8, [PAD, BOS, *([EOS] * no_end)])
        assert finite and ids.tolist() == wanted_ids.tolist()
        torch.testing.assert_close(logs, wanted, atol=1e-5, rtol=1e-5)


def test_of_equals_the_lower_id_comes_first():
    logits = torch.zeros(1, 300)
    logits[0, [250, 90, 7]] = 1.0
    assert best(logits, 6)[1].tolist() == [[7, 90, 250, 1, 3, 4]]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_are_found(value):
    logits = torch.randn(2, 100)
    logits[1, 70] = value
    assert not best(logits, 3)[2]


@pytest.mark.parametrize("width", [8, 16, 48, 80])  # panels are 8 columns wide without AVX, 16 with AVX2
def test_a_draw_reads_nothing_behind_the_panels(width):
    rules, none = Rules(SPECIAL_TOKENS, 1, 1, 1.0, sample=True), np.empty(0)
    tokens = []
    for token in range(width):
        memory = np.full(64 + width + 64, np.nan, np.float32)
        line = memory[64 : 64 + width]
        line[:] = 0.0
        tokens.append(draw(line, rules, (token + 0.5) / width, none.astype(np.float32), none.astype(np.int64)))
    assert tokens == list(range(width))
