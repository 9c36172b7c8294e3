"""`embeddings = "PLACE"` means the same in every job that reads or writes words."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import harken
from harken.data.tokenizers.base import JOINT, load_tokenizer
from harken.embeddings.vectors import WordVectors
from harken.errors import UserError
from harken.recipe import load_recipe
from harken.tasks.pretrained_embeddings import coverage, words_of
from harken.tasks.registry import job_of

RUN = [
    "train.max_epochs=none", "train.max_minutes=none", "train.schedule=constant", "train.warmup_steps=1",
    "train.workers=1", "train.threads=1", "train.device=cpu", "train.precision=float32", "train.checkpoint_every=2",
    "train.max_steps=2", "train.validate_every=10", "train.weight_decay=0.1",
]  # fmt: skip
ENCODER = "model={architecture='recurrent', embedding=16, width=12, layers=1}"
BLOCKS = "model={architecture='transformer', layers=1, width=16, heads=2, feedforward=16}"
BOTH = "model={architecture='recurrent', embedding=16, width=12, tied='output'}"
TABLES: dict[str, tuple[list[str], list[str]]] = {  # recipe: what makes it small, and where its words' vectors are
    "phrasebook-language": ([ENCODER, "data.size=200"], ["embedding.weight"]),
    "phrasebook-masked": ([BLOCKS, "data.size=200"], ["reader.inputs.table.weight"]),
    "phrasebook-tag": ([ENCODER, "data.size=60", "words.character_width=8"], ["reader.inputs.words.table.weight"]),
    "opinions-classify": ([ENCODER, "data.size=100"], ["reader.inputs.table.weight"]),
    "stories-answer": (
        ["model={attention='softmax', hops=1, width=16}", "data.size=60"],
        ["hops.readers.0.words.weight", "hops.readers.1.words.weight"],
    ),
    "phrasebook-elmo": (["model={width=16, character_width=8}", "data.size=80"], ["output.weight"]),
    "phrasebook-attention": ([BOTH, "data.size=200"], ["source_embedding.weight", "target_embedding.weight"]),
    "scenes-caption": (
        ["data={table='TABLE', image_size=16}", "model.channels=[4, 4]", "model.depth=[0, 0]", "model.width=8",
         "model.decoder={architecture='recurrent', embedding=16, width=12}"],
        ["target_embedding.weight"],
    ),
}  # fmt: skip
WORDS = ["the", "a", "of", "la", "good", "mary", "red", "zebra"]
VALUES = np.random.default_rng(3).standard_normal((len(WORDS), 16)).astype(np.float32)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first") / "words"
    WordVectors(WORDS, VALUES).save(folder)
    for number in range(8):
        picture = np.random.default_rng(number).integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(picture).save(folder.parent / f"{number}.png")
    rows = [f"{number}.png,a red thing of the kind {number}" for number in range(8)]
    (folder.parent / "pictures.csv").write_text("\n".join(["image,caption", *rows]) + "\n", encoding="utf-8")
    return folder


def small(name: str, words: Path) -> list[str]:
    return [*RUN, *(one.replace("TABLE", str(words.parent / "pictures.csv")) for one in TABLES[name][0])]


def tables(name: str, words: Path, overrides: list[str], folder: Path) -> tuple[Any, list[Any]]:
    recipe = load_recipe(name, [*small(name, words), *overrides])
    torch.manual_seed(recipe.train.seed)
    prepared = job_of(recipe.task).prepare(recipe, folder, False)
    parameters = dict(prepared.task.model.named_parameters(remove_duplicate=False))  # a tied one has two names
    return prepared, [parameters[place] for place in TABLES[name][1]]


def same_direction(table: torch.Tensor, vectors: np.ndarray) -> list[int]:
    """Which of the vectors have a row in the table that is the vector times one factor for all."""
    rows = table.detach().double().numpy()
    lengths = np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-12)
    cosines = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)) @ (rows / lengths).T
    found = [place for place, row in enumerate(cosines) if row.max() > 1 - 1e-6]
    factors = [float(lengths[cosines[place].argmax(), 0] / np.linalg.norm(vectors[place])) for place in found]
    assert found and max(factors) - min(factors) < 1e-6
    return found


@pytest.mark.parametrize("name", TABLES)
def test_every_job_begins_with_the_vectors_of_the_file(name: str, words: Path, tmp_path: Path) -> None:
    plain, drawn = tables(name, words, [], tmp_path / "plain")
    prepared, pretrained = tables(name, words, [f"embeddings={words}"], tmp_path / "pretrained")
    said = prepared.facts["pretrained embeddings"]
    assert f"initialised from {words}" in said and said.split(";")[0] in "".join(prepared.lines)
    assert "pretrained embeddings" not in plain.facts and not (tmp_path / "plain" / "embeddings.json").exists()
    for before, after in zip(drawn, pretrained, strict=True):
        assert after.requires_grad and same_direction(after, VALUES)
        spread, usual = (float(table.detach()[4:].std()) for table in (after, before))
        assert abs(spread / usual - 1) < 0.3  # vectors are scaled to what the others are drawn with
    if pretrained[0].shape == drawn[0].shape:  # no word was taken in, so the others are drawn alike
        assert torch.equal(pretrained[0][:4], drawn[0][:4])


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_frozen_ones_stay_and_tuned_ones_move(name: str, words: Path, tmp_path: Path) -> None:
    _, pretrained = tables(
        name, words, [f"embeddings.words={words}", "embeddings.tuned=false"], tmp_path / "pretrained"
    )
    assert not any(table.requires_grad for table in pretrained)
    for tuned in (False, True):
        overrides = [*small(name, words), f"embeddings.words={words}", f"embeddings.tuned={str(tuned).lower()}"]
        folder = tmp_path / str(tuned)
        made = harken.train(
            name, folder, overrides=[*overrides, f"train.average={0 if tuned else 0.9}"], progress=False
        )
        found = dict(made.model.named_parameters(remove_duplicate=False))
        for place, first in zip(TABLES[name][1], pretrained, strict=True):
            assert torch.equal(found[place], first) != tuned


@pytest.mark.slow
@pytest.mark.parametrize("name", ["phrasebook-language", "phrasebook-attention"])
def test_resumed_is_uninterrupted_and_needs_no_vectors(name: str, words: Path, tmp_path: Path) -> None:
    shutil.copytree(words, tmp_path / "gone")
    overrides = [
        *small(name, words), f"embeddings.words={tmp_path / 'gone'}", "embeddings.tuned=false", "train.max_steps=4",
    ]  # fmt: skip
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    harken.train(name, whole, overrides=overrides, progress=False)
    harken.train(name, parts, overrides=[*overrides, "train.max_steps=2"], progress=False)
    shutil.rmtree(tmp_path / "gone")
    harken.train(name, parts, overrides=overrides, resume=True, progress=False)
    one, other = (load_file(folder / "checkpoint.safetensors") for folder in (whole, parts))
    assert set(one) == set(other) and all(torch.equal(one[key], other[key]) for key in one)
    cards = [(folder / "card.md").read_text(encoding="utf-8") for folder in (whole, parts)]
    assert all("initialised from" in card and ", frozen" in card for card in cards)
    harken.load(parts)


def test_regression_takes_vectors_and_elmo(words: Path, tmp_path: Path) -> None:
    lines = [{"text": f"the {kind} film of number {n}", "label": n} for n in range(20) for kind in ("good", "dull")]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    small = ["model={width=6, layers=1, character_embedding=5, character_width=8}", "data.size=60"]
    harken.train("phrasebook-elmo", tmp_path / "elmo", overrides=[*RUN, *small], progress=False)
    (tmp_path / "numbers.toml").write_text(
        f'task = "regress"\nembeddings = {{words = "{words}", elmo = "{tmp_path / "elmo"}"}}\n'
        f'[data]\nkind = "text"\ntrain = "{tmp_path / "train.jsonl"}"\nvalid_size = 8\n'
        '[model]\narchitecture = "recurrent"\nembedding = 16\nwidth = 12\n[train]\nmax_steps = 2\n',
        encoding="utf-8",
    )
    made = harken.train(tmp_path / "numbers.toml", tmp_path / "run", overrides=RUN, progress=False)
    assert same_direction(made.model.network.reader.inputs.words.table.weight, VALUES)
    card = (tmp_path / "run" / "card.md").read_text(encoding="utf-8")
    assert "2 frozen layers of" in card and "more are known by their vectors" in card
    again = harken.load(tmp_path / "run")
    text = "the good film of number 3"
    assert np.allclose(made.predict([text]), again.predict([text, "a longer one , of quite another length"])[:1])
    assert "good" in again.attention_figure(text).to_terminal()
    assert again.reading(text)[1] == {"network.reader.encoder": [*text.split(), "</s>"]}


def test_sides_have_their_own_vectors(words: Path, tmp_path: Path) -> None:
    other = np.random.default_rng(4).standard_normal((2, 16)).astype(np.float32)
    WordVectors(["la", "le"], other).save(tmp_path / "french")
    sides = [f"embeddings.source={words}", f"embeddings.target={tmp_path / 'french'}"]
    prepared, (source, target) = tables("phrasebook-attention", words, sides, tmp_path / "run")
    assert same_direction(source, VALUES[:3]) == [0, 1, 2] and same_direction(target, other) == [0, 1]
    assert [line.split(":")[0] for line in prepared.lines[2:4]] == ["source", "target"]
    tied = ["model.tied=all", "tokenizer.joint=true"]
    with pytest.raises(UserError, match=r'embeddings\.source is of one side, but model\.tied = "all" gives both sides'):
        tables("phrasebook-attention", words, [*sides, *tied], tmp_path / "tied")
    one = table_of_both([f"embeddings={words}", *tied], tmp_path)
    assert same_direction(one, VALUES[:4]) == [0, 1, 2, 3]


def table_of_both(overrides: list[str], folder: Path) -> torch.Tensor:
    recipe = load_recipe("phrasebook-attention", [*RUN, *TABLES["phrasebook-attention"][0], *overrides])
    model: Any = job_of(recipe.task).prepare(recipe, folder / "one", False).task.model
    assert model.source_embedding is model.target_embedding
    return model.source_embedding.weight


def test_centred_vectors_lose_what_they_share(words: Path, tmp_path: Path) -> None:
    WordVectors(WORDS, VALUES + 3).save(tmp_path / "shifted")
    overrides = [f"embeddings.words={tmp_path / 'shifted'}", "embeddings.centred=true"]
    _, (table,) = tables("opinions-classify", words, overrides, tmp_path / "run")
    assert same_direction(table, VALUES - VALUES.mean(0)) == list(range(len(WORDS)))


def test_pieces_of_words_have_few(words: Path, tmp_path: Path) -> None:
    overrides = [f"embeddings={words}", "tokenizer.kind=bpe", "tokenizer.size=300"]
    prepared, (table,) = tables("opinions-classify", words, overrides, tmp_path / "bpe")
    assert same_direction(table, VALUES)
    assert "pieces from inside of words have none" in prepared.facts["pretrained embeddings"]
    names = words_of(load_tokenizer(tmp_path / "bpe", JOINT))
    assert names[:4] == [None] * 4 and "the" in names and len(names) == table.shape[0]


def test_what_cannot_be_gets_one_sentence(words: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"vectors of 16 numbers, but model\.embedding is 8; set model\.embedding = 16"):
        tables("phrasebook-language", words, [f"embeddings={words}", "model.embedding=8"], tmp_path / "a")
    with pytest.raises(UserError, match=r"but model\.decoder\.embedding is 8"):
        tables("scenes-caption", words, [f"embeddings={words}", "model.decoder.embedding=8"], tmp_path / "b")
    WordVectors(["ψ", "ω"], VALUES[:2]).save(tmp_path / "greek")
    with pytest.raises(UserError, match=r"none of the [0-9,]+ words of the training text has a vector in"):
        tables("phrasebook-language", words, [f"embeddings={tmp_path / 'greek'}"], tmp_path / "c")
    for name in ("seasons-forecast", "tones-transcribe", "penfont-handwriting"):
        with pytest.raises(UserError, match="embeddings is set, but models of this task read no words"):
            load_recipe(name, [f"embeddings={words}"])
    with pytest.raises(UserError, match=r"embeddings\.words are vectors of words, and signals have none"):
        load_recipe("gestures-classify", [f"embeddings={words}"])
    with pytest.raises(UserError, match=r"embeddings\.elmo .* is not a key of \[embeddings\]"):
        load_recipe("phrasebook-language", ["embeddings.elmo=runs/elmo"])


def test_keys_of_earlier_folders_are_understood() -> None:
    older = ["words.vectors=runs/words", "words.freeze=true", "words.elmo=runs/elmo"]
    found = load_recipe("phrasebook-tag", older).embeddings
    places = [str(Path("runs", name).absolute()) for name in ("words", "elmo")]
    assert (found.words, found.tuned, found.elmo) == (places[0], False, places[1])
    assert load_recipe("opinions-classify", ["classifier.vectors=own"]).embeddings.words == "own"
    assert load_recipe("opinions-classify", ["embeddings=none"]).embeddings.words is None


def test_coverage_is_said_in_words() -> None:
    assert coverage(2, 4, "w", more=3).endswith("(50%) initialised from w; 3 more are known by their vectors")
