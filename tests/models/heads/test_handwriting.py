"""The network for pen strokes: steps are the whole, padding changes nothing, rows can be chosen."""

import pytest
import torch

from harken.models.heads.config import PenConfig
from harken.models.heads.handwriting import HandwritingModel

TEXTS = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]])
LENGTHS = torch.tensor([4, 2])


def network(characters: int, layers: int = 2) -> HandwritingModel:
    torch.manual_seed(3)
    return HandwritingModel(PenConfig(width=6, layers=layers, mixtures=3, window=2, embedding=5), characters).eval()


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("characters", [0, 9])
def test_one_step_after_another_is_the_whole(characters: int, layers: int) -> None:
    model, points = network(characters, layers), torch.randn(2, 5, 3)
    texts = (TEXTS, LENGTHS) if characters else ()
    whole = model(points, *texts)
    state = model.start(*texts, rows=2)
    for t in range(5):
        values, state, weights = model.step(points[:, t], state)
        torch.testing.assert_close(values, whole.values[:, t])
        if whole.weights is not None and weights is not None:
            torch.testing.assert_close(weights, whole.weights[:, t])
    assert (whole.weights is None) == (characters == 0)


def test_padding_changes_nothing() -> None:
    model, points = network(9), torch.randn(2, 5, 3)
    together, alone = model(points, TEXTS, LENGTHS).values, model(points[1:, :3], TEXTS[1:, :2]).values
    torch.testing.assert_close(together[1:, :3], alone)


def test_rows_of_a_state_can_be_chosen() -> None:
    model, points = network(9), torch.randn(2, 3)
    _, state, _ = model.step(points, model.start(TEXTS, LENGTHS))
    both, _, _ = model.step(points, state)
    swapped, _, _ = model.step(points.flip(0), state.select(torch.tensor([1, 0])))
    torch.testing.assert_close(swapped, both.flip(0))


def test_movements_are_divided_by_the_deviation_of_the_training_data() -> None:
    model = network(0)
    model.fit(torch.tensor([[3.0, 0.0], [0.0, -3.0]]))
    assert model.deviation.item() == pytest.approx(4.5**0.5)
    model.fit(torch.zeros(4, 2))
    assert model.deviation.item() == 1.0
    assert "deviation" in dict(model.named_parameters()) and not model.deviation.requires_grad


def test_a_text_is_asked_for() -> None:
    with pytest.raises(ValueError, match="give the ids of their characters"):
        network(9)(torch.zeros(1, 2, 3))
