"""What an encoder reads before it learns a job: opinions without labels help to tell them apart."""

import gzip
import lzma
import re
from pathlib import Path

import pytest
import torch

import harken
from harken.tasks.registry import job_of

pytestmark = [pytest.mark.slow, pytest.mark.shared]
ENDS = re.compile(r"""(n't|'(?:s|re|ve|ll|d|m))\b""")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="five minutes of a GPU, half a day of a CPU")
def test_an_encoder_that_read_reviews_knows_more_of_opinions(shared_data: Path, tmp_path: Path) -> None:
    for name in ("wikitext-2", "imdb", "sst"):
        if not (shared_data / name).is_dir():
            pytest.skip(f"{name} is not among the shared data")
    reviews, sentences = tmp_path / "reviews.txt", tmp_path / "sentences.txt"
    with lzma.open(shared_data / "imdb" / "train.tsv.xz", "rt", encoding="utf-8") as stream:
        texts = [line.split("\t")[2].replace("<br />", "\n") for line in stream]
    spaced = [ENDS.sub(r" \1", re.sub(r'([.,!?;:()"])', r" \1 ", text)) for text in texts]
    reviews.write_text("\n".join(spaced), encoding="utf-8")
    with gzip.open(shared_data / "sst" / "SST2" / "train.txt.gz", "rt", encoding="utf-8") as stream:
        sentences.write_text("".join(line[2:] for line in stream), encoding="utf-8")
    files = f'data.train=["wiki.train.tokens.xz", "{reviews}", "{sentences}"]'
    folder = f"data.dir={shared_data / 'wikitext-2'}"
    overrides = [folder, files, "train.max_minutes=5.2"]
    harken.train("wikitext2-masked", tmp_path / "masked", overrides=overrides, progress=False)
    right: dict[bool, list[float]] = {True: [], False: []}
    for seed in (1, 2, 3):
        for started in right:
            changes = [f"data.dir={shared_data / 'sst'}", f"train.seed={seed}"]
            changes += [f"model.start={tmp_path / 'masked'}"] if started else []
            model = harken.train(
                "sst2-encoder-classify", tmp_path / f"{started}{seed}", overrides=changes, progress=False
            )
            right[started].append(job_of("classify").evaluate(model, "test", [], lambda done: None)["accuracy"])
    assert sum(right[True]) / 3 > sum(right[False]) / 3 + 0.005, right
