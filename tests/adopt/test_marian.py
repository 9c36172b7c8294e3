"""Marian models of Hugging Face's format: the same pieces, logits and translations as `transformers` gives."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adopt.test_t5 import random_lines
from typer.testing import CliRunner

import harken
from harken.adopt import adopt
from harken.adopt.pieces import read_pieces, with_vocabulary
from harken.cli.app import app
from harken.data.synthetic.phrasebook import load_phrasebook
from harken.data.tokenizers.tokens import BOS, EOS, PAD, UNK
from harken.errors import UserError

transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")
sentencepiece = pytest.importorskip("sentencepiece")
LANGUAGES = (">>fra<<", ">>oci<<")
NOT_IN_VOCABULARY = 3  # pieces of source.spm that vocab.json lacks


def train_pieces(lines: list[str], size: int, kind: str = "unigram") -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=size, model_type=kind, hard_vocab_limit=False,
        bos_id=-1, eos_id=0, unk_id=1, pad_id=-1, minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


@pytest.fixture(scope="module")
def lines() -> list[str]:
    corpus = load_phrasebook(train=2000)
    return [pair.source for pair in corpus.tests["test"][:60]]


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_marian(tmp_path_factory.mktemp("opus-mt-en-fr"))


def write_marian(folder: Path) -> Path:
    """A folder like those of OPUS-MT, with random weights."""
    corpus = load_phrasebook(train=2000)
    source = train_pieces([pair.source for pair in corpus.train], 200)
    target = train_pieces([pair.target for pair in corpus.train], 220)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    texts = [piece.text for piece in read_pieces(source, "")[:-NOT_IN_VOCABULARY]]
    texts += [piece.text for piece in read_pieces(target, "")]
    order = dict.fromkeys(["</s>", "<unk>", *texts, *LANGUAGES, "<pad>"])
    vocabulary = {text: row for row, text in enumerate(order)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    pad = vocabulary["<pad>"]
    config = transformers.MarianConfig(
        vocab_size=len(vocabulary), d_model=32, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, pad_token_id=pad, eos_token_id=0,
        decoder_start_token_id=pad, scale_embedding=True, activation_function="swish", init_std=0.15,
    )  # fmt: skip
    torch.manual_seed(1)
    model = transformers.MarianMTModel(config)
    with torch.no_grad():
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, 0] += 9  # sentences end
    model.generation_config.num_beams, model.generation_config.bad_words_ids = 4, [[pad]]
    model.save_pretrained(folder)
    names = {"source_spm": "source.spm", "target_spm": "target.spm", "vocab": "vocab.json"}
    files = {key: str(folder / name) for key, name in names.items()}
    transformers.MarianTokenizer(**files, source_lang="en", target_lang="fr").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def peer(marian: Path) -> tuple[Any, Any]:
    model = transformers.MarianMTModel.from_pretrained(marian).eval()
    return model, transformers.MarianTokenizer.from_pretrained(marian)


@pytest.fixture(scope="module")
def adopted(marian: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return adopt(marian, tmp_path_factory.mktemp("adopted") / "model")


def own_ids(adopted: Any, peer: tuple[Any, Any]) -> torch.Tensor:
    """(V,): the id of harken for every id of `transformers`."""
    pieces = {adopted.source.pieces([index])[0]: index for index in range(adopted.source.size)}
    pieces |= {text: pieces[f"▁{text}"] for text in LANGUAGES} | {"<pad>": BOS}
    vocabulary = peer[1].get_vocab()
    return torch.tensor([pieces[text] for text in sorted(vocabulary, key=vocabulary.__getitem__)])


def test_the_same_pieces(adopted: Any, peer: tuple[Any, Any], lines: list[str]) -> None:
    mapping = own_ids(adopted, peer)
    scripts = random_lines(500)
    assert len(scripts) == 500
    for line in [*lines, *scripts, ">>fra<< the black cat", "Zebra 東京 é", "  two  spaces ", "ｗｉｄｅ letters"]:
        theirs = mapping[peer[1](line).input_ids].tolist()
        known = [UNK if index >= len(mapping) + 1 else index for index in adopted.source.encode(line)]
        assert [*known, EOS] == theirs


def test_the_same_logits(adopted: Any, peer: tuple[Any, Any], lines: list[str]) -> None:
    model, tokenizer = peer
    mapping = own_ids(adopted, peer)
    batch = tokenizer(lines[:8], return_tensors="pt", padding=True)
    target = torch.randint(2, len(mapping) - 1, (8, 7))
    target[:, 0] = model.config.pad_token_id
    source = torch.where(batch.attention_mask.bool(), mapping[batch.input_ids], torch.tensor(PAD))
    with torch.no_grad():
        theirs = model(**batch, decoder_input_ids=target).logits
        own = adopted.model.logits(adopted.model(source, batch.attention_mask.sum(1), mapping[target]))
    assert theirs.abs().max() > 3
    assert (own[:, :, mapping] - theirs).abs().max() < 1e-5


@pytest.mark.parametrize("beam", [1, 4])
def test_the_same_translations(adopted: Any, peer: tuple[Any, Any], lines: list[str], beam: int) -> None:
    model, tokenizer = peer
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    options = {"max_new_tokens": 30, "early_stopping": True, "length_penalty": 1.0, "forced_eos_token_id": None}
    theirs = model.generate(**batch, num_beams=beam, **options)
    results = adopted.translate(
        lines, beam=beam, stopping="count", length_penalty=1.0, max_length_factor=0.01, max_length_extra=30
    )
    own = [result.text for result in results]
    expected = tokenizer.batch_decode(theirs, skip_special_tokens=True)
    ended = [bool((row == model.config.eos_token_id).any()) for row in theirs]
    assert sum(ended) > 30
    same = [mine == yours for mine, yours, end in zip(own, expected, ended, strict=True) if end]
    assert sum(same) >= len(same) - 1  # ties and rounding


def test_an_exported_model_is_that_of_before(
    adopted: Any, peer: tuple[Any, Any], lines: list[str], tmp_path: Path
) -> None:
    from harken.export import export_model

    folder = export_model(adopted, "huggingface", tmp_path / "exported")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor([tokenizer.get_vocab()[text] for text in peer[1].convert_ids_to_tokens(range(len(peer[1])))])
    texts = [*lines[:8], ">>fra<< the black cat sleeps"]
    batch = peer[1](texts, return_tensors="pt", padding=True)
    again = tokenizer(texts, return_tensors="pt", padding=True)
    assert torch.equal(ids[batch.input_ids], again.input_ids)
    target = torch.randint(2, len(ids) - 1, (9, 7))
    target[:, 0] = peer[0].config.pad_token_id
    with torch.no_grad():
        theirs = peer[0](**batch, decoder_input_ids=target).logits
        own = model(**again, decoder_input_ids=ids[target]).logits
    assert (own[:, :, ids] - theirs).abs().max() < 1e-5
    before, after = peer[0].model.decoder.layers[1].fc2.weight, model.model.decoder.layers[1].fc2.weight
    assert torch.equal(before, after)  # the features are in Marian's order again
    returned = adopt(folder, tmp_path / "again")
    assert [result.text for result in returned.translate(lines)] == [result.text for result in adopted.translate(lines)]


def test_the_recipe_names_languages_and_search(adopted: Any) -> None:
    recipe = harken.load(adopted.folder).recipe
    assert (recipe.data.source_language, recipe.data.target_language, recipe.search.beam) == ("en", "fr", 4)
    assert (recipe.model.activation, recipe.model.norm, recipe.model.output_bias) == ("silu", "post", True)


def test_commands_work_on_an_adopted_model(marian: Path, tmp_path: Path) -> None:
    runner, out = CliRunner(), tmp_path / "opus"
    result = runner.invoke(app, ["adopt", str(marian), "--out", str(out)])
    assert result.exit_code == 0, result.output
    (tmp_path / "in.txt").write_text("the black cat\n", encoding="utf-8")
    translated = runner.invoke(app, ["translate", str(out), str(tmp_path / "in.txt")])
    assert translated.exit_code == 0 and translated.output.count("\n") == 1
    again = runner.invoke(app, ["adopt", str(marian), "--out", str(out)])
    assert again.exit_code == 2 and "not empty" in again.output


def test_folders_that_are_refused(marian: Path, tmp_path: Path) -> None:
    import shutil

    def copied(name: str) -> Path:
        return Path(shutil.copytree(marian, tmp_path / name))

    with pytest.raises(UserError, match="no folder"):
        adopt(tmp_path / "missing", tmp_path / "out")
    other = copied("other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"model_type": "whisper"}))
    with pytest.raises(UserError, match=r"'whisper'; marian, .* can be adopted"):
        adopt(other, tmp_path / "out")
    (other / "config.json").write_text(json.dumps(config | {"scale_embedding": False}))
    with pytest.raises(UserError, match="scale_embedding = False"):
        adopt(other, tmp_path / "out")
    pickle = copied("pickle")
    (pickle / "model.safetensors").rename(pickle / "pytorch_model.bin")
    with pytest.raises(UserError, match="a pickle"):
        adopt(pickle, tmp_path / "out")
    broken = copied("broken")
    (broken / "source.spm").write_bytes(b"\x0a\xff")
    with pytest.raises(UserError, match="not a SentencePiece model"):
        adopt(broken, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_of_byte_pairs_needs_all_pieces_of_its_vocabulary() -> None:
    model = train_pieces(["low lower lowest"] * 5, 25, "bpe")
    texts = [piece.text for piece in read_pieces(model, "")]
    assert with_vocabulary(model, texts)
    with pytest.raises(UserError, match="byte-pair"):
        with_vocabulary(model, [*texts, "zz"])


def test_an_adopted_model_is_fine_tuned(adopted: Any, lines: list[str], tmp_path: Path) -> None:
    (tmp_path / "own.tsv").write_text("".join(f"{line}\t{line.upper()}\n" for line in dict.fromkeys(lines)))
    machine = ["train.workers=1", "train.threads=1", "train.precision=float32", "train.device=cpu"]
    overrides = [*machine, "train.max_steps=4", "train.validate_every=2", "train.batch_tokens=256"]
    model = harken.train(
        tmp_path / "own.tsv", tmp_path / "mine", start=adopted.folder, overrides=overrides, progress=False
    )
    assert model.recipe.model == adopted.recipe.model and model.recipe.data.target_language == "fr"
    assert model.source.encode(lines[0]) == adopted.source.encode(lines[0])
    entries = [json.loads(line) for line in (tmp_path / "mine" / "metrics.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in entries if entry["kind"] == "valid"]
    assert len(losses) == 3 and losses[-1] < losses[0]
