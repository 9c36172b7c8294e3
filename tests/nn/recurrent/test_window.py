"""The soft window is its formula, only moves on, and sees no padding."""

import torch

from harken.nn.recurrent.windowed_lstm import GaussianWindow


def looked(rows: int = 3, gaussians: int = 2, length: int = 5) -> tuple[GaussianWindow, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    window = GaussianWindow(4, gaussians, pace=4)
    torch.nn.init.normal_(window.project.weight, std=0.5)
    return window, torch.randn(rows, 4), torch.randn(rows, length, 6)


def test_it_is_its_formula() -> None:
    window, hidden, characters = looked()
    before = torch.rand(3, 2)
    look = window(hidden, before, characters, torch.ones(3, 5))
    moved = hidden @ window.project.weight.t() + window.project.bias
    for row in range(3):
        a, b, d = moved[row].exp().view(3, 2)
        for u in range(5):
            wanted = sum(a[k] * torch.exp(-b[k] * (before[row, k] + d[k] - u - 0.5) ** 2) for k in range(2))
            torch.testing.assert_close(look.weights[row, u], wanted)
        torch.testing.assert_close(look.view[row], look.weights[row] @ characters[row])
        torch.testing.assert_close(look.position[row], before[row] + d)


def test_it_only_moves_on_and_at_first_at_its_pace() -> None:
    window, _, characters = looked()
    position = window.start(3)
    for _ in range(10):
        after = window(torch.randn(3, 4), position, characters, torch.ones(3, 5)).position
        assert (after > position).all()
        position = after
    torch.testing.assert_close(GaussianWindow(4, 2, pace=8).project.bias[-2:].exp(), torch.full((2,), 1 / 8))


def test_padding_is_not_seen() -> None:
    window, hidden, characters = looked()
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]).float()
    changed = torch.where(mask[..., None] > 0, characters, 99.0)
    start = window.start(3)
    one, other = (window(hidden, start, texts, mask) for texts in (characters, changed))
    assert torch.equal(one.view, other.view)
    short = window(hidden[1:2], start[1:2], characters[1:2, :2], torch.ones(1, 2))
    torch.testing.assert_close(short.view, one.view[1:2])
    assert one.weights[2, 1:].abs().max() == 0
