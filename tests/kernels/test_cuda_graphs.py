"""The cache of captured graphs: what is captured, dropped, and captured again; without a GPU.

What a captured graph reads at fixed addresses is part of its key: every parameter and buffer, frozen or not.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from harken.kernels.cuda_graphs import GraphCache, addresses_of, aliased_parameters


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


def build() -> nn.Module:
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    module[0].weight.requires_grad_(False)
    return module


@pytest.mark.parametrize("name", ["0.weight", "0.bias", "1.weight", "1.running_mean", "1.num_batches_tracked"])
def test_the_key_changes_where_a_tensor_is_moved(name: str) -> None:
    module = build()
    before = addresses_of(module)
    assert addresses_of(module) == before
    tensor = {**dict(module.named_parameters()), **dict(module.named_buffers())}[name]
    kept = tensor.data  # so that its memory is not used again
    tensor.data = tensor.data.clone()
    assert addresses_of(module) != before
    tensor.data = kept
    assert addresses_of(module) == before


def test_the_key_changes_where_a_parameter_is_frozen_and_not_where_a_value_changes() -> None:
    module = build()
    before = addresses_of(module)
    with torch.no_grad():
        module[0].bias.add_(1.0)
    assert addresses_of(module) == before
    module[0].bias.requires_grad_(False)
    assert addresses_of(module) != before


def test_aliases_share_memory_and_are_removed_afterwards() -> None:
    module = build()
    own = dict(module.named_parameters())
    with aliased_parameters(module) as aliases:
        inside = dict(module.named_parameters())
        assert all(
            inside[name] is not part and inside[name].data_ptr() == part.data_ptr() for name, part in own.items()
        )
        assert len(aliases) == 3  # the frozen weight needs no gradient
    assert all(dict(module.named_parameters())[name] is part for name, part in own.items())
