"""The bookkeeping of greedy and beam search after a step, one program a source, in place of some ninety operators.

`harken.search.device_search.DeviceSearch` has the buffers. The reference is `harken.search.beam`.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from harken.kernels.decoding.cuda.choosing import choose as choose
from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.triton_import import tl, triton


@triton.jit
def greedy_kernel(
    values: tl.tensor,
    ids: tl.tensor,
    tokens: tl.tensor,
    table: tl.tensor,
    logs: tl.tensor,
    limit: tl.tensor,
    done: tl.tensor,
    length: tl.tensor,
    rows: tl.tensor,
    BLOCK: tl.constexpr,
    PAD: tl.constexpr,
    EOS: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """BLOCK rows: values and ids (B, 1), table (T, 2, B, 1), logs (T, B, 1)."""
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, time = row < rows, tl.load(length)
    was_done = tl.load(done + row, inside, other=1) != 0
    token = tl.where(was_done, PAD, tl.load(ids + row, inside, other=PAD))
    tl.store(tokens + row, token, inside)
    tl.store(table + time * 2 * rows + row, token, inside)
    tl.store(logs + time * rows + row, tl.load(values + row, inside, other=0.0), inside)
    ended = was_done | (token == EOS) | (tl.load(limit + row, inside, other=0) <= time + 1)
    tl.store(done + row, ended, inside)


@triton.jit
def beam_kernel(
    values: tl.tensor,
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
    max_finished: tl.tensor,
    worst_kept: tl.tensor,
    length: tl.tensor,
    rows: tl.tensor,
    BEAM: tl.constexpr,
    OFFERS: tl.constexpr,
    SIZE: tl.constexpr,
    PAD: tl.constexpr,
    EOS: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One source; `rows` is the number of sources, OFFERS and SIZE are 2 BEAM^2 and 2 BEAM rounded up."""
    if OVERLAP:
        allow_next()
        wait_for_previous()
    source = tl.program_id(0).to(tl.int64)
    few: tl.constexpr = 2 * BEAM
    lowest = float("-inf")
    time = tl.load(length)
    was_done = tl.load(done + source) != 0
    slot, offer = tl.arange(0, SIZE), tl.arange(0, OFFERS)
    own, real = source * BEAM + slot, slot < BEAM
    given = offer < BEAM * few
    start = source * BEAM * few
    offers = tl.load(values + start + offer, given, other=lowest) + tl.load(
        scores + source * BEAM + offer // few, given, other=lowest
    )
    best, where = tl.full((SIZE,), lowest, tl.float32), tl.zeros((SIZE,), tl.int32)
    for index in tl.static_range(few):
        top, at = tl.max(offers, 0, return_indices=True, return_indices_tie_break_left=True)
        best, where = tl.where(slot == index, top, best), tl.where(slot == index, at, where)
        offers = tl.where(offer == at, lowest, offers)
    chosen = tl.load(ids + start + where)
    gained = tl.load(values + start + where)
    parent = where // few
    before = tl.load(nodes + source * BEAM + parent)
    ended = chosen == EOS
    divisor = tl.load(divisors + time + 1)

    closed = tl.where(ended & real & (was_done == 0), best, lowest)  # those that end among the first BEAM
    plane = rows * BEAM
    shift = tl.where(slot >= BEAM, slot - BEAM, 0)
    is_new = (slot >= BEAM) & (slot < few)
    ranks = tl.load(finished + own, real, other=lowest)
    ranks = tl.where(is_new, tl.gather(closed / divisor, shift, 0), ranks)
    totals = tl.where(is_new, tl.gather(closed, shift, 0), tl.load(finished + plane + own, real, other=lowest))
    ends = tl.where(is_new, tl.gather(gained, shift, 0), tl.load(finished + 2 * plane + own, real, other=0.0))
    end_nodes = tl.where(is_new, tl.gather(before, shift, 0), tl.load(finished_nodes + own, real, other=-1))
    sorted_ranks, pick = tl.full((SIZE,), lowest, tl.float32), tl.zeros((SIZE,), tl.int32)
    left = ranks
    for index in tl.static_range(BEAM):
        top, at = tl.max(left, 0, return_indices=True, return_indices_tie_break_left=True)
        sorted_ranks, pick = tl.where(slot == index, top, sorted_ranks), tl.where(slot == index, at, pick)
        left = tl.where(slot == at, lowest, left)
    num_finished = tl.load(count + source) + tl.sum((closed > lowest).to(tl.int64), 0)
    tl.store(count + source, num_finished)

    goes_on = (ended == 0) & (slot < few)
    rank = tl.cumsum(goes_on.to(tl.int32), 0) - 1
    match = (rank[None, :] == slot[:, None]) & goes_on[None, :]  # (new, old)
    old = tl.sum(tl.where(match, slot[None, :], 0), 1)
    exists = tl.sum(match.to(tl.int32), 1) > 0
    live = tl.where(exists, tl.gather(best, old, 0), lowest)
    token = tl.where(exists, tl.gather(chosen, old, 0), PAD)
    parent = tl.where(exists, tl.gather(parent, old, 0), 0)
    node = time * plane + own
    tl.store(scores + own, live, real)
    tl.store(tokens + own, token, real)
    tl.store(order + own, source * BEAM + parent, real)
    tl.store(table + time * 2 * plane + own, token, real)
    tl.store(table + (time * 2 + 1) * plane + own, tl.gather(before, old, 0), real)
    tl.store(logs + time * plane + own, tl.gather(gained, old, 0), real)
    tl.store(nodes + own, node, real)

    most = tl.load(limit + source)
    bound = tl.sum(tl.where(slot == 0, live, 0.0), 0) / tl.load(divisors + most)
    worst = tl.sum(tl.where(slot == tl.load(worst_kept), sorted_ranks, 0.0), 0)
    first = tl.sum(tl.where(slot == 0, sorted_ranks, 0.0), 0)
    is_done = was_done | (most <= time + 1) | (num_finished >= tl.load(max_finished)) | (worst >= bound)
    is_cut = is_done & (was_done == 0) & (first == lowest)
    tl.store(done + source, is_done)
    tl.store(cut + source, is_cut | (tl.load(cut + source) != 0))
    tl.store(finished + own, tl.where(is_cut, live / divisor, sorted_ranks), real)
    tl.store(finished + plane + own, tl.where(is_cut, live, tl.gather(totals, pick, 0)), real)
    tl.store(finished + 2 * plane + own, tl.where(is_cut, 0.0, tl.gather(ends, pick, 0)), real)
    tl.store(finished_nodes + own, tl.where(is_cut, node, tl.gather(end_nodes, pick, 0)), real)


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


def extend_greedy(search: Any, values: Tensor, ids: Tensor) -> None:
    """Greedy search: append the best token of each row (B, 1)."""
    rows = len(search.done)
    block = min(128, triton.next_power_of_2(rows))
    greedy_kernel[(triton.cdiv(rows, block),)](
        values, ids, search.tokens, search.table, search.logs, search.limit, search.done, search.length, rows,
        BLOCK=block, PAD=search.special.pad, EOS=search.special.eos, num_warps=1, **options(values.is_cuda),
    )  # fmt: skip


def select_beam(search: Any, values: Tensor, ids: Tensor) -> Tensor:
    """Beam search: keep the survivors of the best continuations (R, C); returns their parents' rows (R,)."""
    rows, beam = search.scores.shape
    beam_kernel[(rows,)](
        values, ids, search.scores, search.nodes, search.tokens, search.order, search.table, search.logs,
        search.finished, search.finished_nodes, search.count, search.limit, search.done, search.cut, search.divisors,
        search.max_finished, search.worst_kept, search.length, rows,
        BEAM=beam, OFFERS=triton.next_power_of_2(2 * beam * beam), SIZE=triton.next_power_of_2(2 * beam),
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
