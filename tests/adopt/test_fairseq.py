"""BART, mBART, M2M-100 and NLLB in Hugging Face's format: ids, logits and translations as `transformers` gives them."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import harken
from harken.adopt import adopt
from harken.adopt.pieces import read_pieces
from harken.cli.app import app
from harken.data.synthetic.phrasebook import load_phrasebook
from harken.data.tokenizers.marks import forced_tokens
from harken.data.tokenizers.tokens import BOS, EOS, PAD, UNK
from harken.errors import UserError
from harken.export import export_model
from harken.models.build import build_model
from harken.search.compiled import KERNELS, prepare
from harken.search.dispatch import COMPILED

sys.path.insert(0, str(Path(__file__).parents[1] / "export"))
from models import run_onnx

transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")
sentencepiece = pytest.importorskip("sentencepiece")
SCRIPTS = [
    "Привет, как дела?",
    "你好世界。猫在睡觉",
    "مرحبا بالعالم",
    "สวัสดีชาวโลก",
    "die Straße über Zürich",
    "où est l'été ?",
]
SHAPE = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 160, "init_std": 0.3, "dropout": 0.0,
}  # fmt: skip
PAIRS = {"bart": None, "nllb": "eng_Latn-fra_Latn"}
NAMES = ["bart", "mbart", "mbart50", "m2m", "nllb"]


class Peer(NamedTuple):
    """A model of `transformers`, and the same adopted."""

    name: str
    folder: Path
    model: Any
    tokenizer: Any
    own: Any
    forced: int | None

    def ids(self) -> torch.Tensor:
        """(V,): the id of harken for every id of `transformers`."""
        rows = [0] * self.model.config.vocab_size
        special = {self.model.config.pad_token_id: PAD, self.model.config.eos_token_id: EOS}
        special[self.tokenizer.unk_token_id] = UNK
        number = UNK + 3
        for row in range(len(rows)):
            rows[row] = special.get(row, number)
            number += row not in special
        return torch.tensor(rows)


def train_pieces(lines: list[str], kind: str) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=180, model_type=kind, minloglevel=2,
        bos_id=1, eos_id=2, unk_id=0, pad_id=-1, normalization_rule_name="identity",
    )  # fmt: skip
    return model.getvalue()


def several_scripts() -> list[str]:
    """500 lines."""
    pairs = load_phrasebook(train=600).train
    texts = [pair.source for pair in pairs[:200]] + [pair.target.capitalize() for pair in pairs[200:350]]
    return texts + [f"{text} {number}" if number % 2 else text for number in range(25) for text in SCRIPTS]


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return several_scripts()


@pytest.fixture(scope="module", params=NAMES)
def peer(request: pytest.FixtureRequest, lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> Peer:
    return make_peer(request.param, lines, tmp_path_factory.mktemp(request.param))


def make_peer(name: str, lines: list[str], folder: Path) -> Peer:
    """A small model with random weights in a folder, adopted in a folder of it."""
    tokenizer = write_tokenizer(folder, name, lines)
    config, kind = {
        "bart": (transformers.BartConfig, transformers.BartForConditionalGeneration),
        "mbart": (transformers.MBartConfig, transformers.MBartForConditionalGeneration),
        "mbart50": (transformers.MBartConfig, transformers.MBartForConditionalGeneration),
    }.get(name, (transformers.M2M100Config, transformers.M2M100ForConditionalGeneration))
    french = {"mbart": "fr_XX", "mbart50": "fr_XX", "m2m": "__fr__", "nllb": "fra_Latn"}.get(name, "<s>")
    first = tokenizer.convert_tokens_to_ids(french)
    start = {"decoder_start_token_id": first if name == "mbart" else 2}
    torch.manual_seed(3)
    size = tokenizer.encoder_size + 108 if name == "m2m" else len(tokenizer)  # M2M-100 has rows without tokens
    scaled = {"scale_embedding": name != "bart"}
    model = kind(config(vocab_size=size, **SHAPE, **start, **scaled, activation_function="gelu")).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
            model.final_logits_bias[0, 2] += 4  # sentences end
        else:
            model.model.decoder.layer_norm.bias += model.model.shared.weight[2] * 3
    model.generation_config.num_beams = 3
    model.save_pretrained(folder)
    own = adopt(folder, folder / "adopted", PAIRS.get(name, "en-fr"))
    return Peer(name, folder, model, tokenizer, own, None if name == "mbart" else first)


def write_tokenizer(folder: Path, name: str, lines: list[str]) -> Any:
    if name == "bart":
        return write_byte_level(folder, lines)
    (folder / "sentencepiece.bpe.model").write_bytes(train_pieces(lines, "bpe" if name == "nllb" else "unigram"))
    if name == "m2m":
        texts = [piece.text for piece in read_pieces((folder / "sentencepiece.bpe.model").read_bytes(), "")[3:]]
        vocabulary = {text: row for row, text in enumerate(["<s>", "<pad>", "</s>", "<unk>", *texts[::-1]])}
        (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
        files = {"vocab_file": folder / "vocab.json", "spm_file": folder / "sentencepiece.bpe.model"}
        tokenizer = transformers.M2M100Tokenizer(**{key: str(path) for key, path in files.items()}, src_lang="en")
    else:
        kind = {"mbart": "MBartTokenizer", "mbart50": "MBart50Tokenizer", "nllb": "NllbTokenizer"}[name]
        codes = {"src_lang": "eng_Latn", "extra_special_tokens": ["eng_Latn", "fra_Latn", "zho_Hans"]}
        codes = codes if name == "nllb" else {"src_lang": "en_XX"}
        tokenizer = getattr(transformers, kind).from_pretrained(folder, **codes)
    tokenizer.save_pretrained(folder)
    return tokenizer


def write_byte_level(folder: Path, lines: list[str]) -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train_from_iterator(lines, vocab_size=330, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    trained.save_model(str(folder))
    tokenizer = transformers.BartTokenizer.from_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer


def test_the_same_ids(peer: Peer, lines: list[str]) -> None:
    mapping, own = peer.ids(), peer.own.source
    theirs = peer.tokenizer([*lines, "Zebra 🎉 ok"]).input_ids
    ids = [[*row, EOS] for row in own.encode_all([*lines, "Zebra 🎉 ok"])]
    if peer.name == "mbart":  # the language stands behind the end: a suffix, and the end itself
        language = peer.tokenizer.convert_tokens_to_ids("en_XX")
        assert {tuple(row[-2:]) for row in theirs} == {(2, language)}
        assert {tuple(row[-2:]) for row in ids} == {(own.size - 1, EOS)}
        weight = peer.model.model.shared.weight
        assert torch.equal(peer.own.model.source_embedding.weight[EOS], weight[language])
        assert torch.equal(peer.own.model.source_embedding.weight[own.size - 1], weight[2])
        theirs, ids = [row[:-2] for row in theirs], [row[:-2] for row in ids]
    assert len(ids) == 501
    assert ids == [mapping[row].tolist() for row in theirs]
    decoded = peer.tokenizer.batch_decode([row[peer.name == "m2m" :] for row in theirs[:20]], skip_special_tokens=True)
    assert [own.decode(row) for row in ids[:20]] == decoded


def test_the_same_logits(peer: Peer, lines: list[str]) -> None:
    mapping, model = peer.ids(), peer.model
    chosen = [*lines[:6], *SCRIPTS[:2]]
    batch = peer.tokenizer(chosen, return_tensors="pt", padding=True)
    target = torch.randint(4, 150, (8, 7))
    target[:, 0] = model.config.decoder_start_token_id
    own_target = mapping[target]
    own_target[:, 0] = BOS
    source = peer.own.read(chosen).batch(range(8), "cpu")
    with torch.no_grad():
        theirs = model(**batch, decoder_input_ids=target).logits
        own = peer.own.model.logits(peer.own.model(source.ids, source.lengths, own_target))
    assert theirs.abs().max() > 1
    assert (own[:, :, mapping] - theirs).abs().max() < 1e-5


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_same_translations(
    peer: Peer, lines: list[str], beam: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled:
        prepare(peer.own.model)
        assert all(kernels.is_loaded for kind, kernels in KERNELS.items() if kind.__name__ == "Transformer")
    else:
        monkeypatch.setenv("HARKEN_KERNELS", "off")
    chosen = lines[:400:16]
    batch = peer.tokenizer(chosen, return_tensors="pt", padding=True)
    config = peer.model.config
    options = {"max_new_tokens": 20, "early_stopping": True, "length_penalty": 1.0, "forced_eos_token_id": None}
    options |= {"forced_bos_token_id": peer.forced, "bad_words_ids": [[config.pad_token_id]]}
    theirs = peer.model.generate(**batch, num_beams=beam, **options)[:, 1:]
    limits = {"max_length_factor": 0.01, "max_length_extra": 20}
    results = peer.own.translate(chosen, beam=beam, stopping="count", length_penalty=1.0, **limits)
    mapping, ended, equal = peer.ids(), 0, 0
    for row, result in zip(theirs.tolist(), results, strict=True):
        if config.eos_token_id not in row:
            continue
        expected = mapping[row[: row.index(config.eos_token_id)]].tolist()
        ended += 1
        equal += result.token_ids == expected
        if peer.forced is not None:
            assert result.token_ids[0] == mapping[peer.forced]
    assert ended > 8
    assert equal >= ended - 1  # ties and rounding


def test_the_compiled_search_forces_the_first_token(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(peer.own.model)
    calls = []
    run = COMPILED.run
    monkeypatch.setattr("harken.search.dispatch.BACKENDS", (COMPILED,))
    monkeypatch.setattr("harken.search.compiled._decode", _recorded(calls))
    fast = peer.own.translate("the black cat", beam=3)
    assert calls and run is COMPILED.run
    monkeypatch.undo()
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    slow = peer.own.translate("the black cat", beam=3)
    assert fast.token_ids == slow.token_ids
    assert np.allclose(fast.token_scores[1:], slow.token_scores[1:], atol=1e-4)
    assert fast.score == pytest.approx(slow.score, abs=1e-4)


def _recorded(calls: list[Any]) -> Any:
    from harken.search import compiled

    decode = compiled._decode

    def recorded(*arguments: Any) -> Any:
        calls.append(arguments)
        return decode(*arguments)

    return recorded


def test_another_pair_of_the_same_model(peer: Peer) -> None:
    if peer.name in ("bart", "mbart"):
        with pytest.raises(UserError, match="no multilingual model"):
            peer.own.with_languages("fr", "en")
        return
    source, target = {"nllb": ("zho_Hans", "eng_Latn")}.get(peer.name, ("zh", "en"))
    other = peer.own.with_languages(source, target)
    languages = peer.own.recipe.tokenizer.languages
    assert other.source.pieces(other.source.encode("cat")[:1]) == [languages[source]]
    assert other.target.pieces(other.translate("the cat").token_ids[:1]) == [languages[target]]
    assert peer.own.source.encode("cat")[0] != other.source.encode("cat")[0]
    short = peer.own.with_languages("fr", "en")  # as codes are detected, also where the model has fra_Latn
    french = languages.get("fr", "fra_Latn")
    assert short.source.pieces(short.source.encode("cat")[:1]) == [french]
    with pytest.raises(UserError, match="'xx', which the model does not have"):
        peer.own.with_languages("xx")


def test_attention_and_score_of_an_adopted_model(peer: Peer) -> None:
    result = harken.load(peer.own.folder).translate("the black cat")
    assert result.source_words == ["the", "black", "cat"] and result.attention.shape[1] == 3
    assert peer.own.score(["the black cat"], ["le chat"])[0].score < 0
    if peer.name == "mbart50":  # the others end after the token of the language
        texts = [other.text for other in peer.own.alternatives("the black cat", "", 5)]
        assert len(set(texts)) == len(texts) > 1
    assert peer.own.translate(["", "the cat"])[0].text == ""


def test_commands_and_refusals(peer: Peer, tmp_path: Path) -> None:
    runner, pair = CliRunner(), ["--pair", "eng_Latn-fra_Latn" if peer.name == "nllb" else "en-fr"]
    result = runner.invoke(app, ["adopt", str(peer.folder), "--out", str(tmp_path / "out"), *pair])
    if peer.name == "bart":
        assert result.exit_code == 2 and "no tokens of languages" in result.output
    else:
        assert result.exit_code == 0, result.output
        (tmp_path / "in.txt").write_text("the black cat\n", encoding="utf-8")
        assert runner.invoke(app, ["translate", str(tmp_path / "out"), str(tmp_path / "in.txt")]).exit_code == 0
        with pytest.raises(UserError, match="'tlh', which the model does not have"):
            adopt(peer.folder, tmp_path / "other", f"{pair[1].split('-')[0]}-tlh")
        with pytest.raises(UserError, match="choose two"):
            adopt(peer.folder, tmp_path / "other")


def test_an_exported_model_is_that_of_before(peer: Peer, lines: list[str], tmp_path: Path) -> None:
    folder = export_model(peer.own, "huggingface", tmp_path / "exported")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert type(model) is type(peer.model) and type(tokenizer).__name__ == type(peer.tokenizer).__name__
    chosen = [*lines[:6], *SCRIPTS[:2]]
    batch, again = (one(chosen, return_tensors="pt", padding=True) for one in (peer.tokenizer, tokenizer))
    assert torch.equal(batch.input_ids, again.input_ids)
    target = torch.randint(4, 150, (8, 7))
    target[:, 0] = start = peer.model.config.decoder_start_token_id
    assert model.config.decoder_start_token_id == start
    with torch.no_grad():
        theirs, own = (one(**batch, decoder_input_ids=target).logits for one in (peer.model, model))
    assert theirs.abs().max() > 1
    assert (own - theirs).abs().max() < 1e-5
    generation = model.generation_config
    assert (generation.forced_bos_token_id, generation.num_beams) == (peer.forced, 3)
    returned = adopt(folder, tmp_path / "again", PAIRS.get(peer.name, "en-fr"))
    assert [result.text for result in returned.translate(chosen)] == [
        result.text for result in peer.own.translate(chosen)
    ]


def test_a_fine_tuned_model_is_exported(peer: Peer, lines: list[str], tmp_path: Path) -> None:
    """Its start has another embedding than its end; M2M-100 and NLLB keep their positions and have no output bias."""
    if peer.name not in ("bart", "mbart50", "nllb"):
        pytest.skip("the same code as of the others")
    own = harken.load(peer.own.folder)
    trained = build_model(own.recipe.model, own.source.size, own.target.size)
    with torch.no_grad():
        for parameter, other in zip(own.model.parameters(), trained.parameters(), strict=True):
            parameter.add_(torch.randn_like(parameter) * 0.01 * other.requires_grad)
    folder = export_model(own, "huggingface", tmp_path / "exported")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    start, mapping = model.config.decoder_start_token_id, torch.cat((peer.ids(), torch.tensor([BOS])))
    assert start == len(peer.ids())
    batch = tokenizer(lines[:6], return_tensors="pt", padding=True)
    target = torch.randint(4, 150, (6, 7))
    target[:, 0] = start
    source = own.read(lines[:6]).batch(range(6), "cpu")
    with torch.no_grad():
        theirs = model(**batch, decoder_input_ids=target).logits
        logits = own.model.logits(own.model(source.ids, source.lengths, mapping[target]))
    assert (logits[..., mapping[:-1]] - theirs[..., :-1]).abs().max() < 1e-5


def test_exports_to_other_runtimes(
    peer: Peer, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTranslate2 and onnxruntime give the tokens of greedy search; the marks of a source are in its pieces."""
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the package ctranslate2 is not installed")
    pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    own, chosen = harken.load(peer.own.folder), lines[:100:16]
    with torch.no_grad():
        own.model.output_bias[EOS] -= 6  # outputs are not empty
    results = own.translate(chosen, beam=1, max_length_factor=0.01, max_length_extra=20)
    expected = [result.token_ids for result in results]
    forced = forced_tokens(own.target)
    folder = export_model(own, "ctranslate2", tmp_path / "ct2")
    other = ctranslate2.Translator(str(folder), compute_type="float32", inter_threads=1, intra_threads=1)
    pieces = [own.source.pieces(ids) for ids in own.source.encode_all(chosen)]
    prefix = [own.target.pieces(forced)] * len(pieces) if forced else None
    limits = {"min_decoding_length": 0, "max_decoding_length": 20}
    found = other.translate_batch(pieces, target_prefix=prefix, beam_size=1, **limits)
    assert [result.hypotheses[0][:20] for result in found] == [own.target.pieces(ids) for ids in expected]
    assert max(map(len, expected)) > 3
    if peer.name in ("mbart50", "m2m", "nllb"):  # Argos Translate passes the pieces of the text alone
        package = export_model(own, "argos", tmp_path / "argos") / "translate-en_fr-1_0.argosmodel"
        shutil.unpack_archive(package, tmp_path / "installed", "zip")
        installed = tmp_path / "installed" / package.stem
        assert json.loads((installed / "metadata.json").read_text())["target_prefix"] == prefix[0][0]
        other = ctranslate2.Translator(
            str(installed / "model"), compute_type="float32", inter_threads=1, intra_threads=1
        )
        processor = sentencepiece.SentencePieceProcessor(model_file=str(installed / "sentencepiece.model"))
        texts = processor.encode(chosen, out_type=str)
        again = other.translate_batch(texts, target_prefix=prefix, beam_size=1, **limits)
        assert [result.hypotheses for result in again] == [result.hypotheses for result in found]
        decoded = [processor.decode_pieces(result.hypotheses[0][:20]) for result in again]
        assert decoded == [result.text for result in results]
    about = json.loads((export_model(own, "onnx", tmp_path / "onnx") / "harken.json").read_text())
    assert about["target_prefix"] == forced
    assert run_onnx(tmp_path / "onnx", about, own.source.encode(chosen[0]), 20) == expected[0]


def test_fine_tuning_reads_and_writes_the_same_tokens(peer: Peer, lines: list[str], tmp_path: Path) -> None:
    if peer.name not in ("bart", "m2m"):
        pytest.skip("the same code as of the others")
    (tmp_path / "own.tsv").write_text("".join(f"{line}\t{line}\n" for line in dict.fromkeys(lines[:60])))
    machine = ["train.workers=1", "train.threads=1", "train.precision=float32", "train.device=cpu"]
    overrides = [*machine, "train.max_steps=4", "train.validate_every=2", "train.batch_tokens=256"]
    folder = tmp_path / "mine"
    model = harken.train(tmp_path / "own.tsv", folder, start=peer.own.folder, overrides=overrides, progress=False)
    assert model.recipe.tokenizer == peer.own.recipe.tokenizer
    assert model.source.encode(lines[0]) == peer.own.source.encode(lines[0])
    assert model.translate(lines[0]).token_ids[0] == forced_tokens(peer.own.target)[0]
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in entries if entry["kind"] == "valid"]
    assert losses[-1] < losses[0]
