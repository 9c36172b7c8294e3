"""Word vectors: a corpus in, a vector for every word out; files that other tools read; neighbours, analogies, maps.

Names are imported when first used: looking at vectors does not wait for what trains them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harken.embeddings.corpus import Corpus
    from harken.embeddings.reading import read_corpus
    from harken.embeddings.vocabulary import Vocabulary

_HOME = {
    "Corpus": "corpus",
    "Vocabulary": "vocabulary",
    "read_corpus": "reading",
}

__all__ = ["Corpus", "Vocabulary", "read_corpus"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'harken.embeddings' has no attribute '{name}'")
    return getattr(import_module(f"harken.embeddings.{_HOME[name]}"), name)
