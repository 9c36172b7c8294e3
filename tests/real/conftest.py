"""Word vectors of the English text among the data sets, learnt once for all tests that begin with them."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from harken.cli.app import app

TEXTS = (
    *("wiki-en/wiki-en-30MB.txt.xz", "imdb/train.tsv.xz", "wikitext-2/wiki.train.tokens.xz"),
    *("text8/text8.first6877825.xz", "europarl/train.en.xz", "ptb/ptb.train.txt.gz"),
)


@pytest.fixture(scope="session")
def english_vectors(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = [shared_data / name for name in TEXTS]
    for file in files:
        if not file.is_file():
            pytest.skip(f"{file.name} is not among the data sets")
    folder = tmp_path_factory.mktemp("vectors") / "words"
    words = ["--width", "200", "--min-count", "3", "--max-words", "45000", "--out", folder]
    words += ["--threads", "1"]  # several threads race for the rows, and give other vectors in each run
    result = CliRunner().invoke(app, ["embed", "train", *map(str, [*files, *words])])
    assert result.exit_code == 0, result.output
    return folder
