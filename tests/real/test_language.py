"""Language models on real text: the figures of issue 4 that two cores reach, and the n-gram model beside them."""

from pathlib import Path

import numpy as np
import pytest

import harken
from harken.data.text.text_config import TextConfig
from harken.data.text.texts import read_texts
from harken.data.tokenizers.base import train_tokenizer
from harken.models.language.ngram import NGram
from harken.tasks.language.job import JOB
from harken.tasks.language.task import corpus_ids


@pytest.mark.slow
@pytest.mark.shared
def test_shakespeare_characters_in_five_minutes(shared_data: Path, tmp_path: Path) -> None:
    changes = [f"data.dir={shared_data / 'tinyshakespeare'}"]
    model = harken.train("shakespeare-characters", tmp_path / "run", overrides=changes, progress=False)
    assert JOB.evaluate(model, "test", [], lambda done: None)["nats per character"] <= 1.90


@pytest.mark.shared
def test_penn_treebank_is_counted_as_everybody_counts_it(shared_data: Path) -> None:
    corpus = read_texts(TextConfig(dir=str(shared_data / "ptb")))
    tokenizer = train_tokenizer("plain word", corpus.train, 50000)
    train, test = (corpus_ids(tokenizer, lines, True) for lines in (corpus.train, corpus.test))
    assert (len(train) - 1, len(test) - 1) == (929_589, 82_430)
    found = NGram.train(train, tokenizer.size, 5).log_probabilities(test)
    assert np.exp(-found.mean()) == pytest.approx(141.1, abs=0.5)  # published for Kneser-Ney of order 5: 141.2
