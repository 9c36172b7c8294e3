"""Translation as a task: what the trainer is handed, checked against the definition."""

import json
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from harken.data.text.pairs import Corpus, Pair
from harken.data.tokenizers.base import train_tokenizer
from harken.data.tokenizers.tokens import EOS, PAD
from harken.errors import UserError
from harken.metrics import corpus_bleu
from harken.models.build import build_model
from harken.recipe import load_recipe
from harken.search import greedy_search
from harken.tasks.translate.sources import max_lengths
from harken.tasks.translate.task import TranslationTask
from harken.training.task import batch_loss

WORDS = ["the", "cat", "dog", "sees", "old", "black", "house", "and", "a", "bird"]


def pairs(count: int, seed: int) -> list[Pair]:
    numbers = np.random.default_rng(seed)
    lines = [" ".join(numbers.choice(WORDS, numbers.integers(1, 9))) for _ in range(count)]
    return [Pair(line, line.upper() + " .") for line in lines]


@pytest.fixture(scope="module")
def task() -> TranslationTask:
    return make_task()


def make_task(*overrides: str) -> TranslationTask:
    small = ["model.layers=1", "model.width=8", "model.heads=2", "model.feedforward=8", "model.dropout=0.0"]
    recipe = load_recipe("phrasebook-transformer", [*small, "train.batch_tokens=40", *overrides])
    corpus = Corpus("toy", "en", "EN", pairs(60, 1), pairs(20, 2))
    source = train_tokenizer("word", [pair.source for pair in corpus.train], 100)
    target = train_tokenizer("word", [pair.target for pair in corpus.train], 100)
    torch.manual_seed(3)
    return TranslationTask(recipe, corpus, build_model(recipe.model, source.size, target.size), source, target)


def test_an_epoch_is_every_pair_once_within_the_budget(task: TranslationTask) -> None:
    batches = task.epoch(0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(60))
    for batch in batches:
        longest = max(task.train.source.lengths[batch].max(), task.train.target.lengths[batch].max())
        assert longest * len(batch) <= 40 or len(batch) == 1
    again, other = task.epoch(0), task.epoch(1)
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in batches]
    assert [batch.tolist() for batch in other] != [batch.tolist() for batch in batches]


def test_size_counts_target_tokens_and_their_end(task: TranslationTask) -> None:
    examples = np.array([3, 7, 11])
    words = sum(len(pair.target.split()) for number, pair in enumerate(pairs(60, 1)) if number in examples)
    assert task.size(examples) == words + 3


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_shares_are_all_of_a_batch_and_about_even(task: TranslationTask, parts: int) -> None:
    examples = np.arange(30)
    shares = task.share(examples, parts)
    assert len(shares) == parts
    assert sorted(np.concatenate(shares).tolist()) == list(range(30))
    sizes = [task.size(share) for share in shares]
    assert max(sizes) - min(sizes) <= task.lengths.max() + 3


def test_a_share_may_be_empty(task: TranslationTask) -> None:
    assert [share.tolist() for share in task.share(np.array([5]), 3)] == [[5], [], []]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_smoothed_cross_entropy_of_real_tokens(smoothing: float) -> None:
    task = make_task(f"train.label_smoothing={smoothing}")
    examples = np.array([0, 1, 2, 3, 4])
    batch = task.train.batch(examples)
    logits = task.model.logits(task.model(batch.source, batch.source_lengths, batch.target_input))
    expected = F.cross_entropy(
        logits.flatten(0, 1), batch.target_output.flatten(),
        ignore_index=PAD, reduction="sum", label_smoothing=smoothing,
    )  # fmt: skip
    assert batch_loss(task, examples).item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_loss_of_a_batch_is_the_sum_of_its_rows(task: TranslationTask) -> None:
    examples = np.array([0, 1, 2, 3, 4, 5])  # of different lengths: padding must not count
    alone = sum(batch_loss(task, np.array([example])).item() for example in examples)
    assert batch_loss(task, examples).item() == pytest.approx(alone, rel=1e-5)


def results(task: TranslationTask, parts: int) -> list[Any]:
    task.model.eval()
    with torch.no_grad():
        first, *others = [task.validate(part, parts) for part in range(parts)]
    return [first, *(json.loads(json.dumps(result)) for result in others)]  # as they come from worker processes


@pytest.mark.parametrize("parts", [2, 3, 25])
def test_validation_in_parts_is_validation_as_a_whole(task: TranslationTask, parts: int) -> None:
    whole, found = task.score(results(task, 1)), task.score(results(task, parts))
    assert found["bleu"] == pytest.approx(whole["bleu"])
    assert found["loss"] == pytest.approx(whole["loss"], rel=1e-5)


def test_scores_are_those_of_the_translations(task: TranslationTask) -> None:
    (found,) = results(task, 1)
    score = task.score([found])
    valid = pairs(20, 2)
    assert found["tokens"] == sum(len(pair.target.split()) + 1 for pair in valid)
    translations = dict(found["translations"])
    assert sorted(translations) == list(range(20))
    wanted = corpus_bleu([translations[i] for i in range(20)], [pair.target for pair in valid])
    assert score["bleu"] == wanted.value
    assert score["perplexity"] == pytest.approx(math.exp(found["loss"] / found["tokens"]))
    right = [translations[i] == pair.target for i, pair in enumerate(valid)]
    assert score["exact_match"] == pytest.approx(100 * sum(right) / 20)
    assert score["bleu_signature"] == wanted.signature and score["chrf"] > 0
    assert set(score) == {"loss", "perplexity", "bleu", "chrf", "exact_match", "bleu_signature"}
    assert task.monitor == "bleu"
    assert make_task("search.goal=exact_match").monitor == "exact_match"


def test_a_perfect_model_scores_100(task: TranslationTask) -> None:
    perfect = {"loss": 0.0, "tokens": 9, "translations": [(i, pair.target) for i, pair in enumerate(pairs(20, 2))]}
    score = task.score([perfect])
    assert score["bleu"] == pytest.approx(100.0) and score["exact_match"] == 100.0
    assert (score["loss"], score["perplexity"]) == (0.0, 1.0)


def test_only_some_sentences_are_decoded() -> None:
    task = make_task("train.validate_sentences=5")
    (found,) = results(task, 1)
    assert sorted(dict(found["translations"])) == [0, 1, 2, 3, 4]
    assert found["tokens"] == results(make_task(), 1)[0]["tokens"]  # the loss is over all of them


def test_outputs_are_limited_by_the_recipe(task: TranslationTask) -> None:
    limits = max_lengths(task.recipe, torch.tensor([1, 5]))
    search = task.recipe.search
    assert limits.tolist() == [int(n * search.max_length_factor) + search.max_length_extra for n in (1, 5)]
    assert task.train.target.gather([0])[0][0, -1] == EOS


def test_sentences_longer_than_learned_positions_are_refused_before_training() -> None:
    task = make_task("model.positions=learned", "model.max_length=16")
    long = Pair(" ".join(["cat"] * 16), "CAT .")  # and its end
    corpus = Corpus("toy", "en", "EN", [*pairs(5, 1), long], pairs(5, 2))
    message = r"^1 sentences have more pieces than model\.max_length 16 \(the longest has 17, its end counted\): raise"
    with pytest.raises(UserError, match=message):
        TranslationTask(task.recipe, corpus, task.model, task.source, task.target)
    other = make_task().recipe
    TranslationTask(
        other, corpus, build_model(other.model, task.source.size, task.target.size), task.source, task.target
    )


def test_outputs_end_where_learned_positions_do() -> None:
    """A search that never ends of itself stays within the table, and so does reading what it found."""
    task = make_task("model.positions=learned", "model.max_length=16")
    lengths = torch.tensor([2, 16])
    assert max_lengths(task.recipe, lengths).tolist() == [2 * 2 + 10, 15]
    task.model.eval()
    task.model.output_weight.data[EOS] = -1e3  # never
    source = torch.randint(4, 8, (2, 16))
    found = greedy_search(task.model, task.model.start(source, lengths), 2, max_lengths=torch.tensor([15, 15]))
    longest = max(len(hypothesis.tokens) for hypothesis in found)
    assert task.model(source[:1], None, torch.full((1, longest + 1), 4)).shape[1] <= 16


@pytest.mark.slow
def test_the_compiled_loss_is_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    plain, compiled = make_task(), make_task("train.compile=true")
    assert compiled.loss_of is not plain.loss_of
    for examples in (np.array([0, 1, 2]), np.array([3])):
        assert batch_loss(compiled, examples).item() == pytest.approx(batch_loss(plain, examples).item(), rel=1e-5)
