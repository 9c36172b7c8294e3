"""Tables as programs write them: read right by all that read tables, or refused with the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.data.io.table import open_table, read_sample, read_table
from harken.data.text.config import DataConfig
from harken.data.text.examples_config import ExamplesConfig
from harken.data.text.inputs import labelled_inputs, source_inputs
from harken.data.text.labelled_splits import read_splits
from harken.data.text.parallel import read_corpus
from harken.errors import UserError
from harken.recipe.infer import infer

from .case import Case
from .cases import CASES, Refused, Rows

READ = [case for case in CASES if isinstance(case.expect, Rows)]
JOBS = [case for case in READ if case.expect.task]
REFUSED = [case for case in CASES if isinstance(case.expect, Refused)]
UNPACKED = (".zip",)  # `infer` takes archives by itself


def created(case: Case, folder: Path) -> Path:
    if case.needs:
        pytest.importorskip(case.needs)
    return case.create(folder)


@pytest.mark.parametrize("case", READ, ids=str)
def test_columns_and_rows(case: Case, tmp_path: Path) -> None:
    path = created(case, tmp_path)
    table, sample = read_table(path, header=None), read_sample(path)
    assert list(table) == sample.names == list(case.expect.names)
    assert [len(column) for column in table.values()] == [case.expect.count] * len(table)
    assert len(sample.rows) == case.expect.count and sample.has_header is case.expect.header
    assert sample.rows[0] == list(case.expect.first)


@pytest.mark.parametrize("case", JOBS, ids=str)
def test_the_job_and_its_columns(case: Case, tmp_path: Path) -> None:
    path = created(case, tmp_path)
    if path.suffix in UNPACKED:
        pytest.skip("archives are for the inference of folders")
    inferred = infer(path)
    assert inferred.task == case.expect.task
    for key, value in (case.expect.keys or {}).items():
        assert inferred.data[key] == value
    columns = [value for key, value in inferred.data.items() if key.endswith("_column")]
    table = open_table(path, [str(column) for column in columns])
    table.close()
    assert all(column in table.names if isinstance(column, str) else column < len(table.names) for column in columns)


@pytest.mark.parametrize("case", [case for case in JOBS if case.expect.task != "forecast"], ids=str)
def test_training_and_prediction_read_the_same_rows(case: Case, tmp_path: Path) -> None:
    path = created(case, tmp_path)
    if path.suffix in UNPACKED:
        pytest.skip("archives are for the inference of folders")
    inferred = infer(path)
    if inferred.task == "translate":
        pairs = DataConfig(**inferred.data)
        corpus = read_corpus(pairs)
        count, inputs = sum(map(len, corpus.parts().values())), list(source_inputs(path, pairs).values)
        [source] = read_table(path, [str(inferred.data["source_column"])], header=None).values()
        assert count == len(inputs) == case.expect.count
        assert inputs == [text.replace("\n", " ") for text in source]
    else:
        examples = ExamplesConfig(**inferred.data)
        splits = read_splits(examples)
        count = sum(map(len, splits.parts().values())) + sum(splits.skipped.values())
        inputs = list(labelled_inputs(path, examples, ["good", "bad"]).values)
        assert count == len(inputs) == case.expect.count


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_one_sentence_for_what_cannot_be_read(case: Case, tmp_path: Path) -> None:
    path = created(case, tmp_path)
    with pytest.raises(UserError) as caught:
        read_table(path, header=None)
        read_sample(path)
    message = str(caught.value)
    assert case.expect.message in message and str(path) in message and "\n" not in message


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 60 and len({str(case) for case in CASES}) == len(CASES)
