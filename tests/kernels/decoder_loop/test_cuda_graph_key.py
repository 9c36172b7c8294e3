"""What a captured graph reads at fixed addresses is part of its key: every parameter and buffer, frozen or not."""

import pytest
import torch
from torch import nn

from harken.kernels.cuda_graphs import addresses_of
from harken.kernels.decoder_loop.cuda_graph import aliased_parameters


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
