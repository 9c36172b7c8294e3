"""GPT-2 in Hugging Face's format: the same pieces, logits and continuations as `transformers` gives."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from typer.testing import CliRunner

from harken.adopt import adopt
from harken.cli.app import app
from harken.data.tokenizers.tokens import EOS
from harken.errors import UserError

transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")
END = "<|endoftext|>"
WORDS = str.split(
    "the cat sleeps house lower lowest river Straße größer élève où niño вода человек дом νερό σπίτι שלום ماء पानी "
    "水 東京都 日本語 물 사람 ｗｉｄｅ ﬁne 12 3.5% don't (so) — … 😀"
)


class Pair(NamedTuple):
    """A model of `transformers` and what was adopted of it."""

    folder: Path
    model: Any
    tokenizer: Any
    own: Any
    rows: torch.Tensor  # (V,): the id of harken for every id of `transformers`


def random_lines(count: int, seed: int = 1) -> list[str]:
    chosen = random.Random(seed)
    return [
        "".join(word + chosen.choice([" ", " ", "  ", "\n", " \n\n\n"]) for word in chosen.choices(WORDS, k=8))
        for _ in range(count)
    ]


@pytest.fixture(scope="module", params=["tied", "untied"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(request.param, tmp_path_factory.mktemp("gpt2"))


def make_pair(kind: str, folder: Path) -> Pair:
    """A small GPT-2 with random weights."""
    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train_from_iterator(random_lines(300, seed=2), vocab_size=400, special_tokens=[END], show_progress=False)
    trained.save_model(str(folder))
    tokenizer = transformers.GPT2Tokenizer.from_pretrained(folder)
    if kind == "tied":  # as newer folders are: tokenizer.json, without the two older files
        tokenizer.save_pretrained(folder)
        assert (folder / "tokenizer.json").is_file()
        for name in ("vocab.json", "merges.txt"):
            (folder / name).unlink(missing_ok=True)
    size, end = trained.get_vocab_size(), trained.token_to_id(END)
    config = transformers.GPT2Config(
        vocab_size=size + 3, n_positions=48, n_embd=32, n_layer=3, n_head=4, bos_token_id=end, eos_token_id=end,
        tie_word_embeddings=kind == "tied",
    )  # fmt: skip
    torch.manual_seed(3)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.3)
    model.save_pretrained(folder)
    own = adopt(folder, folder / "adopted")
    others = iter(range(4, own.tokenizer.size))
    return Pair(
        folder, model, tokenizer, own,
        torch.tensor([EOS if row == end else next(others) for row in range(config.vocab_size)]),
    )  # fmt: skip


def test_the_same_pieces(pair: Pair) -> None:
    for text in random_lines(250):
        assert pair.own.ids(text).tolist() == [EOS, *pair.rows[pair.tokenizer(text).input_ids].tolist()]
        assert pair.own.tokenizer.decode(pair.own.ids(text)[1:]) == text


def test_the_same_logits_at_once_and_step_by_step(pair: Pair) -> None:
    ids = torch.randint(0, pair.model.config.vocab_size, (3, 40))
    network = pair.own.model
    with torch.no_grad():
        theirs = pair.model(ids).logits
        own = network.logits(network(pair.rows[ids])[0])
        state = network.start(3)
        steps = torch.stack([network.step(pair.rows[ids[:, time]], state) for time in range(40)], 1)
    assert theirs.abs().max() > 1
    assert (own[..., pair.rows] - theirs).abs().max() < 1e-5
    assert (steps - own).abs().max() < 1e-5
    assert own[..., :EOS].max() < own[..., EOS:].max() - 50


def test_the_same_continuations_and_scores(pair: Pair) -> None:
    end = pair.model.config.eos_token_id
    for text in ("the cat", "東京都 пода", "line\n\nnext"):
        ids = torch.tensor([[end, *pair.tokenizer(text).input_ids]])
        options = {"max_new_tokens": 15, "do_sample": False, "suppress_tokens": [end], "pad_token_id": end}
        expected = pair.rows[pair.model.generate(ids, attention_mask=torch.ones_like(ids), **options)[0]].tolist()
        whole = pair.own.tokenizer.decode(expected[1:])
        assert text + pair.own.samples(text, length=15, temperature=0)[0] == whole
        assert text + pair.own.generate(text, length=15, temperature=0) == whole.rstrip("\ufffd")
        with torch.no_grad():
            loss = pair.model(ids, labels=ids).loss
        assert pair.own.perplexity(text) == pytest.approx(float(loss.exp()), rel=1e-4)


def test_commands_work_on_an_adopted_model(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the cat sleeps\nwhere the river is\n" + "the cat " * 60, encoding="utf-8")
    folder, file = str(pair.own.folder), str(tmp_path / "in.txt")
    for arguments in (
        ["generate", folder, "the cat", "--length", "5"],
        ["generate", folder, "the cat", "--surprisal"],
        ["evaluate", folder, file],
        ["inspect", folder],
        ["inspect", folder, "--gradients", "--source", file],
    ):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, (arguments, result.output)
        assert result.output.strip()


def test_folders_that_are_refused(pair: Pair, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(pair.folder, tmp_path / "copy"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"scale_attn_by_inverse_layer_idx": True}))
    with pytest.raises(UserError, match="scale_attn_by_inverse_layer_idx"):
        adopt(folder, tmp_path / "out")
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "vocab.json"):
        (folder / name).unlink(missing_ok=True)
    with pytest.raises(UserError, match=r"vocab\.json is missing"):
        adopt(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
