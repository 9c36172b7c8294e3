"""docs/reference/nn.md has every public name of `harken.nn`, with shapes, an example, and what the docstrings say."""

import inspect
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import harken.nn

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "make_nn_reference.py"))


def test_the_page_is_what_the_docstrings_say(made: dict[str, Any]) -> None:
    message = "run: python docs/make_nn_reference.py"
    assert (DOCS / "reference" / "nn.md").read_text(encoding="utf-8") == made["page"](), message


@pytest.mark.parametrize("name", harken.nn.__all__)
def test_every_name_has_an_entry_with_an_example_of_it(name: str) -> None:
    page = (DOCS / "reference" / "nn.md").read_text(encoding="utf-8")
    assert page.count(f"\n### {name}\n") == 1
    entry = re.split(r"\n#{2,3} ", page.split(f"\n### {name}\n")[1])[0]
    example = re.findall(r"```pycon\n(.*?)```", entry, re.DOTALL)
    assert len(example) == 1 and example[0].startswith(">>> ") and re.search(rf"\b{name}\b", example[0])
    value = getattr(harken.nn, name)
    called = inspect.isclass(value) and "forward" in vars(value)
    assert not called or "**Call** `(" in entry


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
