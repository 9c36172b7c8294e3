"""The lexical shortlist: what it learns, its file, and that a search with it is a search over its tokens."""

from pathlib import Path

import numpy as np
import pytest

import harken
from harken.data.io.token_rows import ParallelIds, TokenRows
from harken.errors import UserError
from harken.tasks.translate.decoding.shortlist import FILE, SHORTLIST, ShortlistTable, learn_from


@pytest.fixture(scope="module", autouse=True)
def _few_frequent_tokens():
    """So that small vocabularies have tokens that are not allowed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harken.tasks.translate.decoding.shortlist.FREQUENT", 30)
        yield


def learnt():
    """Source token 10 + n means target token 20 + n; token 4 goes with everything."""
    draw = np.random.default_rng(0)
    words = [draw.choice(8, 4, replace=False) for _ in range(200)]
    sources, targets = [np.append(10 + row, 4) for row in words], [np.append(20 + row[::-1], 5) for row in words]
    return ShortlistTable.learn(sources, targets, (30, 40))


def test_the_best_candidate_is_the_translation():
    table = learnt()
    assert [table.candidates(10 + n, 1).tolist() for n in range(8)] == [[20 + n] for n in range(8)]
    assert table.candidates(29, 5).tolist() == []  # never seen
    assert table.frequent[0] == 5


def test_allowed_tokens_of_a_batch_are_those_of_each_source():
    table = learnt()
    table = ShortlistTable(table.offsets, table.targets, table.frequent[:1], table.size)
    found = table.allowed([[10, 11], [12]], 1, joint=False)
    assert [np.flatnonzero(row).tolist() for row in found] == [[5, 20, 21], [5, 22]]
    assert np.flatnonzero(table.allowed([[10, 29]], 1, joint=True)[0]).tolist() == [5, 10, 20, 29]


def test_a_file_gives_the_same_table(tmp_path: Path):
    table = learnt()
    SHORTLIST.save(table, tmp_path)
    loaded = SHORTLIST.load(tmp_path)
    for name in ("offsets", "targets", "frequent"):
        assert np.array_equal(getattr(loaded, name), getattr(table, name))
    assert loaded.size == table.size


def test_a_file_that_does_not_hold_together_is_refused(tmp_path: Path):
    table = learnt()
    SHORTLIST.save(ShortlistTable(table.offsets, table.targets + 30, table.frequent, table.size), tmp_path)
    with pytest.raises(UserError, match="does not belong to this model"):
        SHORTLIST.load(tmp_path)
    (tmp_path / FILE).write_bytes(b"nonsense")
    with pytest.raises(UserError, match="is damaged"):
        SHORTLIST.load(tmp_path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that was trained for some updates on a small corpus, without a shortlist."""
    place = tmp_path_factory.mktemp("model") / "run"
    recipe = {
        "task": "translate",
        "data": {"corpus": "phrasebook", "size": 400},
        "tokenizer": {"kind": "word", "joint": False},
        "model": {
            "architecture": "transformer",
            "layers": 1,
            "width": 16,
            "heads": 2,
            "feedforward": 16,
            "tied": "none",
        },
        "train": {"max_steps": 4, "batch_tokens": 256, "workers": 1, "validate_sentences": 4},
    }
    harken.train(recipe, place, progress=False)
    return place


def test_it_is_learnt_where_the_folder_has_none_and_then_loaded(folder: Path):
    model = harken.load(folder, device="cpu")
    assert not (folder / FILE).exists()
    first = model.translate("the black cat sleeps", shortlist=3).text
    assert (folder / FILE).is_file()
    again = harken.load(folder, device="cpu")
    assert again.translate("the black cat sleeps", shortlist=3).text == first
    row = model.read(["the black cat sleeps"]).ids
    allowed = model.shortlist.allowed(row, 3, joint=False)[0]
    assert allowed[model.target.encode(first)].all()
    assert 5 < int(allowed.sum()) < model.target.size


def test_required_phrases_and_prefixes_are_always_allowed(folder: Path):
    model = harken.load(folder, device="cpu")
    allowed = model.shortlist.allowed(model.read(["the cat sleeps"]).ids, 1, joint=False)[0]
    rare = [word for word in range(4, model.target.size) if not allowed[word]]
    word = model.target.decode(rare[:1])
    found = model.translate("the cat sleeps", shortlist=1, prefix=word, require=[word])
    assert found.text.split()[0] == word


def test_data_that_is_gone_is_one_sentence(folder: Path, tmp_path: Path):
    model = harken.load(folder, device="cpu")
    model.folder = tmp_path
    gone = {"corpus": None, "source": "gone.en", "target": "gone.fr"}
    model.recipe = model.recipe.model_copy(update={"data": model.recipe.data.model_copy(update=gone)})
    with pytest.raises(UserError, match=r"search.shortlist needs shortlist.safetensors.*gone.en"):
        model.translate("the cat", shortlist=2)


def test_evaluation_reports_the_agreement(folder: Path):
    from harken.tasks.registry import job_of

    model, job = harken.load(folder, device="cpu"), job_of("translate")
    pairs = job.held_out(model, "test")[:6]
    scores = job.score(model, pairs, lambda _: None, beam=2, shortlist=250)  # type: ignore[call-arg]
    found = {metric.key: metric.value for metric in scores.metrics}
    lines = [pair.source for pair in pairs]
    short, full = ([one.text for one in model.translate(lines, beam=2, shortlist=count)] for count in (250, 0))
    assert found["shortlist_agreement"] == 100 * sum(a == b for a, b in zip(short, full, strict=True)) / 6
    assert 0 < found["shortlist_tokens"] <= model.target.size


def test_training_with_a_shortlist_saves_it(tmp_path: Path, folder: Path):
    recipe = (folder / "recipe.toml").read_text(encoding="utf-8")
    (tmp_path / "recipe.toml").write_text(recipe.replace("shortlist = 0", "shortlist = 20"), encoding="utf-8")
    model = harken.train(tmp_path / "recipe.toml", tmp_path / "run", progress=False)
    assert (tmp_path / "run" / FILE).is_file()
    assert model.recipe.search.shortlist == 20
    assert np.array_equal(
        model.shortlist.allowed([[4, 5, 6]], 20, joint=False),
        harken.load(folder, device="cpu").shortlist.allowed([[4, 5, 6]], 20, joint=False),
    )


def test_of_a_large_corpus_a_part_is_learnt_from(monkeypatch: pytest.MonkeyPatch):
    rows = TokenRows.from_lists([[4 + n % 5, 9] for n in range(100)], eos=True)
    monkeypatch.setattr("harken.tasks.translate.decoding.shortlist.PAIRS_OF_TOKENS", 20 * 12)
    seen: list[int] = []
    monkeypatch.setattr(
        ShortlistTable, "learn", classmethod(lambda cls, sources, targets, sizes: seen.append(len(sources)))
    )
    learn_from(ParallelIds(rows, rows), (10, 10))
    assert seen == [20]
