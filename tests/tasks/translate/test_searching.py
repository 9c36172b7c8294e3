"""Options of the search as a user of a translator meets them: words in, words out."""

import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import harken
from harken.data.tokenizers.base import save_tokenizers
from harken.errors import UserError
from harken.models.build import build_language
from harken.recipe import load_recipe
from harken.tasks.translate.decoding.glossary import Match, Term, find_terms, joining_tokens, read_glossary
from harken.tasks.translate.decoding.searching import search, utilities
from harken.tasks.translate.translator import Translator
from harken.training.weights import load_tensors, save_tensors

sys.path.insert(0, str(Path(__file__).parent))
from test_translator import ENGLISH, FRENCH, write_model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Translator]:
    home, made = tmp_path_factory.mktemp("models"), {}

    def of(kind: str) -> Translator:
        if kind not in made:
            made[kind] = harken.load(write_model(home / kind, kind), device="cpu")
            made[kind].threads.count = 1
        return made[kind]

    return of


every_kind = pytest.mark.parametrize("kind", ["transformer", "attention", "rnn"])


def test_scores_add_up_token_by_token(models: Callable) -> None:
    model = models("transformer")
    first, second = model.score(ENGLISH[:2], FRENCH[:2])
    assert first.pieces[-1] == "</s>"
    assert len(first.pieces) == len(first.token_scores) == len(model.target.encode(FRENCH[0])) + 1
    assert first.score == pytest.approx(first.log_probability / len(first.token_scores))
    assert first.perplexity == pytest.approx(math.exp(-first.score))
    assert model.score(ENGLISH[1:2], FRENCH[1:2])[0].token_scores == pytest.approx(second.token_scores, abs=1e-5)
    with pytest.raises(UserError, match="2 sources and 1 targets"):
        model.score(ENGLISH[:2], FRENCH[:1])
    with pytest.raises(UserError, match="pair 1 has an empty side"):
        model.score(["the cat"], [" "])


@every_kind
def test_a_prefix_begins_every_translation(models: Callable, kind: str) -> None:
    model = models(kind)
    for best in model.translate(ENGLISH, prefix="le chat", beam=3):
        assert best.text.startswith("le chat")
    each = ["le chat", "", "l'oiseau", "", "oui"]
    free = model.translate(ENGLISH, beam=3)
    for best, prefix, other in zip(model.translate(ENGLISH, prefix=each, beam=3), each, free, strict=True):
        assert best.text.startswith(prefix)
        assert prefix or best.text == other.text
    with pytest.raises(UserError, match="the prefix has"):
        model.translate("yes", prefix=" ".join(FRENCH * 3))


@every_kind
def test_required_phrases_and_glossaries_are_in_the_translation(models: Callable, kind: str, tmp_path: Path) -> None:
    model = models(kind)
    assert "chien" in model.translate(ENGLISH[0], require=["chien"], beam=6).text
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("# terms\nblack cat\tchat noir\n\nbird\toiseau\n", encoding="utf-8")
    found = model.translate(ENGLISH, glossary=str(glossary), beam=8)
    free = model.translate(ENGLISH, beam=8)
    assert "chat noir" in found[0].text
    assert "oiseau" in found[2].text.lower()
    assert [found[row].text for row in (1, 3, 4)] == [free[row].text for row in (1, 3, 4)]
    with pytest.raises(UserError, match="cannot write"):
        models("attention").translate(ENGLISH[0], require=["xylophone"])


def test_terms_match_words_whatever_their_case_unless_they_have_capitals(tmp_path: Path) -> None:
    terms = [Term("us", "nous"), Term("US", "États-Unis"), Term("the cat", "le chat")]
    assert find_terms("The  cat sees us", terms) == [Match(0, 2, ["le chat", "Le chat"]), Match(3, 4, ["nous"])]
    assert find_terms("the US bus", terms) == [Match(1, 2, ["nous", "Nous"])]  # the first of equal length; not in bus
    twice = find_terms("us, well-known, and us", terms)
    assert [(match.first, match.last) for match in twice] == [(0, 1), (5, 6)]  # punctuation counts, hyphens join
    broken = tmp_path / "broken.tsv"
    broken.write_text("cat chat\n")
    with pytest.raises(UserError, match=r"broken\.tsv, line 1: a glossary line is"):
        read_glossary(broken)


def test_pieces_that_continue_a_word_are_known(models: Callable) -> None:
    target = models("transformer").target
    joins = joining_tokens(target)
    pieces = target.pieces(range(target.size))
    assert joins is not None
    for piece, joining in zip(pieces[4:], joins.tolist()[4:], strict=True):
        assert joining == (not piece.startswith("▁") and piece[0].isalnum())
    assert joining_tokens(models("attention").target) is None


def test_banned_words_are_not_written(models: Callable) -> None:
    model = models("attention")
    word = model.translate(ENGLISH[1], beam=4).text.split()[0]
    assert word not in model.translate(ENGLISH[1], beam=4, banned=[word]).text.split()


def test_an_ensemble_of_two_equal_models_is_that_model(models: Callable) -> None:
    model = models("transformer")
    again = model.nbest(ENGLISH, 2, beam=4, ensemble=[model], weights=[3.0, 1.0])
    for some, other in zip(again, model.nbest(ENGLISH, 2, beam=4), strict=True):
        assert [one.text for one in some] == [one.text for one in other]
        assert [one.score for one in some] == pytest.approx([one.score for one in other], rel=1e-4)
    with pytest.raises(UserError, match="has another source vocabulary"):
        model.translate("yes", ensemble=[models("attention")])


def test_a_list_of_folders_is_an_ensemble(models: Callable, tmp_path: Path) -> None:
    first = models("transformer")
    second = tmp_path / "second"
    shutil.copytree(first.folder, second)
    tensors, _ = load_tensors(second / "model.safetensors")
    save_tensors(second / "model.safetensors", {name: value * 0.9 for name, value in tensors.items()})
    other = harken.load(second, device="cpu")
    together = harken.load([first.folder, second], device="cpu", weights=[3, 1])
    expected = first.translate(ENGLISH, beam=3, ensemble=[other], weights=[3, 1])
    results = together.translate(ENGLISH, beam=3)
    assert [best.text for best in results] == [best.text for best in expected]
    assert [best.score for best in results] == pytest.approx([best.score for best in expected])
    assert [best.score for best in results] != pytest.approx([best.score for best in first.translate(ENGLISH, beam=3)])
    assert together.evaluate(ENGLISH, ENGLISH).hypotheses and not first.ensemble
    assert harken.load([first.folder], device="cpu").translate("yes").text == first.translate("yes").text
    for folders, options, reason in (
        ([first.folder, models("attention").folder], {}, "has another source vocabulary"),
        ([first.folder, second], {"weights": [1.0]}, "has 1 weights"),
        ([], {}, "the list of model folders is empty"),
        (first.folder, {"weights": [1.0]}, "weights= is for an ensemble"),
    ):
        with pytest.raises(UserError, match=reason):
            harken.load(folders, device="cpu", **options)


def test_samples_depend_on_the_seed_and_the_line(models: Callable) -> None:
    model = models("attention")
    options = {"sample": True, "temperature": 1.5, "seed": 4}
    first = [best.text for best in model.translate(ENGLISH, **options)]
    assert [best.text for best in model.translate(ENGLISH, **options)] == first
    recipe = model.recipe
    search = recipe.search.model_copy(update={"batch_sentences": 2})
    model.recipe = recipe.model_copy(update={"search": search})
    try:
        assert [best.text for best in model.translate(ENGLISH, **options)] == first
    finally:
        model.recipe = recipe
    assert [best.text for best in model.translate(ENGLISH, **{**options, "seed": 5})] != first


@pytest.mark.parametrize("metric", ["chrf", "bleu"])
def test_minimum_bayes_risk_chooses_what_is_most_like_the_others(models: Callable, metric: str) -> None:
    model = models("attention")
    options = {"sample": True, "seed": 2, "temperature": 1.3, "mbr_candidates": 8}
    best = model.translate(ENGLISH[0], mbr=metric, **options)
    texts = [one.text for one in model.nbest([ENGLISH[0]], 8, sample=True, seed=2, temperature=1.3)[0]]
    utility = utilities(texts, metric)
    assert best.text == texts[int(np.argmax(utility))] or utility[texts.index(best.text)] == pytest.approx(
        utility.max()
    )
    assert best.score == pytest.approx(utility.max())


def test_options_that_do_not_fit_are_refused(models: Callable) -> None:
    model = models("rnn")
    with pytest.raises(UserError, match="no option of the search called 'beem'"):
        model.translate("yes", beem=3)
    with pytest.raises(UserError, match="coverage_penalty needs attention"):
        model.translate("yes", coverage_penalty=0.2, beam=2)
    with pytest.raises(UserError, match=r"search\.lm_weight needs search\.language_model"):
        model.translate("yes", lm_weight=0.2)
    with pytest.raises(UserError, match="which is no model folder"):
        model.translate("yes", language_model="nowhere", lm_weight=0.2)
    with pytest.raises(UserError, match="need beam search"):
        model.translate("yes", require=["chat"], sample=True)


def test_coverage_changes_the_rank_alone(models: Callable) -> None:
    model = models("attention")
    short = {"max_length_factor": 0.1, "max_length_extra": 2}  # too short to cover all words
    plain, covered = (model.nbest(ENGLISH[:2], 3, beam=3, coverage_penalty=weight, **short) for weight in (0.0, 0.4))
    for some, other in zip(plain, covered, strict=True):
        assert max(one.score for one in other) < max(one.score for one in some)


def test_a_cancelled_search_ends_with_what_it_has(models: Callable) -> None:
    model = models("transformer")
    short = model.translate(ENGLISH[1], beam=4, cancelled=lambda: True)
    assert len(model.target.encode(short.text)) <= 2
    torch.manual_seed(0)


@every_kind
@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 4}, {"sample": True, "seed": 3}])
def test_the_parts_of_a_stream_are_the_translation(models: Callable, kind: str, options: dict) -> None:
    model = models(kind)
    for text in ENGLISH[:3]:
        assert "".join(model.stream(text, **options)) == model.translate(text, **options).text
    assert list(model.stream(" ")) == []
    with pytest.raises(UserError, match="nothing can be streamed"):
        list(model.stream("yes", mbr="chrf"))


def test_a_stream_that_is_not_read_to_its_end_cancels_the_search(models: Callable) -> None:
    parts = models("attention").stream(ENGLISH[1], beam=1, max_length_extra=500, min_length=400)
    next(parts)
    parts.close()  # waits for the thread, which ends at its next step


@every_kind
def test_the_beam_is_drawn_with_the_terms_of_each_score(models: Callable, kind: str, tmp_path: Path) -> None:
    model = models(kind)
    options = {"beam": 3, "max_length_factor": 0.5, "max_length_extra": 2}
    picture = model.beam(ENGLISH[0], **options)
    best = model.translate(ENGLISH[0], **options)
    name, terms = picture.hypotheses[0]
    assert name == best.text
    assert terms["rank"] == pytest.approx(best.score, rel=1e-4)
    assert terms["log P"] / terms["divided by"] == pytest.approx(best.score, rel=1e-4)
    assert best.text in picture.to_terminal(width=200, color=False)
    for ending in ("html", "svg", "png"):
        assert picture.save(tmp_path / f"beam.{ending}").stat().st_size > 2000
    with pytest.raises(UserError, match="leave sampling"):
        model.beam(ENGLISH[0], sample=True)
    with pytest.raises(UserError, match="no words"):
        model.beam(" ")


@every_kind
def test_alternatives_begin_differently_after_the_prefix(models: Callable, kind: str) -> None:
    model = models(kind)
    found = model.alternatives(ENGLISH[0], "le", 4, beam=2)
    assert len(found) >= 3
    assert all(one.text.startswith("le") for one in found)
    ids = [model.target.encode("le")] * len(found)
    assert len({tuple(model.target.encode(one.text)[: len(ids[0]) + 1]) for one in found}) >= len(found) - 1


def test_a_second_model_reranks_the_list(models: Callable) -> None:
    model, second = models("transformer"), models("attention")
    plain = model.nbest([ENGLISH[0]], 4, beam=4)[0]
    ours = model.nbest([ENGLISH[0]], 4, beam=4, rerank=str(second.folder), rerank_weight=0.0)[0]
    assert [one.text for one in ours] == [one.text for one in plain]
    for reverse in (False, True):
        theirs = model.nbest(
            [ENGLISH[0]], 4, beam=4, rerank=str(second.folder), rerank_weight=1.0, rerank_reversed=reverse
        )[0]
        texts = [" ".join(reversed(one.text.split())) if reverse else one.text for one in theirs]
        right = [one.score for one in second.score([ENGLISH[0]] * len(texts), texts)]
        assert [one.score for one in theirs] == pytest.approx(right, rel=1e-4)
        assert right == sorted(right, reverse=True)
    with pytest.raises(UserError, match="keep one of them"):
        model.translate("yes", rerank=str(second.folder), mbr="chrf")


def test_a_language_model_of_the_target_is_fused(models: Callable, tmp_path: Path) -> None:
    model = models("attention")
    recipe = load_recipe("phrasebook-language", ["model.width=8", "model.embedding=8", "train.max_steps=1"])
    folder = tmp_path / "language"
    folder.mkdir()
    save_tokenizers(folder, model.target, model.target)
    torch.manual_seed(2)
    network = build_language(recipe.model, model.target.size)
    with torch.no_grad():
        network.output_bias[model.target.encode("chien")[0]] += 9.0  # it likes dogs
    save_tensors(folder / "model.safetensors", dict(network.named_parameters()))
    (folder / "recipe.toml").write_text(recipe.to_toml())
    options = {"language_model": str(folder), "beam": 3}
    plain = model.translate(ENGLISH[0], beam=3).text
    assert model.translate(ENGLISH[0], **options).text == plain  # a weight of 0
    assert model.translate(ENGLISH[0], **options, lm_weight=3.0).text.split().count("chien") > plain.count("chien")
    with pytest.raises(UserError, match="another vocabulary"):
        models("transformer").translate("yes", **options, lm_weight=1.0)
    with pytest.raises(UserError, match="a model of the task 'translate'"):
        model.translate("yes", language_model=str(model.folder), lm_weight=1.0)


@every_kind
def test_a_batch_of_64_gives_what_each_text_gives_alone(models: Callable, kind: str) -> None:
    model = models(kind)
    texts = [ENGLISH[number % len(ENGLISH)] for number in range(64)]
    for options in ({"beam": 1}, {"beam": 3}):
        alone = {text: model.translate(text, **options).text for text in ENGLISH}
        assert [best.text for best in model.translate(texts, **options)] == [alone[text] for text in texts]


@every_kind
@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 4},
        {"beam": 4, "diversity_groups": 2},
        {"beam": 3, "no_repeat_ngram": 2, "repetition_penalty": 1.3},
        {"sample": True, "top_k": 9},
    ],
)
def test_every_token_has_the_log_probability_of_forced_decoding(models: Callable, kind: str, options: dict) -> None:
    model = models(kind)
    sources, request = model.read(ENGLISH), model.request(1, **options)
    found = search(request, sources, range(len(ENGLISH)), 1)
    source, lengths, _ = sources.batch(range(len(ENGLISH)), "cpu")
    for row, (best,) in enumerate(found):
        ids = [*best.tokens, *[3] * best.finished]
        with torch.no_grad():
            hidden = model.model(source[row : row + 1], lengths[row : row + 1], torch.tensor([[2, *ids[:-1]]]))
            scores = model.model.logits(hidden)[0].log_softmax(-1)
        right = [float(scores[at, token]) for at, token in enumerate(ids)]
        assert best.token_scores == pytest.approx(right, abs=1e-4)
        assert best.score == pytest.approx(sum(right), abs=1e-3)
