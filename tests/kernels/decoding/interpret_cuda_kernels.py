"""The GPU kernels of a decoder step in Triton's interpreter, against plain operators.

Started by test_cuda_kernels.py with TRITON_INTERPRET=1, which has to be set before a kernel is imported.
"""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor

from harken.data.tokenizers.tokens import BOS, EOS, PAD
from harken.kernels.decoding.cuda import attention, choosing, linear, recurrent
from harken.kernels.decoding.cuda.step import TransformerStep
from harken.models.build import build_model
from harken.models.config import RecurrentConfig, TransformerConfig
from harken.search.config import SearchOptions
from harken.search.dispatch import DecodingCall, run_reference
from harken.search.graphs import GraphSearch, PlainStep, describe, shape_of
from harken.search.hypotheses import SPECIAL_TOKENS, continuations

VOCABULARY, SOURCES, WORDS, LENGTH = 40, 2, 5, 4
TRANSFORMER = TransformerConfig(layers=1, width=32, heads=2, feedforward=32, dropout=0.0)
RECURRENT = (
    (1, RecurrentConfig(embedding=12, width=20, cell="gru", attention="scaled", input_feeding=False)),
    (3, RecurrentConfig(embedding=12, width=20, tied="all")),
    (3, RecurrentConfig(embedding=12, width=20, cell="gru", layers=2, attention="dot", context_to="all")),
)


def logits_of(beam: int, interpreted: bool, dtype: torch.dtype, **options: str) -> Tensor:
    """(T, R, V) of some steps with hypotheses that change places."""
    attention.INTERPRETED = interpreted
    torch.manual_seed(beam)
    config = TransformerConfig(layers=2, width=48, heads=3, feedforward=72, dropout=0.0, **options)
    model = build_model(config, VOCABULARY, VOCABULARY).eval().to(dtype)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    described = model.describe_for_decoding(device=None)
    step = TransformerStep(described, SOURCES, beam, LENGTH, WORDS)
    step.load(torch.randn(SOURCES, WORDS, 48, dtype=dtype), torch.tensor([5, 3]))
    found = []
    for time in range(LENGTH):
        tokens = torch.randint(0, VOCABULARY, (SOURCES * beam,))
        found.append(step.step(tokens, torch.tensor([time])).float())
        if beam > 1:
            step.reorder_((torch.randint(0, beam, (SOURCES, beam)) + torch.arange(SOURCES)[:, None] * beam).flatten())
    return torch.stack(found)


def check_search(beam: int, config: TransformerConfig | RecurrentConfig, longest: int, stopping: str) -> int:
    """Whole searches, whose rows end at different times; returns how many hypotheses have ended."""
    torch.manual_seed(7)
    model = build_model(config, VOCABULARY, VOCABULARY).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5).add_(0.1 * torch.randn_like(weight))
    model.output_weight.data *= 2.0
    model.output_weight.data[EOS] *= 2.0
    source, finished = torch.randint(4, VOCABULARY, (2, 5)), 0
    options = SearchOptions(beam=beam, stopping=stopping)
    call = DecodingCall(model, source, torch.tensor([5, 2]), torch.tensor([longest, 3]), options, min(2, beam))
    attention.INTERPRETED = True
    search = GraphSearch([model], [describe(model)], shape_of(call), source.device)
    assert not isinstance(search.decoder, PlainStep)
    found, wanted = search.run([model], call), run_reference(call)
    assert [[one.tokens for one in row] for row in found] == [[one.tokens for one in row] for row in wanted]
    for one, other in zip(chain(*found), chain(*wanted), strict=True):
        assert one.finished == other.finished and abs(one.normalised - other.normalised) < 1e-4
        assert torch.allclose(torch.tensor(one.token_scores), torch.tensor(other.token_scores), atol=1e-4)
        finished += one.finished
    return finished


@torch.inference_mode()
def main() -> None:
    """Steps of few and of many rows, both norms, two dtypes; then the choice of tokens."""
    linear.PROGRAMS = recurrent.PROGRAMS = 4  # each takes the interpreter milliseconds
    low = torch.bfloat16, 6e-2
    for beam, options in ((1, {}), (3, {"positions": "learned"}), (5, {}), (3, {"norm": "post", "activation": "gelu"})):
        for dtype, bound in ((torch.float32, 2e-5), *([low] if beam == 5 else [])):
            plain, kernels = (logits_of(beam, on, dtype, **options) for on in (False, True))
            error = float((plain - kernels).norm() / plain.norm())
            assert error < bound, (beam, options, dtype, error)
    choosing.BLOCK, choosing.GROUP = 64, 8
    logits = torch.randn(3, 150)
    logits[1, 100], logits[1, 10] = 9.0, 9.0  # of equals the lower id comes first
    logits[2, [0, 2]] = 20.0  # padding and BOS are never chosen
    excluded = logits.log_softmax(-1)
    excluded[:, [PAD, BOS]] = -torch.inf
    for count in (1, 6):
        values, ids = choosing.choose(logits, count, SPECIAL_TOKENS)
        wanted, wanted_ids = continuations(excluded, count)
        assert torch.allclose(values, wanted, atol=1e-5)
        assert torch.equal(ids[[0, 2]], wanted_ids[[0, 2]])
        assert ids[1, :2].tolist() == [10, 100][:count]
    ended = sum(check_search(beam, TRANSFORMER, 8, stopping) for beam, stopping in ((1, "count"), (3, "exact")))
    ended += sum(check_search(beam, config, 4, "exact") for beam, config in RECURRENT)
    assert ended, "no hypothesis ended, so that nothing was tested"
    logits[0, 7] = torch.nan
    assert bool(choosing.choose(logits[:1], 2, SPECIAL_TOKENS)[0].isnan().all())
    print("equal")


if __name__ == "__main__":
    main()
