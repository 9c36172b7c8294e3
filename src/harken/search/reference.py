"""The reference backend of `harken.search.dispatch`: search over the decoder step, for any model and every option."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.search.beam import beam_search
from harken.search.greedy import greedy_search
from harken.search.hypotheses import Hypothesis

if TYPE_CHECKING:
    from harken.search.dispatch import DecodingCall


def run_reference(call: DecodingCall) -> list[list[Hypothesis]]:
    """Up to `nbest` hypotheses for each source, best first."""
    options, given = call.options, () if call.distances is None else (call.distances,)
    state = call.model.start(call.source, call.lengths, *given)
    if hasattr(state, "weights"):
        state.weights = False
    if options.beam == 1:
        found = greedy_search(
            call.model, state, call.rows, max_lengths=call.max_lengths, length_penalty=options.length_penalty
        )
        return [[hypothesis] for hypothesis in found]
    return beam_search(
        call.model,
        state,
        call.rows,
        beam=options.beam,
        nbest=call.nbest,
        length_penalty=options.length_penalty,
        max_lengths=call.max_lengths,
        stopping=options.stopping,
    )
