"""Word vectors: training (word2vec, GloVe), files of other tools, neighbours, analogies, maps.

Names are imported on first use, so that opening vectors does not import the training code.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harken.embeddings.corpus import Corpus, read_corpus
    from harken.embeddings.evaluation import evaluate_file
    from harken.embeddings.formats import read_vectors, write_vectors
    from harken.embeddings.glove.training import GloveSettings, train_glove
    from harken.embeddings.vectors import OneHot, WordVectors
    from harken.embeddings.vocabulary import Vocabulary
    from harken.embeddings.word2vec.settings import Settings, Subwords
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

_MODULES = {
    "Corpus": "corpus",
    "GloveSettings": "glove.training",
    "OneHot": "vectors",
    "Settings": "word2vec.settings",
    "Subwords": "word2vec.settings",
    "Vocabulary": "vocabulary",
    "WordMap": "word_map",
    "WordVectors": "vectors",
    "evaluate_file": "evaluation",
    "read_corpus": "corpus",
    "read_vectors": "formats",
    "train_glove": "glove.training",
    "train_word2vec": "word2vec.training",
    "write_vectors": "formats",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'harken.embeddings' has no attribute '{name}'")
    return getattr(import_module(f"harken.embeddings.{_MODULES[name]}"), name)
