"""Greedy and beam search on tensors of fixed shapes and addresses: what `harken.search.graphs` captures as CUDA graphs.

`DeviceSearch.run` computes some steps of all rows without reading anything from the device: the position, the finished
hypotheses and which rows are done are tensors. The results are those of `harken.search.greedy` (beam 1) and
`harken.search.beam`. Rows that are done are computed, and nothing of them is kept.

    tables        token, parent and log-probability of every live hypothesis at every step, read once at the end
    finished      the best finished hypotheses of each row, best first
    divisors      length ** penalty for every length, so that one captured step serves all length penalties
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from harken.data.tokenizers.tokens import BOS, PAD
from harken.search.greedy import hypotheses_of
from harken.search.hypotheses import NEG_INF, ROOT, SPECIAL_TOKENS, BestHypotheses, Hypothesis, Prefixes
from harken.search.ranking import Ranking


class StaticDecoder(Protocol):
    """The decoder step with a state of fixed shapes."""

    def step(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Tokens (R,) at position (1,) -> logits (R, V) of the next."""
        ...

    def reorder_(self, rows: Tensor) -> None:
        """Row r goes on with the hypothesis of row rows[r] (R,)."""
        ...


class Selection(Protocol):
    """The operations after a step; the kernels are in `harken.kernels.decoding.cuda.selection`."""

    def choose(self, logits: Tensor, count: int, special: Any) -> tuple[Tensor, Tensor]:
        """Logits (R, V) -> log-probabilities and ids (R, C) of the best text tokens, best first."""
        ...

    def extend_greedy(self, search: Any, values: Tensor, ids: Tensor) -> None:
        """Greedy search: append the best token of each row (B, 1)."""
        ...

    def select_beam(self, search: Any, values: Tensor, ids: Tensor) -> Tensor:
        """Beam search: keep the survivors of the best continuations (R, C); returns their parents' rows (R,)."""
        ...


class DeviceSearch:
    """The buffers of a search of `rows` sources with `beam` hypotheses each and at most `length` tokens.

    `run` computes `steps` tokens at a time, which divides `length`.
    """

    special = SPECIAL_TOKENS

    def __init__(self, rows: int, beam: int, length: int, device: torch.device, steps: int) -> None:
        self.beam, self.capacity, self.steps = beam, length, steps
        whole = {"dtype": torch.long, "device": device}
        self.lengths = torch.zeros(steps, **whole)  # type: ignore[call-overload]
        self.length = self.lengths[:1]  # (1,) tokens written before the current step
        self.tokens = torch.full((rows * beam,), BOS, **whole)  # type: ignore[call-overload]  # (R,) the last ones
        self.limit = torch.zeros(rows, **whole)  # type: ignore[call-overload]
        self.done = torch.ones(rows, dtype=torch.bool, device=device)
        self.live = torch.zeros(1, dtype=torch.int32, device=device)  # rows that are not done
        self.table = torch.full((length, 2, rows, beam), PAD, **whole)  # type: ignore[call-overload]
        self.logs = torch.zeros(length, rows, beam, device=device)
        if beam > 1:
            self.scores = torch.zeros(rows, beam, device=device)
            self.nodes = torch.full((rows, beam), ROOT, **whole)  # type: ignore[call-overload]
            self.count = torch.zeros(rows, **whole)  # type: ignore[call-overload]
            self.order = torch.zeros(rows * beam, **whole)  # type: ignore[call-overload]  # (R,) the parents' rows
            self.max_finished = torch.zeros(1, **whole)  # type: ignore[call-overload]  # finished ones that end a row
            self.worst_kept = torch.zeros(1, **whole)  # type: ignore[call-overload]  # nbest - 1, the slot that a row has to fill
            self.divisors = torch.ones(length + 2, device=device)
            self.finished = torch.full((3, rows, beam), NEG_INF, device=device)  # ranks, scores, log p(EOS)
            self.finished_nodes = torch.full((rows, beam), ROOT, **whole)  # type: ignore[call-overload]
            self.cut = torch.zeros_like(self.done)  # rows without a finished hypothesis: cut off at the limit

    def reset(self, limits: Tensor, nbest: int, penalty: float, stop_at_count: bool) -> None:
        """Before the first step; limits (B',) of the rows that are used, the first ones."""
        torch.arange(self.steps, out=self.lengths)
        self.tokens.fill_(BOS)
        self.limit.zero_()
        self.limit[: len(limits)] = limits
        torch.le(self.limit, 0, out=self.done)
        if self.beam == 1:
            return
        self.scores.fill_(NEG_INF)[:, 0] = 0.0
        self.nodes.fill_(ROOT)
        self.count.zero_()
        self.max_finished.fill_(self.beam if stop_at_count else 1 << 60)
        self.worst_kept.fill_(nbest - 1)
        powers = [float(length) ** penalty for length in range(self.capacity + 2)]
        self.divisors.copy_(torch.tensor(powers, dtype=torch.float32))
        self.finished.fill_(NEG_INF)
        self.cut.zero_()

    def run(self, decoder: StaticDecoder, selection: Selection) -> None:
        """`steps` tokens more."""
        for index in range(self.steps):
            self.length = self.lengths[index : index + 1]
            logits = decoder.step(self.tokens, self.length)
            values, ids = selection.choose(logits, 1 if self.beam == 1 else 2 * self.beam, self.special)
            if self.beam == 1:
                selection.extend_greedy(self, values, ids)
            else:
                decoder.reorder_(selection.select_beam(self, values, ids))
        self.lengths.add_(self.steps)
        torch.sum(self.done.logical_not(), 0, keepdim=True, dtype=torch.int32, out=self.live)

    def hypotheses(self, rows: int, nbest: int, penalty: float) -> list[list[Hypothesis]]:
        """The results of the first `rows` rows, best first; reads everything from the device."""
        steps = min(int(self.lengths[0]), self.capacity)
        if self.beam == 1:
            tokens, logs = self.table[:steps, 0, :rows, 0].T.cpu().numpy(), self.logs[:steps, :rows, 0].T.cpu().numpy()
            logs = np.where(tokens != PAD, logs, 0.0)
            return hypotheses_of(tokens, logs, logs.sum(1, dtype=np.float64), None, rows, Ranking(penalty))
        table = self.table[:steps].cpu()
        prefixes = Prefixes(table[:, 1].flatten(), table[:, 0].flatten(), self.logs[:steps].cpu().flatten())
        ranks, scores, ends = self.finished[:, :rows, :nbest].cpu()
        finished = self.cut[:rows, None].logical_not().expand(-1, nbest).cpu()
        nodes = self.finished_nodes[:rows, :nbest].cpu()
        best = BestHypotheses(ranks, scores, ends, torch.zeros_like(ranks), nodes, finished)
        return prefixes.hypotheses([(torch.arange(rows), best)], rows)
