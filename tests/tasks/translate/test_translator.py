"""A model folder as an object: every way to ask for a translation, and what a broken folder says."""

import re
import shutil
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import harken
from harken.data.text.pairs import Alignment, Pair
from harken.data.tokenizers.base import save_tokenizers, train_tokenizers
from harken.errors import UserError
from harken.metrics import alignment_error_rate
from harken.models.build import build_model
from harken.recipe import load_recipe
from harken.tasks.translate.translator import LONGEST, Translator
from harken.training.weights import save_tensors

ENGLISH = ["the black cat sleeps", "a dog sees the old house", "the bird and the cat", "does the dog eat?", "yes"]
FRENCH = ["le chat noir dort", "un chien voit la vieille maison", "l'oiseau et le chat", "le chien mange-t-il ?", "oui"]
LAYERS, HEADS = 2, 2
SMALL = ["model.dropout=0.0", "train.max_steps=1", "search.max_length_factor=1.0", "search.max_length_extra=4"]
KINDS = {
    "transformer": ["phrasebook-transformer", f"model.layers={LAYERS}", "model.width=16", f"model.heads={HEADS}",
                    "model.feedforward=16", "tokenizer.kind=bpe", "tokenizer.size=60", "tokenizer.joint=true"],
    "attention": ["phrasebook-attention", "model.width=16", "model.embedding=8"],
    "rnn": ["phrasebook-rnn", "model.width=16", "model.embedding=8"],
}  # fmt: skip


def write_model(folder: Path, kind: str) -> Path:
    """A model folder with weights as they are drawn: what is tested here needs no training."""
    name, *overrides = KINDS[kind]
    recipe = load_recipe(name, [*overrides, *SMALL])
    source, target = train_tokenizers(recipe.tokenizer, ENGLISH * 3, FRENCH * 3)
    folder.mkdir()
    save_tokenizers(folder, source, target)
    torch.manual_seed(4)
    model = build_model(recipe.model, source.size, target.size)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)  # surer of itself, so that hypotheses differ clearly
    save_tensors(folder / "model.safetensors", dict(model.named_parameters()))
    (folder / "recipe.toml").write_text(recipe.to_toml())
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Translator]:
    home, made = tmp_path_factory.mktemp("models"), {}

    def of(kind: str) -> Translator:
        if kind not in made:
            made[kind] = harken.load(write_model(home / kind, kind), device="cpu")
            made[kind].threads.count = 1  # no trial of how many are quickest: machines are shared
        return made[kind]

    return of


every_kind = pytest.mark.parametrize("kind", list(KINDS))
attending = pytest.mark.parametrize("kind", ["transformer", "attention"])


def test_capitals_and_end_marks_do_not_change_the_words(models: Callable) -> None:
    model = models("attention")
    plain, written = model.translate("the black cat sleeps"), model.translate("The Black Cat Sleeps.")
    assert written.text == plain.text[0].upper() + plain.text[1:] + "." and written.score == plain.score
    assert written.source_words == ["The", "Black", "Cat", "Sleeps."] and written.unknown == []
    np.testing.assert_array_equal(written.attention, plain.attention)
    alone = model.translate("the zebra sleeps .")
    assert alone.unknown_words == ["zebra"] and alone.attention.shape[1] == 4 and not alone.attention[:, 3].any()
    assert "[zebra]" in alone.map().to_terminal(80, False) and "never seen" in alone.map().to_svg()
    forced = model.align("The cat.", "Le chat.")
    assert forced.text == "Le chat." and forced.score == model.align("the cat", "le chat").score


def test_layers_show_self_attention_of_both_sides(models: Callable) -> None:
    best = models("transformer").translate(ENGLISH[0], layers=True)
    source, target = len(best.source_pieces) + 1, len(best.target_pieces) + 1
    assert best.encoder_layers.shape == (LAYERS, HEADS, source, source)
    assert best.decoder_layers.shape == (LAYERS, HEADS, target, target)
    np.testing.assert_allclose(best.encoder_layers.sum(-1), 1, atol=1e-5)
    assert (np.triu(best.decoder_layers, 1) == 0).all()  # no piece looks ahead
    assert list(best.grid().kinds) == ["cross-attention", "encoder self-attention", "decoder self-attention"]
    assert models("attention").translate(ENGLISH[0], layers=True).encoder_layers is None


@every_kind
def test_one_text_and_many(models: Callable, kind: str) -> None:
    model = models(kind)
    one = model.translate(ENGLISH[0])
    many = model.translate(ENGLISH)
    assert isinstance(one, harken.Translation) and isinstance(many, list)
    assert one.source == ENGLISH[0] and str(one) == one.text
    assert (many[0].text, many[0].score) == (one.text, pytest.approx(one.score, abs=1e-4))
    assert one.score < 0


@every_kind
@pytest.mark.parametrize("beam", [1, 4])
def test_results_keep_their_order(models: Callable, kind: str, beam: int) -> None:
    model = models(kind)
    texts = ["the cat " * n + word for n, word in [(6, "sleeps"), (0, "yes"), (3, "dog"), (0, "house"), (9, "old")]]
    recipe = model.recipe
    search = recipe.search.model_copy(update={"batch_sentences": 2})  # several batches, sorted by length inside
    model.recipe = recipe.model_copy(update={"search": search})
    found = model.translate(texts, beam=beam)
    model.recipe = recipe
    assert [best.source for best in found] == texts
    for text, best in zip(texts, found, strict=True):
        alone = model.translate(text, beam=beam)
        assert (best.text, best.score) == (alone.text, pytest.approx(alone.score, abs=1e-4))


@every_kind
def test_empty_texts(models: Callable, kind: str) -> None:
    model = models(kind)
    assert (model.translate("").text, model.translate("").score) == ("", 0.0)
    assert model.translate([]) == []
    found = model.translate(["", ENGLISH[1], "   "])
    assert [found[0].text, found[2].text] == ["", ""]
    assert found[1].text == model.translate(ENGLISH[1]).text
    assert found[0].alignment() == []


@every_kind
@pytest.mark.parametrize("text", ["zyzzyva", "猫 が 寝る", "the zyzzyva 🐈 sleeps", "\u200b", "a\u00a0b", "x" * 500])
def test_unknown_words_are_no_error(models: Callable, kind: str, text: str) -> None:
    best = models(kind).translate(text)
    assert best.source == text
    assert isinstance(best.text, str) and best.score <= 0
    if best.attention is not None:
        assert best.attention.shape == (len(best.text.split()), len(text.split()))


@every_kind
def test_a_very_long_text(models: Callable, kind: str) -> None:
    model = models(kind)
    best = model.translate("the cat and the dog " * 60, beam=2)
    assert len(model.target.encode(best.text)) <= len(model.source.encode(best.source)) + 1 + 4
    if best.attention is not None:
        assert best.attention.shape[1] == 300


@every_kind
def test_nbest_is_sorted_and_begins_with_the_best(models: Callable, kind: str) -> None:
    model = models(kind)
    found = model.nbest(ENGLISH[:2], 3, beam=4, length_penalty=0.6)
    assert max(len(best) for best in found) == 3  # a row gives fewer where fewer come to their end
    for text, best in zip(ENGLISH, found, strict=False):
        scores = [one.score for one in best]
        assert scores == sorted(scores, reverse=True)
        assert all(one.source == text for one in best)
        assert best[0].text == model.translate(text, beam=4, length_penalty=0.6).text
    assert len(model.nbest(ENGLISH, 6, beam=2)[0]) >= 1  # the beam widens to what is asked for


@attending
def test_attention_is_words_by_words(models: Callable, kind: str) -> None:
    for best in models(kind).translate(ENGLISH):
        assert best.attention is not None
        assert best.attention.shape == (len(best.target_words), len(best.source_words))
        np.testing.assert_allclose(best.attention.sum(1), 1.0, atol=1e-5)
        links = best.alignment()
        assert [j for _, j in links] == list(range(len(best.target_words)))
        for i, j in links:
            assert best.attention[j, i] == best.attention[j].max()


@attending
def test_every_layer_and_head(models: Callable, kind: str) -> None:
    model = models(kind)
    best = model.translate(ENGLISH[1], layers=True)
    source, target = len(model.source.encode(ENGLISH[1])), len(best.target_pieces)
    layers, heads = (LAYERS, HEADS) if kind == "transformer" else (1, 1)
    assert best.layers is not None and best.layers.shape == (layers, heads, target + 1, source + 1)
    assert len(best.source_pieces) == source
    np.testing.assert_allclose(best.layers.sum(-1), 1.0, atol=1e-5)
    assert best.grid().layers.shape == best.layers.shape


@attending
def test_attention_of_a_batch_is_that_of_each_alone(models: Callable, kind: str) -> None:
    model = models(kind)
    for text, best in zip(ENGLISH, model.translate(ENGLISH), strict=True):
        np.testing.assert_allclose(best.attention, model.translate(text).attention, atol=1e-5)


@attending
def test_a_given_translation_is_aligned(models: Callable, kind: str) -> None:
    model = models(kind)
    given = model.align(ENGLISH[1], FRENCH[1], layers=True)
    assert (given.source, given.text) == (ENGLISH[1], FRENCH[1])
    assert given.attention.shape == (6, 6)
    np.testing.assert_allclose(given.attention.sum(1), 1.0, atol=1e-5)
    assert all(0 <= i < 6 and 0 <= j < 6 for i, j in given.alignment())
    assert given.layers.shape[2:] == (len(given.target_pieces) + 1, len(given.source_pieces) + 1)


@attending
def test_reading_its_own_translation_gives_its_own_attention(models: Callable, kind: str) -> None:
    model = models(kind)
    for best in model.translate(ENGLISH[:3]):
        if model.target.encode(best.text) and best.text:
            read = model.align(best.source, best.text)
            assert read.attention.shape == best.attention.shape


@every_kind
def test_the_score_of_a_given_translation_is_its_log_probability(models: Callable, kind: str) -> None:
    model = models(kind)
    ids, target = model.source.encode(ENGLISH[0]), model.target.encode(FRENCH[0])
    state, total = model.model.start(torch.tensor([[*ids, 3]]), torch.tensor([len(ids) + 1])), 0.0
    with torch.no_grad():
        for before, after in zip([2, *target], [*target, 3], strict=True):
            logits = model.model.step(torch.tensor([before]), state)
            total += float(torch.log_softmax(logits, -1)[0, after])
    assert model.align(ENGLISH[0], FRENCH[0]).score == pytest.approx(total / (len(target) + 1), rel=1e-4)


def test_aligning_nothing_is_refused(models: Callable) -> None:
    with pytest.raises(UserError, match="need at least one word"):
        models("transformer").align("the cat", " ")


@pytest.mark.parametrize(
    ("texts", "said"),
    [(5, "int was given where texts are expected"), (None, "NoneType was given"), (["one", 2], "text 2 is a int")],
)
def test_values_that_are_no_texts_are_refused(models: Callable, texts: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        models("transformer").translate(texts)


def test_a_model_without_attention(models: Callable) -> None:
    best = models("rnn").translate(ENGLISH[0], layers=True)
    assert best.attention is None and best.layers is None
    assert best.alignment() == []
    with pytest.raises(UserError, match="carries no attention; ask with attention=True a model that attends"):
        best.map()
    with pytest.raises(UserError, match="carries no layers"):
        best.grid()
    assert best._repr_html_() == f"<p>{best.text}</p>".replace("'", "&#x27;")
    assert models("rnn").align(ENGLISH[0], FRENCH[0]).attention is None


def test_attention_is_left_out_where_it_is_not_wanted(models: Callable) -> None:
    best = models("transformer").translate(ENGLISH[0], attention=False)
    assert best.attention is None
    assert best.text == models("transformer").translate(ENGLISH[0]).text


def test_a_notebook_shows_the_map(models: Callable) -> None:
    html = models("attention").translate(ENGLISH[0])._repr_html_()
    drawing = re.search(r'^<img alt="[^"]+" src="data:image/svg\+xml;base64,([^"]+)" style="max-width:100%">$', html)
    assert drawing and b"black" in b64decode(drawing[1]) and b64decode(drawing[1]).startswith(b"<svg")
    assert models("attention").translate("")._repr_html_() == "<p></p>"


def test_progress_counts_every_sentence(models: Callable) -> None:
    done: list[int] = []
    models("transformer").translate(ENGLISH, progress=done.append)
    assert sum(done) == len(ENGLISH)


@every_kind
def test_evaluation_with_gold_links(models: Callable, kind: str) -> None:
    model = models(kind)
    gold = Alignment(frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1), (2, 2)}))
    pairs = [Pair(one, other, gold) for one, other in zip(ENGLISH[:3], FRENCH[:3], strict=True)]
    result = model.evaluate(pairs, beam=2)
    assert result.hypotheses == [best.text for best in model.translate(ENGLISH[:3], beam=2)]
    if kind == "rnn":
        assert result.alignment_error is None
    else:
        links = [model.align(pair.source, pair.target).alignment() for pair in pairs]
        assert result.alignment_error == pytest.approx(alignment_error_rate(links, [gold] * 3))
    report = result.to_dict()
    assert report["sentences"] == 3 and report["bleu"] == result.bleu.value and "13a" in report["bleu_signature"]


def test_evaluation_of_texts(models: Callable) -> None:
    model = models("transformer")
    texts = [best.text for best in model.translate(ENGLISH)]
    assert model.evaluate(ENGLISH, texts).chrf.value == pytest.approx(100.0)
    assert model.evaluate(ENGLISH, texts).alignment_error is None
    with pytest.raises(UserError, match="5 sources do not match 4 references"):
        model.evaluate(ENGLISH, texts[:4])
    with pytest.raises(UserError, match="texts to evaluate need references"):
        model.evaluate(ENGLISH)


def refused(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        harken.load(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_broken_folders_are_refused_in_a_sentence(models: Callable, tmp_path: Path) -> None:
    whole = models("attention").folder

    def broken(name: str) -> Path:
        return Path(shutil.copytree(whole, tmp_path / name))

    assert "nothing has no recipe.toml, so it is no finished model folder" in refused(tmp_path / "nothing")
    folder = broken("unfinished")
    (folder / "model.safetensors").unlink()
    assert "has no model.safetensors, so it is no finished model folder; train one" in refused(folder)
    for name, keep in (("cut", 1000), ("header", 20), ("empty", 0)):
        folder = broken(name)
        (folder / "model.safetensors").write_bytes((whole / "model.safetensors").read_bytes()[:keep])
        assert "model.safetensors is damaged" in refused(folder)
    folder = broken("other recipe")
    text = (folder / "recipe.toml").read_text()
    (folder / "recipe.toml").write_text(text.replace("width = 16", "width = 32"))
    assert "does not match the recipe.toml beside it (first difference: " in refused(folder)
    folder = broken("deeper")
    (folder / "recipe.toml").write_text(text.replace("layers = 1", "layers = 2"))
    assert "does not match the recipe.toml beside it (first difference: " in refused(folder)
    folder = broken("no words")
    for path in folder.glob("*.json"):
        path.unlink()
    assert "check that it is a model folder" in refused(folder)
    folder = broken("no toml")
    (folder / "recipe.toml").write_text("[model\n")
    assert "recipe.toml, line 1" in refused(folder)


def test_a_model_folder_holds_no_pickle(models: Callable) -> None:
    for kind in KINDS:
        for path in models(kind).folder.iterdir():
            assert path.suffix in {".safetensors", ".toml", ".model", ".json"}
            assert not path.read_bytes().startswith((b"\x80\x02", b"\x80\x04", b"PK"))


def test_a_text_past_the_limit_is_cut_at_a_word_and_translated(tmp_path: Path) -> None:
    model = harken.load(write_model(tmp_path / "model", "rnn"))
    assert model.shorten("the cat " * 10) == "the cat " * 10
    text = "the cat " * 2000
    kept = model.shorten(text)
    assert text.startswith(kept) and kept.split()[-1] in ("the", "cat")
    assert 0 < len(model.source.encode(kept)) <= LONGEST < len(model.source.encode(text))


def test_a_recipe_too_large_for_its_weights_is_refused_before_it_is_built(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", "rnn")
    recipe = folder / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("width = 16", "width = 60000"))
    with pytest.raises(UserError, match="too small to hold them"):
        harken.load(folder)


def test_outputs_that_are_not_numbers_are_refused(tmp_path: Path) -> None:
    model = harken.load(write_model(tmp_path / "model", "rnn"))
    with torch.no_grad():
        for parameter in model.model.parameters():
            parameter.fill_(float("nan"))
    with pytest.raises(UserError, match="not finite"):
        model.translate("the black cat sleeps")


def test_weights_are_compared_once_in_a_call_of_many_batches(
    tiny_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from harken.kernels.weights import Snapshot

    model = harken.load(tiny_model("phrasebook-transformer"), device="cpu")
    model.prepare()
    model.translate(["the cat"])
    reads, read = list[int](), Snapshot.is_current
    monkeypatch.setattr(Snapshot, "is_current", lambda snapshot: reads.append(1) or read(snapshot))  # type: ignore[func-returns-value]
    for calls in (1, 2):
        model.translate(["the cat", "the dog", "a small bird"], batch_sentences=1)
        assert len(reads) == calls
