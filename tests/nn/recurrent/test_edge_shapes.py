"""Empty batches, empty sequences, keywords and layouts: as torch's own layers take them."""

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from recurrent_cases import VARIANTS, build, parts_of

import harken.nn

PEERS = {"RNN": (harken.nn.RNN, nn.RNN), "LSTM": (harken.nn.LSTM, nn.LSTM), "GRU": (harken.nn.GRU, nn.GRU)}


@pytest.mark.parametrize("name", PEERS)
def test_a_batch_without_rows_gives_outputs_without_rows(name: str) -> None:
    ours, theirs = (kind(3, 4, 2, bidirectional=True) for kind in PEERS[name])
    x = torch.zeros(5, 0, 3, requires_grad=True)
    output, state = ours(x)
    right, right_state = theirs(x)
    assert output.shape == right.shape == (5, 0, 8)
    assert [part.shape for part in parts_of(state)] == [part.shape for part in parts_of(right_state)]
    assert ours(x, lengths=torch.zeros(0, dtype=torch.long))[0].shape == (5, 0, 8)
    for outputs in (output, right, *parts_of(state)):
        x.grad = None
        outputs.sum().backward(retain_graph=True)
        assert x.grad is not None and x.grad.shape == x.shape
    assert all(weight.grad is not None and not weight.grad.any() for weight in ours.parameters())


@pytest.mark.parametrize("name", PEERS)
def test_a_sequence_without_steps_is_refused_as_torch_refuses_it(name: str) -> None:
    ours, theirs = (kind(3, 4) for kind in PEERS[name])
    with pytest.raises(RuntimeError, match=r"[Ee]xpected sequence length"):
        theirs(torch.zeros(0, 2, 3))
    with pytest.raises(ValueError, match="no step"):
        ours(torch.zeros(0, 2, 3))


@pytest.mark.parametrize("name", PEERS)
def test_constructor_arguments_and_call_keywords_are_torchs(name: str) -> None:
    more = {"RNN": ("tanh",), "LSTM": (), "GRU": ()}[name]
    common = (3, 4, 2, *more, True, False, 0.0, True)
    common += (2,) if name == "LSTM" else ()  # proj_size
    ours, theirs = (kind(*common, device="cpu", dtype=torch.float64) for kind in PEERS[name])
    theirs.load_state_dict(ours.to_torch().state_dict())
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    _, state = theirs(x)
    found, right = ours(input=x, hx=state), theirs(input=x, hx=state)
    assert torch.allclose(found[0], right[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_the_reference_takes_the_layout_of_forward(variant: str, batch_first: bool) -> None:
    torch.manual_seed(1)
    layer = build(variant, 3, 4, 2, bidirectional=True, batch_first=batch_first)
    x, lengths = torch.randn(5, 2, 3, dtype=torch.float64), torch.tensor([2, 1, 2, 0, 1] if batch_first else [5, 2])
    for found, right in zip(layer(x, None, lengths), layer.reference(x, None, lengths), strict=True):
        for one, other in zip(parts_of(found), parts_of(right), strict=True):
            assert one.shape == other.shape
            assert torch.allclose(one, other, rtol=0, atol=1e-12)
    single = torch.randn(5, 3, dtype=torch.float64)
    assert torch.allclose(layer(single)[0], layer.reference(single)[0], rtol=0, atol=1e-12)
