"""A trained language model as an object: what it writes, how it scores, what can be looked at, what it refuses."""

import inspect
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import harken
from harken.data.tokenizers.tokens import EOS
from harken.errors import UserError
from harken.inspection import gates, gradient_flow
from harken.recipe import load_recipe
from harken.search.sampling import filtered_probabilities
from harken.tasks.interface import fields_of
from harken.tasks.language.interface import SamplingOptions
from harken.tasks.language.job import JOB
from harken.tasks.language.language_model import LanguageModel, SamplingKeys
from harken.tasks.language.scoring import Windowed

SMALL = [
    "data.size=200",
    "train.max_steps=4",
    "train.max_minutes=none",
    "train.workers=1",
    "train.precision=float32",
    "train.device=cpu",
    "data.chunk=8",
    "train.batch_tokens=64",
]
RECURRENT = ["model.embedding=8", "model.width=12", "model.layers=2"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("language") / "run"
    return harken.train("phrasebook-language", folder, overrides=[*SMALL, *RECURRENT], progress=False)


@pytest.fixture(scope="module")
def characters(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("characters")
    (folder / "text.txt").write_text("".join(f"line {number}:  a b\n" for number in range(80)))
    shape = "layers=2, width=16, heads=2, feedforward=16, positions='rotary', tied=false"
    changes = [*SMALL, f"data.train={folder / 'text.txt'}", f"model={{architecture='transformer', {shape}}}"]
    return harken.train("shakespeare-characters-gpu", folder / "run", overrides=changes[1:], progress=False)


def test_the_folder_gives_the_trained_model_back(model: Any) -> None:
    again = harken.load(model.folder)
    text = "the black cat sleeps\nthe dog\n"
    assert np.array_equal(again.score(text).log_probabilities, model.score(text).log_probabilities)
    assert again.generate("the", length=9, seed=3) == model.generate("the", length=9, seed=3)


def test_score_is_the_softmax_step_by_step(model: Any) -> None:
    text = "the cat is\nthe dog"
    found, ids = model.score(text), model.ids(text)
    state, wanted = model.model.start(1), []
    for last, token in pairwise(ids):
        with torch.no_grad():
            logits = model.model.step(torch.tensor([last]), state)
        wanted.append(float(logits[0].log_softmax(-1)[token]))
    assert np.allclose(found.log_probabilities, wanted, atol=1e-5)
    assert found.tokens == ["the", "cat", "is", "⏎", "the", "dog"]
    assert model.perplexity(text) == pytest.approx(math.exp(-np.mean(wanted)), rel=1e-4)
    assert found.perplexity == pytest.approx(model.perplexity(text), rel=1e-6)


def test_generate_is_greedy_at_temperature_zero(model: Any) -> None:
    text = model.generate("the black", length=5, temperature=0)
    ids = [*model.ids("the black")]
    for _ in range(5):
        with torch.no_grad():
            logits = model.model.logits(model.model(torch.tensor([ids]))[0][0, -1])
        logits[[0, 1, 2]] = -torch.inf
        ids.append(int(filtered_probabilities(logits[None], 0).argmax()))
    words = model.tokenizer.pieces(ids[3:])
    assert text.split() == [word for word, index in zip(words, ids[3:], strict=True) if index != EOS]


def test_streamed_bit_by_bit_it_is_the_same_text(model: Any) -> None:
    parts = list(model.stream("the", length=30, seed=5))
    assert "".join(parts) == model.generate("the", length=30, seed=5) == model.samples("the", 3, length=30, seed=5)[0]
    assert len(parts) == 30 and len(set(model.samples("the", 3, length=30))) == 3


def test_a_line_ends_the_text_where_that_is_wanted(model: Any) -> None:
    with torch.no_grad():
        model.model.output_bias[EOS] += 6
    try:
        texts = model.samples("the", 5, length=200, line=True)
        assert not any("\n" in text for text in texts) and len({len(text.split()) for text in texts}) > 1
        assert "\n" in model.generate("the", length=200)
        assert model.generate("the", length=200, line=True) == texts[0]
    finally:
        with torch.no_grad():
            model.model.output_bias[EOS] -= 6


def test_a_transformer_writes_on_beyond_its_window(characters: Any) -> None:
    assert len(characters.generate("line 1", length=50)) == 50
    windowed = Windowed(characters.model, 8)
    ids = torch.from_numpy(characters.ids("line 12: a b line"))[None]
    state = windowed.start(ids[:, :1])
    with torch.no_grad():
        for place in range(1, 12):
            logits = windowed.step(ids[:, place], state)
            assert state.tokens.shape[1] <= 8
        recent = state.tokens[0].tolist()
        assert recent == ids[0, 12 - len(recent) : 12].tolist()
        whole = characters.model.logits(characters.model(state.tokens)[0])[:, -1]
    assert torch.allclose(logits, whole, atol=1e-5)


def test_states_of_every_layer(model: Any, characters: Any) -> None:
    found = model.states("the black cat")
    assert found.shape == (2, 3, 12)
    longer = model.states("the black cat sleeps")
    assert np.allclose(longer[:, :3], found, atol=1e-6)
    with torch.no_grad():
        hidden = model.model.narrow(torch.from_numpy(found[-1]))
        whole, _ = model.model(torch.from_numpy(model.ids("the black cat"))[None])
    assert torch.allclose(hidden, whole[0, 1:], atol=1e-5)
    assert characters.states("line").shape == (2, 4, 16)


def test_characters_keep_every_space(characters: Any) -> None:
    assert characters.score("a  b\n").tokens == ["a", " ", " ", "b", "⏎"]


def test_gates_and_gradients_can_be_looked_at(model: Any) -> None:
    trace = gates(model, "the cat is")
    assert [layer.words for layer in trace] == [["⏎", "the", "cat"]] * 2
    assert set(trace[0].values) >= {"input", "forget", "output", "cell"}
    flow = gradient_flow(model, ["the black cat sleeps", "the dog"], loss="last")
    assert len(flow) == 2 and flow[0].gradients["hidden"].shape == (2, 4)
    assert np.isnan(flow[0].gradients["hidden"][1, 2:]).all() and (flow[0].gradients["hidden"][1, :2] > 0).all()
    text = "the black cat sleeps"
    every = gradient_flow(model, [text], loss="all")
    assert every.loss == pytest.approx(-model.score(text).log_probabilities.sum(), rel=1e-4)
    assert len(JOB.examples(model, "valid")) == 1000


def test_padding_changes_nothing(model: Any) -> None:
    long, short = "the cat is in the house", "the dog"
    with torch.no_grad():
        both, wanted, last = model.batch([long, short]).predictions(model.model)
        alone, _, _ = model.batch([short]).predictions(model.model)
    assert last.tolist() == [5, 1] and wanted[1, 2:].tolist() == [0] * 4
    assert torch.allclose(both[1, :2], alone[0], atol=1e-6)


def test_evaluation_has_intervals_and_a_baseline(model: Any, tmp_path: Path) -> None:
    scores = JOB.evaluate(model, None, [], lambda done: None)
    names = [metric.name for metric in scores.metrics]
    assert names == ["perplexity", "nats per token", "bits per token", "bits per character", "5-gram perplexity"]
    assert scores.metrics[0].low < scores["perplexity"] < scores.metrics[0].high
    assert scores["perplexity"] == pytest.approx(math.exp(scores["nats per token"]))
    assert scores["bits per token"] == pytest.approx(scores["nats per token"] / math.log(2))
    lines = (tmp_path / "a.txt", "the black cat sleeps\nthe dog eats\n")
    lines[0].write_text(lines[1])
    own = JOB.evaluate(model, None, [lines[0]], lambda done: None)
    assert own["perplexity"] == pytest.approx(model.perplexity(lines[1]), rel=1e-5)
    assert own.count == 9
    assert own["bits per character"] == pytest.approx(own["bits per token"] * 9 / len(lines[1]))


def test_what_cannot_be_done_is_said_in_a_sentence(model: Any, characters: Any, tmp_path: Path) -> None:
    for problem, words in (
        (lambda: model.perplexity(""), "the text is empty"),
        (lambda: model.states(""), "the text is empty"),
        (lambda: model.batch([""]), "no text to read"),
        (lambda: model.generate("the", temperature=-1), "temperature is -1"),
        (lambda: JOB.evaluate(model, "dev", [], print), "no split 'dev'"),
        (lambda: load_recipe("ptb-lstm"), "does not say where its text is"),
        (lambda: load_recipe("phrasebook-language", ["data.chunk=9999"]), "is less than one stream's data.chunk"),
        (lambda: load_recipe("phrasebook-language", ["model.bidirectional=true"]), "see the words it has to predict"),
        (lambda: load_recipe("phrasebook-language", ["data.valid_size=0.9", "data.test_size=0.2"]), "leave nothing"),
    ):
        with pytest.raises(UserError, match=words):
            problem()
    (tmp_path / "text.txt").write_text("a b c\n" * 40)
    changes = ["data.corpus=none", f"data.train={tmp_path / 'text.txt'}", "data.test_size=0"]
    without = LanguageModel(load_recipe("phrasebook-language", changes), model.model, model.tokenizer)
    with pytest.raises(UserError, match="text has no split 'test'; choose --split train or valid, or give files"):
        JOB.evaluate(without, "test", [], print)
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    with pytest.raises(UserError, match="holds no text to score"):
        JOB.evaluate(model, None, [empty], print)


def test_the_arguments_of_samples_are_those_of_the_command() -> None:
    parameters = inspect.signature(harken.LanguageModel.samples).parameters
    assert {name: value.default for name, value in parameters.items() if value.kind is value.KEYWORD_ONLY} == {
        "length": 200, "temperature": 1.0, "top_k": None, "top_p": None, "min_p": None, "seed": 0, "line": False,
    }  # fmt: skip
    assert SamplingKeys.__annotations__.keys() == fields_of(SamplingOptions).keys()
    assert "stop at the end of a line" in (harken.LanguageModel.generate.__doc__ or "")
