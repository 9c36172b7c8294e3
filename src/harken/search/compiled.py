"""The compiled backend of `harken.search.dispatch`: greedy and beam search of encoder-decoders on a CPU.

Decoders are Transformers or recurrent. The kernels are in `harken.kernels.decoding`; the reference, whose tokens they
give, is `harken.search.reference`. They support the options of `SUPPORTED` and a shortlist; other calls are left to the
reference.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harken.errors import UserError
from harken.kernels.decoding import backend
from harken.kernels.settings import kernels_enabled
from harken.search.config import SearchOptions
from harken.search.hypotheses import Hypothesis
from harken.search.reference import run_reference
from harken.search.rules.penalties import Shortlist

if TYPE_CHECKING:
    from harken.kernels.decoding.search import Found
    from harken.search.dispatch import DecodingCall


SUPPORTED = {"beam", "length_penalty", "length_rule", "stopping", "patience", "min_length", "precision"} | {
    *("seed", "diversity"),  # without effect in these searches
}


def supports_compiled(call: DecodingCall) -> bool:
    """Greedy and beam search by length, with a Transformer or recurrent decoder in float32 on a CPU.

    Raises:
        UserError: int8 is demanded of a call that is not supported.
    """
    supported = _is_supported(call)
    if call.options.precision == "int8" and not supported:
        raise UserError(
            'search.precision is "int8", which needs a Transformer or recurrent decoder of the kinds in '
            "docs/decoding.md on a CPU, and greedy or beam search without further options; "
            'choose "auto" for int8 where it is supported, or "float32".'
        )
    return supported


def _is_supported(call: DecodingCall) -> bool:
    options, fields = call.options, SearchOptions.model_fields
    if call.cancelled or call.observe or call.keep_beam or call.distances is not None:
        return False
    if len(call.rules) > 1 or not all(isinstance(rule, Shortlist) for rule in call.rules):
        return False
    others = fields.keys() - SUPPORTED
    if options.stopping == "first" or any(getattr(options, name) != fields[name].default for name in others):
        return False
    if not 1 <= call.nbest <= options.beam:
        return False
    if call.source.device.type != "cpu" or call.source.dim() != 2 or call.source.is_floating_point():
        return False
    described = backend.describe(call.model)
    if described is None or len(described.target_embedding) < 2 * options.beam + 3:
        return False
    if call.rules and int(call.rules[0].allowed.sum(-1).min()) < 2 * options.beam + 3:
        return False
    lengths = torch.as_tensor(call.max_lengths)
    if int(lengths.min()) < 1 or (call.lengths is not None and int(call.lengths.min()) < 1):
        return False
    return backend.is_short_enough(described, call.source.shape[1], int(lengths.max()))


def prepare(model: Any) -> None:
    """Load or compile the kernels now where they support the model, instead of once that is worth it."""
    described = backend.describe(model) if kernels_enabled() else None
    if described is not None and not backend.is_ready(backend.kind_of(described)):
        try:
            backend.prepare(backend.kind_of(described))
        except Exception as error:  # such as a compiler that does not know this CPU: the reference still works
            warnings.warn(f"the compiled decoder is not available, decoding is slower: {error}", stacklevel=2)


def run_compiled(call: DecodingCall) -> list[list[Hypothesis]]:
    """Up to `nbest` hypotheses for each source, best first; on the reference while loading the kernels costs more."""
    options = call.options
    precision = "int8" if options.precision == "auto" else options.precision
    kind = backend.kind_of(backend.describe(call.model))
    if precision == "float32" and not backend.is_ready(kind):
        return backend.timed(lambda: run_reference(call), kind)
    parts = backend.run(
        call.model,
        call.source,
        call.lengths,
        torch.as_tensor(call.max_lengths).expand(call.rows).numpy(),
        beam=options.beam,
        nbest=call.nbest,
        penalty=options.length_penalty,
        gnmt=options.length_rule == "gnmt",
        enough=options.beam * options.patience if options.stopping == "count" else math.inf,
        min_length=options.min_length,
        precision=precision,
        allowed=call.rules[0].allowed.expand(call.rows, -1).numpy() if call.rules else None,
    )
    if parts is None:
        raise UserError("The model's logits are not finite numbers; its training has diverged.")
    return [hypotheses for part in parts for hypotheses in _hypotheses(part)]


def _hypotheses(found: Found) -> list[list[Hypothesis]]:
    rows = []
    for row, lengths in enumerate(found.lengths):
        best = []
        for slot in np.flatnonzero(lengths >= 0):
            length, finished = int(lengths[slot]), bool(found.finished[row, slot])
            best.append(
                Hypothesis(
                    tokens=found.tokens[row, slot, :length].tolist(),
                    score=float(found.scores[row, slot]),
                    normalised=float(found.normalised[row, slot]),
                    finished=finished,
                    token_scores=found.logs[row, slot, : length + finished].tolist(),
                )
            )
        rows.append(best)
    return rows
