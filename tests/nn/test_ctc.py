"""CTC: the forward pass is the sum over all paths, and torch's loss in values and gradients."""

from itertools import product

import pytest
import torch
from torch import Tensor

from harken.nn.ctc import ctc_loss, frames_needed
from harken.search.ctc import collapse


def log_probs(batch: int, time: int, symbols: int, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(batch, time, symbols + 1, generator=random, dtype=torch.float64).log_softmax(-1)


def by_enumeration(values: Tensor, target: list[int]) -> float:
    """The probability of a text: every path that leaves it, one after the other."""
    time, symbols = values.shape
    paths = [path for path in product(range(symbols), repeat=time) if collapse(path) == target]
    return sum(float(torch.stack([values[t, label] for t, label in enumerate(path)]).sum().exp()) for path in paths)


@pytest.mark.parametrize("target", [[], [1], [2, 1], [1, 1], [2, 2, 1], [1, 2, 1, 2]])
def test_the_forward_pass_sums_every_path(target: list[int]) -> None:
    values = log_probs(1, 5, 2)
    padded = torch.tensor([[*target, 1]])
    found = ctc_loss(values, torch.tensor([5]), padded, torch.tensor([len(target)]))
    assert float(found.neg().exp()) == pytest.approx(by_enumeration(values[0], target), rel=1e-12)


def test_the_probabilities_of_all_texts_sum_to_one() -> None:
    values = log_probs(1, 4, 2, seed=3)
    texts = {tuple(collapse(path)) for path in product(range(3), repeat=4)}
    total = 0.0
    for text in texts:
        padded = torch.tensor([[*text, 1]])
        total += float(ctc_loss(values, torch.tensor([4]), padded, torch.tensor([len(text)])).neg().exp())
    assert total == pytest.approx(1.0, rel=1e-12)


def test_it_is_torchs_loss_in_values_and_gradients() -> None:
    targets = torch.tensor([[1, 1, 2, 3], [4, 2, 1, 1], [3, 1, 1, 1], [1, 1, 1, 1]])
    target_lengths, lengths = torch.tensor([4, 2, 1, 0]), torch.tensor([9, 7, 3, 5])
    gradients = []
    for ours in (True, False):
        scores = torch.randn(4, 9, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        scores.requires_grad_()
        values = scores.log_softmax(-1)
        if ours:
            loss = ctc_loss(values, lengths, targets, target_lengths)
        else:
            loss = torch.nn.functional.ctc_loss(
                values.transpose(0, 1), targets, lengths, target_lengths, reduction="none"
            )
        loss.sum().backward()
        gradients.append((loss.detach(), scores.grad))
    torch.testing.assert_close(gradients[0][0], gradients[1][0])
    torch.testing.assert_close(gradients[0][1], gradients[1][1])


def test_what_lies_behind_the_end_of_a_row_changes_nothing() -> None:
    values, targets = log_probs(1, 6, 3), torch.tensor([[2, 3]])
    alone = ctc_loss(values[:, :4], torch.tensor([4]), targets, torch.tensor([2]))
    padded = ctc_loss(values, torch.tensor([4]), torch.tensor([[2, 3, 1, 1]]), torch.tensor([2]))
    assert float(alone) == float(padded)


def test_too_few_frames_are_impossible_and_the_fewest_are_not() -> None:
    for text in ([1, 1], [1, 2, 2], [3, 3, 3]):
        needed = frames_needed(text)
        for time, possible in ((needed, True), (needed - 1, False)):
            loss = ctc_loss(
                log_probs(1, time, 3), torch.tensor([time]), torch.tensor([text]), torch.tensor([len(text)])
            )
            assert bool(torch.isfinite(loss)) == possible


def test_the_gradient_of_an_impossible_row_is_no_nan() -> None:
    values = log_probs(2, 2, 2).requires_grad_()
    loss = ctc_loss(values, torch.tensor([2, 2]), torch.tensor([[1, 1], [1, 2]]), torch.tensor([2, 2]))
    loss[1].backward()
    assert values.grad is not None and torch.isfinite(values.grad).all()
