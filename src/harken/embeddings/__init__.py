"""Word vectors: a corpus in, a vector for every word out; files that other tools read; neighbours, analogies, maps.

Names are imported when first used: looking at vectors does not wait for what trains them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harken.embeddings.corpus import Corpus
    from harken.embeddings.evaluation import evaluate_file
    from harken.embeddings.formats import read_vectors, write_vectors
    from harken.embeddings.glove import GloveSettings, train_glove
    from harken.embeddings.one_hot import OneHot
    from harken.embeddings.reading import read_corpus
    from harken.embeddings.settings import Settings
    from harken.embeddings.subwords import Subwords
    from harken.embeddings.vectors import WordVectors
    from harken.embeddings.vocabulary import Vocabulary
    from harken.embeddings.word2vec import train_word2vec
    from harken.embeddings.word_map import WordMap

__all__ = [
    "Corpus",
    "GloveSettings",
    "OneHot",
    "Settings",
    "Subwords",
    "Vocabulary",
    "WordMap",
    "WordVectors",
    "evaluate_file",
    "read_corpus",
    "read_vectors",
    "train_glove",
    "train_word2vec",
    "write_vectors",
]

_HOME = {
    "Corpus": "corpus",
    "GloveSettings": "glove",
    "OneHot": "one_hot",
    "Settings": "settings",
    "Subwords": "subwords",
    "Vocabulary": "vocabulary",
    "WordMap": "word_map",
    "WordVectors": "vectors",
    "evaluate_file": "evaluation",
    "read_corpus": "reading",
    "read_vectors": "formats",
    "train_glove": "glove",
    "train_word2vec": "word2vec",
    "write_vectors": "formats",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'harken.embeddings' has no attribute '{name}'")
    return getattr(import_module(f"harken.embeddings.{_HOME[name]}"), name)
