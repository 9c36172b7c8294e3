"""Sampling against tables of probabilities: what is drawn from, what is drawn, and what is fed back."""

from itertools import islice

import pytest
import torch
from step_models import TinyRecurrent
from torch import Tensor

from harken.errors import UserError
from harken.search.sampling import draw, filtered_probabilities, sample

TABLE = torch.log(torch.tensor([[0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.1, 0.7]]))


def test_temperature_is_a_power_of_the_chances() -> None:
    found = filtered_probabilities(TABLE, temperature=0.5)
    squares = TABLE.exp().square()
    assert torch.allclose(found, squares / squares.sum(-1, keepdim=True))
    assert torch.allclose(filtered_probabilities(TABLE), TABLE.exp())
    assert filtered_probabilities(TABLE, temperature=0).tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]


def test_top_k_keeps_the_likeliest() -> None:
    assert torch.allclose(filtered_probabilities(TABLE, top_k=2)[0], torch.tensor([4 / 7, 3 / 7, 0, 0]))
    assert torch.allclose(filtered_probabilities(TABLE, top_k=99), TABLE.exp())
    assert filtered_probabilities(torch.zeros(1, 4), top_k=1).count_nonzero() == 1  # of equals, one


def test_top_p_keeps_the_fewest_that_reach_it() -> None:
    assert torch.allclose(filtered_probabilities(TABLE, top_p=0.7)[0], torch.tensor([4 / 7, 3 / 7, 0, 0]))
    assert torch.allclose(filtered_probabilities(TABLE, top_p=0.71)[0], torch.tensor([4, 3, 2, 0]) / 9)
    assert filtered_probabilities(TABLE, top_p=0.01).tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]
    assert torch.allclose(filtered_probabilities(TABLE, top_p=1.0), TABLE.exp())


def test_a_number_falls_to_the_token_whose_share_it_is_in() -> None:
    numbers = torch.tensor([0.0, 0.39, 0.41, 0.69, 0.71, 0.89, 0.91, 0.9999])
    assert draw(TABLE[:1].exp().repeat(8, 1), numbers).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    never = torch.tensor([[0.0, 1.0, 0.0]]).repeat(2, 1)
    assert draw(never, torch.tensor([0.0, 0.999999])).tolist() == [1, 1]


class Table:
    """Six tokens; the next is drawn from the row of the last, whatever came before."""

    rows = torch.log(torch.eye(6).roll(1, 1) * 0.7 + 0.05)

    def step(self, tokens: Tensor, state: None) -> Tensor:
        return self.rows[tokens]


def test_frequencies_are_those_of_the_table_and_each_token_is_fed_back() -> None:
    drawn = torch.stack(list(islice(sample(Table(), None, torch.full((40,), 4), seed=1, forbidden=()), 200)))
    pairs = torch.stack((torch.cat((torch.full((1, 40), 4), drawn[:-1])), drawn), -1).flatten(0, 1)
    for last in range(6):
        mine = pairs[pairs[:, 0] == last, 1]
        found = torch.bincount(mine, minlength=6) / len(mine)
        assert torch.allclose(found, Table.rows[last].exp(), atol=0.04)


def test_what_is_forbidden_is_never_drawn() -> None:
    drawn = torch.stack(list(islice(sample(Table(), None, torch.full((8,), 4), forbidden=(0, 5)), 100)))
    assert sorted(set(drawn.flatten().tolist())) == [1, 2, 3, 4]


def test_the_same_seed_gives_the_same_and_a_row_does_not_know_its_neighbours() -> None:
    model = TinyRecurrent(3, 9)

    def texts(rows: int, seed: int) -> list[list[int]]:
        state = model.start(1).select(torch.zeros(rows, dtype=torch.long))
        found = islice(sample(model, state, torch.full((rows,), 4), seed=seed), 12)
        return torch.stack(list(found), 1).tolist()

    assert texts(3, 7) == texts(3, 7) != texts(3, 8)
    assert texts(3, 7)[:2] == texts(2, 7)


def test_impossible_settings_are_refused() -> None:
    for options, words in (
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"top_k": 0}, "top-k is 0"),
        ({"top_p": 1.5}, "top-p is 1.5"),
    ):
        with pytest.raises(UserError, match=words):
            next(sample(Table(), None, torch.tensor([4]), **options))


def test_logits_that_are_no_numbers_are_refused() -> None:
    class Broken(Table):
        rows = torch.full((6, 6), torch.nan)

    with pytest.raises(UserError, match="diverged"):
        next(sample(Broken(), None, torch.tensor([4])))
