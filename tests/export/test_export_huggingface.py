"""Hugging Face's format: the pieces, logits and hypotheses of `transformers` are those of harken."""

import random
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from harken.adopt import adopt
from harken.adopt.pieces import with_spaces
from harken.cli.app import app
from harken.data.tokenizers.subword import SubwordTokenizer
from harken.data.tokenizers.tokens import BOS, EOS, PAD, SPECIALS, UNK
from harken.errors import UserError
from harken.export import export_model

sys.path.insert(0, str(Path(__file__).parent))
from models import ENGLISH, RECURRENT, TRANSFORMER, make_model

transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")
sentencepiece = pytest.importorskip("sentencepiece")

TIED = [*TRANSFORMER, "model.tied=all"]
CASES = {
    "pegasus": ["model.norm=pre", "model.activation=relu"],
    "marian": ["model.norm=post", "model.activation=gelu"],
}
END = 6.0  # added to the bias of EOS
SCRIPTS = ["abcé", "абвг", "αβγδ", "ابتث", "אבגד", "कखगघ", "中文字典", "かなカナ", "한국어로", "กขคง"]
SPACES = [" ", "  ", "\t", "\u00a0", "\u3000", "\u202f"]


def lines_of_scripts(count: int) -> list[str]:
    draw = random.Random(3)

    def word(letters: str) -> str:
        return "".join(draw.choices(letters, k=draw.randint(1, 6)))

    return [
        draw.choice(SPACES).join(word(draw.choice(SCRIPTS)) for _ in range(draw.randint(1, 8))) for _ in range(count)
    ]


@pytest.mark.parametrize("case", CASES)
def test_pieces_logits_and_hypotheses(case: str, tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", TIED, "model.output_bias=true", *CASES[case])
    with torch.no_grad():
        model.model.output_bias[EOS] += END  # outputs end, after different numbers of tokens
    export_model(model, "huggingface", tmp_path / "hf")
    other = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert other.config.model_type == case
    rows = torch.tensor([EOS, UNK, *range(len(SPECIALS), model.source.size), BOS])  # harken's ids
    for line in [*ENGLISH, *lines_of_scripts(500)]:
        assert rows[tokenizer(line).input_ids].tolist() == [*model.source.encode(line), EOS]
    batch = tokenizer(ENGLISH, return_tensors="pt", padding=True)
    target = torch.randint(2, len(rows) - 1, (len(ENGLISH), 7))
    target[:, 0] = other.config.decoder_start_token_id
    source = torch.where(batch.attention_mask.bool(), rows[batch.input_ids], torch.tensor(PAD))
    with torch.no_grad():
        theirs = other(**batch, decoder_input_ids=target).logits
        own = model.model.logits(model.model(source, batch.attention_mask.sum(1), rows[target]))
    assert theirs.abs().max() > 1
    assert (own[:, :, rows] - theirs).abs().max() < 1e-5 * theirs.abs().max()
    limits = {"stopping": "count", "length_penalty": 1.0, "max_length_factor": 0.01, "max_length_extra": 20}
    for beam in (1, 4):
        options = {"num_beams": beam, "max_new_tokens": 20} | ({"early_stopping": True} if beam > 1 else {})
        rows_of_ids = other.generate(**batch, length_penalty=1.0, **options)
        texts = tokenizer.batch_decode(rows_of_ids, skip_special_tokens=True)
        ended = [bool((row == other.config.eos_token_id).any()) for row in rows_of_ids]
        results = model.translate(ENGLISH, beam=beam, **limits)
        same = [own.text == text for own, text, end in zip(results, texts, ended, strict=True) if end or beam == 1]
        assert all(same) and len(same) >= 2, (ended, texts)
    again = adopt(tmp_path / "hf", tmp_path / "again")
    assert [one.text for one in again.translate(ENGLISH)] == [one.text for one in model.translate(ENGLISH)]


def test_the_command(tmp_path: Path) -> None:
    make_model(tmp_path / "model", TIED)
    arguments = ["export", str(tmp_path / "model"), "--format", "huggingface", "--out", str(tmp_path / "hf")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "hf").iterdir()} == {
        *("README.md", "config.json", "generation_config.json", "model.safetensors"),
        *("source.spm", "target.spm", "tokenizer_config.json", "vocab.json"),
    }


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_rules_of_spaces_are_those_of_harken(kind: str) -> None:
    lines = lines_of_scripts(500)
    tokenizer = SubwordTokenizer.train(kind, lines, 300)
    plain, exported = sentencepiece.SentencePieceProcessor(), sentencepiece.SentencePieceProcessor()
    plain.LoadFromSerializedProto(tokenizer.model)
    exported.LoadFromSerializedProto(with_spaces(tokenizer.model))
    assert exported.encode(lines) == tokenizer.encode_all(lines) != plain.encode(lines)
    assert exported.encode("a ▁b") == tokenizer.encode("a ▁b")


@pytest.mark.parametrize(
    ("base", "overrides", "reason"),
    [
        (TIED, ["model.positions=rotary"], "has no form for model.positions other than 'sinusoidal'"),
        (TIED, ["model.positions=relative"], "has no form for model.positions = 'relative'"),
        (TIED, ["model.activation=swiglu"], "has no form for model.activation = 'swiglu'"),
        (TIED, ["model.attention=dot"], "has no form for model.attention = 'dot'"),
        (TIED, ["model.scale_embeddings=false"], "has no form for model.scale_embeddings = false"),
        (TIED, ["model.embedding_norm=true"], "has no form for model.embedding_norm"),
        (TIED, ["model.norm_kind=rms"], "has no form for model.norm_kind"),
        (TIED, ["model.bias=false"], "has no form for model.bias"),
        (TIED, ["model.head_width=4"], "has no form for model.head_width"),
        (TIED, ["model.positions=buckets", "model.max_distance=64"], "has no form for model.positions"),
        (TIED, ["model.activation=geglu"], "has no form for model.activation"),
        (TIED, ["model.experts=2"], "has no form for model.experts"),
        (TIED, ["model.decoder_mixer=ssru"], "has no form for model.decoder_mixer = 'ssru'"),
        (TRANSFORMER, ["model.tied=output"], 'train with tokenizer.joint = true, model.tied = "all"'),
        (TIED, ["tokenizer.kind=word"], "needs SentencePiece"),
        (RECURRENT, [], "has no form for RecurrentEncoder"),
    ],
)
def test_what_is_refused(base: list[str], overrides: list[str], reason: str, tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", base, *overrides)
    with pytest.raises(UserError, match=reason):
        export_model(model, "huggingface", tmp_path / "hf")
    assert not (tmp_path / "hf").exists()
