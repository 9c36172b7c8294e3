"""Greedy search and sampling: hypotheses that do not compete with each other.

    greedy      y_t = argmax_v p(v | y_1 .. y_{t-1}, x)
    sampling    y_t drawn from p, sharpened and cut as `harken.search.sampling` says

Greedy search is fast, and used for validation during training. Of sampling there may be several rows for a source. All
rows advance together; sources whose rows have all ended leave the batch when enough of them have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.data.tokenizers.tokens import BOS, EOS, PAD
from harken.search.contract import StepModel, attention_of, device_of, is_worth_compacting, limits
from harken.search.hypotheses import NEG_INF, Hypothesis, added_by_rules, continuations, refuse_empty
from harken.search.ranking import Ranking
from harken.search.rules.base import ScoreRule, SoFar, next_scores
from harken.search.sampling import Sampling


def greedy_search(
    model: StepModel,
    state: Any,
    rows: int,
    *,
    max_lengths: int | Tensor,
    length_penalty: float = 1.0,
    device: torch.device | str | None = None,
) -> list[Hypothesis]:
    """One hypothesis for each of the `rows` rows of `state`.

    Args:
        max_lengths: the most tokens a row may have, EOS included: one number or (rows,).
        length_penalty: only for the `normalised` score; it does not change the tokens.
        device: where the tokens are kept; by default where the model is.

    Raises:
        UserError: an impossible limit, or a model whose logits are not numbers.
    """
    ranking = Ranking(length_penalty)
    results = independent_search(model, state, rows, max_lengths=max_lengths, ranking=ranking, device=device)
    return [hypotheses[0] for hypotheses in results]


@torch.inference_mode()
def independent_search(
    model: StepModel,
    state: Any,
    rows: int,
    *,
    max_lengths: int | Tensor,
    sampling: Sampling | None = None,
    samples: int = 1,
    ranking: Ranking | None = None,
    rules: Sequence[ScoreRule] = (),
    visible: Tensor | None = None,
    should_stop: Callable[[], bool] | None = None,
    observe: Callable[[Tensor], None] | None = None,
    device: torch.device | str | None = None,
) -> list[list[Hypothesis]]:
    """`samples` hypotheses for each of the `rows` sources of `state`, by rank; one, the greedy one, without `sampling`.

    Args:
        state: from `model.start` with one hypothesis a source.
        rules: change the scores of the next token.
        visible: (rows, S) source positions that count for the coverage penalty.
        should_stop: asked at every step; where it says True, the search ends with what it has.
        observe: called after every step with all tokens so far (rows * samples, t), PAD after the end of a row.
    """
    ranking = ranking or Ranking()
    if rows == 0:
        return []
    device = device_of(model, device, max_lengths)
    limit = limits(max_lengths, rows, device).repeat_interleave(samples)  # (H,), H = rows * samples
    steps = int(limit.max())
    written = torch.full((len(limit), steps), PAD, device=device)  # (H, T)
    raw = torch.zeros(len(limit), steps, device=device)  # the model's log-probabilities
    scores = torch.zeros(len(limit), device=device)  # with what rules add
    coverage: Tensor | None = None
    if ranking.coverage_penalty:
        state.need_weights = True
    if samples > 1:
        for part in (state, *rules):
            part.expand_(samples)
    alive = torch.arange(len(limit), device=device)  # (R,) which hypothesis each row of the batch is
    is_open = torch.ones_like(alive, dtype=torch.bool)  # (R,)
    tokens = torch.full_like(alive, BOS)
    live_before = len(alive)
    for position in range(steps):
        so_far = SoFar(written[alive, :position], alive // samples, limit[alive]) if rules else None
        table, model_scores = next_scores(model.step(tokens, state), rules, so_far)
        if sampling is None:
            chosen = continuations(table, 1)[1]  # (R, 1)
        else:
            chosen = sampling.draw(table, alive // samples, alive % samples, position)[:, None]
        gained = model_scores.gather(1, chosen)[:, 0].clamp(max=0.0)  # rounding may give 1e-8
        added = table.gather(1, chosen)[:, 0] if rules else gained
        tokens = torch.where(is_open, chosen[:, 0], PAD)
        written[alive, position] = tokens
        raw, scores = raw.to(gained.dtype), scores.to(gained.dtype)
        raw[alive, position] = gained.where(is_open, 0.0)
        scores[alive] += added.where(is_open, 0.0)
        if ranking.coverage_penalty:
            coverage = _covered(coverage, attention_of(state), alive, is_open, len(limit))
        is_open = is_open & (tokens != EOS) & (limit[alive] > position + 1)
        if observe is not None:
            observe(written[:, : position + 1])
        live = int(is_open.sum())  # synchronises with the device
        if live == 0 or (should_stop is not None and should_stop()):
            break
        if live < live_before and is_worth_compacting(live, len(alive), device):
            sources = is_open.view(-1, samples).any(1).nonzero()[:, 0]
            if len(sources) * samples < len(alive):
                keep = (sources[:, None] * samples + torch.arange(samples, device=device)).flatten()
                alive, tokens, is_open = alive[keep], tokens[keep], is_open[keep]
                for part in (state, *rules):
                    part.keep_(sources)
            live_before = live
    term = None
    if coverage is not None:
        positions = None if visible is None else visible.repeat_interleave(samples, 0)
        term = ranking.covered(coverage, positions).cpu().numpy()
    return hypotheses_of(written.cpu().numpy(), raw.cpu().numpy(), scores.cpu().numpy(), term, rows, ranking)


def _covered(before: Tensor | None, weights: Tensor, alive: Tensor, is_open: Tensor, size: int) -> Tensor:
    before = weights.new_zeros(size, weights.shape[1], dtype=torch.float32) if before is None else before
    return before.index_add(0, alive, (weights * is_open[:, None]).float())


def hypotheses_of(
    written: np.ndarray, raw: np.ndarray, scores: np.ndarray, coverage: np.ndarray | None, rows: int, ranking: Ranking
) -> list[list[Hypothesis]]:
    """The hypotheses of each source by rank, from tokens and log-probabilities (H, T); PAD and EOS are cut off."""
    samples, hypotheses = len(written) // rows, list[Hypothesis]()
    refuse_empty(np.flatnonzero(~(scores > NEG_INF)) // samples)
    covers = np.zeros(len(written)) if coverage is None else coverage
    lists = zip(*(part.tolist() for part in (written, raw, (written != PAD).sum(1), scores, covers)), strict=True)
    for tokens, logs, size, score, cover in lists:
        finished = size > 0 and tokens[size - 1] == EOS
        parts = logs[:size]
        total = float(sum(parts))
        added, rank = added_by_rules(score, total), ranking.of(score, size, cover)
        hypotheses.append(Hypothesis(tokens[: size - finished], total, rank, finished, parts, added, cover))
    sources = (hypotheses[start : start + samples] for start in range(0, len(hypotheses), samples))
    return [sorted(source, key=lambda sample: (not sample.finished, -sample.normalised)) for source in sources]
