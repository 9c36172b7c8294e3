"""card.md says what a model is, by its own numbers."""

from pathlib import Path

import pytest
from torch import nn

from harken.card import CARD, multiplied, write_card
from harken.data.pairs import Corpus, Pair
from harken.recipe import load_recipe
from harken.training.checkpoints import Progress
from harken.training.log import MetricsLog

CORPUS = Corpus("mine", "en", "fr", [Pair("a", "b")] * 1234, [Pair("a", "b")] * 5, {}, {"empty": 3, "too long": 0})


def card(folder: Path, state: Progress) -> dict[str, str]:
    """The rows of the table that was written."""
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 3))
    recipe = load_recipe("phrasebook-transformer", ["train.device=cpu", "train.workers=2", "train.threads=1"])
    write_card(folder, recipe, CORPUS, model, state, 100, 2000)
    text = (folder / CARD).read_text()
    assert text.startswith("# mine en-fr, transformer\n")
    lines = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    return dict(line.strip("| ").split(" | ", 1) for line in lines if line != "| | |")


def test_the_card(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    log.write({"kind": "valid", "step": 10, "bleu": 1.0, "perplexity": 99.0, "best": True})
    log.write({"kind": "valid", "step": 20, "bleu": 31.5, "perplexity": 4.25, "best": True})
    log.write({"kind": "valid", "step": 30, "bleu": 30.0, "perplexity": 4.0, "best": False})
    rows = card(tmp_path, Progress(step=4321, best_step=20, tokens=1_000_000, seconds=61.7, finished=True))
    assert rows["data"] == "mine: 1,234 training pairs, 5 for validation"
    assert rows["lines skipped"] == "3 empty"
    assert rows["vocabulary"] == "word, 100 source and 2,000 target pieces"
    assert rows["parameters"] == "55"
    assert rows["updates"] == "4,321, best at 20"
    assert rows["target tokens seen"] == "1,000,000"
    assert rows["training time"].startswith("62 s")
    assert rows["training cost"].startswith(f"about {6 * 52 * 1e6:.2g} FLOPs")
    assert "BLEU 31.50" in rows["validation"] and "perplexity 4.250" in rows["validation"]
    assert "nrefs:1" in rows["validation"]  # sacrebleu's signature
    assert not (tmp_path / f"{CARD}.part").exists()


def test_a_card_without_metrics(tmp_path: Path) -> None:
    assert "BLEU nan" in card(tmp_path, Progress())["validation"]


@pytest.mark.parametrize(("module", "count"), [(nn.Linear(3, 4), 12), (nn.LayerNorm(5), 0), (nn.Embedding(7, 2), 14)])
def test_only_matrices_are_multiplied(module: nn.Module, count: int) -> None:
    assert multiplied(module) == count
