"""card.md says what a model is, by its own numbers."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from torch import nn

from harken.card import few_updates, write_card
from harken.recipe import load_recipe
from harken.tasks.job import Prepared
from harken.tasks.registry import job_of
from harken.training.checkpoints import Progress
from harken.training.folder import CARD
from harken.training.log import MetricsLog


def card(folder: Path, state: Progress) -> dict[str, str]:
    """The rows of the table that was written."""
    task = SimpleNamespace(model=nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 3)))
    recipe = load_recipe("phrasebook-transformer", ["train.device=cpu", "train.workers=2", "train.threads=1"])
    prepared = Prepared(
        task, "mine en-fr, transformer", {"data": "mine: 1,234 training pairs"}, [], flops_per_token=312
    )
    write_card(folder, recipe, job_of("translate"), prepared, state)
    text = (folder / CARD).read_text()
    assert text.startswith("# mine en-fr, transformer\n")
    lines = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    return dict(line.strip("| ").split(" | ", 1) for line in lines if line != "| | |")


def test_the_card(tmp_path: Path) -> None:
    log, signature = MetricsLog(tmp_path), {"bleu_signature": "nrefs:1|tok:char"}
    log.write({"kind": "valid", "step": 10, "bleu": 1.0, "perplexity": 99.0, "best": True})
    log.write({"kind": "valid", "step": 20, "bleu": 31.5, "chrf": 50.0, "perplexity": 4.25, "best": True, **signature})
    log.write({"kind": "valid", "step": 30, "bleu": 30.0, "perplexity": 4.0, "best": False})
    rows = card(tmp_path, Progress(step=4321, best_step=20, tokens=1_000_000, seconds=61.7, finished=True))
    assert rows["data"] == "mine: 1,234 training pairs"
    assert rows["parameters"] == "55"
    assert rows["updates"] == "4,321, best at 20"
    assert rows["target tokens seen"] == "1,000,000"
    assert rows["training time"].startswith("62 s")
    assert rows["training cost"].startswith("about 3.1e+08 FLOPs")
    assert rows["validation"].startswith("BLEU 31.50 (nrefs:1\\|tok:char), chrF 50.00 by greedy search")
    assert "perplexity 4.250" in rows["validation"]
    assert not (tmp_path / f"{CARD}.part").exists()


def test_a_card_without_metrics(tmp_path: Path) -> None:
    assert "BLEU nan" in card(tmp_path, Progress())["validation"]


def test_few_updates_name_the_minutes_for_more() -> None:
    """66 updates in 30 of 42 seconds: 500 take 227 seconds, and 12 are for the rest."""
    short = Progress(step=66, seconds=30.0, spent_minutes=0.7, finished=True, stopped_by="max_minutes")
    assert few_updates(short) == "66 updates are few: train.max_minutes = 4 pays for 500 at the speed of this run"
    assert few_updates(replace(short, step=500)) == ""
    assert few_updates(replace(short, stopped_by="max_steps")) == ""
