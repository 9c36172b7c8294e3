"""Beam search over a batch of rows, with finished hypotheses kept apart and an exact stopping rule.

In each step the best continuations of a row's live hypotheses are candidates; the best `2 * beam` are kept. Those that
end in EOS and rank among the first `beam` are finished and compete for the `nbest` slots of the row by their rank
(`harken.search.ranking`), and the best `beam` others stay live: a finished hypothesis never takes the slot of a live
one. (At most `beam` of the candidates can end in EOS, one for each live hypothesis, so `2 * beam` always suffice.)

Log-probabilities are at most 0, so there is a bound on the rank that a live hypothesis can still reach; once the row's
last slot is at least as good as that of its best live hypothesis, no later step can change the result and the row is
done. That bound is exact, but loose where max_length is far above the usual length. `stopping="count"` is the usual
shortcut: a row also stops once `beam * patience` hypotheses have finished (Kasai et al., 2022). `stopping="first"`
stops a row at its first finished hypothesis that no live one outranks now.

With `groups` the beam is divided into groups that search one after the other at every step; a group's scores of tokens
that earlier groups have chosen at this step are lowered by `diversity` for each time, when it chooses. Reported scores
are without that term (Vijayakumar et al., 2018).

All rows are computed together and there is no Python per hypothesis; one number is read from the device at each step,
that of the rows that are still live. Rows that are done leave the batch when enough of them are.

Ties go to the hypothesis that finished first, then to the better-ranked parent, then to the lower token id.
Reference: Graves, 2012, "Sequence Transduction with Recurrent Neural Networks"; Sutskever et al., 2014.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from harken.data.tokenizers.tokens import BOS, EOS, PAD
from harken.errors import UserError
from harken.search.contract import StepModel, attention_of, device_of, is_worth_compacting, limits
from harken.search.hypotheses import (
    NEG_INF,
    ROOT,
    BestHypotheses,
    Hypothesis,
    Prefixes,
    candidates,
    continuations,
    ranked,
)
from harken.search.ranking import Ranking
from harken.search.rules.base import ScoreRule, SoFar, next_scores
from harken.search.rules.constraints import Constraints, share_by_bank

NOWHERE = ROOT - 1  # no node


@dataclass(frozen=True)
class BeamStep:
    """The state of a search after a step, for observers (`harken.search.streaming`, `harken.search.tree`)."""

    length: int
    prefixes: Prefixes
    alive: Tensor  # (R,) which row of the result each row of the batch is
    nodes: Tensor  # (R, beam) where each live prefix ends
    scores: Tensor  # (R, beam)
    best: BestHypotheses
    done: Tensor  # (R,)


@torch.inference_mode()
def beam_search(
    model: StepModel,
    state: Any,
    rows: int,
    *,
    beam: int,
    nbest: int = 1,
    length_penalty: float = 1.0,
    max_lengths: int | Tensor,
    stopping: Literal["exact", "count", "first"] = "exact",
    patience: float = 1.0,
    ranking: Ranking | None = None,
    rules: Sequence[ScoreRule] = (),
    groups: int = 1,
    diversity: float = 0.0,
    visible: Tensor | None = None,
    should_stop: Callable[[], bool] | None = None,
    observe: Callable[[BeamStep], None] | None = None,
    device: torch.device | str | None = None,
) -> list[list[Hypothesis]]:
    """Up to `nbest` distinct hypotheses for each of the `rows` sources of `state`, best first.

    A row with at least one finished hypothesis returns finished ones only; a row with none returns what was alive at
    its maximum length, marked `finished=False`.

    Args:
        state: from `model.start` with one hypothesis a source.
        beam: live hypotheses of a row.
        length_penalty: exponent of the length, 0 or more; `ranking` replaces it.
        max_lengths: the most tokens a row may have, EOS included: one number or (rows,).
        stopping: "exact" stops a row when its result cannot change; "count" also after `beam * patience` finished ones;
            "first" when the best finished one beats every live one.
        rules: change the scores of the next token.
        groups, diversity: see the module's docstring.
        visible: (rows, S) source positions that count for the coverage penalty.
        should_stop: asked at every step; where it says True, the search ends with what it has.
        observe: called after every step.
        device: where hypotheses are kept; by default where the model is.

    Raises:
        UserError: an impossible setting, or a model whose logits are not numbers.
    """
    check_beam(beam, nbest, groups)
    ranking = ranking or Ranking(length_penalty)
    if rows == 0:
        return []
    device = device_of(model, device, max_lengths)
    search = _Beam(model, state, rules, ranking, beam, groups, diversity, limits(max_lengths, rows, device), visible)
    search.best = BestHypotheses.empty(rows, nbest, device)
    bonus = sum(rule.bonus for rule in rules)
    results: list[tuple[Tensor, BestHypotheses]] = []
    while True:
        search.step()
        best, length = search.best, search.length
        done = search.limit <= length
        if stopping == "first":
            done = done | (best.normalised[:, 0] >= ranking(search.best_live(), length))
        done = done | (best.normalised[:, -1] >= ranking.bound(search.best_live(), length, search.limit, bonus))
        if stopping == "count":
            done = done | (search.count >= beam * patience)
        stop = should_stop is not None and should_stop()
        done = torch.ones_like(done) if stop else done | search.done
        if observe is not None:
            observe(BeamStep(length, search.prefixes, search.alive, search.nodes, search.scores, best, done))
        live = 0 if stop else int((~done).sum())  # synchronises with the device
        if live < search.live:
            fresh = done & ~search.done
            results.append((search.alive[fresh], best.rows(fresh).fill_from(search.cut_off(nbest).rows(fresh))))
        search.done, search.live = done, live
        if live == 0:
            return search.prefixes.hypotheses(results, rows)
        search.go_on(compact=is_worth_compacting(live, len(done), device))


class _Beam:
    """The live hypotheses of all rows, best first; R rows with `beam` hypotheses each."""

    best: BestHypotheses

    def __init__(
        self,
        model: StepModel,
        state: Any,
        rules: Sequence[ScoreRule],
        ranking: Ranking,
        beam: int,
        groups: int,
        diversity: float,
        limit: Tensor,
        visible: Tensor | None,
    ) -> None:
        self.model, self.state, self.rules, self.ranking = model, state, rules, ranking
        self.beam, self.groups, self.diversity = beam, groups, diversity
        self.constraints = next((rule for rule in rules if isinstance(rule, Constraints)), None)
        self.limit, self.visible, rows, device = limit, visible, len(limit), limit.device
        self.alive = torch.arange(rows, device=device)  # which row of the result each row of the batch is
        self.tokens = torch.full((rows,), BOS, device=device)  # (R * beam,), of one hypothesis a row at first
        self.scores = torch.zeros(rows, 1, device=device)  # (R, beam)
        self.nodes = torch.full((rows, 1), ROOT, device=device)  # (R, beam) where each live prefix ends
        self.parents = torch.zeros(rows, beam, dtype=torch.long, device=device)  # (R, beam) of the last step
        self.history = torch.empty(rows, 0, dtype=torch.long, device=device)  # (R * beam, t), for rules
        self.coverage: Tensor | None = None  # (R * beam, S) sums of attention weights
        self.count = torch.zeros(rows, dtype=torch.long, device=device)  # hypotheses that have finished
        self.done = torch.zeros(rows, dtype=torch.bool, device=device)
        self.live, self.length, self.prefixes = rows, 0, Prefixes()
        if ranking.coverage_penalty:
            state.need_weights = True

    def step(self) -> None:
        """One token more for every live hypothesis."""
        self.length += 1
        rows, width = self.scores.shape
        so_far = self._so_far(width) if self.rules else None
        scores, model = next_scores(self.model.step(self.tokens, self.state), self.rules, so_far)
        offered = [part.view(rows, width, -1) for part in (scores, model)]  # (R, width, V)
        cover = self._cover(rows, width)
        size = self.beam // self.groups
        chosen: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        ended: list[Tensor] = []  # the prefixes that each group has finished
        for group in range(self.groups):
            own = slice(0, 1) if width == 1 else slice(group * size, (group + 1) * size)
            earlier = [ids.masked_fill(scores == NEG_INF, PAD) for _, scores, ids, _ in chosen]
            offers = self._offers([part[:, own] for part in offered], own, size, earlier)
            chosen.append(self._survivors(*offers, size, cover, ended))
        parents, scores, ids, raw = (
            chosen[0] if self.groups == 1 else (torch.cat(part, 1) for part in zip(*chosen, strict=True))
        )
        before = self.nodes.gather(1, parents)
        self.nodes = self.prefixes.extend(before, ids, raw)
        if self.groups > 1:  # equal prefixes of several groups are one node
            self.nodes = self.nodes.gather(1, first_equal(before, ids))
        self.parents, self.scores, self.tokens = parents, scores, ids

    def best_live(self) -> Tensor:
        """(R,) the best score of each row's live hypotheses."""
        return self.scores[:, 0] if self.groups == 1 and self.constraints is None else self.scores.amax(1)

    def cut_off(self, nbest: int) -> BestHypotheses:
        """The live hypotheses as they are."""
        cover = None
        if self.coverage is not None:
            cover = self._term(len(self.scores), self.coverage).gather(1, self.parents)
        scores = self.scores
        if self.groups > 1:
            order = torch.arange(self.beam, device=scores.device)
            scores = scores.masked_fill(first_equal(self.nodes) != order, NEG_INF)
        live = candidates(self.ranking, scores, None, self.nodes, self.length, cover)
        best = BestHypotheses.empty(len(self.scores), self.beam, self.scores.device).merge(live)
        if self.constraints is not None:  # those that have met most constraints first
            history = torch.cat((self._history(), self.tokens.view(-1, 1)), 1)
            met = self.constraints.progress(history, self.alive.repeat_interleave(self.beam))[1].view(live.nodes.shape)
            by_rank = torch.where(live.normalised > NEG_INF, met, -1).gather(1, ranked(live.normalised)[1])
            best = best.select(ranked(by_rank)[1])
        return best.select(torch.arange(nbest, device=self.scores.device).expand(len(self.scores), -1))

    def _history(self) -> Tensor:
        """(R * beam, t - 1): the tokens of the live hypotheses before the last."""
        width = self.beam if self.length > 1 else 1
        rows = torch.arange(len(self.scores), device=self.scores.device)[:, None] * width
        return self.history[(self.parents + rows).flatten()]

    def go_on(self, compact: bool) -> None:
        """Bring the state, and what rules know of the hypotheses, to the survivors of the step."""
        width = self.beam if self.length > 1 else 1  # of the step that was taken
        if compact:
            self._keep(self.done.logical_not().nonzero()[:, 0], width)
        rows = len(self.done)
        flat = (self.parents + torch.arange(rows, device=self.done.device)[:, None] * width).flatten()  # (R * beam,)
        if self.rules:
            self.history = torch.cat((self.history[flat], self.tokens.view(-1, 1)), 1)
        if self.coverage is not None:
            self.coverage = self.coverage[flat]
        for part in (self.state, *self.rules):
            if width < self.beam:
                part.expand_(self.beam)
            elif self.beam > 1:
                part.reorder_(flat)
        self.tokens = self.tokens.flatten()

    def _keep(self, sources: Tensor, width: int) -> None:
        for name in ("alive", "limit", "count", "done", "scores", "nodes", "tokens", "parents"):
            setattr(self, name, getattr(self, name)[sources])
        self.best = self.best.rows(sources)
        rows = (sources[:, None] * width + torch.arange(width, device=sources.device)).flatten()
        self.visible = None if self.visible is None else self.visible[sources]
        self.coverage = None if self.coverage is None else self.coverage[rows]
        self.history = self.history[rows] if self.rules else self.history
        for part in (self.state, *self.rules):
            part.keep_(sources)

    def _offers(
        self, offered: list[Tensor], group: slice, size: int, earlier: list[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The 2 * size best continuations of the hypotheses `group`, all (R, C): scores, parents, ids, raw scores.

        Raw scores are the model's log-probabilities of the last token alone. `earlier` ids were chosen by other groups.
        """
        (table, model), rows, live = offered, len(self.scores), offered[0].shape[1]
        preferred = table
        if earlier and self.diversity:
            times = torch.zeros_like(table[:, 0]).scatter_add(
                1, torch.cat(earlier, 1), torch.ones_like(torch.cat(earlier, 1), dtype=table.dtype)
            )
            preferred = table - self.diversity * times[:, None]
        values, ids = continuations(preferred.flatten(0, 1), 2 * size)  # (R * live, C)
        if self.constraints is not None:
            values, ids = self._with_required(preferred.flatten(0, 1), values, ids, group)
        choices = values.shape[1]
        values, ids = values.view(rows, live, choices), ids.view(rows, live, choices)
        gains = values if preferred is table else table.gather(2, ids).masked_fill(values == NEG_INF, NEG_INF)
        if self.rules:
            raw = model.gather(2, ids)
        else:  # rounding must not raise a score as a hypothesis grows
            raw = gains.clamp(max=0.0)
            values, gains = (raw, raw) if preferred is table else (values, raw)
        before = self.scores[:, group, None]
        offers = (before + values).flatten(1)
        if self.constraints is None:
            offers, order = ranked(offers)
            offers, order = offers[:, : 2 * size], order[:, : 2 * size]
        else:
            order = share_by_bank(offers, self._banks(ids, group))[:, : 2 * size]
            offers = offers.gather(1, order)
        if gains is not values:
            offers = (before + gains).flatten(1).gather(1, order)
        ids, raw = ids.flatten(1).gather(1, order), raw.flatten(1).gather(1, order)
        return offers, order // choices + group.start, ids, raw

    def _with_required(self, table: Tensor, values: Tensor, ids: Tensor, group: slice) -> tuple[Tensor, Tensor]:
        """Further candidates: the tokens that constraints ask for, where they are not among the best already."""
        assert self.constraints is not None
        rows, width = self.scores.shape
        required = (
            self.constraints.required(self._so_far(width)).view(rows, width, -1)[:, group].flatten(0, 1)
        )  # (R', A)
        scores = table.gather(1, required)
        same = required[:, :, None] == torch.cat((ids, required), 1)[:, None]  # (R', A, C + A)
        known = same.tril(ids.shape[1] - 1).any(2) | (required == PAD)
        return torch.cat((values, scores.masked_fill(known, NEG_INF)), 1), torch.cat((ids, required), 1)

    def _banks(self, ids: Tensor, group: slice) -> Tensor:
        """(R, live * C): how many constraint tokens each candidate has met."""
        assert self.constraints is not None
        (rows, live, choices), width = ids.shape, self.scores.shape[1]
        history = self.history.view(rows, width, -1)[:, group, None].expand(-1, -1, choices, -1)  # (R, live, C, t)
        tokens = torch.cat((history, ids[..., None]), 3).flatten(0, 2)
        source = self.alive.repeat_interleave(live * choices)
        return self.constraints.progress(tokens, source)[1].view(rows, -1)

    def _so_far(self, width: int) -> SoFar:
        return SoFar(self.history, self.alive.repeat_interleave(width), self.limit.repeat_interleave(width))

    def _survivors(
        self,
        offers: Tensor,
        parents: Tensor,
        ids: Tensor,
        raw: Tensor,
        size: int,
        cover: Tensor | None,
        earlier: list[Tensor],
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Finished hypotheses go to `best`; of the others the best `size`: parents, scores, ids, raw scores.

        `earlier` are the prefixes (R, n) that other groups have finished in this step; those of this group are added.
        """
        ended = ids == EOS
        few = slice(0, size)  # an EOS that ranks below the beam would not have survived either
        closed = offers[:, few].masked_fill(~ended[:, few] | self.done[:, None], NEG_INF)
        here = parents[:, few]
        covered = None if cover is None else cover.gather(1, here)
        nodes = self.nodes.gather(1, here)
        for others in earlier:  # equal hypotheses have equal lengths, so they finish in the same step
            closed = closed.masked_fill((nodes[:, :, None] == others[:, None]).any(2), NEG_INF)
        earlier.append(nodes.masked_fill(closed == NEG_INF, NOWHERE))
        self.count = self.count + (closed > NEG_INF).sum(1)
        self.best = self.best.merge(candidates(self.ranking, closed, raw[:, few], nodes, self.length, covered))
        left = torch.sort(ended.to(torch.uint8), dim=1, stable=True).indices[:, :size]  # first those without EOS
        survivors = [part.gather(1, left) for part in (parents, offers.masked_fill(ended, NEG_INF), ids, raw)]
        if (missing := size - left.shape[1]) > 0:  # fewer continuations than the beam is wide
            empty = (0, NEG_INF, PAD, 0.0)
            survivors = [F.pad(part, (0, missing), value=value) for part, value in zip(survivors, empty, strict=True)]
        return survivors[0], survivors[1], survivors[2], survivors[3]

    def _cover(self, rows: int, width: int) -> Tensor | None:
        """Add the attention of this step to the coverage; the coverage term (R, width) of each live hypothesis."""
        if not self.ranking.coverage_penalty:
            return None
        weights = attention_of(self.state)
        self.coverage = weights.float() if self.coverage is None else self.coverage + weights
        return self._term(rows, self.coverage)

    def _term(self, rows: int, coverage: Tensor) -> Tensor:
        visible = None if self.visible is None else self.visible[:, None]
        return self.ranking.covered(coverage.view(rows, -1, coverage.shape[-1]), visible)


def first_equal(*keys: Tensor) -> Tensor:
    """The first entry of the same row with equal keys, for each entry: keys (R, beam) each -> indices (R, beam).

    >>> first_equal(torch.tensor([[4, 5, 4]]), torch.tensor([[1, 1, 1]])).tolist()
    [[0, 1, 0]]
    """
    equal = torch.stack([key[:, :, None] == key[:, None] for key in keys]).all(0)
    return equal.to(torch.uint8).argmax(2)


def check_beam(beam: int, nbest: int, groups: int = 1) -> None:
    """Validate the settings.

    Raises:
        UserError: impossible ones.
    """
    if beam < 1:
        raise UserError(f"search.beam is {beam}; it must be 1 or more.")
    if not 1 <= nbest <= beam:
        raise UserError(f"nbest is {nbest} with a beam of {beam}; choose nbest from 1 to the beam, or widen the beam.")
    if groups < 1 or beam % groups:
        raise UserError(
            f"search.diversity_groups is {groups} with a beam of {beam}; the groups share the beam equally, so choose "
            "a divisor of it."
        )
