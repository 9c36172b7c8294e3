"""From the candidates of a step to its survivors: greedy search and sampling, beam search, groups and constraints.

The references are `harken.search.greedy` and `harken.search.beam`. `s` is the `Search` and `rules` the `Rules` of
`harken.kernels.decoding.search`, which also says how hypotheses are kept.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from harken.kernels.decoding.products import FLAGS
from harken.kernels.decoding.rules import follow, progress
from harken.kernels.decoding.tiles import out_of_line
from harken.kernels.linking import linked_njit

WORST = np.float32(-np.inf)
LEAST_COVERAGE = 1e-6  # of `harken.search.ranking`
ROWS, LIVE, TIME, STAMP, FIRST = range(5)  # of `Search.cursor`
ABORTED, ENDED = 1, 2  # of `stop`


@linked_njit(**FLAGS)
def divide(rules: Any, score: Any, length: Any) -> Any:
    """The score of a hypothesis by the penalty of its length; see `harken.search.ranking`."""
    base = (5.0 + length) / 6.0 if rules.gnmt else float(length)
    return score / np.float32(base**rules.length_penalty)


@linked_njit(**FLAGS)
def rank(rules: Any, score: Any, length: Any, covered: Any) -> Any:
    """The rank of a hypothesis of this length."""
    value = divide(rules, score, length)
    if rules.word_reward != 0:
        value += np.float32(rules.word_reward * length)
    return value + covered


@linked_njit(**FLAGS)
def _reachable(rules: Any, score: Any, length: Any, limit: Any) -> Any:
    """The best rank that a live hypothesis can still reach."""
    value = divide(rules, score, limit if score < 0 else length + 1)
    if rules.word_reward != 0:
        value += np.float32(rules.word_reward * (limit if rules.word_reward > 0 else length + 1))
    return value


@linked_njit(**FLAGS)
def cover(s: Any, rules: Any, rows: Any, time: Any) -> None:
    """The coverage of the live rows after this step's attention, and its term of the rank of each."""
    out_of_line()
    now, penalty = time % 2, np.float32(rules.coverage_penalty)
    for row in range(rows):
        sums, total = s.coverage[now, row], np.float32(0)
        source = s.sources[now, row]
        for k in range(s.starts[source + 1] - s.starts[source]):
            before = s.coverage[1 - now, s.ancestors[now, row, time - 1], k] if time > 0 else np.float32(0)
            sums[k] = before + s.attention[row, k]
            total += np.float32(math.log(min(max(sums[k], np.float32(LEAST_COVERAGE)), np.float32(1))))
        s.covered[row] = penalty * total


@linked_njit(**FLAGS)
def past_of(s: Any, row: Any, time: Any, past: Any) -> None:
    """The tokens of a live row before step `time`, which it is at."""
    ancestors = s.ancestors[time % 2, row]
    for step in range(1, time + 1):
        past[step - 1] = s.tokens[step, ancestors[step]]


@linked_njit(**FLAGS)
def _write(
    s: Any, result: Any, source: Any, slot: Any, score: Any, value: Any, row: Any, time: Any, last: Any, raw: Any,
    finished: Any,
) -> None:  # fmt: skip
    """The hypothesis of a row, and then the token `last`; EOS finishes it."""
    out_of_line()
    line, logs, past = result.tokens[source, slot], result.logs[source, slot], s.ancestors[time % 2, row]
    for step in range(1, time + 1):
        line[step - 1], logs[step - 1] = s.tokens[step, past[step]], s.logs[step, past[step]]
    logs[time] = raw
    result.finished[source, slot] = finished
    if not finished:
        line[time] = last
    result.lengths[source, slot] = time if finished else time + 1
    result.scores[source, slot], result.normalised[source, slot] = score, value
    result.covered[source, slot] = s.covered[row]


@linked_njit(**FLAGS)
def _insert(
    s: Any, result: Any, source: Any, score: Any, value: Any, row: Any, time: Any, token: Any, raw: Any, finished: Any
) -> None:
    """A hypothesis takes its place among those of its source, behind those that are equal."""
    best, slot = result.normalised[source], result.normalised.shape[1] - 1
    if not value > best[slot]:
        return
    while slot > 0 and best[slot - 1] < value:
        best[slot], result.scores[source, slot] = best[slot - 1], result.scores[source, slot - 1]
        result.lengths[source, slot], result.finished[source, slot] = result.lengths[source, slot - 1], finished
        result.covered[source, slot] = result.covered[source, slot - 1]
        for step in range(time + 1):  # earlier ones are no longer than this one
            result.tokens[source, slot, step] = result.tokens[source, slot - 1, step]
            result.logs[source, slot, step] = result.logs[source, slot - 1, step]
        slot -= 1
    _write(s, result, source, slot, score, value, row, time, token, raw, finished)


@linked_njit(**FLAGS)
def _survive(
    s: Any, parent: Any, row: Any, time: Any, source: Any, sample: Any, token: Any, score: Any, raw: Any
) -> None:
    """Row `row` of the next step continues row `parent` of this one."""
    now, then = time % 2, 1 - time % 2
    s.sources[then, row], s.samples[then, row], s.scores[then, row] = source, sample, score
    s.tokens[time + 1, row], s.logs[time + 1, row] = token, raw
    old, new = s.ancestors[now, parent], s.ancestors[then, row]
    for step in range(time + 1):
        new[step] = old[step]


@linked_njit(**FLAGS)
def force(s: Any, rows: Any, time: Any, token: Any) -> None:
    """All rows go on with one token, which costs nothing."""
    now = time % 2
    for row in range(rows):
        zero = np.float32(0)
        _survive(s, row, row, time, s.sources[now, row], s.samples[now, row], token, zero, zero)


@linked_njit(**FLAGS)
def advance_independent(s: Any, rules: Any, rows: Any, time: Any, limits: Any, stop: Any, result: Any) -> Any:
    """The first candidate of each row; returns the rows of the next step."""
    out_of_line()
    left, now = np.int64(0), time % 2
    for row in range(rows):
        source, sample, token = s.sources[now, row], s.samples[now, row], s.ids[row, 0]
        score, raw = s.scores[now, row] + s.values[row, 0], s.raws[row, 0]
        finished = token == rules.special.eos
        if finished or limits[source] <= time + 1 or stop[0] == ENDED:
            value = rank(rules, score, time + 1, s.covered[row])
            _write(s, result, source, sample, score, value, row, time, token, raw, finished)
        else:
            _survive(s, row, left, time, source, sample, token, score, raw)
            left += 1
    return left


@linked_njit(**FLAGS)
def _merge(s: Any, scores: Any, first: Any, live: Any, heads: Any, picks: Any, gains: Any) -> int:
    """Merges the sorted candidates of `live` rows from `first` on into `picks`: row, token, and their scores and logs.

    Of equal scores the better-ranked row comes first, then the better candidate. Returns how many there are.
    """
    for row in range(live):
        heads[row] = 0
    for pick in range(len(picks)):
        best, winner = WORST, -1
        for row in range(live):
            if heads[row] < s.values.shape[1]:
                total = scores[first + row] + s.values[first + row, heads[row]]
                if winner < 0 or total > best:
                    best, winner = total, row
        if winner < 0:
            return pick
        row, choice = first + winner, heads[winner]
        picks[pick, 0], picks[pick, 1] = row, s.ids[row, choice]
        gains[pick, 0], gains[pick, 1] = best, s.raws[row, choice]
        heads[winner] += 1
    return len(picks)


@linked_njit(**FLAGS)
def _candidates(
    s: Any, rules: Any, first: Any, live: Any, size: Any, chosen: Any, earlier: Any, time: Any, picks: Any, gains: Any
) -> Any:
    """The same with the penalty for tokens that earlier groups chose, and for constraints.

    Args:
        chosen: (beam, 2) of which the tokens of `earlier` rows were chosen at this step.
    """
    out_of_line()
    now, choices = time % 2, s.values.shape[1]
    program, wanted = rules.program, s.wanted.shape[2]
    constrained, most = program.constraints >= 0, live * (2 * size + wanted)
    rows, tokens, banks = np.empty(most, np.int64), np.empty(most, np.int64), np.zeros(most, np.int64)
    preferred, totals, raws = np.empty(most, np.float32), np.empty(most, np.float32), np.empty(most, np.float32)
    likings, order = np.empty(choices, np.float32), np.empty(choices, np.int64)
    past = np.empty(time + 1, np.int64)
    diversity, count = np.float32(rules.diversity), np.int64(0)
    for row in range(first, first + live):
        for choice in range(choices):  # sorted by what is left after the penalty; of equals the lower token first
            liking, token = s.values[row, choice], s.ids[row, choice]
            times = np.float32(0)
            for k in range(earlier):
                times += np.float32(1) if chosen[k, 1] == token else np.float32(0)
            liking -= diversity * times
            slot = choice
            while slot > 0 and (
                likings[slot - 1] < liking
                or (likings[slot - 1] == liking and s.ids[row, order[slot - 1]] > token and liking > WORST)
            ):
                likings[slot], order[slot] = likings[slot - 1], order[slot - 1]
                slot -= 1
            likings[slot], order[slot] = liking, choice
        begin, score = count, s.scores[now, row]
        for slot in range(min(choices, 2 * size)):
            choice = order[slot]
            rows[count], tokens[count], raws[count] = row, s.ids[row, choice], s.raws[row, choice]
            preferred[count], totals[count] = score + likings[slot], score + s.values[row, choice]
            count += 1
        for k in range(wanted):
            token, known = s.wanted_ids[row, k], False
            for other in range(begin, count):
                known = known or (tokens[other] == token and preferred[other] > WORST)
            if token != rules.special.pad and not known and s.wanted[0, row, k] > WORST:
                times = np.float32(0)
                for other in range(earlier):
                    times += np.float32(1) if chosen[other, 1] == token else np.float32(0)
                rows[count], tokens[count], raws[count] = row, token, s.wanted[1, row, k]
                totals[count] = score + s.wanted[0, row, k]
                preferred[count] = score + (s.wanted[0, row, k] - diversity * times)
                count += 1
        if constrained:
            source = s.cursor[FIRST] + s.sources[now, row]
            for step in range(1, time + 1):
                past[step - 1] = s.tokens[step, s.ancestors[now, row, step]]
            for other in range(begin, count):
                past[time] = tokens[other]
                follow(program.data, program.constraints, source, past, time + 1, s.progress)
                banks[other] = progress(program.data, program.constraints, source, s.progress)
    sequence = np.empty(count, np.int64)
    _sort(preferred, count, sequence)
    if constrained:
        _share(preferred, banks, sequence)
    taken: Any = min(count, len(picks))
    for pick in range(taken):
        at = sequence[pick]
        picks[pick, 0], picks[pick, 1], gains[pick, 0], gains[pick, 1] = rows[at], tokens[at], totals[at], raws[at]
    return taken


@linked_njit(**FLAGS)
def _sort(values: Any, count: Any, order: Any) -> None:
    """Indices by falling values, stably."""
    for index in range(count):
        slot = index
        while slot > 0 and values[order[slot - 1]] < values[index]:
            order[slot] = order[slot - 1]
            slot -= 1
        order[slot] = index


@linked_njit(**FLAGS)
def _share(values: Any, banks: Any, order: Any) -> None:
    """Sorted candidates: the best of each bank, the second best of each ...; see `harken.search.rules.constraints`."""
    count = len(order)
    rounds, ranked = np.empty(count, np.int64), order.copy()
    for place in range(count):
        rounds[place] = count
        if values[ranked[place]] > WORST:
            rounds[place] = 0
            for before in range(place):
                rounds[place] += 1 if banks[ranked[before]] == banks[ranked[place]] else 0
    places = np.empty(count, np.int64)
    for place in range(count):
        slot, bank = place, banks[ranked[place]]
        while slot > 0 and (
            rounds[places[slot - 1]] > rounds[place]
            or (rounds[places[slot - 1]] == rounds[place] and banks[ranked[places[slot - 1]]] < bank)
        ):
            places[slot] = places[slot - 1]
            slot -= 1
        places[slot] = place
    for place in range(count):
        order[place] = ranked[places[place]]


@linked_njit(**FLAGS)
def _have_same_past(s: Any, row: Any, other: Any, time: Any) -> bool:
    """Whether two live rows have equal tokens."""
    first, second = s.ancestors[time % 2, row], s.ancestors[time % 2, other]
    for step in range(time, 0, -1):
        if first[step] == second[step]:
            return True
        if s.tokens[step, first[step]] != s.tokens[step, second[step]]:
            return False
    return True


@linked_njit(**FLAGS)
def advance_beam(s: Any, rules: Any, rows: Any, live: Any, time: Any, limits: Any, stop: Any, result: Any) -> Any:
    """The best continuations of each source. Returns the rows of the next step."""
    out_of_line()
    beam, left, now, groups = rules.beam, np.int64(0), time % 2, rules.groups
    size, scores, length = beam // groups, s.scores[now], time + 1
    merges = groups == 1 and rules.program.constraints < 0
    heads, picks = np.empty(beam, np.int64), np.empty((2 * size, 2), np.int64)
    gains = np.empty((2 * size, 2), np.float32)
    chosen, survivors, gained = np.empty((beam, 2), np.int64), np.empty(beam, np.float32), np.empty(beam, np.float32)
    ended = np.empty(beam, np.int64)  # rows that have finished in this step
    for first in range(0, rows, live):
        source, over = s.sources[now, first], 0
        for group in range(groups):
            start, own = (first + group * size, size) if live > 1 else (first, live)
            if merges:
                count = _merge(s, scores, start, own, heads, picks, gains)
            else:
                count = _candidates(s, rules, start, own, size, chosen, group * size, time, picks, gains)
            filled = group * size
            for pick in range(count):
                row, token, score, raw = picks[pick, 0], picks[pick, 1], gains[pick, 0], gains[pick, 1]
                if token == rules.special.eos:
                    if pick < size and score > WORST:  # below the beam it would not have survived either
                        is_new = True
                        for k in range(over):
                            is_new = is_new and not _have_same_past(s, row, ended[k], time)
                        if is_new:
                            value = rank(rules, score, length, s.covered[row])
                            _insert(s, result, source, score, value, row, time, token, raw, True)
                            s.ended[source] += 1
                            ended[over] = row
                            over += 1
                elif filled < (group + 1) * size:
                    chosen[filled, 0], chosen[filled, 1], survivors[filled], gained[filled] = row, token, score, raw
                    filled += 1
            while filled < (group + 1) * size:  # fewer candidates than the beam is wide
                chosen[filled, 0], chosen[filled, 1] = first, rules.special.pad
                survivors[filled], gained[filled] = WORST, WORST
                filled += 1
        best = survivors[:beam].max()
        done = limits[source] <= length or stop[0] == ENDED
        done = done or result.normalised[source, rules.nbest - 1] >= _reachable(rules, best, length, limits[source])
        done = done or (rules.first and result.normalised[source, 0] >= rank(rules, best, length, np.float32(0)))
        if not done and s.ended[source] < rules.max_finished:
            for slot in range(beam):
                row, token = chosen[slot, 0], chosen[slot, 1]
                _survive(s, row, left + slot, time, source, np.int64(0), token, survivors[slot], gained[slot])
            left += beam
        elif result.lengths[source, 0] < 0:  # nothing has finished
            _cut_off(s, rules, source, time, chosen, survivors, gained, result)
    return left


@linked_njit(**FLAGS)
def _cut_off(s: Any, rules: Any, source: Any, time: Any, chosen: Any, survivors: Any, gained: Any, result: Any) -> None:
    """The survivors as they are, best first; with constraints those that have met most come first."""
    out_of_line()
    beam, program = rules.beam, rules.program
    values, met, order = np.empty(beam, np.float32), np.zeros(beam, np.int64), np.empty(beam, np.int64)
    past = np.empty(time + 1, np.int64)
    for slot in range(beam):
        row, token = chosen[slot, 0], chosen[slot, 1]
        values[slot] = WORST
        if survivors[slot] > WORST:
            values[slot] = rank(rules, survivors[slot], time + 1, s.covered[row])
            for other in range(slot if rules.groups > 1 else 0):
                is_equal = token == chosen[other, 1] and survivors[other] > WORST
                if is_equal and _have_same_past(s, row, chosen[other, 0], time):
                    values[slot] = WORST
        if program.constraints >= 0 and values[slot] > WORST:
            past_of(s, row, time, past)
            past[time] = token
            follow(program.data, program.constraints, s.cursor[FIRST] + source, past, time + 1, s.progress)
            met[slot] = progress(program.data, program.constraints, s.cursor[FIRST] + source, s.progress)
    for index in range(beam):
        slot = index
        while slot > 0 and (
            met[order[slot - 1]] < met[index]
            or (met[order[slot - 1]] == met[index] and values[order[slot - 1]] < values[index])
        ):
            order[slot] = order[slot - 1]
            slot -= 1
        order[slot] = index
    out = 0
    for index in order:
        if values[index] > WORST and out < rules.nbest:
            score, row, token = survivors[index], chosen[index, 0], chosen[index, 1]
            _write(s, result, source, out, score, values[index], row, time, token, gained[index], False)
            out += 1
