"""int8 decoding of a Transformer that was trained on Multi30k: BLEU beside that of float32."""

from pathlib import Path

import pytest

import harken
from harken.data.text.parallel import read_corpus

pytestmark = [pytest.mark.slow, pytest.mark.shared]
MOST_LOST = 0.5  # BLEU; docs/benchmarks/decoding.md has the figures of a longer run
SMALL = [
    *("data.pair=en-fr", "tokenizer.size=4000"),
    *("model.layers=2", "model.width=128", "model.feedforward=512", "model.dropout=0.1"),
    *("train.max_steps=700", "train.max_epochs=none", "train.max_minutes=none", "train.batch_tokens=1024"),
    *("train.warmup_steps=100", "train.validate_every=700", "train.validate_sentences=50", "train.average=0.99"),
    *("train.workers=1", "train.threads=1", "train.device=cpu", "train.precision=float32"),
]


def test_int8_loses_little_bleu_on_real_sentences(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "multi30k" / "raw"
    if not folder.is_dir():
        pytest.skip("Multi30k is not among the data sets")
    overrides = [f"data.dir={folder}", *SMALL]
    model = harken.train("multi30k-transformer", tmp_path / "model", overrides=overrides, progress=False)
    (pairs, *_) = read_corpus(model.recipe.data).tests.values()
    sources, references = [pair.source for pair in pairs[:500]], [pair.target for pair in pairs[:500]]
    scores = {
        precision: model.evaluate(sources, references, precision=precision).bleu for precision in ("float32", "int8")
    }
    print({precision: (score.value, score.signature) for precision, score in scores.items()})
    exact, quantised = scores["float32"].value, scores["int8"].value
    assert exact > 15.0
    assert quantised > exact - MOST_LOST
    assert exact != quantised  # another computation
