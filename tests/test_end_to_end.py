"""The whole way through the command line, on a model trained once: data in every form, verbs, and a user's mistakes."""

import gzip
import io
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import harken
from harken.cli.app import app
from harken.data.text.pairs import Alignment

FRENCH = {"the": "le", "a": "un", "cat": "chat", "dog": "chien", "old": "vieux", "small": "petit", "sees": "voit",
          "eats": "mange", "fish": "poisson", "bird": "oiseau"}  # fmt: skip
MODEL = """
[model]
architecture = "transformer"
layers = 1
width = 32
heads = 2
feedforward = 64
dropout = 0.0
[train]
max_steps = {steps}
batch_tokens = 512
learning_rate = 1e-2
schedule = "cosine"
warmup_steps = 20
validate_every = {steps}
average = 0.9
precision = "float32"
device = "cpu"
workers = 1
threads = 1
"""
STEPS = 500


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Word for word, in the same order: what a small model learns in seconds."""
    numbers = random.Random(seed)

    def noun() -> list[str]:
        adjective = numbers.choice([[], ["old"], ["small"]])
        return [numbers.choice(["the", "a"]), *adjective, numbers.choice(["cat", "dog", "fish", "bird"])]

    found = [[*noun(), numbers.choice(["sees", "eats"]), *noun()] for _ in range(count)]
    return [(" ".join(words), " ".join(FRENCH[word] for word in words)) for words in found]


def write_files(folder: Path, name: str, pairs: Sequence[tuple[str, str]], ending: str = "") -> None:
    for language, side in (("en", 0), ("fr", 1)):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        packed = gzip.compress(text.encode()) if ending else text.encode()
        (folder / f"{name}.{language}{ending}").write_bytes(packed)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data in all forms, a recipe, and the model in `model`."""
    folder = tmp_path_factory.mktemp("home")
    train, test = sentences(600, 1), sentences(30, 2)
    write_files(folder, "train", train)
    write_files(folder, "valid", sentences(20, 3))
    write_files(folder, "test", test)
    data = (
        f'[data]\nsource = "{folder}/train.en"\ntarget = "{folder}/train.fr"\n'
        f'valid = {{ source = "{folder}/valid.en", target = "{folder}/valid.fr" }}\n'
        f'test = {{ source = "{folder}/test.en", target = "{folder}/test.fr" }}\n'
    )
    (folder / "recipe.toml").write_text(f'{data}[tokenizer]\nkind = "bpe"\nsize = 90\n{MODEL.format(steps=STEPS)}')
    result = CliRunner().invoke(app, ["train", str(folder / "recipe.toml"), "--out", str(folder / "model")])
    assert result.exit_code == 0, result.output
    return folder


def run(*arguments: Any, stdin: str | None = None, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == code, result.output
    return result


def test_training_says_what_it_does(home: Path) -> None:
    lines = [json.loads(line) for line in (home / "model" / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["kind"] == "valid" and lines[-1]["step"] == STEPS
    assert lines[-1]["bleu"] > 80  # or nothing below would mean much
    assert {path.name for path in (home / "model").iterdir()} == {
        "model.safetensors", "recipe.toml", "tokenizer.model", "metrics.jsonl", "card.md", "digests.json",
        "checkpoint.previous.safetensors", "checkpoint.safetensors", "data.json", "seen_words.txt",
    }  # fmt: skip


def test_translate_from_stdin(home: Path) -> None:
    text = "the old cat sees a dog\n\na bird eats the small fish\n"
    lines = run("translate", home / "model", stdin=text).stdout.splitlines()
    assert lines == ["le vieux chat voit un chien", "", "un oiseau mange le petit poisson"]


def test_translate_a_file_with_scores(home: Path) -> None:
    lines = run("translate", home / "model", home / "test.en", "--scores").stdout.splitlines()
    wanted = (home / "test.fr").read_text().splitlines()
    texts = [line.split("\t")[0] for line in lines]
    assert sum(text == right for text, right in zip(texts, wanted, strict=True)) >= 27
    assert all(float(line.split("\t")[1]) <= 0 for line in lines)
    packed = home / "test.packed.gz"
    packed.write_bytes(gzip.compress((home / "test.en").read_bytes()))
    assert run("translate", home / "model", packed).stdout.splitlines() == texts


def test_translate_nbest(home: Path) -> None:
    text = "the old cat sees a dog\na dog eats the fish\n"
    lines = run("translate", home / "model", "--nbest", 3, "--beam", 5, stdin=text).stdout.splitlines()
    parts = [re.fullmatch(r"(\d+) \|\|\| (.*) \|\|\| (-?\d+\.\d{4})", line) for line in lines]
    assert all(parts)
    assert [part[1] for part in parts if part] == ["0", "0", "0", "1", "1", "1"]
    for start in (0, 3):
        scores = [float(part[3]) for part in parts[start : start + 3] if part]
        assert scores == sorted(scores, reverse=True)
        assert len({part[2] for part in parts[start : start + 3] if part}) == 3


def test_translate_json(home: Path) -> None:
    lines = run("translate", home / "model", "--json", stdin="the cat sees a dog\n\n").stdout.splitlines()
    first, empty = [json.loads(line) for line in lines]
    assert first["source"] == "the cat sees a dog"
    best = first["translations"][0]
    assert best["text"] == "le chat voit un chien" and best["score"] <= 0
    assert [target for _, target in best["alignment"]] == [0, 1, 2, 3, 4]
    assert empty == {"source": "", "unknown": [], "translations": []}


def test_translate_writes_pharaoh_links(home: Path) -> None:
    out = home / "links.txt"
    texts = run("translate", home / "model", home / "test.en", "--alignments", out).stdout.splitlines()
    sources, links = (home / "test.en").read_text().splitlines(), out.read_text().splitlines()
    assert len(links) == len(sources) == 30
    for source, text, line in zip(sources, texts, links, strict=True):
        assert re.fullmatch(r"\d+-\d+( \d+-\d+)*", line)
        found = Alignment.from_pharaoh(line).sure
        assert sorted(j for _, j in found) == list(range(len(text.split())))
        assert all(0 <= i < len(source.split()) for i, _ in found)


def test_evaluate_files_and_split_agree(home: Path) -> None:
    files = json.loads(
        run("evaluate", home / "model", "--source", home / "test.en", "--reference", home / "test.fr", "--json").stdout
    )
    split = json.loads(run("evaluate", home / "model", "--split", "test", "--json").stdout)
    assert files["bleu"] == split["bleu"] > 80
    assert files["chrf"] == split["chrf"] and files["sentences"] == split["sentences"] == 30
    assert files["alignment_error"] is None  # there are no gold links
    assert "tok:13a" in files["bleu_signature"]
    plain = run("evaluate", home / "model").stdout.splitlines()
    assert plain[0].split("\t")[:2] == ["BLEU", f"{split['bleu']:.2f}"]


@pytest.mark.parametrize(("ending", "first"), [("html", b"<!doctype html"), ("svg", b"<svg"), ("png", b"\x89PNG")])
def test_attention_as_a_picture(home: Path, ending: str, first: bytes) -> None:
    out = home / f"map.{ending}"
    printed = run("attention", home / "model", "the old cat sees a dog", "--out", out).stdout
    assert printed.startswith("le vieux chat voit un chien   (score -")
    assert "vieux" in printed.split("\n", 2)[2]
    content = out.read_bytes()
    assert first in content[:400].lower() or content.startswith(first)
    if ending != "png":
        assert b"vieux" in content and b"http://" not in content.replace(b"http://www.w3.org", b"")


def test_attention_of_a_given_target_and_of_all_heads(home: Path) -> None:
    given = run("attention", home / "model", "the old cat", "--target", "un chien").stdout
    assert given.startswith("un chien   (score -")
    out = home / "grid.html"
    run("attention", home / "model", "the old cat", "--layers", "--out", out)
    assert b"</s>" in out.read_bytes() or b"&lt;/s&gt;" in out.read_bytes()


def test_check_counts_what_is_trained(home: Path) -> None:
    found = json.loads(run("check", home / "recipe.toml", "--json").stdout)
    model = harken.load(home / "model").model
    assert found["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert harken.check(home / "recipe.toml").parameters == found["parameters"]


FORMS: dict[str, Callable[[Path], str]] = {}


def form(make: Callable[[Path], str]) -> Callable[[Path], str]:
    FORMS[make.__name__] = make
    return make


@form
def packed_files(folder: Path) -> str:
    write_files(folder, "train", sentences(40, 1), ".gz")
    return f'source = "{folder}/train.en.gz"\ntarget = "{folder}/train.fr.gz"\nvalid_size = 5'


@form
def tsv(folder: Path) -> str:
    rows = ["english\tnumber\tfrench", *(f"{one}\t{i}\t{other}" for i, (one, other) in enumerate(sentences(40, 1)))]
    (folder / "pairs.tsv").write_text("\n".join(rows))
    return (
        f'source = "{folder}/pairs.tsv"\nheader = true\nsource_column = "english"\ntarget_column = "french"\n'
        "valid_size = 5"
    )


@form
def jsonl(folder: Path) -> str:
    lines = [json.dumps({"source": one, "target": other}) for one, other in sentences(40, 1)]
    (folder / "pairs.jsonl").write_text("\n".join(lines))
    return f'source = "{folder}/pairs.jsonl"\nvalid_size = 5'


@form
def folder_of_languages(folder: Path) -> str:
    for name, count in (("train", 40), ("val", 5), ("test_2016", 5)):
        write_files(folder, name, sentences(count, len(name)), ".gz")
    return f'dir = "{folder}"\npair = "en-fr"'


@pytest.mark.parametrize("name", FORMS)
def test_own_data_in_every_form(tmp_path: Path, name: str) -> None:
    recipe = f'[data]\n{FORMS[name](tmp_path)}\n[tokenizer]\nkind = "word"\n{MODEL.format(steps=2)}'
    (tmp_path / "mine.toml").write_text(recipe)
    run("check", tmp_path / "mine.toml")
    run("train", tmp_path / "mine.toml", "--out", tmp_path / "out", "--quiet")
    assert len(run("translate", tmp_path / "out", stdin="the cat\n").stdout.splitlines()) == 1


def mistakes(home: Path) -> dict[str, tuple[list[Any], str]]:
    """Command lines that are a user's mistake, and what is said."""
    recipe = (home / "recipe.toml").read_text()
    (home / "typo.toml").write_text(recipe.replace("heads = 2", "haeds = 2"))
    (home / "empty.toml").write_text("")
    (home / "empty.en").write_text("")
    (home / "short.fr").write_text("le chat\n")
    out, model = ["--out", home / "new"], home / "model"
    return {
        "typo": (["train", home / "typo.toml", *out], "did you mean model.heads?"),
        "typo in --set": (["train", home / "recipe.toml", *out, "--set", "train.max_step=3"], "train.max_steps?"),
        "empty recipe": (["check", home / "empty.toml"], "empty.toml"),
        "no recipe": (["train", home / "no.toml", *out], "no.toml was not found"),
        "no name": (["train", "phrasebook-transfomer", *out], "did you mean phrasebook-transformer?"),
        "no data": (["train", home / "recipe.toml", *out, "--set", f"data.source={home}/no.en"], "no.en"),
        "empty data": (
            ["train", home / "recipe.toml", *out, "--set", f"data.source={home}/empty.en",
             "--set", f"data.target={home}/empty.en"], "empty.en",
        ),
        "unequal data": (["train", home / "recipe.toml", *out, "--set", f"data.target={home}/short.fr"], "short.fr"),
        "folder in use": (["train", home / "recipe.toml", "--out", model], "is not empty; train into a new folder"),
        "another model": (
            ["train", home / "recipe.toml", "--out", model, "--resume", "--set", "model.width=16"],
            "was started with another [model]",
        ),
        "other data": (
            ["train", home / "recipe.toml", "--out", model, "--resume", "--set", "data.lowercase=true"],
            "data.lowercase is true where the run was started with false",
        ),
        "no model": (["translate", home / "no"], "is no finished model folder"),
        "no text": (["translate", model, home / "no.en"], "no.en"),
        "no split": (["evaluate", model, "--split", "exam"], "has no split 'exam'; choose --split valid or test"),
        "empty test": (
            ["evaluate", model, "--source", home / "empty.en", "--reference", home / "empty.en"], "is empty",
        ),
        "unequal test": (
            ["evaluate", model, "--source", home / "test.en", "--reference", home / "short.fr"],
            "test.en has 30 lines but",
        ),
        "no sentence": (["attention", model, " "], "the input is empty"),
        "no picture": (["attention", model, "the cat", "--out", home / "map.gif"], "map.gif"),
    }  # fmt: skip


def test_mistakes_are_one_line_and_exit_2(home: Path) -> None:
    for name, (arguments, said) in mistakes(home).items():
        result = run(*arguments, stdin="", code=2)
        assert said in result.stderr, name
        assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1, name
        assert "Traceback" not in result.output, name
    assert not (home / "new").exists()


def test_the_command_itself(home: Path) -> None:
    """`python -m harken`, in a process of its own, with French that is not ASCII under a C locale."""
    package = str(Path(harken.__file__).parents[1])
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONPATH": package, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "harken", "translate", str(home / "model"), "--json"]
    done = subprocess.run(command, input="the é cat\n".encode(), capture_output=True, env=environment, check=True)
    assert json.load(io.BytesIO(done.stdout))["source"] == "the é cat"
    assert "the model has never seen é" in done.stderr.decode()


@pytest.mark.slow  # that a model learns is also seen by test_training_says_what_it_does
def test_a_transformer_learns_to_reverse(tmp_path: Path) -> None:
    """So that a trainer that runs but does not train cannot pass."""
    numbers = random.Random(1)
    lines = [[numbers.choice("abcdefgh") for _ in range(numbers.randrange(2, 6))] for _ in range(3000)]
    (tmp_path / "forward").write_text("".join(f"{' '.join(line)}\n" for line in lines))
    (tmp_path / "backward").write_text("".join(f"{' '.join(reversed(line))}\n" for line in lines))
    settings = MODEL.format(steps=1000).replace("1e-2", "5e-3")
    (tmp_path / "reverse.toml").write_text(
        f'[data]\nsource = "{tmp_path}/forward"\ntarget = "{tmp_path}/backward"\nvalid_size = 100\n'
        f'[tokenizer]\nkind = "word"\n{settings}'
    )
    model = harken.train(tmp_path / "reverse.toml", tmp_path / "out", progress=False)
    fresh = [[numbers.choice("abcdefgh") for _ in range(numbers.randrange(2, 6))] for _ in range(200)]
    found = model.translate([" ".join(line) for line in fresh], beam=1, attention=False)
    right = sum(best.text.split() == line[::-1] for best, line in zip(found, fresh, strict=True))
    assert right > 180
