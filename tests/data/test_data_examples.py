"""The examples in the docstrings of harken.data hold."""

import doctest
import importlib

import pytest

MODULES = [
    "batching",
    "config",
    "files",
    "formats",
    "rows",
    "splits",
    "tokenizers",
    "tokenizers_character",
    "tokenizers_subword",
    "tokenizers_vocabulary",
    "tokenizers_word",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"harken.data.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
