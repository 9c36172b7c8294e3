"""The cache of captured graphs: what is captured, dropped, and captured again; without a GPU."""

from __future__ import annotations

import pytest
import torch

from harken.kernels.cuda_graphs import GraphCache


class Graph:
    def __init__(self, memory: int = 0) -> None:
        self.bytes = memory


def cannot() -> Graph:
    raise RuntimeError("operation not permitted when stream is capturing")


def test_a_key_is_captured_when_it_comes_again_and_the_oldest_is_dropped() -> None:
    cache: GraphCache[Graph] = GraphCache("loops", 2)
    assert [cache.find(key, Graph) for key in "abc"] == [None] * 3
    first, second = cache.find("a", Graph), cache.find("b", Graph)
    assert first is not None and cache.find("a", Graph) is first and cache.captured() == [second, first]
    third = cache.find("c", Graph)
    assert cache.captured() == [first, third] and len(cache) == 2
    assert cache.find("b", Graph) is None  # as if it were new


def test_memory_is_bounded_and_one_graph_always_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harken.kernels.cuda_graphs._device_memory", lambda: 1000)
    cache: GraphCache[Graph] = GraphCache("searches", 9, memory_share=0.1, uses=1)
    for key in range(4):
        assert cache.find(key, lambda: Graph(40)) is not None
    assert len(cache) == 2
    assert cache.find("large", lambda: Graph(500)) is not None
    assert len(cache) == 1


def test_without_eviction_no_more_are_captured() -> None:
    cache: GraphCache[Graph] = GraphCache("updates", 1, uses=1, evicts=False)
    first = cache.find("a", Graph)
    assert cache.find("b", Graph) is None and cache.find("a", Graph) is first


def test_after_a_failure_all_graphs_are_captured_again_and_the_failed_one_is_not() -> None:
    one, other = GraphCache[Graph]("updates", 9, uses=1), GraphCache[Graph]("searches", 9, uses=1)
    first, second = one.find("a", Graph), other.find("a", Graph)
    with pytest.warns(UserWarning, match="updates could not be captured"):
        assert one.find("b", cannot) is None
    assert one.find("b", Graph) is None
    assert one.find("a", Graph) not in (None, first)  # random numbers of the first are drawn from another generator
    assert other.find("a", Graph) not in (None, second)


def test_errors_that_are_left_to_the_caller() -> None:
    def exhausted() -> Graph:
        raise torch.OutOfMemoryError("CUDA out of memory")

    cache: GraphCache[Graph] = GraphCache("updates", 9, uses=1, raises=(torch.OutOfMemoryError,))
    with pytest.raises(torch.OutOfMemoryError):
        cache.find("a", exhausted)
    assert len(cache) == 0 and cache.find("a", Graph) is not None
