"""T5 in Hugging Face's format: the same pieces, logits and translations as `transformers` gives."""

from __future__ import annotations

import io
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from typer.testing import CliRunner

from harken.adopt import adopt
from harken.cli.app import app
from harken.data.tokenizers.tokens import BOS, EOS
from harken.errors import UserError
from harken.export import export_model
from harken.models.build import build_model
from harken.models.config import TransformerConfig
from harken.models.transformer.packed import why_not_blocks
from harken.search.compiled import prepare
from harken.search.dispatch import COMPILED

sys.path.insert(0, str(Path(__file__).parents[1] / "export"))
from models import run_onnx

transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")
sentencepiece = pytest.importorskip("sentencepiece")
WORDS = str.split(
    "the cat sleeps house lower lowest river translate English German Straße größer élève où niño вода человек дом "
    "νερό σπίτι שלום בית ماء بيت पानी घर 水 東京都 日本語 물 사람 ｗｉｄｅ ﬁne 12 3.5% don't (so) — … 😀"
)
KINDS = {  # feed-forward layer, output layer
    "v1.0": {"feed_forward_proj": "relu"},
    "v1.1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "gated": {"feed_forward_proj": "gated-gelu"},
}


class Pair(NamedTuple):
    """A model of `transformers` and what was adopted of it."""

    folder: Path
    model: Any
    tokenizer: Any
    own: Any
    rows: torch.Tensor  # (V,): the id of harken for every id of `transformers`


def random_lines(count: int, seed: int = 1) -> list[str]:
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(WORDS, k=chosen.randint(1, 12))) for _ in range(count)]


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(request.param, tmp_path_factory.mktemp("t5"))


def make_pair(kind: str, folder: Path) -> Pair:
    """A small T5 with random weights; heads are not D / N wide, and there are rows without a piece."""
    pieces = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(random_lines(400, seed=2)), model_writer=pieces, vocab_size=220, hard_vocab_limit=False,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
    )  # fmt: skip
    (folder / "spiece.model").write_bytes(pieces.getvalue())
    size = sentencepiece.SentencePieceProcessor(model_proto=pieces.getvalue()).get_piece_size()
    config = transformers.T5Config(
        vocab_size=size + 100 + 12, d_model=32, d_kv=6, num_heads=4, d_ff=48, num_layers=3, num_decoder_layers=2,
        decoder_start_token_id=0, relative_attention_num_buckets=8, relative_attention_max_distance=12,
        **KINDS[kind],
    )  # fmt: skip
    torch.manual_seed(3)
    model = transformers.T5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.normal_(std=0.3 if "shared" in name or "bias" in name else 0.15)
            else:
                weight.uniform_(0.5, 1.5)
        if kind == "v1.1":  # with an output layer of its own
            model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) * 0.1)
        model.lm_head.weight[1] *= {"v1.0": 9, "v1.1": 4, "gated": 6}[kind]  # sentences end
    model.save_pretrained(folder)
    tokenizer = transformers.T5Tokenizer.from_pretrained(folder)
    own = adopt(folder, folder / "adopted")
    ids = {piece: index for index, piece in enumerate(own.source.pieces(range(own.source.size)))}
    rows = [f"<row_{row}>" for row in range(config.vocab_size)]
    for text, row in tokenizer.get_vocab().items():
        rows[row] = f"▁{text}" if text.startswith("<extra_id") else text
    return Pair(folder, model, tokenizer, own, torch.tensor([ids[text] for text in rows]))


def own_batch(pair: Pair, lines: list[str]) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """The batch of `transformers`, and the ids (B, S) and lengths (B,) of harken."""
    batch = pair.tokenizer(lines, return_tensors="pt", padding=True)
    return batch, pair.rows[batch.input_ids], batch.attention_mask.sum(1)


def test_the_same_pieces(pair: Pair) -> None:
    lines = random_lines(500)
    assert [pair.rows[ids].tolist() for ids in pair.tokenizer(lines).input_ids] == [
        [*ids, EOS] for ids in pair.own.source.encode_all(lines)
    ]
    text = "the <extra_id_0> cat <extra_id_31> sleeps"
    assert pair.rows[pair.tokenizer(text).input_ids].tolist() == [*pair.own.source.encode(text), EOS]
    assert pair.own.source.decode(pair.own.source.encode(text)) == text


def test_the_same_logits_padded_or_not(pair: Pair) -> None:
    batch, source, lengths = own_batch(pair, random_lines(7))
    target = torch.randint(3, pair.model.config.vocab_size, (7, 25))  # farther apart than the largest distance
    target[:, 0] = 0
    read = pair.rows[target]
    read[:, 0] = BOS
    network = pair.own.model
    with torch.no_grad():
        theirs = pair.model(**batch, decoder_input_ids=target).logits
        own = network.logits(network(source, lengths, read))
        alone = network.logits(network(source[:1, : lengths[0]], None, read[:1]))
        state = network.start(source, lengths, max_length=25)
        steps = torch.stack([network.step(read[:, time], state) for time in range(25)], 1)
    scale = theirs.abs().max()
    assert scale > 1
    assert (own[:, :, pair.rows] - theirs).abs().max() < 1e-5
    assert (steps - own)[..., 4:].abs().max() < 1e-5
    assert (alone - own[:1])[..., 4:].abs().max() < 1e-5


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_same_translations(pair: Pair, beam: int, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiled:
        prepare(pair.own.model)
        monkeypatch.setattr("harken.search.dispatch.BACKENDS", (COMPILED,))
    else:
        monkeypatch.setenv("HARKEN_KERNELS", "off")
    lines = random_lines(21, seed=5)
    batch, _, _ = own_batch(pair, lines)
    options = {"max_new_tokens": 30, "early_stopping": beam > 1, "length_penalty": 1.0, "bad_words_ids": [[0]]}
    theirs = pair.model.generate(**batch, num_beams=beam, **options)
    expected = [pair.rows[row[1:]].tolist() for row in theirs]
    settings = {"beam": beam, "stopping": "count", "length_penalty": 1.0}
    settings |= {"max_length_factor": 0.01, "max_length_extra": 30}
    for size in (1, 7):
        parts = [lines[first : first + size] for first in range(0, 21, size)]
        results = [result for part in parts for result in pair.own.translate(part, **settings)]
        ended = [row for row, ids in enumerate(expected) if EOS in ids]
        assert len(ended) > 2
        assert [results[row].text for row in ended] == [
            pair.own.target.decode(expected[row][: expected[row].index(EOS)]) for row in ended
        ]


@pytest.mark.parametrize(
    "options",
    [{"norm_kind": "rms"}, {"bias": False}, {"head_width": 6}, {"positions": "buckets", "buckets": 8}],
)
def test_packed_sentences_need_other_options(options: dict[str, Any]) -> None:
    model: Any = build_model(TransformerConfig(layers=2, width=8, heads=2, feedforward=12, **options), 20, 20)
    assert why_not_blocks(model) is not None


def test_commands_work_on_an_adopted_model(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the cat sleeps\n", encoding="utf-8")
    translated = CliRunner().invoke(app, ["translate", str(pair.own.folder), str(tmp_path / "in.txt")])
    assert translated.exit_code == 0 and translated.output.count("\n") == 1


def test_an_exported_model_is_that_of_before(pair: Pair, tmp_path: Path) -> None:
    folder = export_model(pair.own, "huggingface", tmp_path / "exported")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    lines = [*random_lines(7), "the <extra_id_0> cat <extra_id_31>"]
    batch, again = (one(lines, return_tensors="pt", padding=True) for one in (pair.tokenizer, tokenizer))
    assert torch.equal(batch.input_ids, again.input_ids)
    target = torch.randint(3, pair.model.config.vocab_size, (8, 25))
    target[:, 0] = 0
    with torch.no_grad():
        theirs, own = (one(**batch, decoder_input_ids=target).logits for one in (pair.model, model))
    assert (own - theirs).abs().max() < 1e-5
    returned = adopt(folder, tmp_path / "again")
    assert [one.text for one in returned.translate(lines)] == [one.text for one in pair.own.translate(lines)]


def test_exports_to_other_runtimes(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the package ctranslate2 is not installed")
    pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    own, chosen = pair.own, random_lines(8, seed=5)
    limits = {"max_length_factor": 0.01, "max_length_extra": 20}
    expected = [result.token_ids for result in own.translate(chosen, beam=1, **limits)]
    folder = export_model(own, "ctranslate2", tmp_path / "ct2")
    other = ctranslate2.Translator(str(folder), compute_type="float32", inter_threads=1, intra_threads=1)
    pieces = [own.source.pieces(ids) for ids in own.source.encode_all(chosen)]
    found = other.translate_batch(pieces, beam_size=1, min_decoding_length=0, max_decoding_length=20)
    assert [result.hypotheses[0] for result in found] == [own.target.pieces(ids) for ids in expected]
    about = json.loads((export_model(own, "onnx", tmp_path / "onnx") / "harken.json").read_text())
    for line, ids in zip(chosen[:3], expected, strict=False):
        assert run_onnx(tmp_path / "onnx", about, own.source.encode(line), 20) == ids


def test_int8(pair: Pair) -> None:
    lines = random_lines(5)
    own, fast = pair.own.translate(lines, beam=1), pair.own.translate(lines, beam=1, precision="int8")
    assert [one.score for one in fast] == pytest.approx([one.score for one in own], abs=0.5)
    assert [one.score for one in fast] != [one.score for one in own]


def test_folders_that_are_refused(pair: Pair, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(pair.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("adopted")))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"feed_forward_proj": "gated-tanh"}))
    with pytest.raises(UserError, match="gated-tanh"):
        adopt(folder, tmp_path / "out")
    (folder / "config.json").write_text(json.dumps(config))
    transformers.T5EncoderModel.from_pretrained(folder).save_pretrained(folder)
    with pytest.raises(UserError, match="no weights of a decoder"):
        adopt(folder, tmp_path / "out")
    (folder / "spiece.model").unlink()
    with pytest.raises(UserError, match=r"spiece\.model is missing"):
        adopt(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_own_recipe_trains_with_the_options_of_t5(tmp_path: Path) -> None:
    from harken.api import load, train

    recipe = {
        "task": "translate",
        "data": {"corpus": "phrasebook", "size": 200},
        "tokenizer": {"size": 300},
        "model": {
            "architecture": "transformer", "layers": 2, "width": 16, "heads": 2, "head_width": 6, "feedforward": 24,
            "norm_kind": "rms", "positions": "buckets", "buckets": 8, "max_distance": 20, "activation": "geglu",
            "attention": "dot", "bias": False, "tied": "embeddings",
        },
        "train": {"max_steps": 3, "average": 0.0, "validate_every": 3, "validate_sentences": 20},
    }  # fmt: skip
    trained = train(recipe, tmp_path / "run")
    table = trained.model.decoder.stack.blocks[0].attention.positions.bias
    assert table is trained.model.decoder.stack.blocks[1].attention.positions.bias and table.abs().max() > 0
    lines = ["the black cat sleeps", "the dog", "a small house"]
    results, again = trained.translate(lines), load(tmp_path / "run").translate(lines)
    assert [result.text for result in again] == [result.text for result in results]
    assert [result.score for result in again] == [result.score for result in results]
