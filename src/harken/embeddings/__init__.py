"""Word vectors: a corpus in, a vector for every word out; files that other tools read; neighbours, analogies, maps.

Names are imported when first used: looking at vectors does not wait for what trains them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harken.embeddings.evaluation import evaluate_file
    from harken.embeddings.glove.training import GloveSettings, train_glove
    from harken.embeddings.io.corpus import Corpus
    from harken.embeddings.io.formats import read_vectors, write_vectors
    from harken.embeddings.io.reading import read_corpus
    from harken.embeddings.one_hot import OneHot
    from harken.embeddings.vectors import WordVectors
    from harken.embeddings.vocabulary import Vocabulary
    from harken.embeddings.word2vec.settings import Settings
    from harken.embeddings.word2vec.subwords import Subwords
    from harken.embeddings.word2vec.training import train_word2vec
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
    "Corpus": "io.corpus",
    "GloveSettings": "glove.training",
    "OneHot": "one_hot",
    "Settings": "word2vec.settings",
    "Subwords": "word2vec.subwords",
    "Vocabulary": "vocabulary",
    "WordMap": "word_map",
    "WordVectors": "vectors",
    "evaluate_file": "evaluation",
    "read_corpus": "io.reading",
    "read_vectors": "io.formats",
    "train_glove": "glove.training",
    "train_word2vec": "word2vec.training",
    "write_vectors": "io.formats",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'harken.embeddings' has no attribute '{name}'")
    return getattr(import_module(f"harken.embeddings.{_HOME[name]}"), name)
