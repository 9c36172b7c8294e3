"""The mix of layers: its definition, its gradients, and what it refuses."""

import pytest
import torch

from harken.nn.layer_mix import LayerMix


def test_it_is_its_definition() -> None:
    torch.manual_seed(1)
    mix, layers = LayerMix(3), torch.randn(3, 2, 4, 5)
    with torch.no_grad():
        mix.scores.copy_(torch.tensor([0.5, -1.0, 2.0]))
        mix.gamma.fill_(1.7)
    shares = torch.tensor([0.5, -1.0, 2.0]).exp()
    shares = shares / shares.sum()
    wanted = 1.7 * (shares[0] * layers[0] + shares[1] * layers[1] + shares[2] * layers[2])
    assert torch.allclose(mix(layers), wanted, atol=1e-6)
    assert mix.weights.sum().item() == pytest.approx(1.0)


def test_its_gradients_are_those_of_the_definition() -> None:
    torch.manual_seed(2)
    mix = LayerMix(3).double()
    layers = torch.randn(3, 4, 2, dtype=torch.float64, requires_grad=True)

    def as_function(scores: torch.Tensor, gamma: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        given = {"scores": scores, "gamma": gamma}
        made: torch.Tensor = torch.func.functional_call(mix, given, (values,))
        return made

    scores = torch.randn(3, dtype=torch.float64, requires_grad=True)
    gamma = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(as_function, (scores, gamma, layers))


def test_another_number_of_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="2 layers for a mix of 3"):
        LayerMix(3)(torch.zeros(2, 1))
