"""The bookkeeping of a search after a step, one program a source, in place of some ninety operators.

`harken.search.device_search.DeviceSearch` has the buffers. The reference is `harken.search.beam`.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from harken.kernels.decoding.cuda.choosing import choose as choose
from harken.kernels.decoding.cuda.choosing import choose_scored as choose_scored
from harken.kernels.decoding.cuda.mixture import mix as mix
from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.decoding.cuda.rules import apply_rules as apply_rules
from harken.kernels.decoding.cuda.sampling import draw as draw
from harken.kernels.triton_import import tl, triton


@triton.jit
def independent_kernel(
    values: tl.tensor,
    raws: tl.tensor,
    ids: tl.tensor,
    tokens: tl.tensor,
    table: tl.tensor,
    logs: tl.tensor,
    scores: tl.tensor,
    limit: tl.tensor,
    done: tl.tensor,
    length: tl.tensor,
    rows: tl.tensor,
    BLOCK: tl.constexpr,
    PAD: tl.constexpr,
    EOS: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """BLOCK rows: values, raws and ids (R, 1), table (T, 2, R), logs (T, R), scores (R,)."""
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, time = row < rows, tl.load(length)
    was_done = tl.load(done + row, inside, other=1) != 0
    token = tl.where(was_done, PAD, tl.load(ids + row, inside, other=PAD))
    raw = tl.load(raws + row, inside, other=0.0)
    before = tl.load(scores + row, inside, other=0.0)
    tl.store(scores + row, tl.where(was_done, before, before + tl.load(values + row, inside, other=0.0)), inside)
    tl.store(tokens + row, token, inside)
    tl.store(table + time * 2 * rows + row, token, inside)
    tl.store(logs + time * rows + row, tl.where(raw > 0.0, 0.0, raw), inside)
    ended = was_done | (token == EOS) | (tl.load(limit + row, inside, other=0) <= time + 1)
    tl.store(done + row, ended, inside)


@triton.jit
def beam_kernel(
    values: tl.tensor,
    raws: tl.tensor,
    ids: tl.tensor,
    scores: tl.tensor,
    nodes: tl.tensor,
    tokens: tl.tensor,
    order: tl.tensor,
    table: tl.tensor,
    logs: tl.tensor,
    finished: tl.tensor,
    finished_nodes: tl.tensor,
    count: tl.tensor,
    limit: tl.tensor,
    done: tl.tensor,
    cut: tl.tensor,
    divisors: tl.tensor,
    rewards: tl.tensor,
    covered: tl.tensor,
    diversity: tl.tensor,
    max_finished: tl.tensor,
    worst_kept: tl.tensor,
    stops_at_first: tl.tensor,
    length: tl.tensor,
    rows: tl.tensor,
    BEAM: tl.constexpr,
    GROUPS: tl.constexpr,
    OFFERS: tl.constexpr,
    SIZE: tl.constexpr,
    COVERED: tl.constexpr,
    PAD: tl.constexpr,
    EOS: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One source; `rows` is the number of sources, SIZE is 2 BEAM rounded up.

    OFFERS are those of a group, 2 BEAM of each of its BEAM / GROUPS hypotheses, rounded up. Values are scores and raws
    log-probabilities (R, 2 BEAM); `covered` (R,) is the coverage term of each hypothesis before the step.
    """
    if OVERLAP:
        allow_next()
        wait_for_previous()
    source = tl.program_id(0).to(tl.int64)
    few: tl.constexpr = 2 * BEAM
    own_size: tl.constexpr = BEAM // GROUPS
    lowest = float("-inf")
    time = tl.load(length)
    was_done = tl.load(done + source) != 0
    slot, offer = tl.arange(0, SIZE), tl.arange(0, OFFERS)
    own, real, plane = source * BEAM + slot, slot < BEAM, rows * BEAM
    divisor, reward = tl.load(divisors + time + 1), tl.load(rewards + time + 1)
    shift = tl.where(slot >= BEAM, slot - BEAM, 0)
    is_new = (slot >= BEAM) & (slot < few)
    sorted_ranks = tl.load(finished + own, real, other=lowest)
    totals = tl.load(finished + plane + own, real, other=lowest)
    ends = tl.load(finished + 2 * plane + own, real, other=0.0)
    covers = tl.load(finished + 3 * plane + own, real, other=0.0)
    end_nodes = tl.load(finished_nodes + own, real, other=-1)
    num_finished = tl.load(count + source)
    all_live, all_gained = tl.full((SIZE,), lowest, tl.float32), tl.zeros((SIZE,), tl.float32)
    all_tokens, all_parents = tl.full((SIZE,), PAD, tl.int64), tl.zeros((SIZE,), tl.int32)
    all_before, over = tl.full((SIZE,), -1, tl.int64), tl.full((SIZE,), -2, tl.int64)

    for group in range(GROUPS):
        first = group * own_size
        given = offer < own_size * few
        start = (source * BEAM + first) * few
        hypothesis = source * BEAM + first + offer // few
        offers = tl.load(values + start + offer, given, other=lowest)
        if GROUPS > 1:  # tokens that earlier groups have chosen
            token = tl.load(ids + start + offer, given, other=PAD)
            is_chosen = (all_tokens[None, :] == token[:, None]) & (all_live > lowest)[None, :]
            offers = offers - tl.load(diversity) * tl.sum(is_chosen.to(tl.float32), 1)
        offers = offers + tl.load(scores + hypothesis, given, other=lowest)
        best, where = tl.full((SIZE,), lowest, tl.float32), tl.zeros((SIZE,), tl.int32)
        for index in tl.static_range(2 * own_size):
            top, at = tl.max(offers, 0, return_indices=True, return_indices_tie_break_left=True)
            best, where = tl.where(slot == index, top, best), tl.where(slot == index, at, where)
            offers = tl.where(offer == at, lowest, offers)
        chosen = tl.load(ids + start + where)
        gained = tl.load(raws + start + where)
        parent = where // few + first
        if GROUPS > 1:  # without the term of diversity
            total = tl.load(values + start + where) + tl.load(scores + source * BEAM + parent)
            best = tl.where(best > lowest, total, lowest)
        before = tl.load(nodes + source * BEAM + parent)
        ended = chosen == EOS

        closed = tl.where(ended & (slot < own_size) & (was_done == 0), best, lowest)  # among the first of the beam
        if GROUPS > 1:  # equal hypotheses of several groups finish in the same step
            is_known = tl.sum((before[:, None] == over[None, :]).to(tl.int32), 1) > 0
            closed = tl.where(is_known, lowest, closed)
        new_ranks, new_covers = closed / divisor + reward, tl.zeros((SIZE,), tl.float32)
        if COVERED:
            new_covers = tl.load(covered + source * BEAM + parent)
            new_ranks += new_covers
        ranks = tl.where(is_new, tl.gather(new_ranks, shift, 0), sorted_ranks)
        totals = tl.where(is_new, tl.gather(closed, shift, 0), totals)
        ends = tl.where(is_new, tl.gather(gained, shift, 0), ends)
        covers = tl.where(is_new, tl.gather(new_covers, shift, 0), covers)
        end_nodes = tl.where(is_new, tl.gather(before, shift, 0), end_nodes)
        sorted_ranks, pick = tl.full((SIZE,), lowest, tl.float32), tl.zeros((SIZE,), tl.int32)
        for index in tl.static_range(BEAM):
            top, at = tl.max(ranks, 0, return_indices=True, return_indices_tie_break_left=True)
            sorted_ranks, pick = tl.where(slot == index, top, sorted_ranks), tl.where(slot == index, at, pick)
            ranks = tl.where(slot == at, lowest, ranks)
        totals, ends = tl.gather(totals, pick, 0), tl.gather(ends, pick, 0)
        covers, end_nodes = tl.gather(covers, pick, 0), tl.gather(end_nodes, pick, 0)
        num_finished += tl.sum((closed > lowest).to(tl.int64), 0)

        goes_on = (ended == 0) & (slot < 2 * own_size)
        place = first + tl.cumsum(goes_on.to(tl.int32), 0) - 1
        inside = (slot >= first) & (slot < first + own_size)
        match = (place[None, :] == slot[:, None]) & goes_on[None, :] & inside[:, None]  # (new, old)
        old = tl.sum(tl.where(match, slot[None, :], 0), 1)
        exists = tl.sum(match.to(tl.int32), 1) > 0
        all_live = tl.where(exists, tl.gather(best, old, 0), all_live)
        all_tokens = tl.where(exists, tl.gather(chosen, old, 0), all_tokens)
        all_parents = tl.where(exists, tl.gather(parent, old, 0), all_parents)
        all_gained = tl.where(exists, tl.gather(gained, old, 0), all_gained)
        all_before = tl.where(exists, tl.gather(before, old, 0), all_before)
        if GROUPS > 1:
            closing = tl.where((closed > lowest) & (slot < own_size), before, -2)
            moved = tl.gather(closing, tl.where(inside, slot - first, 0), 0)
            over = tl.where(inside, moved, over)

    node = time * plane + own
    if GROUPS > 1:  # equal prefixes of several groups are one node
        same = (all_before[:, None] == all_before[None, :]) & (all_tokens[:, None] == all_tokens[None, :])
        same = same & (all_live > lowest)[:, None] & (all_live > lowest)[None, :]
        earliest = tl.min(tl.where(same, slot[None, :], SIZE), 1)
        node = time * plane + source * BEAM + tl.minimum(earliest, slot)
    tl.store(scores + own, all_live, real)
    tl.store(tokens + own, all_tokens, real)
    tl.store(order + own, source * BEAM + all_parents, real)
    tl.store(table + time * 2 * plane + own, all_tokens, real)
    tl.store(table + (time * 2 + 1) * plane + own, all_before, real)
    tl.store(logs + time * plane + own, all_gained, real)
    tl.store(nodes + own, node, real)
    tl.store(count + source, num_finished)

    most = tl.load(limit + source)
    if GROUPS > 1:
        live = tl.max(tl.where(real, all_live, lowest), 0)
    else:
        live = tl.sum(tl.where(slot == 0, all_live, 0.0), 0)
    bound = live / tl.where(live < 0.0, tl.load(divisors + most), tl.load(divisors + time + 2))
    per_token = tl.load(rewards + 1)
    bound += tl.where(per_token > 0.0, tl.load(rewards + most), tl.load(rewards + time + 2))
    worst = tl.sum(tl.where(slot == tl.load(worst_kept), sorted_ranks, 0.0), 0)
    top = tl.sum(tl.where(slot == 0, sorted_ranks, 0.0), 0)
    is_done = was_done | (most <= time + 1) | (num_finished >= tl.load(max_finished)) | (worst >= bound)
    is_done = is_done | ((tl.load(stops_at_first) != 0) & (top >= live / divisor + reward))
    is_cut = is_done & (was_done == 0) & (top == lowest)
    cut_ranks = all_live / divisor + reward
    cut_covers, cut_pick = tl.zeros((SIZE,), tl.float32), slot
    if COVERED:
        cut_covers = tl.load(covered + source * BEAM + all_parents)
        cut_ranks += cut_covers
    if GROUPS > 1:
        cut_ranks = tl.where(earliest < slot, lowest, cut_ranks)
    if COVERED or GROUPS > 1:  # the live hypotheses are not in the order of their ranks
        left, given_ranks = real & (cut_ranks > lowest), cut_ranks
        for index in tl.static_range(BEAM):
            offers_left = tl.where(left, given_ranks, lowest)
            top, at = tl.max(offers_left, 0, return_indices=True, return_indices_tie_break_left=True)
            cut_ranks, cut_pick = tl.where(slot == index, top, cut_ranks), tl.where(slot == index, at, cut_pick)
            left = left & (slot != at)
        all_live, node = tl.gather(all_live, cut_pick, 0), tl.gather(node, cut_pick, 0)
        cut_covers = tl.gather(cut_covers, cut_pick, 0)
    tl.store(done + source, is_done)
    tl.store(cut + source, is_cut | (tl.load(cut + source) != 0))
    changes = slot < tl.where(was_done, 0, BEAM)  # what was cut off may be in another order than that of the ranks
    tl.store(finished + own, tl.where(is_cut, cut_ranks, sorted_ranks), changes)
    tl.store(finished + plane + own, tl.where(is_cut, all_live, totals), changes)
    tl.store(finished + 2 * plane + own, tl.where(is_cut, 0.0, ends), changes)
    tl.store(finished + 3 * plane + own, tl.where(is_cut, cut_covers, covers), changes)
    tl.store(finished_nodes + own, tl.where(is_cut, node, end_nodes), changes)


@triton.jit
def reorder_kernel(
    ancestry: tl.tensor,
    order: tl.tensor,
    position: tl.tensor,
    capacity: tl.tensor,
    BEAM: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One source: its rows of the ancestry table (R, T) change places, and the current slot is that of the parents."""
    if OVERLAP:
        allow_next()
        wait_for_previous()
    source, slot = tl.program_id(0).to(tl.int64), tl.arange(0, SIZE)
    real, time = slot < BEAM, tl.load(position).to(tl.int32)
    parent = tl.load(order + source * BEAM + slot, real, other=0)
    for start in range(0, time + 1, BLOCK):
        slots = start + tl.arange(0, BLOCK)
        inside = real[:, None] & (slots < time)[None, :]
        moved = tl.load(ancestry + parent[:, None] * capacity + slots[None, :], inside, other=0)
        moved = tl.where((slots == time)[None, :], parent[:, None].to(tl.int32), moved)
        tl.debug_barrier()  # all rows are read before one is written
        into = (source * BEAM + slot)[:, None] * capacity + slots[None, :]
        tl.store(ancestry + into, moved, real[:, None] & (slots <= time)[None, :])


def extend(search: Any, values: Tensor, raws: Tensor, ids: Tensor) -> None:
    """Greedy search and sampling: append one token to each row, with its score and log-probability, all (R, 1)."""
    rows = len(search.done)
    block = min(128, triton.next_power_of_2(rows))
    independent_kernel[(triton.cdiv(rows, block),)](
        values, raws, ids, search.tokens, search.table, search.logs, search.scores, search.limit, search.done,
        search.length, rows,
        BLOCK=block, PAD=search.special.pad, EOS=search.special.eos, num_warps=1, **options(values.is_cuda),
    )  # fmt: skip


def select_beam(
    search: Any,
    values: Tensor,
    raws: Tensor,
    ids: Tensor,
    covered: Tensor | None = None,
) -> Tensor:
    """Beam search: keep the survivors of the best continuations; returns their parents' rows (R,).

    Args:
        values, raws, ids: (R, C) scores, log-probabilities and tokens, best first.
        covered: (R,) the coverage term of each hypothesis.
    """
    (rows, beam), groups = search.scores.shape, search.groups
    beam_kernel[(rows,)](
        values, raws, ids, search.scores, search.nodes, search.tokens, search.order, search.table, search.logs,
        search.finished, search.finished_nodes, search.count, search.limit, search.done, search.cut, search.divisors,
        search.rewards, search.rewards if covered is None else covered, search.diversity,
        search.max_finished, search.worst_kept, search.stops_at_first, search.length, rows,
        BEAM=beam, GROUPS=groups, OFFERS=triton.next_power_of_2(2 * beam * beam // groups),
        SIZE=triton.next_power_of_2(2 * beam), COVERED=covered is not None,
        PAD=search.special.pad, EOS=search.special.eos, num_warps=1, **options(values.is_cuda),
    )  # fmt: skip
    order: Tensor = search.order
    return order


def reorder_ancestry(ancestry: Tensor, order: Tensor, position: Tensor, beam: int) -> None:
    """Row r of the table (R, T) becomes row order[r], with order[r] in slot `position`."""
    rows, capacity = ancestry.shape
    reorder_kernel[(rows // beam,)](
        ancestry,
        order,
        position,
        capacity,
        BEAM=beam,
        SIZE=triton.next_power_of_2(beam),
        BLOCK=64,
        num_warps=1,
        **options(ancestry.is_cuda),
    )
