"""`harken embed` from text to neighbours, and what it says where it cannot."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harken.cli.app import app

pytest.importorskip("numba")

ANIMALS, TOOLS = "cat dog horse cow", "hammer saw nail drill"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    lines = []
    for number in range(300):
        for kind in (ANIMALS, TOOLS):
            words = kind.split()
            turn = number % 4
            lines.append(" ".join((words[turn:] + words[:turn])[: 2 + number % 3]))
    file.write_text("\n".join(lines))
    return file


def run(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["embed", *map(str, words)])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "words"
    options = ["--width", 12, "--epochs", 30, "--sample", 0, "--rate", 0.1, "--threads", 1, "--window", 2]
    code, _, said = run("train", text, "--out", out, *options)
    assert code == 0, said
    assert "8 different ones kept" in said and "Mean loss of each epoch" in said
    return out


def test_training_writes_a_folder_that_says_how_it_was_made(trained: Path, text: Path) -> None:
    card = json.loads((trained / "card.json").read_text())
    assert card["settings"]["epochs"] == 30
    assert card["files"] == [str(text)]
    assert len(card["losses"]) == 30 and card["losses"][-1] < card["losses"][0]
    arrays = ["counts.npy", "index.npy", "starts.npy", "vectors.npy"]
    assert sorted(path.name for path in trained.iterdir()) == ["card.json", *arrays, "words.txt"]
    assert card["settings"]["device"] == "cpu"


def test_neighbors_in_words_and_json(trained: Path) -> None:
    code, shown, _ = run("neighbors", trained, "cat", "-n", 3)
    assert code == 0
    rows = [line.split("\t") for line in shown.splitlines()]
    assert {word for word, _ in rows} == {"dog", "horse", "cow"}
    code, shown, _ = run("neighbors", trained, "cat", "saw", "--json", "-n", 3)
    found = json.loads(shown)
    assert {near["word"] for near in found["saw"]} == {"hammer", "nail", "drill"}
    assert found["cat"][0]["cosine"] == pytest.approx(float(rows[0][1]), abs=1e-4)


def test_an_analogy(trained: Path) -> None:
    code, shown, _ = run("analogy", trained, "cat", "dog", "hammer", "--json", "-n", 2)
    assert code == 0
    assert len(json.loads(shown)) == 2
    assert run("analogy", trained, "cat", "dog", "hammer", "-n", 2)[1].split("\t")[0] == json.loads(shown)[0]["word"]


def test_evaluation_with_coverage_and_baseline(trained: Path, tmp_path: Path) -> None:
    test = tmp_path / "pairs.txt"
    test.write_text("cat dog 9\ncat cow 8\ncat saw 1\nhammer dog 2\ncat bicycle 5\n")
    code, shown, _ = run("evaluate", trained, test)
    assert code == 0
    name, measure, score, known = shown.strip().split("\t")
    assert (name, measure, known) == ("pairs", "Spearman", "4 of 5 (80%)")
    assert float(score) > 0.7
    assert json.loads(run("evaluate", trained, test, "--json")[1])[0]["score"] == pytest.approx(float(score), abs=1e-4)
    assert "all alike" in run("evaluate", trained, test, "--one-hot")[1]


@pytest.mark.parametrize("form", ["word2vec-text", "word2vec-binary", "glove", "harken"])
def test_converting_there_and_back(trained: Path, tmp_path: Path, form: str) -> None:
    assert run("convert", trained, tmp_path / "there", "--format", form)[0] == 0
    assert run("convert", tmp_path / "there", tmp_path / "back")[0] == 0
    assert run("neighbors", tmp_path / "back", "cat")[1] == run("neighbors", trained, "cat")[1]


@pytest.mark.parametrize("options", [["--method", "cbow", "--tree"], ["--method", "glove"], ["--ngrams", "2-3"]])
def test_the_other_methods_train(text: Path, tmp_path: Path, options: list[str]) -> None:
    code, _, said = run("train", text, "--out", tmp_path / "out", "--width", 8, "--buckets", 50, *options)
    assert code == 0, said
    code, shown, _ = run("neighbors", tmp_path / "out", "cats" if "--ngrams" in options else "cat")
    assert code == 0 and shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "{text}", "--out", "{trained}"], "holds word vectors already"),
        (["train", "{text}", "--out", "new", "--method", "bow"], '--method is "bow"'),
        (["train", "{text}", "--out", "new", "--method", "glove", "--tree"], "--tree is for skipgram and cbow"),
        (["train", "{text}", "--out", "new", "--ngrams", "3"], '--ngrams is "3"'),
        (["train", "{text}", "--out", "new", "--min-count", "5000"], "lower min-count"),
        (["train", "{text}.nowhere", "--out", "new"], "does not exist"),
        (["neighbors", "{trained}", "kat"], "did you mean cat"),
        (["neighbors", "nowhere", "cat"], "nowhere does not exist"),
        (["convert", "{trained}", "new", "--format", "excel"], '--format is "excel"'),
        (["evaluate", "{trained}", "{text}"], "is not two words and a score"),
    ],
)
def test_mistakes_are_one_sentence(
    words: list[str], said: str, text: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, shown, message = run(*(word.format(text=text, trained=trained) for word in words))
    assert code == 2
    assert shown == ""
    assert said in message and message.startswith("error: ") and message.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_keeps_the_vectors(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harken.embeddings import training as spans

    real = spans.wait
    calls: list[int] = []

    def interrupted(*arguments: object, **options: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(spans, "wait", interrupted)
    monkeypatch.setattr(spans, "EVERY", 0.05)
    code, _, said = run("train", text, "--out", tmp_path / "out", "--epochs", 10_000_000, "--width", 8)
    assert code == 130
    assert "what was learnt so far" in said
    assert run("neighbors", tmp_path / "out", "cat")[0] == 0


def test_a_map_is_a_page(trained: Path, tmp_path: Path) -> None:
    code, _, said = run("plot", trained, "--out", tmp_path / "map.html", "--words", 8, "--clusters", 2)
    assert code == 0 and "8 words" in said
    assert '"words":["' in (tmp_path / "map.html").read_text()
    around = ["--around", "cat", "--words", 3, "--method", "pca", "--out", tmp_path / "near.html"]
    assert run("plot", trained, *around)[0] == 0
    assert '"cat"' in (tmp_path / "near.html").read_text() and '"tsne"' not in (tmp_path / "near.html").read_text()
    assert "does not exist" in run("plot", trained, "--out", tmp_path / "no" / "map.html")[2]
    assert '"umap" is unknown' in run("plot", trained, "--method", "umap", "--out", tmp_path / "map.html")[2]


def test_every_verb_has_examples() -> None:
    for verb in ("train", "neighbors", "analogy", "evaluate", "plot", "convert"):
        code, shown, _ = run(verb, "--help")
        assert code == 0 and f"harken embed {verb}" in shown
