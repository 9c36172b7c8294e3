"""Greedy search, sampling and beam search on tensors of fixed shapes and addresses, to be captured as CUDA graphs.

`DeviceSearch.run` computes some steps of all rows without reading anything from the device: the position, the finished
hypotheses and which rows are done are tensors. The results are those of `harken.search.greedy` and
`harken.search.beam`. Rows that are done are computed, and nothing of them is kept.

    tables        token, parent and log-probability of every live hypothesis at every step, read once at the end
    finished      the best finished hypotheses of each row, best first: ranks, scores, log p(EOS), coverage terms
    divisors      the penalty of every length and, in `rewards`, what is added for it: values of options lie on the
                  device, so that one captured step serves all of them
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from harken.data.tokenizers.tokens import BOS, EOS, PAD
from harken.search.config import SearchOptions
from harken.search.device_rules import DeviceRules
from harken.search.greedy import hypotheses_of
from harken.search.hypotheses import NEG_INF, ROOT, SPECIAL_TOKENS, BestHypotheses, Hypothesis, Prefixes
from harken.search.ranking import LEAST_COVERAGE, Ranking, ranking_of


class StaticDecoder(Protocol):
    """The decoder step with a state of fixed shapes."""

    def step(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Tokens (R,) at position (1,) -> logits (R, V) of the next."""
        ...

    def reorder_(self, rows: Tensor) -> None:
        """Row r goes on with the hypothesis of row rows[r] (R,)."""
        ...

    attention: Tensor | None  # (R, S) of the last step, where it was asked for


class Selection(Protocol):
    """The operations after a step; the kernels are in `harken.kernels.decoding.cuda.selection`."""

    choose: Callable[..., tuple[Tensor, Tensor]]
    choose_scored: Callable[..., tuple[Tensor, Tensor, Tensor]]
    apply_rules: Callable[..., None]
    mix: Callable[..., None]
    draw: Callable[..., tuple[Tensor, Tensor, Tensor]]
    extend: Callable[..., None]
    select_beam: Callable[..., Tensor]


@dataclass(frozen=True)
class Form:
    """What a captured search is made for, beside its sizes."""

    competes: bool  # beam search; otherwise rows go on alone, greedily
    draws: bool = False  # or drawn at random
    groups: int = 1
    covers: bool = False  # ranks have a term for the coverage of the source


class SamplingSettings:
    """The options of sampling and the numbers of the sources, for kernels."""

    def __init__(self, sources: int, device: torch.device) -> None:
        self.settings = torch.zeros(3, device=device)  # temperature, top-p, min-p
        self.most = torch.zeros(1, dtype=torch.long, device=device)  # k of top-k
        self.seed = torch.zeros(1, dtype=torch.long, device=device)
        self.numbers = torch.zeros(sources, dtype=torch.long, device=device)

    def load(self, options: SearchOptions, rows: Tensor | None, sources: int) -> None:
        """The values of a call."""
        top_p = 1.0 if options.top_p is None else options.top_p
        self.settings.copy_(torch.tensor([options.temperature, top_p, options.min_p or 0.0]))
        self.most.fill_(options.top_k or 2**31 - 1)
        self.seed.fill_(options.seed)
        self.numbers[:sources] = torch.arange(sources) if rows is None else rows


class Coverage:
    """Sums of the attention (R, S) to sources of at most `words` words, and the coverage term of each hypothesis."""

    def __init__(self, sources: int, beam: int, words: int, device: torch.device) -> None:
        self.sums = torch.zeros(sources * beam, words, device=device)
        self.term = torch.zeros(sources * beam, device=device)  # of `harken.search.ranking`
        self.padding = torch.ones(sources, 1, words, dtype=torch.bool, device=device)
        self.penalty = torch.zeros(1, device=device)

    def load(self, penalty: float, lengths: Tensor) -> None:
        """The value of a call, and the lengths (B',) of its sources."""
        self.sums.zero_()
        self.penalty.fill_(penalty)
        words = torch.arange(self.padding.shape[2], device=lengths.device)
        self.padding[: len(lengths), 0] = words >= lengths[:, None]

    def add(self, attention: Tensor, order: Tensor, done: Tensor | None) -> Tensor:
        """The term (R,) with the attention of a step, after which row r continues row order[r] of the step before."""
        weights = attention.float() if done is None else attention.float().masked_fill(done[:, None], 0.0)
        self.sums.copy_(self.sums.index_select(0, order) + weights)
        logs = self.sums.clamp(LEAST_COVERAGE, 1.0).log().view(len(self.padding), -1, self.sums.shape[1])
        self.term.copy_(self.penalty * logs.masked_fill(self.padding, 0.0).sum(2).flatten())
        return self.term


class DeviceSearch:
    """The buffers of a search of `sources` sources with `beam` hypotheses each and at most `length` tokens.

    `run` computes `steps` tokens at a time, which divides `length`. Rows are sources where hypotheses compete, and
    otherwise hypotheses: there are `width` hypotheses in a row.
    """

    special = SPECIAL_TOKENS

    def __init__(
        self,
        sources: int,
        beam: int,
        length: int,
        device: torch.device,
        steps: int,
        form: Form | None = None,
        rules: DeviceRules | None = None,
        words: int = 0,
    ) -> None:
        form = form or Form(beam > 1)
        self.beam, self.capacity, self.steps, self.form, self.rules = beam, length, steps, form, rules
        self.groups, self.width = form.groups, beam if form.competes else 1
        rows, width = sources * beam // self.width, self.width
        whole: dict[str, Any] = {"dtype": torch.long, "device": device}
        self.lengths = torch.zeros(steps, **whole)
        self.length = self.lengths[:1]  # (1,) tokens written before the current step
        self.tokens = torch.full((sources * beam,), BOS, **whole)  # (R,) the last ones
        self.order = torch.arange(sources * beam, **whole)  # (R,) the rows that the hypotheses were in a step ago
        self.limit = torch.zeros(rows, **whole)
        self.done = torch.ones(rows, dtype=torch.bool, device=device)
        self.live = torch.zeros(1, dtype=torch.int32, device=device)  # rows that are not done
        self.table = torch.full((length, 2, rows, width), PAD, **whole)
        self.logs = torch.zeros(length, rows, width, device=device)
        self.scores = torch.zeros(rows, width, device=device)
        self.sampling = SamplingSettings(sources, device) if form.draws else None
        self.coverage = Coverage(sources, beam, words, device) if form.covers else None
        if form.competes:
            self.nodes = torch.full((rows, width), ROOT, **whole)
            self.count = torch.zeros(rows, **whole)
            self.max_finished = torch.zeros(1, **whole)  # finished ones that end a row
            self.worst_kept = torch.zeros(1, **whole)  # nbest - 1, the slot that a row has to fill
            self.stops_at_first = torch.zeros(1, **whole)
            self.diversity = torch.zeros(1, device=device)
            self.terms = torch.ones(2, length + 2, device=device)
            self.divisors, self.rewards = self.terms.unbind(0)
            self.finished = torch.full((4, rows, width), NEG_INF, device=device)
            self.finished_nodes = torch.full((rows, width), ROOT, **whole)
            self.cut = torch.zeros_like(self.done)  # rows without a finished hypothesis: cut off at the limit

    def reset(self, limits: Tensor, nbest: int, options: SearchOptions, row_numbers: Tensor | None = None) -> None:
        """Before the first step; limits (B',) of the sources that are used, the first ones."""
        torch.arange(self.steps, out=self.lengths)
        torch.arange(len(self.order), out=self.order)
        self.tokens.fill_(BOS)
        self.limit.zero_()
        used = limits.repeat_interleave(self.beam // self.width)
        self.limit[: len(used)] = used
        torch.le(self.limit, 0, out=self.done)
        self.scores.zero_()
        if self.sampling is not None:
            self.sampling.load(options, row_numbers, len(limits))
        if not self.form.competes:
            return
        first_of_groups = torch.arange(self.width, device=limits.device) % (self.width // self.groups) == 0
        self.scores.masked_fill_(~first_of_groups, NEG_INF)
        self.nodes.fill_(ROOT)
        self.count.zero_()
        is_greedy = self.beam == 1 and nbest == 1  # which ends with its first EOS
        counts, patience = (True, 1.0) if is_greedy else (options.stopping == "count", options.patience)
        self.max_finished.fill_(math.ceil(self.beam * patience) if counts else 1 << 60)
        self.stops_at_first.fill_(options.stopping == "first" and not is_greedy)
        self.worst_kept.fill_(nbest - 1)
        self.diversity.fill_(options.diversity)
        ranking, lengths = ranking_of(options), range(self.capacity + 2)
        terms = [[float(ranking.divisor(n)) for n in lengths], [options.word_reward * n for n in lengths]]
        self.terms.copy_(torch.tensor(terms, dtype=torch.float32))
        self.finished.fill_(NEG_INF)
        self.cut.zero_()

    def stop(self) -> None:
        """End all rows with their next token."""
        torch.minimum(self.limit, self.lengths[:1] + 1, out=self.limit)

    def run(self, decoder: StaticDecoder, selection: Selection) -> None:
        """`steps` tokens more."""
        for index in range(self.steps):
            self.length = self.lengths[index : index + 1]
            logits = decoder.step(self.tokens, self.length)
            covered = None
            if self.coverage is not None:
                done = None if self.form.competes else self.done
                assert decoder.attention is not None
                covered = self.coverage.add(decoder.attention, self.order, done)
            values, raws, ids = self._candidates(logits, selection)
            if not self.form.competes:
                selection.extend(self, values, raws, ids)
                continue
            order = selection.select_beam(self, values, raws, ids, covered)
            if self.beam > 1:
                for part in (decoder, self.rules):
                    if part is not None:
                        part.reorder_(order)
        self.lengths.add_(self.steps)
        torch.sum(self.done.logical_not(), 0, keepdim=True, dtype=torch.int32, out=self.live)

    def _candidates(self, logits: Tensor, selection: Selection) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (R, V) -> the scores, log-probabilities and ids (R, C) of the tokens to choose from, best first."""
        rules, count = self.rules, 2 * self.beam if self.form.competes else 1
        if rules is not None:
            logits = rules.restrict(logits, self.length)
        if rules is None or not rules.changes_scores:
            if self.form.draws:
                return selection.draw(self, None, logits, logits)
            values, ids = selection.choose(logits, count, self.special)
            return values, values, ids
        base = logits
        if rules.language is not None:
            logits = logits.to(torch.float32, copy=True)
        selection.apply_rules(self, rules, logits)
        rules.histories.reverse()
        if rules.language is not None:
            language = rules.language
            selection.mix(logits, language.step(self.tokens, self.length), language.weight, "add")
        if self.form.draws:
            return selection.draw(self, rules, logits, base)
        return selection.choose_scored(self, rules, logits, base, count)

    def hypotheses(self, rows: int, nbest: int, ranking: Ranking) -> list[list[Hypothesis]]:
        """The results of the first `rows` sources, best first; reads everything from the device."""
        steps = min(int(self.lengths[0]), self.capacity)
        if not self.form.competes:
            used = rows * self.beam
            tokens, logs = self.table[:steps, 0, :used, 0].T.cpu().numpy(), self.logs[:steps, :used, 0].T.cpu().numpy()
            scores = self.scores[:used, 0].cpu().numpy()
            term = None if self.coverage is None else self.coverage.term[:used].cpu().numpy()
            return hypotheses_of(tokens, np.where(tokens != PAD, logs, 0.0), scores, term, rows, ranking)
        prefixes = self._prefixes(steps)
        ranks, scores, ends, covers = self.finished[:, :rows, :nbest].cpu()
        finished = self.cut[:rows, None].logical_not().expand(-1, nbest).cpu()
        nodes = self.finished_nodes[:rows, :nbest].cpu()
        best = BestHypotheses(ranks, scores, ends, covers, nodes, finished)
        return prefixes.hypotheses([(torch.arange(rows), best)], rows)

    def possible(self) -> list[list[int]]:
        """The tokens of all that the result for the first source may begin with; reads them from the device."""
        steps = min(int(self.lengths[0]), self.capacity)
        if not self.form.competes:
            return [[token for token in self.table[:steps, 0, 0, 0].tolist() if token not in (EOS, PAD)]]
        live = self.nodes[0][(self.scores[0] > NEG_INF) & ~self.done[0]]
        best = self.finished_nodes[0, :1][self.finished[0, 0, :1] > NEG_INF]
        return self._prefixes(steps).trace(torch.cat((live, best)).cpu().numpy())[0]

    def _prefixes(self, steps: int) -> Prefixes:
        table = self.table[:steps].cpu()
        return Prefixes(table[:, 1].flatten(), table[:, 0].flatten(), self.logs[:steps].cpu().flatten())
