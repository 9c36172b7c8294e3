"""Networks that answer questions: their equations, and what must not change anything (padding, neighbours)."""

from typing import Any

import pytest
import torch
from torch import Tensor

from harken.models.answering.config import AnswererConfig
from harken.models.answering.hops import SentenceReader, newest_first
from harken.models.answering.model import Answerer, AnswerScores
from harken.models.sizing import measure

VOCABULARY, ANSWERS = 30, 6
KINDS: dict[str, dict[str, Any]] = {
    "newest": {},
    "newest, no gate": {"gate": False, "hops": 3, "score": "additive"},
    "newest, gru": {"reader": "gru", "score": "multiplicative"},
    "softmax": {"attention": "softmax", "hops": 3},
    "softmax, layerwise": {"attention": "softmax", "tied": "layerwise", "gate": False, "reader": "bag"},
    "softmax, lstm": {"attention": "softmax", "reader": "lstm", "score": "cosine"},
    "pointer": {"output": "pointer"},
    "set": {"output": "set", "attention": "softmax"},
}


def network(name: str, **more: Any) -> Answerer:
    torch.manual_seed(1)
    config = AnswererConfig(**{"width": 8, "max_facts": 12, **KINDS[name], **more})
    return Answerer(config, VOCABULARY, ANSWERS).eval()


def story(rows: int = 3, facts: int = 5, words: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(2)
    told = torch.randint(4, VOCABULARY, (rows, facts, words))
    counts = torch.tensor([facts, 2, 1])
    told[torch.arange(facts) >= counts[:, None]] = 0
    told[0, 1, 2:] = 0  # a shorter sentence
    return told, counts, torch.randint(4, VOCABULARY, (rows, 3))


@pytest.mark.parametrize("name", KINDS)
def test_padding_and_neighbours_change_nothing(name: str) -> None:
    model, (told, counts, question) = network(name), story()
    whole = model(told, counts, question)
    for row in range(3):
        count = int(counts[row])
        alone = model(told[row : row + 1, :count], counts[row : row + 1], question[row : row + 1])
        torch.testing.assert_close(whole.scores[row], alone.scores[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(whole.attention[row, :, :count], alone.attention[0], rtol=1e-4, atol=1e-6)
        assert whole.attention[row, :, count:].abs().sum() == 0
    wide = torch.nn.functional.pad(told, (0, 3, 0, 2))
    torch.testing.assert_close(model(wide, counts, question).scores, whole.scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_every_parameter_has_a_gradient_and_is_counted(name: str) -> None:
    model, (told, counts, question) = network(name).train(), story()
    found = model(told, counts, question)
    wanted = torch.zeros(3, ANSWERS).index_fill(1, torch.tensor([1]), 1.0) if model.output == "set" else told[:, 0, 0]
    model.loss(found, wanted if model.output != "classes" else torch.tensor([0, 1, 2])).backward()
    assert [key for key, value in model.named_parameters() if value.grad is None] == []
    size = measure(model, 5, terms=1)
    assert size.total == sum(value.numel() for value in model.parameters()) and size.flops > 0


def test_newer_facts_hide_older_ones_as_step_after_step() -> None:
    torch.manual_seed(3)
    share, left = torch.rand(2, 6), torch.randn(2, 6, 4)
    state, states = torch.zeros(2, 4), []
    for t in range(6):
        state = share[:, t, None] * left[:, t] + (1 - share[:, t, None]) * state
        states.append(state)
    torch.testing.assert_close(newest_first(share) @ left, torch.stack(states, 1))
    sure = newest_first(torch.tensor([[1.0, 0.0, 1.0]]))
    assert sure[0, 2].tolist() == pytest.approx([0.0, 0.0, 1.0], abs=1e-5)
    assert torch.isfinite(sure).all()


def test_a_memory_hop_is_its_equation() -> None:
    model, (told, counts, question) = network("softmax, layerwise", hops=1), story()
    hops, found = model.hops, model(told, counts, question)
    compare, bring = (reader.words.weight for reader in hops.readers)  # type: ignore[union-attr]
    row, count = 1, 2
    ago = torch.tensor([1, 0])
    m = torch.stack([compare[told[row, fact]].sum(0) for fact in range(count)]) + hops.times[0][ago]  # type: ignore[index]
    c = torch.stack([bring[told[row, fact]].sum(0) for fact in range(count)]) + hops.times[1][ago]  # type: ignore[index]
    u = compare[question[row]].sum(0)
    p = torch.softmax(m @ u, 0)
    torch.testing.assert_close(found.attention[row, 0, :count], p)
    out = model.answer(hops.map(u) + p @ c)  # type: ignore[operator]
    torch.testing.assert_close(found.scores[row], out)


def test_positions_hear_the_order_of_words_and_bags_do_not() -> None:
    one, other = torch.tensor([[4, 5, 6]]), torch.tensor([[6, 5, 4]])
    for kind, same in (("bag", True), ("positions", False), ("gru", False)):
        torch.manual_seed(1)
        reader = SentenceReader(10, 8, kind)
        assert torch.allclose(reader(one), reader(other), atol=1e-6) == same
    assert reader(torch.zeros(1, 3, dtype=torch.int64)).abs().max() == 0


def test_a_pointer_gives_chances_to_words_of_the_facts_alone() -> None:
    model, (told, counts, question) = network("pointer"), story()
    chances = model(told, counts, question).scores.exp()
    assert chances.sum(1).tolist() == pytest.approx([1.0] * 3, abs=1e-4)
    for row in range(3):
        there = set(told[row].flatten().tolist()) - {0}
        assert {word for word in range(VOCABULARY) if chances[row, word] > 1e-6} <= there


def test_losses_and_chances_are_their_formulas() -> None:
    scores, attention = torch.tensor([[2.0, 0.0, -1.0]]), torch.zeros(1, 1, 1)
    classes, sets = network("newest"), network("set")
    found = AnswerScores(scores, attention)
    chance = torch.softmax(scores, 1)[0, 1]
    assert classes.loss(found, torch.tensor([1])).item() == pytest.approx(-chance.log().item())
    assert classes.probabilities(found, torch.tensor([1])).item() == pytest.approx(chance.item())
    wanted = torch.tensor([[1.0, 0.0, 1.0]])
    each = torch.sigmoid(scores)[0]
    both = (each[0] * (1 - each[1]) * each[2]).item()
    assert sets.probabilities(found, wanted).item() == pytest.approx(both)
    assert sets.loss(found, wanted).exp().item() == pytest.approx(1 / both)


def test_gaps_in_time_are_drawn_in_training_alone() -> None:
    model, (told, counts, question) = network("softmax", noise=0.9), story()
    still = model(told, counts, question).scores
    torch.testing.assert_close(model(told, counts, question).scores, still)
    model.train()
    assert not torch.allclose(model(told, counts, question).scores, still)


def test_an_odd_width_cannot_be_read_both_ways() -> None:
    with pytest.raises(ValueError, match="width 7 is odd"):
        SentenceReader(10, 7, "gru")


def test_a_saturated_gate_is_finite_in_bfloat16() -> None:
    share = torch.tensor([[1.0, 0.5, 1.0]], dtype=torch.bfloat16)
    torch.testing.assert_close(newest_first(share)[0, 2].float(), torch.tensor([0.0, 0.0, 1.0]), atol=1e-2, rtol=0)
