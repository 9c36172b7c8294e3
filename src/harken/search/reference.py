"""The reference backend of `harken.search.dispatch`: search over the decoder step, for any model and every option."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from harken.search.beam import beam_search
from harken.search.hypotheses import Hypothesis
from harken.search.independent import independent_search
from harken.search.ranking import Ranking

if TYPE_CHECKING:
    from harken.search.dispatch import DecodingCall


def run_reference(call: DecodingCall) -> list[list[Hypothesis]]:
    """Up to `nbest` hypotheses for each source, best first."""
    options, given = call.options, () if call.distances is None else (call.distances,)
    longest = int(torch.as_tensor(call.max_lengths).max())
    state = call.model.start(call.source, call.lengths, *given, max_length=longest)
    ranking = Ranking(options.length_penalty)
    if options.beam == 1:
        return independent_search(call.model, state, call.rows, max_lengths=call.max_lengths, ranking=ranking)
    return beam_search(
        call.model,
        state,
        call.rows,
        beam=options.beam,
        nbest=call.nbest,
        max_lengths=call.max_lengths,
        stopping=options.stopping,
        ranking=ranking,
    )
