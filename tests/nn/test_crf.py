"""The CRF against counting out every labelling, and its gradients."""

from itertools import pairwise, product

import pytest
import torch

from harken.nn.crf import CRF


def field(labels: int = 3, seed: int = 1) -> CRF:
    torch.manual_seed(seed)
    crf = CRF(labels).double()
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf


def all_scores(crf: CRF, emissions: torch.Tensor) -> dict[tuple[int, ...], torch.Tensor]:
    """Every labelling of one row (T, K) with its score, summed as the equation has it."""
    steps, labels = emissions.shape
    found = {}
    for path in product(range(labels), repeat=steps):
        score = crf.first[path[0]] + crf.last[path[-1]]
        score = score + sum(emissions[step, label] for step, label in enumerate(path))
        score = score + sum(crf.transitions[a, b] for a, b in pairwise(path))
        found[path] = score
    return found


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_likelihood_best_path_and_marginals_are_those_of_counting_out(steps: int) -> None:
    crf, emissions = field(), torch.randn(2, steps, 3, dtype=torch.double)
    labels = torch.randint(3, (2, steps))
    likelihood = crf.log_likelihood(emissions, labels)
    best, scores = crf.viterbi_decode(emissions)
    marginals = crf.marginals(emissions)
    for row in range(2):
        paths = all_scores(crf, emissions[row])
        total = torch.logsumexp(torch.stack(list(paths.values())), 0)
        torch.testing.assert_close(likelihood[row], paths[tuple(labels[row].tolist())] - total)
        winner = max(paths, key=lambda path: paths[path].item())
        assert tuple(best[row].tolist()) == winner
        torch.testing.assert_close(scores[row], paths[winner])
        for step, label in product(range(steps), range(3)):
            chance = sum((score - total).exp() for path, score in paths.items() if path[step] == label)
            torch.testing.assert_close(marginals[row, step, label], chance)


def test_padding_changes_nothing_and_gets_no_gradient() -> None:
    crf, lengths = field(), torch.tensor([4, 2, 1])
    emissions = torch.randn(3, 4, 3, dtype=torch.double, requires_grad=True)
    labels = torch.randint(3, (3, 4))
    together = crf.log_likelihood(emissions, labels, lengths)
    best, marginals = crf.viterbi_decode(emissions, lengths)[0], crf.marginals(emissions, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = emissions[row : row + 1, :length]
        torch.testing.assert_close(together[row : row + 1], crf.log_likelihood(alone, labels[row : row + 1, :length]))
        assert best[row, :length].tolist() == crf.viterbi_decode(alone)[0][0].tolist()
        assert best[row, length:].tolist() == [0] * (4 - length)
        torch.testing.assert_close(marginals[row, :length], crf.marginals(alone)[0])
        assert (marginals[row, length:] == 0).all()
    (gradient,) = torch.autograd.grad(together.sum(), emissions)
    assert (gradient[1, 2:] == 0).all() and (gradient[2, 1:] == 0).all() and (gradient[1, :2] != 0).all()


def test_gradients_are_those_of_small_differences() -> None:
    crf, labels, lengths = field(), torch.tensor([[0, 2, 1], [1, 0, 0]]), torch.tensor([3, 2])
    emissions = torch.randn(2, 3, 3, dtype=torch.double, requires_grad=True)

    def likelihood(emissions: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        given = dict(zip(("crf.first", "crf.transitions", "crf.last"), weights, strict=True))
        return torch.func.functional_call(_Likelihood(crf), given, (emissions, labels, lengths))

    weights = [parameter.detach().clone().requires_grad_() for parameter in (crf.first, crf.transitions, crf.last)]
    assert torch.autograd.gradcheck(likelihood, (emissions, *weights))


class _Likelihood(torch.nn.Module):
    def __init__(self, crf: CRF) -> None:
        super().__init__()
        self.crf = crf

    def forward(self, *arguments: torch.Tensor) -> torch.Tensor:
        return self.crf.log_likelihood(*arguments)


def test_half_precision_is_summed_in_full() -> None:
    crf, emissions = field().float(), torch.randn(2, 50, 3)
    low = crf.log_likelihood(emissions.bfloat16(), torch.zeros(2, 50, dtype=torch.long))
    assert low.dtype == torch.float32
    torch.testing.assert_close(
        low, crf.log_likelihood(emissions.bfloat16().float(), torch.zeros(2, 50, dtype=torch.long))
    )


def test_a_field_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="emissions have 4 labels, but the field has 3"):
        field().viterbi_decode(torch.zeros(1, 2, 4))


def test_forbidden_moves_are_never_chosen_and_leave_the_likelihood() -> None:
    free, emissions = field(), torch.randn(20, 4, 3, dtype=torch.double)
    moves = torch.tensor([[False, False, False], [False, False, True], [True, False, False]])
    bound = CRF(3, moves, torch.tensor([False, True, False])).double()
    bound.load_state_dict(free.state_dict())
    best = bound.viterbi_decode(emissions)[0]
    for row in range(20):
        paths = all_scores(free, emissions[row])
        allowed = {
            path: score for path, score in paths.items()
            if path[0] != 1 and not any(moves[a, b] for a, b in pairwise(path))
        }  # fmt: skip
        assert tuple(best[row].tolist()) == max(allowed, key=lambda path: allowed[path].item())
    assert not torch.equal(best, free.viterbi_decode(emissions)[0])
    labels = torch.randint(3, (20, 4))
    assert torch.equal(bound.log_likelihood(emissions, labels), free.log_likelihood(emissions, labels))
