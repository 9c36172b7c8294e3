"""The page of `harken.nn` has every public name, with an example that uses it."""

import inspect
import re
import runpy
from pathlib import Path

import pytest

import harken.nn

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def page() -> str:
    return runpy.run_path(str(DOCS / "generate" / "python.py"))["nn"]()


@pytest.mark.parametrize("name", harken.nn.__all__)
def test_every_name_has_an_entry_with_an_example_of_it(name: str, page: str) -> None:
    (entry,) = re.findall(rf"^::: harken\.[\w.]*\b{name}\n(.*?)(?=^:::|^## |\Z)", page, re.DOTALL | re.MULTILINE)
    examples = (inspect.getdoc(getattr(harken.nn, name)) or "") + entry
    assert re.search(rf"^>>> (?:.*\n)*?.*\b{name}\b", examples, re.MULTILINE)


@pytest.mark.parametrize(
    "name",
    [
        *("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell", "MultiheadAttention"),
        *("TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer", "TransformerDecoderLayer"),
        *("Transformer", "CRF", "Cell", "Stack"),
    ],
)
def test_what_a_user_of_torch_looks_for_is_there(name: str) -> None:
    assert name in harken.nn.__all__ and (inspect.getdoc(getattr(harken.nn, name)) or "").strip()
