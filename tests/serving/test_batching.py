"""The queue: budgets, fairness between clients, bounds, retries."""

import time

import pytest

from harken.serving.engine.batching import Batch, Batcher, Unit, Work
from harken.serving.engine.costs import costs_of, estimate_tokens
from harken.serving.errors import QueueFull, TooLarge


def work(client: str, count: int, cost: int = 2, **options: object) -> Work:
    items = [f"{client}{number}" for number in range(count)]
    return Work("m", "translate", dict(options), items, client, [cost] * count)


def batches(batcher: Batcher) -> list[list[str]]:
    found = []
    while (batch := batcher.next()) is not None:
        found.append(batch.items)
    return found


def test_texts_of_several_requests_share_a_batch_within_the_budget() -> None:
    batcher = Batcher(batch_tokens=6, batch_texts=100, queue_tokens=100)
    for client in "abcd":
        batcher.add(work(client, 1))
    assert batches(batcher) == [["a0", "b0", "c0"], ["d0"]]
    assert batcher.waiting == 0


def test_a_batch_has_no_more_texts_than_allowed() -> None:
    batcher = Batcher(batch_tokens=1000, batch_texts=2, queue_tokens=1000)
    batcher.add(work("a", 5))
    assert [len(batch) for batch in batches(batcher)] == [2, 2, 1]


def test_a_large_request_does_not_delay_others() -> None:
    batcher = Batcher(batch_tokens=8, batch_texts=100, queue_tokens=1000)
    batcher.add(work("greedy", 100))
    batcher.add(work("small", 2))
    first = batcher.next()
    assert first is not None and {"small0", "small1"} <= set(first.items) and len(first.items) == 4


def test_clients_share_by_tokens_and_not_by_texts() -> None:
    batcher = Batcher(batch_tokens=40, batch_texts=100, queue_tokens=1000)
    batcher.add(work("long", 10, cost=10))
    batcher.add(work("short", 40, cost=2))
    found = batcher.next()
    assert found is not None
    assert sum(10 for item in found.items if item.startswith("long")) == 20
    assert sum(2 for item in found.items if item.startswith("short")) == 20


def test_other_options_or_models_run_in_other_batches() -> None:
    batcher = Batcher(batch_tokens=100, batch_texts=100, queue_tokens=100)
    batcher.add(work("a", 2, beam=1))
    batcher.add(work("b", 2, beam=5))
    batcher.add(work("c", 1, beam=1))
    assert sorted(map(sorted, batches(batcher))) == [["a0", "a1", "c0"], ["b0", "b1"]]


def test_work_that_must_stay_whole_runs_alone_and_in_one_piece() -> None:
    batcher = Batcher(batch_tokens=4, batch_texts=2, queue_tokens=100)
    whole = Work("m", "translate", {}, ["x", "y", "z"], "a", [2, 2, 2], whole=True)
    batcher.add(whole)
    batcher.add(work("b", 1))
    assert batches(batcher) == [["x", "y", "z"], ["b0"]]


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    batcher = Batcher(batch_tokens=10, batch_texts=100, queue_tokens=10)
    batcher.speed._sums = [[[2.0, 1.0], [2.0, 1.0]]]  # two tokens a second
    batcher.add(work("a", 4))  # 8 tokens
    with pytest.raises(QueueFull) as refused:
        batcher.add(work("b", 2))
    assert refused.value.status == 429 and refused.value.headers == {"Retry-After": "4"}
    batcher.add(work("b", 1))
    assert (batcher.waiting, batcher.running) == (10, 0)
    batch = batcher.next()
    assert batch is not None and (batcher.waiting, batcher.running) == (0, 10)
    batcher.done(batch, batch.started + 1)
    assert batcher.running == 0


def measured(batcher: Batcher, seconds: float, workers: int = 1, since: float = 0.0) -> float:
    """Workers that begin together do batches of ten tokens in `seconds` each; when they have done 40."""
    now = since
    for _ in range(40):
        for worker in range(workers):
            batch = Batch("m", "translate", {}, [Unit(work("a", 1), (0,), 10, ())], now, worker)
            batcher.running += 10
            batcher.done(batch, now + seconds + 0.001 * worker)
        now += seconds
    assert batcher.running == 0
    return now


def test_the_speed_is_that_of_all_workers_and_the_slower_of_two_times() -> None:
    batcher = Batcher(batch_tokens=10, batch_texts=100, queue_tokens=1000, workers=2)
    now = measured(batcher, 1.0, workers=2)
    assert batcher.speed.of(1) == pytest.approx(10, rel=0.02) and batcher.speed.total() == pytest.approx(20, rel=0.02)
    now = measured(batcher, 0.1, workers=2, since=now)  # ten times as fast for four seconds
    assert 20 < batcher.speed.total() < 60  # not believed yet
    measured(batcher, 2.0, workers=2, since=now)
    assert batcher.speed.total() == pytest.approx(10, rel=0.05)


def test_work_is_refused_that_would_wait_for_a_large_share_of_its_time() -> None:
    batcher = Batcher(batch_tokens=10, batch_texts=100, queue_tokens=1000, queue_share=0.25)
    measured(batcher, 1.0)  # ten tokens a second
    first, second, hurried = work("a", 20), work("b", 10), work("b", 1)
    first.deadline = second.deadline = time.monotonic() + 20
    hurried.deadline = time.monotonic() + 1
    batcher.add(first)  # 40 tokens, four seconds
    with pytest.raises(QueueFull) as refused:
        batcher.add(second)  # six seconds are more than a quarter of twenty
    assert refused.value.retry_after == 4
    second.deadline += 10
    batcher.add(second)
    with pytest.raises(QueueFull):
        batcher.add(hurried)
    hurried.is_continued = True
    batcher.add(hurried)


def test_work_that_cannot_be_done_in_time_is_refused_unless_the_server_is_idle() -> None:
    batcher = Batcher(batch_tokens=10, batch_texts=100, queue_tokens=1000)
    measured(batcher, 1.0)
    long, short = work("a", 20), work("b", 1)
    long.deadline = time.monotonic() + 3
    batcher.add(short)
    assert batcher.next() is not None  # it runs
    with pytest.raises(QueueFull):
        batcher.add(long)
    batcher.running = 0
    batcher.add(long)


def test_an_idle_server_that_was_slow_once_accepts_everything_and_measures_again() -> None:
    batcher = Batcher(batch_tokens=10, batch_texts=100, queue_tokens=1000)
    now = measured(batcher, 0.01)
    stalled = Batch("m", "translate", {}, [Unit(work("a", 1), (0,), 10, ())], now)
    batcher.running += 10
    batcher.done(stalled, now + 600)  # ten minutes for ten tokens
    text = work("a", 100)
    text.deadline = time.monotonic() + 60
    batcher.add(text)
    while batcher.next() is not None:
        pass
    batcher.running = 0
    measured(batcher, 0.5, since=now + 600)  # twenty seconds at twenty tokens a second
    assert batcher.speed.total() > 10


def test_urgent_work_goes_before_new_clients() -> None:
    batcher = Batcher(batch_tokens=4, batch_texts=100, queue_tokens=1000)
    batcher.add(work("old", 4))
    assert batcher.next() is not None
    urgent = batcher._queues["old"][0].work
    batcher.add(work("new", 2))
    urgent.urgent_at, urgent.deadline = 0.0, time.monotonic() + 1
    assert batches(batcher) == [["old2", "old3"], ["new0", "new1"]]


def test_a_request_larger_than_the_queue_is_told_that_it_never_fits() -> None:
    batcher = Batcher(batch_tokens=10, batch_texts=100, queue_tokens=10)
    with pytest.raises(TooLarge, match=r"costs 100 tokens.* the limit is 10") as refused:
        batcher.add(work("a", 50))
    assert refused.value.status == 413 and refused.value.headers == {}
    batcher.add(work("a", 5))


def test_cancelled_work_is_dropped_and_its_room_is_free() -> None:
    batcher = Batcher(batch_tokens=10, batch_texts=100, queue_tokens=10)
    gone, there = work("a", 3), work("b", 2)
    batcher.add(gone)
    batcher.add(there)
    batcher.remove(gone)
    assert batcher.waiting == 4
    batcher.remove(gone)
    assert batches(batcher) == [["b0", "b1"]]
    assert batcher.waiting == 0


def test_results_go_to_their_requests() -> None:
    batcher = Batcher(batch_tokens=100, batch_texts=100, queue_tokens=100)
    done = []
    first, second = work("a", 2), work("b", 1)
    for one in (first, second):
        one.on_done = done.append
        batcher.add(one)
    batch = batcher.next()
    assert batch is not None
    batch.finish([item.upper() for item in batch.items])
    assert first.results == ["A0", "A1"] and second.results == ["B0"] and set(done) == {first, second}


def test_an_error_of_one_text_fails_its_request_alone() -> None:
    batcher = Batcher(batch_tokens=100, batch_texts=100, queue_tokens=100)
    failed = []
    first, second = work("a", 1), work("b", 1)
    first.on_error = lambda one, error: failed.append(str(error))
    for one in (first, second):
        batcher.add(one)
    batch = batcher.next()
    assert batch is not None
    batch.finish([ValueError("bad") if item == "a0" else "fine" for item in batch.items])
    assert failed == ["bad"] and second.results == ["fine"]


def test_work_of_a_dead_worker_runs_again_each_request_alone() -> None:
    batcher = Batcher(batch_tokens=100, batch_texts=100, queue_tokens=100)
    for client in "ab":
        batcher.add(work(client, 2))
    batch = batcher.next()
    assert isinstance(batch, Batch) and len(batch.items) == 4
    for request in batch.works():
        request.is_suspect = True
    batcher.put_back(batch)
    assert sorted(map(sorted, batches(batcher))) == [["a0", "a1"], ["b0", "b1"]]


def test_work_of_a_model_that_a_worker_has_not_is_left_for_another() -> None:
    batcher = Batcher(batch_tokens=100, batch_texts=100, queue_tokens=100)
    other = Work("n", "translate", {}, ["x"], "a", [2])
    batcher.add(other)
    batcher.add(work("a", 2))
    batch = batcher.next({"m"})
    assert batch is not None and batch.items == ["a0", "a1"] and batcher.next({"m"}) is None
    batch = batcher.next({"n"})
    assert batch is not None and batch.items == ["x"] and batcher.waiting == 0


def test_a_cancelled_batch_delays_nothing_and_says_nothing_about_the_speed() -> None:
    batcher = Batcher(batch_tokens=100, batch_texts=100, queue_tokens=100)
    before = batcher.speed.total()
    batcher.add(work("a", 2))
    batch = batcher.next()
    assert batch is not None and batcher.running == 4
    batcher.cancel(batch, batch.started + 1)
    assert batcher.running == 0
    batcher.done(batch, batch.started + 1000)
    assert batcher.running == 0 and batcher.speed.total() == before


def test_a_request_costs_what_its_search_may_do() -> None:
    def cost(text: str = "a", operation: dict[str, object] | None = None, **search: object) -> int:
        return costs_of([{"text": text}], {**(operation or {}), "search": search}, {"beam": 5, "max_length_extra": 50})[
            0
        ]

    assert cost() == 2 and cost(beam=4) == 2 and cost("a " * 9 + "a") == 11
    assert cost(beam=10) == cost(operation={"nbest": 10}) == 4
    assert cost(mbr_candidates=100) == 2 and cost(mbr="chrf", mbr_candidates=100) == 40
    assert cost(max_length_extra=100) == 104 and cost(max_length_factor=10) == 70 and cost(min_length=500) == 500
    assert cost(beam=64, min_length=1000, max_length_extra=1000) == 12852
    assert cost(diversity_groups=10, beam=10) == 4 and cost(operation={"count": 7}) == 14
    assert costs_of([{"text": "a"}], {"length": 300, "count": 2, "beam": None}) == [600]  # of a language model
    assert costs_of([{"past": [1.0] * 9}, {"data": b"0" * 5000}], {}) == [10, 6]


def test_tokens_are_estimated_for_any_script() -> None:
    assert estimate_tokens("the black cat sleeps") == 6
    assert estimate_tokens("x" * 400) == 101
    assert estimate_tokens("猫が寝ている") == 7
