"""BERT, RoBERTa and DistilBERT in Hugging Face's format: the same pieces, logits and fillings as `transformers`."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import harken
from harken.adopt import adopt
from harken.cli.app import app
from harken.data.text.tagged import Tagged
from harken.data.tokenizers.tokens import EOS
from harken.errors import UserError
from harken.recipe import as_recipe
from harken.tasks.tag.task import build_task

transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")
WORDS = str.split(
    "the The cat sleeps house lower lowest LOWEST river Straße größer ÉLÈVE où niño вода Человек дом νερό ΣΠΊΤΙ σπίτι "
    "שלום ماء بيت पानी घर น้ำ 水 東京都 日本語 물 사람 ｗｉｄｅ ﬁne İstanbul 12 3.5% don't (so) — … 😀 user@mail.org"
)
SHAPE = {"vocab_size": 0, "max_position_embeddings": 50, "hidden_size": 32, "num_hidden_layers": 3}
SHAPE |= {"num_attention_heads": 4, "intermediate_size": 48}
NAMES = ["bert", "bert cased", "roberta", "distilbert"]


class Pair(NamedTuple):
    """A model of `transformers` and what was adopted of it."""

    folder: Path
    model: Any
    tokenizer: Any
    own: Any
    rows: torch.Tensor  # (V,): the id of harken for every id of `transformers`
    mask: str


def random_lines(count: int, seed: int = 1) -> list[str]:
    chosen = random.Random(seed)
    spaces = [" ", " ", " ", "  ", "\t", "\u00a0"]
    return ["".join(word + chosen.choice(spaces) for word in chosen.choices(WORDS, k=8)) for _ in range(count)]


def word_pieces(folder: Path, lowercase: bool) -> Any:
    """A tokenizer of word pieces; the one that keeps case as the older files have it, the other in tokenizer.json."""
    trained = tokenizers.BertWordPieceTokenizer(lowercase=lowercase)
    trained.train_from_iterator(random_lines(300, seed=2), vocab_size=190, show_progress=False)
    trained.save_model(str(folder))
    tokenizer = transformers.BertTokenizer.from_pretrained(folder, do_lower_case=lowercase)
    tokenizer.save_pretrained(folder)
    (folder / ("vocab.txt" if lowercase else "tokenizer.json")).unlink()
    return tokenizer


def byte_level(folder: Path) -> Any:
    trained = tokenizers.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(random_lines(300, seed=2), vocab_size=400, special_tokens=special, show_progress=False)
    trained.save_model(str(folder))
    mask = tokenizers.AddedToken("<mask>", lstrip=True, special=True)  # as published models have it
    tokenizer = transformers.RobertaTokenizer.from_pretrained(folder, mask_token=mask)
    tokenizer.save_pretrained(folder)
    return tokenizer


@pytest.fixture(scope="module", params=NAMES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(request.param, tmp_path_factory.mktemp("model"))


def make_pair(name: str, folder: Path) -> Pair:
    """A small model with random weights, and rows without a piece."""
    kind = name.split()[0]
    tokenizer = byte_level(folder) if kind == "roberta" else word_pieces(folder, name != "bert cased")
    special = {"pad_token_id": tokenizer.pad_token_id}
    config, network = {
        "bert": (transformers.BertConfig, transformers.BertForMaskedLM),
        "roberta": (transformers.RobertaConfig, transformers.RobertaForMaskedLM),
        "distilbert": (transformers.DistilBertConfig, transformers.DistilBertForMaskedLM),
    }[kind]
    torch.manual_seed(3)
    model = network(config(**SHAPE | special | {"vocab_size": len(tokenizer) + 3})).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(std=0.1 if ".layer." in name else 0.3)
            if "norm" in name.lower() and name.endswith("weight"):
                weight += 1
    model.save_pretrained(folder)
    own = adopt(folder, folder / "adopted")
    first = [tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.mask_token_id, tokenizer.sep_token_id]
    first.append(tokenizer.cls_token_id)
    others = iter(range(len(first), own.tokenizer.size))
    size = model.config.vocab_size
    rows = torch.tensor([first.index(row) if row in first else next(others) for row in range(size)])
    return Pair(folder, model, tokenizer, own, rows, tokenizer.mask_token)


def test_the_same_pieces(pair: Pair) -> None:
    lines = random_lines(500)
    expected = [pair.rows[ids].tolist() for ids in pair.tokenizer(lines).input_ids]
    assert expected == [[*ids, EOS] for ids in pair.own.tokenizer.encode_all(lines)]
    assert len({index for row in expected for index in row}) > 80


def test_the_same_logits_padded_or_not(pair: Pair) -> None:
    batch = pair.tokenizer([line[:30] for line in random_lines(7)], return_tensors="pt", padding=True)
    ids, lengths = pair.rows[batch.input_ids], batch.attention_mask.sum(1)
    chosen = batch.attention_mask.bool()
    with torch.no_grad():
        theirs = pair.model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
        own = pair.own.model(ids, lengths, chosen)
        alone = pair.own.model(ids[:1, : lengths[0]], None, chosen[:1, : lengths[0]])
    assert len(set(lengths.tolist())) > 1 and theirs.abs().max() > 1
    assert (own[:, pair.rows] - theirs[chosen]).abs().max() < 1e-5
    assert (alone - own[: lengths[0]]).abs().max() < 1e-5


@pytest.mark.parametrize("text", ["the [MASK] sleeps", "[MASK] house, the [MASK]", "東京都 [MASK] (so)"])
def test_the_same_fillings(pair: Pair, text: str) -> None:
    batch = pair.tokenizer(text.replace("[MASK]", pair.mask), return_tensors="pt")
    with torch.no_grad():
        logits = pair.model(**batch).logits[batch.input_ids == pair.tokenizer.mask_token_id]
    special = [row for row in range(logits.shape[1]) if pair.rows[row] < 5]  # which harken does not offer
    logits[:, special] = -torch.inf
    best = logits.softmax(-1).topk(4)
    gaps = pair.own.fill(text, count=4)
    assert [[token for token, _ in gap] for gap in gaps] == [
        pair.own.tokenizer.pieces(pair.rows[row].tolist()) for row in best.indices
    ]
    for gap, expected in zip(gaps, best.values.tolist(), strict=True):
        assert [score for _, score in gap] == pytest.approx(expected, rel=1e-4)


def test_masked_words_are_none_of_the_tokens_around_a_text(pair: Pair) -> None:
    from harken.tasks.masked.task import MaskedRows, as_rows

    rows = as_rows(random_lines(20), pair.own.tokenizer, 12)
    batch = MaskedRows(rows, pair.own.tokenizer.size, 0.5, first=5).batch(range(len(rows)))
    assert int(rows.lengths.max()) == 12 and set(batch.ids[:, 0].tolist()) == {4}
    assert batch.masked.chosen.any() and int(batch.ids[batch.masked.chosen].min()) >= 5
    assert set(batch.masked.ids[:, 0].tolist()) == {4} and 4 not in batch.masked.ids[:, 1:].flatten().tolist()


def test_commands_work_on_an_adopted_model(pair: Pair, tmp_path: Path) -> None:
    folder, runner = str(pair.own.folder), CliRunner()
    (tmp_path / "text.txt").write_text("\n".join(random_lines(20)), encoding="utf-8")
    filled = runner.invoke(app, ["fill", folder, "--count", "2"], input="the [MASK] sleeps\n")
    assert filled.exit_code == 0 and len(filled.output.split()) == 4
    calls = [
        ["evaluate", folder, str(tmp_path / "text.txt")],
        ["attention", folder, "the [MASK] sleeps", "--out", str(tmp_path / "a.svg")],
        ["inspect", folder],
        ["inspect", folder, "--gradients", "--source", str(tmp_path / "text.txt"), "--out", str(tmp_path / "g.svg")],
    ]
    for call in calls:
        result = runner.invoke(app, call)
        assert result.exit_code == 0, (call, result.output)
    assert "Layer 3: where each word" in (tmp_path / "a.svg").read_text()
    for call in (["inspect", folder, "--gradients"], ["evaluate", folder]):
        refused = runner.invoke(app, call)
        assert refused.exit_code == 2 and "names no data; give a file of examples" in refused.output
        assert "older harken" not in refused.output


def test_older_names_of_weights(pair: Pair, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(pair.folder, tmp_path / "copy"))
    weights = load_file(folder / "model.safetensors")
    older = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in weights.items()
    }
    assert older.keys() != weights.keys()
    save_file(older, folder / "model.safetensors", {"format": "pt"})
    again = adopt(folder, tmp_path / "again")
    assert all(torch.equal(a, b) for a, b in zip(again.model.parameters(), pair.own.model.parameters(), strict=True))


def test_folders_that_are_refused(pair: Pair, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(pair.folder, tmp_path / "copy"))
    config = json.loads((folder / "config.json").read_text())
    for name, value in (("is_decoder", True), ("hidden_act", "tanh"), ("position_embedding_type", "relative_key")):
        (folder / "config.json").write_text(json.dumps(config | {name: value}))
        with pytest.raises(UserError, match="cannot be adopted"):
            adopt(folder, tmp_path / "out")
    (folder / "config.json").write_text(json.dumps(config))
    weights = load_file(folder / "model.safetensors")
    headless = {name: value for name, value in weights.items() if name.startswith(config["model_type"])}
    save_file(headless, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match="no weights of a masked language model"):
        adopt(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_classifier_begins_with_the_encoder(pair: Pair, tmp_path: Path) -> None:
    """From a file and --start alone."""
    if isinstance(pair.model, transformers.DistilBertForMaskedLM):
        pytest.skip("the same code as of BERT")
    words = {"good": "the cat sleeps house", "bad": "вода человек дом"}
    chosen = random.Random(4)
    rows = [(label, " ".join(chosen.choices(text.split(), k=5))) for label, text in words.items() for _ in range(150)]
    chosen.shuffle(rows)
    lines = [f"{text}\t{label}" for label, text in rows]
    (tmp_path / "reviews.tsv").write_text("text\tlabel\n" + "\n".join(lines) + "\n", encoding="utf-8")
    start, out = str(pair.own.folder), tmp_path / "run"
    machine = ["train.workers=1", "train.threads=1", "train.precision=float32", "train.device=cpu"]
    settings = [
        part
        for value in [*machine, "train.max_epochs=4", "train.learning_rate=2e-3", "train.batch_tokens=200"]
        for part in ("--set", value)
    ]
    call = ["train", str(tmp_path / "reviews.tsv"), "--start", start, "--out", str(out), *settings]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 0, result.output
    model = harken.load(out)
    assert model.recipe.task == "classify" and model.recipe.model.norm == "post"
    assert model.recipe.model == pair.own.recipe.model.model_copy(update={"start": start})
    assert model.tokenizer.encode("the cat") == pair.own.tokenizer.encode("the cat")
    assert model.predict(["the house sleeps", "вода дом"]) == ["good", "bad"]


def test_a_tagger_begins_with_the_encoder_and_reads_its_pieces(pair: Pair, tmp_path: Path) -> None:
    sentence = ["the", "größer,", "cat", "lowest"]
    task, _ = build_task(
        as_recipe(
            {"task": "tag", "data": {"train": "none"}, "model": {"start": str(pair.own.folder)}}, with_data=False
        ),
        [Tagged(tuple(sentence), ("A", "B", "A", "B"))],
        [Tagged(("the", "cat"), ("A", "B"))],
        tokenizer=pair.own.tokenizer,
    )
    batch = task.collate(np.array([0]))
    encoded = pair.tokenizer(" ".join(sentence), return_tensors="pt")
    first = [encoded.word_ids(0).index(word) for word in first_words(pair, encoded, sentence)]
    assert batch.values.first[0].tolist() == first
    with torch.no_grad():
        theirs = pair.model(**encoded, output_hidden_states=True).hidden_states[-1][0, first]
        own = task.model.eval().reader(batch.values, batch.lengths).values[0]
    assert (own - theirs).abs().max() < 1e-5


def first_words(pair: Pair, encoded: Any, sentence: list[str]) -> list[int]:
    """The number, among the parts that `transformers` cuts a text into, of the first part of each of our words."""
    starts = [len(" ".join(sentence[:number])) + (number > 0) for number in range(len(sentence))]
    return [encoded.char_to_word(start) for start in starts]


def test_a_tagger_is_trained_saved_and_used(pair: Pair, tmp_path: Path) -> None:
    if not isinstance(pair.model, transformers.BertForMaskedLM | transformers.RobertaForMaskedLM):
        pytest.skip("the same code as of BERT")
    tags = {"the": "DET", "cat": "NOUN", "house": "NOUN", "sleeps": "VERB", "größer": "ADJ", "东": "NOUN"}
    chosen = random.Random(5)
    sentences = [chosen.choices([*tags], k=chosen.randint(2, 7)) for _ in range(200)]
    text = "\n\n".join("\n".join(f"{word}\t{tags[word]}" for word in words) for words in sentences)
    (tmp_path / "tags.conll").write_text(text + "\n", encoding="utf-8")
    recipe = {
        "task": "tag", "data": {"train": str(tmp_path / "tags.conll"), "valid_size": 40},
        "model": {"start": str(pair.own.folder)},
        "train": {"workers": 1, "threads": 1, "precision": "float32", "device": "cpu", "max_steps": 150,
                  "learning_rate": 3e-3, "batch_tokens": 100, "average": 0.0},
    }  # fmt: skip
    trained = harken.train(recipe, tmp_path / "run", progress=False)
    loaded = harken.load(tmp_path / "run")
    assert loaded.tag("the größer cat sleeps").tags == ["DET", "ADJ", "NOUN", "VERB"]
    words = ["the", "größer", "\u200b", "sleeps"]
    assert loaded.tag(words).tags == trained.tag(words).tags and len(loaded.tag(words).tags) == 4
    alone = loaded.tag(["the", "cat"])
    together = loaded.tag_all([["the", "cat"], ["the"] * 9, []])
    assert np.allclose(alone.chances, together[0].chances, atol=1e-5) and together[2].tags == []
    pieces = loaded.steps(["the", "cat"])
    assert pieces[0] == "<start>" and pieces[-1] == "</s>"
    for call in (["tag", str(tmp_path / "run")], ["evaluate", str(tmp_path / "run")]):
        result = CliRunner().invoke(app, call, input="the cat sleeps\n")
        assert result.exit_code == 0, result.output
    drawn = CliRunner().invoke(app, ["attention", str(tmp_path / "run"), "the cat", "--out", str(tmp_path / "a.svg")])
    assert drawn.exit_code == 0 and "Layer 3" in (tmp_path / "a.svg").read_text()
    assert CliRunner().invoke(app, ["inspect", str(tmp_path / "run"), "--gradients"]).exit_code == 0


def test_a_masked_model_is_trained_further(pair: Pair, tmp_path: Path) -> None:
    if not isinstance(pair.model, transformers.RobertaForMaskedLM):
        pytest.skip("the same code as of RoBERTa")
    (tmp_path / "text.txt").write_text("\n".join(random_lines(120)), encoding="utf-8")
    settings = {"workers": 1, "threads": 1, "precision": "float32", "device": "cpu", "max_steps": 20}
    recipe = {
        "task": "masked", "data": {"train": str(tmp_path / "text.txt"), "valid_size": 0.3},
        "model": {"start": str(pair.own.folder)}, "train": {**settings, "validate_every": 10},
    }  # fmt: skip
    before = pair.own.evaluate(random_lines(40, seed=9))["perplexity"]
    model = harken.train(recipe, tmp_path / "run", progress=False)
    assert model.tokenizer.before == [4] and model.model.norm.eps == pair.own.model.norm.eps
    assert model.evaluate(random_lines(40, seed=9))["perplexity"] < before
