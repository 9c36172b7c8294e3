"""What all jobs stand on: artifacts, splits, the sequence task, the predictor, the summary."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from harken.data.io.token_rows import TokenRows
from harken.data.tokenizers.base import train_tokenizer
from harken.errors import UserError
from harken.registry import JOBS
from harken.tasks.artifacts import JsonArtifact, ObjectArtifact, TokenizerArtifact, TokenizerPairArtifact
from harken.tasks.job import Summary
from harken.tasks.predictor import Predictor
from harken.tasks.registry import job_of
from harken.tasks.sequence_task import SequenceTask, Sums, length_batches
from harken.training.config import TrainConfig
from harken.training.task import batch_loss, to_device


def test_an_artifact_is_learnt_once_and_then_loaded(tmp_path: Path) -> None:
    learnt = []

    def learn() -> list[str]:
        learnt.append(1)
        return ["é", "b"]

    labels = JsonArtifact[list[str]]("labels.json", list[str])
    assert labels.learn_or_load(tmp_path, False, learn) == ["é", "b"]
    assert labels.learn_or_load(tmp_path, True, learn) == ["é", "b"]
    assert learnt == [1] and labels.names == {"labels.json"}


@pytest.mark.parametrize("text", ["", "[1, 2]", '{"a": 1}', "[", None])
def test_a_damaged_artifact_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "labels.json").write_text(text)
    with pytest.raises(UserError, match=r"labels\.json is missing or damaged"):
        JsonArtifact[list[str]]("labels.json", list[str]).load(tmp_path)


def test_tokenizers_write_the_files_they_name(tmp_path: Path) -> None:
    one, other = (train_tokenizer("word", [text], 100) for text in ("a b", "c d e"))
    for number, (pair, files) in enumerate(
        (((one, other), {"source.json", "target.json"}), ((one, one), {"tokenizer.json"}))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        artifact = TokenizerPairArtifact()
        artifact.save(pair, folder)
        assert {path.name for path in folder.iterdir()} == files <= artifact.names
        assert [tokenizer.size for tokenizer in artifact.load(folder)] == [tokenizer.size for tokenizer in pair]
    single = TokenizerArtifact("words")
    single.save(one, tmp_path)
    assert (tmp_path / "words.json").is_file() and single.load(tmp_path).encode("a b") == one.encode("a b")


class Note:
    """An object that knows its own file."""

    def __init__(self, text: str) -> None:
        self.text = text

    def save(self, folder: Path) -> None:
        (folder / "note.txt").write_text(self.text)

    @classmethod
    def load(cls, folder: Path) -> "Note":
        return cls((folder / "note.txt").read_text())


def test_an_object_that_saves_itself_is_an_artifact(tmp_path: Path) -> None:
    notes = ObjectArtifact(Note, "note.txt")
    notes.save(Note("kept"), tmp_path)
    assert notes.load(tmp_path).text == "kept" and notes.names == {"note.txt"}


class Batch(NamedTuple):
    ids: Tensor
    lengths: Tensor
    missing: Tensor | None = None


class SumTask(SequenceTask[nn.Embedding, Batch]):
    """The loss is the sum of the embeddings of all ids."""

    def __init__(self, rows: TokenRows, valid: TokenRows, compile_it: bool = False) -> None:
        settings = TrainConfig(max_steps=1, batch_tokens=12, compile=compile_it)
        model = nn.Embedding(10, 1)
        torch.nn.init.constant_(model.weight, 1.0)
        super().__init__(model, settings, rows.lengths, valid.lengths)
        self.rows = rows, valid

    def collate(self, indices: np.ndarray, valid: bool = False) -> Batch:
        return Batch(*self.rows[valid].gather(indices))

    def loss(self, model: nn.Embedding, batch: Batch) -> tuple[Tensor, int]:
        real = torch.arange(batch.ids.shape[1]) < batch.lengths[:, None]
        return model(batch.ids)[real].sum(), int(real.sum())

    def evaluate(self, model: nn.Embedding, batch: Batch) -> Sums:
        return {"loss": float(self.loss(model, batch)[0]), "rows": batch.lengths.tolist()}

    def metrics(self, sums: Sums) -> dict[str, float]:
        return {"loss": sums["loss"] / sum(sums["rows"])}


@pytest.fixture
def task() -> SumTask:
    numbers = np.random.default_rng(1)
    train, valid = (TokenRows.from_lists([[4] * int(n) for n in numbers.integers(1, 9, rows)]) for rows in (30, 11))
    return SumTask(train, valid)


def test_an_epoch_has_every_example_once_within_the_budget(task: SumTask) -> None:
    batches = task.epoch(3)
    assert sorted(np.concatenate(batches).tolist()) == list(range(30))
    assert all(len(batch) * task.lengths[batch].max() <= 12 for batch in batches)
    assert [batch.tolist() for batch in task.epoch(3)] == [batch.tolist() for batch in batches]
    assert [batch.tolist() for batch in task.epoch(4)] != [batch.tolist() for batch in batches]


@pytest.mark.parametrize("parts", [1, 2, 5, 40])
def test_shares_make_up_the_batch_and_validation_the_whole(task: SumTask, parts: int) -> None:
    indices = np.arange(30)
    shares = task.share(indices, parts)
    assert sorted(np.concatenate(shares).tolist()) == list(range(30))
    assert sum(task.size(share) for share in shares) == task.size(indices) == task.lengths.sum()
    assert sum(batch_loss(task, share).item() for share in shares if len(share)) == task.lengths.sum()
    results = [task.validate(part, parts) for part in range(parts)]
    assert sorted(n for result in results for n in result.get("rows", [])) == sorted(task.valid_lengths.tolist())
    assert task.score(results) == {"loss": 1.0}


def test_a_batch_moves_with_all_its_parts() -> None:
    moved = to_device(Batch(torch.ones(2, 2), torch.ones(2)), torch.device("meta"))
    assert isinstance(moved, Batch) and moved.missing is None
    assert {part.device.type for part in moved[:2]} == {"meta"}
    kept = to_device((torch.ones(1), 7, "text"), torch.device("meta"))
    assert kept[0].device.type == "meta" and kept[1:] == (7, "text")


class Lengths(Predictor[Any, nn.Linear]):
    """Gives back the length of every row."""

    @classmethod
    def open(cls, folder: Path, recipe: Any, device: str) -> "Lengths":
        return cls(recipe, nn.Linear(1, 1), folder)


def test_a_predictor_keeps_the_order_and_counts_what_is_done() -> None:
    recipe = SimpleNamespace(model=SimpleNamespace(title="recurrent"))
    predictor, done = Lengths(recipe, nn.Linear(1, 1)), []
    rows = TokenRows.from_lists([[4] * n for n in (5, 1, 3, 2, 8)])
    found = predictor.map_rows(rows, lambda ids, lengths: lengths, done.append, budget=6)
    assert [int(length) for length in found] == [5, 1, 3, 2, 8]
    assert sum(done) == 5 and len(done) > 1
    assert predictor.map([[7, 2], [4]], lambda indices: [10 * index for index in indices]) == [20, 40, 70]
    assert not predictor.model.training and repr(predictor) == "Lengths('recurrent', 2 parameters, cpu)"


class Labelling(Predictor[Any, nn.Linear]):
    """A predictor that declares what its folder holds."""

    labels: list[str]
    parts = (("labels", JsonArtifact[list[str]]("labels.json", list[str])),)

    @staticmethod
    def build(recipe: Any, labels: list[str]) -> nn.Linear:
        """A network with an output for every label."""
        return nn.Linear(1, len(labels))


def test_a_predictor_opens_the_parts_it_declares(tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text('["a", "b"]')
    opened = Labelling.open(tmp_path, "recipe", "cpu")
    assert (opened.labels, opened.model.out_features, opened.folder) == (["a", "b"], 2, tmp_path)
    network = nn.Linear(1, 2)
    by_name, in_order = Labelling("recipe", network, labels=["a"], folder=tmp_path), Labelling("recipe", network, ["a"])
    assert (by_name.labels, by_name.folder, in_order.labels, in_order.folder) == (["a"], tmp_path, ["a"], None)
    for values, named in (((), {}), ((["a"], tmp_path, 3), {}), ((["a"],), {"classes": []})):
        with pytest.raises(TypeError, match="made from a recipe, a network, labels, folder"):
            Labelling("recipe", network, *values, **named)


def test_batches_by_length_are_shared_out_without_a_gap() -> None:
    lengths = np.array([5, 1, 3, 2, 8, 8])
    found = [batch for part in range(4) for batch in length_batches(lengths, 8, part, 4)]
    assert sorted(np.concatenate(found).tolist()) == list(range(6))


def test_a_summary_leaves_out_what_is_not_known() -> None:
    plain = Summary("news", "transformer", 10, 2)
    assert plain.title == "news, transformer" and plain.card() == {"data": plain.count}
    assert plain.lines(5) == ["news: 10 training examples, 2 for validation", "transformer: 5 parameters"]
    full = Summary("news", "rnn", 1, 1, "pairs", languages="en-fr", skipped={"empty": 3}, notes=["initialised"])
    assert full.title == "news en-fr, rnn"
    assert full.lines(5)[2:] == ["initialised", "skipped 3 pairs: empty"]


@pytest.mark.parametrize("name", JOBS)
def test_every_job_names_its_artifacts_and_its_use(name: str) -> None:
    job = job_of(name)
    assert job.usage.count("{}") == 1
    assert job.artifact_names() and not {"model.safetensors", "recipe.toml"} & job.artifact_names()
