"""Phrases that must appear, on a GPU: what each hypothesis has of them, and the candidates that bring them forward.

The reference is `harken.search.rules.constraints`. Two kernels: one program for each hypothesis follows its phrases and
forbids an EOS that comes too early; one program for each source adds the tokens that are asked for to the candidates,
counts the constraint tokens of each, and shares the places of the next beam among those banks.

What a hypothesis has of an alternative is one number:

    bit 0      the alternative stands in it as words
    bit 1      its last tokens are the alternative, which counts unless the next token continues a word
    bit 2 + m  its last m tokens are the first m of the alternative
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.decoding.cuda.rules import raw_logits
from harken.kernels.triton_import import tl, triton

BLOCK = 64  # tokens of a hypothesis that are compared at a time
LONGEST = 28  # tokens of an alternative, of which there are bits
MOST = 1024  # candidates of a source


@triton.jit
def follow_kernel(
    scores: tl.tensor,
    past: tl.tensor,
    position: tl.tensor,
    words: tl.tensor,
    lengths: tl.tensor,
    owners: tl.tensor,
    exists: tl.tensor,
    joins: tl.tensor,
    states: tl.tensor,
    required: tl.tensor,
    vocabulary: tl.tensor,
    capacity: tl.tensor,
    beam: tl.tensor,
    alternatives: tl.tensor,
    constraints: tl.tensor,
    longest: tl.tensor,
    PAD: tl.constexpr,
    EOS: tl.constexpr,
    SIZE: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One row of scores (R, V) and tokens (R, T): states (R, A) and required tokens (R, 2 A), PAD where there are none.

    Words (B, A, P), lengths and owners (B, A), exists (B, C), joins (V,); SIZE and COUNT are A and C rounded up.
    """
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row, slot = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    source, own, time = row // beam, past + row * capacity, tl.load(position).to(tl.int32)
    last = tl.load(own + time - 1, time > 0, other=PAD)
    for k in range(alternatives):
        phrase = words + (source * alternatives + k) * longest
        length = tl.load(lengths + source * alternatives + k).to(tl.int32)
        begins_inside = tl.load(joins + tl.load(phrase)).to(tl.int32)
        stands, ends = tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
        suffixes = tl.where(begins_inside * tl.load(joins + last).to(tl.int32) > 0, 0, 4)
        for start in range(0, time, BLOCK):
            at = start + slot
            before = tl.load(own + at - 1, (at > 0) & (at < time), other=PAD)
            matches = (at < time) & (begins_inside * tl.load(joins + before).to(tl.int32) == 0)
            for index in range(length):
                is_over = matches & (at + index == time)
                suffixes += tl.sum(tl.where(is_over, 4 << index, 0), 0)
                token = tl.load(own + at + index, at + index < time, other=PAD)
                matches = matches & (token == tl.load(phrase + index).to(tl.int32))
            matches = matches & (length > 0)
            after = tl.load(own + at + length, at + length < time, other=PAD)
            is_word = (at + length < time) & (tl.load(joins + after).to(tl.int32) == 0)
            stands = tl.maximum(stands, tl.max((matches & is_word).to(tl.int32), 0))
            ends = tl.maximum(ends, tl.max((matches & (at + length == time)).to(tl.int32), 0))
        tl.store(states + row * alternatives + k, stands + 2 * ends + suffixes)
    tl.debug_barrier()  # what a thread wrote is read by others

    k, c = tl.arange(0, SIZE), tl.arange(0, COUNT)
    state = tl.load(states + row * alternatives + k, k < alternatives, other=0)
    owner = tl.load(owners + source * alternatives + k, k < alternatives, other=-1).to(tl.int32)
    is_met = tl.max(((owner[None, :] == c[:, None]) & (state & 3 > 0)[None, :]).to(tl.int32), 1)  # (C,)
    is_there = tl.load(exists + source * constraints + c, c < constraints, other=0).to(tl.int32)
    unmet = is_there * (1 - is_met)
    tl.store(scores + row * vocabulary + EOS, float("-inf"), tl.max(unmet, 0) > 0)
    is_open = tl.max(tl.where(owner[:, None] == c[None, :], unmet[None, :], 0), 1) > 0  # (A,)
    begun, length = (
        tl.zeros((SIZE,), tl.int32),
        tl.load(lengths + source * alternatives + k, k < alternatives, other=0).to(tl.int32),
    )
    for count in range(1, longest):
        begun = tl.where((count < length) & ((state >> (2 + count)) & 1 > 0), count, begun)
    phrase = words + (source * alternatives + k) * longest
    first = tl.load(phrase, k < alternatives, other=PAD).to(tl.int32)
    following = tl.load(phrase + begun, k < alternatives, other=PAD).to(tl.int32)
    out = required + row * 2 * alternatives + k
    tl.store(out, tl.where(is_open & (begun > 0), following, PAD), k < alternatives)
    tl.store(out + alternatives, tl.where(is_open, first, PAD), k < alternatives)


@triton.jit
def share_kernel(
    values: tl.tensor,
    raws: tl.tensor,
    ids: tl.tensor,
    scores: tl.tensor,
    base: tl.tensor,
    past: tl.tensor,
    saved: tl.tensor,
    kept: tl.tensor,
    target: tl.tensor,
    log_sums: tl.tensor,
    shift: tl.tensor,
    numbers: tl.tensor,
    position: tl.tensor,
    only: tl.tensor,
    totals: tl.tensor,
    words: tl.tensor,
    lengths: tl.tensor,
    owners: tl.tensor,
    exists: tl.tensor,
    joins: tl.tensor,
    states: tl.tensor,
    required: tl.tensor,
    offers: tl.tensor,
    gains: tl.tensor,
    chosen: tl.tensor,
    parents: tl.tensor,
    progress: tl.tensor,
    vocabulary: tl.tensor,
    capacity: tl.tensor,
    alternatives: tl.tensor,
    constraints: tl.tensor,
    longest: tl.tensor,
    PAD: tl.constexpr,
    UNKNOWN: tl.constexpr,
    BEAM: tl.constexpr,
    SIZE: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One source: candidates (R, 2 BEAM) and required tokens -> the best 2 BEAM (B, 2 BEAM) by banks, in order.

    `totals` (R,) are the scores of the hypotheses; SIZE is the number of all candidates rounded up.
    """
    if OVERLAP:
        allow_next()
        wait_for_previous()
    source, place, lowest = tl.program_id(0).to(tl.int64), tl.arange(0, SIZE), float("-inf")
    few: tl.constexpr = 2 * BEAM
    width = few + 2 * alternatives
    hypothesis, choice = place // width, place % width
    inside, is_best = place < BEAM * width, choice < few
    row = source * BEAM + tl.where(inside, hypothesis, 0)
    best, asked = row * few + choice, row * 2 * alternatives + choice - few
    token = tl.load(ids + best, inside & is_best, other=PAD).to(tl.int32)
    token = tl.where(is_best, token, tl.load(required + asked, inside & (choice >= few), other=PAD))
    value = tl.load(values + best, inside & is_best, other=lowest)
    raw = tl.load(raws + best, inside & is_best, other=0.0)
    more = tl.load(scores + row * vocabulary + token, inside & (choice >= few), other=lowest).to(tl.float32)
    more += tl.load(shift + row)
    before = raw_logits(
        base, past, saved, kept, target, numbers, position, row, token, inside, vocabulary, capacity, UNKNOWN
    )
    raw = tl.where(is_best, raw, before - tl.load(log_sums + row))
    allowed = tl.load(only + row, inside, other=-1)
    is_known = (token == PAD) | ((allowed >= 0) & (token != allowed))
    for other in range(few):
        same = tl.load(ids + row * few + other, inside, other=PAD).to(tl.int32) == token
        is_known = is_known | (same & (tl.load(values + row * few + other, inside, other=lowest) > lowest))
    for other in range(2 * alternatives):
        same = tl.load(required + row * 2 * alternatives + other, inside, other=PAD) == token
        is_known = is_known | (same & (other < choice - few))
    value = tl.where(is_best, value, tl.where(is_known, lowest, more))
    offer = tl.where(inside, value + tl.load(totals + row, inside, other=lowest), lowest)

    continues = tl.load(joins + token, inside, other=0).to(tl.int32)
    bank, begun = tl.zeros((SIZE,), tl.int32), tl.zeros((SIZE,), tl.int32)
    for c in range(constraints):
        met, started = tl.zeros((SIZE,), tl.int32), tl.zeros((SIZE,), tl.int32)
        shortest = longest + 1
        for k in range(alternatives):
            phrase = words + (source * alternatives + k) * longest
            length = tl.load(lengths + source * alternatives + k).to(tl.int32)
            is_own = (tl.load(owners + source * alternatives + k) == c) & (length > 0)
            state = tl.load(states + row * alternatives + k, inside, other=0)
            shortest = tl.where(is_own, tl.minimum(shortest, length), shortest)
            held = (state & 1) | (((state >> 1) & 1) * (1 - continues))
            for index in range(length):
                fits = ((state >> (2 + index)) & 1) * (token == tl.load(phrase + index).to(tl.int32)).to(tl.int32)
                held = held | tl.where(index == length - 1, fits, 0)
                is_start = is_own & (index < length - 1) & (fits > 0)
                started = tl.where(is_start, tl.maximum(started, index + 1), started)
            met = tl.where(is_own, met | held, met)
        is_there = tl.load(exists + source * constraints + c).to(tl.int32)
        bank += is_there * met * shortest
        begun = tl.where((is_there > 0) & (met == 0), tl.maximum(begun, started), begun)
    bank += begun

    turn, left = tl.zeros((SIZE,), tl.int32), offer > lowest
    for index in tl.static_range(few):
        first_turn = tl.min(tl.where(left, turn, SIZE), 0)
        is_next = left & (turn == first_turn)
        highest = tl.max(tl.where(is_next, bank, -1), 0)
        is_next = is_next & (bank == highest)
        top, at = tl.max(tl.where(is_next, offer, lowest), 0, return_indices=True, return_indices_tie_break_left=True)
        here, out = place == at, source * few + index
        tl.store(offers + out, top)
        tl.store(gains + out, tl.sum(tl.where(here, raw, 0.0), 0))
        tl.store(chosen + out, tl.sum(tl.where(here, token, 0), 0).to(tl.int64))
        tl.store(parents + out, tl.sum(tl.where(here, hypothesis, 0), 0))
        tl.store(progress + out, tl.sum(tl.where(here, bank, 0), 0))
        left = left & (place != at)
        turn += (bank == highest).to(tl.int32)


def follow_constraints(search: Any, rules: Any, scores: Tensor) -> None:
    """What the hypotheses of a step have of their constraints; no EOS in scores (R, V) before all are met."""
    phrases, (rows, vocabulary), past = rules.constraints, scores.shape, rules.histories[0]
    (_, alternatives, longest), constraints = phrases.tokens.shape, phrases.exists.shape[1]
    follow_kernel[(rows,)](
        scores, past, search.length, phrases.tokens, phrases.lengths, phrases.constraint, phrases.exists, phrases.joins,
        rules.states, rules.required, vocabulary, past.shape[1], search.beam, alternatives, constraints, longest,
        PAD=search.special.pad, EOS=search.special.eos, SIZE=triton.next_power_of_2(alternatives),
        COUNT=triton.next_power_of_2(constraints), BLOCK=BLOCK, num_warps=1, **options(scores.is_cuda),
    )  # fmt: skip


def share_by_bank(
    search: Any, rules: Any, best: tuple[Tensor, Tensor, Tensor], logits: Tensor, base: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The candidates (B, 2 beam) of the next beam: scores with those of their hypotheses, log-probabilities, ids,
    parents and constraint tokens.

    Args:
        best: scores, log-probabilities and ids (R, 2 beam) of each hypothesis.
        logits, base: see `harken.kernels.decoding.cuda.choosing.choose_scored`.
    """
    phrases, beam = rules.constraints, search.beam
    sources, (_, alternatives, longest), constraints = len(search.done), phrases.tokens.shape, phrases.exists.shape[1]
    offers, gains = torch.empty(2, sources, 2 * beam, device=logits.device).unbind(0)
    chosen = torch.empty(sources, 2 * beam, dtype=torch.long, device=logits.device)
    parents, progress = torch.empty(2, sources, 2 * beam, dtype=torch.int32, device=logits.device).unbind(0)
    size = triton.next_power_of_2(beam * (2 * beam + 2 * alternatives))
    share_kernel[(sources,)](
        *best, logits, base, rules.histories[0], rules.saved, rules.kept, rules.target, rules.log_sums, rules.shift,
        rules.numbers, search.length, rules.only, search.scores, phrases.tokens, phrases.lengths,
        phrases.constraint, phrases.exists, phrases.joins, rules.states, rules.required, offers, gains, chosen, parents,
        progress, logits.shape[1], rules.saved.shape[1], alternatives, constraints, longest,
        PAD=search.special.pad, UNKNOWN=rules.unknown, BEAM=beam, SIZE=size, num_warps=max(1, min(8, size // 64)),
        **options(logits.is_cuda),
    )  # fmt: skip
    return offers, gains, chosen, parents, progress
