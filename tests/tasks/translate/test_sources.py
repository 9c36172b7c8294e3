"""Sentences with trees, from the line to the distances that an encoder reads."""

from __future__ import annotations

from harken.data.tokenizers.base import train_tokenizer
from harken.tasks.translate.sources import Sources


def tokenizer(kind: str = "character"):
    return train_tokenizer(kind, ["the cat sleeps", "a dog"], 60)


def test_pieces_of_one_word_share_its_place_in_the_tree() -> None:
    sources = Sources.read(["cat|2 dog|0", "a|0"], tokenizer(), headed=True, with_trees=True)
    assert sources.texts == ["cat dog", "a"]
    batch = sources.batch([0, 1], "cpu")
    assert batch.distances is not None
    assert batch.distances.shape == (2, batch.ids.shape[1], batch.ids.shape[1])
    words = [*sources.ids[0]]
    first = batch.distances[0, 0, : len(words)].tolist()
    assert first[:3] == [0, 0, 0]  # c, a, t
    assert first[-1] == 1  # cat depends on dog, one step above it
    assert batch.distances[0, len(words) - 1, 0].item() == -1


def test_without_trees_heads_are_read_and_dropped() -> None:
    sources = Sources.read(["cat|2 dog|0"], tokenizer(), headed=True, with_trees=False)
    assert sources.texts == ["cat dog"]
    assert sources.batch([0], "cpu").distances is None
    plain = Sources.read(["cat|2"], tokenizer(), headed=False, with_trees=False)
    assert plain.texts == ["cat|2"]
