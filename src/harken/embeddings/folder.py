"""Word vectors as a folder, memory-mapped on opening, so that a million words open as fast as ten.

    vectors.npy   (V, D) float32         words.txt                a word a line
    counts.npy    (V,) int64             index.npy, starts.npy    positions in words.txt (`vocabulary.py`)
    ngrams.npy    (buckets, D), where n-grams were trained
    card.json     settings and training record; written last

There is no pickle: opening a folder can run no code.
"""

from __future__ import annotations

import difflib
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.vocabulary import MappedVocabulary, Vocabulary, index_of, starts_of
from harken.embeddings.word2vec.settings import Subwords
from harken.errors import UserError
from harken.files import atomic_path, atomic_write

if TYPE_CHECKING:
    from harken.embeddings.vectors import WordVectors

CARD = "card.json"
KIND = "harken word vectors"


def save_folder(vectors: WordVectors, folder: Path) -> None:
    """Write every file to a temporary name and rename it; the card last."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file where a folder is expected: give another --out.")
    odd = next((word for word in vectors.words if word != word.strip() or "\n" in word or not word), None)
    if odd is not None:
        raise UserError(f"The word {odd!r} begins or ends with white space, which words.txt cannot hold: leave it out.")
    folder.mkdir(parents=True, exist_ok=True)
    _write_array(folder / "vectors.npy", vectors.matrix)
    _write_array(folder / "counts.npy", vectors.vocabulary.counts)
    atomic_write(folder / "words.txt", "\n".join(vectors.words) + "\n")
    _write_array(folder / "index.npy", index_of(vectors.words))
    _write_array(folder / "starts.npy", starts_of(vectors.words))
    card: dict[str, Any] = {"kind": KIND, "words": len(vectors), "width": vectors.width}
    if vectors.subwords is not None and vectors.ngrams is not None:
        _write_array(folder / "ngrams.npy", vectors.ngrams)
        part = vectors.subwords
        card["subwords"] = {"shortest": part.shortest, "longest": part.longest, "buckets": part.buckets}
    record = {key: value for key, value in vectors.card.items() if key not in ("kind", "words", "width", "subwords")}
    atomic_write(folder / CARD, json.dumps(card | record, indent=2, ensure_ascii=False) + "\n")


def load_folder(folder: Path) -> WordVectors:
    """Memory-map the vectors and the list of words.

    Raises:
        UserError: a file is missing, damaged, or does not match the others.
    """
    from harken.embeddings.vectors import WordVectors

    card = _read_card(folder)
    matrix = _map_array(folder / "vectors.npy")
    words, width = card.get("words"), card.get("width")
    if matrix.ndim != 2 or matrix.shape != (words, width):
        shape = " x ".join(map(str, matrix.shape))
        raise UserError(f"{folder / 'vectors.npy'} is {shape} where {CARD} says {words} x {width}: save it again.")
    subwords, ngrams = None, None
    if "subwords" in card:
        subwords, ngrams = Subwords(**card["subwords"]), _map_array(folder / "ngrams.npy")
    return WordVectors(partial(_vocabulary, folder, len(matrix)), matrix, None, subwords, ngrams, card)


def require_folder(folder: Path) -> Path:
    """Return the folder if it holds vectors, else raise a UserError."""
    if (folder / CARD).is_file():
        return folder
    inside = sorted(child.parent.name for child in folder.glob(f"*/{CARD}"))
    remedy = f"did you mean {folder / inside[0]}?" if inside else "make one with harken embed train."
    raise UserError(f"{folder} holds no word vectors ({CARD} is not there): {remedy}")


def _read_card(folder: Path) -> dict[str, Any]:
    try:
        card = json.loads((folder / CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{folder / CARD} cannot be read ({error}): save the vectors again.") from error
    if not isinstance(card, dict) or card.get("kind") != KIND:
        raise UserError(f'{folder / CARD} does not say "{KIND}": give a folder that harken embed train made.')
    return card


def _vocabulary(folder: Path, size: int) -> Vocabulary:
    """The words with their index; read as a whole where there is no index, as in folders of earlier versions."""
    counts, path = _map_array(folder / "counts.npy"), folder / "words.txt"
    if not (folder / "index.npy").is_file():
        return Vocabulary(_read_words(folder, size), counts)
    index, starts = _map_array(folder / "index.npy"), _map_array(folder / "starts.npy")
    length = path.stat().st_size if path.is_file() else 0
    if index.shape != (2, size) or starts.shape != (size + 1,) or int(starts[-1]) != length:
        raise UserError(f"{path} and its index do not fit {size:,} vectors: save the vectors again.")
    return MappedVocabulary(
        partial(_read_words, folder, size), counts, np.memmap(path, dtype=np.uint8, mode="r"), index, starts
    )


def _read_words(folder: Path, size: int) -> list[str]:
    path = folder / "words.txt"
    try:
        words = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}): save the vectors again.") from error
    if len(words) != size:
        raise UserError(f"{path} has {len(words):,} words for {size:,} vectors: save the vectors again.")
    return words


def _map_array(path: Path) -> NDArray[Any]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        names = sorted(entry.name for entry in path.parent.iterdir())
        near = difflib.get_close_matches(path.name, names, n=1)
        problem = "is missing" if path.name not in near else f"cannot be mapped ({error})"
        raise UserError(f"{path} {problem}: copy or save the vectors again.") from error


def _write_array(path: Path, array: NDArray[Any]) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as sink:
        np.save(sink, np.ascontiguousarray(array), allow_pickle=False)
