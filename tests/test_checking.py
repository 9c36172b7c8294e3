"""`check`: sizes, files and time of a run that has not begun."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from harken.checking import check
from harken.errors import UserError
from harken.models.build import build_model
from harken.recipe import load_recipe
from harken.tasks.estimates import text_size


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split, lines in (("train", 3000), ("val", 3), ("test_2016_flickr", 2)):
        for language in ("en", "de"):
            with gzip.open(tmp_path / f"{split}.{language}.gz", "wt", encoding="utf-8") as stream:
                stream.writelines(f"{language} word {number} here\n" for number in range(lines))
    return tmp_path


def test_vectors_have_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"embeddings\.target is .*none, which does not exist"):
        check("phrasebook-attention", [f"embeddings.target={tmp_path / 'none'}", "model.tied=output"])
    with pytest.raises(UserError, match=r"embeddings\.elmo is .*none, which does not exist"):
        check("phrasebook-tag", [f"embeddings.elmo={tmp_path / 'none'}"])
    assert check("phrasebook-tag", [f"embeddings={tmp_path}"]).parameters == check("phrasebook-tag").parameters


def test_a_built_in_recipe_is_counted() -> None:
    recipe = load_recipe("phrasebook-transformer")
    found = check("phrasebook-transformer")
    model = build_model(recipe.model, recipe.tokenizer.size, recipe.tokenizer.size)
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert found.seconds == 60 * recipe.train.max_minutes
    assert "phrasebook (en-fr)" in found.corpus
    assert any("max_minutes" in note for note in found.notes)


def test_time_grows_with_the_steps() -> None:
    few, many = (
        check("phrasebook-transformer", ["train.max_minutes=none", f"train.max_steps={steps}"]).seconds
        for steps in (100, 10000)
    )
    assert few is not None and many is not None
    assert 0 < few < many


def test_files_are_looked_at(folder: Path) -> None:
    overrides = [f"data.dir={folder}", "data.pair=en-de"]
    found = check("multi30k-transformer", overrides)
    assert "train.en.gz and 5 more files" in found.corpus
    assert found.tokens_per_epoch is not None and found.tokens_per_epoch > 0
    (folder / "train.de.gz").unlink()
    with pytest.raises(UserError, match=r"train\.de"):
        check("multi30k-transformer", overrides)


def test_a_short_file_is_counted_exactly(folder: Path) -> None:
    (folder / "a.en").write_text("one two three\n" * 10)
    (folder / "a.fr").write_text("un deux trois\n" * 10)
    overrides = ["data.corpus=none", f"data.source={folder}/a.en", f"data.target={folder}/a.fr"]
    found = check("phrasebook-rnn", overrides)
    assert "about 10 lines" in found.corpus
    assert found.tokens_per_epoch == 30


def test_lines_are_estimated_from_all_over_a_sorted_file(tmp_path: Path) -> None:
    """A file sorted by length, as parallel corpora often are: its first lines are the shortest."""
    lines = [" ".join(["word"] * (1 + number // 500)) for number in range(20_000)]
    for side in ("en", "fr"):
        (tmp_path / f"a.{side}").write_text("\n".join(lines) + "\n")
    size = text_size(tmp_path / "a.en")
    assert size.lines == pytest.approx(20_000, rel=0.1)
    assert size.words == pytest.approx(sum(len(line.split()) for line in lines), rel=0.1)


CODE = """
import sys, time, torch
start = time.process_time()
import harken.checking
assert "harken.nn" not in sys.modules
harken.checking.check({recipe!r})
print(time.process_time() - start, *(name for name in ("torch._dynamo", "triton", "numba") if name in sys.modules))
"""


@pytest.mark.parametrize("recipe", ["phrasebook-transformer", "phrasebook-attention", "seasons-forecast"])
def test_a_check_takes_less_than_a_second_beyond_the_import_of_torch(recipe: str) -> None:
    code = CODE.format(recipe=recipe)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, *slow_imports = done.stdout.split()
    assert float(seconds) < 1 and not slow_imports


def test_importing_it_loads_no_torch() -> None:
    code = "import sys, harken.checking; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
