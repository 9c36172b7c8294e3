"""The transcriber's network: padding changes nothing, its size by arithmetic, its loss is the definition."""

import pytest
import torch

from harken.nn.ctc import ctc_loss
from harken.tasks.transcribe.job import size_of
from harken.tasks.transcribe.recipe import TranscribeRecipe
from harken.tasks.transcribe.transcriber import build_network

ENCODERS = {
    "recurrent": {"architecture": "recurrent", "width": 12, "embedding": 8, "layers": 2, "dropout": 0.0},
    "transformer": {
        "architecture": "transformer", "width": 16, "heads": 2, "feedforward": 16, "layers": 1, "dropout": 0.0
    },
    "convolutional": {"architecture": "convolutional", "width": 8, "embedding": 8, "layers": 1, "dropout": 0.0},
}  # fmt: skip
FRONTS = {"none": {}, "two": {"layers": 2, "kernel": 3, "stride": 2}}


def recipe(encoder: str, front: str) -> TranscribeRecipe:
    return TranscribeRecipe.model_validate(
        {
            "data": {"corpus": "tones"},
            "features": {"mels": 10},
            "model": ENCODERS[encoder],
            "front": FRONTS[front],
            "train": {"max_steps": 1},
        }
    )


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_padding_changes_nothing(encoder: str, front: str) -> None:
    torch.manual_seed(1)
    network = build_network(recipe(encoder, front), 5).eval()
    frames = torch.randn(2, 23, 30)
    with torch.no_grad():
        together, lengths = network(frames, torch.tensor([23, 14]))
        alone, (steps,) = network(frames[1:, :14], torch.tensor([14]))
    assert int(lengths[1]) == int(steps) == recipe(encoder, front).front.shortened(14)
    torch.testing.assert_close(together[1, :steps], alone[0, :steps])


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_cost_of_a_symbol_grows_with_its_steps(encoder: str, front: str) -> None:
    chosen = recipe(encoder, front)
    network = build_network(chosen, 5)
    one, four = (size_of(network, chosen, steps) for steps in (1.0, 4.0))
    assert one.total == sum(parameter.numel() for parameter in network.parameters())
    assert four.flops == pytest.approx(4 * one.flops) and one.flops > 6 * 30 * network.inputs.project.out_features


def test_the_loss_is_the_definition_and_every_weight_has_a_gradient() -> None:
    torch.manual_seed(2)
    network = build_network(recipe("recurrent", "two"), 4)
    frames, lengths = torch.randn(3, 40, 30), torch.tensor([40, 33, 20])
    targets, counts = torch.tensor([[1, 1, 2], [3, 4, 1], [2, 1, 1]]), torch.tensor([3, 2, 0])
    loss = network.loss(frames, lengths, targets, counts)
    log_probs, steps = network(frames, lengths)
    torch.testing.assert_close(loss, ctc_loss(log_probs, steps, targets, counts).sum())
    loss.backward()
    wanted = {name for name, value in network.named_parameters() if value.requires_grad}
    assert {name for name, value in network.named_parameters() if value.grad is not None} == wanted
    assert all(bool(value.grad.abs().sum() > 0) for value in network.parameters() if value.grad is not None)
